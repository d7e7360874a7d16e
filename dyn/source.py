"""Where in the user's program something came from.

Every op, fact, guard and error carries a :class:`Loc`, so that whatever dyn says it can say about a line that the
user wrote.
"""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass

_PACKAGE_ROOT = os.path.dirname(os.path.abspath(__file__)) + os.sep
#: JAX's own code, which calls dyn's rules back on behalf of the user's line further out.
_JAX = os.sep + os.path.join("jax", "_src") + os.sep


@dataclass(frozen=True, slots=True)
class Loc:
    """A line of the user's program, or a named origin that has no line (an argument, an imported module)."""

    file: str
    line: int = 0
    function: str = ""

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
        """``model.py:12  y = x @ w``: what an error shows for a place."""
        code = self.code
        return f"{self}  {code}" if code else str(self)


UNKNOWN = Loc("<unknown>")


def is_user_frame(filename: str) -> bool:
    """Whether a frame of this file is the user's: not dyn's, nor JAX's, nor of code that a dataclass generated."""
    return not filename.startswith((_PACKAGE_ROOT, "<string>")) and _JAX not in filename


#: What ``is_user_frame`` answers; there are as many files as modules, and every op of a trace asks of a dozen frames.
_user_files: dict[str, bool] = {}


def user_loc() -> Loc:
    """The innermost frame of the calling stack that is not dyn's own."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        is_user = _user_files.get(code.co_filename)
        if is_user is None:
            is_user = _user_files[code.co_filename] = is_user_frame(code.co_filename)
        if is_user:
            return Loc(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return UNKNOWN
