#loc1 = loc("model.py":7:3)
module @located attributes {mhlo.num_partitions = 1 : i32} {
  func.func @main(%x: tensor<2xf32> {jax.arg_info = "x"} loc("x"(#loc1))) -> (tensor<2xf32> {jax.result_info = "y"}) {
    %0 = stablehlo.custom_call @Sharding(%x) {backend_config = "", mhlo.sharding = "{replicated}"} : (tensor<2xf32>) -> tensor<2xf32> loc(callsite("f"(#loc1) at "g.py":1:2))
    %1 = stablehlo.composite "my.twice" %0 {composite_attributes = {n = 3 : i64}, decomposition = @twice} : (tensor<2xf32>) -> tensor<2xf32> loc(fused<"a">[#loc1, "b"])
    return %1 : tensor<2xf32>
  }
  func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %x, %x : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
