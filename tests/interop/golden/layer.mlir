module @layer attributes {jax.uses_shape_polymorphism = true} {
  func.func public @main(%arg0: tensor<?x?xf32> {dyn.dims = "b s"}, %arg1: tensor<?x?xf32> {dyn.dims = "s n"}) -> (tensor<?x?xf32> {jax.result_info = "result[0]"}, tensor<?x?xf32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
    %1 = stablehlo.convert %0 : (tensor<i32>) -> tensor<i64>
    %2 = stablehlo.get_dimension_size %arg0, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
    %3 = stablehlo.convert %2 : (tensor<i32>) -> tensor<i64>
    %4 = stablehlo.get_dimension_size %arg1, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
    %5 = stablehlo.convert %4 : (tensor<i32>) -> tensor<i64>
    %6 = stablehlo.compare EQ, %5, %3, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%6, %5, %3) {api_version = 2 : i32, error_message = "w.shape[0] is {0}, and it must be s = {1}.", has_side_effect = true} : (tensor<i1>, tensor<i64>, tensor<i64>) -> ()
    %7 = stablehlo.get_dimension_size %arg1, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
    %8 = stablehlo.convert %7 : (tensor<i32>) -> tensor<i64>
    %c = stablehlo.constant dense<1> : tensor<i64>
    %9 = stablehlo.compare GE, %3, %c, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%9, %3) {api_version = 2 : i32, error_message = "s >= 1 is required, but s is {0}: the maximum of nothing has no value, and an axis that is reduced is empty.", has_side_effect = true} : (tensor<i1>, tensor<i64>) -> ()
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %10 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<?x?xf32>, tensor<f32>) -> tensor<?xf32>
    %11 = stablehlo.reshape %1 : (tensor<i64>) -> tensor<1xi64>
    %12 = stablehlo.reshape %c : (tensor<i64>) -> tensor<1xi64>
    %13 = stablehlo.concatenate %11, %12, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    %14 = stablehlo.dynamic_reshape %10, %13 : (tensor<?xf32>, tensor<2xi64>) -> tensor<?x1xf32>
    %15 = stablehlo.reshape %1 : (tensor<i64>) -> tensor<1xi64>
    %16 = stablehlo.reshape %3 : (tensor<i64>) -> tensor<1xi64>
    %17 = stablehlo.concatenate %15, %16, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    %18 = stablehlo.dynamic_broadcast_in_dim %14, %17, dims = [0, 1] : (tensor<?x1xf32>, tensor<2xi64>) -> tensor<?x?xf32>
    %19 = stablehlo.subtract %arg0, %18 : tensor<?x?xf32>
    %20 = stablehlo.exponential %19 : tensor<?x?xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%20 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<?x?xf32>, tensor<f32>) -> tensor<?xf32>
    %22 = stablehlo.dynamic_reshape %21, %13 : (tensor<?xf32>, tensor<2xi64>) -> tensor<?x1xf32>
    %23 = stablehlo.dynamic_broadcast_in_dim %22, %17, dims = [0, 1] : (tensor<?x1xf32>, tensor<2xi64>) -> tensor<?x?xf32>
    %24 = stablehlo.divide %20, %23 : tensor<?x?xf32>
    %25 = stablehlo.dot_general %24, %arg1, contracting_dims = [1] x [0] : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<2xi64>
    %c_2 = stablehlo.constant dense<2> : tensor<i64>
    %26 = stablehlo.remainder %1, %c_2 : tensor<i64>
    %27 = stablehlo.divide %1, %c_2 : tensor<i64>
    %28 = stablehlo.reshape %27 : (tensor<i64>) -> tensor<1xi64>
    %29 = stablehlo.reshape %3 : (tensor<i64>) -> tensor<1xi64>
    %30 = stablehlo.concatenate %28, %29, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    %c_3 = stablehlo.constant dense<1> : tensor<2xi64>
    %31 = stablehlo.real_dynamic_slice %arg0, %c_1, %30, %c_3 : (tensor<?x?xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
    return %25, %31 : tensor<?x?xf32>, tensor<?x?xf32>
  }
}
