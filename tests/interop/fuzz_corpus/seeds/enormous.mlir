func.func @main(%x: tensor<1000000000000xf32>) -> (tensor<1000000000000xf32>, tensor<1000000000000000xi64>) {
  %0 = stablehlo.constant dense<1.0> : tensor<1000000000000xf32>
  %1 = stablehlo.add %x, %0 : tensor<1000000000000xf32>
  %2 = stablehlo.iota dim = 0 : tensor<1000000000000000xi64>
  return %1, %2 : tensor<1000000000000xf32>, tensor<1000000000000000xi64>
}
