"""Random programs of the public functions, as the text of Python functions.

A program is grown while it is traced: each step is tried on the tracers that there are, so that ranks and dtypes are
known without another account of what every function makes of them, and steps that are refused are left out. What stays
is text, which is what ``jit`` gets, and what someone who looks for a bug wants to read.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import ArgumentError, NotYetError, ShapeError, TraceError
from dyn.numpy._indexing.getitem import scatter_update
from dyn.trace.function import LeafSpec, trace_function
from dyn.trace.tracer import Tracer
from tests.models import random_ops, raw_ops
from tests.models.random_regions import control, transformed
from tests.models.random_transforms import Step, make_steps

Array = np.ndarray[Any, Any]
Sizes = dict[str, int]

#: What the text of a program may name.
NAMES: dict[str, Any] = {"dyn": dyn, "dnp": dnp, "scatter_update": scatter_update, **raw_ops.NAMES}
#: What a function may say to a trace that asks for too much.
REFUSALS = (ShapeError, TraceError, NotYetError, ArgumentError)
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
SIZES = (0, 1, 2, 7, 33, 130)
#: More elements than this a value shall not have.
LARGEST = 40_000


@dataclass(frozen=True)
class Argument:
    """A parameter: its dtype, its axes (a name or a size each), and how its memory lies."""

    name: str
    dtype: DType
    axes: tuple[int | str, ...]
    layout: str

    @property
    def declared(self) -> str:
        return " ".join(map(str, self.axes))

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[a] if isinstance(a, str) else a for a in self.axes)


@dataclass(frozen=True)
class Program:
    """A function's text, its arguments, and the sizes at which it is called, in their order."""

    arguments: tuple[Argument, ...]
    steps: tuple[str, ...]
    results: tuple[str, ...]
    declared: bool
    special: bool
    calls: tuple[Sizes, ...]
    seed: int

    @property
    def text(self) -> str:
        body = [*self.steps, f"return {', '.join(self.results)},"]
        head = f"def program({', '.join(a.name for a in self.arguments)}):"
        return "\n".join([head, *(f"    {line}" for line in body)]) + "\n"

    def __repr__(self) -> str:
        told = [f"{a.name}: {a.dtype.name}[{a.declared}] {a.layout}" for a in self.arguments]
        how = f"declared={self.declared} special={self.special} seed={self.seed} calls={list(self.calls)}"
        return f"\n{self.text}# {'; '.join(told)}\n# {how}\n"

    def function(self) -> Callable[..., Any]:
        """The Python function, with lines that a report can show."""
        name = f"<program {abs(hash(self.text))}>"
        linecache.cache[name] = (len(self.text), None, self.text.splitlines(True), name)
        space = dict(NAMES)
        exec(compile(self.text, name, "exec"), space)
        return space["program"]

    def jitted(self) -> dyn.Jitted:
        """The function under ``dyn.jit``; declared or not, each size of a name is the same in a call."""
        if not self.declared:
            return dyn.jit(self.function())
        return dyn.jit(self.function(), shapes=", ".join(a.declared or "()" for a in self.arguments))

    def data(self, sizes: Sizes) -> list[Array]:
        """The arrays of a call."""
        return [
            laid_out(values(a, a.shape(sizes), self.seed + place, self.special), a.layout)
            for place, a in enumerate(self.arguments)
        ]


# ---- data ------------------------------------------------------------------------------------------------------------

LAYOUTS = ("C", "C", "C", "F", "backwards", "stepped", "swapped", "stretched", "unaligned")


def values(argument: Argument, shape: tuple[int, ...], seed: int, special: bool) -> Array:
    """Small numbers of both signs, whole and not; with ``special`` the ends of integers, NaN, inf and -0.0 too."""
    rng = np.random.default_rng([seed, *shape])
    element = argument.dtype
    if element.kind.name == "BOOL":
        return rng.random(shape) < 0.5
    odd = rng.random(shape) < 0.12
    if element.is_integer:
        info = np.iinfo(element.np)
        found = rng.integers(max(info.min, -5), 9, shape).astype(element.np)
        ends = rng.choice(np.array([info.min, info.max, info.max - 1, 64, 31], element.np), shape)
        return np.where(odd, ends, found) if special else found
    parts: list[Array] = []
    for _ in range(2 if element.kind.name == "COMPLEX" else 1):
        part = np.where(rng.random(shape) < 0.3, rng.integers(-3, 4, shape), rng.normal(0, 2, shape))
        if special:
            part = np.where(odd, rng.choice(np.array([np.nan, np.inf, -np.inf, -0.0, 1e-30, 300.0]), shape), part)
        parts.append(part)
    if len(parts) == 1:
        return parts[0].astype(element.np)
    whole = np.empty(shape, np.complex128)
    whole.real, whole.imag = parts
    return whole.astype(element.np)


def laid_out(array: Array, layout: str) -> Array:
    """The same elements (but ``stretched``: those of the first place of an axis, everywhere), in another layout."""
    if layout == "F":
        return np.array(array, order="F")
    if layout == "swapped" and array.dtype.isbuiltin == 1:
        return array.astype(array.dtype.newbyteorder("S"))
    if layout == "unaligned":
        raw = np.empty(array.nbytes + 1, np.uint8)
        odd = raw[1:].view(array.dtype).reshape(array.shape)
        odd[...] = array
        return odd
    if array.ndim == 0 or array.size == 0:
        return array
    if layout == "backwards":
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    if layout == "stepped":
        wide = np.zeros((*array.shape[:-1], 3 * array.shape[-1]), array.dtype)
        wide[..., 1::3] = array
        return wide[..., 1::3]
    if layout == "stretched":
        return np.broadcast_to(array[:1], array.shape)
    return array


# ---- programs --------------------------------------------------------------------------------------------------------


def make_program(random: Random, *, most: int = 8) -> Program:
    """A program of 2 to ``most`` steps. What it is depends on ``random`` alone."""
    arguments = tuple(_argument(random, number) for number in range(random.randint(1, 3)))
    steps: list[str] = []
    made: list[str] = []
    wanted = random.randint(2, most)

    def grow(tracers: list[Tracer]) -> Any:
        pool: dict[str, Tracer] = {a.name: t for a, t in zip(arguments, tracers, strict=True)}
        for _ in range(4 * wanted):
            if len(made) == wanted:
                break
            name = f"v{len(made)}"
            expression = random.choice(random.choice(FAMILIES))(Chooser(random, pool, made))
            if expression is None:
                continue
            try:
                value = eval(expression, {**NAMES, **pool})
            except REFUSALS:
                continue
            pool[name] = value
            steps.append(f"{name} = {expression}")
            made.append(name)
        return tracers[0]

    leaves = [LeafSpec(a.name, a.dtype, a.axes) for a in arguments]
    while True:
        try:
            trace_function(grow, "program", leaves)
            break
        except REFUSALS:  # a region that could run at no size, which is seen at the end: another program then
            steps.clear()
            made.clear()
    return Program(
        arguments, tuple(steps), _results(random, made), random.random() < 0.6, random.random() < 0.3,
        _calls(random, arguments), random.randint(0, 10_000),
    )  # fmt: skip


def _argument(random: Random, number: int) -> Argument:
    rank = random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))
    axes = tuple(random.choice(("n", "n", "m", "k", 1, 2, 3, 5)) for _ in range(rank))
    if number and random.random() < 0.3:
        axes = ("n", "m")[: random.randint(1, 2)]
    dtype = random.choice((*DTYPES, "float32", "float32", "float64"))
    return Argument("xyz"[number], dtypes.dtype(dtype), axes, random.choice(LAYOUTS))


def _results(random: Random, made: list[str]) -> tuple[str, ...]:
    if not made:
        return ("x",)
    others = [name for name in made[:-1] if random.random() < 0.25]
    return (*others, made[-1])


def _calls(random: Random, arguments: tuple[Argument, ...]) -> tuple[Sizes, ...]:
    names = sorted({axis for a in arguments for axis in a.axes if isinstance(axis, str)})
    calls: list[Sizes] = []
    same = random.sample(SIZES[:-1], 5)
    for size in (*same, *random.choices(SIZES, k=3)):
        sizes = {name: size if len(calls) < 4 else random.choice(SIZES) for name in names}
        if all(math.prod(a.shape(sizes)) <= LARGEST for a in arguments) and sizes not in calls:
            calls.append(sizes)
    return tuple(calls)


# ---- steps -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chooser:
    """Draws operands and options for a step from what there is."""

    random: Random
    pool: dict[str, Tracer]
    made: list[str]
    #: How many functions of the program the step stands in.
    depth: int = 0

    def one(self, *options: Any) -> Any:
        return self.random.choice(options)

    def value(self, keep: Callable[[Tracer], bool] = lambda _: True) -> str | None:
        """The name of a value for which ``keep`` holds, rather a late one."""
        names = [name for name, tracer in self.pool.items() if keep(tracer)]
        if not names:
            return None
        if self.random.random() < 0.6:
            return names[-1]
        return self.random.choice(names)

    def rank(self, name: str) -> int:
        return self.pool[name].ndim

    def dtype(self, name: str) -> DType:
        return self.pool[name].element_type

    def axis(self, name: str) -> int:
        rank = self.rank(name)
        return self.random.randrange(-rank, rank) if rank else 0

    def peer(self, name: str) -> str:
        """An operand to stand beside a value: a value of like rank, or a number."""
        kind = self.dtype(name)
        if self.random.random() < 0.25:
            if kind.is_integer or kind.kind.name == "BOOL":
                return str(self.one(0, 1, 2, 3, 7, True))
            return str(self.one(0, 1, -2, 0.5, 3.25, -1.5))
        near = [o for o, t in self.pool.items() if abs(t.ndim - self.rank(name)) <= 1]
        return self.random.choice(near or [name])

    def indices(self, name: str, size: int = 4) -> str:
        """An integer array: a value, what can be made from one, or a literal."""
        other = self.value(lambda t: t.element_type.is_integer and t.ndim <= 2)
        if other is not None and self.random.random() < 0.6:
            return other
        some = [self.random.randint(-1, 1) for _ in range(self.random.randint(0, size))]
        number = self.value(lambda t: t.ndim == 1)
        if number is not None and self.random.random() < 0.5:
            return f"dnp.arange({number}.shape[0]) {self.one('* 2 - 1', '// 2', '% 3', '- 3')}"
        return f"dnp.asarray({some}, dtype='{self.one('int64', 'int32', 'uint8' if min(some, default=0) >= 0 else 'int8')}')"  # noqa: E501


def _unary(names: str) -> Step:
    options = names.split()

    def step(c: Chooser) -> str | None:
        return f"{c.one(*options)}({c.value()})"

    return step


def _binary(names: str) -> Step:
    options = names.split()

    def step(c: Chooser) -> str | None:
        x = c.value()
        if x is None:
            return None
        pair = [x, c.peer(x)]
        if c.random.random() < 0.3:
            pair.reverse()
        if not any(p in c.pool for p in pair):
            return None
        return f"{c.one(*options)}({', '.join(pair)})"

    return step


def _along(names: str, *, keep: bool = True, empty: bool = True) -> Step:
    """Functions of an axis, perhaps of several, with ``keepdims`` and, where there may be nothing, without."""
    options = names.split()

    def step(c: Chooser) -> str | None:
        x = c.value(lambda t: t.ndim > 0)
        if x is None:
            return None
        axis: Any = c.axis(x)
        if empty and keep and c.random.random() < 0.25:
            axis = c.one(None, tuple(range(c.rank(x))), (0,), tuple({0, c.rank(x) - 1}))
        more = ", keepdims=True" if keep and c.random.random() < 0.4 else ""
        return f"{c.one(*options)}({x}, axis={axis}{more})"

    return step


def _extreme(c: Chooser) -> str | None:
    """Of an axis that may have size 0 a greatest element has to be given."""
    x = c.value(lambda t: t.ndim > 0)
    if x is None:
        return None
    initial = c.one("", "", ", initial=0", ", initial=3")
    return f"dnp.{c.one('max', 'min')}({x}, axis={c.axis(x)}, keepdims={c.one(True, False)}{initial})"


def _where(c: Chooser) -> str | None:
    x = c.value()
    if x is None:
        return None
    condition = c.value(lambda t: t.element_type.kind.name == "BOOL") or f"({x} == {x})"
    y = c.peer(x)
    return c.one(
        f"dnp.where({condition}, {x}, {y})", f"dnp.where({condition}, {y}, {x})", f"dnp.clip({x}, {y}, 3)",
        f"dnp.clip({x}, -1, {c.one(2, 5, 'None')})", f"dnp.nan_to_num({x})",
        f"dnp.select([{condition}, {x} == 1], [{x}, {y}], 0)", f"dnp.isclose({x}, {y})",
        f"dnp.sum({x}, where={condition})",
    )  # fmt: skip


def cast(c: Chooser) -> str | None:
    return f"dnp.astype({c.value()}, '{c.one(*DTYPES)}')"


def _move(c: Chooser) -> str | None:
    x = c.value(lambda t: t.ndim > 0)
    if x is None:
        return None
    rank, axis = c.rank(x), c.axis(x)
    order = list(range(rank))
    c.random.shuffle(order)
    return c.one(
        f"dnp.transpose({x}, {tuple(order)})", f"dnp.swapaxes({x}, {axis}, {c.axis(x)})", f"{x}.T",
        f"dnp.moveaxis({x}, {axis}, {c.axis(x)})", f"dnp.expand_dims({x}, {axis})", f"dnp.ravel({x})",
        f"dnp.flip({x}, {axis})", f"dnp.flip({x})", f"dnp.roll({x}, {c.one(1, -2, 3, 40)}, {axis})",
        f"dnp.roll({x}, {c.one(1, -2)})", f"dnp.reshape({x}, (-1, 1))", f"dnp.reshape({x}, (1, -1))",
        f"dnp.reshape({x}, (*{x}.shape[1:], {x}.shape[0]))", f"dnp.rot90({x})", f"dnp.tril({x})", f"dnp.triu({x}, 1)",
        f"dnp.reshape({x}, ({x}.shape[0], -1))", f"dnp.reshape({x}, ({x}.size // {x}.shape[-1], {x}.shape[-1]))",
        f"dnp.squeeze({x})", f"dnp.diagonal({x})", f"dnp.diag({x})", f"dnp.atleast_2d({x})", f"{x}.mT",
        f"dnp.broadcast_to({x}, ({c.one(1, 2, 3)}, *{x}.shape))", f"{x}[None]", f"{x}[..., None, :]",
    )  # fmt: skip


def _slice(c: Chooser) -> str | None:
    x = c.value(lambda t: t.ndim > 0)
    if x is None:
        return None
    rank = c.rank(x)
    parts = [
        c.one(
            ":", ":", "1:", ":-1", "::2", "::-1", "1::3", ":3", "-2:", "5:2:-1", "-1::-2", ":0", f":{x}.shape[0] // 2"
        )
        for _ in range(c.random.randint(1, rank))
    ]
    if c.random.random() < 0.2:
        parts[0] = c.one("...", "None", "0:1", "-1:")
    return f"{x}[{', '.join(parts)}]"


def _join(c: Chooser) -> str | None:
    x = c.value()
    if x is None:
        return None
    y = c.value(lambda t: t.ndim == c.rank(x)) or x
    axis = c.axis(x)
    return c.one(
        f"dnp.concatenate([{x}, {y}], axis={axis})", f"dnp.concatenate([{x}, {x}, {y}], axis={axis})",
        f"dnp.stack([{x}, {y}], axis={axis})", f"dnp.stack([{x}, {x}], axis=-1)", f"dnp.hstack([{x}, {y}])",
        f"dnp.pad({x}, {c.one(0, 1, (0, 2), (3, 1))})", f"dnp.pad({x}, 1, constant_values={c.one(1, 3)})",
        f"dnp.pad({x}, 1, mode='{c.one('edge', 'reflect', 'symmetric', 'wrap')}')",
        f"dnp.tile({x}, {c.one(2, (2, 1), (1, 3))})", f"dnp.repeat({x}, {c.one(1, 2, 3)}, axis={axis})",
        f"dnp.diff({x}, axis={axis})", f"dnp.meshgrid({x}, {y})[0]", f"dnp.vstack([{x}, {y}])",
    )  # fmt: skip


def _take(c: Chooser) -> str | None:
    x = c.value(lambda t: t.ndim > 0)
    if x is None:
        return None
    index, axis = c.indices(x), c.axis(x)
    number = c.value(lambda t: t.element_type.is_integer and t.ndim == 0) or c.one("0", "-1")
    return c.one(
        f"dnp.take({x}, {index}, axis={axis})", f"dnp.take({x}, {index}, axis={axis}, mode='{c.one('clip', 'wrap')}')",
        f"dnp.take({x}, {index})", f"{x}[{index}]", f"{x}[..., {index}]", f"{x}[{index}, ..., 0:]", f"{x}[{index}, ::-1]",  # noqa: E501
        f"dnp.take_along_axis({x}, {index}, axis={axis})",
        f"dnp.take_along_axis({x}, dnp.argsort({x}, axis={axis}), axis={axis})",
        f"{x}[{number}]", f"{x}[..., {number}]", f"{x}[:, {number}]", f"dyn.nn.one_hot({index}, 4)",
        f"{x}[{index}, {index}]",
    )  # fmt: skip


def _scatter(c: Chooser) -> str | None:
    x = c.value(lambda t: t.ndim > 0)
    if x is None:
        return None
    index, y = c.indices(x), c.value()
    combine = c.one("replace", "add", "add", "multiply", "maximum", "minimum")
    place = c.one(index, f"(Ellipsis, {index})", "slice(1, None)", "slice(None, None, 2)", f"({index}, slice(None))", "0",  # noqa: E501
                  "slice(None, None, -1)", f"({index}, {index})")  # fmt: skip
    update = c.one("1", y, f"{x}[{place}]", f"{x}[{place}]")
    return f"scatter_update({x}, {place}, {update}, '{combine}')"


def _contract(c: Chooser) -> str | None:
    x = c.value(lambda t: 1 <= t.ndim <= 3)
    if x is None:
        return None
    y = c.value(lambda t: 1 <= t.ndim <= 3) or x
    labels = "abc"[: c.rank(x)]
    matrix, row = f"dnp.reshape({x}, ({x}.shape[0], -1))", f"dnp.ravel({x})"
    return c.one(
        f"{x} @ {y}", f"dnp.dot({x}, {y})", f"dnp.matmul({matrix}, {matrix}.T)", f"{matrix}.T @ {matrix}",
        f"dnp.inner({x}, {x})", f"dnp.vdot({x}, {x})", f"dnp.outer({row}, {y})", f"dnp.dot({row}, {row})",
        f"dnp.tensordot({x}, {y}, 1)", f"dnp.einsum('{labels},{labels}->{labels[0]}', {x}, {x})",
        f"dnp.einsum('{labels}->{labels[::-1]}', {x})", f"dnp.einsum('{labels},{labels[:-1]}z->{labels[-1]}z', {x}, {y})",  # noqa: E501
        f"dnp.einsum('...a,...b->...', {x}, {x})", f"dnp.matmul({x}, {x}.mT)", f"dnp.trace({x})",
        f"dnp.vecdot({x}, {x})", f"dyn.nn.linear({matrix}, {matrix}.T, {matrix}[:, 0])",
    )  # fmt: skip


def _window(c: Chooser) -> str | None:
    x = c.value(lambda t: t.element_type.is_inexact or t.element_type.is_integer)
    if x is None:
        return None
    window, padding = c.one(1, 2, 3), c.one("SAME", "VALID")
    flat = f"dnp.reshape({x}, (1, -1, 2))[:, :50]"
    image = f"dnp.reshape({x}, (1, -1, 3, 2))[:, :20]"
    kernel = f"dnp.reshape(dnp.arange({window} * 4), ({window}, 2, 2)).astype({x}.dtype)"
    image_kernel = f"dnp.reshape(dnp.arange({window} * 8) % 3, ({window}, 2, 2, 2)).astype({x}.dtype)"
    stride, layout = c.one(1, 1, 2), ("NHC", "HIO", "NHC")
    return c.one(
        f"dyn.nn.{c.one('max_pool', 'min_pool', 'avg_pool')}({flat}, {window}, {stride}, '{padding}')",
        f"dyn.nn.{c.one('max_pool', 'min_pool', 'avg_pool')}({image}, ({window}, 2), {stride}, '{padding}')",
        f"dyn.nn.conv({flat}, {kernel}, {stride}, '{padding}', dimension_numbers={layout})",
        f"dyn.nn.conv({image}, {image_kernel}, {stride}, '{padding}', dimension_numbers={('NHWC', 'HWIO', 'NHWC')})",
        f"dyn.nn.conv({flat}, {kernel}, 1, '{padding}', rhs_dilation={c.one(1, 2)}, dimension_numbers={layout})",
        f"dyn.nn.conv_transpose({flat}, {kernel}, 2, '{padding}', dimension_numbers={layout})",
        f"dyn.nn.global_{c.one('max', 'avg')}_pool({image})",
    )  # fmt: skip


def _layer(c: Chooser) -> str | None:
    x = c.value(lambda t: t.ndim > 0)
    if x is None:
        return None
    axis = c.axis(x)
    return c.one(
        f"dyn.nn.softmax({x}, axis={axis})", f"dyn.nn.log_softmax({x}, axis={axis})", f"dyn.nn.rms_norm({x})",
        f"dyn.nn.logsumexp({x}, axis={axis}, keepdims={c.one(True, False)})", f"dyn.nn.layer_norm({x}, axis={axis})",
        f"dyn.nn.softmax({x}, axis={axis}, where={x} > 0)", f"dyn.nn.glu(dnp.concatenate([{x}, {x}], axis=-1))",
        f"dyn.nn.group_norm(dnp.reshape({x}, (1, -1, 2)), 2)", f"dyn.nn.instance_norm({x})",
        f"dyn.nn.rotary_embedding(dnp.reshape({x}, (-1, 2, 4)))",
        f"dyn.nn.dot_product_attention({', '.join([f'dnp.reshape({x}, (1, -1, 1, 2))[:, :40]'] * 3)}, is_causal={c.one(True, False)})",  # noqa: E501
    )  # fmt: skip


_STEPS: tuple[tuple[Step, ...], ...] = (
    (
        _unary("dnp.negative dnp.abs dnp.sign dnp.square dnp.conj dnp.real dnp.imag dnp.positive dnp.reciprocal"),
        _unary("dnp.exp dnp.log dnp.sqrt dnp.sin dnp.cos dnp.tan dnp.tanh dnp.log1p dnp.expm1 dnp.cbrt dnp.exp2"),
        _unary(
            "dnp.arctan dnp.arcsinh dnp.arcsin dnp.arccos dnp.arctanh dnp.arccosh dnp.sinh dnp.cosh dnp.log2 dnp.log10"
        ),
        _unary(
            "dnp.floor dnp.ceil dnp.trunc dnp.rint dnp.round dnp.isnan dnp.isfinite dnp.isinf dnp.signbit dnp.angle"
        ),
        _unary("dnp.logical_not dnp.invert dnp.bitwise_count dyn.nn.relu dyn.nn.gelu dyn.nn.sigmoid dyn.nn.silu"),
        _unary("dyn.nn.softplus dyn.nn.elu dyn.nn.log_sigmoid dyn.nn.hard_swish dyn.nn.relu6 dyn.nn.squareplus"),
    ),
    (
        _binary("dnp.add dnp.subtract dnp.multiply dnp.divide"),
        _binary("dnp.maximum dnp.minimum dnp.fmax dnp.fmin dnp.add dnp.multiply"),
        _binary("dnp.floor_divide dnp.remainder dnp.fmod dnp.power dnp.float_power dnp.copysign dnp.heaviside"),
        _binary("dnp.arctan2 dnp.hypot dnp.logaddexp dnp.logaddexp2 dnp.nextafter"),
        _binary("dnp.bitwise_and dnp.bitwise_or dnp.bitwise_xor dnp.left_shift dnp.right_shift dnp.bitwise_and"),
        _binary("dnp.equal dnp.not_equal dnp.less dnp.less_equal dnp.greater dnp.greater_equal"),
        _binary("dnp.logical_and dnp.logical_or dnp.logical_xor"),
    ),
    (
        _along("dnp.sum dnp.prod dnp.any dnp.all dnp.mean dnp.count_nonzero"),
        _along("dnp.var dnp.std dnp.nansum dnp.nanprod dnp.nanmean"),
        _extreme,
        _along("dnp.argmax dnp.argmin dnp.argmax dnp.ptp dnp.nanmax dnp.nanargmin", empty=False),
    ),
    (_along("dnp.sort dnp.argsort dnp.cumsum dnp.cumprod dnp.sort dnp.cumsum", keep=False, empty=False),),
    (_where,),
    (cast,),
    (_move,),
    (_move, _slice),
    (_slice, _join),
    (_join,),
    (_take,),
    (_scatter, _take),
    (_contract,),
    (_window, _layer),
    (_layer, _layer, _window),
    (control,),
    (transformed,),
)
#: Bodies are drawn from everything, functions with bodies of their own among it.
_BODIES: list[tuple[Step, ...]] = [*_STEPS, *random_ops.FAMILIES]
_composed, _ruled = make_steps(_BODIES, NAMES, REFUSALS)
_BODIES.append((_composed, _composed, _ruled))
FAMILIES: tuple[tuple[Step, ...], ...] = (*_BODIES, (_composed,), (_composed, _ruled))
