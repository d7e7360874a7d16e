"""Functions of PyTorch that are called otherwise in a trace, above its own code in C++, which asks for numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import torch
from torch._dispatch.python import no_python_dispatcher
from torch.utils._python_dispatch import _disable_current_modes

from dyn.errors import NotYetError
from dyn.interop.torch import spaces, triangles
from dyn.interop.torch.function_modes import FunctionMode
from dyn.interop.torch.operand_dtypes import check_function
from dyn.interop.torch.python_numbers import number_function
from dyn.interop.torch.sizes import as_dim, asking_frame
from dyn.interop.torch.subclasses import wrappers_in
from dyn.interop.torch.subscripts import subscripted
from dyn.interop.torch.sym_nodes import Environment, by_sizes_lacking
from dyn.interop.torch.tensors import PossibleView, is_traced, record_of
from dyn.shapes import evaluate, free_symbols
from dyn.source import user_loc
from dyn.trace import answered_names

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True


def _equal(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Whether all elements are equal: a truth value that the program knows, and Python does not."""
    return _of_two(*args, **kwargs)


def _of_two(input: Any, other: Any) -> Any:
    if input.dtype != other.dtype:
        raise RuntimeError(f"expected tensors of one dtype, not {input.dtype} and {other.dtype}")
    return input.shape == other.shape and (input == other).all().item()


def _length(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``len(x)``, which the code that asks is given as a size when it is traced again."""
    if is_traced(args[0]) and args[0].ndim and isinstance(args[0].shape[0], torch.SymInt):
        answered_names.ask(asking_frame())
    return func(*args, **kwargs)


answered_names.METHODS.add(torch.Tensor.__len__)
#: Axes of what batch norm takes: examples and features.
_LEAST_AXES = 2


def _batch_norm(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Batch norm, in which PyTorch reads the second size of tensors that have but one, which it must not."""
    names = ("input", "weight", "bias") if func is torch.batch_norm else ("input", "", "", "weight", "bias")
    given = dict(zip(names, args, strict=False)) | kwargs
    x, weight, bias = given.get("input"), given.get("weight"), given.get("bias")
    if not isinstance(x, torch.Tensor) or not is_traced(x) or x.ndim >= _LEAST_AXES:
        return func(*args, **kwargs)
    if x.numel() != 0:
        raise RuntimeError(f"batch_norm takes inputs of {_LEAST_AXES} axes or more, and this has {x.ndim}.")
    scaled = x.clone() if weight is None else x * weight[0]
    return scaled if bias is None else scaled + bias[0]


def _numel(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The number of elements, by the way of PyTorch's that takes symbolic sizes."""
    return torch.numel(*args, **kwargs)


def _all_close(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return torch.isclose(*args, **kwargs).all().item()


def _gaussian_nll_loss(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _of_variances(*args, **kwargs)


def _of_variances(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """PyTorch's loss, where the program demands that variances are not negative: Python would ask for it."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * torch.ones_like(input)
    else:
        torch.ops.aten._assert_async.msg(~(var < 0).any(), "var of gaussian_nll_loss has no negative entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var[..., None]
        elif input.ndim != var.ndim or sum(b for a, b in zip(input.shape, var.shape, strict=True) if a != b) != 1:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    var = var.clone()
    with torch.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def _tensor(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _of_numbers(func, *args, **kwargs)


def _new_tensor(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def like(own: Any, data: Any, **others: Any) -> Any:
        return _of_numbers(
            lambda *_, **__: func(own, data, **others), data, **{"dtype": own.dtype, "device": own.device, **others}
        )

    return like(*args, **kwargs)


def _of_numbers(func: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A tensor of numbers, sizes among them, which PyTorch's own code in C++ asks for the values of."""
    given = dict(zip(("data", "dtype", "device"), args, strict=False)) | kwargs
    data = given["obj"] if "obj" in given else given.get("data")
    leaves, shape = _leaves(data)
    if shape is None or not any(isinstance(one, torch.SymInt | torch.SymFloat) for one in leaves):
        return func(*args, **kwargs)
    dtype = given.get("dtype")
    if dtype is None:
        is_float = any(isinstance(one, float | torch.SymFloat) for one in leaves)
        dtype = torch.get_default_dtype() if is_float else torch.int64
    made = torch.stack([torch.scalar_tensor(one, dtype=dtype, device=given.get("device")) for one in leaves])
    made = made.reshape(shape)
    return made.requires_grad_() if given.get("requires_grad") else made


def _leaves(data: Any) -> tuple[list[Any], list[int] | None]:
    """The numbers in nested lists, with the shape of these; None for what has another form."""
    if isinstance(data, int | float | torch.SymInt | torch.SymFloat):
        return [data], []
    if not isinstance(data, list | tuple) or not data:
        return [], None
    parts = [_leaves(one) for one in data]
    first = parts[0][1]
    if first is None or any(shape != first for _, shape in parts):
        return [], None
    return [leaf for leaves, _ in parts for leaf in leaves], [len(data), *first]


_NEAREST: dict[tuple[str, int], Any] = {
    ("nearest", 3): torch.ops.aten.upsample_nearest1d.default,
    ("nearest", 4): torch.ops.aten.upsample_nearest2d.default,
    ("nearest", 5): torch.ops.aten.upsample_nearest3d.default,
    ("nearest-exact", 3): torch.ops.aten._upsample_nearest_exact1d.default,
    ("nearest-exact", 4): torch.ops.aten._upsample_nearest_exact2d.default,
    ("nearest-exact", 5): torch.ops.aten._upsample_nearest_exact3d.default,
}


def _each(given: Any, rank: int) -> Sequence[Any] | None:
    """Numbers for each axis, of one for all of them."""
    return given if given is None or isinstance(given, list | tuple) else [given] * rank


def _interpolate(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Nearest neighbours by the operation that has a converter: PyTorch writes them for traces by others, whose places
    are not those of its own kernels, and may be one too far.

    Means it writes so, too, where no operation is left whose kernel could be asked for dtypes.
    """
    check_function(func, args, kwargs)

    def interpolated(
        input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None,
        recompute_scale_factor: Any = None, antialias: bool = False,
    ) -> Any:  # fmt: skip
        operation = _NEAREST.get((mode, input.ndim))
        is_one = (size is None) != (scale_factor is None)
        if operation is None or align_corners is not None or antialias or not is_one:
            return func(*args, **kwargs)
        rank = input.ndim - 2
        size, factors = _each(size, rank), _each(scale_factor, rank)
        given = factors if size is None else size
        if given is None or len(given) != rank or (recompute_scale_factor and factors is None):
            return func(*args, **kwargs)
        sizes = size if factors is None else [_scaled(n, s) for n, s in zip(input.size()[2:], factors, strict=True)]
        with no_python_dispatcher():  # which writes it by others before anybody sees it
            return operation(input, sizes, *(() if factors is None or recompute_scale_factor else factors))

    return interpolated(*args, **kwargs)


def _scaled(size: Any, factor: Any) -> Any:
    """A size times a factor, rounded down; a factor that the program finds out is not asked whether it is whole."""
    return (
        size * int(factor)
        if isinstance(factor, int | float) and int(factor) == factor
        else torch.sym_int(size * factor)
    )


class _StraightThrough(torch.autograd.Function):
    """Fake quantization for each channel, and the mask of what is in range: cotangents go through where it is."""

    @staticmethod
    def forward(*args: Any) -> Any:
        return torch.ops.aten.fake_quantize_per_channel_affine_cachemask(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, Any]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        (mask,) = ctx.saved_tensors
        return cotangents[0] * mask, None, None, None, None, None


def _fake_quantize_per_channel(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """PyTorch's own derivative, in C++, asks for the number of elements."""

    def quantized(input: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int) -> Any:
        return _StraightThrough.apply(input, scale, zero_point, axis, quant_min, quant_max)[0]

    return quantized(*args, **kwargs)


_OTHERWISE: dict[Any, Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = {
    torch.Tensor.__getitem__: subscripted,
    torch.Tensor.__setitem__: subscripted,
    torch.tensor: _tensor,
    torch.as_tensor: _tensor,
    torch.asarray: _tensor,
    torch.Tensor.new_tensor: _new_tensor,
    torch.equal: _equal,
    torch.ops.aten.numel: _numel,
    torch.ops.aten.numel.default: _numel,
    torch.Tensor.equal: _equal,
    torch.allclose: _all_close,
    torch.nn.functional.gaussian_nll_loss: _gaussian_nll_loss,
    torch.Tensor.allclose: _all_close,
    torch.nn.functional.interpolate: _interpolate,
    torch.batch_norm: _batch_norm,
    torch.nn.functional.batch_norm: _batch_norm,
    torch.fake_quantize_per_channel_affine: _fake_quantize_per_channel,
    torch.Tensor.__len__: _length,
    torch.Tensor.__int__: number_function("int"),
    torch.Tensor.__float__: number_function("float"),
    torch.linspace: spaces.linspace,
    torch.logspace: spaces.logspace,
    torch.hann_window: spaces.hann_window,
    torch.hamming_window: spaces.hamming_window,
    torch.blackman_window: spaces.blackman_window,
    torch.tril_indices: triangles.tril_indices,
    torch.triu_indices: triangles.triu_indices,
    torch.combinations: triangles.combinations,
}


_CONTIGUOUS = frozenset({torch.Tensor.contiguous})
_RAVEL = frozenset({torch.Tensor.ravel, torch.ravel})
#: Functions whose result is a view or a copy, by the sizes.
_VIEWS_OR_COPIES = frozenset({
    torch.Tensor.reshape, torch.reshape, torch.Tensor.reshape_as, torch.Tensor.flatten, torch.flatten,
    *_RAVEL, *_CONTIGUOUS,
})  # fmt: skip


def _possible_view(func: Any, source: Any, made: Any, kwargs: dict[str, Any]) -> PossibleView:
    """Conditions on sizes under which a copy that PyTorch has made is a view."""
    format = kwargs.get("memory_format", torch.contiguous_format) if func in _CONTIGUOUS | _RAVEL else None
    return PossibleView(record_of(source), format, None if func in _CONTIGUOUS else tuple(made.shape))


def _check_sparse(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise NotYetError for tensors that are sparse, and for what has a sparse gradient."""
    for one in args:
        if isinstance(one, torch.Tensor) and one.layout is not torch.strided:
            raise NotYetError(  # of binary operators PyTorch takes other errors for a TypeError
                f"a tensor of the layout {one.layout}, which the function closes over or makes.",
                loc=user_loc(),
                remedy="compute with it outside of the function, or pass what is dense.",
            )
    if func in _EMBEDDINGS and torch.is_grad_enabled():
        place, of_sparse = _EMBEDDINGS[func]
        weight = args[place] if len(args) > place else kwargs.get("weight")
        is_sparse = args[of_sparse] if len(args) > of_sparse else kwargs.get("sparse", False)
        if is_sparse and isinstance(weight, torch.Tensor) and weight.requires_grad:
            raise NotYetError("a sparse gradient.", loc=user_loc(), remedy="make the embedding with sparse=False.")


#: Functions that may have a sparse gradient, with the places of their tables and of ``sparse``.
_EMBEDDINGS: dict[Any, tuple[int, int]] = {
    torch.nn.functional.embedding: (1, 6),
    torch.embedding: (0, 4),
    torch.nn.functional.embedding_bag: (1, 7),
    torch.embedding_bag: (0, 5),
}
_GRADIENT_FUNCTION: Any = cast(Any, torch.Tensor.grad_fn).__get__
#: Functions that register hooks of tensors, or give what hooks are registered of.
_OF_HOOKS = frozenset({
    torch.Tensor.register_hook, torch.Tensor.register_post_accumulate_grad_hook, _GRADIENT_FUNCTION,
})  # fmt: skip
_PULLS = frozenset({torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad})


def _check_hooked(tensor: Any) -> None:
    """Raise NotYetError where a hook is registered of a tensor from outside, which keeps it after the call."""
    if isinstance(tensor, torch.Tensor) and not is_traced(tensor):
        raise NotYetError(
            "a hook that the function registers of a tensor which it closes over, once more at each call.",
            loc=user_loc(),
            remedy="register it outside of the function.",
        )


class Functions(FunctionMode):
    """While it is active, some functions are called otherwise. It tells of wrappers, and of hooks of tensors."""

    def __init__(
        self, operations: Container[Any], env: Environment, on_wrappers: Callable[[Sequence[torch.Tensor]], None],
        on_hooks: Callable[[], None], pulling: Callable[[Any], AbstractContextManager[None]],
    ) -> None:  # fmt: skip
        super().__init__(operations)
        self._env, self._on_wrappers, self._on_hooks, self._pulling = env, on_wrappers, on_hooks, pulling

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        wrappers = wrappers_in(types, args, kwargs)
        if wrappers:
            self._on_wrappers(wrappers)
        _check_sparse(func, args, kwargs or {})
        if func in _VIEWS_OR_COPIES:
            return self._view_or_copy(func, args, kwargs or {})
        if func in _OF_HOOKS:
            if func is not _GRADIENT_FUNCTION:
                _check_hooked(args[0])
            self._on_hooks()
        elif func in _PULLS:
            with self._pulling(args[0] if args else kwargs):
                return func(*args, **(kwargs or {}))
        otherwise = _OTHERWISE.get(func)
        return self.call(func, args, kwargs or {}) if otherwise is None else otherwise(func, args, kwargs or {})

    def _view_or_copy(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before = self._env.defaults
        with self._env.deciding():
            made = func(*args, **kwargs)
        source = args[0] if args else kwargs.get("input")
        if self._env.defaults > before and is_traced(made) and is_traced(source):
            memories = record_of(source).storage, record_of(made).storage
            if memories[0] is not memories[1]:
                if func not in _CONTIGUOUS and self._is_laid_otherwise(source, made):
                    raise by_sizes_lacking()
                memories[0].may_be(memories[1], _possible_view(func, source, made, kwargs))
        return made

    def _is_laid_otherwise(self, source: Any, copy: Any) -> bool:
        """Whether a copy that was made by a default has other strides than what PyTorch makes in this call."""
        sizes = self._env.trace.sizes
        given = [tuple(map(as_dim, one)) for one in (source.shape, source.stride(), copy.shape, copy.stride())]
        if any(not free_symbols(dim) <= sizes.keys() for dims in given for dim in dims):
            return False
        shape, strides, wanted, found = [[evaluate(dim, sizes) for dim in dims] for dims in given]
        with _disable_current_modes():
            made = torch.empty_strided(shape, strides, device="meta").reshape(wanted)
        return made.numel() > 0 and any(
            size > 1 and a != b for size, a, b in zip(wanted, made.stride(), found, strict=True)
        )
