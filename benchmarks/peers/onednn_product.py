"""A product of matrices by oneDNN, from the wheel ``onednn-cpu-gomp``: its matmul primitive, by its C interface.

Captured weights are reordered once into the layout that the primitive wants; others are read where they lie. Results
are written into one array again and again, where others have new ones. How many threads it has says the environment.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.products.product import Product
from benchmarks.products.rotation import Rotation

_PACKAGE = "onednn-cpu-gomp"
#: Numbers of oneDNN's C header.
_DTYPES = {"float16": 1, "bfloat16": 2, "float32": 3, "int32": 4, "int8": 5}
_CPU, _ANY_LAYOUT, _WEIGHTS_LAYOUT = 1, 1, 131
_SOURCE, _TO, _WEIGHTS = 1, 17, 33
_UNIMPLEMENTED = 3
_Pointer = ctypes.c_void_p
_Dims = ctypes.c_int64 * 12


class Peer(Rotation):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        product = Product(**config)
        if product.scales:
            raise NotImplementedError("this version has no weights with scales")
        library = _OneDnn()
        # What is no dtype of NumPy's own is kept as its bits are: oneDNN is told what they mean.
        result = np.empty(product.result_shape, _numpys(product.result_dtype))
        x = library.description(params["x"], product.dtype, product.transposed_left)
        y = library.description(result, product.result_dtype, False)
        plain = library.description(params["weights"][0], product.dtype, product.transposed_right)
        wanted = library.any_layout(plain) if product.captured else plain
        primitive, layout = library.matmul(x, wanted, y)
        source, to = library.memory(x, params["x"]), library.memory(y, result)
        calls: list[Callable[[], np.ndarray]] = []
        for w in params["weights"]:
            weights = library.memory(plain, w)
            if product.captured:
                weights = library.reordered(plain, layout, weights)
            calls.append(library.call(primitive, {_SOURCE: source, _WEIGHTS: weights, _TO: to}, result))
        self._arrays = params, result
        super().__init__(calls, f"oneDNN {importlib.metadata.version(_PACKAGE)}")

    def to_numpy(self, result: Any) -> np.ndarray:
        if result.dtype == np.uint16:  # bfloat16 is the first half of a float32
            return (result.astype(np.uint32) << 16).view(np.float32)
        return super().to_numpy(result)


def _numpys(dtype: str) -> type[np.generic]:
    return {"bfloat16": np.uint16, "float16": np.float16, "int32": np.int32}.get(dtype, np.float32)


class _Argument(ctypes.Structure):
    _fields_ = [("what", ctypes.c_int), ("memory", _Pointer)]  # ctypes wants it so


class _OneDnn:
    """The library, an engine and a stream. What is made of it is never given back: the process ends soon."""

    def __init__(self) -> None:
        self._library = _LIBRARY
        self._engine, self._stream = _Pointer(), _Pointer()
        self._do("engine_create", ctypes.byref(self._engine), ctypes.c_int(_CPU), ctypes.c_size_t(0))
        self._do("stream_create", ctypes.byref(self._stream), self._engine, ctypes.c_uint(1))

    def _do(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, f"dnnl_{name}")(*arguments)
        if status == _UNIMPLEMENTED:
            raise NotImplementedError("it has no such product on this processor")
        if status != 0:
            raise RuntimeError(f"dnnl_{name} ended with {status}.")

    def description(self, array: np.ndarray, dtype: str, transposed: bool) -> tuple[Any, tuple[int, ...], str]:
        """A description of a matrix as a product's operand, with its sizes and dtype."""
        sizes = list(array.shape)
        strides = [int(np.prod(sizes[axis + 1 :])) for axis in range(len(sizes))]
        if transposed:
            sizes[-2:], strides[-2:] = sizes[:-3:-1], strides[:-3:-1]
        made = _Pointer()
        self._do("memory_desc_create_with_strides", ctypes.byref(made), len(sizes), _Dims(*sizes),
                 _DTYPES[dtype], _Dims(*strides))  # fmt: skip
        return made, tuple(sizes), dtype

    def any_layout(self, like: tuple[Any, tuple[int, ...], str]) -> tuple[Any, tuple[int, ...], str]:
        """A description of the same operand that leaves its layout to the primitive."""
        _, sizes, dtype = like
        made = _Pointer()
        self._do("memory_desc_create_with_tag", ctypes.byref(made), len(sizes), _Dims(*sizes), _DTYPES[dtype],
                 _ANY_LAYOUT)  # fmt: skip
        return made, sizes, dtype

    def matmul(self, x: tuple[Any, ...], w: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, Any]:
        """The primitive, and the layout of weights that it wants."""
        description = _Pointer()
        self._do("matmul_primitive_desc_create", ctypes.byref(description), self._engine, x[0], w[0], None, y[0], None)
        query = self._library.dnnl_primitive_desc_query_md
        query.restype = _Pointer
        return self._primitive(description), _Pointer(query(description, ctypes.c_int(_WEIGHTS_LAYOUT), 0))

    def _primitive(self, description: Any) -> Any:
        made = _Pointer()
        self._do("primitive_create", ctypes.byref(made), description)
        return made

    def memory(self, description: tuple[Any, ...], array: np.ndarray) -> Any:
        return self._memory(description[0], array.ctypes.data)

    def _memory(self, layout: Any, address: int) -> Any:
        made = _Pointer()
        self._do("memory_create", ctypes.byref(made), layout, self._engine, _Pointer(address))
        return made

    def reordered(self, plain: tuple[Any, ...], layout: Any, weights: Any) -> Any:
        """The weights in another layout, in memory of oneDNN's own."""
        all_ones = ctypes.c_size_t(-1).value  # DNNL_MEMORY_ALLOCATE
        to, description = self._memory(layout, all_ones), _Pointer()
        self._do("reorder_primitive_desc_create", ctypes.byref(description), plain[0], self._engine, layout,
                 self._engine, None)  # fmt: skip
        self.call(self._primitive(description), {_SOURCE: weights, _TO: to}, None)()
        return to

    def call(self, primitive: Any, memories: dict[int, Any], result: Any) -> Callable[[], Any]:
        arguments = (_Argument * len(memories))(*[_Argument(what, memory) for what, memory in memories.items()])
        execute, stream, count = self._library.dnnl_primitive_execute, self._stream, len(memories)

        def call() -> Any:
            if execute(primitive, stream, count, arguments) != 0:
                raise RuntimeError("dnnl_primitive_execute failed.")
            return result

        return call


def _load() -> ctypes.CDLL:
    try:
        files = importlib.metadata.files(_PACKAGE) or ()
    except importlib.metadata.PackageNotFoundError as error:
        raise ModuleNotFoundError(f"No package named '{_PACKAGE}'") from error
    (path,) = (file for file in files if file.name == "libdnnl.so.3")
    return ctypes.CDLL(str(path.locate()))


_LIBRARY = _load()
