"""ONNX's own samples of its operations, by dyn: ``python -m tests.interop.onnx.nodes [name part]``.

Each is a small model with inputs and outputs, of ``onnx.backend.test``. A sample ends in one of these ways: it is dyn's
with ONNX's results; it is refused in words; or it fails, which none does but those in ``DIFFERENT``, with reasons.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import dyn
import dyn.interop.onnx
from dyn.errors import DynError

#: Samples whose results differ, or that are no functions of tensors, with the reason.
_CORNERS = "the last place is counted by the whole size, as PyTorch and ONNX Runtime do, and not by a fraction of it"
DIFFERENT = {
    "test_resize_downsample_scales_linear_align_corners": _CORNERS,
    "test_resize_downsample_scales_cubic_align_corners": _CORNERS,
}


@dataclass(frozen=True)
class Outcome:
    """How a sample ended: ``right``, ``refused`` or ``failed``, and what was said."""

    name: str
    way: str
    text: str = ""


def samples() -> list[Any]:
    """ONNX's samples of single operations, each once by the operation and once by what that is defined by."""
    from onnx.backend.test import loader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return loader.load_model_tests(kind="node")


def outcome(sample: Any) -> Outcome:
    """A sample, run for each of its data sets with open sizes.

    Where it is refused, vectors and numbers are tried as constants, as models have axes, shapes and scales.
    """
    found = Outcome(sample.name, "right")
    for given, wanted in sample.data_sets:
        given, wanted = [_array(one) for one in given], [_array(one) for one in wanted]
        found = _tried(sample, given, wanted, held=False)
        if found.way == "refused":
            found = _tried(sample, given, wanted, held=True)
        if found.way != "right":
            break
    return found


def _tried(sample: Any, given: Any, wanted: Any, *, held: bool) -> Outcome:
    try:
        model, left = opened(sample.model, given if held else ())
        made: Any = dyn.interop.onnx.load(model)(*[given[n] for n in left])
        made = made if isinstance(made, tuple) else (made,)
        for one, other in zip(made, wanted, strict=True):
            if not same(np.asarray(one), np.asarray(other), sample.rtol, sample.atol):
                return Outcome(sample.name, "failed", f"{_text(one)}, and ONNX has {_text(other)}")
    except DynError as error:
        return Outcome(sample.name, "refused", str(error).splitlines()[0])
    except Exception as error:
        return Outcome(sample.name, "failed", f"{type(error).__name__}: {error}")
    return Outcome(sample.name, "right")


def opened(model: Any, held: Any = ()) -> tuple[Any, list[int]]:
    """A model with open sizes, and the numbers of the inputs that it still has: vectors and numbers are ``held``."""
    import onnx
    import onnx.numpy_helper

    made: Any = onnx.ModelProto()
    made.CopyFrom(model)
    left: list[int] = []
    constants: list[Any] = []
    for number, one in enumerate(made.graph.input):
        value: Any = held[number] if number < len(held) else None
        is_small = isinstance(value, np.ndarray) and value.ndim < 2 and number > 0
        if is_small:
            constants.append(onnx.numpy_helper.from_array(value, one.name))
        else:
            left.append(number)
        for dim in one.type.tensor_type.shape.dim if one.type.HasField("tensor_type") else ():
            dim.Clear()
    inputs = [made.graph.input[number] for number in left]
    del made.graph.input[:]
    made.graph.input.extend(inputs)
    made.graph.initializer.extend(constants)
    return made, left


def same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], rtol: float, atol: float) -> bool:
    """Whether dtypes, shapes and, within ONNX's tolerances or two units of a narrow float, elements are equal."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not dyn.dtypes.dtype(one.dtype).is_inexact:
        return bool(np.array_equal(one, other))
    unit = 2 * float(dyn.numpy.finfo(one.dtype).eps)
    wide = [a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for a in (one, other)]
    return bool(np.allclose(*wide, rtol=max(rtol, unit), atol=max(atol, unit), equal_nan=True))


def _array(value: Any) -> Any:
    """An array that ONNX has as a message, as NumPy has it."""
    import onnx
    import onnx.numpy_helper

    proto: Any = onnx
    return (
        onnx.numpy_helper.to_array(value)
        if isinstance(value, proto.TensorProto)
        else value
        if isinstance(value, list)
        else np.asarray(value)
    )


def _text(array: Any) -> str:
    array = np.asarray(array)
    return f"{array.dtype}{list(array.shape)} {array.ravel()[:6]}"


def outcomes(part: str = "") -> Iterator[Outcome]:
    """All samples whose name has this part."""
    for sample in samples():
        if part in sample.name:
            yield outcome(sample)


if __name__ == "__main__":
    found = list(outcomes(*sys.argv[1:2]))
    for one in found:
        if one.way != "right":
            print(f"{one.name}: {one.way}: {one.text[:180]}")
    print(Counter(one.way for one in found))
