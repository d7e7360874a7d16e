"""The JAX programs of examples/jax: what ``make jax`` runs, on a few requests."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dyn.interop import jax as dyn_jax
from dyn.interop.stablehlo import load
from tests.rarely import rarely

pytestmark = pytest.mark.usefixtures("quick_xla")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "jax"


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the programs are run: their folder is on the path."""
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.mark.parametrize(
    "name", ["decoder", rarely("cnn"), rarely("unet"), rarely("molecules"), "graphs", rarely("lstm")]
)
def test_one_compile_serves_all_requests(name: str) -> None:
    import stream

    outcome = stream.serve(name, 2)
    assert outcome.compiles == 1
    assert outcome.difference <= stream.TOLERANCE
    assert name in stream.PROGRAMS


@pytest.mark.parametrize("name", ["decoder", "molecules", rarely("graphs"), "lstm"])
def test_programs_leave_as_stablehlo(name: str) -> None:
    """What dyn made of a program, written, read again and run: the same at every size, from one compile."""
    module = importlib.import_module(name)
    params, requests = module.init(), module.requests(3, 1)
    ours = dyn_jax.jit(module.PROGRAM, shapes=getattr(module, "SHAPES", None))
    again = load(ours.lower(params, *requests[0]).as_text("stablehlo"))
    for request in requests:
        wanted = jax.tree.leaves(ours(params, *request))
        made = again(*[np.asarray(leaf) for leaf in jax.tree.leaves((params, *request))])
        for x, y in zip(made if isinstance(made, tuple) else (made,), wanted, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x, y, 1e-4, 1e-4)
    assert again.cache_info().compiles == 1


def test_differences() -> None:
    import stream

    x = jnp.asarray([1.0, 100.0])
    assert stream.difference([x], [x]) == 0
    assert stream.difference([x + jnp.asarray([0, 0.5])], [x]) == pytest.approx(0.005)
    assert stream.difference([x], (x,)) == np.inf
    assert stream.difference([x], [x[:1]]) == np.inf
    assert stream.difference([x], [x.astype(jnp.float16)]) == np.inf


def test_a_decoder_goes_on_from_its_cache() -> None:
    """The loop with a cache chooses what a pass over the whole text chooses."""
    import decoder

    params, ((prompt,),) = decoder.init(), decoder.requests(1)
    text = jax.jit(decoder.generate)(params, prompt)
    empty = jnp.zeros((2, *text.shape, decoder.HEADS, 8))
    logits, _ = jax.jit(decoder.forward)(params, text[:, :-1], decoder.Cache(empty, empty), jnp.int32(0))
    np.testing.assert_array_equal(text[:, -1], jnp.argmax(logits, -1))


def test_energy_is_conserved() -> None:
    import molecules

    params, requests = molecules.init(), molecules.requests(2)
    for request in requests:
        energies = jax.jit(molecules.simulate)(params, *request)[2]
        np.testing.assert_allclose(energies, energies[0], rtol=0.02, atol=0.05)


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / "stream.py"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_command_line(tmp_path: Path) -> None:
    done = run("--programs", "graphs", "--requests", "2", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "requests of ever-changing shapes, first calls included" in done.stdout
    assert "graphs" in done.stdout
    assert "lstm" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--programs", "alexnet"], "error: --programs: there is no alexnet; there are decoder, cnn, unet, "),
        (["--requests", "0"], "error: argument --requests: 0 is less than 1"),
    ],
)
def test_bad_arguments(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import stream

    monkeypatch.setattr(sys, "argv", ["stream.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        stream.main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
