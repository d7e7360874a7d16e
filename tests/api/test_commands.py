"""``python -m dyn run``, ``inspect`` and ``convert``: results, tables, files, and what errors look like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dyn.__main__ import main
from dyn.commands.tables import Table
from dyn.errors import ArgumentError

pytest.importorskip("jaxlib")

LAYER = """
module @layer {
  func.func @main(%x: tensor<?x4xf32> {dyn.dims = "b _"} loc("x"), %w: tensor<4x?xf32> {dyn.dims = "_ s"} loc("w"))
      -> (tensor<?x?xf32>, tensor<4xf32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<?x4xf32>, tensor<4x?xf32>) -> tensor<?x?xf32>
    %1 = stablehlo.tanh %0 : tensor<?x?xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0]
      : (tensor<?x4xf32>, tensor<f32>) -> tensor<4xf32>
    return %1, %2 : tensor<?x?xf32>, tensor<4xf32>
  }
  func.func @double(%x: tensor<?xbf16>) -> tensor<?xbf16> {
    %0 = stablehlo.add %x, %x : tensor<?xbf16>
    return %0 : tensor<?xbf16>
  }
}
"""

STRANGE = """
func.func private @inner(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.custom_call @mystery(%x) : (tensor<?xf32>) -> tensor<?xf32>
  %1 = stablehlo.add %0, %x : tensor<?xf32>
  return %1 : tensor<?xf32>
}
func.func @main(%x: tensor<?xf32>, %n: tensor<i32>) -> tensor<?xf32> {
  %0 = call @inner(%x) : (tensor<?xf32>) -> tensor<?xf32>
  %1 = stablehlo.custom_call @mystery(%0) : (tensor<?xf32>) -> tensor<?xf32>
  %2:2 = stablehlo.while(%i = %n, %c = %1) : tensor<i32>, tensor<?xf32>
   cond {
    %z = stablehlo.constant dense<3> : tensor<i32>
    %p = stablehlo.compare LT, %i, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %d = stablehlo.custom_call @other(%c) : (tensor<?xf32>) -> tensor<?xf32>
    stablehlo.return %i, %d : tensor<i32>, tensor<?xf32>
  }
  return %2#1 : tensor<?xf32>
}
"""

TOKENS = """
func.func @main(%x: tensor<3xf32>, %t: !stablehlo.token) -> tensor<3xf32> {
  %0 = stablehlo.after_all %t : !stablehlo.token
  %1 = stablehlo.tuple %x, %0 : tuple<tensor<3xf32>, !stablehlo.token>
  return %x : tensor<3xf32>
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"layer": LAYER, "strange": STRANGE, "tokens": TOKENS}.items():
        Path(f"{name}.mlir").write_text(text, encoding="utf-8")
    Path("words.txt").write_text("hello", encoding="utf-8")
    Path("empty.mlir").touch()
    np.save("x.npy", np.arange(8, dtype=np.float32).reshape(2, 4))
    np.savez("both.npz", x=np.ones((2, 4), np.float32), w=np.full((4, 3), 0.5, np.float32))
    np.save("b.npy", np.arange(3).astype(ml_dtypes.bfloat16))
    return tmp_path


def results(path: str) -> dict[str, Any]:
    with np.load(path) as file:
        return dict(file)


# ---- run -------------------------------------------------------------------------------------------------------------


def test_run_prints_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "layer.mlir", "--input", "x.npy", "--input", "f32[4,1]=0", "--repeat", "3"]) == 0
    told, times = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert told == "result0: float32[2, 1]\n[[0.]\n [0.]]\nresult1: float32[4]\n[ 4.  6.  8. 10.]"
    assert times.startswith("first call ")
    assert "with compiling; then 3: fastest " in times


def test_run_writes_results_of_any_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    for b, s in ((0, 2), (1, 1), (7, 64)):
        texts = [f"f32[{b},4]", f"4x{s}xf32=1"]
        assert main(["run", "layer.mlir", "--output", "o.npz", *[w for t in texts for w in ("--input", t)]]) == 0
        made = results("o.npz")
        assert (made["result0"].shape, made["result1"].shape) == ((b, s), (4,))
    assert main(["run", "layer.mlir", "--input", "both.npz", "--output", "o.npz"]) == 0
    np.testing.assert_allclose(results("o.npz")["result0"], np.tanh(np.full((2, 3), 2.0)), 1e-6)
    assert main(["run", "layer.mlir", "--input", "both.npz:x", "--input", "both.npz:w", "--output", "o.npz"]) == 0
    assert main(["run", "layer.mlir", "--entry", "double", "--input", "b.npy", "--output", "o.npy"]) == 0
    assert np.load("o.npy").view(ml_dtypes.bfloat16).tolist() == [0, 2, 4]
    assert capsys.readouterr() == ("", "")


def test_the_same_seed_gives_the_same_numbers() -> None:
    made: list[Any] = []
    for seed in ("0", "0", "1"):
        texts = ["run", "layer.mlir", "--input", "f32[3,4]", "--input", "f32[4,3]=iota", "--seed", seed]
        assert main([*texts, "--output", "o.npz"]) == 0
        made.append(results("o.npz")["result1"])
    np.testing.assert_array_equal(made[0], made[1])
    assert (made[0] != made[2]).any()


# ---- inspect ---------------------------------------------------------------------------------------------------------


def test_inspect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "layer.mlir"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(
        "layer.mlir: @main(x: f32[b, 4], w: f32[4, s]) -> (f32[b, s], f32[4])\n\n"
        "5 operations of 5 kinds\n"
        "  operation              times  supported\n"
        "  stablehlo.add          1      yes\n"
    )
    for part in (
        "\n\ndims\n  dim  is\n  b    x.shape[0]\n  s    w.shape[1]\n\n",
        "\nfacts, checked at each call\n  x.shape[1] == 4: declared\n",
        "\ngroups, each one kernel\n  contract dot_general_tanh [b, s]: 2 ops, saves 8*b*s bytes of traffic\n",
        "\nmemory\n",
        " distinct kernels\n",
    ):
        assert part in told


def test_inspect_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "layer.mlir", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["supported"] is True
    assert told["arguments"][0] == {"name": "x", "dtype": "float32", "shape": ["b", 4]}
    assert told["results"] == ["f32[b, s]", "f32[4]"]
    assert told["operations"]["stablehlo.dot_general"] == 1
    assert [dim["name"] for dim in told["dims"]] == ["b", "s"]
    assert told["kernels"] >= 2
    assert {"facts", "groups", "memory", "guards", "saved", "problems"} <= told.keys()


def test_every_operation_that_is_not_supported_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "strange.mlir"]) == 1
    told = capsys.readouterr().out
    give = "nothing says what it computes. help: give it one: "
    give += "dyn.interop.stablehlo.register_custom_call(name, impl), where impl may be a dyn.ffi_call."
    assert told.endswith(
        "not supported\n"
        "  operation            times  at                              why\n"
        f"  custom_call mystery  2      strange.mlir:3, strange.mlir:9  {give}\n"
        f"  custom_call other    1      strange.mlir:16                 {give}\n"
    )
    assert "  stablehlo.while      1      yes\n" in told
    assert main(["inspect", "tokens.mlir", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(p["name"], p["count"], p["text"]) for p in found["problems"]] == [
        ("stablehlo.after_all", 2, "values of type !stablehlo.token are not supported."),
        ("stablehlo.tuple", 1, "values of type tuple<tensor<3xf32>, !stablehlo.token> are not supported."),
    ]


def test_tables_leave_out_empty_columns() -> None:
    table = Table("things", ("a", "b", "c"), (("1", "", "x"), ("22", "", "")))
    assert table.text() == "things\n  a   c\n  1   x\n  22"


# ---- convert ---------------------------------------------------------------------------------------------------------


def test_convert_to_every_form_and_back(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for out, options in (
        ("a.mlir", []),
        ("a.mlirbc", []),
        ("a.shlo", []),
        ("c", ["--to", "bytecode"]),
        ("old", ["--version", "1.0.0"]),
        ("weeks", ["--to", "artifact", "--version", "12"]),
    ):
        assert main(["convert", "layer.mlir", out, *options]) == 0
        assert main(["run", out, "--input", "both.npz", "--output", "o.npz"]) == 0
        np.testing.assert_allclose(results("o.npz")["result1"], np.full(4, 2.0))
    assert Path("a.mlir").read_bytes().startswith(b"#loc")
    assert Path("a.mlirbc").read_bytes()[:4] == Path("old").read_bytes()[:4] == b"ML\xefR"
    assert main(["convert", "layer.mlir", "-", "--static", "b=2, s=0"]) == 0
    text = capsysbinary.readouterr().out.decode()
    assert "@main(%arg0: tensor<2x4xf32>" in text
    assert "-> (tensor<2x0xf32>" in text
    assert "?" not in text
    assert main(["convert", "layer.mlir", "-", "--static", "b=2"]) == 0
    assert "-> (tensor<2x?xf32>" in capsysbinary.readouterr().out.decode()


def test_convert_what_jax_exported(capsys: pytest.CaptureFixture[str]) -> None:
    jax = pytest.importorskip("jax")
    b = jax.export.symbolic_shape("b")
    exported = jax.export.export(jax.jit(jax.numpy.sin))(jax.ShapeDtypeStruct(b, np.float32))
    Path("f.jax").write_bytes(exported.serialize())
    assert main(["convert", "--from-jax-exported", "f.jax", "f.shlo"]) == 0
    assert main(["inspect", "f.shlo"]) == 0
    assert capsys.readouterr().out.startswith("f.shlo: @main(arg0: f32[b]) -> (f32[b])\n")


# ---- what goes wrong -------------------------------------------------------------------------------------------------

FORMS = "pass a.npy, a.npz, a.npz:name, or an array to make: f32[4,128], f32[4,128]=0, i32[]=7, bf16[8]=iota."
MAIN = "@main(x: f32[b, 4], w: f32[4, s])"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run nope.mlir", "there is no file nope.mlir.\n  help: check the path; - is standard input."),
        ("inspect .", ". is a directory.\n  help: name a file in it."),
        (
            "inspect empty.mlir",
            "empty.mlir is empty.\n  help: a StableHLO module is text, MLIR bytecode or a portable artifact.",
        ),
        (
            "run layer.mlir --entry foo",
            "layer.mlir has no function foo; it has main, double.\n  help: name one of them: --entry NAME.",
        ),
        (
            "run layer.mlir --input x.npy",
            f"{MAIN} takes 2 arrays, and 1 were given: x.npy.\n  help: pass --input once for each argument, in order.",
        ),
        (
            "run layer.mlir --input f64[2,4] --input f32[4,3]",
            "f64[2,4] is float64[2, 4], and it is for argument 0, x: f32[b, 4]: it has to be float32.\n"
            "  help: save it as float32, with .astype('float32').",
        ),
        (
            "run layer.mlir --input f32[2,5] --input f32[4,3]",
            "f32[2,5] is float32[2, 5], and it is for argument 0, x: f32[b, 4]: axis 1 has 5 elements, and must have "
            "4.",
        ),
        (
            "run layer.mlir --input f32[4] --input f32[4,3]",
            "f32[4] is float32[4], and it is for argument 0, x: f32[b, 4]: it has to have 2 axes, not 1.",
        ),
        ("run layer.mlir --input missing.npy", f"--input missing.npy: there is no such file.\n  help: {FORMS}"),
        (
            "run layer.mlir --input f33[2]",
            "--input f33[2]: there is no dtype f33.\n  help: use one of i1, i8, i16, i32, i64, u8, u16, u32, u64, "
            "f16, bf16, f32, f64, c64, c128, f8e3m4, f8e4m3, f8e4m3b11fnuz, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, "
            "f8e8m0fnu.",
        ),
        (
            "run layer.mlir --input i32[2]=1.5x",
            "--input i32[2]=1.5x: 1.5x is no int32.\n  help: pass a number, random, iota, zeros or ones.",
        ),
        ("run layer.mlir --input f(3)", f"--input f(3): this is no file, and describes no array.\n  help: {FORMS}"),
        (
            f"run layer.mlir --input f(3){'x' * 5000}",
            f"--input f(3){'x' * 76}…: this is no file, and describes no array.\n  help: {FORMS}",
        ),
        (
            "run layer.mlir --input f32[99999999999999999999]=0",
            "--input f32[99999999999999999999]=0: there is no memory for an array of so many elements.",
        ),
        ("run layer.mlir --input both.npz:q", "--input both.npz:q: both.npz has no array 'q'; it has x, w."),
        ("run layer.mlir --device cuda", "--device cuda comes later.\n  help: this version runs on cpu."),
        (
            "run layer.mlir --output a.txt",
            "--output a.txt is neither .npz nor .npy.\n  help: give the file one of these endings.",
        ),
        ("run layer.mlir --repeat -1", "--repeat and --seed are not negative."),
        (
            "run layer.mlir --input both.npz --output o.npy",
            "--output o.npy has room for one array, and there are 2 results.\n  help: write an .npz file.",
        ),
        (
            "convert layer.mlir no/where.mlir",
            "no/where.mlir cannot be written: there is no such directory.\n  help: make it first.",
        ),
        (
            "convert layer.mlir - --static q=3",
            f"--static q=3: {MAIN} has no dim q.\n  help: its dims are b, s.",
        ),
        (
            "convert layer.mlir - --static b=-1",
            "--static b=-1: 'b=-1' is no size of a dim.\n  help: write --static \"b=4,s=128\".",
        ),
        (
            "convert layer.mlir - --to text --version 1.0.0",
            "--version 1.0.0 is a matter of artifacts, not of text.\n"
            "  help: leave --version out, or write --to artifact.",
        ),
    ],
)
def test_errors(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 1
    assert capsys.readouterr() == ("", f"python -m dyn {words.split(maxsplit=1)[0]}: {told}\n")


def test_files_of_another_machine_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("swapped.npy", np.ones((2, 4), ">f4"))
    assert main(["run", "layer.mlir", "--input", "swapped.npy", "--input", "f32[4,3]=1"]) == 0
    np.save("swapped.npy", np.ones((2, 4), "<f4"))
    first = capsys.readouterr().out
    assert main(["run", "layer.mlir", "--input", "swapped.npy", "--input", "f32[4,3]=1"]) == 0
    assert capsys.readouterr().out == first


def test_errors_in_others_words(capsys: pytest.CaptureFixture[str]) -> None:
    """What MLIR, NumPy and flatbuffers say, after words of ours."""
    for words, start in (
        ("inspect words.txt", "words.txt: this is no StableHLO module: line 1, column 1: custom op 'hello' is unknown"),
        ("inspect both.npz", "both.npz: this is no StableHLO module: "),
        ("convert words.txt - --from-jax-exported", "words.txt is no serialised jax.export.Exported: "),
        ("run layer.mlir --input words.txt", "--input words.txt: it is no file of NumPy's: "),
        ("convert layer.mlir a.shlo --version 0.0.1", "the program cannot be written for StableHLO 0.0.1: "),
        (
            "run strange.mlir --input f32[2] --input i32[]=0",
            "the custom call 'mystery' of (f32[arg0_0]) has no meaning in this version.",
        ),
    ):
        assert main(words.split()) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert f"python -m dyn {words.split()[0]}: {start}" in err


def test_with_debug_errors_are_raised() -> None:
    with pytest.raises(ArgumentError, match="there is no file nope"):
        main(["run", "nope", "--debug"])


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as info:
        main(["run"])
    assert info.value.code == 2
    assert "the following arguments are required: model" in capsys.readouterr().err


def test_as_a_process() -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-m", "dyn"]
    piped = subprocess.run(
        [*command, "run", "-", "--entry", "double", "--input", "bf16[2]=1"],
        input=LAYER.encode(), capture_output=True, env=environment, check=False,
    )  # fmt: skip
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, b"result0: bfloat16[2]\n[2 2]\n", b"")
    # A reader that has seen enough: no traceback.
    with subprocess.Popen(
        [*command, "inspect", "layer.mlir"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141
