"""Programs that close over the values of variables (``freeze=True``), and follow them where they are assigned.

TensorFlow writes to a variable's memory only where nobody else holds it: an assignment gives a variable that is held
here other memory. So its address says whether it has the value that a program closes over. It is read at each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dyn.array import Array, made, stand_for
from dyn.fork_safety import lock
from dyn.frontend.outputs import OutputPlan, Outputs
from dyn.interop.tf.arrays import address_of, from_arrays, lie_at, to_array
from dyn.interop.tf.internals import context
from dyn.interop.tf.programs import TfProgram
from dyn.trace.context import current_trace
from dyn.trace.lift import lift
from dyn.trace.tracer import Tracer

#: A variable that so many calls in a row find assigned is passed to the program at each call from then on.
MOST_ASSIGNED = 3


@dataclass(eq=False, slots=True)
class _FrozenVariable:
    """A variable's value that a program closes over, and where it lies; ``assigned`` counts the calls in a row that
    have found another one."""

    array: Array
    address: int
    assigned: int = 0


@dataclass(frozen=True, eq=False)
class _FrozenForm:
    """The variables that are ``frozen``, by number, the numbers of those that are passed, and the compiled function of
    ``args``, these and a seed."""

    frozen: dict[int, _FrozenVariable]
    passed: tuple[int, ...]
    function: Any
    #: Those whose value was another one at the latest call.
    restless: set[int] = field(default_factory=set[int])

    def is_current(self, values: Sequence[Any]) -> bool:
        """Return True if variables have the values that are closed over."""
        frozen = self.frozen
        return lie_at([values[number] for number in frozen], [one.address for one in frozen.values()])


class FrozenProgram:
    """A program of no gradients that closes over matrices in variables which it does not assign itself.

    Calls of the same program that are recorded, or are parts of graphs, are those of the ``plain`` one.
    """

    def __init__(self, plain: TfProgram, numbers: Sequence[int]) -> None:
        self.plain, self._numbers = plain, tuple(numbers)
        self._lock = lock()
        self._made: _FrozenForm | None = None

    @staticmethod
    def of(plain: TfProgram) -> FrozenProgram | None:
        """The frozen form of a program; None where there is nothing to freeze."""
        assigned = set(plain.assigned)
        sizes = [tuple([size or 0 for size in one.shape]) for one in plain.variables]
        numbers = [n for n, own in enumerate(sizes) if len(own) > 1 and all(own) and n not in assigned]
        return FrozenProgram(plain, numbers) if numbers else None

    @property
    def function(self) -> Any:
        """The compiled function, of the variables that are frozen now."""
        return self._form.function

    @property
    def functions(self) -> Sequence[Any]:
        """The compiled function in a tuple; an empty one before the first call."""
        return () if self._made is None else (self._made.function,)

    @property
    def pieces(self) -> Any:
        """The operations that TensorFlow runs, of each version."""
        return self.plain.pieces

    def __call__(self, tensors: Sequence[Any]) -> Any:
        """The result of a call with these tensors."""
        plain, eager = self.plain, context.context()
        form, values = self._read(eager)
        given = tuple(map(to_array, tensors))
        result = form.function(given, tuple([to_array(values[number]) for number in form.passed]), plain.seed())
        return plain.packed(plain.finished(result.plan, from_arrays(result.results), tensors, eager))

    def arrays(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of the compiled function for a call with these tensors, and some seed."""
        given, variables, seed = self.plain.arrays(tensors)
        return given, tuple([variables[number] for number in self._form.passed]), seed

    def structs(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of the compiled function as ``ShapeDtypeStruct``s, by tensors or their specifications."""
        given, variables, seed = self.plain.structs(tensors)
        return given, tuple([variables[number] for number in self._form.passed]), seed

    def is_compiled_for(self, tensors: Sequence[Any]) -> bool:
        """Return True if there is code for a call with these tensors."""
        return self._made is not None and self.function.is_compiled_for(*self.arrays(tensors))

    def notes(self) -> Sequence[str]:
        """Lines of ``explain`` about it."""
        if self._made is None or len(self._made.frozen) == len(self._numbers):
            return ()
        return (f"not frozen, since {MOST_ASSIGNED} calls in a row found them assigned: {self._unfrozen_text()}",)

    # Values of variables

    @property
    def _form(self) -> _FrozenForm:
        return self._read(context.context())[0]

    def _read(self, eager: Any) -> tuple[_FrozenForm, Sequence[Any]]:
        """The form that closes over what variables are now, and what they are."""
        form, values = self._made, self.plain.reads(eager)
        if form is not None and form.is_current(values):
            if form.restless:
                self._settle(form)
            return form, values
        with self._lock:
            # Read once more: another thread may have assigned some, and made a call with these, meanwhile.
            values = self.plain.reads(eager)
            form = self._made
            if form is None:
                frozen = {number: _held(to_array(values[number])) for number in self._numbers}
                form = self._made = self._formed(frozen)
            else:
                form = self._made = self._followed(form, values)
            return form, values

    def _settle(self, form: _FrozenForm) -> None:
        with self._lock:
            for number in form.restless:
                form.frozen[number].assigned = 0
            form.restless.clear()

    def _followed(self, form: _FrozenForm, values: Sequence[Any]) -> _FrozenForm:
        """The form that closes over other values: itself, unless some are other ones too often."""
        form.restless.clear()
        for number, one in form.frozen.items():
            array = to_array(values[number])
            address = address_of(array)
            if address == one.address:
                one.assigned = 0
                continue
            one.assigned += 1
            form.restless.add(number)
            if one.assigned < MOST_ASSIGNED:
                stand_for(one.array, array)
                one.address = address
        kept = {number: one for number, one in form.frozen.items() if one.assigned < MOST_ASSIGNED}
        return form if len(kept) == len(form.frozen) else self._formed(kept)

    def _formed(self, frozen: dict[int, _FrozenVariable]) -> _FrozenForm:
        plain = self.plain
        passed = tuple([number for number in range(len(plain.variables)) if number not in frozen])

        def traced(args: tuple[Any, ...], variables: tuple[Any, ...], seed: Any) -> Outputs[OutputPlan]:
            known: dict[int, Any] = dict(zip(passed, variables, strict=True))
            trace = current_trace()
            assert trace is not None, "programs are traced"
            known |= {number: Tracer(trace, lift(trace, one.array)) for number, one in frozen.items()}
            return plain.traced(args, [known[number] for number in range(len(plain.variables))], seed)

        traced.__name__ = traced.__qualname__ = plain.name
        function = plain.compiled(traced, passed)
        function.reason = plain.function.reason
        return _FrozenForm(frozen, passed, function)

    def _unfrozen_text(self) -> str:
        assert self._made is not None
        plain = self.plain
        names = {id(one.handle): one.name.partition(":")[0] for one in plain.concrete.variables}
        left = [plain.variables[number] for number in self._numbers if number not in self._made.frozen]
        return ", ".join([f"{names.get(id(one.handle), 'a variable')} {one.shape}" for one in left])


def _held(array: Any) -> _FrozenVariable:
    return _FrozenVariable(made(array), address_of(array))
