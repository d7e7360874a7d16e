func.func @main(%x: tensor<?x?xf32>, %n: tensor<i32>) -> tensor<?xf32> {
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
  %1 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
  %2 = stablehlo.multiply %0, %1 : tensor<i32>
  %3 = stablehlo.constant dense<2> : tensor<i32>
  %ok = stablehlo.compare GE, %0, %3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%ok, %0) {api_version = 2 : i32, error_message = "{0} is too small", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
  %4 = stablehlo.reshape %2 : (tensor<i32>) -> tensor<1xi32>
  %5 = stablehlo.dynamic_reshape %x, %4 : (tensor<?x?xf32>, tensor<1xi32>) -> tensor<?xf32>
  %6 = stablehlo.divide %2, %3 : tensor<i32>
  %7 = stablehlo.remainder %6, %3 : tensor<i32>
  %8 = stablehlo.maximum %6, %7 : tensor<i32>
  %9 = stablehlo.reshape %8 : (tensor<i32>) -> tensor<1xi32>
  %10 = stablehlo.constant dense<0> : tensor<1xi32>
  %11 = stablehlo.constant dense<1> : tensor<1xi32>
  %12 = stablehlo.real_dynamic_slice %5, %10, %9, %11 : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
  return %12 : tensor<?xf32>
}
