"""Archives of object files: a kernel with the routines that it calls, which were compiled apart.

The format is that of ``ar``, with GNU's table of long names, so that ``nm``, ``objdump`` and ``ar`` read what the cache
keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from dyn.errors import ArtifactError

_MAGIC = b"!<arch>\n"
#: Name, time, owner, group, mode, size, end: GNU's "deterministic" headers.
_HEADER = "%-16s%-12d%-6d%-6d%-8s%-10d`\n"
_HEADER_BYTES = 60
_LONG_NAMES = "//"


def is_archive(data: bytes) -> bool:
    """Whether it is an archive rather than an object."""
    return data.startswith(_MAGIC)


def pack(members: Mapping[str, bytes]) -> bytes:
    """An archive of files by their names, in their order."""
    places: dict[str, int] = {}
    names = b""
    for name in members:
        places[name] = len(names)
        names += f"{name}/\n".encode()
    parts = [_MAGIC, _member(_LONG_NAMES, names)]
    parts += [_member(f"/{places[name]}", data) for name, data in members.items()]
    return b"".join(parts)


def _member(name: str, data: bytes) -> bytes:
    header = (_HEADER % (name, 0, 0, 0, "644", len(data))).encode()
    return header + data + b"\n" * (len(data) % 2)


def unpack(data: bytes) -> dict[str, bytes]:
    """The files of an archive of :func:`pack`, by name. ArtifactError for anything else."""
    found: dict[str, bytes] = {}
    names, at = b"", len(_MAGIC)
    while at < len(data):
        header = data[at : at + _HEADER_BYTES]
        name, size = header[:16].decode("latin-1").strip(), header[48:58].strip()
        at += _HEADER_BYTES
        if header[58:] != b"`\n" or not size.isdigit() or at + int(size) > len(data):
            _broken("it is cut off")
        member = data[at : at + int(size)]
        at += int(size) + int(size) % 2
        if name == _LONG_NAMES:
            names = member
            continue
        if not name[1:].isdigit():
            _broken(f"it has a file {name!r}")
        found[names[int(name[1:]) :].partition(b"/\n")[0].decode()] = member
    return found


def _broken(what: str) -> NoReturn:
    raise ArtifactError(f"this is not an archive of kernels: {what}.")
