func.func @main(%x: tensor<2xf32>, %t: tuple<tensor<2xf32>, tensor<i32>>) -> tensor<2xf32> {
  %0 = stablehlo.get_tuple_element %t[0] : (tuple<tensor<2xf32>, tensor<i32>>) -> tensor<2xf32>
  %1 = stablehlo.tuple %x, %0 : tuple<tensor<2xf32>, tensor<2xf32>>
  return %0 : tensor<2xf32>
}
