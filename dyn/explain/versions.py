"""Reasons for recompilation: the differences from the nearest program that there was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dyn.frozen import record
from dyn.shapes import Relation, Symbol, first_broken

#: Longer values are cut in warnings.
_MOST_TEXT = 80


def shown(value: object) -> str:
    """``repr(value)``, or any object's where the class's own raises: no call fails for the text of an argument."""
    try:
        return repr(value)
    except Exception:
        return object.__repr__(value)


@record()
class ArgumentKey:
    """An array argument as a version's key sees it."""

    name: str
    dtype: str
    rank: int
    weak: bool

    def describe(self) -> str:
        """``float32 of 2 axes``"""
        kind = f"a Python number ({self.dtype})" if self.weak else self.dtype
        return kind if self.weak else f"{kind} of {self.rank} {'axis' if self.rank == 1 else 'axes'}"


@record()
class MadeFor:
    """Key of a call's program, in words: all that decides which it is, but for the sizes."""

    arguments: tuple[ArgumentKey, ...]
    #: Each argument that the function was called with, and its structure.
    trees: tuple[tuple[str, str], ...]
    #: Each static argument, and its value.
    static: tuple[tuple[str, str], ...]
    #: What else changes code, as settings and layouts do, by words for what it is, and its value.
    settings: tuple[tuple[str, object], ...]


def made_for_leaves(
    arguments: Iterable[ArgumentKey], labels: Iterable[str], static: Iterable[tuple[str, object]],
    settings: Iterable[tuple[str, object]] = (),
) -> MadeFor:  # fmt: skip
    """The key of a call in which all leaves have ``labels``, and those that are no arrays the values ``static``."""
    texts = tuple([(label, shown(value)) for label, value in static])
    return MadeFor(tuple(arguments), (("the arguments", ", ".join(labels)),), texts, tuple(settings))


def why_new(new: MadeFor, known: Sequence[MadeFor], broken: Sequence[str]) -> str:
    """Text of why ``new`` needs a program of its own, beside those ``known``, which are numbered from 1.

    ``broken`` says of each known program which of its guards does not hold (:func:`broken_guard`), ``""`` for one that
    differs in more than its guards.
    The first program has no reason but the first call: ``""``.
    """
    if not known:
        return ""
    options: list[tuple[int, int, list[str]]] = []
    for number, old in enumerate(known, 1):
        found = differences(new, old)
        options.append((len(found), -number, found))
    count, negative, found = min(options, key=lambda option: option[:2])
    number = -negative
    if count:
        return f"{', '.join(found)} in program {number}, the nearest"
    return f"program {number} is for {broken[number - 1]}"


def broken_guard(guards: Sequence[Relation], sizes: Mapping[Symbol, int]) -> str:
    """The first guard that these sizes break: ``128 >= n, and n is 300 (model.py:3  if x.shape[0] > 128:)``."""
    guard = first_broken(guards, sizes)
    if guard is None:
        return "other sizes"
    symbols = sorted(guard.symbols(), key=lambda s: s.uid)
    values = " and ".join([f"{s.name} is {sizes[s]}" for s in symbols if s in sizes])
    loc = guard.reason.loc
    return f"{guard.describe()}, and {values}{f' ({loc.describe()})' if loc is not None else ''}"


def differences(new: MadeFor, old: MadeFor) -> list[str]:
    """The differences, as phrases that end in what was before: ``x is float64, and was float32``."""
    found: list[str] = []
    was = dict(old.trees)
    for name, tree in new.trees:
        if name not in was:
            found.append(f"{name} is passed, and was not")
        elif was[name] != tree:
            found.append(f"{name} is {tree}, and was {was[name]}")
    found += [f"{name} is not passed, and was" for name, _ in old.trees if name not in dict(new.trees)]
    arguments = {argument.name: argument for argument in old.arguments}
    for argument in new.arguments:
        before = arguments.get(argument.name)
        if before is not None and before != argument:
            found.append(_changed(argument, before))
    found += _values(new.static, old.static, "{} = {}, and was {}")
    found += _values(new.settings, old.settings, "{} is {}, and was {}")
    return found


def _changed(new: ArgumentKey, old: ArgumentKey) -> str:
    """Phrase about an argument whose dtype, rank or weakness differs."""
    if new.weak != old.weak:
        return f"{new.name} is {new.describe()}, and was {old.describe()}"
    if new.rank == old.rank:
        return f"{new.name} is {new.dtype}, and was {old.dtype}"
    if new.dtype == old.dtype:
        axes = "axis" if new.rank == 1 else "axes"
        return f"{new.name} has {new.rank} {axes}, and had {old.rank}"
    return f"{new.name} is {new.describe()}, and was {old.describe()}"


def _values(new: Sequence[tuple[str, object]], old: Sequence[tuple[str, object]], form: str) -> list[str]:
    was = dict(old)
    return [form.format(name, value, was.get(name, "not given")) for name, value in new if was.get(name) != value]


def what_multiplies(made_for: Sequence[MadeFor]) -> tuple[str, str] | None:
    """The greatest difference among programs, in words, and its remedy; None where nothing but sizes differs."""
    values: dict[str, set[object]] = {}
    last: dict[str, str] = {}
    remedies: dict[str, str] = {}

    def add(what: str, value: object, text: str, remedy: str) -> None:
        values.setdefault(what, set()).add(value)
        last[what], remedies[what] = text, remedy

    for one in made_for:
        passed = ", ".join([name for name, _ in one.trees])
        add("what is passed", passed, passed, "pass the same arguments in each call.")
        for name, value in one.static:
            add(f"the static argument {name}", value, value, "pass it as an array, or with fewer values.")
        for argument in one.arguments:
            kind = argument.describe()
            add(f"the kind of {argument.name}", kind, kind, "convert it to one dtype and rank before the call.")
        for name, tree in one.trees:
            add(f"the structure of {name}", tree, tree, "pass containers of one structure.")
        for name, value in one.settings:
            add(name, value, str(value), f"leave {name} as it is from call to call.")
    several = sorted([what for what in values if len(values[what]) > 1], key=lambda what: -len(values[what]))
    if not several:
        return None
    found = several[:1] if 2 * len(values[several[0]]) >= len(made_for) else several[:2]
    told = [f"{what} has had {len(values[what])} values, the last {_shortened(last[what])}" for what in found]
    return "; ".join(told), remedies[found[0]]


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
