"""Keras 3: ``compile`` has a model's ``fit``, ``evaluate`` and ``predict`` run in programs of dyn's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from dyn.errors import ArgumentError, BackendUnavailableError, NotYetError
from dyn.late_imports import import_whole
from dyn.source import user_loc
from dyn.specialize.call_arguments import check_bools

__all__ = ["compile"]


def compile(model: Any, *, freeze: bool = False, batch_invariant: bool = False) -> Any:
    """Have ``model.fit``, ``evaluate`` and ``predict`` run each step as one program, once for every shape of a batch.

    It is called after ``model.compile``, in any place before the first step, and once: Keras goes on to feed data, and
    to call callbacks; steps, with gradients, optimizer and metrics, are dyn's. On the TensorFlow backend a step is
    compiled by :func:`dyn.interop.tf.jit`, on JAX's by :func:`dyn.interop.jax.jit` in place of ``jax.jit``, and on
    PyTorch's by :func:`dyn.interop.torch.jit`.

    Args:
        model: a model of Keras 3.
        freeze: say that weights are seldom assigned between steps of ``evaluate`` and ``predict``: there, and never in
            ``fit``'s own steps, matrices that are multiplied are kept once more, in the order in which products read
            them best. Weights that ``fit``, ``set_weights``, ``load_weights`` or ``assign`` change are seen by the next
            step, which computes that once more; those that three steps in a row find changed are frozen no more. On
            JAX's backend trainable weights alone are frozen.
        batch_invariant: have each row of a product of matrices have the same bits however many rows there are, as
            :func:`dyn.jit` does.

    Returns:
        The model itself.

    Raises:
        ArgumentError: for what is no model of Keras, for several steps per execution on the PyTorch backend, and for an
            option that is no bool.
        NotYetError: on another backend than these, and for a model that runs eagerly.
    """
    check_bools("dyn.interop.keras.compile", freeze=freeze, batch_invariant=batch_invariant)
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
    for step, function in makers[backend](model, freeze, batch_invariant).items():
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


def _by_tensorflow(model: Any, freeze: bool, batch_invariant: bool) -> dict[str, Callable[[], Any]]:
    import_whole("dyn.interop.tf", "dyn.interop.keras.replicas")
    from dyn.interop import tf as front
    from dyn.interop.keras.replicas import batches_of, is_replicated, replicated

    several = is_replicated(model)

    def compiled(step: Callable[..., Any], reduction: str, *, trains: bool = False) -> tuple[Any, Callable[[Any], Any]]:
        """A compiled step, and a function of a batch that calls it."""
        options: dict[str, Any] = {"freeze": freeze and not trains, "batch_invariant": batch_invariant}
        if not several:
            own = front.jit(step, **options)
            return own, own
        own = front.jit(replicated(model, step, reduction), **options)
        return own, lambda batch: own(batches_of(model, batch))

    def stepping(step: Callable[..., Any], *, trains: bool = False) -> Callable[[Any], Any]:
        """Steps over the batches of an iterator, of which the last one's result counts."""
        own, call = compiled(step, "auto", trains=trains)

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
        "train": lambda: stepping(model.train_step, trains=True),
        "test": lambda: stepping(model.test_step),
        "predict": predicting,
    }


def _by_jax(model: Any, freeze: bool, batch_invariant: bool) -> dict[str, Callable[[], Any]]:
    import_whole("dyn.interop.jax")
    from dyn.interop import jax as front

    def predict_step(state: Any, data: Any) -> Any:
        outputs, others = model.predict_step(state, data)
        return outputs, (state[0], others)

    options: dict[str, Any] = {"shapes": {"data": "..."}, "batch_invariant": batch_invariant}

    def compiled(step: Callable[..., Any]) -> Any:
        return front.jit(step, donate_argnums=0, **options)

    def frozen(step: Callable[..., Any]) -> Any:
        """A step that gives trainable weights back as they were passed: the same arrays for the next one."""
        if not freeze:
            return compiled(step)

        def rest_of(weights: Any, others: Any, data: Any) -> Any:
            outputs, state = step((weights, *others), data)
            return outputs, state[1:]

        rest_of.__name__ = rest_of.__qualname__ = getattr(step, "__name__", "step")
        own = front.jit(rest_of, freeze_argnums=0, donate_argnums=1, **options)

        def run(state: Any, data: Any) -> Any:
            outputs, others = own(state[0], state[1:], data)
            return outputs, (state[0], *others)

        return run

    return {
        "train": lambda: model._make_function(compiled(model.train_step)),
        "test": lambda: model._make_function(frozen(model.test_step)),
        "predict": lambda: model._make_function(frozen(predict_step), concatenate_outputs=True),
    }


def _by_torch(model: Any, freeze: bool, batch_invariant: bool) -> dict[str, Callable[[], Any]]:
    import_whole("dyn.interop.keras.torch_steps")
    from dyn.interop.keras.torch_steps import steps

    return steps(model, freeze=freeze, batch_invariant=batch_invariant)
