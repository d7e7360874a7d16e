"""The pictures of ``explain()`` in the documentation, one for each front end: ``python scripts/explain_pictures.py``.

It takes them with Chromium, without a window, and leaves them in ``docs/images``.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
#: The width of a picture in pixels.
WIDTH = 960
PAGE = "<meta charset=utf-8><body style='margin:12px; background:white; font-family:sans-serif'>"


def _torch_block() -> Any:
    import torch

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(64)
            self.mlp = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))

        def forward(self, x: Any) -> Any:
            return x + self.mlp(self.norm(x))

    return Block().eval()


def of_torch() -> Any:
    import torch

    import dyn.interop.torch

    block = dyn.interop.torch.jit(_torch_block())
    with torch.inference_mode():
        block(torch.ones(2, 7, 64))
    return block.explain()


def of_tensorflow() -> Any:
    import keras
    import tensorflow as tf

    import dyn.interop.tf

    inputs = keras.Input((None, 64), name="x")
    h = keras.layers.LayerNormalization(name="norm")(inputs)
    h = keras.layers.Dense(256, "gelu", name="up")(h)
    block = dyn.interop.tf.jit(keras.Model(inputs, inputs + keras.layers.Dense(64, name="down")(h), name="block"))
    block(tf.ones((2, 7, 64)))
    return block.explain()


def of_jax() -> Any:
    import jax
    import jax.numpy as jnp

    import dyn.interop.jax

    def block(p: Any, x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        h = centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return x + jax.nn.gelu(h @ p["up"]) @ p["down"]

    run = dyn.interop.jax.jit(block)
    run({"up": jnp.ones((64, 256)), "down": jnp.ones((256, 64))}, jnp.ones((2, 7, 64)))
    return run.explain()


def of_onnx() -> Any:
    import onnx
    import torch

    import dyn.interop.onnx

    sizes = {0: "batch", 1: "tokens"}
    file: Any = io.BytesIO()  # PyTorch says that it takes paths alone
    torch.onnx.export(
        _torch_block(), (torch.ones(2, 7, 64),), file, dynamo=False, input_names=["x"], output_names=["y"],
        dynamic_axes={"x": sizes, "y": sizes},
    )  # fmt: skip
    block = dyn.interop.onnx.load(onnx.load_from_string(file.getvalue()))
    block(np.ones((2, 7, 64), "f4"))
    return block.explain()


#: What is explained, and the height that is shown of it.
PICTURES: dict[str, tuple[Callable[[], Any], int]] = {
    "torch": (of_torch, 930), "tensorflow": (of_tensorflow, 1080), "jax": (of_jax, 1010), "onnx": (of_onnx, 1010),
}  # fmt: skip


def main(names: list[str]) -> None:
    for name in names or list(PICTURES):
        explained, height = PICTURES[name]
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.html"
            page.write_text(PAGE + explained()._repr_html_())
            options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
            picture = [f"--window-size={WIDTH},{height}", f"--screenshot={IMAGES / f'explain_{name}.png'}"]
            subprocess.run(["chromium", *options, *picture, str(page)], check=True, capture_output=True)


if __name__ == "__main__":
    main(sys.argv[1:])
