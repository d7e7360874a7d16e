"""torch-mlir's end-to-end cases, from a checkout of its sources: each run by PyTorch, run on dyn, and compared.

A case is a module, made by its factory, and an invoker, which calls it with inputs; annotations say which sizes of
them a compiler is not to know. torch-mlir's compiler packages are not needed: stubs are in their place, and in the
place of TorchVision's operators where its library cannot be loaded, as that for GPUs cannot without a driver.
"""

from __future__ import annotations

import copy
import importlib
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map

import dyn.interop.torch as dyn_torch
from dyn.frontend.fallback import Piece
from tests.interop.torch.opinfo_samples import PASSED, REFUSED_BY_PYTORCH, WRONG, compared

#: Where the cases lie in a checkout, and their package.
FOLDER, PACKAGE = "projects/pt1/python", "torch_mlir_e2e_test"
#: The kinds of outcomes, beside those of PyTorch's samples: the right results, in part or whole by eager PyTorch; the
#: right ones by more programs than one; an error of dyn's.
FALLBACK, PROGRAMS, FAILED = "fallback", "programs", "failed"
KINDS = (PASSED, PROGRAMS, FALLBACK, *WRONG, FAILED, "crashed", "hung", REFUSED_BY_PYTORCH)
#: The relative and absolute tolerances of results: torch-mlir's, whose absolute one, 1e-7, is less than what sums of
#: another order differ by.
_ALLOWED = (1e-3, 1e-5)
#: The case that tests torch-mlir's own time limit: a loop without an end.
_NEVER_ENDS = {"TimeOutModule_basic"}


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of one case: its kind and why; ``sizes`` that it was run at and the ``programs`` that they took;
    ``fallbacks``, each an operation (``calls`` for whole ones) and the reason."""

    suite: str
    name: str
    kind: str
    reason: str = ""
    sizes: int = 0
    programs: int = 0
    fallbacks: list[tuple[str, str]] = field(default_factory=list)
    is_random: bool = False
    seconds: float = 0.0


@lru_cache(maxsize=1)
def cases(checkout: str) -> dict[str, Any]:
    """The cases of a checkout by their names, in the order of their files; of files that cannot be imported, none."""
    _put_stubs()
    sys.path.insert(0, str(Path(checkout) / FOLDER))
    registry = importlib.import_module(f"{PACKAGE}.registry").GLOBAL_TEST_REGISTRY
    for name in suites(checkout):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                importlib.import_module(f"{PACKAGE}.test_suite.{name}")
            except ImportError as error:
                print(f"{name}.py is left out: {error}", file=sys.stderr)
    return {case.unique_name: case for case in registry if case.unique_name not in _NEVER_ENDS}


def suites(checkout: str) -> list[str]:
    """The files of cases."""
    files = (Path(checkout) / FOLDER / PACKAGE / "test_suite").glob("*.py")
    return sorted([file.stem for file in files if file.stem != "__init__"])


def suite_of(case: Any) -> str:
    """The file that a case stands in."""
    return case.program_invoker.__module__.rpartition(".")[2]


def _put_stubs() -> None:
    """Stubs for torch-mlir's compiler packages, and the operators that its own libraries define."""
    version = types.ModuleType("torch_mlir._version")
    version.version = lambda text: tuple([int(part) for part in text.split(".")[:2]])  # pyright: ignore[reportAttributeAccessIssue]
    version.torch_version_for_comparison = lambda: version.version(torch.__version__)  # pyright: ignore[reportAttributeAccessIssue]
    processes = types.ModuleType("multiprocess")
    processes.set_start_method = lambda method: None  # pyright: ignore[reportAttributeAccessIssue]
    sys.modules |= {
        "torch_mlir": types.ModuleType("torch_mlir"),
        "torch_mlir._version": version,
        "torch_mlir._torch_mlir_custom_op_example": types.ModuleType("torch_mlir._torch_mlir_custom_op_example"),
        "multiprocess": processes,
    }
    _define("_torch_mlir_custom_op_example", "identity(Tensor t) -> Tensor", torch.clone, "CompositeExplicitAutograd")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            importlib.import_module("torchvision")
        except ImportError:
            return
        except RuntimeError:  # its operators are in a library that did not load, and their fake kernels need them
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            _define("torchvision", f"nms{schema}", _nms)
            _define("torchvision", f"qnms{schema}", _nms)
            extension: Any = importlib.import_module("torchvision.extension")
            extension._has_ops = lambda: True


#: Operators last as long as the libraries that define them.
_LIBRARIES: list[Any] = []


def _define(library: str, schema: str, function: Callable[..., Any], kind: str = "CPU") -> None:
    if hasattr(getattr(torch.ops, library), schema.partition("(")[0]):  # for another checkout
        return
    made = torch.library.Library(library, "FRAGMENT")
    made.define(schema)
    made.impl(schema.partition("(")[0], function, kind)
    _LIBRARIES.append(made)


def _nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """The boxes that no box of a higher score overlaps by more than ``iou_threshold``."""
    left: list[int] = scores.sort(descending=True, stable=True).indices.tolist()
    kept: list[int] = []
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    while left:
        first = left.pop(0)
        kept.append(first)
        low, high = torch.maximum(boxes[first, :2], boxes[:, :2]), torch.minimum(boxes[first, 2:], boxes[:, 2:])
        both = (high - low).clamp(min=0).prod(1)
        overlap = both / (area[first] + area - both)
        left = [one for one in left if overlap[one] <= iou_threshold]
    return torch.tensor(kept, dtype=torch.int64)


@dataclass(frozen=True)
class Call:
    """One call that an invoker makes: the path to the method, arguments, and the axes of sizes left open."""

    path: tuple[str, ...]
    arguments: tuple[Any, ...]
    open_axes: tuple[frozenset[int], ...]


class Recorder:
    """A module as an invoker is given it: its calls are made by eager PyTorch, and noted."""

    def __init__(self, wrapped: Any, path: tuple[str, ...], calls: list[Call]) -> None:
        self._wrapped, self._path, self._calls = wrapped, path, calls

    def __call__(self, *arguments: Any) -> Any:
        annotations = getattr(self._wrapped, "_torch_mlir_arg_annotations", [None])[1:]
        annotations += [None] * (len(arguments) - len(annotations))
        open_axes = [
            frozenset() if one is None else frozenset([axis for axis, size in enumerate(one[0]) if size == -1])
            for one in annotations
        ]
        self._calls.append(Call(self._path, tree_map(copied, arguments), tuple(open_axes)))
        return self._wrapped(*arguments)

    def __getattr__(self, name: str) -> Any:
        return Recorder(getattr(self._wrapped, name), (*self._path, name), self._calls)


def copied(value: Any) -> Any:
    """A tensor with the same elements and strides and memory of its own; others as they are."""
    return (
        copy.deepcopy(value.detach()).requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value
    )


def recorded(case: Any) -> list[Call]:
    """The calls of a case. Raises what eager PyTorch does."""
    calls: list[Call] = []
    test_utils = importlib.import_module(f"{PACKAGE}.framework").TestUtils
    module = _made(case)
    case.program_invoker(Recorder(module, (), calls), test_utils())
    return calls


def _made(case: Any) -> Any:
    """The module of a case, which is the same each time."""
    torch.manual_seed(0)
    return case.program_factory()


#: Ways to change the sizes that annotations leave open, the same size alike wherever it stands; 1 stays, for it may
#: be a size that is broadcast.
_RESIZES: Sequence[Callable[[int], int]] = (
    lambda size: size if size <= 1 else size + 1,
    lambda size: size if size <= 1 else 2 * size,
    lambda size: size if size <= 2 else size - 1,
    lambda size: 3 * size + 1,
)
#: And where tensors have many elements.
_RESIZES_OF_MANY: Sequence[Callable[[int], int]] = (
    lambda size: size if size <= 2 else size // 2,
    lambda size: size if size <= 2 else size // 3 + 1,
)
_MANY = 1 << 22
#: So many other sizes are tried.
_OTHER_SIZES = 2


def resized(call: Call) -> Iterator[Call]:
    """The call at other sizes, where annotations leave some open."""
    if not any(call.open_axes):
        return
    most = max([one.numel() for one in call.arguments if isinstance(one, torch.Tensor)], default=0)
    for resize in _RESIZES if most < _MANY else _RESIZES_OF_MANY:
        leaves = [_grown(one, axes, resize) for one, axes in zip(call.arguments, call.open_axes, strict=True)]
        yield Call(call.path, tuple(leaves), call.open_axes)


def _grown(value: Any, axes: frozenset[int], resize: Callable[[int], int]) -> Any:
    """A tensor with other sizes along some axes: of its own elements, so that indices stay in range, of which floats
    that come again differ a little, so that the place of a maximum stays determined; what was sorted stays so."""
    if not isinstance(value, torch.Tensor):
        return value
    made, is_new = value.detach(), torch.zeros(value.shape, dtype=torch.bool)
    for axis in axes:
        if axis >= value.ndim:  # some invokers pass a number where a list is annotated
            continue
        size = value.shape[axis]
        at = torch.arange(resize(size)) % max(size, 1)
        if size == 0:
            continue
        new = (torch.arange(resize(size)) >= size).reshape(-1, *[1] * (value.ndim - axis - 1))
        made, is_new = made.index_select(axis, at), is_new.index_select(axis, at) | new
    if made.dtype in (torch.float32, torch.float64):
        noise = 1 + torch.rand(made.shape, generator=torch.Generator().manual_seed(7), dtype=made.dtype) / 64
        made = torch.where(is_new, made * noise, made)
    if value.ndim == 1 and value.numel() > 1 and not value.dtype.is_complex and bool((value[1:] >= value[:-1]).all()):
        made = made.sort().values  # the limits of buckets, or of segments
    return made.contiguous().requires_grad_(value.requires_grad)


def _method(module: Any, path: Sequence[str]) -> Any:
    for name in path:
        module = getattr(module, name)
    return module


def _ran(function: Any, call: Call, seed: int, module: Any) -> Any:
    """The results of a call, the arguments afterwards, and the module's buffers."""
    arguments = tree_map(copied, call.arguments)
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = function(*arguments)
    state: Mapping[str, Any] = dict(module.named_buffers()) if isinstance(module, torch.nn.Module) else {}
    return tree_map(_still, (results, arguments, {name: one.clone() for name, one in state.items()}))


def _still(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    return value.int_repr() if value.is_quantized else value


def outcome(case: Any) -> CaseOutcome:
    """The outcome of a case, by one compiled function for each method that it calls."""
    name, suite = case.unique_name, suite_of(case)
    try:
        calls = recorded(case)
        own, other = _made(case), _made(case)
        functions = {call.path: _jitted(other, call.path) for call in calls}
    except Exception as error:
        return CaseOutcome(suite, name, REFUSED_BY_PYTORCH, _line(error))
    differences: list[tuple[str, str]] = []
    sizes, is_random = 0, False
    for call in calls:
        for number, variant in enumerate([call, *resized(call)]):
            if number > 0 and sizes > _OTHER_SIZES:
                break
            seeded = [copy.deepcopy(own) for _ in range(2)]
            try:
                wanted = _ran(_method(own, call.path), variant, 0, own)
            except Exception as error:
                if number == 0:
                    return CaseOutcome(suite, name, REFUSED_BY_PYTORCH, _line(error))
                continue
            random = any(
                compared(wanted, _ran(_method(one, call.path), variant, seed, one), (-1.0, -1.0)) is not None
                for seed, one in enumerate(seeded, 1)
            )
            sizes, is_random = sizes + 1, is_random or random
            try:
                found = _ran(functions[call.path], variant, 0, other)
            except Exception as error:
                return CaseOutcome(
                    suite, name, FAILED, f"{variant_text(variant)}{_line(error)}", sizes, is_random=is_random
                )
            difference = compared(wanted, found, None if random else _ALLOWED)
            if difference is not None:
                differences.append((difference[0], f"{variant_text(variant)}{difference[1]}"))
    return _judged(suite, name, differences, sizes, is_random, list(functions.values()))


def variant_text(call: Call) -> str:
    """The sizes of a call, for a reason."""
    shapes = [tuple(one.shape) for one in call.arguments if isinstance(one, torch.Tensor)]
    return f"{', '.join(map(str, shapes))}: "


def _jitted(module: Any, path: Sequence[str]) -> Any:
    if path == ("forward",):
        return dyn_torch.jit(module)
    return dyn_torch.jit(_method(module, path))


def _judged(
    suite: str, name: str, differences: Sequence[tuple[str, str]], sizes: int, is_random: bool, functions: Sequence[Any]
) -> CaseOutcome:
    fallbacks: list[tuple[str, str]] = []
    for function in functions:
        for said in sorted(function.fallbacks.said, key=str):
            fallbacks.append((said.operation, said.reason) if isinstance(said, Piece) else ("calls", said.reason))
    programs = sum(function.cache_info().compiles for function in functions)
    kind, reason = min(differences, key=lambda one: WRONG.index(one[0]), default=(PASSED, ""))
    if kind == PASSED and fallbacks:
        kind, reason = FALLBACK, "; ".join([f"{what}: {why}" for what, why in fallbacks])[:300]
    elif kind == PASSED and programs > len(functions):
        kind, reason = PROGRAMS, f"{programs} programs for {sizes} sizes"
    return CaseOutcome(suite, name, kind, reason, sizes, programs, fallbacks, is_random)


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
