"""Models on the software GPU, small ones, whole: one compile each, with the reference's results at every size."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import nn, tree
from dyn.interop import stablehlo
from examples import bert, gpt, optimizers
from tests.gpu.programs import Device
from tests.models import test_gpt as llama
from tests.rarely import rarely

RNG = np.random.default_rng(0)
JAX_PROGRAMS = Path(__file__).resolve().parents[2] / "examples" / "jax"


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("f4")


def compare(found: Any, wanted: Any, tolerance: float, where: object) -> None:
    """Hold results on a device to the reference's."""
    for there, value in zip(tree.leaves(found), tree.leaves(wanted), strict=True):
        assert (there.dtype, there.shape) == (np.asarray(value).dtype, np.shape(value))
        np.testing.assert_allclose(there.to_numpy(), value, rtol=tolerance, atol=tolerance, err_msg=f"at {where}")


def check(function: Any, calls: Sequence[tuple[Any, ...]], tolerance: float = 2e-5) -> None:
    """Call a function for a device, and compare with the reference; count compiles."""
    for arguments in calls:
        shapes = [np.shape(leaf) for leaf in tree.leaves(arguments)]
        compare(function(*arguments), function.reference(*arguments), tolerance, shapes)
    assert function.cache_info().compiles == 1


@pytest.mark.parametrize("device", ["cuda", rarely("rocm")], indirect=True)
def test_bert(device: Device) -> None:
    config = bert.BertConfig(layers=2, width=24, heads=3, intermediate=40, vocabulary=50, positions=40)
    params = bert.init_params(config, 0)

    @dyn.jit(shapes="b s, b s", constraints="s <= 40", device=device.name)
    def model(ids: Any, mask: Any) -> Any:
        hidden = bert.encode(params, ids, mask, config=config)
        return hidden, bert.pool(params, hidden)

    check(model, [bert.draw_batch(shape, 0, config) for shape in ((2, 7), (1, 1), (3, 40), (5, 33), (0, 7))])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_layer_in_halves(device: Device, dtype: str) -> None:
    """Rows go by neighbours, aligned and not; weights are converted where they are used."""

    @dyn.jit(shapes="b s 24, 24 72, 24, 24", device=device.name)
    def layer(x: Any, w: Any, scale: Any, shift: Any) -> Any:
        y = nn.layer_norm(x, weight=scale, bias=shift)
        q, k, v = (nn.gelu(y @ w)[..., n * 24 : (n + 1) * 24] for n in range(3))
        scores = nn.softmax(q @ dnp.matrix_transpose(k) / 5, axis=-1)
        return nn.rms_norm(x + scores @ v, weight=scale), dnp.max(scores, axis=-1)

    weights = [floats(24, 72) / 5, floats(24), floats(24)]
    halves = dyn.dtypes.dtype(dtype).np
    calls = [[floats(*shape, 24), *weights] for shape in ((2, 7), (1, 1), (3, 40), (2, 33), (1, 130), (0, 7))]
    check(layer, [tuple(array.astype(halves) for array in arrays) for arrays in calls], 3e-2)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cuda", "rocm"], indirect=True)
def test_training_step(device: Device) -> None:
    """Loss, gradients and Adam in one program, whose results are its next arguments: nothing is copied back."""
    config = gpt.GptConfig(layers=1, width=16, heads=2, vocabulary=30, positions=40)
    adam = optimizers.adam(0.01, eps=1e-3)  # with less, gradients that are 0 but for rounding would count

    def step(params: Any, state: Any, ids: Any) -> Any:
        value, gradients = dyn.value_and_grad(functools.partial(gpt.loss, ids=ids, config=config))(params)
        updates, state = adam.update(gradients, state, params)
        return value, optimizers.apply_updates(params, updates), state

    first: Any = gpt.init_params(config)
    shapes: Any = [gpt.shapes_of(first), gpt.shapes_of(adam.init(first)), "b s"]
    train = dyn.jit(step, shapes=shapes, device=device.name)
    here, there = (
        (first, adam.init(first)),
        tree.map(lambda x: dyn.device_put(x, device.name), (first, adam.init(first))),
    )
    for count, length in ((2, 9), (3, 17), (1, 2), (2, 34)):
        ids = RNG.integers(0, 30, (count, length))
        with device.copying(1, 0):
            loss, *found = train(*there, ids)
        wanted, *here = train.reference(*here, ids)
        compare((loss, found), (wanted, here), 1e-3, (count, length))
        there = tuple(found)
        here = tree.map(lambda x: x.to_numpy(), there)
    assert train.cache_info().compiles == 1


@pytest.mark.parametrize("device", ["cuda", rarely("rocm")], indirect=True)
def test_cnn(device: Device) -> None:
    """Convolutions with strides, a residual, one for each channel, pools, a norm and a head."""
    stem, first, deep, last = (
        floats(3, 3, 3, 8) / 5,
        floats(3, 3, 8, 8) / 9,
        floats(3, 3, 1, 8),
        floats(1, 1, 8, 12) / 3,
    )
    scale, shift, head = abs(floats(8)) + 1, floats(8), floats(12, 5)

    @dyn.jit(shapes="b h w 3", device=device.name)
    def cnn(x: Any) -> Any:
        def conv(x: Any, w: Any, stride: int = 1, groups: int = 1) -> Any:
            numbers = ("NHWC", "HWIO", "NHWC")
            return nn.conv(x, w, stride, "SAME", dimension_numbers=numbers, feature_group_count=groups)

        x = nn.relu(nn.batch_norm(conv(x, stem, 2), shift, scale, scale, shift, 3))
        x = nn.relu(conv(x, first) + x)
        x = nn.max_pool(x, 3, 2, [(1, 1), (1, 1)], dimension_numbers="NHWC")
        x = nn.gelu(conv(conv(x, deep, groups=8), last))
        return nn.log_softmax(nn.global_avg_pool(x, dimension_numbers="NHWC") @ head)

    check(cnn, [(floats(*sizes, 3),) for sizes in ((2, 9, 14), (1, 3, 40), (3, 33, 5), (1, 1, 1), (0, 8, 8))])


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cuda", "rocm"], indirect=True)
def test_decoding_with_a_cache(device: Device) -> None:
    """Token by token, the cache staying on the device; and prompts of any length after any past."""
    params = tree.map(lambda x: dyn.device_put(x, device.name), llama.parameters())
    run = dyn.jit(llama.step)

    def put(past: Any) -> Any:
        return [tuple([dyn.device_put(x, device.name) for x in pair]) for pair in past]

    here = tree.map(lambda x: x.to_numpy(), params)
    for batch, new, before in ((2, 1, 0), (1, 5, 3), (3, 1, 40), (1, 33, 0)):
        tokens, past = RNG.integers(0, llama.VOCABULARY, (batch, new)), llama.empty(batch, before)
        found = run(params, dyn.device_put(tokens, device.name), put(past))
        compare(found, run.reference(here, tokens, past), 2e-4, (batch, new, before))
    tokens, past, seen = RNG.integers(0, llama.VOCABULARY, (2, 6)), put(llama.empty(2)), list[Any]()
    for i in range(6):
        given = dyn.device_put(tokens[:, i : i + 1], device.name)
        with device.copying(0, 0):
            logits, past = run(params, given, past)
        seen.append(logits.to_numpy())
    whole, _ = llama.numpy_step(here, tokens, llama.empty(2))
    np.testing.assert_allclose(np.concatenate(seen, 1), whole, rtol=2e-4, atol=2e-4)
    assert run.cache_info().compiles == 1


# ---- of other frameworks ---------------------------------------------------------------------------------------------


def check_there(program: Any, calls: Sequence[tuple[Any, ...]], device: Device, tolerance: float) -> None:
    """Run a function where its arguments are, on the device, and compare with the reference."""
    for arguments in calls:
        arrays = [np.asarray(leaf) for leaf in arguments]
        found = program(*[dyn.device_put(array, device.name) for array in arrays])
        compare(found, program.reference(*arrays), tolerance, [array.shape for array in arrays])
    assert program.cache_info().compiles == 1


@pytest.mark.slow
@pytest.mark.usefixtures("quick_xla")
@pytest.mark.parametrize("device", ["cuda", "rocm"], indirect=True)
def test_jax_program(
    device: Device, require_module: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder of JAX, whose loop goes on from its cache, exported with symbolic sizes."""
    jax = require_module("jax")
    monkeypatch.syspath_prepend(str(JAX_PROGRAMS))
    jit = importlib.import_module("dyn.interop.jax").jit
    module = importlib.import_module("decoder")
    params, requests = module.init(layers=1, width=16), module.requests(3, 1)
    text = jit(module.PROGRAM).lower(params, *requests[0]).as_text("stablehlo")
    calls = [tuple(jax.tree.leaves((params, *request))) for request in requests]
    check_there(stablehlo.load(text, trusted=True), calls, device, 2e-4)


@pytest.mark.parametrize("device", ["cuda", rarely("rocm")], indirect=True)
def test_torch_module(device: Device, require_module: Callable[[str], ModuleType]) -> None:
    """A module of PyTorch, traced as it is called, and its program put on the device."""
    torch: Any = require_module("torch")
    jit = importlib.import_module("dyn.interop.torch").jit
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True, norm_first=True).eval()
    compiled, given = jit(layer), torch.randn(2, 5, 16)
    with torch.no_grad():
        compiled(given)
        (made,) = compiled.programs
        program = stablehlo.load(stablehlo.dump(made.version([given]).traced), trusted=True)
        for shape in ((2, 5), (1, 1), (3, 33), (1, 40)):
            x = torch.randn(*shape, 16)
            found = program(dyn.device_put(x.numpy(), device.name))
            np.testing.assert_allclose(found.to_numpy(), layer(x).numpy(), rtol=1e-4, atol=1e-5)
    assert program.cache_info().compiles == 1
