"""Facts about sizes with which JAX can go on tracing: the mildest first.

A trace fails with one of many messages. What they have in common: the sizes that they are about have our names, and
before JAX raised it asked whether they are equal (:mod:`dyn.interop.jax.questions`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dyn.interop.jax.expressions import UnreadableError, calls_in, difference, divisions, names_in, plus_one, renamed
from dyn.interop.jax.questions import Question, loc_of_error
from dyn.interop.jax.sizes import ReasonKind, SizeGuard, TraceSizes
from dyn.source import Loc

_COMPARED = re.compile(r"comparison '(.+?)' (>=|<=|>|<) '(.+?)' is inconclusive")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class FailedTrace:
    """A trace that JAX, or the function, gave up: the exception, and what was asked before."""

    error: Exception
    questions: tuple[Question, ...]

    @property
    def loc(self) -> Loc:
        return loc_of_error(self.error)

    @property
    def text(self) -> str:
        """The message's first paragraph in one line."""
        first = (
            str(self.error).strip().split("\n\n")[0].split("\nThis error arises")[0].split("\nUsing symbolic scope")[0]
        )
        return " ".join(first.split()) or type(self.error).__name__

    def leads_on(self, after: FailedTrace, before: TraceSizes, sizes: TraceSizes) -> bool:
        """Tell whether something was gained: another message (but for what the names are now), or another question."""
        if type(self.error) is not type(after.error) or self.loc != after.loc:
            return True
        known = {name: text for name, text in sizes.known.items() if name not in before.known}
        if _WORD.sub(lambda m: known.get(m[0], m[0]), self.text) != after.text:
            return True
        if sizes.guards[-1].kind is ReasonKind.STATIC:
            return False
        asked = {(renamed(q.left, known), renamed(q.right, known)) for q in self.questions}
        mentioned = after.names(sizes)
        return any(
            (q.left, q.right) not in asked
            and wrongly_no(q, sizes)
            and {*names_in(f"{q.left} - ({q.right})")} & {*mentioned}
            for q in after.questions
        )

    def names(self, sizes: TraceSizes) -> tuple[str, ...]:
        """The free names that the message mentions."""
        found = dict.fromkeys(_WORD.findall(self.text))
        return tuple([name for name in found if name in sizes.free])


def next_sizes(failure: FailedTrace, sizes: TraceSizes) -> Iterator[TraceSizes]:
    """Sizes to trace with next, the mildest first: at the end each name is static by itself."""
    loc, why = failure.loc, failure.text
    for left, op, right in _COMPARED.findall(why):
        yield from _some(_ordered(sizes, left, op, right, loc, why))
    calls = calls_in(why)
    for call in calls:
        if call.startswith("mod("):
            yield from _divided(sizes, call, loc, why)
    mentioned = failure.names(sizes)
    questions = _by_mildness(failure.questions, sizes, mentioned)
    for question in questions:
        if not question.left.startswith("mod("):
            yield from _some(sizes.equal(SizeGuard(question.left, "==", question.right, ReasonKind.EQUAL, loc, why)))
    for text in (*(side for q in questions for side in (q.left, q.right)), *calls):
        yield from _divided(sizes, text, loc, why)
    for call in calls:  # a product of several names: all but the first are numbers
        for text, divisor in divisions(call):
            names = [name for name in names_in(text) if name in sizes.free]
            if len(names) > 1 and divisor.lstrip("- ").isdecimal():
                made = sizes
                for name in names[1:]:
                    made = made.static(name, loc, why)
                yield made.divided(text, divisor, loc, why, ReasonKind.DIVIDES) or made
    yield from _some(_alike(sizes, why, loc))
    for number, one in enumerate(mentioned):
        for other in mentioned[:number]:
            if sizes.env[one] == sizes.env[other]:
                yield from _some(sizes.equal(SizeGuard(other, "==", one, ReasonKind.EQUAL, loc, why)))
    for name in mentioned if mentioned else sizes.free:
        yield sizes.static(name, loc, why)


def _alike(sizes: TraceSizes, why: str, loc: Loc) -> TraceSizes | None:
    """Sizes with the shapes that a message has equal, where they are equal now."""
    shapes = [[one.strip() for one in text.split(",") if one.strip()] for text in re.findall(r"\(([\w, ]+)\)", why)]
    made = sizes
    for number, one in enumerate(shapes):
        for other in shapes[:number]:
            pairs = list(zip(other, one, strict=False))
            if len(other) != len(one) or any(
                sizes.value(a) is None or sizes.value(a) != sizes.value(b) for a, b in pairs
            ):
                continue
            for a, b in pairs:
                made = made.equal(SizeGuard(a, "==", b, ReasonKind.EQUAL, loc, why)) or made
    return None if made == sizes else made


def _divided(
    sizes: TraceSizes, text: str, loc: Loc, why: str, kind: ReasonKind = ReasonKind.DIVIDES
) -> list[TraceSizes]:
    """Sizes with a division in an expression leaving no rest, for each that leaves none now."""
    found: list[TraceSizes] = []
    for left, right in divisions(text):
        if sizes.value(f"mod({left}, {right})") == 0:
            found += _some(sizes.divided(left, right, loc, why, kind))
    return found


def _some(made: TraceSizes | None) -> list[TraceSizes]:
    return [] if made is None else [made]


def _ordered(sizes: TraceSizes, left: str, op: str, right: str, loc: Loc, why: str) -> TraceSizes | None:
    """Sizes with the answer that those at hand give to ``left op right``."""
    a, b = sizes.value(left), sizes.value(right)
    if a is None or b is None:
        return None
    if op in ("<=", ">"):  # the same question as b >= a
        left, right, a, b = right, left, b, a
    if a < b:
        left, right = right, plus_one(left)
    return sizes.ordered(SizeGuard(left, ">=", right, ReasonKind.ORDER, loc, why))


def _by_mildness(questions: Sequence[Question], sizes: TraceSizes, mentioned: Sequence[str]) -> list[Question]:
    """The questions whose answer is wrong for the sizes at hand: two names' first, then the latest."""
    wrong = [q for q in questions if wrongly_no(q, sizes)]
    about = [q for q in wrong if {*names_in(q.left), *names_in(q.right)} & {*mentioned}]
    found = list(reversed(about if about else wrong))
    return sorted(found, key=lambda q: _rank(q.left, q.right))


def _rank(left: str, right: str) -> int:
    terms = difference(left, right)
    if terms is None:
        return 2
    names = [name for name in terms if name]
    return 0 if len(names) == 2 and not terms.get("") else 1 if len(names) > 1 else 3


def wrongly_no(question: Question, sizes: TraceSizes) -> bool:
    """Tell whether two sizes that JAX took to be different are equal now."""
    try:
        left, right = sizes.value(question.left), sizes.value(question.right)
    except UnreadableError:
        return False
    return left is not None and left == right


def guards_of_answers(questions: Sequence[Question], sizes: TraceSizes) -> tuple[TraceSizes, bool]:
    """Guards for the questions of code that takes the answer as it is; and whether one was wrong, so that the
    function is to be traced again."""
    wrong = False
    for question in questions:
        left, right, loc = question.left, question.right, question.loc
        if not question.direct or question.settled:
            continue
        if question.looked_up or sizes.value(left) is None or sizes.value(right) is None:
            sizes, changed = _static(sizes, question)
            wrong = wrong or changed
        elif not wrongly_no(question, sizes):
            if not _never(left, right):
                sizes = sizes.with_guard(SizeGuard(left, "!=", right, ReasonKind.ASKED, loc))
        elif not sizes.knows(left, right):
            sizes, wrong = _asked(sizes, question), True
    return sizes, wrong


def _static(sizes: TraceSizes, question: Question) -> tuple[TraceSizes, bool]:
    """Sizes with those of a question as numbers; and whether they were none before."""
    try:
        names = names_in(f"{question.left} - ({question.right})")
    except UnreadableError:
        names = sizes.free
    made = sizes
    for name in names:
        made = made.static(name, question.loc, "") if name in made.free else made
    return made, made is not sizes


def _asked(sizes: TraceSizes, question: Question) -> TraceSizes:
    """Sizes with an equality that a line asks for, and that holds now."""
    left, right, loc = question.left, question.right, question.loc
    made = sizes.equal(SizeGuard(left, "==", right, ReasonKind.ASKED, loc))
    if left.startswith("mod(") and right == "0":
        made = next(iter(_divided(sizes, left, loc, "", ReasonKind.ASKED)), made)
    return _static(sizes, question)[0] if made is None else made


def _never(left: str, right: str) -> bool:
    """Tell whether two sizes are different wherever the names are at least 1."""
    terms = difference(left, right)
    if terms is None:
        return False
    return all(f > 0 for n, f in terms.items() if n) and sum(terms.values()) > 0
