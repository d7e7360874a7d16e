"""Hidden arguments: state of PyTorch's objects that a program is given at each call, and what it leaves there.

A function may use the gradients that tensors have (``p.grad``), which are other tensors, or none, at each step, and the
learning rates of optimizers. Each of those that its trace comes to is an argument of the program: the trace then begins
anew, with the traced tensor in the gradient's place. What the function leaves there, each call leaves there. So are
seeds of random numbers, tensors that it closes over and that do not stay where they are in memory, and numbers and
tensors that are attributes of modules which the function reads and sets, such as a count of its calls.

The rest of an optimizer that steps is a condition of the program: its other hyperparameters, and which tensors are its
state. What of that the function changes itself, no program does.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from dyn.errors import NotYetError
from dyn.frontend.retrace import Retrace
from dyn.frozen import record
from dyn.interop.torch.arguments import unsupported
from dyn.interop.torch.carried_sizes import MOST_CARRIED, carried_size, size_carrier
from dyn.interop.torch.converters import HIGHER_ORDER
from dyn.interop.torch.function_modes import FunctionMode
from dyn.interop.torch.randomness import Seed
from dyn.interop.torch.tensors import float_of, is_traced, record_of
from dyn.source import Loc, user_loc

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True

_GRADIENT: Any = torch.Tensor.grad


@record(eq=False)
class ClosureGradient:
    """The gradient of a tensor that the function closes over."""

    tensor: torch.Tensor

    @property
    def key(self) -> Any:
        return "gradient", id(self.tensor)

    def sample(self) -> torch.Tensor | None:
        """The tensor that a call is given; None where there is none."""
        return self.get()

    def get(self) -> Any:
        with torch._C.DisableTorchFunction():
            return self.tensor.grad if self.tensor.is_leaf or self.tensor.retains_grad else None

    def set(self, value: Any) -> None:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            self.tensor.grad = value


@record(eq=False)
class LearningRate:
    """The learning rate of a group of an optimizer's parameters, a float."""

    group: dict[str, Any]

    @property
    def key(self) -> Any:
        return "learning rate", id(self.group)

    def count_alike(self, others: Iterable[Any]) -> int:
        """Of how many other groups the parameters are these as well."""
        own = [id(one) for one in self.group["params"]]
        rates = [one for one in others if isinstance(one, LearningRate) and one.group is not self.group]
        return sum([id(parameter) for parameter in one.group["params"]] == own for one in rates)

    def sample(self) -> torch.Tensor | None:
        return torch.tensor(self.get(), dtype=torch.float64) if type(self.get()) is float else None

    def get(self) -> Any:
        return self.group["lr"]

    def set(self, value: Any) -> None:
        self.group["lr"] = float_of(value) if isinstance(value, torch.Tensor) else value


@record(eq=False)
class MovingTensor:
    """A tensor that the function closes over, and whose memory is other memory from call to call."""

    tensor: torch.Tensor

    @property
    def key(self) -> Any:
        return "tensor", id(self.tensor)

    def sample(self) -> torch.Tensor:
        return self.tensor

    def get(self) -> Any:
        return None

    def set(self, value: Any) -> None:
        """It stays the tensor that it is: a trace finds out when the function comes to it (``Tracing.stand_ins``)."""


@record(eq=False)
class ChangedAttribute:
    """An attribute of a module, or of a plain object that is one, that the function reads and sets: a number or a
    tensor. ``names`` are the attributes of ``owner``."""

    owner: Any
    names: dict[str, Any]
    name: str

    @property
    def key(self) -> Any:
        return "attribute", id(self.names), self.name

    def sample(self) -> torch.Tensor | None:
        """The tensor that a call is given; None for a value that no call is given, which is a condition."""
        value = self.names.get(self.name, getattr(type(self.owner), self.name, None))
        if type(value) is int and abs(value) < MOST_CARRIED:
            return size_carrier(value)
        if type(value) is float:
            return torch.tensor(value, dtype=torch.float64)
        return value if isinstance(value, torch.Tensor) and unsupported(value) is None else None

    def get(self) -> Any:
        return None

    def set(self, value: Any) -> None:
        """It is there before attributes are watched, and until they have been (:meth:`placed`)."""

    def value_of(self, given: Any) -> Any:
        """The attribute, from the traced tensor that is passed for it."""
        value = self.names.get(self.name, getattr(type(self.owner), self.name, None))
        match value:
            case int():
                return carried_size(given)
            case float():
                return float_of(given)
            case _:
                return given

    @contextlib.contextmanager
    def placed(self, given: Any) -> Iterator[None]:
        """Have the attribute be what is passed for it, if anything is."""
        if given is None:
            yield
            return
        is_own, before = self.name in self.names, self.names.get(self.name)
        self.names[self.name] = self.value_of(given)
        try:
            yield
        finally:
            if is_own:
                self.names[self.name] = before
            else:
                del self.names[self.name]


Hidden = ClosureGradient | LearningRate | MovingTensor | ChangedAttribute | Seed


class StateCreated(NotYetError):
    """An optimizer makes its state in the function, at its first step."""

    def __init__(self, optimizer: Optimizer, parameters: frozenset[int], loc: Loc) -> None:
        super().__init__(
            f"the first step of {type(optimizer).__name__}, which makes its state.",
            loc=loc,
            remedy="call step() once before, outside of the function.",
        )
        self.optimizer = optimizer
        #: The identities of the parameters that it is made for.
        self.parameters = parameters


class HiddenState:
    """The state that a trace comes to, of which it is given ``hidden``, as the traced tensors ``given``.

    It is put back when the trace ends.
    """

    def __init__(self, hidden: Sequence[Hidden] = (), given: Sequence[Any] = ()) -> None:
        self.hidden, self.given = hidden, given
        self._known = {one.key for one in hidden}
        self._needed: dict[Any, Hidden] = {}
        #: What the gradients of tensors were when these were captured.
        self._before: dict[int, tuple[ClosureGradient, Any]] = {}
        self._optimizers: dict[int, _Optimizer] = {}
        #: The gradients of ``hidden`` in whose place the function left something else, with this.
        self.left: list[tuple[ClosureGradient, Any]] = []
        #: How many of ``hidden`` there are: others were None.
        self.count = sum(one is not None for one in given)

    @property
    def optimizers(self) -> list[OptimizerState]:
        """The conditions on the optimizers that step."""
        return [one.condition for one in self._optimizers.values()]

    def need(self, hidden: Hidden) -> None:
        """Note state that the function has come to."""
        if hidden.key not in self._known:
            self._needed.setdefault(hidden.key, hidden)

    def note_captured(self, tensor: torch.Tensor) -> None:
        """Note what the gradient of a tensor is, before the function runs derivatives that write to it."""
        if tensor.requires_grad:
            gradient = ClosureGradient(tensor)
            self._before[id(tensor)] = gradient, gradient.get()

    @contextlib.contextmanager
    def placed(self, arguments: Sequence[Any], captured: Callable[[], Iterable[Any]]) -> Iterator[None]:
        """Have the function of traced ``arguments`` find the traced state. ``captured`` gives what it has captured.

        Raises Retrace where it needs more, and NotYetError for what no program does.
        """
        before = [one.get() for one in self.hidden]
        thread = threading.get_ident()

        def note(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            if threading.get_ident() == thread:
                self._note_optimizer(optimizer)

        handle = register_optimizer_step_pre_hook(note)
        try:
            for one, value in zip(self.hidden, self.given, strict=True):
                if value is not None or isinstance(one, ClosureGradient):
                    one.set(value)
            try:
                with _GradientReads(self):
                    yield
            except Exception:
                self._raise_needed(captured())
                raise
            self._raise_needed(captured())
            if any(ClosureGradient(one).get() is not None for one in arguments):
                raise _of_argument()
            for optimizer in self._optimizers.values():
                optimizer.check()
            pairs = zip(self.hidden, self.given, strict=True)
            gradients = [(one, one.get(), given) for one, given in pairs if isinstance(one, ClosureGradient)]
            self.left = [(one, now) for one, now, given in gradients if now is not given]
        finally:
            handle.remove()
            for optimizer in self._optimizers.values():
                optimizer.restore()
            for gradient, value in self._before.values():
                if gradient.get() is not value:
                    gradient.set(value)
            for one, value in zip(self.hidden, before, strict=True):
                one.set(value)

    def _note_optimizer(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad:
                    self.need(ClosureGradient(parameter))
            if type(group.get("lr")) is float:
                self.need(LearningRate(group))
        if self._needed:
            raise self._lacking()
        if id(optimizer) not in self._optimizers:
            self._optimizers[id(optimizer)] = _Optimizer(optimizer)

    def _lacking(self) -> Retrace:
        needed = list(self._needed.values())
        return Retrace(lambda attempt: attempt.give(needed))

    def _raise_needed(self, captured: Iterable[Any]) -> None:
        """Raise Retrace where the function came to gradients that are no arguments, in Python or in autograd."""
        known = {id(tensor) for tensor in captured}
        for gradient, before in self._before.values():
            if gradient.get() is not before or id(before) in known:
                self.need(gradient)
        if self._needed:
            raise self._lacking()


class _GradientReads(FunctionMode):
    """While it is active, gradients that Python asks for or sets are noted."""

    def __init__(self, state: HiddenState) -> None:
        super().__init__(HIGHER_ORDER)
        self.state = state

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__self__", None) is _GRADIENT:
            tensor = args[0]
            if not is_traced(tensor):
                self.state.need(ClosureGradient(tensor))
            elif record_of(tensor).storage.origin is not None and (
                len(args) > 1 or ClosureGradient(tensor).get() is None
            ):
                raise _of_argument()
        return self.call(func, args, kwargs or {})


def _of_argument() -> NotYetError:
    return NotYetError(
        "the gradient (.grad) of an argument.",
        loc=user_loc(),
        remedy="close over the tensor, or use torch.autograd.grad.",
    )


@record(eq=False)
class OptimizerState:
    """The part of an optimizer that is a condition of a program: hyperparameters, parameters, tensors of its state."""

    optimizer: Optimizer
    groups: tuple[tuple[Any, ...], ...]
    state: tuple[tuple[Any, ...], ...]

    @staticmethod
    def of(optimizer: Optimizer) -> OptimizerState:
        """The state that an optimizer is in."""
        return OptimizerState(optimizer, _groups(optimizer), _state(optimizer))

    def is_current(self) -> bool:
        """Whether it is in that state."""
        return _same(self.groups, _groups(self.optimizer)) and _same(self.state, _state(self.optimizer))


def _groups(optimizer: Optimizer) -> tuple[tuple[Any, ...], ...]:
    """The groups of an optimizer, without learning rates that are floats: those are arguments."""
    return tuple([
        (name, *value) if name == "params" else (name, value)
        for group in optimizer.param_groups
        for name, value in group.items()
        if name != "lr" or not isinstance(value, float | torch.SymFloat)
    ])  # fmt: skip


def _state(optimizer: Optimizer) -> tuple[tuple[Any, ...], ...]:
    return tuple([(key, *pair) for key, own in optimizer.state.items() for pair in own.items()])


def _same(a: tuple[tuple[Any, ...], ...], b: tuple[tuple[Any, ...], ...]) -> bool:
    """Whether rows have the same objects, or equal ones that are no tensors."""
    return len(a) == len(b) and all(
        len(x) == len(y) and all(map(_is_same, x, y)) for x, y in zip(a, b, strict=True)
    )  # fmt: skip


def _is_same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    return not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor) and type(a) is type(b) and bool(a == b)


class _Optimizer:
    """An optimizer that steps in a trace, as it was before."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.condition = OptimizerState.of(optimizer)
        #: The user's line that it steps at.
        self.loc = user_loc()
        self._state = {key: dict(own) for key, own in optimizer.state.items()}
        self._groups = [dict(group) for group in optimizer.param_groups]

    def check(self) -> None:
        """Raise NotYetError where it is not as it was: no program changes it so."""
        name = type(self.optimizer).__name__
        if not _same(self.condition.groups, _groups(self.optimizer)) or any(
            now.get("lr") is not before.get("lr")
            for now, before in zip(self.optimizer.param_groups, self._groups, strict=True)
        ):
            raise NotYetError(
                f"a change of hyperparameters of {name}.", loc=self.loc, remedy="change them outside of the function."
            )
        now = _state(self.optimizer)
        if _same(self.condition.state, now):
            return
        kept = [row for row in now if row[1] in self._state.get(row[0], ())]
        if _same(self.condition.state, tuple(kept)):
            made = frozenset(id(row[0]) for row in now) - {id(row[0]) for row in kept}
            raise StateCreated(self.optimizer, made, self.loc)
        raise NotYetError(f"a step of {name} that changes numbers in its state.", loc=self.loc)

    def restore(self) -> None:
        """Put it back to what it was."""
        state: Any = self.optimizer.state
        for key in [key for key in state if key not in self._state]:
            del state[key]
        for key, own in self._state.items():
            state[key].clear()
            state[key].update(own)
        for group, before in zip(self.optimizer.param_groups, self._groups, strict=True):
            group.clear()
            group.update(before)
