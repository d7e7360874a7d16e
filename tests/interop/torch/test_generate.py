"""``generate`` of Hugging Face's models: their own Python, with the model's forward compiled once for all texts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
hf: Any = pytest.importorskip("transformers")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.test_transformers import LLAMA, SMALL, gpt2, llama, made, t5, words  # noqa: E402
from tests.interop.torch.whole import nothing_fell_back  # noqa: E402
from tests.rarely import rarely  # noqa: E402

#: Batches and lengths of texts.
TEXTS = ((2, 5), (1, 3), (3, 4), (1, 1), (4, 7), (2, 2), (5, 1), (1, 9), (3, 6), (6, 8))


def qwen2() -> Any:
    return hf.Qwen2ForCausalLM(hf.Qwen2Config(**LLAMA))


def bert() -> Any:
    return hf.BertLMHeadModel(hf.BertConfig(**SMALL, num_attention_heads=2, is_decoder=True))


#: What is compiled: the text and the words that follow, and T5's encoder.
MODELS: dict[str, tuple[Callable[[], Any], int]] = {
    "llama": (llama, 2), "gpt2": (gpt2, 2), "t5": (t5, 3), "qwen2": (qwen2, 2), "bert": (bert, 2),
}  # fmt: skip
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "top_k": 20},
    "beams": {"num_beams": 3, "do_sample": False},
}
GRIDS = [(name, way) for name in MODELS for way in WAYS]
OFTEN = [("llama", "greedy"), ("gpt2", "sampling"), ("t5", "beams"), ("bert", "greedy")]


def compared(model: Any, again: Any, texts: Any, **options: Any) -> None:
    """Assert that two models write the same words for texts of several shapes."""
    options = {"max_new_tokens": 4, "pad_token_id": 0, **options}
    if model.config.is_encoder_decoder:
        options["decoder_start_token_id"] = 0
    for batch, length in texts:
        ids = words(batch, length)
        found: list[Any] = []
        for one in (model, again):
            torch.manual_seed(batch)
            found.append(one.generate(ids, **options))
        assert torch.equal(*found)


def pair(make: Callable[[], Any]) -> tuple[Any, Any]:
    """A model that never ends a text before its time, and a copy."""
    model = made(make)
    model.generation_config.eos_token_id = None
    return model, copy.deepcopy(model)


@pytest.mark.parametrize(("name", "way"), [one if one in OFTEN else rarely(*one) for one in GRIDS])
def test_generate(name: str, way: str) -> None:
    make, programs = MODELS[name]
    model, again = pair(make)
    compiled = dyn_torch.jit(again, strict=True)
    compared(model, compiled, TEXTS, **WAYS[way])
    assert compiled.cache_info().compiles == programs
    nothing_fell_back(compiled)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_modes(mode: Callable[[], Any]) -> None:
    model, again = pair(llama)
    compiled = dyn_torch.jit(again, strict=True)
    with mode():
        compared(model, compiled, TEXTS[:3])
    assert compiled.cache_info().compiles == 2
    nothing_fell_back(compiled)


#: For a text of one word Llama is given a mask that it is not given for others: another program.
STATIC = [("llama", "greedy", 3), ("t5", "beams", 3), ("qwen2", "sampling", 3)]


@pytest.mark.parametrize(("name", "way", "programs"), [STATIC[0], STATIC[1], rarely(*STATIC[2])])
def test_static_caches(name: str, way: str, programs: int) -> None:
    """Of each length, which is an integer in them, by the same programs."""
    model, again = pair(MODELS[name][0])
    compiled = dyn_torch.jit(again, strict=True)
    compared(model, compiled, [text for text in TEXTS if text[1] > 1], cache_implementation="static", **WAYS[way])
    assert compiled.cache_info().compiles == programs - (name != "t5")
    compared(model, compiled, TEXTS, cache_implementation="static", **WAYS[way])
    assert compiled.cache_info().compiles == programs
    nothing_fell_back(compiled)


def test_forward_in_its_place() -> None:
    model, again = pair(llama)
    again.forward = compiled = dyn_torch.jit(again.forward, strict=True)
    compared(model, again, TEXTS)
    assert compiled.cache_info().compiles == 2
    nothing_fell_back(compiled)


#: Ways to have PyTorch's own compilation where ``generate`` finds it, and graphs and programs for TEXTS: the text and
#: what follows, each once more for one text and for one word, which Dynamo traces anew. Most of these are no programs.
IN_PLACE: dict[str, Callable[[Any], None]] = {
    "compile of the module": lambda model: model.compile(backend="dyn"),
    "compile of forward": lambda model: setattr(model, "forward", torch.compile(model.forward, backend="dyn")),
}
GRAPHS = [("llama", 8, 4), ("bert", 8, 4), ("t5", 12, 5)]


@pytest.mark.parametrize("way", IN_PLACE)
@pytest.mark.parametrize(("name", "graphs", "programs"), [GRAPHS[0], *[rarely(*one) for one in GRAPHS[1:]]])
def test_compiled_in_place(name: str, graphs: int, programs: int, way: str) -> None:
    """Sizes are symbols from the first call on, each its own, and no text is one too many."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model, again = pair(MODELS[name][0])
    IN_PLACE[way](again)
    compared(model, again, TEXTS)
    compiled = again if "module" in way else again.forward
    report = dyn_torch.explain(compiled)
    assert str(report).startswith(f"torch.compile: {graphs} graphs, {programs} programs\n")
    assert torch._dynamo.utils.counters["frames"] == {"total": graphs, "ok": graphs}
    assert not torch._dynamo.utils.counters["graph_break"]
    nothing_fell_back(compiled)
    torch._dynamo.reset()


def test_what_torch_compile_returns_generates_by_the_module_itself() -> None:
    """PyTorch's wrapper hands out the module's own methods, in which the module's calls are its own."""
    torch._dynamo.reset()
    model, again = pair(llama)
    whole = torch.compile(again, backend="dyn")
    compared(model, whole, TEXTS[:1])
    assert str(dyn_torch.explain(whole)).startswith("torch.compile: 0 graphs, 0 programs")
    torch._dynamo.reset()


def test_transformers_own_compilation_is_left_out() -> None:
    """For a static cache on a GPU, or where it is told so, ``generate`` calls ``torch.compile`` of the model."""
    torch._dynamo.reset()
    model, again = pair(llama)
    compiled = dyn_torch.jit(again, strict=True)
    config = hf.CompileConfig()
    config._compile_all_devices = True
    config.backend = "no such backend"
    texts = ((2, 5), (3, 4))
    for one in (model, compiled):
        one.generation_config.disable_compile = one is model
    compared(model, compiled, texts, cache_implementation="static", compile_config=config)
    assert compiled.cache_info().compiles == 2
    assert not hasattr(again, "_compiled_call")
    nothing_fell_back(compiled)
