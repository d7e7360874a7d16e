"""``nn.TransformerEncoder`` in inference: one program for all sizes, by the way that eager PyTorch takes."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
nn = torch.nn

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402
from tests.interop.torch.whole import nothing_fell_back  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:The PyTorch API of nested tensors", "ignore:enable_nested_tensor is True", "ignore:Converting mask without"
)
#: Batches and lengths.
TEXTS = ((2, 5), (1, 3), (3, 1), (1, 1), (4, 7), (0, 3), (2, 0))


def layer(**options: Any) -> Any:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(16, 2, 32, **{"batch_first": True, **options})


def encoder(nested: bool, norm: bool = False, **options: Any) -> Any:
    last = nn.LayerNorm(16) if norm else None
    return nn.TransformerEncoder(layer(**options), 2, norm=last, enable_nested_tensor=nested).eval()


def padding(batch: int, length: int) -> Any:
    """Masks of texts of several lengths; the first one's is whole."""
    return torch.arange(length) >= length - torch.arange(batch)[:, None] % max(length, 1)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_a_mask(activation: str, norm_first: bool, mode: Any) -> None:
    module = encoder(nested=False, activation=activation, norm_first=norm_first)
    compiled = dyn_torch.jit(module, strict=True)
    with mode():
        for shape in TEXTS:
            x = torch.randn(*shape, 16)
            same(module(x), compiled(x))
    assert compiled.cache_info().compiles == 1
    nothing_fell_back(compiled)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_with_padding(nested: bool, norm: bool) -> None:
    """Where padding comes last, nested tensors leave zeros in its place; elsewhere it is computed as the rest is."""
    module = encoder(nested, norm)
    compiled = dyn_torch.jit(module, strict=True)
    with torch.no_grad():
        for batch, length in TEXTS:
            x = torch.randn(batch, length, 16)
            whole = padding(batch, length)
            for mask in (whole, whole.flip(1), torch.zeros_like(whole), torch.ones_like(whole), whole.roll(1, 1)):
                found = compiled(x, src_key_padding_mask=mask)
                if nested and (not length or bool(mask.all())):  # which eager PyTorch refuses
                    same(module.norm(torch.zeros_like(x)) if norm else torch.zeros_like(x), found)
                else:
                    same(module(x, src_key_padding_mask=mask), found)
    assert compiled.cache_info().compiles == 1
    nothing_fell_back(compiled)


def test_without_looking_at_the_mask() -> None:
    """The lengths are what counts then, wherever the padding is."""
    module = encoder(nested=True)
    module.mask_check = False
    compiled = dyn_torch.jit(module, strict=True)
    with torch.no_grad():
        for batch, length in TEXTS[:5]:
            x, mask = torch.randn(batch, length, 16), padding(batch, length).flip(1)
            same(module(x, src_key_padding_mask=mask), compiled(x, src_key_padding_mask=mask))
    assert compiled.cache_info().compiles == 1


@pytest.mark.parametrize("nested", [False, True])
def test_with_a_mask_of_pairs(nested: bool) -> None:
    module = encoder(nested)
    compiled = dyn_torch.jit(module, strict=True)
    with torch.no_grad():
        for batch, length in TEXTS[:5] if nested else TEXTS:  # without a text eager PyTorch refuses
            x = torch.randn(batch, length, 16)
            options = {"mask": torch.ones(length, length).triu(1).bool(), "is_causal": True}
            same(module(x, **options), compiled(x, **options))
            options["src_key_padding_mask"] = padding(batch, length)
            same(module(x, **options), compiled(x, **options))
    assert compiled.cache_info().compiles == 2  # of pairs, and with padding
    nothing_fell_back(compiled)


def test_other_ways() -> None:
    """In training, of parameters that require gradients, with hooks, and where the batch is the second axis."""
    hooked = encoder(nested=True)
    hooked.layers[0].register_forward_hook(lambda *given: given[2] * 2)
    for module in (encoder(nested=True, dropout=0.0).train(), encoder(nested=True), hooked):
        compiled = dyn_torch.jit(module, strict=True)
        for shape in TEXTS[:5]:
            x = torch.randn(*shape, 16)
            same(module(x).detach(), compiled(x).detach(), 1e-4)
    module = encoder(nested=False, batch_first=False)
    compiled = dyn_torch.jit(module, strict=True)
    with torch.no_grad():
        for batch, length in TEXTS[:5]:
            x = torch.randn(length, batch, 16)
            same(module(x), compiled(x))


def test_torch_compile() -> None:
    torch._dynamo.reset()
    module = encoder(nested=False)
    compiled = torch.compile(module, backend="dyn", dynamic=True, fullgraph=True)
    with torch.no_grad():
        for batch, length in TEXTS[:2]:
            x, mask = torch.randn(batch, length, 16), padding(batch, length)
            same(module(x, src_key_padding_mask=mask), compiled(x, src_key_padding_mask=mask), in_strides=False)
    nothing_fell_back(compiled)
    torch._dynamo.reset()


#: Masks of places, of pairs of them, and of pairs for each head.
MASKS: list[tuple[int, Any]] = [
    (0, lambda b, n: torch.rand(n, n) > 0.6), (1, lambda b, n: torch.rand(b, n) > 0.6),
    (2, lambda b, n: torch.rand(b, 2, n, n) > 0.6), (1, lambda b, n: (torch.rand(b, n) > 0.6) * -1.0),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MASKS)))
def test_the_operation(number: int) -> None:
    kind, draw = MASKS[number]
    module = layer(activation="gelu", norm_first=True).eval()
    attention = module.self_attn

    def function(x: Any, mask: Any) -> Any:
        return torch._transformer_encoder_layer_fwd(
            x, 16, 2, attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight,
            attention.out_proj.bias, True, True, 1e-5, module.norm1.weight, module.norm1.bias, module.norm2.weight,
            module.norm2.bias, module.linear1.weight, module.linear1.bias, module.linear2.weight, module.linear2.bias,
            mask, kind,
        )  # fmt: skip

    compiled = dyn_torch.jit(function, strict=True)
    with torch.no_grad():
        for batch, length in TEXTS:
            x, mask = torch.randn(batch, length, 16), draw(batch, length)
            same(function(x, mask), compiled(x, mask))
    assert compiled.cache_info().compiles == 1
