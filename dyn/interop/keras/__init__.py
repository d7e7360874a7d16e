"""Keras 3: ``compile`` has a model's ``fit``, ``evaluate`` and ``predict`` run in programs of dyn's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from dyn.errors import ArgumentError, BackendUnavailableError, NotYetError
from dyn.late_imports import import_whole
from dyn.source import user_loc

__all__ = ["compile"]


def compile(model: Any) -> Any:
    """Have ``model.fit``, ``evaluate`` and ``predict`` run each step as one program, once for every shape of a batch.

    It is called after ``model.compile``, in any place before the first step, and once: Keras goes on to feed data, and
    to call callbacks; steps, with gradients, optimizer and metrics, are dyn's. On the TensorFlow backend a step is
    compiled by :func:`dyn.interop.tf.jit`, on JAX's by :func:`dyn.interop.jax.jit` in place of ``jax.jit``, and on
    PyTorch's by :func:`dyn.interop.torch.jit`.

    Args:
        model: a model of Keras 3.

    Returns:
        The model itself.

    Raises:
        ArgumentError: for what is no model of Keras, and for several steps per execution on the PyTorch backend.
        NotYetError: on another backend than these, and for a model that runs eagerly.
    """
    try:
        keras = importlib.import_module("keras")
    except ImportError as error:
        raise BackendUnavailableError(
            f"Keras cannot be imported ({error}).", remedy="install it with: pip install keras"
        ) from None
    if not isinstance(model, keras.Model):
        raise ArgumentError(f"compile takes a Keras model, not a {type(model).__name__}.", loc=user_loc())
    if model.run_eagerly:
        raise NotYetError("a model that runs eagerly.", loc=user_loc(), remedy="compile it with run_eagerly=False.")
    backend = keras.backend.backend()
    makers = {"tensorflow": _by_tensorflow, "jax": _by_jax, "torch": _by_torch}
    if backend not in makers:
        raise NotYetError(
            f"Keras on the {backend} backend.",
            loc=user_loc(),
            remedy='set KERAS_BACKEND to "tensorflow", "jax" or "torch".',
        )
    for step, function in makers[backend](model).items():
        _install(model, step, function)
    return model


def _install(model: Any, step: str, make: Callable[[], Callable[..., Any]]) -> None:
    """Have the model make the function of a step, ``train``, ``test`` or ``predict``, by ``make``."""
    name = f"{step}_function"

    def maker(force: bool = False) -> Any:
        if getattr(model, name) is None or force:
            setattr(model, name, make())
        return getattr(model, name)

    setattr(model, name, None)
    object.__setattr__(model, f"make_{name}", maker)


def _by_tensorflow(model: Any) -> dict[str, Callable[[], Any]]:
    import_whole("dyn.interop.tf", "dyn.interop.keras.replicas")
    from dyn.interop import tf as front
    from dyn.interop.keras.replicas import batches_of, is_replicated, replicated

    several = is_replicated(model)

    def compiled(step: Callable[..., Any], reduction: str) -> tuple[Any, Callable[[Any], Any]]:
        """A compiled step, and a function of a batch that calls it."""
        if not several:
            own = front.jit(step)
            return own, own
        own = front.jit(replicated(model, step, reduction))
        return own, lambda batch: own(batches_of(model, batch))

    def stepping(step: Callable[..., Any]) -> Callable[[Any], Any]:
        """Steps over the batches of an iterator, of which the last one's result counts."""
        own, call = compiled(step, "auto")

        def run(iterator: Any) -> Any:
            own.build_by(getattr(iterator, "element_spec", ()))
            result = call(next(iterator))
            for _ in range(model.steps_per_execution - 1):
                try:
                    result = call(next(iterator))
                except StopIteration:
                    break
            return result

        run.compiled = own  # pyright: ignore[reportFunctionMemberAccess]  # for those who ask what was compiled
        return run

    def predicting() -> Callable[[Any], Any]:
        own, call = compiled(model.predict_step, "concat")

        def run(batches: Any) -> Any:
            made = [call(batch) for batch in batches]
            if len(made) == 1:
                return made[0]
            tf = importlib.import_module("tensorflow")
            return tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *made)

        run.compiled = own  # pyright: ignore[reportFunctionMemberAccess]  # as above
        return run

    return {
        "train": lambda: stepping(model.train_step),
        "test": lambda: stepping(model.test_step),
        "predict": predicting,
    }


def _by_jax(model: Any) -> dict[str, Callable[[], Any]]:
    import_whole("dyn.interop.jax")
    from dyn.interop import jax as front

    def predict_step(state: Any, data: Any) -> Any:
        outputs, others = model.predict_step(state, data)
        return outputs, (state[0], others)

    def compiled(step: Callable[..., Any]) -> Any:
        return front.jit(step, donate_argnums=0, shapes={"data": "..."})

    return {
        "train": lambda: model._make_function(compiled(model.train_step)),
        "test": lambda: model._make_function(compiled(model.test_step)),
        "predict": lambda: model._make_function(compiled(predict_step), concatenate_outputs=True),
    }


def _by_torch(model: Any) -> dict[str, Callable[[], Any]]:
    import_whole("dyn.interop.keras.torch_steps")
    from dyn.interop.keras.torch_steps import steps

    return steps(model)
