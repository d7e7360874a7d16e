"""Attributes of TensorFlow's operations: each one is read, follows from the inputs, or is proved without effect."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

import pytest

import dyn.interop.tf as dtf
from dyn.errors import UnsupportedOpError
from dyn.interop.tf.attributes import WITHOUT_EFFECT, of_inputs
from dyn.interop.tf.converter_registry import OPERATIONS
from dyn.interop.tf.internals import op_def_registry
from tests.interop.tf.comparing import alike, tf

raw = tf.raw_ops


def attributes(operation: str) -> set[str]:
    """The attributes that an operation's definition says."""
    return {one.name for one in op_def_registry.get(operation).attr}


def test_each_attribute_of_each_converter() -> None:
    missing = {
        (name, attribute)
        for name in OPERATIONS.converters
        for attribute in attributes(name) - OPERATIONS.read[name] - of_inputs(name)
        if (name, attribute) not in WITHOUT_EFFECT
    }
    assert missing == set()


def test_each_attribute_of_each_fold() -> None:
    missing = {
        (name, attribute)
        for name, fold in OPERATIONS.folds.items()
        for attribute in attributes(name) - {*fold.attrs, fold.dtype} - of_inputs(name)
        if (name, attribute) not in WITHOUT_EFFECT
    }
    assert missing == set()


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def test_what_a_rule_is_given_it_reads() -> None:
    """Inputs and attributes that a function has parameters for, and does nothing with."""
    rules = {*OPERATIONS.functions.values(), *[fold.run for fold in OPERATIONS.folds.values()]}
    unread: list[str] = []
    for rule in rules:
        if not inspect.isfunction(rule) or not rule.__module__.startswith("dyn.interop.tf"):
            continue
        loaded = {
            step.argval
            for code in _codes(rule.__code__)
            for step in dis.get_instructions(code)
            if step.opname.startswith("LOAD")
        }
        unread += [f"{rule.__qualname__}: {name}" for name in inspect.signature(rule).parameters if name not in loaded]
    assert sorted(unread) == ["algorithm: call", "disable_copy_on_read: call", "optional_none: call"]


def test_marks_are_of_attributes_that_there_are() -> None:
    assert [key for key in WITHOUT_EFFECT if key[1] not in attributes(key[0])] == []
    assert [key for key in WITHOUT_EFFECT if key[1] in OPERATIONS.read[key[0]]] == []


# ---- two values of each attribute that is without effect -------------------------------------------------------------

X = tf.constant([[1.0, -2.0, 3.0], [0.5, 2.0, -1.0]])
IMAGE, KERNEL = tf.reshape(tf.range(32.0), (1, 4, 4, 2)), tf.reshape(tf.range(16.0), (2, 2, 2, 2)) / 8
Sample = tuple[Callable[[Any, Any], Any], tuple[Any, Any]]


def function(*given: Any) -> Any:
    specs = [tf.TensorSpec([None] * one.shape.rank, one.dtype) for one in given]
    return tf.function(lambda *args: tf.add_n(list(args)) * 2).get_concrete_function(*specs)


TWICE = function(X)
LESS = tf.function(lambda i, x: tf.reduce_sum(x) < 50).get_concrete_function(
    tf.TensorSpec([], tf.int32), tf.TensorSpec([None, None])
)
STEP = tf.function(lambda i, x: (i + 1, x * x + 1)).get_concrete_function(
    tf.TensorSpec([], tf.int32), tf.TensorSpec([None, None])
)


def call(name: str, attribute: str, **fixed: Any) -> Callable[[Any, Any], Any]:
    """An operation of one tensor with an attribute at some value."""

    def run(x: Any, value: Any) -> Any:
        given = {key: one(x) if inspect.isfunction(one) else one for key, one in fixed.items()}
        return getattr(raw, name)(**given, **{attribute: value})

    return run


def itself(x: Any) -> Any:
    return x


def pair(x: Any) -> list[Any]:
    return [tf.constant(0), x]


def _calls() -> dict[tuple[str, str], Sample]:
    made: dict[tuple[str, str], Sample] = {}
    branches = {"cond": lambda x: tf.reduce_sum(x) > 0, "input": lambda x: [x], "then_branch": TWICE}
    for name in ("If", "StatelessIf"):
        given = branches | {"else_branch": TWICE, "Tout": [tf.float32]}
        made[name, "output_shapes"] = call(name, "output_shapes", **given), ([], [[None, None]])
    for name in ("Case", "StatelessCase"):
        given = {"branch_index": lambda x: tf.cast(x[0, 0], tf.int32), "input": lambda x: [x], "branches": [TWICE] * 2}
        made[name, "output_shapes"] = call(name, "output_shapes", **given, Tout=[tf.float32]), ([], [[None, None]])
    for name in ("While", "StatelessWhile"):
        given = {"input": pair, "cond": LESS, "body": STEP}
        made[name, "output_shapes"] = call(name, "output_shapes", **given), ([], [[], [None, None]])
        made[name, "parallel_iterations"] = call(name, "parallel_iterations", **given), (1, 20)
    for name in ("PartitionedCall", "StatefulPartitionedCall"):
        given = {"args": lambda x: [x], "f": TWICE, "Tout": [tf.float32]}
        made[name, "config"] = call(name, "config", **given), ("", "a")
        made[name, "config_proto"] = call(name, "config_proto", **given), ("", tf.compat.v1.ConfigProto(
            allow_soft_placement=True
        ).SerializeToString())  # fmt: skip
        made[name, "executor_type"] = call(name, "executor_type", **given), ("", "SINGLE_THREADED_EXECUTOR")
    return made


def _variables() -> dict[tuple[str, str], Sample]:
    variable = tf.Variable(tf.zeros((4, 3)))

    def scatter(operation: str) -> Callable[[Any, Any], Any]:
        def run(x: Any, value: Any) -> Any:
            variable.assign(tf.ones((4, 3)))
            getattr(raw, operation)(ref=variable.handle, indices=[[3], [1]], updates=x, use_locking=value)
            return variable.read_value()

        return run

    def assign(x: Any, value: Any) -> Any:
        raw.AssignVariableOp(resource=variable.handle, value=tf.concat([x, x], 0), validate_shape=value)
        return variable.read_value()

    def rows(x: Any, value: Any) -> Any:
        variable.assign(tf.concat([x, x], 0))
        return raw.ResourceGather(
            resource=variable.handle, indices=[3, 1], dtype=tf.float32, validate_indices=value
        )  # fmt: skip

    names = [name for name, attribute in WITHOUT_EFFECT if attribute == "use_locking"]
    return {
        **{(name, "use_locking"): (scatter(name), (False, True)) for name in names},
        ("AssignVariableOp", "validate_shape"): (assign, (False, True)),
        ("ResourceGather", "validate_indices"): (rows, (False, True)),
    }


def _parts() -> dict[tuple[str, str], Sample]:
    """Parts of complex numbers, whose type is that of the result: the two values come with operands of two types."""

    def run(name: str, key: str) -> Callable[[Any, Any], Any]:
        def part(x: Any, value: Any) -> Any:
            c = tf.complex(tf.cast(x, value), tf.cast(x * 2, value))
            return tf.cast(getattr(raw, name)(**{key: c}, Tout=value), tf.float32)

        return part

    def whole(x: Any, value: Any) -> Any:
        real = tf.cast(x, tf.complex(0.0, 0.0).dtype.real_dtype if value == tf.complex64 else tf.float64)
        return tf.cast(raw.Complex(real=real, imag=real * 2, Tout=value), tf.complex64)

    keys = {"Angle": "input", "ComplexAbs": "x", "Imag": "input", "Real": "input"}
    return {
        **{(name, "Tout"): (run(name, key), (tf.float32, tf.float64)) for name, key in keys.items()},
        ("Complex", "Tout"): (whole, (tf.complex64, tf.complex128)),
    }


def _others() -> dict[tuple[str, str], Sample]:
    bools, square = (False, True), lambda x: tf.matmul(x, x, transpose_a=True)
    window = {"strides": [1, 1, 1, 1], "padding": "VALID"}
    grad = raw.Conv2D(input=IMAGE, filter=KERNEL, **window)
    segments = {"data": itself, "indices": [1, 0, 1], "segment_ids": [0, 0, 1]}
    made: dict[tuple[str, str], Sample] = {
        ("Assert", "summarize"): (
            lambda x, n: [raw.Assert(condition=tf.size(x) > 0, data=[x], summarize=n), x][1], (1, 9),
        ),
        ("PreventGradient", "message"): (call("PreventGradient", "message", input=itself), ("", "none")),
        ("Gather", "validate_indices"): (call("Gather", "validate_indices", params=itself, indices=[1, 0]), bools),
        ("Conv2D", "use_cudnn_on_gpu"): (
            lambda x, v: raw.Conv2D(input=IMAGE * x[0, 0], filter=KERNEL, use_cudnn_on_gpu=v, **window), bools,
        ),
        ("Conv2DBackpropInput", "use_cudnn_on_gpu"): (
            lambda x, v: raw.Conv2DBackpropInput(
                input_sizes=[1, 4, 4, 2], filter=KERNEL, out_backprop=grad * x[0, 0], use_cudnn_on_gpu=v, **window
            ), bools,
        ),
        ("Conv2DBackpropFilter", "use_cudnn_on_gpu"): (
            lambda x, v: raw.Conv2DBackpropFilter(
                input=IMAGE, filter_sizes=[2, 2, 2, 2], out_backprop=grad * x[0, 0], use_cudnn_on_gpu=v, **window
            ), bools,
        ),
        ("TopKV2", "sorted"): (lambda x, v: tf.sort(raw.TopKV2(input=x, k=2, sorted=v)[0], 1), bools),
        ("Empty", "init"): (lambda x, v: raw.Empty(shape=[2], dtype=tf.float32, init=v) * 0.0 + x[:, 0], bools),
    }  # fmt: skip
    for letter in "ab":
        made["MatMul", f"grad_{letter}"] = call("MatMul", f"grad_{letter}", a=itself, b=square), bools
    for name in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        more = {"Tout": tf.float32} if name.endswith("V3") else {}
        for letter in "xy":
            made[name, f"grad_{letter}"] = call(name, f"grad_{letter}", x=itself, y=square, **more), bools
    for name in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"):
        made[name, "sparse_gradient"] = call(name, "sparse_gradient", **segments), bools
        counted = f"{name}WithNumSegments"
        made[counted, "sparse_gradient"] = call(counted, "sparse_gradient", **segments, num_segments=9), bools
    return made


#: Of types that calls state there is one value that TensorFlow takes: that of what they give.
_CALLS = "If StatelessIf Case StatelessCase PartitionedCall StatefulPartitionedCall"
ONE_VALUE = {(name, "Tout") for name in _CALLS.split()}
SAMPLES: Mapping[tuple[str, str], Sample] = {**_calls(), **_variables(), **_parts(), **_others()}


def test_each_mark_has_a_sample() -> None:
    assert sorted({*WITHOUT_EFFECT} - {*SAMPLES} - ONE_VALUE) == []
    assert sorted({*SAMPLES} - {*WITHOUT_EFFECT}) == []


def test_marks_are_without_effect() -> None:
    """At two values each sample gives one result, that of TensorFlow, without a piece of TensorFlow's."""

    @tf.autograph.experimental.do_not_convert
    def run(x: Any, which: int) -> Any:
        return {f"{key}": sample(x, values[which]) for key, (sample, values) in SAMPLES.items()}

    made = [dtf.jit(lambda x, which=which: run(x, which), strict=True)(X) for which in range(2)]
    wanted = [tf.function(run)(X, which) for which in range(2)]
    for one in (made[1], *wanted):
        alike(made[0], one, 1e-4)


# ---- attributes that ask for what dyn has no rule for ----------------------------------------------------------------


def test_attributes_that_are_refused() -> None:
    def dropped(x: Any) -> Any:
        return raw.GatherNd(params=x, indices=[[0, 9], [1, 1]], bad_indices_policy="IGNORE")

    with pytest.warns(dtf.FallbackWarning, match="indices out of range by the policy IGNORE"):
        alike(dtf.jit(dropped)(X), tf.function(dropped)(X))
    with pytest.raises(UnsupportedOpError, match="indices out of range by the policy IGNORE"):
        dtf.jit(dropped, strict=True)(X)
    with pytest.raises(UnsupportedOpError, match="a conversion of floats that cuts bits off"):
        dtf.jit(lambda x: raw.Cast(x=x, DstT=tf.bfloat16, Truncate=True), strict=True)(X)


def test_an_attribute_that_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that a later TensorFlow adds."""
    monkeypatch.setitem(OPERATIONS.read, "LeakyRelu", frozenset())
    compiled = dtf.jit(lambda x: tf.nn.leaky_relu(x, 0.3) + 1)
    text = r"LeakyRelu: has the attribute alpha = 0\.30000001192092896, which dyn does not read\."
    with pytest.warns(dtf.FallbackWarning, match=text):
        alike(compiled(X), tf.nn.leaky_relu(X, 0.3) + 1)


def test_draws_with_a_seed_of_their_own_repeat_in_another_function() -> None:
    def f(x: Any) -> Any:
        return tf.random.uniform(tf.shape(x), seed=5), tf.random.normal(tf.shape(x))

    first, second = (dtf.jit(f, strict=True) for _ in range(2))
    drawn = [[compiled(X) for _ in range(3)] for compiled in (first, second)]
    for one, other in zip(*drawn, strict=True):
        alike(one[0], other[0])
        assert not tf.reduce_all(one[1] == other[1])
    assert not tf.reduce_any(drawn[0][0][0] == drawn[0][1][0])
