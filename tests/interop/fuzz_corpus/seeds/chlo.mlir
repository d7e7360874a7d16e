func.func @main(%x: tensor<?x3xf32>, %z: tensor<2xcomplex<f32>>) -> (tensor<?x3xf32>, tensor<2xcomplex<f32>>, tensor<2xf32>) {
  %0 = chlo.erf %x : tensor<?x3xf32> -> tensor<?x3xf32>
  %1 = chlo.bessel_i1e %0 : tensor<?x3xf32> -> tensor<?x3xf32>
  %2 = chlo.tan %z : tensor<2xcomplex<f32>> -> tensor<2xcomplex<f32>>
  %c = stablehlo.constant dense<[1.0, -0.0]> : tensor<2xf32>
  %3 = chlo.polygamma %c, %c : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  return %1, %2, %3 : tensor<?x3xf32>, tensor<2xcomplex<f32>>, tensor<2xf32>
}
