"""Models of Hugging Face's, from configurations, as PyTorch's two exporters write them for ONNX."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers as _transformers

#: What it says of its classes is not complete.
transformers: Any = _transformers

_SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 100,
}  # fmt: skip


class _Encoder(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class _Classifier(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Any) -> Any:
        return self.model(pixel_values=pixel_values).logits


@dataclass(frozen=True)
class Model:
    """A model: how it is made, and arguments for a size."""

    name: str
    make: Callable[[], Any]
    is_of_texts: bool

    def arguments(self, *sizes: int) -> tuple[torch.Tensor, ...]:
        """Texts of a batch and a length, or images of a batch, a height and a width."""
        if not self.is_of_texts:
            batch, *place = sizes
            return (torch.randn(batch, 3, *place),)
        mask = (torch.rand(*sizes) > 0.2).long()
        mask[:, 0] = 1
        return torch.randint(5, 95, sizes), mask

    @property
    def sizes(self) -> list[tuple[int, ...]]:
        if self.is_of_texts:
            return [(1, 1), (2, 7), (3, 20), (5, 33), (1, 64)]
        return [(1, 64, 64), (2, 96, 64), (3, 64, 128)]  # of others MobileNet's padding is what it was at the export


def _bert() -> Any:
    return _Encoder(transformers.BertModel(transformers.BertConfig(**_SMALL)))


def _deberta() -> Any:
    config = transformers.DebertaV2Config(
        **_SMALL, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, share_att_key=True,
        norm_rel_ebd="layer_norm",
    )  # fmt: skip
    return _Encoder(transformers.DebertaV2Model(config))


def _distilbert() -> Any:
    config = transformers.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=100)
    return _Encoder(transformers.DistilBertModel(config))


def _resnet() -> Any:
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=5)
    return _Classifier(transformers.ResNetForImageClassification(config))


def _mobilenet() -> Any:
    config = transformers.MobileNetV2Config(num_labels=5, depth_multiplier=0.35, initializer_range=0.2)
    return _Classifier(transformers.MobileNetV2ForImageClassification(config))


MODELS = [
    Model("bert", _bert, True), Model("distilbert", _distilbert, True), Model("deberta", _deberta, True),
    Model("resnet", _resnet, False), Model("mobilenet", _mobilenet, False),
]  # fmt: skip


def export(model: Model, path: Path, *, dynamo: bool) -> Any:
    """Write a model to a file, with open sizes; the module itself."""
    torch.manual_seed(0)
    module = model.make().eval()
    arguments = model.arguments(*model.sizes[1])
    names = ["input_ids", "attention_mask"] if model.is_of_texts else ["pixel_values"]
    axes = ["batch", "sequence"] if model.is_of_texts else ["batch", None, "height", "width"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            most = {"batch": 64, "sequence": 500, "height": 500, "width": 500}
            dims = {name: torch.export.Dim(name, max=most[name]) for name in axes if name}
            shapes = {name: {n: dims[axis] for n, axis in enumerate(axes) if axis} for name in names}
            torch.onnx.export(
                module, arguments, str(path), input_names=names, dynamo=True, dynamic_shapes=shapes, opset_version=20,
                verbose=False,
            )  # fmt: skip
        else:
            named = {name: {n: axis for n, axis in enumerate(axes) if axis} for name in names}
            torch.onnx.export(
                module, arguments, str(path), input_names=names, dynamo=False, dynamic_axes=named, opset_version=18
            )
    return module
