"""Folders and files that nobody but their owner and root can change: what code may be loaded from.

A name leads to what its folder says, so that every folder on the way counts. One that others may write to does no harm
where it is sticky, as ``/tmp`` is: there only the owner of a thing renames or removes it, and each thing on the way has
to be ours or root's. Symbolic links are followed by the same rules. (OpenSSH looks so at the folders of its keys:
``safe_path`` in its ``misc.c``.)
"""

from __future__ import annotations

import os
import stat

from dyn.frozen import record

#: As many symbolic links as Linux follows.
_MOST_LINKS = 40
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@record()
class Refusal:
    """Reason why a path is not trusted, and its remedy."""

    problem: str
    remedy: str


def refusal(folder: str) -> Refusal | None:
    """Reason why other users may change what is in a folder, or could once it is made; None where they cannot.

    Where the system knows no owners, on Windows, it is None.
    """
    if not hasattr(os, "geteuid"):
        return None
    path, rest, links = "/", _parts(os.path.abspath(folder)), 0
    while True:
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):  # nothing behind it is there: who uses it makes it for himself
            return None
        except OSError as error:
            return Refusal(f"{path} cannot be looked at ({error.strerror})", "name another folder in DYN_CACHE_DIR")
        found = _of_owner(path, status)
        if found is not None:
            return found
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MOST_LINKS:
                return Refusal(f"{folder} has too many symbolic links", "name another folder in DYN_CACHE_DIR")
            target = os.readlink(path)
            start = "/" if os.path.isabs(target) else os.path.dirname(path)
            path, rest = start, [*_parts(target), *rest]
            continue
        if status.st_mode & _OTHERS_WRITE and not (rest and status.st_mode & stat.S_ISVTX):
            who = "every user" if status.st_mode & stat.S_IWOTH else "its group"
            return Refusal(
                f"{path} may be written to by {who} (mode {stat.S_IMODE(status.st_mode):o})",
                f"chmod go-w {path}, or name another folder in DYN_CACHE_DIR",
            )
        if not rest:
            return None
        path, rest = _climbed(path, rest)


def is_own(status: os.stat_result) -> bool:
    """Whether nobody but us and root can change an opened file."""
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & _OTHERS_WRITE


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _climbed(path: str, rest: list[str]) -> tuple[str, list[str]]:
    """One step along a path whose folders so far are no links."""
    first, *others = rest
    return (os.path.dirname(path) if first == ".." else os.path.join(path, first)), others


def _of_owner(path: str, status: os.stat_result) -> Refusal | None:
    if status.st_uid in (0, os.geteuid()):
        return None
    return Refusal(
        f"{path} belongs to the user {status.st_uid}, who is neither root nor the user {os.geteuid()} that runs",
        "name a folder of your own in DYN_CACHE_DIR",
    )
