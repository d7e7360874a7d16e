"""Dtypes of operands that PyTorch has no kernel for: its kernels are asked, of a few zeros, and their answers are kept.

Fake kernels take more than kernels do, and converters, which promote as NumPy does, more than both: a rectifier of
truth values, a loss of classes that are int32, a batch norm of doubles with weights that are floats. PyTorch raises an
error for each, some by the macro that chooses a kernel, some by hand, and no table of its says for which. It does so at
each call, then: the operation is its own. Kernels of this machine's processor are asked, and no device's.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._dispatch.python import no_python_dispatcher
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_unflatten

from dyn.errors import NotYetError
from dyn.source import user_loc

#: The sizes that a kernel is asked at, one after another until it has no objection to a size: all sizes of all operands
#: are that one, for kernels that are given one place too few for another operand's may write beyond it. Numbers that
#: are greater are it, too.
_SIZES = (3, 2, 1)
#: Operands of one of these alone have kernels in all operations, unless one of them should be truth values.
_ORDINARY = ({torch.float32}, {torch.float64})
_BY_TRUTH_VALUES = ("where", "masked")
#: Operations that take some of their sizes, or the layout of what they are given, on trust.
_TRUSTING = re.compile(
    r"rnn|lstm|gru|pack|fbgemm|quant|_scaled_mm|_int_mm|segment_reduce|ctc|embedding_bag|_fft_|strided"
)
#: What errors about dtypes say, and those about shapes, indices and elements do not.
_ABOUT_DTYPES = re.compile(
    r"not implemented for '|[dD]type|scalar type|data type|integral|Integer division|floating|"
    r"\b[A-Z]\w+Tensor\b|\b(Bool(ean)?|bool|Byte|Char|Short|Int|Long|Half|BFloat16|Float|Double|Complex\w*)\b"
)
#: Whether a kernel refuses operands of such dtypes: not where it took them, nor where it spoke of something else.
_REFUSED: dict[Hashable, bool] = {}


def check_kernel(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise NotYetError where PyTorch's kernel refuses the dtypes of the operands. Not asked are operations of other
    libraries, and those that draw from the process's generator."""
    if not isinstance(func, OpOverload) or func.namespace != "aten" or _TRUSTING.search(func.name()):
        return
    if torch.Tag.nondeterministic_seeded in func.tags:
        if not any(argument.name == "generator" for argument in func._schema.arguments):
            return
        kwargs = {**kwargs, "generator": torch.Generator()}
    check_function(func, args, kwargs)


def check_function(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise NotYetError where PyTorch has no kernel for what a function of its own makes of operands."""
    leaves, tree = tree_flatten((tuple(args), dict(kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    dtypes = dict.fromkeys([tensor.dtype for tensor in tensors])
    if any(tensor.device.type != "cpu" for tensor in tensors):  # what is asked runs, and would be a launch there
        return
    if not dtypes or (set(dtypes) in _ORDINARY and not any(word in str(func) for word in _BY_TRUTH_VALUES)):
        return
    key = (func, tree, *map(_kind, leaves))
    if key not in _REFUSED:
        _REFUSED[key] = _is_refused(func, leaves, tree)
    if _REFUSED[key]:
        raise NotYetError(
            f"{func if isinstance(func, OpOverload) else f'{func.__name__}()'} of {_names(dtypes)}.",
            loc=user_loc(),
            remedy=f"convert the {'operands to one dtype' if len(dtypes) > 1 else 'operand'}.",
        )


def check_written(func: Any, target: torch.Tensor, result: torch.Tensor) -> None:
    """Raise NotYetError where PyTorch does not write a result of one kind of numbers to a tensor of another."""
    if not torch.can_cast(result.dtype, target.dtype):
        raise NotYetError(
            f"{func} writes {_names([result.dtype])} to a tensor of {_names([target.dtype])}.",
            loc=user_loc(),
            remedy="convert the result, or write to a tensor of its dtype.",
        )


def _kind(leaf: Any) -> Hashable:
    """All of an argument that a kernel is chosen by."""
    if isinstance(leaf, torch.Tensor):
        return leaf.dtype, leaf.ndim, leaf.device
    if isinstance(leaf, int | torch.SymInt) and not isinstance(leaf, bool):
        return int, _few(leaf, _SIZES[0])
    return type(leaf), repr(leaf) if isinstance(leaf, bool | float | str | torch.dtype) else None


def _few(number: Any, most: int) -> int:
    return number if isinstance(number, int) and number <= most else most


def _is_refused(func: Any, leaves: Sequence[Any], tree: Any) -> bool:
    """Return True if a kernel speaks of dtypes, at the first size at which it speaks of nothing else.

    Where it has objections to all of these sizes it is not known to take floats of several dtypes: few do.
    """
    with (
        _disable_current_modes(), torch._C.DisableTorchFunction(), no_python_dispatcher(), torch.no_grad(),
        warnings.catch_warnings(),
    ):  # fmt: skip
        warnings.simplefilter("ignore")
        for most in _SIZES:
            args, kwargs = tree_unflatten([_small(leaf, most) for leaf in leaves], tree)
            try:
                func(*args, **kwargs)
            except Exception as error:
                if _ABOUT_DTYPES.search(str(error).partition("\n")[0]):
                    return True
            else:
                return False
    return len({leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()}) > 1


def _small(leaf: Any, most: int) -> Any:
    if isinstance(leaf, torch.Tensor):
        return torch.zeros([most] * leaf.ndim, dtype=leaf.dtype, device=leaf.device)
    if isinstance(leaf, torch.SymFloat):
        return 0.5
    if isinstance(leaf, torch.SymBool):
        return True
    return _few(leaf, most) if isinstance(leaf, int | torch.SymInt) and not isinstance(leaf, bool) else leaf


def _names(dtypes: Iterable[torch.dtype]) -> str:
    return " and ".join([str(dtype).removeprefix("torch.") for dtype in dtypes])
