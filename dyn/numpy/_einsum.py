"""Einstein summation: operands are contracted from left to right, two at a time.

Each step is a multiplication where nothing is summed, else one ``dot_general``; labels that only one operand has are
summed first. An ellipsis stands for labels of its own, which broadcast.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any, NoReturn

from dyn import dtypes
from dyn.errors import NotYetError, ShapeError
from dyn.numpy._binary import multiply
from dyn.numpy._broadcast import expand, join_shapes
from dyn.numpy._diagonal import main_diagonal
from dyn.numpy._linalg.products import check_contracted, contract
from dyn.numpy._manipulation import permuted, view
from dyn.numpy._operands import promote, shape_of
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._reductions import fold
from dyn.shapes import Reason, Relation, RelKind, format_dim
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["einsum"]

#: A label a letter. Those of an ellipsis are digits, numbered from the last axis.
Labels = str
_ELLIPSIS = string.digits


@public
def einsum(subscripts: str, /, *operands: ArrayLike, **options: Any) -> Array:
    """Sums of products of arrays, as Einstein's convention writes them.

    It goes from the left, two arrays at a time, each step one contraction. Labels that are known to have a size of 1 on
    one side broadcast, and the axes of ``...`` whatever their sizes are.

    Args:
        subscripts: labels of each array's axes and of the result's, such as ``"bqd,bkd->bqk"``; a label twice in one
            array is its diagonal; ``...`` stands for further axes, which broadcast. Without ``->`` the result has the
            labels that stand once, in alphabetical order.
        *operands: arrays of any dtypes, one for each group of labels.
        **options: ``optimize``, which changes nothing here.

    Returns:
        An array in the dtype that all promote to.

    Raises:
        ShapeError: if labels and arrays do not fit, or sizes of one label differ, at the call at the latest.
        NotYetError: if another option is given.

    Example:
        >>> dnp.einsum("ij,jk->ik", np.array([[1, 2], [3, 4]]), np.array([[1], [1]]))
        array([[3],
               [7]])
    """
    if options.keys() - {"optimize"}:
        raise NotYetError(
            f"einsum does not take {', '.join(sorted(options))} yet.", loc=user_loc(), remedy="leave it out."
        )
    values = promote("einsum", *operands)
    inputs, output = _parse(subscripts, values)
    for place, labels in enumerate(inputs):
        values[place], inputs[place] = _diagonals(subscripts, values[place], labels)
    value, labels = values[0], inputs[0]
    for place in range(1, len(values)):
        later = output + "".join(inputs[place + 1 :])
        value, labels = _pair(subscripts, value, labels, values[place], inputs[place], later)
    value, labels = _sum_out(value, labels, output)
    return permuted(value, [labels.index(label) for label in output])


# ---- what the subscripts say -----------------------------------------------------------------------------------------


def _fail(subscripts: str, problem: str, remedy: str) -> NoReturn:
    raise ShapeError(f"einsum({subscripts!r}): {problem}.", loc=user_loc(), remedy=remedy)


def _parse(subscripts: str, values: Sequence[Tracer]) -> tuple[list[Labels], Labels]:
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        _fail(subscripts, f"{len(terms)} groups of labels for {len(values)} arrays", "write one group an array.")
    inputs = [_labels(subscripts, term, x) for term, x in zip(terms, values, strict=True)]
    dots = _ELLIPSIS[: max((sum(c in _ELLIPSIS for c in labels) for labels in inputs), default=0)][::-1]
    if arrow:
        output = right.replace("...", dots)
    else:
        letters = "".join(inputs)
        output = dots + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in _ELLIPSIS))
    for label in output:
        if output.count(label) > 1 or not any(label in labels for labels in inputs):
            _fail(subscripts, f"the label {label} of the result stands twice, or in no array", "correct the labels.")
    return inputs, output


def _labels(subscripts: str, term: str, x: Tracer) -> Labels:
    letters = term.replace("...", "")
    spare = x.ndim - len(letters)
    if not all(c in string.ascii_letters for c in letters):
        _fail(subscripts, f"{term!r} is not made of letters", "use letters, commas, '->' and '...'.")
    if spare < 0 or (spare and "..." not in term) or spare > len(_ELLIPSIS):
        _fail(subscripts, f"{term!r} does not label the {x.ndim} axes of an array", "write one label an axis.")
    return term.replace("...", _ELLIPSIS[:spare][::-1])


def _diagonals(subscripts: str, x: Tracer, labels: Labels) -> tuple[Tracer, Labels]:
    """``x`` with each of its labels once: of two axes with one label the diagonal is taken."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            a = labels.index(label)
            b = labels.index(label, a + 1)
            first, second = shape_of(x)[a], shape_of(x)[b]
            if x._trace.facts.eq(first, second).refuted:
                sizes = f"{format_dim(first)} and {format_dim(second)}"
                _fail(subscripts, f"the label {label} stands for axes of {sizes} elements", "use a label for each.")
            reason = Reason(f"einsum({subscripts!r}) takes the diagonal of axes {a} and {b}", user_loc())
            x._trace.require(Relation(RelKind.EQ, first, second, reason))
            x = main_diagonal(x, a, b)
            labels = labels[:a] + labels[a + 1 : b] + labels[b + 1 :] + label
    return x, labels


# ---- one step --------------------------------------------------------------------------------------------------------


def _sum_out(x: Tracer, labels: Labels, kept: str) -> tuple[Tracer, Labels]:
    """``x`` summed over the labels that nobody needs any more."""
    gone = tuple(axis for axis, label in enumerate(labels) if label not in kept)
    if not gone:
        return x, labels
    combine = "or" if x.element_type is dtypes.bool_ else "add"
    return fold(x, combine, gone, False), "".join(label for label in labels if label in kept)


def _drop_units(x: Tracer, labels: Labels, others: Labels) -> tuple[Tracer, Labels]:
    """``x`` without axes of size 1 that the other operand has too: they broadcast."""
    dims = shape_of(x)
    kept = [axis for axis, label in enumerate(labels) if not (dims[axis] == 1 and label in others)]
    return view(x, tuple(dims[a] for a in kept)), "".join(labels[a] for a in kept)


def _pair(subscripts: str, x: Tracer, xs: Labels, y: Tracer, ys: Labels, later: str) -> tuple[Tracer, Labels]:
    """Two operands as one, with the labels that ``later`` needs."""
    x, xs = _sum_out(x, xs, later + ys)
    y, ys = _sum_out(y, ys, later + xs)
    x, xs = _drop_units(x, xs, ys)
    y, ys = _drop_units(y, ys, xs)
    summed = [label for label in xs if label in ys and label not in later]
    if not summed:
        return _product(x, xs, y, ys)
    x, y = _broadcast_dots(f"einsum({subscripts!r})", x, xs, y, ys)
    batch = [label for label in xs if label in ys and label in later]
    places = [(xs.index(label), ys.index(label)) for label in (*batch, *summed)]
    check_contracted(f"einsum({subscripts!r})", x, y, places)
    lb, rb = tuple(xs.index(c) for c in batch), tuple(ys.index(c) for c in batch)
    lc, rc = tuple(xs.index(c) for c in summed), tuple(ys.index(c) for c in summed)
    result = contract(x, y, (lb, rb), (lc, rc))
    free = [c for c in xs if c not in ys] + [c for c in ys if c not in xs]
    return result, "".join([*batch, *free])


def _broadcast_dots(name: str, x: Tracer, xs: Labels, y: Tracer, ys: Labels) -> tuple[Tracer, Tracer]:
    """Two operands with the axes of an ellipsis that both have as long as these broadcast to, size 1 or not."""
    shapes = list(shape_of(x)), list(shape_of(y))
    places = [(xs.index(label), ys.index(label)) for label in xs if label in ys and label in _ELLIPSIS]
    own = [tuple([shape[pair[side]] for pair in places]) for side, shape in enumerate(shapes)]
    for pair, dim in zip(places, join_shapes(name, x._trace, own), strict=True):
        for side, shape in enumerate(shapes):
            shape[pair[side]] = dim
    return expand(x, tuple(shapes[0])), expand(y, tuple(shapes[1]))


def _product(x: Tracer, xs: Labels, y: Tracer, ys: Labels) -> tuple[Tracer, Labels]:
    """Product without a sum: a broadcast multiplication over the labels of both."""
    labels = xs + "".join(c for c in ys if c not in xs)
    return multiply(_spread(x, xs, labels), _spread(y, ys, labels)), labels


def _spread(x: Tracer, own: Labels, labels: Labels) -> Tracer:
    """``x`` with its axes in the order of ``labels`` and size 1 for those it has not."""
    x = permuted(x, [own.index(c) for c in labels if c in own])
    sizes = iter(shape_of(x))
    return view(x, tuple(next(sizes) if c in own else 1 for c in labels))
