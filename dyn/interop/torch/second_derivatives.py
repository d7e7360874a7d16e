"""Second derivatives of compiled functions, by PyTorch: the function as it is is called once more.

What a compiled call keeps has no history. Where a derivative of its derivative is asked for (``create_graph=True``),
the call is made again, on its arguments, with autograd recording. Nothing more is kept for that, and so it is there
only as long as the caller has the arguments.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dyn.errors import NotYetError
from dyn.frontend.outputs import Source
from dyn.frozen import record
from dyn.source import user_loc


@record(eq=False)
class EagerCall:
    """A call of a compiled function, to be made again by the function as it is.

    ``function`` gives the results that have derivatives from the arguments; ``refusal()`` says why it cannot be called
    again, where that is so. ``inputs`` are the tensors that the results depend on.
    """

    function: Callable[[Sequence[Any]], Sequence[Any]]
    refusal: Callable[[], str | None]
    inputs: tuple[Source, ...]
    arguments: tuple[tuple[weakref.ref[Any], int | None], ...]
    captured: tuple[Any, ...]

    @staticmethod
    def of(
        function: Callable[[Sequence[Any]], Sequence[Any]], refusal: Callable[[], str | None],
        inputs: tuple[Source, ...], arguments: Sequence[Any], captured: tuple[Any, ...],
    ) -> EagerCall:  # fmt: skip
        """The call as it is made now."""
        known = tuple([(weakref.ref(one), _writes_to(one)) for one in arguments])
        return EagerCall(function, refusal, inputs, known, captured)

    def pulled(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        """Cotangents of the inputs, which know how they depend on these and on ``cotangents``, in any order."""
        arguments = [reference() for reference, _ in self.arguments]
        # Views stand for the arguments: one may depend on another, outside of the call.
        given = {id(one): one.view_as(one) for one in self._inputs("argument", arguments)}
        results = self.function([given.get(id(one), one) for one in arguments])
        inputs = [*given.values(), *self._inputs("captured", self.captured)]
        pairs = zip(results, cotangents, strict=True)
        asked = [(one, own) for one, own in pairs if one.requires_grad and own is not None]
        if not asked:
            return [None] * len(self.inputs)
        outputs, own = [one for one, _ in asked], [one for _, one in asked]
        return torch.autograd.grad(outputs, inputs, own, create_graph=True, allow_unused=True)

    def _inputs(self, kind: str, among: Sequence[Any]) -> list[Any]:
        """The inputs of a kind. In ``inputs`` arguments come first."""
        return [among[number] for own, number in self.inputs if own == kind]

    def check(self) -> None:
        """Raise NotYetError where the call cannot be made again."""
        reason = self.refusal()
        arguments = [(reference(), version) for reference, version in self.arguments]
        if reason is not None:  # hidden arguments, which may be gone, are a reason of their own
            pass
        elif any(one is None for one, _ in arguments):
            reason = "its arguments are gone"
        elif any(version is None for _, version in arguments):
            reason = "an argument is an inference tensor, to which nobody counts the writes"
        elif [_writes_to(one) for one, _ in arguments] != [version for _, version in arguments]:
            reason = "its arguments were written since"
        elif self._are_mixed([one for one, _ in arguments]):
            reason = "its arguments may depend on tensors that it closes over"
        if reason is not None:
            raise NotYetError(
                f"a second derivative (create_graph=True) of a function that dyn.interop.torch.jit compiled: {reason}.",
                loc=user_loc(),
                remedy="call the function itself where second derivatives are needed.",
            )

    def _are_mixed(self, arguments: Sequence[Any]) -> bool:
        """Whether an input may depend on one that is closed over, for which no other tensor can stand."""
        captured = self._inputs("captured", self.captured)
        computed = [one for one in (*self._inputs("argument", arguments), *captured) if one.grad_fn is not None]
        return bool(captured and computed)


def _writes_to(tensor: Any) -> int | None:
    """The number of writes to a tensor so far; None of an inference tensor, which does not count them."""
    return None if tensor.is_inference() else tensor._version
