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


#: A step that so many calls in a row find the weights changed for has them passed from then on.
MOST_CHANGED = 3


def steps(model: Any, *, freeze: bool = False, batch_invariant: bool = False) -> dict[str, Callable[[], Any]]:
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
        "train": lambda: _Step(model, _training(model), trains=True, freeze=False, batch_invariant=batch_invariant),
        "test": lambda: _Step(model, model.test_step, freeze=freeze, batch_invariant=batch_invariant),
        "predict": lambda: _Step(model, model.predict_step, freeze=freeze, batch_invariant=batch_invariant),
    }


class _Step:
    """A step on the only batch of a list, as Keras calls it, with autograd recording where it ``trains``.

    Keras assigns weights by writing to their memory, which a frozen step does not see: it is compiled anew where
    PyTorch has counted a write since the step before.

    Attributes:
        compiled: the function that was compiled, for those who ask.
    """

    def __init__(
        self, model: Any, step: Callable[[Any], Any], *, trains: bool = False, freeze: bool, batch_invariant: bool
    ) -> None:
        self._model, self._step, self._trains = model, step, trains
        self._freeze, self._batch_invariant = freeze, batch_invariant
        self._counts: list[int | None] | None = None
        self._changed = 0
        self.compiled = self._compiled()

    def _compiled(self) -> Any:
        def stepped(data: Any) -> Any:
            result = self._step(data)
            self._model._clear_losses()  # those that layers have added are tensors of this step
            return result

        stepped.__name__ = getattr(self._step, "__name__", "step")
        return front.jit(stepped, freeze=self._freeze, batch_invariant=self._batch_invariant)

    def __call__(self, batches: Any) -> Any:
        with torch.set_grad_enabled(self._trains):
            batch = keras.tree.map_structure(_tensor, batches[0])
            if not self._model.built:
                return self._step(batch)  # which makes the weights, once
            if not self._freeze:
                return self.compiled(batch)
            self._follow()
            try:
                return self.compiled(batch)
            finally:
                self._counts = self._writes()  # those of the step itself are seen

    def _follow(self) -> None:
        """Compile anew where weights have been written to since the latest step."""
        if self._counts is None or self._counts == self._writes():
            self._changed = 0
            return
        self._changed += 1
        self._freeze = self._changed < MOST_CHANGED
        self.compiled = self._compiled()

    def _writes(self) -> list[int | None]:
        """PyTorch's count of writes to each weight; None where it has none."""
        values = [weight.value for weight in self._model.weights]
        return [None if value.is_inference() else value._version for value in values]


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
