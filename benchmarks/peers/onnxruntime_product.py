"""A product of matrices by ONNX Runtime. Captured weights are initializers, which it packs when a session is made."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks.products.product import GROUP, Product
from benchmarks.products.rotation import Rotation


class Peer(Rotation):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        product = Product(**config)
        if product.dtype == "bfloat16":
            raise NotImplementedError("its CPU has no products of bfloat16")
        _set_threads(threads)
        scales = {"scales": params["scales"]} if product.scales else {}
        x = {"x": onnxruntime.OrtValue.ortvalue_from_numpy(params["x"])}
        if product.captured:
            sessions = [_session(product, params["x"], {"w": w, **scales}, {}) for w in params["weights"]]
            calls = [_call(session, x) for session in sessions]
        else:
            session = _session(product, params["x"], {}, {"w": params["weights"][0], **scales})
            given = [{"w": w, **scales} for w in params["weights"]]
            calls = [
                _call(session, x | {k: onnxruntime.OrtValue.ortvalue_from_numpy(v) for k, v in arrays.items()})
                for arrays in given
            ]
        super().__init__(calls, f"onnxruntime {importlib.metadata.version('onnxruntime')}")

    def to_numpy(self, result: Any) -> np.ndarray:
        return super().to_numpy(result[0].numpy())


@functools.cache
def _set_threads(threads: int) -> None:
    """Give the process one pool of threads: a session for each of many weights would have one of its own."""
    onnxruntime.set_global_thread_pool_sizes(threads, 1)


def _call(session: Any, feed: dict[str, Any]) -> Callable[[], Any]:
    return lambda: session.run_with_ort_values(["y"], feed)


def _session(product: Product, x: np.ndarray, constants: dict[str, Any], arguments: dict[str, Any]) -> Any:
    options = onnxruntime.SessionOptions()
    options.use_per_session_threads = False
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in {"x": x, **arguments}.items()
    ]
    dtype = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int32": TensorProto.INT32}
    result = helper.make_tensor_value_info("y", dtype[product.result_dtype], product.result_shape)
    kept = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    if product.scales == "groups":
        kept += [numpy_helper.from_array(np.array(shape), name) for name, shape in _shapes(product).items()]
    graph = helper.make_graph(_nodes(product), "product", inputs, [result], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _shapes(product: Product) -> dict[str, list[int]]:
    return {"in groups": [-1, GROUP, product.columns], "of groups": [-1, 1, product.columns],
            "whole": [product.depth, product.columns]}  # fmt: skip


def _nodes(product: Product) -> list[Any]:
    """The nodes of ``Product.compute``."""
    nodes: list[Any] = []
    left, right = "x", "w"
    axes = [0, 2, 1] if product.batch > 1 else [1, 0]
    if product.scales:
        nodes.append(helper.make_node("Cast", [right], ["float"], to=TensorProto.FLOAT))
        right, scales = "float", "scales"
        if product.scales == "groups":
            nodes.append(helper.make_node("Reshape", [right, "in groups"], ["grouped"]))
            nodes.append(helper.make_node("Reshape", [scales, "of groups"], ["grouped scales"]))
            right, scales = "grouped", "grouped scales"
        nodes.append(helper.make_node("Mul", [right, scales], ["scaled"]))
        right = "scaled"
        if product.scales == "groups":
            nodes.append(helper.make_node("Reshape", [right, "whole"], ["weights"]))
            right = "weights"
    if product.transposed_left:
        nodes.append(helper.make_node("Transpose", [left], ["x.T"], perm=axes))
        left = "x.T"
    if product.transposed_right:
        nodes.append(helper.make_node("Transpose", [right], ["w.T"], perm=axes))
        right = "w.T"
    op = "MatMulInteger" if product.dtype == "int8" else "MatMul"
    return [*nodes, helper.make_node(op, [left, right], ["y"])]
