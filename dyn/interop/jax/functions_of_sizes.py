"""Functions of JAX's whose Python counts, recurses or branches by a size: written for sizes that are symbols.

JAX writes them for numbers: a binary search by as many steps as the size has bits, a scan that halves its array, a
window of one element. Here each is one program for all sizes, with JAX's formula where that says how elements are
rounded. :data:`FUNCTIONS` says where JAX looks them up; each is JAX's own wherever no size of this thread's trace is in
question.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from dyn.interop.jax.internals import is_weakly_typed_scalar, required

#: Its functions are called in the places of JAX's, which they call: frames of theirs are as JAX's (dyn.tracebacks).
IN_PLACES_OF_JAX = True

#: A function of JAX's, and one that does as it does for symbolic sizes: of that function, and then of its arguments.
Written = Callable[..., Any]


def is_symbolic(size: Any) -> bool:
    return bool(required("jax._src.core", "is_symbolic_dim")(size))


def jax_modules() -> tuple[Any, Any]:
    return required("jax.numpy"), required("jax.lax")


def _max(a: Any, b: Any) -> Any:
    return required("jax._src.core", "max_dim")(a, b)


def _min(a: Any, b: Any) -> Any:
    return required("jax._src.core", "min_dim")(a, b)


def with_names(own: Any, **names: Any) -> Any:
    """A function of JAX's in which some names of its module's mean something else."""
    made = FunctionType(own.__code__, {**own.__globals__, **names}, own.__name__, own.__defaults__, own.__closure__)
    made.__kwdefaults__ = own.__kwdefaults__
    return made


class RenamedModule:
    """A module of JAX's with other functions under some of its names."""

    def __init__(self, module: Any, **functions: Any) -> None:
        self._module = module
        self.__dict__.update(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


# ---- searches --------------------------------------------------------------------------------------------------------


def searchsorted(own: Written, a: Any, v: Any, /, **options: Any) -> Any:
    """A binary search of as many steps as the size has bits, which the program counts."""
    if not is_symbolic(a.shape[0]) or options.get("batch_dims") or options.get("dimension"):
        return own(a, v, **options)
    jnp, lax = jax_modules()
    internals: Any = required("jax._src.lax.lax")
    # A place left of equal elements is found by comparing with "<=", one right of them by "<".
    before = internals._sort_le_comparator if options["side"] == "left" else internals._sort_lt_comparator
    count = jnp.asarray(a.shape[0], jnp.uint32)
    steps = (32 - lax.clz(count)).astype(jnp.int32)

    def step(_: Any, bounds: Any) -> Any:
        low, high = bounds
        middle = low + (high - low) // 2
        goes_left = before(v, a[middle])
        return jnp.where(goes_left, low, middle), jnp.where(goes_left, middle, high)

    start = jnp.zeros(v.shape, jnp.uint32), jnp.broadcast_to(count, v.shape)
    return lax.fori_loop(0, steps, step, start)[1].astype(options["dtype"])


# ---- convolutions ----------------------------------------------------------------------------------------------------


def convolution(
    own: Written, x: Any, y: Any, mode: str, op: str, precision: Any, preferred_element_type: Any = None
) -> Any:
    """Of which one is the longer is asked: the shorter one is the kernel."""
    if not (x.ndim == y.ndim == 1 and (is_symbolic(x.shape[0]) or is_symbolic(y.shape[0]))):
        return own(x, y, mode, op, precision, preferred_element_type)
    jnp, lax = jax_modules()
    util: Any = required("jax._src.numpy.util")
    promote = util.promote_dtypes_inexact if preferred_element_type is None else util.promote_dtypes
    x, y = promote(x, y)
    turned = False
    y = jnp.conj(y) if op == "correlate" else y
    if x.shape[0] < y.shape[0]:
        x, y, turned = y, x, op == "correlate"
    y = jnp.flip(y) if op == "convolve" else y
    size = y.shape[0]
    low, high = {"valid": (0, 0), "same": (size // 2, size - size // 2 - 1), "full": (size - 1, size - 1)}[mode]
    x = jnp.concatenate([jnp.zeros(low, x.dtype), x, jnp.zeros(high, x.dtype)])  # by numbers alone would JAX pad
    made = lax.conv_general_dilated(
        x[None, None, :], y[None, None, :], (1,), "VALID", precision=precision,
        preferred_element_type=preferred_element_type,
    )[0, 0]  # fmt: skip
    return jnp.flip(made) if turned else made


def convolution_of_any_kind(own: Written, *args: Any, **kwargs: Any) -> Any:
    """JAX has a rule for paddings that are symbols, and makes them itself; gradients' ask for integers."""
    given = inspect.signature(own).bind(*args, **kwargs)
    given.apply_defaults()
    options = given.arguments
    pads = options["padding"]
    if isinstance(pads, str) or not any(is_symbolic(size) for pair in pads for size in pair):
        return own(*args, **kwargs)
    made: Any = required("jax._src.lax.convolution", "conv_general_dilated_p")
    lax: Any = required("jax._src.lax.lax")
    lhs, rhs = options.pop("lhs"), options.pop("rhs")
    ones = (1,) * (lhs.ndim - 2)
    options["dimension_numbers"] = required("jax.lax").conv_dimension_numbers(
        lhs.shape, rhs.shape, options["dimension_numbers"]
    )
    for name in ("window_strides", "lhs_dilation", "rhs_dilation"):
        options[name] = ones if options[name] is None else tuple(options[name])
    options["padding"] = tuple([tuple(pair) for pair in pads])
    options["precision"] = lax.canonicalize_precision(options["precision"])
    return made.bind(lhs, rhs, **options)


# ---- scans and loops -------------------------------------------------------------------------------------------------


def associative_scan(own: Written, fn: Any, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """One element after the other; sums, products, greatest and least elements by ``lax.cumsum`` and its kin."""
    jax: Any = required("jax")
    leaves = jax.tree.leaves(elems)
    if not leaves or not -leaves[0].ndim <= axis < leaves[0].ndim or not is_symbolic(leaves[0].shape[axis]):
        return own(fn, elems, reverse=reverse, axis=axis)
    if not all(leaf.shape[axis] == leaves[0].shape[axis] for leaf in leaves):
        return own(fn, elems, reverse=reverse, axis=axis)
    jnp, lax = jax_modules()
    # Weak numbers are weak again where there is one of them, and nowhere else.
    if any(jax.typeof(leaf).weak_type for leaf in leaves) and leaves[0].shape[axis] == 1:
        return elems
    at = axis % leaves[0].ndim
    cumulative = {
        lax.cumsum: (jnp.add, lax.add, operator.add), lax.cumprod: (jnp.multiply, lax.mul, operator.mul),
        lax.cummax: (jnp.maximum, lax.max), lax.cummin: (jnp.minimum, lax.min),
    }  # fmt: skip

    def strong(array: Any) -> Any:
        return lax.convert_element_type(array, array.dtype)

    for running, names in cumulative.items():
        if any(fn is name for name in names) and all(leaf.dtype.kind != "b" for leaf in leaves):
            made = jax.tree.map(functools.partial(running, axis=at, reverse=reverse), elems)
            return jax.tree.map(strong, made)
    rows = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, at, 0), elems)

    def wide(row: Any) -> Any:  # the function is one of stretches along the axis: here of one element
        return jax.tree.map(lambda leaf: jnp.expand_dims(leaf, at), row)

    def step(carry: Any, given: Any) -> Any:
        is_first, row = given
        joined = jax.tree.map(lambda leaf: jnp.squeeze(leaf, at), fn(wide(carry), wide(row)))
        made = jax.tree.map(lambda new, first: jnp.where(is_first, first, new), joined, row)
        return made, made

    count = leaves[0].shape[at]
    is_first = jnp.arange(count) == (count - 1 if reverse else 0)
    start = jax.tree.map(lambda leaf: leaf[-1 if reverse else 0], rows)
    _, made = lax.scan(step, start, (is_first, rows), reverse=reverse)
    return jax.tree.map(lambda leaf: strong(jnp.moveaxis(leaf, 0, at)), made)


def scan(
    own: Written, f: Any, init: Any, xs: Any = None, length: Any = None, reverse: bool = False, unroll: Any = 1,
    _split_transpose: bool = False,
) -> Any:  # fmt: skip
    """Steps are not written out where nobody knows how many there are. A number of steps is that of their numbers."""
    jax: Any = required("jax")
    leaves = jax.tree.leaves(xs)
    sizes = [leaf.shape[0] for leaf in leaves if getattr(leaf, "shape", ())]
    options = {"reverse": reverse, "unroll": unroll, "_split_transpose": _split_transpose}
    if not any(map(is_symbolic, [length, *sizes])):
        return own(f, init, xs, length=length, **options)
    options["unroll"] = 1
    if not leaves and is_symbolic(length):
        return own(lambda carry, _: f(carry, xs), init, jax.numpy.arange(length), **options)
    is_said = is_symbolic(length) and all(size == length for size in sizes)
    return own(f, init, xs, length=None if is_said else length, **options)


def fori_loop(own: Written, lower: Any, upper: Any, body_fun: Any, init_val: Any, **options: Any) -> Any:
    """A scan, which has a gradient, where JAX knows no number of steps."""
    if not (is_symbolic(lower) or is_symbolic(upper)):
        return own(lower, upper, body_fun, init_val, **options)
    core: Any = required("jax._src.core")
    if not all(is_symbolic(one) or core.is_constant_dim(one) for one in (lower, upper)):
        return own(lower, upper, body_fun, init_val, **options)
    jnp, lax = jax_modules()

    def step(carry: Any, _: Any) -> Any:
        number, value = carry
        return (number + 1, body_fun(number, value)), None

    start = jnp.asarray(lower) if is_symbolic(lower) else int(lower)  # as JAX has it for any type of numbers
    return lax.scan(step, (start, init_val), jnp.arange(_max(upper - lower, 0)))[0][1]


# ---- numbers and collectives -----------------------------------------------------------------------------------------


def constant(own: Written, example: Any, val: Any) -> Any:
    """A size, as a number of the type of another."""
    if not is_symbolic(val):
        return own(example, val)
    dtypes, lax = required("jax._src.dtypes"), required("jax._src.lax.lax")
    is_weak = is_weakly_typed_scalar(example)
    return lax._convert_element_type(val, dtypes.dtype(example), weak_type=is_weak)


def all_reduced(own: Written, prim: Any, pos_fn: Any, ctx: Any, arg: Any, *, axes: Any, axis_index_groups: Any) -> Any:
    """Over the examples of ``vmap`` alone it is a reduction, whose result has the shape that JAX found."""
    (given,) = ctx.avals_in
    if not any(map(is_symbolic, given.shape)) or not all(isinstance(axis, int) for axis in axes):
        return own(prim, pos_fn, ctx, arg, axes=axes, axis_index_groups=axis_index_groups)
    lower: Any = required("jax._src.interpreters.mlir", "lower_fun")
    return lower(pos_fn, multiple_results=False)(ctx.replace(primitive=None), arg, axes=tuple(axes))


def axis_size(own: Written, axis_name: Any, axis_index_groups: Any = None, /) -> Any:
    """The number of examples of ``vmap`` stays a size; JAX's is a sum of ones."""
    sizes: Any = required("jax._src.core").get_axis_env().axis_sizes
    names = axis_name if isinstance(axis_name, tuple | list) else (axis_name,)
    found = [sizes.get(name) for name in names]
    if axis_index_groups is not None or None in found or not any(map(is_symbolic, found)):
        return own(axis_name, axis_index_groups)
    return math.prod(found)


# ---- polynomials -----------------------------------------------------------------------------------------------------


def polyfit(own: Written, x: Any, y: Any, deg: Any, rcond: Any = None, *args: Any, **options: Any) -> Any:
    """The cut at small singular values, which is a number times the size, is one of the program's numbers."""
    if rcond is not None or not any(map(is_symbolic, getattr(x, "shape", ()))):
        return own(x, y, deg, rcond, *args, **options)
    core: Any = required("jax._src.core")

    def number(force: Any, value: Any, context: str = "") -> Any:
        return value if force is float else core.concrete_or_error(force, value, context)

    return with_names(own, core=RenamedModule(core, concrete_or_error=number))(x, y, deg, rcond, *args, **options)


# ---- windows and spaces ----------------------------------------------------------------------------------------------


def window(own: Written, M: Any, *rest: Any, **options: Any) -> Any:  # NumPy's name
    """A window of one element is 1; of others it is JAX's."""
    if not is_symbolic(M):
        return own(M, *rest, **options)
    jnp, _ = jax_modules()
    made = own(_max(M, 2), *rest, **options)[:M]
    return jnp.where(jnp.asarray(M) > 1, made, 1)


def linspace(own: Written, start: Any, stop: Any, num: Any = 50, *rest: Any, **options: Any) -> Any:
    """Of one place it is the first."""
    names = ("endpoint", "retstep", "dtype", "axis")
    given = {**dict(zip(names, rest, strict=False)), **options}
    if not is_symbolic(num) or given.get("retstep") or given.get("axis", 0) != 0:
        return own(start, stop, num, *rest, **options)
    if given.get("endpoint", True):
        return own(start, stop, _max(num, 2), **given)[:num]
    return own(start, stop, num, **given)


# ---- parts and places ------------------------------------------------------------------------------------------------


def split(own: Written, op: str, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Of parts as nearly of one size as can be, the first are greater by one, as many as there are left over."""
    is_count = isinstance(indices_or_sections, int | required("numpy").integer)
    if op != "array_split" or not is_count or not is_symbolic(ary.shape[axis]):
        return own(op, ary, indices_or_sections, axis)
    indices_or_sections = int(indices_or_sections)
    _, lax = jax_modules()
    each, left = divmod(ary.shape[axis], indices_or_sections)
    if isinstance(left, int):
        return own(op, ary, indices_or_sections, axis)
    ends = [each * n + _min(left, n) for n in range(indices_or_sections + 1)]
    ends[-1] = ary.shape[axis]
    return [lax.slice_in_dim(ary, low, high, axis=axis) for low, high in itertools.pairwise(ends)]


def indices(own: Written, given: Any, shape: Any) -> Any:
    """A size that is an index is one of the program's numbers."""
    jnp, _ = jax_modules()
    return own(tuple([jnp.asarray(one) if is_symbolic(one) else one for one in given]), shape)


def stack(own: Written, operands: Sequence[Any], axis: int = 0) -> Any:
    """JAX finds equal shapes by their hashes, and so only those that are written alike."""
    shapes = [operand.shape for operand in operands]
    if not any(is_symbolic(size) for shape in shapes for size in shape) or len({*map(str, shapes)}) == 1:
        return own(operands, axis)
    first, *others = shapes
    if not all(len(one) == len(first) and all(a == b for a, b in zip(first, one, strict=True)) for one in others):
        return own(operands, axis)
    _, lax = jax_modules()
    at = axis % (len(first) + 1)
    return lax.concatenate([lax.expand_dims(operand, (at,)) for operand in operands], at)


def squeeze(own: Written, a: Any, axis: Any) -> Any:
    """Whether a size is 1 is asked."""
    if axis is None and any(map(is_symbolic, a.shape)):
        axis = tuple([n for n, size in enumerate(a.shape) if size == 1])
    return own(a, axis)


def pad_by_wrapping(own: Written, array: Any, pad_width: Sequence[Sequence[Any]]) -> Any:
    """Elements by their places, counted around."""
    if not any(map(is_symbolic, array.shape)):
        return own(array, pad_width)
    jnp, _ = jax_modules()
    for axis, (low, high) in enumerate(pad_width):
        size = array.shape[axis]
        places = (jnp.arange(low + size + high) - low) % jnp.asarray(size)
        array = jnp.take(array, places, axis=axis)
    return array


def window_mask(own: Written, T: Any, S: Any, local_window_size: Any) -> Any:  # JAX's names
    """The places that each place sees."""
    if not (is_symbolic(T) or is_symbolic(S)):
        return own(T, S, local_window_size)
    jnp, _ = jax_modules()
    query, key = jnp.arange(T)[:, None], jnp.arange(S)[None, :]
    left, right = local_window_size
    return jnp.logical_and(query >= key - right, query <= key + left)[None, None, :, :]


#: JAX sorts by random keys of 32 bits so often that no two elements are likely to have had equal keys each time.
_EXPONENT = 3


def shuffle(own: Written, key: Any, x: Any, axis: int) -> Any:
    """A random order by sorts, whose number is all that is asked of the size."""
    if not any(map(is_symbolic, x.shape)):
        return own(key, x, axis)
    numpy: Any = required("numpy")
    core: Any = required("jax._src.random.core")
    _, lax = jax_modules()
    rounds, bits = 1, float(numpy.log(numpy.iinfo(numpy.uint32).max))
    while x.size > int(numpy.exp(rounds * bits / _EXPONENT)):
        rounds += 1
    for _ in range(rounds):
        key, own_key = core._split(key)
        _, x = lax.sort_key_val(core._random_bits(own_key, 32, x.shape), x, axis)
    return x


def detrend(
    own: Written, data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: Any = None
) -> Any:
    """The line through all places is taken off; lines between breakpoints are JAX's."""
    jnp, lax = jax_modules()
    array = jnp.asarray(data)
    if type != "linear" or bp != 0 or not is_symbolic(array.shape[axis]):
        return own(data, axis=axis, type=type, bp=bp, overwrite_data=overwrite_data)
    array = array if array.dtype.kind in "fc" else array.astype(float)
    count = array.shape[axis]
    rows = jnp.moveaxis(array, axis, 0)
    flat = rows.reshape(count, -1)
    places = jnp.arange(1, count + 1, dtype=flat.dtype) / jnp.asarray(count, flat.dtype)
    lines = jnp.vstack([jnp.ones(count, dtype=flat.dtype), places]).T
    slopes, *_ = jnp.linalg.lstsq(lines, flat)
    flat = flat - jnp.matmul(lines, slopes, precision=lax.Precision.HIGHEST)
    return jnp.moveaxis(flat.reshape(rows.shape), 0, axis)


def dtype_of_places(own: Written, dim: Any, **options: Any) -> Any:
    """Integers of 32 bits where they have all places, which is asked."""
    if not is_symbolic(dim) or not required("jax").config.jax_enable_x64:
        return own(dim, **options)
    return own(1 if dim <= 2**31 - 1 else 2**31, **options)


_WINDOWS = ("bartlett", "blackman", "hamming", "hanning", "kaiser")
_NUMPY, _LOOPS = "jax._src.numpy.lax_numpy", "jax._src.lax.control_flow.loops"
#: The functions, by where JAX has them, and what does each for symbolic sizes.
FUNCTIONS: Sequence[tuple[str, str, Written]] = (
    ("jax._src.numpy.hijax", "searchsorted_via_expand", searchsorted),
    (_NUMPY, "_conv", convolution), ("jax._src.lax.convolution", "conv_general_dilated", convolution_of_any_kind),
    ("jax._src.numpy.indexing", "_parse_indices", indices), (_NUMPY, "_split", split), (_NUMPY, "_squeeze", squeeze),
    (_NUMPY, "_pad_wrap", pad_by_wrapping), ("jax._src.numpy.array_creation", "linspace", linspace),
    ("jax._src.nn.functions", "_get_window_mask", window_mask), ("jax._src.random.core", "_shuffle", shuffle),
    ("jax._src.scipy.signal", "detrend", detrend), (_LOOPS, "associative_scan", associative_scan),
    (_LOOPS, "fori_loop", fori_loop), (_LOOPS, "scan", scan),
    ("jax._src.lax.parallel", "_allreduce_lowering", all_reduced),
    ("jax._src.lax.parallel", "_axis_size", axis_size), ("jax._src.numpy.polynomial", "polyfit", polyfit),
    ("jax._src.lax.lax", "_const", constant),
    ("jax._src.lax.utils", "int_dtype_for_dim", dtype_of_places), ("jax._src.lax.lax", "stack", stack),
    *[("jax._src.numpy.window_functions", name, window) for name in _WINDOWS],
)  # fmt: skip
