"""The example of training, run as `make train` runs it, on few steps; and its parts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest

import dyn
from examples import gpt, optimizers

pytestmark = pytest.mark.usefixtures("quick_xla")

ROOT = Path(__file__).resolve().parents[2]
CONFIG = gpt.GptConfig(layers=1, width=16, heads=2, positions=32)


def train(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "train_char_lm.py"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def words(count: int, length: int) -> np.ndarray:
    return np.random.default_rng([count, length]).integers(0, CONFIG.vocabulary, (count, length))


def test_quick(tmp_path: Path) -> None:
    done = train("--quick", "--no-jax", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("GPT, 2 layers, 64 wide, 4 heads", "compiles", "tokens/s", "dyn's loss: ", "after 30", "it writes:"):
        assert said in done.stdout
    assert done.stderr == ""


def test_a_loss_that_does_not_fall_is_an_error(tmp_path: Path) -> None:
    small = ("--layers", "1", "--width", "8", "--heads", "1", "--steps", "4", "--rate", "0", "--sample", "0")
    done = train(*small, "--no-jax", folder=tmp_path)
    assert done.returncode == 1
    assert "error: the loss did not fall: from " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--steps", "0"], "argument --steps: 0 is less than 1"),
        (["--width", "30", "--heads", "4"], "error: --width: 30 is no multiple of the 4 heads"),
    ],
)
def test_bad_arguments(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = train(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def make_step(lib: Any) -> Any:
    adam = optimizers.adam(0.01, lib=lib)

    def step(params: Any, state: Any, ids: Any) -> Any:
        value, gradients = lib.value_and_grad(gpt.loss)(params, ids, CONFIG, lib)
        updates, state = adam.update(gradients, state, params)
        return value, optimizers.apply_updates(params, updates), state

    return step


def test_steps_of_all_shapes_are_one_compile_and_the_losses_are_jaxs() -> None:
    jax = pytest.importorskip("jax")
    first: Any = gpt.init_params(CONFIG)
    init = optimizers.adam(0.01).init
    params, state = optree.tree_map(np.array, first), init(first)
    theirs = jax.tree.map(jax.numpy.array, (first, state))
    step = dyn.jit(make_step(dyn), donate_argnums=(0, 1), shapes=[gpt.shapes_of(params), gpt.shapes_of(state), "b s"])
    their_step, given = jax.jit(make_step(jax)), params["tokens"]
    for count, length in ((2, 9), (3, 17), (2, 9), (3, 17)):
        ids = words(count, length)
        loss, params, state = step(params, state, ids)
        wanted, *theirs = their_step(*theirs, ids.astype(np.int32))
        assert abs(float(loss) - float(wanted)) < 1e-4
    for count, length in ((1, 2), (1, 33), (7, 3)):
        loss, params, state = step(params, state, words(count, length))
        assert np.isfinite(loss)
    assert params["tokens"] is given  # updated where it lay
    assert (step.cache_info().compiles, int(state.count)) == (1, 7)


def test_losses_of_no_text_at_all_are_zero_gradients() -> None:
    """No batch, or texts of one character, of which nothing is predicted: their sum is 0, and so are its gradients."""
    params = gpt.init_params(CONFIG)

    def total(params: Any, ids: Any, weights: Any) -> Any:
        return gpt.loss(params, ids, CONFIG, weights=weights) * dyn.numpy.sum(weights)

    step = dyn.jit(dyn.value_and_grad(total))
    for shape in ((0, 5), (2, 5), (1, 2)):
        weights = np.zeros((shape[0], shape[1] - 1), np.float32)
        weights[:1] = 1
        value, gradients = step(params, words(*shape), weights)
        assert all(leaf.dtype == np.float32 for leaf in optree.tree_leaves(gradients))
        if shape[0]:
            assert np.isfinite(value)
    assert step.cache_info().compiles == 1


def test_padding_changes_nothing() -> None:
    params, ids = gpt.init_params(CONFIG), words(2, 9)
    padded, weights = np.zeros((4, 17), np.int64), np.zeros((4, 16), np.float32)
    padded[:2, :9], weights[:2, :8] = ids, 1
    loss = dyn.jit(lambda ids, weights: gpt.loss(params, ids, CONFIG, weights=weights))
    np.testing.assert_allclose(loss(padded, weights), gpt.loss(params, ids, CONFIG), rtol=1e-5)


def test_adam_is_what_the_paper_says() -> None:
    adam = optimizers.adam(0.1, 0.8, 0.9, 1e-6)
    params: Any = {"x": np.array([1.0, -2.0], np.float32), "y": [np.array([[3.0]], np.float32)]}
    state = adam.init(params)
    assert isinstance(state, optimizers.AdamState)
    mean = square = np.zeros(2)
    x = params["x"].astype(np.float64)
    for time in range(1, 6):
        gradients: Any = optree.tree_map(lambda p: 2 * p, params)
        updates, state = adam.update(gradients, state, params)
        params = optimizers.apply_updates(params, updates)
        mean, square = 0.8 * mean + 0.2 * 2 * x, 0.9 * square + 0.1 * (2 * x) ** 2
        x = x - 0.1 * (mean / (1 - 0.8**time)) / (np.sqrt(square / (1 - 0.9**time)) + 1e-6)
        np.testing.assert_allclose(params["x"], x, rtol=1e-5)
    assert int(state.count) == 5
    assert params["y"][0].shape == (1, 1)
