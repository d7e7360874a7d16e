"""Models that PyTorch exports: its results at all sizes, by one program; quantized ones as ONNX Runtime has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
torch: Any = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnxscript")

import dyn  # noqa: E402
import dyn.interop.onnx  # noqa: E402
from tests.interop.onnx.exported import MODELS, Model, export  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

#: What the newer exporter writes for images of one size alone.
_NOT_BY_DYNAMO = {"mobilenet"}
_EXPORTS = [(model, False) for model in MODELS] + [(one, True) for one in MODELS if one.name not in _NOT_BY_DYNAMO]


@pytest.mark.parametrize(
    ("model", "dynamo"), _EXPORTS, ids=[f"{one.name}-{'dynamo' if new else 'torchscript'}" for one, new in _EXPORTS]
)
def test_exported_models(model: Model, dynamo: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    module = export(model, path, dynamo=dynamo)
    run = dyn.interop.onnx.load(path)
    for sizes in model.sizes:
        arguments = model.arguments(*sizes)
        with torch.no_grad():
            wanted = module(*arguments)
        made = run(*[one.numpy() for one in arguments])
        np.testing.assert_allclose(made, wanted.numpy(), rtol=1e-4, atol=1e-5)
    info = run.cache_info()
    assert (info.compiles, info.guards, info.traces) == (1, 0, 1)
    text = str(run.explain())
    assert "batch" in text
    assert ("layer" if model.is_of_texts else "conv") in text  # modules, beside operations


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", ["bert", "resnet"])
def test_quantized_models(name: str, per_channel: bool, tmp_path: Path) -> None:
    """QDQ forms, bit by bit what ONNX Runtime computes for the same graph: integers are the same integers."""
    runtime: Any = pytest.importorskip("onnxruntime")
    quantization: Any = pytest.importorskip("onnxruntime.quantization")
    shape_inference: Any = pytest.importorskip("onnxruntime.quantization.shape_inference")
    model = next(one for one in MODELS if one.name == name)
    export(model, tmp_path / "float.onnx", dynamo=False)
    names = ["input_ids", "attention_mask"] if model.is_of_texts else ["pixel_values"]

    def feeds(count: int) -> list[dict[str, Any]]:
        torch.manual_seed(1)
        given = [model.arguments(*model.sizes[1]) for _ in range(count)]
        return [dict(zip(names, [one.numpy() for one in each], strict=True)) for each in given]

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self._left = iter(feeds(3))

        def get_next(self) -> Any:
            return next(self._left, None)

    shape_inference.quant_pre_process(tmp_path / "float.onnx", tmp_path / "ready.onnx", skip_symbolic_shape=True)
    quantization.quantize_static(
        tmp_path / "ready.onnx", tmp_path / "quantized.onnx", Reader(), per_channel=per_channel,
        quant_format=quantization.QuantFormat.QDQ, activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )  # fmt: skip
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(tmp_path / "quantized.onnx", options)
    run = dyn.interop.onnx.load(tmp_path / "quantized.onnx")
    for feed in feeds(3):
        made, (wanted,) = run(**feed), session.run(None, feed)
        # One unit of the integers, where a sum of floats before it is rounded another way.
        unit = np.abs(wanted).max() / 100
        assert np.abs(made - wanted).max() <= unit
        assert (made != wanted).mean() < 0.5
    assert run.cache_info().compiles == 1
