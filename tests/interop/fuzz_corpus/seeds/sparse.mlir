#csr = #sparse_tensor.encoding<{map = (d0, d1) -> (d0 : dense, d1 : compressed)}>
func.func @main(%x: tensor<2x3xf32, #csr>) -> tensor<2x3xf32, #csr> {
  return %x : tensor<2x3xf32, #csr>
}
