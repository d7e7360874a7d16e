func.func @main(%x: tensor<2xf32>, %t: !stablehlo.token) -> !stablehlo.token {
  %0 = "stablehlo.outfeed"(%x, %t) <{outfeed_config = ""}> : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
  %1 = stablehlo.after_all %0, %t : !stablehlo.token
  return %1 : !stablehlo.token
}
