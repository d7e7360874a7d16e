"""The folder that the setting ``dump`` names: the texts and the page of each program, and indexes of all.

Programs are numbered in their folder, so that those of one name keep apart: ``softmax.0003.00-trace.txt``,
``softmax.0003.compile.html``. ``index.txt`` and ``index.html`` get an entry more with each program, and are never read
again: a thousand programs take a thousand times what one does.

Threads and processes may write into one folder at once, and finalizers while a program is written, so there is no lock:
what is shared is appended to, by one call of the system each, which no other comes between.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from html import escape

from dyn.backends.base import Source
from dyn.compilation_record import CompilationRecord
from dyn.explain.explorer import ENDING, index_head, program_page
from dyn.explain.report import dim_rows
from dyn.explain.text import dim_text
from dyn.pipeline import Optimized

#: The file that has a byte for each program.
_COUNTER = ".programs"
#: So much of a program's name is in the names of its files.
_MOST_NAME = 48
_LINE = "\n"
_NO_FILE_NAME = re.compile(r"[^\w.-]")


def dump_program(
    folder: str,
    optimized: Optimized,
    record: CompilationRecord,
    assembly: Callable[[Source], str],
    error: BaseException | None = None,
) -> str:
    """Write the files of a program that was compiled, or that no compiler took: an ``error``.

    Returns:
        What the names of its files begin with, the folder among it.
    """
    os.makedirs(folder, exist_ok=True)
    name = optimized.function.name
    number = _append(os.path.join(folder, _COUNTER), ".")
    stem = f"{_NO_FILE_NAME.sub('_', name)[:_MOST_NAME]}.{number:04d}"
    for place, (stage, text) in enumerate(record.texts.items()):
        _write(os.path.join(folder, f"{stem}.{place:02d}-{stage}.txt"), text)
    title = f"{name}, program {number}"
    if error is None:
        _write(os.path.join(folder, f"{stem}{ENDING}"), program_page(title, optimized, record.sources, assembly))
    why = f"because {record.because.replace(_LINE, ' ')}" if record.because else "as the first of its function"
    dims = [dim_text(row) for row in dim_rows(optimized.function)]
    times = [f"{stage} {1000 * seconds:.1f}" for stage, seconds in record.seconds.items()]
    lines = [
        f"program {number}: {name}",
        f"  compiled {why}" if error is None else f"  not compiled: {type(error).__name__}: {error}".partition("\n")[0],
        f"  dims: {'; '.join(dims) or 'none'}",
        f"  ms: {', '.join(times)}; all {1000 * sum(record.seconds.values()):.1f}",
        f"  files: {stem}.*",
        f"  process {os.getpid()}, {time.strftime('%Y-%m-%d %H:%M:%S')}",
    ]
    row = f'<li><a href="{escape(stem)}{ENDING}">{escape(title)}</a> ' if error is None else f"<li>{escape(title)} "
    _append(os.path.join(folder, "index.txt"), "\n".join(lines) + "\n")
    index = os.path.join(folder, "index.html")
    _begin(index, index_head(), f"{index}.{number}")
    _append(index, f"{row}<small>{escape(lines[1].strip())}</small></li>\n")
    return os.path.join(folder, stem)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _append(path: str, text: str) -> int:
    """Append to a file as a whole; the place at which that ends."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        os.write(file, text.encode())
        return os.lseek(file, 0, os.SEEK_CUR)
    finally:
        os.close(file)


def _begin(path: str, text: str, beside: str) -> None:
    """Have a file that begins with ``text``: it is there whole, or not at all. ``beside`` is a path of one's own."""
    if not os.path.exists(path):
        _write(beside, text)
        with contextlib.suppress(FileExistsError):
            os.link(beside, path)
        os.unlink(beside)
