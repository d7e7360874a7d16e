"""Input that dyn.interop.tf cannot take: a stated fallback, or an error that names what is wrong."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.interop.tf as dtf
from dyn.errors import ArgumentError, BackendUnavailableError, OutOfRangeError, ShapeError, UnsupportedOpError
from dyn.interop import keras as dyn_keras
from dyn.interop.tf import installed
from tests.interop.tf.comparing import alike, tf


def test_without_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(BackendUnavailableError) as caught:
        installed.check()
    assert str(caught.value) == (
        "TensorFlow cannot be imported (No module named 'tensorflow'), and dyn.interop.tf needs one of "
        "tensorflow==2.20.*, tensorflow==2.21.*.\n"
        "  help: install it with: pip install 'tensorflow-cpu>=2.20,<2.22'"
    )


def test_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf, "__version__", "2.18.1")
    with pytest.raises(BackendUnavailableError) as caught:
        installed.check()
    assert str(caught.value) == (
        "TensorFlow 2.18.1 is installed, and dyn.interop.tf needs one of tensorflow==2.20.*, tensorflow==2.21.*.\n"
        "  help: install it with: pip install 'tensorflow-cpu>=2.20,<2.22'"
    )


def test_what_tensorflow_lacks_is_named() -> None:
    version = tf.__version__
    with pytest.raises(BackendUnavailableError) as caught:
        installed.asked("tensorflow.python.eager.context", "eager_mode", "lazy_mode", "idle_mode")
    assert str(caught.value) == (
        f"TensorFlow {version} has no tensorflow.python.eager.context.lazy_mode, no "
        "tensorflow.python.eager.context.idle_mode, which dyn asks for by name; known to work: TensorFlow 2.20, 2.21.\n"
        "  help: install it with: pip install 'tensorflow-cpu>=2.20,<2.22'"
    )
    with pytest.raises(BackendUnavailableError) as caught:
        installed.asked("tensorflow.python.eager.laziness", "mode")
    assert str(caught.value).startswith(f"TensorFlow {version} has no tensorflow.python.eager.laziness, which dyn asks")


def test_all_internals_that_are_used_are_asked_for() -> None:
    """Each name of a module without a public name is among those that ``internals`` has found there."""
    folder = Path(installed.__file__).parent
    asked = dict[str, set[str]]()
    for node in ast.parse((folder / "internals.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call) and isinstance(node.target, ast.Name):
            asked[node.target.id] = {ast.literal_eval(name) for name in node.value.args[1:]}
    used = set[tuple[str, str]]()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in asked:
                used.add((node.value.id, node.attr))
    assert len(used) > 30
    assert sorted(f"{module}.{name}" for module, name in used if module != "tf" and name not in asked[module]) == []


def test_dyn_alone_imports_no_tensorflow() -> None:
    program = "import sys, dyn; sys.exit(any(name in sys.modules for name in ('tensorflow', 'keras')))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


SPARSE = tf.SparseTensor([[0, 1]], ["ab"], [1, 2])
RAGGED = tf.ragged.constant([[1.0], [2.0, 3.0]])


@pytest.mark.parametrize(
    ("function", "given", "what"),
    [
        (lambda x: tf.strings.length(x.values), SPARSE, "a tensor of string"),
        (lambda x: tf.reduce_sum(x, 1), RAGGED, "an argument that is a RaggedTensor"),
        (tf.strings.upper, tf.constant(["a", "bc"]), "a tensor of string"),
        (lambda x: tf.cast(tf.bitcast(x, tf.uint8), tf.int32), tf.bitcast(np.array([1, 2], np.uint8), tf.quint8),
         "a tensor of quint8"),
        (lambda x: tf.raw_ops.TensorListLength(input_handle=x),
         tf.raw_ops.TensorListReserve(
             element_shape=tf.constant([], tf.int32), num_elements=3, element_dtype=tf.float32
         ),
         "a tensor of variant"),
    ],
    ids=["sparse", "ragged", "string", "quantized", "variant"],
)  # fmt: skip
def test_tensors_that_are_no_arrays(function: Any, given: Any, what: str) -> None:
    with pytest.warns(dtf.FallbackWarning, match=what):
        made = dtf.jit(function)(given)
    alike(made, function(given))
    with pytest.raises(UnsupportedOpError, match=what):
        dtf.jit(function, strict=True)(given)


def test_results_that_are_no_arrays() -> None:
    def sparse(x: Any) -> Any:
        return tf.sparse.from_dense(x)

    x = tf.constant([[0.0, 1.0], [2.0, 0.0]])
    compiled = dtf.jit(sparse)
    for n in (2, 1, 0):
        made = compiled(x[:n])
        alike(tf.sparse.to_dense(made), x[:n])
    ragged = dtf.jit(lambda x: tf.RaggedTensor.from_row_lengths(x, [2, 1]) * 2.0)
    alike(ragged(tf.constant([1.0, 2.0, 3.0])).to_list(), [[2.0, 4.0], [6.0]])


def test_ragged_tensors_inside() -> None:
    def function(x: Any) -> Any:
        return tf.reduce_sum(tf.RaggedTensor.from_tensor(x, padding=0.0), 1)

    compiled = dtf.jit(function)
    for x in ([[1.0, 2.0, 0.0], [3.0, 0.0, 0.0]], [[1.0, 2.0]], [[0.0, 0.0]]):
        alike(compiled(tf.constant(x)), function(tf.constant(x)))


def test_side_effects_of_python() -> None:
    """They happen while TensorFlow traces, as in a tf.function; tf.print and the like, each time, in TensorFlow."""
    seen: list[Any] = []

    def function(x: Any) -> Any:
        seen.append(x.shape.as_list())
        return x + 1

    compiled = dtf.jit(function)
    for n in (2, 5, 0):
        compiled(tf.ones(n))
    assert seen == [[None]]
    calls: list[int] = []

    def host(a: Any) -> Any:
        calls.append(len(a))
        return a * 2

    def counted(x: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(host, [x], tf.float32), x.shape) + 1

    compiled = dtf.jit(counted)
    with pytest.warns(dtf.FallbackWarning, match="PyFunc"):
        alike(compiled(tf.ones(3)), tf.ones(3) * 3)
    alike(compiled(tf.ones(4)), tf.ones(4) * 3)
    assert calls[-1] == 4


def test_eager_only_python_is_an_error_of_its_own() -> None:
    with pytest.raises(AttributeError, match="numpy"):
        dtf.jit(lambda x: x.numpy() + 1)(tf.ones(3))


def test_another_rank_than_the_functions() -> None:
    concrete = tf.function(lambda x: x * 2).get_concrete_function(tf.TensorSpec([None, 2]))
    compiled = dtf.jit(concrete)
    alike(compiled(tf.ones((3, 2))), tf.ones((3, 2)) * 2)
    with pytest.raises((TypeError, ValueError, ShapeError), match=r"rank|shape|Shape|compatible"):
        compiled(tf.ones(3))
    signed = dtf.jit(tf.function(lambda x: x * 2, input_signature=[tf.TensorSpec([None, 2])]))
    with pytest.raises((TypeError, ValueError, ShapeError), match=r"rank|shape|Shape|compatible"):
        signed(tf.ones((3, 2, 1)))
    with pytest.raises((TypeError, ValueError, ShapeError), match=r"shape|Shape|compatible|is 5"):
        signed(tf.ones((3, 5)))


def test_shapes_that_do_not_fit_name_the_operation_and_the_sizes() -> None:
    compiled = dtf.jit(tf.matmul)
    alike(compiled(tf.ones((2, 3)), tf.ones((3, 4))), tf.ones((2, 4)) * 3)
    with pytest.raises(ShapeError) as caught:
        compiled(tf.ones((2, 3)), tf.ones((4, 4)))
    assert "3" in str(caught.value)
    assert "4" in str(caught.value)
    assert compiled.cache_info().compiles == 1


@pytest.mark.parametrize(
    ("function", "index", "wrong", "size"),
    [
        (tf.gather, [0, 3, 1], [0, 4], "4 is out of range for axis 0, of 4"),
        (lambda x, i: tf.gather(x, i, axis=1), [0, 2], [-1, 2], "-1 is out of range for axis 1, of 3"),
        (tf.gather_nd, [[1, 2], [3, 0]], [[1, 2], [3, 3]], "3 is out of range for axis 1, of 3"),
        (tf.gather_nd, [[1], [3]], [[10**9]], "1000000000 is out of range for axis 0, of 4"),
        (lambda x, i: tf.tensor_scatter_nd_update(x, i, [[1.0, 2, 3]]), [[3]], [[-2]], "-2 is out of range for axis 0"),
        (lambda x, i: tf.scatter_nd(i, [1.0], tf.shape(x)), [[3, 2]], [[4, 2]], "4 is out of range for axis 0, of 4"),
    ],
)
def test_indices_that_an_axis_does_not_have(function: Any, index: Any, wrong: Any, size: str) -> None:
    """TensorFlow raises for them on processors; what was clamped would be a wrong result."""
    x = tf.reshape(tf.range(12.0), (4, 3))
    f = dtf.jit(function, strict=True)
    alike(f(x, tf.constant(index)), function(x, tf.constant(index)))
    with pytest.raises(OutOfRangeError, match=size):
        f(x, tf.constant(wrong))
    with pytest.raises(tf.errors.InvalidArgumentError):
        function(x, tf.constant(wrong))
    none = tf.zeros((0, *np.shape(index)[1:]), tf.int32)
    if function(x, tf.constant(index)).shape[0] == len(index):
        alike(f(x, none), function(x, none))
    assert f.cache_info().compiles == 1


def test_words_that_a_table_does_not_have() -> None:
    """A step that is refused changes no variable; the next one goes on."""
    table, seen = tf.Variable(tf.ones((10, 4))), tf.Variable(0)

    def step(words: Any) -> Any:
        seen.assign_add(1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table, words) ** 2)
        table.assign_sub(tf.convert_to_tensor(tape.gradient(loss, table)))
        return loss

    f = dtf.jit(step, strict=True)
    alike(f(tf.constant([1, 9, 1])), 12.0)
    before = table.numpy()
    with pytest.raises(OutOfRangeError, match="index 10 is out of range for axis 0, of 10 elements"):
        f(tf.constant([1, 10]))
    np.testing.assert_array_equal(table.numpy(), before)
    assert seen.numpy() == 1
    alike(f(tf.constant([0])), 4.0)


def test_labels_that_no_class_has() -> None:
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4)])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    dyn_keras.compile(model)
    x = np.ones((2, 3), np.float32)
    model.train_on_batch(x, np.array([0, 3]))
    before = [one.numpy() for one in model.weights]
    with pytest.raises(OutOfRangeError, match="label 4 is out of range for 4 classes"):
        model.train_on_batch(x, np.array([0, 4]))
    for kept, now in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(kept, now.numpy())


def test_what_cannot_be_called() -> None:
    with pytest.raises(ArgumentError, match="jit takes a function or a model, not a int"):
        dtf.jit(3)
    with pytest.raises(ArgumentError, match="call takes a function, not a str"):
        dtf.call("f")  # pyright: ignore[reportArgumentType]  # what is tested


def test_a_call_in_a_trace_of_dyns_says_what_to_do() -> None:
    compiled = dtf.jit(lambda x: x * 2)
    with pytest.raises(ArgumentError) as caught:
        dyn.jit(compiled)(np.ones(3, np.float32))
    text = str(caught.value)
    assert "<lambda>() is TensorFlow's, and is called in a trace of dyn's with Tracer<f32[x_0]>" in text
    assert "dyn.interop.tf.call" in text


@pytest.mark.parametrize(
    ("function", "right", "wrong", "text"),
    [
        (lambda x, i: tf.math.unsorted_segment_max(x, i, 3), [0, 2], [3, 0], "segment 3 is out of range for 3 of them"),
        (lambda x, i: tf.dynamic_partition(x, i, 3), [0, 2], [0, 3], "partition 3 is out of range for 3 of them"),
        (tf.math.segment_max, [0, 2], [-1, 0], "1 more than the greatest number of segments, or -1"),
        (lambda x, i: tf.dynamic_stitch([i], [x]), [0, 1], [-1, 0], "1 more than the greatest number of rows, or -1"),
        (
            lambda x, i: tf.image.crop_and_resize(x[:, None, None, None], tf.zeros([2, 4]), i, [1, 1]), [0, 1], [0, 2],
            "box_ind 2 is out of range for 2 images",
        ),
    ],
)  # fmt: skip
def test_numbers_that_nothing_has(function: Any, right: list[int], wrong: list[int], text: str) -> None:
    function, x = tf.autograph.experimental.do_not_convert(function), tf.constant([1.0, 2.0])
    f = dtf.jit(function, strict=True)
    alike(f(x, tf.constant(right)), function(x, tf.constant(right)))
    with pytest.raises((OutOfRangeError, ShapeError), match=text):
        f(x, tf.constant(wrong))
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError)):
        function(x, tf.constant(wrong))


def test_a_diagonal_that_matrices_do_not_have() -> None:
    f = dtf.jit(lambda x: tf.linalg.diag_part(x, k=2), strict=True)
    np.testing.assert_array_equal(f(tf.ones((5, 4))), tf.ones(2))
    with pytest.raises(ShapeError, match=r"matrices have the diagonals k=\(2, 2\)"):
        f(tf.ones((5, 2)))


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "area", "lanczos3"])
def test_an_image_without_pixels(method: str) -> None:
    f = dtf.jit(lambda x: tf.image.resize(x, [2, 2], method), strict=True)
    np.testing.assert_allclose(f(tf.ones((1, 3, 3, 1))), tf.ones((1, 2, 2, 1)), atol=1e-6)
    with pytest.raises(ShapeError, match=r"is required, but .* is 0"):
        f(tf.ones((1, 0, 3, 1)))
