"""Tracebacks of errors without dyn's own frames: they end in the user's code."""

from __future__ import annotations

from types import TracebackType

from dyn import config
from dyn.errors import DynError
from dyn.source import is_own_frame, is_user_frame


def hide_own_frames(error: BaseException) -> None:
    """Take dyn's frames out of an error's traceback, where the error is the user's: raised by code of theirs, or told
    by dyn in words, without the frames of PyTorch and its kin by which the user's code came to dyn. Others are faults
    of dyn's, whose frames are needed."""
    if config.current().full_tracebacks:
        return
    entries: list[TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    told = isinstance(error, DynError) or (isinstance(error, AttributeError) and _asks_for_attribute(entries))
    if not entries or (not told and _is_own(entries[-1])):
        return
    kept: TracebackType | None = None
    for one in reversed(entries):
        if not _is_own(one) and not (isinstance(error, DynError) and kept is None and _is_of_library(one)):
            kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    error.__traceback__ = kept


def _asks_for_attribute(entries: list[TracebackType]) -> bool:
    """Whether an array was asked for what it has not."""
    return bool(entries) and entries[-1].tb_frame.f_code.co_name in ("__getattr__", "method")


def _is_of_library(entry: TracebackType) -> bool:
    file = entry.tb_frame.f_code.co_filename
    return not file.startswith("<") and not is_user_frame(file)


def _is_own(entry: TracebackType) -> bool:
    code, names = entry.tb_frame.f_code, entry.tb_frame.f_globals
    if code.co_filename.startswith("<"):  # dyn's, of code that it has made; or the user's, of ``python -c``
        return str(names.get("__name__", "")).partition(".")[0] == "dyn"
    return is_own_frame(code.co_filename)
