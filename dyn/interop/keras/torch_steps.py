"""Steps of a model on Keras's PyTorch backend, compiled by :func:`dyn.interop.torch.jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import torch

from dyn.errors import ArgumentError
from dyn.interop import torch as front
from dyn.interop.keras.torch_functions import install
from dyn.source import user_loc

#: What is asked of sizes right below is asked by the model that is called here.
CALLS_USERS = True


def steps(model: Any) -> dict[str, Callable[[], Any]]:
    """The functions of a model's steps, ``train``, ``test`` and ``predict``, each with what makes it.

    Raises ArgumentError for a model of several steps per execution, which Keras has none of on this backend.
    """
    if model.steps_per_execution > 1:
        raise ArgumentError(
            f"steps_per_execution is {model.steps_per_execution}, and Keras has one on the PyTorch backend.",
            loc=user_loc(),
            remedy="leave steps_per_execution out of model.compile.",
        )
    install()
    object.__setattr__(model, "_track_variables", _tracking(model))
    return {
        "train": lambda: _stepping(model, _training(model), True),
        "test": lambda: _stepping(model, model.test_step, False),
        "predict": lambda: _stepping(model, model.predict_step, False),
    }


def _stepping(model: Any, step: Callable[[Any], Any], recorded: bool) -> Callable[[Any], Any]:
    """A step on the only batch of a list, as Keras calls it, with autograd recording where it is ``recorded``."""

    def stepped(data: Any) -> Any:
        result = step(data)
        model._clear_losses()  # those that layers have added are tensors of this step
        return result

    stepped.__name__ = getattr(step, "__name__", "step")
    compiled = front.jit(stepped)

    def run(batches: Any) -> Any:
        with torch.set_grad_enabled(recorded):
            batch = keras.tree.map_structure(_tensor, batches[0])
            return compiled(batch) if model.built else step(batch)  # which makes the weights, once

    run.compiled = compiled  # pyright: ignore[reportFunctionMemberAccess]  # for those who ask what was compiled
    return run


def _training(model: Any) -> Callable[[Any], Any]:
    """The training step: Keras's own leaves no gradients, so that each finds what the first one found."""
    if type(model).train_step is not keras.Model.train_step:
        return model.train_step

    def train_step(data: Any) -> Any:
        result = model.train_step(data)
        for weight in model.trainable_weights:
            weight.value.grad = None
        return result

    return train_step


def _tensor(leaf: Any) -> Any:
    """An array of numbers as a tensor on the device of Keras's; anything else as it is."""
    is_array = isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufcV"
    return keras.ops.convert_to_tensor(leaf) if is_array or isinstance(leaf, torch.Tensor) else leaf


def _tracking(model: Any) -> Callable[[], None]:
    """Keras's ``_track_variables``, which it calls before each batch, for variables that have changed since.

    It makes the module's table of parameters anew, and a program relies on what a module is made of.
    """

    def track() -> None:
        known = model._modules.get("_torch_params")
        now = {variable.path: variable.value for variable in model.variables}
        if known is None or {*known} != {*now} or any(known[path] is not value for path, value in now.items()):
            type(model)._track_variables(model)

    return track
