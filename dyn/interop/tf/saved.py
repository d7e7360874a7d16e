"""SavedModels: what TensorFlow and Keras write, compiled for every shape."""

from __future__ import annotations

import os
from typing import Any

from dyn.errors import ArgumentError
from dyn.interop.tf.internals import tf
from dyn.interop.tf.jit import TfJitted
from dyn.interop.tf.options import TfOptions
from dyn.source import user_loc


def load(
    path: str | os.PathLike[str], signature: str = "serving_default", *, strict: bool = False, freeze: bool = False,
    batch_invariant: bool = False,
) -> TfJitted:  # fmt: skip
    """A signature of a SavedModel as a compiled function, whose open sizes stay open.

    Args:
        path: the folder that ``tf.saved_model.save`` or ``model.export`` has written.
        signature: which of its signatures. Where it has an endpoint or a function of that name, as Keras's ``serve``,
            it may be that.
        strict: whether what dyn cannot compile is an error, instead of TensorFlow's.
        freeze: keep matrices of variables in the order in which products read them best, as
            :func:`~dyn.interop.tf.jit` does.
        batch_invariant: have each row of a product of matrices have the same bits however many rows there are, as
            :func:`dyn.jit` does.

    Returns:
        A function as :func:`~dyn.interop.tf.jit` makes it. It takes the tensors of the signature by position, or by
        name, and gives what the signature gives: the tensor itself where there is but one, named ``output_0``.

    Raises:
        ArgumentError: where there is no such signature, and for an option that is no bool.
    """
    options = TfOptions(strict, freeze=freeze, batch_invariant=batch_invariant)
    options.check("dyn.interop.tf.load")
    loaded = tf.saved_model.load(os.fspath(path))
    found = loaded.signatures.get(signature) if hasattr(loaded, "signatures") else None
    if found is None:
        named = getattr(loaded, signature, None)
        if not callable(named):
            names = ", ".join(sorted(loaded.signatures)) or "none"
            raise ArgumentError(
                f"{os.fspath(path)} has no signature {signature!r}.", loc=user_loc(), remedy=f"it has {names}."
            )
        return TfJitted(named, options)
    names = list(found.structured_input_signature[1])

    def function(*args: Any, **kwargs: Any) -> Any:
        made = found(**dict(zip(names, args, strict=False)), **kwargs)
        return made["output_0"] if list(made) == ["output_0"] else made

    function.__name__ = function.__qualname__ = signature
    function._model = loaded  # pyright: ignore[reportFunctionMemberAccess]  # its variables live as long as it does
    return TfJitted(function, options)
