"""Errors of compiled functions that are PyTorch's as well: what PyTorch raises a RuntimeError for is one here, too."""

from __future__ import annotations

from torch._C import _LinAlgError  # pyright: ignore[reportAttributeAccessIssue]  # torch.linalg has it for what is raised

from dyn.errors import AxisError, DomainError, OutOfRangeError, ShapeError


class TorchShapeError(ShapeError, RuntimeError):
    """Shapes that do not fit together: an error of dyn's, which PyTorch's code catches as the ``RuntimeError`` of its
    own. An axis that a tensor does not have is an ``IndexError`` (:class:`dyn.errors.AxisError`), as it is there."""


class TorchOutOfRangeError(OutOfRangeError, TorchShapeError):
    """An index out of range: PyTorch's operations raise an ``IndexError`` or a ``RuntimeError`` for it, and this is
    both."""


class TorchDomainError(DomainError, RuntimeError):
    """Elements that an operation has no result for: an integer divided by 0, weights that are negative."""


class TorchLinAlgError(TorchDomainError, _LinAlgError):  # pyright: ignore[reportUntypedBaseClass]  # of C
    """A matrix that has no inverse, no factors or no solution."""


def torch_error(error: ShapeError) -> ShapeError:
    """An error as one that PyTorch's code catches."""
    if isinstance(error, TorchShapeError | AxisError):
        return error
    of = TorchOutOfRangeError if isinstance(error, OutOfRangeError) else TorchShapeError
    made = of(error.problem, loc=error.loc, remedy=error.remedy, notes=error.notes)
    return made.with_traceback(error.__traceback__)
