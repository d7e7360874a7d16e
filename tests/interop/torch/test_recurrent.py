"""Recurrent nets of PyTorch through ``dyn.interop.torch.jit``: one program for every length and batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dyn

torch: Any = pytest.importorskip("torch")
nn = torch.nn

import dyn.interop.torch as dyn_torch  # noqa: E402

MODULES: dict[str, Callable[[], Any]] = {
    "lstm": lambda: nn.LSTM(4, 5),
    "lstm batch first": lambda: nn.LSTM(4, 5, batch_first=True),
    "lstm of layers": lambda: nn.LSTM(4, 5, num_layers=3),
    "lstm both ways": lambda: nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True),
    "lstm without biases": lambda: nn.LSTM(4, 5, bias=False),
    "lstm projected": lambda: nn.LSTM(4, 5, proj_size=3, num_layers=2, bidirectional=True),
    "lstm projected without biases": lambda: nn.LSTM(4, 5, proj_size=2, bias=False),
    "lstm in float64": lambda: nn.LSTM(4, 5, dtype=torch.float64),
    "gru": lambda: nn.GRU(4, 5),
    "gru both ways": lambda: nn.GRU(4, 5, num_layers=2, bidirectional=True, batch_first=True),
    "gru without biases": lambda: nn.GRU(4, 5, bias=False),
    "rnn": lambda: nn.RNN(4, 5),
    "rnn by relu": lambda: nn.RNN(4, 5, nonlinearity="relu", num_layers=2, bidirectional=True),
}
SHAPES = ((3, 2), (1, 2), (7, 1), (1, 1), (5, 0), (4, 6))


def same(wanted: Any, found: Any) -> None:
    leaves, tree = torch.utils._pytree.tree_flatten(wanted)
    given, its = torch.utils._pytree.tree_flatten(found)
    assert tree == its
    for a, b in zip(leaves, given, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if a.numel():
            sizes = [number for number, size in enumerate(a.shape) if size > 1]
            assert [a.stride(number) for number in sizes] == [b.stride(number) for number in sizes]
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", MODULES)
def test_a_net_at_every_length_is_one_program(name: str) -> None:
    torch.manual_seed(0)
    module = MODULES[name]().eval()
    dtype = next(module.parameters()).dtype
    compiled = dyn_torch.jit(module)
    for length, batch in SHAPES:
        shape = (batch, length) if module.batch_first else (length, batch)
        x = torch.randn(*shape, 4, dtype=dtype)
        with torch.no_grad():
            same(module(x), compiled(x))
    assert compiled.cache_info().compiles == 1
    x = torch.randn(3, 4, dtype=dtype)  # without a batch
    with torch.no_grad():
        same(module(x), compiled(x))


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", ["lstm both ways", "lstm projected", "gru", "rnn by relu"])
def test_states_that_are_given(name: str) -> None:
    module = MODULES[name]().eval()
    compiled = dyn_torch.jit(module)
    with torch.no_grad():
        for length, batch in ((3, 2), (1, 1), (4, 3)):
            x = torch.randn(batch, length, 4) if module.batch_first else torch.randn(length, batch, 4)
            _, state = module(x)
            same(module(x, state), compiled(x, state))


def test_no_steps_are_refused_as_pytorch_does() -> None:
    compiled = dyn_torch.jit(nn.GRU(4, 5).eval())
    with torch.no_grad():
        compiled(torch.randn(2, 3, 4))
        with pytest.raises(dyn.errors.ShapeError, match="at least one step"):
            compiled(torch.randn(0, 3, 4))


def test_dropout_between_layers() -> None:
    module = nn.LSTM(4, 64, num_layers=2, dropout=0.5)
    compiled, x = dyn_torch.jit(module), torch.randn(3, 2, 4)
    with torch.no_grad():
        assert not torch.equal(compiled(x)[0], compiled(x)[0])
        module.eval()
        same(module(x), compiled(x))


def test_packed_sequences_are_refused() -> None:
    module = nn.LSTM(4, 5)

    def f(x: Any, lengths: Any) -> Any:
        return module(nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False))[0].data

    with torch.no_grad(), pytest.raises(dyn.errors.DynError):
        dyn_torch.jit(f, strict=True)(torch.randn(3, 2, 4), torch.tensor([3, 2]))


def test_cells() -> None:
    for cell in (nn.LSTMCell(4, 5), nn.GRUCell(4, 5), nn.RNNCell(4, 5)):
        compiled = dyn_torch.jit(cell)
        with torch.no_grad():
            for batch in (3, 1, 0):
                x = torch.randn(batch, 4)
                same(cell(x), compiled(x))


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", MODULES)
def test_derivatives(name: str) -> None:
    module = MODULES[name]()
    weights = dict(module.named_parameters())
    dtype, flat = module.weight_ih_l0.dtype, module._flat_weights

    def derivatives(x: Any, given: dict[str, Any]) -> Any:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            own = {key: value.detach().requires_grad_() for key, value in given.items()}
            outputs, state = torch.func.functional_call(module, own, (x,))
            ends = state if isinstance(state, tuple) else (state,)
            loss = (outputs**2).sum() + sum((end * 3).sum() for end in ends)
            module._flat_weights = flat  # functional_call leaves one of what it was given, and these may be traced
            return torch.autograd.grad(loss, [x, *own.values()])

    compiled = dyn_torch.jit(derivatives)
    for shape in ((3, 2), (1, 1), (5, 3)):
        x = torch.randn(*shape, 4, dtype=dtype)
        with torch.no_grad():
            given = {key: value.detach() for key, value in weights.items()}
            for a, b in zip(derivatives(x, given), compiled(x, given), strict=True):
                torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4)
    assert compiled.cache_info().compiles == 1


def has_narrow_lstm() -> bool:
    """Whether PyTorch runs LSTMs in bfloat16 on this machine's processor: oneDNN has none without AVX-512."""
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            nn.LSTM(4, 5)(torch.zeros(2, 1, 4))
    except RuntimeError:
        return False
    return True


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", [name for name in MODULES if "layers" not in name])
@pytest.mark.parametrize("has_gradients", [False, True])
def test_autocast(name: str, has_gradients: bool) -> None:
    """Results have the dtypes that PyTorch's have, states of their own, and so have gradients."""
    torch.manual_seed(0)
    module = MODULES[name]()
    compiled = dyn_torch.jit(module, strict=True)
    # Without PyTorch's own there are its results in float32, of which those in bfloat16 are the nearest.
    is_alone = name.startswith("lstm") and not has_narrow_lstm()
    for length, batch in SHAPES[:4]:
        shape = (batch, length) if module.batch_first else (length, batch)
        x = torch.randn(*shape, 4, dtype=next(module.parameters()).dtype)
        found: list[Any] = []
        for function in (module, compiled):
            narrow = torch.autocast("cpu", torch.bfloat16, enabled=function is compiled or not is_alone)
            with narrow, torch.set_grad_enabled(has_gradients):
                made = torch.utils._pytree.tree_leaves(function(x))
            if has_gradients:
                loss = sum([one.float().square().sum() for one in made])
                made += torch.autograd.grad(loss, [*module.parameters()])
            found.append([one.detach() for one in made])
        for wanted, ours in zip(*found, strict=True):
            assert wanted.shape == ours.shape
            assert wanted.dtype == ours.dtype or is_alone
            torch.testing.assert_close(
                ours.float(), wanted.float(), rtol=0.1, atol=0.03 * (1 + wanted.abs().max().item())
            )
    assert compiled.cache_info().compiles == 1
