"""The BERT example: parameters from files, and its numbers from one compile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import dyn
from examples.bert import BERT_SMALL, BertConfig, draw_batch, draw_shapes, encode, init_params, load_params, pool
from tests.benchmarks.numpy_bert import numpy_bert

TINY = BertConfig(layers=1, width=8, heads=2, intermediate=12, vocabulary=11, positions=6)


def hugging_face(params: dict[str, Any], *, old: bool = False) -> dict[str, np.ndarray]:
    """``params`` as a Hugging Face file names and lays them out; an old one has TensorFlow's names of norms."""
    scale, shift = ("gamma", "beta") if old else ("weight", "bias")
    out: dict[str, np.ndarray] = {}

    def norm(name: str, p: dict[str, Any]) -> None:
        out[f"bert.{name}.LayerNorm.{scale}"], out[f"bert.{name}.LayerNorm.{shift}"] = p["scale"], p["bias"]

    def dense(name: str, p: dict[str, Any]) -> None:
        out[f"bert.{name}.weight"], out[f"bert.{name}.bias"] = np.ascontiguousarray(p["kernel"].T), p["bias"]

    for kind in ("word", "position", "token_type"):
        out[f"bert.embeddings.{kind}_embeddings.weight"] = params["embeddings"][kind]
    norm("embeddings", params["embeddings"]["norm"])
    for i, layer in enumerate(params["layers"]):
        prefix = f"encoder.layer.{i}"
        for kind in ("query", "key", "value"):
            dense(f"{prefix}.attention.self.{kind}", layer[kind])
        dense(f"{prefix}.attention.output.dense", layer["attention_output"])
        norm(f"{prefix}.attention.output", layer["attention_norm"])
        dense(f"{prefix}.intermediate.dense", layer["intermediate"])
        dense(f"{prefix}.output.dense", layer["output"])
        norm(f"{prefix}.output", layer["output_norm"])
    dense("pooler.dense", params["pooler"])
    return out


# ---- parameters ------------------------------------------------------------------------------------------------------


def test_initial_parameters():
    params = init_params(BERT_SMALL, 3)
    kernel = params["layers"][1]["intermediate"]["kernel"]
    assert (kernel.shape, kernel.dtype, kernel.flags.c_contiguous) == ((48, 112), np.float32, True)
    assert np.abs(kernel).max() <= 0.04
    assert kernel.std() == pytest.approx(0.02 * 0.88, rel=0.05)  # cutting at two deviations leaves 0.88 of one
    assert (params["layers"][0]["output_norm"]["scale"] == 1).all()
    assert (params["pooler"]["bias"] == 0).all()
    assert (kernel == init_params(BERT_SMALL, 3)["layers"][1]["intermediate"]["kernel"]).all()
    assert (kernel != init_params(BERT_SMALL, 4)["layers"][1]["intermediate"]["kernel"]).any()


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("prefix", ["bert.", ""])
def test_parameters_from_a_file(tmp_path: Path, old: bool, prefix: str):
    params = init_params(TINY, 0)
    named = {name.replace("bert.", prefix, 1): array for name, array in hugging_face(params, old=old).items()}
    save_file(named, tmp_path / "model.safetensors")
    loaded = load_params(tmp_path / "model.safetensors", TINY)
    np.testing.assert_equal(loaded, params)


def test_a_file_that_does_not_fit(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    named = hugging_face(init_params(TINY, 0))
    save_file(named, path)
    with pytest.raises(ValueError) as short:
        load_params(path, BertConfig(**{**vars(TINY), "layers": 2}))
    assert str(short.value) == (
        f"{path} has no tensor 'encoder.layer.1.attention.self.query.weight': no BERT, or one of fewer than 2 layers."
    )
    with pytest.raises(ValueError) as wide:
        load_params(path, BertConfig(**{**vars(TINY), "intermediate": 16}))
    assert str(wide.value) == (
        f"'bert.encoder.layer.0.intermediate.dense.weight' in {path} has the shape (12, 8), where "
        "BertConfig(layers=1, width=8, heads=2, intermediate=16, vocabulary=11, positions=6, token_types=2, "
        "epsilon=1e-12) needs (16, 8)."
    )
    path.write_bytes(b"a text, and no tensors")
    with pytest.raises(ValueError) as text:
        load_params(path, TINY)
    assert str(text.value).startswith(f"{path} is no safetensors file: ")


# ---- shapes ----------------------------------------------------------------------------------------------------------


def test_drawn_shapes_differ():
    shapes = draw_shapes(100, 0)
    assert len(set(shapes)) == 100
    assert shapes == draw_shapes(100, 0) != draw_shapes(100, 1)
    assert all(1 <= b <= 8 and 8 <= s <= 256 for b, s in shapes)
    assert len(draw_shapes(8 * 249)) == 8 * 249
    with pytest.raises(ValueError) as many:
        draw_shapes(8 * 249 + 1)
    assert str(many.value) == "there are only 1992 different shapes, not 1993."


@pytest.mark.parametrize("shape", [(1, 1), (4, 9), (0, 5), (3, 0)])
def test_drawn_batches(shape: tuple[int, int]):
    ids, mask = draw_batch(shape, 0, BERT_SMALL)
    assert ids.shape == mask.shape == shape
    assert ids.dtype == mask.dtype == np.int64
    assert (ids[mask == 0] == 0).all()
    assert (mask[:1] == 1).all()
    assert (np.diff(mask, axis=1) <= 0).all()


# ---- numbers ---------------------------------------------------------------------------------------------------------


def test_one_compile_for_every_shape():
    params = init_params(BERT_SMALL, 0)

    @dyn.jit(shapes="b s, b s", constraints="s <= 64")
    def model(ids: Any, mask: Any) -> Any:
        return encode(params, ids, mask, config=BERT_SMALL)

    for shape in [(2, 7), (1, 1), (3, 64), (5, 13), (0, 7), (2, 0)]:
        ids, mask = draw_batch(shape, 0, BERT_SMALL)
        hidden = model(ids, mask)
        assert hidden.shape == (*shape, 48)
        wanted = numpy_bert(params, ids, mask, heads=BERT_SMALL.heads, epsilon=BERT_SMALL.epsilon)
        np.testing.assert_allclose(hidden[mask == 1], wanted[mask == 1], atol=1e-4)
        np.testing.assert_allclose(hidden, model.reference(ids, mask), atol=1e-4)
    assert model.cache_info().compiles == 1


def test_token_types_and_summary():
    params = init_params(BERT_SMALL, 0)

    @dyn.jit(shapes="b s, b s, b s", constraints="1 <= s <= 64")
    def model(ids: Any, mask: Any, token_types: Any) -> Any:
        hidden = encode(params, ids, mask, token_types, config=BERT_SMALL)
        return hidden, pool(params, hidden)

    ids, mask = draw_batch((3, 10), 0, BERT_SMALL)
    hidden, summary = model(ids, mask, np.zeros_like(ids))
    wanted = numpy_bert(params, ids, mask, heads=BERT_SMALL.heads, epsilon=BERT_SMALL.epsilon)
    np.testing.assert_allclose(hidden[mask == 1], wanted[mask == 1], atol=1e-4)
    dense = params["pooler"]
    np.testing.assert_allclose(summary, np.tanh(hidden[:, 0] @ dense["kernel"] + dense["bias"]), atol=1e-4)
    other, _ = model(ids, mask, np.ones_like(ids))
    assert np.abs(other - hidden).max() > 1e-3


def test_a_text_longer_than_the_positions():
    params = init_params(TINY, 0)

    @dyn.jit(shapes="b s, b s", constraints="s <= 6")
    def model(ids: Any, mask: Any) -> Any:
        return encode(params, ids, mask, config=TINY)

    with pytest.raises(dyn.errors.ShapeError) as long:
        model(*draw_batch((2, 7), 0, TINY))
    assert "s" in str(long.value)
