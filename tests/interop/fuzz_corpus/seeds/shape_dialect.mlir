func.func @main(%x: tensor<?x4xf32>, %y: tensor<f32>) -> tensor<?x4xf32> {
  %0 = shape.shape_of %x : tensor<?x4xf32> -> tensor<2xindex>
  %1 = stablehlo.dynamic_broadcast_in_dim %y, %0, dims = [] : (tensor<f32>, tensor<2xindex>) -> tensor<?x4xf32>
  %c0 = arith.constant 0 : index
  %2 = tensor.dim %x, %c0 : tensor<?x4xf32>
  %3 = arith.muli %2, %2 : index
  %4 = tensor.from_elements %2, %3 : tensor<2xindex>
  return %1 : tensor<?x4xf32>
}
