"""What to know of sizes so that JAX can go on tracing: the mildest first.

A trace fails with one of many messages. What they have in common: the sizes that they are about have our names, and
before JAX raised it asked whether they are equal (:mod:`dyn.interop.jax.questions`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dyn.interop.jax.expressions import UnreadableError, difference, names_in
from dyn.interop.jax.questions import Question, loc_of_error
from dyn.interop.jax.sizes import Guard, Kind, Sizes
from dyn.source import Loc

_COMPARED = re.compile(r"comparison '(.+?)' (>=|<=|>|<) '(.+?)' is inconclusive")
_REMAINDER = re.compile(r"\bmod\(([^()]+), (- ?)?(\d+)\)")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Failure:
    """A trace that JAX, or the function, gave up: the exception, and what was asked before."""

    error: Exception
    questions: tuple[Question, ...]

    @property
    def loc(self) -> Loc:
        return loc_of_error(self.error)

    @property
    def text(self) -> str:
        """The message's first paragraph in one line."""
        first = str(self.error).strip().split("\n\n")[0].split("\nThis error arises")[0].split("\nUsing symbolic scope")[0]
        return " ".join(first.split()) or type(self.error).__name__

    def is_the_same(self, other: Failure, before: Sizes, after: Sizes) -> bool:
        """Whether nothing was gained: the same message, but for what the names have become."""
        if type(self.error) is not type(other.error) or self.loc != other.loc:
            return False
        known = {name: text for name, text in after.known.items() if name not in before.known}
        return _WORD.sub(lambda m: known.get(m[0], m[0]), self.text) == other.text

    def names(self, sizes: Sizes) -> tuple[str, ...]:
        """The free names that the message mentions."""
        found = dict.fromkeys(_WORD.findall(self.text))
        return tuple([name for name in found if name in sizes.free])


def remedies(failure: Failure, sizes: Sizes) -> Iterator[Sizes]:
    """Sizes to trace with next, the mildest first: at the end each name is static by itself."""
    loc, why = failure.loc, failure.text
    for left, op, right in _COMPARED.findall(why):
        yield from _some(_ordered(sizes, left, op, right, loc, why))
    for text, _, number in _REMAINDER.findall(why):
        if int(number) and sizes.value(f"mod({text}, {number})") == 0:
            yield from _some(sizes.divided(text, int(number), loc, why))
    mentioned = failure.names(sizes)
    for question in _by_mildness(failure.questions, sizes, mentioned):
        yield from _some(_equal(sizes, question, loc, why))
    for number, one in enumerate(mentioned):
        for other in mentioned[:number]:
            if sizes.env[one] == sizes.env[other]:
                yield from _some(sizes.equal(Guard(other, "==", one, Kind.EQUAL, loc, why)))
    names = mentioned if mentioned else sizes.free
    for name in names:
        yield sizes.static(name, loc, why)


def _some(made: Sizes | None) -> list[Sizes]:
    return [] if made is None else [made]


def _ordered(sizes: Sizes, left: str, op: str, right: str, loc: Loc, why: str) -> Sizes | None:
    """With the answer that the sizes at hand give to ``left op right``."""
    a, b = sizes.value(left), sizes.value(right)
    if a is None or b is None:
        return None
    if op in ("<=", ">"):  # the same question as b >= a
        left, right, a, b = right, left, b, a
    if a < b:
        left, right = right, f"{left} + 1"
    return sizes.ordered(Guard(left, ">=", right, Kind.ORDER, loc, why))


def _equal(sizes: Sizes, question: Question, loc: Loc, why: str) -> Sizes | None:
    remainder = _REMAINDER.fullmatch(question.left)
    if remainder is not None and question.right == "0":
        made = sizes.divided(remainder[1], int(remainder[3]), loc, why)
        if made is not None:
            return made
    return sizes.equal(Guard(question.left, "==", question.right, Kind.EQUAL, loc, why))


def _by_mildness(questions: Sequence[Question], sizes: Sizes, mentioned: Sequence[str]) -> list[Question]:
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


def wrongly_no(question: Question, sizes: Sizes) -> bool:
    """Whether two sizes that JAX took to be different are equal now."""
    try:
        left, right = sizes.value(question.left), sizes.value(question.right)
    except UnreadableError:
        return False
    return left is not None and left == right


def answered(questions: Sequence[Question], sizes: Sizes) -> tuple[Sizes, bool]:
    """What the user's own lines asked: a guard for each answer, and whether one was wrong, so that it is to trace again."""
    wrong = False
    for question in questions:
        left, right, loc = question.left, question.right, question.loc
        if not question.direct or sizes.value(left) is None or sizes.value(right) is None:
            continue
        if not wrongly_no(question, sizes):
            if not _never(left, right):
                sizes = sizes.with_guard(Guard(left, "!=", right, Kind.ASKED, loc))
        elif not sizes.knows(left, right):
            sizes, wrong = _asked(sizes, question), True
    return sizes, wrong


def _asked(sizes: Sizes, question: Question) -> Sizes:
    """With an equality that a line asks for, and that holds now."""
    left, right, loc = question.left, question.right, question.loc
    remainder = _REMAINDER.fullmatch(left)
    made = None
    if remainder is not None and right == "0":
        made = sizes.divided(remainder[1], int(remainder[3]), loc, "")
    made = made or sizes.equal(Guard(left, "==", right, Kind.ASKED, loc))
    if made is not None:
        return made
    for name in names_in(f"{left} - ({right})"):
        sizes = sizes.static(name, loc, "") if name in sizes.free else sizes
    return sizes


def _never(left: str, right: str) -> bool:
    """Whether two sizes are different wherever the names are at least 1."""
    terms = difference(left, right)
    if terms is None:
        return False
    return all(f > 0 for n, f in terms.items() if n) and sum(f for n, f in terms.items()) > 0
