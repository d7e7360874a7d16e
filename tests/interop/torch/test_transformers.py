"""Models of Hugging Face from configurations with random weights, at several shapes: as in eager PyTorch.

Each has a layer or two of 32 features, and is compared at shapes with ones among them. Programs are counted: the code
of transformers asks ``q_length > 1`` in each attention (``sdpa_attention.py``), and without a mask ``batch_size != 1``
(``masking_utils.py``), of which nothing depends in the end.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
hf: Any = pytest.importorskip("transformers")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch
from tests.interop.torch.whole import nothing_fell_back  # noqa: E402
from tests.rarely import rarely  # noqa: E402

WORDS = 99
#: Batches and lengths.
TEXTS = ((2, 7), (1, 5), (7, 1), (3, 9), (1, 1))
#: What configurations of the BERT and Llama families share.
SMALL = {
    "vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
LLAMA = {**SMALL, "num_attention_heads": 4, "num_key_value_heads": 2}
PICTURES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
            "image_size": 16, "patch_size": 8}  # fmt: skip


@dataclass(frozen=True)
class Model:
    """How a model is made, what it is called with for each of ``shapes``, and how many programs that takes."""

    make: Callable[[], Any]
    draw: Callable[..., dict[str, Any]]
    shapes: tuple[tuple[int, ...], ...] = TEXTS
    programs: int = 1


def words(batch: int, length: int) -> Any:
    return torch.randint(3, WORDS, (batch, length))


def text(batch: int, length: int) -> dict[str, Any]:
    """Words, the last ones of the first text being padding."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, 1 + length // 2 :] = 0
    return {"input_ids": words(batch, length), "attention_mask": mask, "use_cache": False}


def text_without_mask(batch: int, length: int) -> dict[str, Any]:
    return {"input_ids": words(batch, length), "use_cache": False}


def text_alone(batch: int, length: int) -> dict[str, Any]:
    return {"input_ids": words(batch, length)}


def pair(batch: int, source: int, target: int) -> dict[str, Any]:
    return {**text(batch, source), "decoder_input_ids": words(batch, target)}


def picture(batch: int, height: int = 16, width: int = 16) -> dict[str, Any]:
    return {"pixel_values": torch.randn(batch, 3, height, width)}


def sound(batch: int, length: int) -> dict[str, Any]:
    return {"input_features": torch.randn(batch, 8, 20), "decoder_input_ids": words(batch, length), "use_cache": False}


def texts_and_pictures(texts: int, length: int, pictures: int) -> dict[str, Any]:
    return {**picture(pictures), "input_ids": words(texts, length)}


def bert() -> Any:
    return hf.BertModel(hf.BertConfig(**SMALL, num_attention_heads=2))


def gpt2() -> Any:
    config = hf.GPT2Config(
        vocab_size=WORDS, n_embd=32, n_layer=1, n_head=2, n_positions=32, bos_token_id=1, eos_token_id=2
    )
    return hf.GPT2LMHeadModel(config)


def llama() -> Any:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA))


class WithCache(torch.nn.Module):
    """A model of texts whose result has the tensors of its cache."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any) -> dict[str, Any]:
        made = self.model(input_ids)
        return {"logits": made.logits, "cache": [(one.keys, one.values) for one in made.past_key_values.layers]}


def qwen2() -> Any:
    return WithCache(hf.Qwen2ForCausalLM(hf.Qwen2Config(**LLAMA)))


def mixtral() -> Any:
    return hf.MixtralForCausalLM(
        hf.MixtralConfig(**{**LLAMA, "num_hidden_layers": 1}, num_local_experts=4, num_experts_per_tok=2)
    )


def t5() -> Any:
    config = hf.T5Config(vocab_size=WORDS, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2)
    return hf.T5ForConditionalGeneration(config)


def whisper() -> Any:
    heads = dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2)
    widths = dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 64)
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    lengths = {"max_source_positions": 10, "max_target_positions": 16}
    config = hf.WhisperConfig(
        vocab_size=WORDS, d_model=32, encoder_layers=1, decoder_layers=1, num_mel_bins=8,
        **heads, **widths, **tokens, **lengths,
    )  # fmt: skip
    return hf.WhisperForConditionalGeneration(config)


def roberta() -> Any:
    """A classifier whose first call decides ``config.problem_type``, which later ones read."""
    config = hf.RobertaConfig(**{**SMALL, "num_hidden_layers": 1, "max_position_embeddings": 40}, num_attention_heads=2)
    return hf.RobertaForSequenceClassification(config)


def labelled(batch: int, length: int) -> dict[str, Any]:
    return {**text(batch, length), "use_cache": None, "labels": torch.randint(2, (batch,))}


def opt() -> Any:
    config = hf.OPTConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=1, ffn_dim=64, num_attention_heads=2,
        max_position_embeddings=32, word_embed_proj_dim=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return hf.OPTForCausalLM(config)


def vit() -> Any:
    return hf.ViTModel(hf.ViTConfig(**PICTURES))


def resnet() -> Any:
    """A small one. In training it takes pictures of four or more, or what its layers see at the end is a few numbers
    for each channel, and one bit more or less leads PyTorch's own steps elsewhere: by 3 % of the fifth loss."""
    config = hf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 2], layer_type="bottleneck")
    return hf.ResNetForImageClassification(config)


def clip() -> Any:
    texts = {**SMALL, "num_hidden_layers": 1, "num_attention_heads": 2}
    return hf.CLIPModel(hf.CLIPConfig(text_config=texts, vision_config=PICTURES, projection_dim=16))


MODELS = {
    "bert": Model(bert, lambda b, s: {**text(b, s), "use_cache": None}),
    "gpt2": Model(gpt2, text),
    "gpt2 without mask": Model(gpt2, text_without_mask),
    "llama": Model(llama, text),
    "qwen2 and its cache": Model(qwen2, text_alone),
    "mixtral": Model(mixtral, text),
    "t5": Model(t5, pair, ((2, 7, 4), (1, 5, 3), (7, 1, 1), (3, 9, 1), (1, 1, 5))),
    "whisper": Model(whisper, sound),
    "roberta with labels": Model(roberta, labelled),
    "opt": Model(opt, text),
    "vit": Model(vit, picture, ((2,), (1,), (5,))),
    "resnet": Model(resnet, picture, ((4, 32, 32), (3, 32, 40), (5, 24, 32), (1, 32, 40))),
    "clip": Model(clip, texts_and_pictures, ((3, 7, 2), (4, 5, 1), (1, 9, 3), (1, 4, 1))),
}  # fmt: skip


def made(make: Callable[[], Any]) -> Any:
    """A model with the same weights each time, which are large enough for attention to attend."""
    torch.manual_seed(0)
    model = make().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


@pytest.mark.parametrize("name", MODELS)
def test_inference(name: str) -> None:
    """All of a model is compiled, and once, under ``inference_mode`` and ``no_grad`` alike."""
    case = MODELS[name]
    model = made(case.make)
    compiled = dyn_torch.jit(model)
    for mode, shapes in ((torch.inference_mode, case.shapes), (torch.no_grad, case.shapes[:1])):
        with mode():
            for shape in shapes:
                arguments = case.draw(*shape)
                same(model(**arguments), compiled(**arguments))
    assert compiled.cache_info().compiles == case.programs
    nothing_fell_back(compiled)


#: Each model as servers call it; by the layers that they alone have, in training, and without gradients the older way.
MODES = [
    *((name, torch.inference_mode) for name in MODELS),
    *((name, torch.enable_grad) for name in ("bert", "gpt2", "llama", "mixtral", "t5", "whisper", "resnet", "clip")),
    *((name, torch.no_grad) for name in ("bert", "vit")),
]
#: Of which ``make test`` runs these: BERT every way, a decoder, an encoder with one, and a convolutional network.
OFTEN = [
    ("bert", torch.inference_mode), ("bert", torch.enable_grad), ("bert", torch.no_grad),
    ("llama", torch.inference_mode), ("mixtral", torch.inference_mode),
    ("t5", torch.enable_grad), ("resnet", torch.enable_grad),
]  # fmt: skip


@pytest.mark.parametrize(("name", "mode"), [one if one in OFTEN else rarely(*one) for one in MODES])
def test_torch_compile(name: str, mode: Callable[[], Any]) -> None:
    """One graph has all of a model, whose numbers Dynamo makes tensors, and dyn runs all of the graph."""
    torch._dynamo.reset()
    case = MODELS[name]
    model = made(case.make)
    compiled = torch.compile(model, backend="dyn", dynamic=True, fullgraph=True)
    with mode():
        for shape in case.shapes[:2]:
            arguments = case.draw(*shape)
            wanted, found = model(**arguments), compiled(**arguments)
            same(wanted, found, 1e-4, in_strides=False)
            if mode is torch.enable_grad:
                weights = [one for one in model.parameters() if one.requires_grad]
                pulled = [torch.autograd.grad(loss_of(one), weights, allow_unused=True) for one in (wanted, found)]
                same(pulled[0], pulled[1], 1e-4, in_strides=False)
    nothing_fell_back(compiled)
    torch._dynamo.reset()


def trained(model: Any) -> Any:
    """A model in training, in which nothing is dropped."""
    for module in model.train().modules():
        for name, none in (("p", 0.0), ("dropout", 0.0)):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, none)
    return model


def loss_of(outputs: Any) -> Any:
    """The mean of the squares of one result: what the others alone depend on gets no gradient."""
    name = next(name for name in ("logits", "logits_per_text", "last_hidden_state") if name in outputs)
    return outputs[name].square().mean()


@pytest.mark.parametrize("name", [name for name in MODELS if name != "gpt2 without mask"])
def test_training(name: str) -> None:
    """Steps over several shapes leave the parameters, the buffers and the gradients that PyTorch leaves."""
    case = MODELS[name]
    model = trained(made(case.make))
    again = copy.deepcopy(model)
    compiled = dyn_torch.jit(again, strict=True)
    optimizers = [torch.optim.AdamW(one.parameters(), 0.01, eps=1e-3) for one in (model, again)]
    for shape in (case.shapes * 2)[:5]:
        arguments = case.draw(*shape)
        wanted, found = loss_of(model(**arguments)), loss_of(compiled(**arguments))
        same(wanted.detach(), found.detach(), 1e-4)
        for loss, optimizer in zip((wanted, found), optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for (label, p), q in zip(model.named_parameters(), again.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None), label
    same([*model.parameters(), *model.buffers()], [*again.parameters(), *again.buffers()], 1e-4, in_strides=False)
    assert compiled.cache_info().compiles == case.programs
    nothing_fell_back(compiled)


Past = list[tuple[Any, Any]]


@pytest.mark.parametrize("make", [gpt2, llama, mixtral])
def test_decoding_with_a_cache(make: Callable[[], Any]) -> None:
    """Keys and values of the words so far go in and come out: lengths grow at each step, and programs do not."""
    model = made(make)

    def step(ids: Any, past: Past) -> tuple[Any, Past]:
        cache = hf.DynamicCache(past)
        logits = model(input_ids=ids, past_key_values=cache, use_cache=True).logits
        return logits, [(layer.keys, layer.values) for layer in cache.layers]

    compiled = dyn_torch.jit(step)
    with torch.no_grad():
        for batch, length in ((2, 6), (1, 3), (3, 2)):
            ids, wanted, found = words(batch, length), [], []
            for _ in range(3):
                (logits, wanted), (ours, found) = step(ids, wanted), compiled(ids, found)
                same((logits, wanted), (ours, found))
                ids = logits[:, -1:].argmax(-1)
    # One for texts, whose cache is empty, and one for words that follow.
    assert compiled.cache_info().compiles == 2
    nothing_fell_back(compiled)


@pytest.mark.parametrize(("make", "programs"), [(gpt2, 2), (llama, 2), (t5, 4)])
def test_generate(make: Callable[[], Any], programs: int) -> None:
    """``generate`` of a model whose ``forward`` is compiled: its caches go in and out, and no step is compiled anew."""
    model = made(make)
    model.generation_config.eos_token_id = None
    again = copy.deepcopy(model)
    again.forward = compiled = dyn_torch.jit(again.forward, strict=True)
    options = {"max_new_tokens": 8, "do_sample": False}
    if model.config.is_encoder_decoder:
        options["decoder_start_token_id"] = 0
    for batch, length in ((2, 5), (1, 3)):
        ids = words(batch, length)
        assert torch.equal(model.generate(ids, **options), again.generate(ids, **options))
    # One for the text and one for the words that follow; T5 has them for a batch of 1, too.
    assert compiled.cache_info().compiles <= programs


def test_generate_with_a_static_cache() -> None:
    """Caches of several lengths, which are numbers in them: what follows a text is one program for all of them."""
    model = made(llama)
    model.generation_config.eos_token_id = None
    again = copy.deepcopy(model)
    again.forward = compiled = dyn_torch.jit(again.forward, strict=True)
    options = {"max_new_tokens": 4, "do_sample": False, "cache_implementation": "static"}
    for batch, length in ((2, 5), (1, 3), (3, 4)):
        ids = words(batch, length)
        assert torch.equal(model.generate(ids, **options), again.generate(ids, **options))
    assert compiled.cache_info().compiles == 2


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_gradient_checkpointing(is_reentrant: bool) -> None:
    model = made(gpt2)
    again = copy.deepcopy(model)
    again.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": is_reentrant})
    compiled = dyn_torch.jit(trained(again), strict=True)
    for shape in TEXTS[:2]:
        arguments = text(*shape)
        for one, function in ((model, trained(model)), (again, compiled)):
            one.zero_grad()
            loss_of(function(**arguments)).backward()
        same([p.grad for p in model.parameters()], [p.grad for p in again.parameters()], 1e-4, in_strides=False)


def test_configurations_are_looked_at() -> None:
    """What changes of a model between calls is seen: its configuration, tied weights, dtype, layers."""
    model = made(gpt2)
    again = copy.deepcopy(model)
    compiled = dyn_torch.jit(again, strict=True)
    changes: list[Callable[[Any], Any]] = [
        lambda m: None,
        lambda m: setattr(m.config, "output_hidden_states", True),
        lambda m: setattr(m.lm_head, "weight", torch.nn.Parameter(2 * m.lm_head.weight.detach())),
        lambda m: m.double(),
        lambda m: setattr(m.transformer.h[0].attn, "scaling", 0.1),
        lambda m: m.set_attn_implementation("eager"),
    ]
    for change in changes:
        change(model)
        change(again)
        arguments = text(2, 5)
        with torch.no_grad():
            same(model(**arguments), compiled(**arguments))
