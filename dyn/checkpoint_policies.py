"""Policies of :func:`dyn.checkpoint`, by JAX's names: which values it keeps instead of computing them again."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Policy", "checkpoint_dots", "checkpoint_dots_with_no_batch_dims", "dots_saveable",
    "dots_with_no_batch_dims_saveable", "everything_saveable", "nothing_saveable", "save_any_names_but_these",
    "save_anything_except_these_names", "save_only_these_names",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Policy:
    """Rule for what :func:`dyn.checkpoint` keeps.

    Args:
        rule: its name.
        names: names given by :func:`dyn.checkpoint_name` that it goes by.
    """

    rule: str
    names: tuple[str, ...] = ()


#: All that is computed is kept: nothing is computed again.
everything_saveable = Policy("everything_saveable")
#: Nothing but the arguments is kept. What is meant where there is no policy.
nothing_saveable = Policy("nothing_saveable")
#: The results of matrix products and convolutions are kept.
dots_saveable = checkpoint_dots = Policy("dots_saveable")
#: The results of matrix products that are no batches of such are kept: those with weights, and not those of attention.
dots_with_no_batch_dims_saveable = checkpoint_dots_with_no_batch_dims = Policy("dots_with_no_batch_dims_saveable")


def save_only_these_names(*names: str) -> Policy:
    """Policy that keeps values that have one of these names.

    Args:
        *names: names given by :func:`dyn.checkpoint_name`.

    Returns:
        The policy.

    Example:
        >>> dyn.checkpoint_policies.save_only_these_names("scores").names
        ('scores',)
    """
    return Policy("save_only_these_names", names)


def save_any_names_but_these(*names: str) -> Policy:
    """Policy that keeps values that have a name, except for these.

    Args:
        *names: names given by :func:`dyn.checkpoint_name`.

    Returns:
        The policy.
    """
    return Policy("save_any_names_but_these", names)


def save_anything_except_these_names(*names: str) -> Policy:
    """Policy that keeps all that is computed, except for values that have one of these names.

    Args:
        *names: names given by :func:`dyn.checkpoint_name`.

    Returns:
        The policy.
    """
    return Policy("save_anything_except_these_names", names)
