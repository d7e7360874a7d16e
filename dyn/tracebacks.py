"""Tracebacks of errors without dyn's own frames: they end in the user's code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from dyn import config
from dyn.errors import DynError
from dyn.source import is_jax_frame, is_own_frame, is_user_frame

F = TypeVar("F", bound=Callable[..., Any])


def without_own_frames(function: F) -> F:
    """A function whose errors' tracebacks have no frame of dyn's, by :func:`hide_own_frames`."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            entry = error.__traceback__
            was_entered = entry is not None and entry.tb_next is not None
            hide_own_frames(error, is_told=isinstance(error, TypeError) and not was_entered)
            raise

    return call  # pyright: ignore[reportReturnType]  # wraps() keeps the signature, its type does not


def hide_own_frames(error: BaseException, *, is_told: bool = False) -> None:
    """Take dyn's frames out of an error's traceback, where the error is the user's: raised by code of theirs, or told
    by dyn in words, as ``is_told`` says too, without the frames of PyTorch and its kin by which the user's code came to
    dyn. Others are faults of dyn's, whose frames are needed."""
    if config.current().full_tracebacks:
        return
    entries: list[TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    is_told = is_told or isinstance(error, DynError)
    is_told = is_told or (isinstance(error, AttributeError) and _asks_for_attribute(entries))
    if not entries or not (is_told or _is_raised_by_user(entries)):
        return
    kept: TracebackType | None = None
    for one in reversed(entries):
        if not _is_own(one) and not (isinstance(error, DynError) and kept is None and _is_of_library(one)):
            kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    error.__traceback__ = kept


def _asks_for_attribute(entries: list[TracebackType]) -> bool:
    """Whether an array was asked for what it has not."""
    return bool(entries) and entries[-1].tb_frame.f_code.co_name in ("__getattr__", "method")


def _is_raised_by_user(entries: list[TracebackType]) -> bool:
    """Return True if the innermost frame is the user's, or JAX's in a call that a line of theirs makes: there may be
    functions between that dyn has in JAX's places."""
    last = len(entries) - 1
    while last > 0 and is_jax_frame(entries[-1].tb_frame.f_code.co_filename) and _is_in_jax(entries[last]):
        last -= 1
    return not _is_own(entries[last])


def _is_in_jax(entry: TracebackType) -> bool:
    frame = entry.tb_frame
    return is_jax_frame(frame.f_code.co_filename) or bool(frame.f_globals.get("IN_PLACES_OF_JAX"))


def _is_of_library(entry: TracebackType) -> bool:
    file = entry.tb_frame.f_code.co_filename
    return not file.startswith("<") and not is_user_frame(file)


def _is_own(entry: TracebackType) -> bool:
    code, names = entry.tb_frame.f_code, entry.tb_frame.f_globals
    if code.co_filename.startswith("<"):  # dyn's, of code that it has made; or the user's, of ``python -c``
        return str(names.get("__name__", "")).partition(".")[0] == "dyn"
    return is_own_frame(code.co_filename)
