module @calls {
  func.func public @main(%x: tensor<?xf32>, %n: tensor<4xi32>) -> (tensor<?xf32>, tensor<i32>) {
    %0 = call @twice(%x) : (tensor<?xf32>) -> tensor<?xf32>
    %1 = call @both(%0) : (tensor<?xf32>) -> tensor<?xf32>
    %c = stablehlo.constant dense<5> : tensor<i32>
    %2 = stablehlo.reduce(%n init: %c) applies stablehlo.add across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
    return %1, %2 : tensor<?xf32>, tensor<i32>
  }
  func.func private @both(%x: tensor<?xf32>) -> tensor<?xf32> {
    %0 = call @twice(%x) : (tensor<?xf32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
  func.func private @twice(%x: tensor<?xf32>) -> tensor<?xf32> {
    %0 = stablehlo.add %x, %x : tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}
