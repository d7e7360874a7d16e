func.func @main(%x: tensor<3x4xf32>, %p: tensor<i1>, %k: tensor<i32>) -> (tensor<3xf32>, tensor<f32>, tensor<3x4xf32>) {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = "stablehlo.reduce"(%x, %zero) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) {dimensions = array<i64: 1>} : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = "stablehlo.if"(%p) ({
    %t = "stablehlo.case"(%k) ({
      stablehlo.return %zero : tensor<f32>
    }, {
      %e = stablehlo.exponential %zero : tensor<f32>
      stablehlo.return %e : tensor<f32>
    }) : (tensor<i32>) -> tensor<f32>
    stablehlo.return %t : tensor<f32>
  }, {
    stablehlo.return %zero : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  %2:2 = stablehlo.while(%i = %k, %c = %x) : tensor<i32>, tensor<3x4xf32> cond {
    %less = stablehlo.compare LT, %i, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %next = stablehlo.add %i, %one : tensor<i32>
    %double = stablehlo.add %c, %x : tensor<3x4xf32>
    stablehlo.return %next, %double : tensor<i32>, tensor<3x4xf32>
  }
  %3 = "stablehlo.sort"(%2#1) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %l = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %l : tensor<i1>
  }) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0, %1, %3 : tensor<3xf32>, tensor<f32>, tensor<3x4xf32>
}
