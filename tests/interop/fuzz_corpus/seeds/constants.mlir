func.func @main() -> (tensor<2x3xf32>, tensor<4xi8>, tensor<2xi1>, tensor<3xbf16>, tensor<2xcomplex<f64>>, tensor<1000000xf64>) {
  %0 = stablehlo.constant dense<[[1.0, -0.0, 0x7FC00000], [0x7F800000, 1.0e-40, 3.4e38]]> : tensor<2x3xf32>
  %1 = stablehlo.constant dense<"0x01027FFF"> : tensor<4xi8>
  %2 = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %3 = stablehlo.constant dense<[1.5, 0x7FC0, -2.0]> : tensor<3xbf16>
  %4 = stablehlo.constant dense<[(1.0, 2.0), (-0.0, 0.0)]> : tensor<2xcomplex<f64>>
  %5 = stablehlo.constant dense<7.0> : tensor<1000000xf64>
  return %0, %1, %2, %3, %4, %5 : tensor<2x3xf32>, tensor<4xi8>, tensor<2xi1>, tensor<3xbf16>, tensor<2xcomplex<f64>>, tensor<1000000xf64>
}
