"""``dyn.interop.onnx.load``: names, sizes, files, and what it refuses, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx: Any = pytest.importorskip("onnx")
onnx_parser: Any = pytest.importorskip("onnx.parser")
numpy_helper: Any = pytest.importorskip("onnx.numpy_helper")

import dyn  # noqa: E402
import dyn.interop.onnx  # noqa: E402
import dyn.numpy as dnp  # noqa: E402
from dyn.__main__ import main  # noqa: E402
from dyn.backends.families import host_target  # noqa: E402
from dyn.errors import ArgumentError, ArtifactError, NotYetError, OutOfRangeError, ShapeError, UnsupportedOpError  # noqa: E402


def model(text: str, version: int = 20) -> Any:
    """A model by ONNX's own text."""
    return onnx_parser.parse_model(f'<ir_version: 9, opset_import: ["" : {version}, "own" : 1]> {text}')


def load(text: str, version: int = 20) -> Any:
    return dyn.interop.onnx.load(model(text, version))


LAYER = """
layer (float[batch, 4] x, float[4, 3] w, float[3] b) => (float[batch, 3] y) {
  h = MatMul (x, w)
  s = Add (h, b)
  y = Relu (s)
}
"""


def layer(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0)


def arrays(batch: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(batch)
    return tuple([rng.standard_normal(shape).astype("f4") for shape in ((batch, 4), (4, 3), (3,))])


def test_a_layer_at_all_sizes_by_position_and_by_name() -> None:
    run = load(LAYER)
    for batch in (0, 1, 2, 1000):
        given = arrays(batch)
        for made in (run(*given), run(given[0], b=given[2], w=given[1])):
            np.testing.assert_allclose(made, layer(*given), rtol=1e-5, atol=1e-6)
    assert run.cache_info().compiles == 1
    assert run.parameter_names == ("x", "w", "b")
    assert "batch = x.shape[0]" in str(run.explain())
    assert run.__name__ == "layer"


def test_stages_prepare_and_stablehlo() -> None:
    run = load(LAYER)
    run.prepare([tuple([dyn.ShapeDtypeStruct(shape, "float32") for shape in ((8, 4), (4, 3), (3,))])])
    assert run.cache_info().compiles == 1
    run(*arrays(5))
    assert run.cache_info().compiles == 1
    text = dyn.interop.stablehlo.dump(run.trace(*arrays(2)))
    again = dyn.interop.stablehlo.load(text)
    np.testing.assert_allclose(again(*arrays(7)), layer(*arrays(7)), rtol=1e-5, atol=1e-6)


def test_inside_of_another_function_and_of_transformations() -> None:
    run = load(LAYER)
    outer = dyn.jit(lambda x, w, b: run(x, w, b).sum())
    x, w, b = arrays(6)
    np.testing.assert_allclose(outer(x, w, b), layer(x, w, b).sum(), rtol=1e-5)
    gradient = dyn.grad(lambda w: run(x, w, b).sum())(w)
    np.testing.assert_allclose(gradient, x.T @ (layer(x, w, b) > 0), rtol=1e-5, atol=1e-6)
    stacked = dyn.vmap(lambda one: run(one, w, b))(np.stack([x, 2 * x]))
    np.testing.assert_allclose(stacked[1], layer(2 * x, w, b), rtol=1e-5, atol=1e-6)


def test_several_outputs_have_names() -> None:
    proto = model("parts (float[n] x) => (float[n] low, float[n] y) { low = Neg (x)  y = Exp (x) }")
    proto.graph.output[0].name = proto.graph.node[0].output[0] = "low.part"
    run = dyn.interop.onnx.load(proto)
    made = run(np.ones(3, "f4"))
    assert made._fields == ("low_part", "y")
    low, y = made
    np.testing.assert_allclose(low, -np.ones(3))
    np.testing.assert_allclose(made.y, y)


def test_names_that_python_has_not() -> None:
    proto = model(LAYER)
    for one in proto.graph.input:
        one.name = {"x": "input.1", "w": "1", "b": "class"}[one.name]
    for node in proto.graph.node:
        for n, name in enumerate(node.input):
            node.input[n] = {"x": "input.1", "w": "1", "b": "class"}.get(name, name)
    run = dyn.interop.onnx.load(proto)
    assert run.parameter_names == ("input_1", "value_1", "class_")
    np.testing.assert_allclose(run(*arrays(2)), layer(*arrays(2)), rtol=1e-5)


def test_sizes_of_one_name_are_one_size() -> None:
    run = load("both (float[n, m] x, float[n] y) => (float[n, m] z) { o = Constant <value_ints = [1]> ()  "
               "u = Unsqueeze (y, o)  z = Mul (x, u) }")  # fmt: skip
    np.testing.assert_allclose(run(np.ones((2, 3), "f4"), np.arange(2, dtype="f4")), [[0] * 3, [1] * 3])
    with pytest.raises(ShapeError, match=r"y.shape\[0\] is 3, and it must be n = 2"):
        run(np.ones((2, 3), "f4"), np.ones(3, "f4"))


def test_arithmetic_of_shapes_is_of_dims() -> None:
    """As PyTorch's older exporter writes ``x.view(x.size(0), -1, x.size(2) // 2, 2)``."""
    run = load("""
    view (float[b, s, h] x) => (float[c, d, e, f] y) {
      shape = Shape (x)
      zero = Constant <value_int = 0> ()  two = Constant <value_int = 2> ()  axis = Constant <value_ints = [0]> ()
      b = Gather (shape, zero)  h = Gather (shape, two)
      half = Div (h, two)
      bs = Unsqueeze (b, axis)  hs = Unsqueeze (half, axis)
      rest = Constant <value_ints = [-1]> ()  last = Constant <value_ints = [2]> ()
      whole = Concat <axis = 0> (bs, rest, hs, last)
      y = Reshape (x, whole)
    }""")
    for shape in ((2, 3, 4), (1, 5, 8), (0, 2, 2), (3, 0, 2)):
        x = np.random.default_rng(0).standard_normal(shape).astype("f4")
        np.testing.assert_array_equal(run(x), x.reshape(shape[0], shape[1], shape[2] // 2, 2))
    info = run.cache_info()
    assert (info.compiles, info.guards) == (1, 0)


def test_branches() -> None:
    run = load("""
    ways (float[n] x, bool c) => (float[n] y) {
      y = If (c) <
        then_branch = a () => (float[n] t) { t = Neg (x) },
        else_branch = b () => (float[n] e) { two = Constant <value_float = 2.0> ()  e = Mul (x, two) }
      >
    }""")
    x = np.arange(3, dtype="f4")
    np.testing.assert_array_equal(run(x, np.array(True)), -x)
    np.testing.assert_array_equal(run(x, np.array(False)), 2 * x)
    assert run.cache_info().compiles == 1


def test_branches_by_sizes_are_guards() -> None:
    run = load("""
    ways (float[n] x) => (float[n] y) {
      size = Size (x)  four = Constant <value_int = 4> ()  c = Greater (size, four)
      y = If (c) <
        then_branch = a () => (float[n] t) { t = Neg (x) },
        else_branch = b () => (float[n] e) { e = Abs (x) }
      >
    }""")
    for n in (1, 3, 5, 9, 4):
        x = np.arange(n, dtype="f4")
        np.testing.assert_array_equal(run(x), -x if n > 4 else x)
    assert run.cache_info().compiles == 2


def test_functions_of_the_model() -> None:
    proto = onnx_parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 20, "own" : 1]>
    main (float[n] x) => (float[n] y) { h = own.scaled <by = 3.0> (x)  y = own.scaled (h) }
    <domain: "own", opset_import: ["" : 20]>
    scaled <by: float = 2.0> (a) => (b) { c = Constant <value_float: float = @by> ()  b = Mul (a, c) }
    """)
    np.testing.assert_allclose(dyn.interop.onnx.load(proto)(np.ones(2, "f4")), [6, 6])


def test_older_versions_are_converted() -> None:
    text = "flat (float[a, b, c] x) => (float[a, b, c] y) { y = Softmax <axis = 1> (x) }"
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("f4")
    flat = np.exp(x.reshape(2, 12))
    np.testing.assert_allclose(load(text, 11)(x), (flat / flat.sum(1, keepdims=True)).reshape(2, 3, 4), rtol=1e-5)
    last = np.exp(x)
    np.testing.assert_allclose(load(text, 13)(x), last / last.sum(1, keepdims=True), rtol=1e-5)


def test_arrays_in_files_beside_the_model(tmp_path: Path) -> None:
    weights = np.arange(3000, dtype="f4").reshape(1000, 3)
    proto = model("beside (float[n, 1000] x) => (float[n, 3] y) { y = MatMul (x, w) }")
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert path.stat().st_size < 1000
    run = dyn.interop.onnx.load(path)
    x = np.ones((2, 1000), "f4")
    np.testing.assert_allclose(run(x), x @ weights)
    for one in proto.graph.initializer:
        for entry in one.external_data:
            if entry.key == "location":
                entry.value = "../weights.bin"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ArtifactError, match="outside of the model's folder"):
        dyn.interop.onnx.load(path)


def test_indices_are_checked_and_count_from_the_end() -> None:
    run = load("rows (float[n, 2] x, int64[m] i) => (float[m, 2] y) { y = Gather (x, i) }")
    x = np.arange(6, dtype="f4").reshape(3, 2)
    np.testing.assert_array_equal(run(x, np.array([0, -1, 2])), x[[0, -1, 2]])
    with pytest.raises(OutOfRangeError, match="index 3 is out of bounds for dimension 0 with size 3"):
        run(x, np.array([0, 3]))


@pytest.mark.parametrize("transform", ["plain", "jit", "grad", "branch"])
def test_indices_are_checked_wherever_the_model_is_called(transform: str) -> None:
    run = load("rows (float[n, 2] x, int64[m] i) => (float[m, 2] y) { y = Gather (x, i) }")
    x, bad = np.arange(6, dtype="f4").reshape(3, 2), np.array([0, 3])
    programs: dict[str, Any] = {
        "plain": lambda i: run(x, i),
        "jit": lambda i: dyn.jit(lambda x, i: run(x, i).sum())(x, i),
        "grad": lambda i: dyn.grad(lambda x: run(x, i).sum())(x),
    }
    if transform == "branch":  # what is demanded in a branch would end calls that go another way
        either = load("""
        either (float[n, 2] x, int64[m] i, bool c) => (float[m, 2] y) {
          y = If (c) <
            then_branch = a () => (float[m, 2] t) { t = Gather (x, i) },
            else_branch = b () => (float[m, 2] e) {
              o = Cast <to = 1> (i)  z = Constant <value_ints = [1]> ()  u = Unsqueeze (o, z)
              s = Shape (i)  two = Constant <value_ints = [2]> ()  t = Concat <axis = 0> (s, two)  e = Expand (u, t)
            }
          >
        }""")
        np.testing.assert_array_equal(either(x, bad, np.array(False)), [[0, 0], [3, 3]])
        return
    programs[transform](np.array([0, -1]))
    with pytest.raises(
        ShapeError if transform != "plain" else OutOfRangeError, match="is out of bounds for dimension 0"
    ):
        programs[transform](bad)


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        (2**63 - 1, 2**63 - 1, 1), (0, -(2**63) + 1, 1), (-(2**63) + 1, -(2**63) + 1, -1), (-100, -101, -1),
        (-1, -(2**63), -1), (2, 0, -1), (-100, 100, 2), (100, -100, -2), (1, 2**31 - 1, 1), (5, 9, 1),
    ],
)  # fmt: skip
def test_slices_whose_bounds_are_far_out(start: int, end: int, step: int) -> None:
    run = load(f"""
    part (float[a, b] x) => (float[a, c] y) {{
      s = Constant <value_ints = [{start}]> ()  e = Constant <value_ints = [{end}]> ()
      ax = Constant <value_ints = [1]> ()  st = Constant <value_ints = [{step}]> ()  y = Slice (x, s, e, ax, st)
    }}""")
    for size in (0, 1, 3, 7):
        x = np.arange(2 * size, dtype="f4").reshape(2, size)
        expected = x[:, start:end:step]
        if step < 0 and start < -size and size:  # ONNX holds the start within the axis, where Python takes nothing
            expected = x[:, :1]
        np.testing.assert_array_equal(run(x), expected)
    assert run.cache_info().compiles <= 3


def test_range_from_a_size() -> None:
    run = load("""
    f (float[a, b] x) => (int64[n] y) {
      s = Shape <start = 1, end = 2> (x)  z = Constant <value_ints = [0]> ()  q = Squeeze (s, z)
      l = Constant <value_int = 7> ()  o = Constant <value_int = 1> ()  y = Range (q, l, o)
    }""")
    for size in (0, 3, 7, 9):
        np.testing.assert_array_equal(run(np.zeros((2, size), "f4")), np.arange(size, 7))


def test_shapes_that_are_data_have_one_size_to_be_found() -> None:
    run = load("""
    f (float[a, b] x, int64[1] s) => (float[p, q] y) {
      m = Constant <value_ints = [-1]> ()  t = Concat <axis = 0> (s, m)  y = Reshape (x, t)
    }""")
    x = np.arange(6, dtype="f4").reshape(2, 3)
    for rows in (3, 2, 1, 6):
        np.testing.assert_array_equal(run(x, np.array([rows])), x.reshape(rows, -1))
    assert run.cache_info().compiles == 1
    with pytest.raises(ShapeError, match="have the same number of elements"):
        run(x, np.array([4]))


def test_branches_by_counts_are_branches_of_the_program() -> None:
    run = load("""
    ways (float[n] x) => (float[n] y) {
      nz = NonZero (x)  s = Shape <start = 1, end = 2> (nz)  z = Constant <value_ints = [0]> ()  q = Squeeze (s, z)
      k = Constant <value_int = 3> ()  c = Greater (q, k)
      y = If (c) <
        then_branch = a () => (float[n] t) { t = Neg (x) },
        else_branch = b () => (float[n] e) { e = Abs (x) }
      >
    }""")
    for values in ([1, 2, 3, 4, 5], [0, 0, -1, 0, 2], []):
        x = np.array(values, "f4")
        np.testing.assert_array_equal(run(x), -x if np.count_nonzero(x) > 3 else abs(x))
    assert run.cache_info().compiles == 1


def test_functions_of_one_name_differ_by_their_overload() -> None:
    proto = onnx_parser.parse_model("""
    <ir_version: 10, opset_import: ["" : 20, "own" : 1]>
    main (float[n] x) => (float[n] y) { h = own.f (x)  y = own.f (h) }
    <domain: "own", opset_import: ["" : 20]> f (a) => (b) { b = Neg (a) }
    <domain: "own", opset_import: ["" : 20]> f (a) => (b) { b = Add (a, a) }
    """)
    proto.functions[0].overload = proto.graph.node[0].overload = "negative"
    proto.functions[1].overload = proto.graph.node[1].overload = "double"
    np.testing.assert_array_equal(dyn.interop.onnx.load(proto)(np.ones(2, "f4")), [-2, -2])


def test_constants_of_nodes_in_files_and_folders_of_links(tmp_path: Path) -> None:
    weights = np.arange(3000, dtype="f4").reshape(1000, 3)
    proto = model("beside (float[n, 1000] x) => (float[n, 3] y) { y = MatMul (x, w) }")
    constant = onnx.helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(weights, "w"))
    proto.graph.node.insert(0, constant)
    stored = tmp_path / "blobs"
    stored.mkdir()
    onnx.save(
        proto, stored / "m", save_as_external_data=True, location="w.bin", size_threshold=0, convert_attribute=True
    )
    assert (stored / "m").stat().st_size < 1000
    x = np.ones((2, 1000), "f4")
    np.testing.assert_allclose(dyn.interop.onnx.load(stored / "m")(x), x @ weights)
    links = tmp_path / "snapshot"  # a cache of downloads: names are links to files by content
    links.mkdir()
    (stored / "w.bin").rename(stored / "0f3a")
    (links / "w.bin").symlink_to("../blobs/0f3a")
    (links / "model.onnx").symlink_to("../blobs/m")
    np.testing.assert_allclose(dyn.interop.onnx.load(links / "model.onnx")(x), x @ weights)


def test_a_model_that_is_given_stays_as_it_was() -> None:
    proto = model(LAYER, 13)
    before = proto.SerializeToString()
    dyn.interop.onnx.load(proto)(*arrays(2))
    assert proto.SerializeToString() == before


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample_of_version_9(mode: str) -> None:
    run = load(
        "f (float[1, 1, h, w] x) => (float[1, 1, i, j] y) { s = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> ()  "
        f'y = Upsample <mode = "{mode}"> (x, s) }}',
        9,
    )
    x = np.array([[[[0.0, 1.0], [2.0, 3.0]]]], "f4")
    made = np.asarray(run(x))[0, 0]
    expected = {  # as versions 9 and 10 have it: the place in the input is the output's over the scale
        "nearest": [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]],
        "linear": [[0, 0.5, 1, 1], [1, 1.5, 2, 2], [2, 2.5, 3, 3], [2, 2.5, 3, 3]],
    }[mode]
    np.testing.assert_allclose(made, expected)


def test_numbers_of_python_fit_what_is_declared() -> None:
    ints, floats = [model(f"f ({kind} x) => ({kind} y) {{ y = Neg (x) }}") for kind in ("int64[n]", "float[n]")]
    for proto in (ints, floats):  # the text has no scalars
        for value in (*proto.graph.input, *proto.graph.output):
            del value.type.tensor_type.shape.dim[:]
    assert dyn.interop.onnx.load(floats)(2) == -2
    assert dyn.interop.onnx.load(ints)(True) == -1
    with pytest.raises(ArgumentError, match=r"x is f64\[\]~, and the ONNX model takes i64\[\]\."):
        dyn.interop.onnx.load(ints)(2.5)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f (float[n] x) => (float[n] y) { y = own.Strange (x) }", "no operation Strange of the domain own"),
        ("f (float[a, b, c] x, float[d, e, g] w, float[d, e, h] r) => (float[p, q, s, t] y) "
         "{ y, z = GRU <hidden_size = 3> (x, w, r) }", "dyn has no operation GRU of ONNX's"),
        ("f (float[a, b, c, d] x) => (float[a, b, c, d] y) "
         "{ y, i = MaxPool <kernel_shape = [2, 2]> (x) }", "MaxPool that gives the places of its elements"),
    ],
)  # fmt: skip
def test_operations_that_dyn_has_not(text: str, message: str) -> None:
    shapes = {"own": [(2,)], "GRU": [(2, 3, 4), (1, 9, 4), (1, 9, 3)], "Max": [(1, 1, 4, 4)]}
    given = next(found for part, found in shapes.items() if part in text)
    with pytest.raises((UnsupportedOpError, NotYetError), match=message) as error:
        load(text)(*[np.ones(shape, "f4") for shape in given])
    assert "in the operation" in str(error.value)


def test_types_that_dyn_has_not() -> None:
    with pytest.raises(UnsupportedOpError, match="dyn has no arrays of ONNX's string"):
        load("f (string[n] x) => (string[n] y) { y = Identity (x) }")
    with pytest.raises(UnsupportedOpError, match="the ONNX model takes a sequence, x"):
        load("f (seq(float[n]) x) => (float y) { y = SequenceLength (x) }")


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="there is no file"):
        dyn.interop.onnx.load(tmp_path / "none.onnx")
    with pytest.raises(ArgumentError, match=r"load takes a path, bytes or an onnx.ModelProto, not a int"):
        dyn.interop.onnx.load(3)
    contents = model(LAYER).SerializeToString()
    for damaged in (b"", b"strange", contents[: len(contents) // 2]):
        with pytest.raises(ArtifactError, match="ONNX model"):
            dyn.interop.onnx.load(damaged)
    proto = model(LAYER)
    proto.graph.node[1].input[0] = "nobody"
    with pytest.raises(ArtifactError, match="is not sound"):
        dyn.interop.onnx.load(proto)


def test_later_versions_of_the_operations() -> None:
    proto = model(LAYER)
    proto.opset_import[0].version = 999
    with pytest.raises(NotYetError, match="by version 999 of the operations"):
        dyn.interop.onnx.load(proto)


def test_arguments_of_other_types() -> None:
    run = load(LAYER)
    x, w, b = arrays(2)
    with pytest.raises(ArgumentError, match=r"x is f64\[.*and the ONNX model takes f32\[batch, 4\]"):
        run(x.astype("f8"), w, b)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "layer.onnx"
    path.write_bytes(model(LAYER).SerializeToString())
    inputs = ["--input", "f32[2,4]=1", "--input", "f32[4,3]=1", "--input", "f32[3]=1"]
    assert main(["run", str(path), *inputs]) == 0
    assert capsys.readouterr().out == "result0: float32[2, 3]\n[[5. 5. 5.]\n [5. 5. 5.]]\n"
    assert main(["run", str(path), *inputs[:4]]) == 1
    assert "@layer(x: f32[batch, 4], w: f32[4, 3], b: f32[3]) takes 3 arrays" in capsys.readouterr().err
    assert main(["convert", str(path), str(tmp_path / "layer.mlir")]) == 0
    assert main(["inspect", str(tmp_path / "layer.mlir")]) == 0
    assert "@main(x: f32[batch, 4]" in capsys.readouterr().out
    assert main(["inspect", str(path)]) == 1
    assert "convert it first" in capsys.readouterr().err


def test_arrays_of_other_libraries() -> None:
    torch: Any = pytest.importorskip("torch")
    run = load(LAYER)
    made = run(*[torch.from_numpy(one) for one in arrays(3)])
    assert isinstance(made, torch.Tensor)
    np.testing.assert_allclose(made.numpy(), layer(*arrays(3)), rtol=1e-5)
    assert isinstance(run(*map(dnp.asarray, arrays(3))), dyn.Array)


def test_a_models_arrays_are_there_once() -> None:
    """In panels, where products read them so: neither the file's message nor another copy is kept."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((96, 128)).astype("f4")
    one = model("m (float[n, 96] x) => (float[n, 128] y) { y = MatMul (x, w) }")
    one.graph.initializer.append(numpy_helper.from_array(w, "w"))
    run = dyn.interop.onnx.load(one.SerializeToString())
    for rows in (3, 1, 40):
        x = rng.standard_normal((rows, 96)).astype("f4")
        np.testing.assert_allclose(run(x), x @ w, rtol=1e-4, atol=1e-4)
    ((_, version),) = run._programs.pairs()
    (dense,) = version.program.traced.captured
    if host_target().vector_bytes >= 32:
        assert dense._array is None
    np.testing.assert_array_equal(dense.array, w)
    assert run.cache_info().compiles == 1


def test_elements_that_are_not_as_many_as_said() -> None:
    """The checker does not see large arrays: their own reader counts them."""
    one = model("m (float[n, 96] x) => (float[n, 128] y) { y = MatMul (x, w) }")
    tensor = numpy_helper.from_array(np.zeros((96, 128), "f4"), "w")
    tensor.raw_data = tensor.raw_data[:-4]
    one.graph.initializer.append(tensor)
    with pytest.raises(ArtifactError, match="the elements of w are not as many as said"):
        dyn.interop.onnx.load(one)
