"""Source locations: the user's line that an op, a fact or an error came from.

Every op, fact, guard and error carries a :class:`Loc`, so that whatever dyn says it can say about a line that the
user wrote.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
from collections.abc import Mapping
from enum import Enum
from types import FrameType

from dyn.frozen import record

_PACKAGE_ROOT = os.path.dirname(os.path.abspath(__file__)) + os.sep
#: JAX's own code, which calls dyn's rules back on behalf of the user's line further out.
_JAX = os.sep + os.path.join("jax", "_src") + os.sep


@record()
class Loc:
    """A line of the user's program, or a named origin that has no line (an argument, an imported module).

    ``module`` is the part of a model that ran the line, by its path: ``encoder.layer.3.attention``.
    """

    file: str
    line: int = 0
    function: str = ""
    module: str = ""

    @property
    def code(self) -> str:
        """The text of the line, stripped, or ``""`` when the source cannot be read."""
        return linecache.getline(self.file, self.line).strip() if self.line else ""

    def __str__(self) -> str:
        if not self.line:
            return self.file
        folder, name = os.path.split(self.file)
        # Jupyter runs a cell from a file named by a hash; the line's text, beside it, says which cell.
        cell = os.path.basename(folder).startswith("ipykernel_")
        return f"{'cell' if cell else name}:{self.line}"

    def describe(self) -> str:
        """The text of a place in errors: ``model.py:12 (encoder.layer.3)  y = x @ w``, or without a module."""
        code, place = self.code, f"{self} ({self.module})" if self.module else str(self)
        return f"{place}  {code}" if code else place


UNKNOWN = Loc("<unknown>")


def is_own_frame(filename: str) -> bool:
    """Whether a frame of this file is dyn's, JAX's, which calls dyn's rules back, or of code that was generated."""
    return _owner(filename) is _FileOwner.DYN


def is_jax_frame(filename: str) -> bool:
    """Return True for a file of JAX's own code."""
    return _JAX in filename


def is_user_frame(filename: str) -> bool:
    """Whether a frame of this file is the user's, or of a library of theirs.

    It is not where it is dyn's own, or of Python's standard library, NumPy, JAX or PyTorch: a line there says nothing
    to people who have written ``np.eye(n)``.
    """
    return _owner(filename) is _FileOwner.USER


def is_generated(filename: str) -> bool:
    """Whether a frame of this file is of code that TensorFlow has made of a function whose Python it translates."""
    return _AUTOGRAPH in filename


class _FileOwner(Enum):
    """Owner of a file."""

    USER = "the user"
    #: dyn, the part of JAX that calls it, and code that was generated.
    DYN = "dyn"
    #: Libraries that call dyn back in the middle of their own functions, or ask dimensions for their values.
    LIBRARY = "a library"


_LIBRARIES = ("jax", "jaxlib", "keras", "numpy", "tensorflow", "torch")
#: Files that TensorFlow writes of the functions whose Python it translates.
_AUTOGRAPH = "__autograph_generated_file"
_STANDARD = os.path.dirname(os.__file__) + os.sep
#: The owners of files; there are as many files as modules, and every op of a trace asks of a dozen frames.
_owners: dict[str, _FileOwner] = {}


def _owner(filename: str) -> _FileOwner:
    found = _owners.get(filename)
    if found is None:
        files = [getattr(sys.modules.get(name), "__file__", None) for name in _LIBRARIES]
        folders = [os.path.dirname(file) + os.sep for file in files if file]
        standard = filename.startswith(_STANDARD) and "site-packages" not in filename
        if filename.startswith((_PACKAGE_ROOT, "<string>")) or is_jax_frame(filename):
            found = _FileOwner.DYN
        elif standard or filename.startswith((*folders, "<frozen")) or _AUTOGRAPH in filename:
            found = _FileOwner.LIBRARY
        else:
            found = _FileOwner.USER
        _owners[filename] = found
    return found


#: The user's lines that those of generated code stand for, by the file that the code says it is of.
_generated: dict[str, Mapping[int, Loc]] = {}


def map_generated(file: str, lines: Mapping[int, Loc]) -> None:
    """Have the lines of generated code spoken of as the user's lines that they stand for, until :func:`unmap`."""
    _generated[file] = lines


def unmap(file: str) -> None:
    """Forget what :func:`map_generated` was told of a file."""
    _generated.pop(file, None)


def loc_at(file: str, line: int, function: str) -> Loc:
    """The location of a line, in generated code that of the line that it stands for."""
    found = _generated.get(file, {}).get(line) if _generated else None
    return Loc(file, line, function) if found is None else found


class _Anchor(threading.local):
    """A frame of this thread, which waits for what it has called, and the user's line that is found from there."""

    frame: FrameType | None = None
    loc = UNKNOWN
    #: Whether no frame of the user's can come after it.
    is_last: bool = False
    #: The part of a model that runs.
    module: str = ""


_anchor = _Anchor()


class anchored:
    """``with anchored():`` around one deep call: the user's line above it is looked for once.

    Frames of the user's inside are found before it, unless there ``is_last`` one above, for whatever is asked inside.
    """

    def __init__(self, *, is_last: bool = False) -> None:
        self._is_last = is_last

    def __enter__(self) -> None:
        self._before = _anchor.frame, _anchor.loc, _anchor.is_last
        outer = sys._getframe(1).f_back
        loc = _loc_from(outer)
        if is_user_frame(loc.file):
            _anchor.frame, _anchor.loc, _anchor.is_last = outer, loc, self._is_last

    def __exit__(self, *exc: object) -> None:
        _anchor.frame, _anchor.loc, _anchor.is_last = self._before


class located:
    """``with located(loc):`` around the reading of a part of a program that has places of its own, as the nodes of a
    graph have names: whatever is asked inside, this is the place."""

    def __init__(self, loc: Loc) -> None:
        self._loc = loc

    def __enter__(self) -> None:
        self._before = _anchor.loc, _anchor.is_last
        _anchor.loc, _anchor.is_last = self._loc, True

    def __exit__(self, *exc: object) -> None:
        _anchor.loc, _anchor.is_last = self._before


class within_module:
    """``with within_module("encoder.layer.3"):`` around a call of a part of a model, whose lines those inside are."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._before, _anchor.module = _anchor.module, self._path

    def __exit__(self, *exc: object) -> None:
        _anchor.module = self._before


def user_loc() -> Loc:
    """The innermost frame of the calling stack that is the user's; where none is, the innermost that is not dyn's."""
    return _loc_from(sys._getframe(1))


def _loc_from(frame: FrameType | None) -> Loc:
    if _anchor.is_last:
        return _anchor.loc
    other = UNKNOWN
    end = _anchor.frame
    while frame is not None:
        if frame is end:
            return _anchor.loc
        code = frame.f_code
        owner = _owners.get(code.co_filename) or _owner(code.co_filename)
        if owner is _FileOwner.USER:
            found = loc_at(code.co_filename, frame.f_lineno, code.co_name)
            return Loc(found.file, found.line, found.function, _anchor.module) if _anchor.module else found
        if owner is _FileOwner.LIBRARY and other is UNKNOWN:
            other = Loc(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return other
