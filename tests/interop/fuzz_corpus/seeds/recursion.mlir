func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @other(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @other(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @main(%x) : (tensor<f32>) -> tensor<f32>
  %1 = call @other(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
