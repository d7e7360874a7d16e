"""Programs of TensorFlow functions with the sizes that they are for, and the programs of their gradients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dyn.errors import DynError
from dyn.frontend.fallback import FallbackReason, Piece
from dyn.frontend.library import LibraryProgram
from dyn.interop.tf.frozen import FrozenProgram
from dyn.interop.tf.gradients import GradientProgram, is_recording, watched_untrained
from dyn.interop.tf.internals import tf
from dyn.interop.tf.programs import TfProgram
from dyn.interop.tf.read_calls import TfCall
from dyn.source import UNKNOWN, Loc
from dyn.stages import Traced

#: What Keras prints in bold: what went wrong in a layer, between where that was and what the layer was given.
_BOLD = re.compile(r"\x1b\[1m(.*?)\x1b\[0m", re.DOTALL)

#: The sizes of each tensor that a program is for; None for those that are open.
Fixed = tuple[tuple[int | None, ...], ...]


class SizedProgram(LibraryProgram[TfCall]):
    """A program with the sizes that it is for. ``fallback_reason`` is why it is none, ``why`` why sizes are fixed."""

    def __init__(
        self, program: TfProgram | None, fixed: Fixed, reason: FallbackReason | None = None, why: str = ""
    ) -> None:
        super().__init__()
        self.program, self.fixed, self.fallback_reason, self.why = program, fixed, reason, why
        #: The program that closes over variables, of the calls that no tape records.
        self.frozen = None if program is None or not program.options.freeze else FrozenProgram.of(program)
        #: The program with its gradients, by which variables tapes watch that are not trained.
        self.recorded: dict[tuple[int, ...], TfProgram] = {}
        #: Why TensorFlow makes calls that a tape records, though dyn makes others.
        self.unrecorded: FallbackReason | None = None
        #: Its gradient by itself, of calls in graphs.
        self.gradient: GradientProgram | None = None
        #: Whether it is known that dyn compiles it: in a graph nothing can take its place.
        self.is_for_graphs = False

    @property
    def unrecorded_program(self) -> TfProgram | FrozenProgram | None:
        """The program of calls that no tape records."""
        return self.program if self.frozen is None else self.frozen

    @property
    def programs(self) -> list[TfProgram]:
        """The program, and those with its gradients."""
        alone = None if self.gradient is None else self.gradient.program
        return [one for one in (self.program, *self.recorded.values(), alone) if one is not None]

    @property
    def functions(self) -> Sequence[Any]:
        frozen = () if self.frozen is None else self.frozen.functions
        return [*frozen, *[one.function for one in self.programs]]

    @property
    def pieces(self) -> Sequence[Sequence[Piece]]:
        return [own for one in self.programs for own in one.pieces]

    @property
    def is_open(self) -> bool:
        """Whether it is for all sizes."""
        return all(size is None for sizes in self.fixed for size in sizes)

    def specs(self, tensors: Sequence[Any]) -> list[Any]:
        """Specifications of tensors like these with the sizes that it is for."""
        return specs_of(self.fixed, tensors)

    def fits(self, call: TfCall) -> bool:
        return all(
            own is None or own == size
            for fixed, shape in zip(self.fixed, call.shapes, strict=True)
            for own, size in zip(fixed, shape, strict=True)
        )

    def fallback_reason_for(self, call: TfCall) -> FallbackReason | None:
        if self.fallback_reason is not None or self.unrecorded is None:
            return self.fallback_reason
        return self.unrecorded if self._is_recorded(call) else None

    def leave_to_library(self, call: TfCall, reason: FallbackReason) -> None:
        if self._is_recorded(call):
            self.unrecorded = reason
        else:
            self.fallback_reason = reason

    def _is_recorded(self, call: TfCall) -> bool:
        return self.program is not None and is_recording(call.tensors, self.program)

    def is_compiled_for(self, call: TfCall) -> bool:
        """Whether there is code for a call: what is raised then is raised by running it."""
        plain, made = self.program, self.unrecorded_program
        if plain is not None and is_recording(call.tensors, plain):
            made = self.recorded.get(tuple(map(id, watched_untrained(plain))))
        try:
            return made is not None and made.is_compiled_for(call.tensors)
        except DynError:  # of a variable without a value
            return False

    def trace(self, call: TfCall) -> Traced:
        made = self.unrecorded_program
        assert made is not None, "a program without one is refused"
        there = all(isinstance(one, tf.Tensor) for one in call.tensors)
        return made.function.trace(*(made.arrays(call.tensors) if there else made.structs(self.specs(call.tensors))))

    def prepare(self, call: TfCall) -> None:
        made = self.unrecorded_program
        assert made is not None, "a program without one is refused"
        made.function.prepare([made.structs(call.tensors)])

    def made_by(self) -> tuple[str, Loc]:
        return "sizes that TensorFlow cannot trace as open ones" if self.why else "", UNKNOWN

    def conditions(self) -> str:
        return str(self.fixed)

    def notes(self) -> Sequence[str]:
        fixed = f"sizes are fixed to {self.fixed}, for TensorFlow cannot trace it: {self.why}"
        frozen = () if self.frozen is None else self.frozen.notes()
        return frozen if self.is_open else (fixed, *frozen)


def specs_of(fixed: Fixed, tensors: Sequence[Any]) -> list[Any]:
    """Specifications of tensors like these with sizes of which some are fixed."""
    return [tf.TensorSpec(list(sizes), one.dtype) for sizes, one in zip(fixed, tensors, strict=True)]


def words_of(error: BaseException) -> str:
    """The line of an error's text that says what went wrong: TensorFlow's last one, or what Keras has set in bold."""
    bold = _BOLD.search(str(error))
    lines = (bold[1] if bold else str(error)).strip().splitlines()
    return (lines[0 if bold else -1] if lines else type(error).__name__).strip()
