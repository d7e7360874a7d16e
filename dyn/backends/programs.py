"""Whole programs on disk: which object files a traced program was made into, so that it need not be lowered again.

An entry lists the keys of objects, which are entries of their own (``dyn.backends.binaries``), and the little that a
call must know beside them. It is found by what the program was made from: the traced program's identity, the target,
the settings that change code, the toolchain, NumPy, which folds constants, and the sources of the compiler itself
(``dyn.version``).

The texts of the native runtime and of the native entry depend on nothing but the latter, and are found the same way.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

import numpy as np

from dyn import config
from dyn.backends.base import ObjectBackend, Source
from dyn.backends.binaries import Built
from dyn.backends.cache import CacheFolder, current_store
from dyn.backends.lapack import has_lapack
from dyn.frozen import record
from dyn.lower.abi import LIBRARY_SYMBOL
from dyn.version import code_version, is_unchanged


@record()
class ObjectFile:
    """An object file, by its key, and the symbols that it defines."""

    key: str
    symbols: tuple[str, ...]


@record()
class Deferred:
    """A kernel that need not be there, by its name, and the launches that it is a variant of, by number.

    Launches with the same kernels are one here: the layers of a model.
    """

    name: str
    launches: tuple[int, ...]


@record()
class Found:
    """A program that was compiled before: ``kernels`` objects, the host program's, and that of its guards if any.

    ``reuses`` are the results, by number, that may lie in an argument's memory, each with that argument; ``useless``
    the arguments that were donated in vain. ``constants`` are those large constants of the traced program that the code
    reads, in the order of its table, by their contents' digests. ``deferred`` are the kernels that it can do without,
    with the keys of those that were made. ``ones`` are the dims, by number, that were 1 in the call for which it was
    compiled, and others not: whoever lowers the program again has to know.
    """

    parts: tuple[ObjectFile, ...]
    kernels: int
    reuses: tuple[tuple[int, int], ...] = ()
    useless: tuple[int, ...] = ()
    constants: tuple[str, ...] = ()
    deferred: tuple[tuple[Deferred, str | None], ...] = ()
    ones: tuple[int, ...] = ()

    def text(self) -> str:
        """The text that is kept on disk: a line for each field."""
        lines = [f"kernels {self.kernels}"]
        lines += [f"part {part.key} {','.join(part.symbols)}" for part in self.parts]
        lines += [f"reuse {output} {input}" for output, input in self.reuses]
        lines += [f"useless {number}" for number in self.useless]
        lines += [f"constant {digest}" for digest in self.constants]
        lines += [f"one {number}" for number in self.ones]
        for one, key in self.deferred:
            lines.append(f"deferred {one.name} {','.join(map(str, one.launches))} {key or '-'}")
        return "\n".join(lines)


def parse_found(text: str) -> Found:
    """Parse the text of :meth:`Found.text`. ValueError for anything else."""
    rows: dict[str, list[list[str]]] = {"kernels": [], "part": [], "reuse": [], "useless": [], "constant": []}
    rows |= {"deferred": [], "one": []}
    for line in text.splitlines():
        what, *fields = line.split(" ")
        if what not in rows:
            raise ValueError(f"{line!r} is no line of a program")
        rows[what].append(fields)
    ((kernels,),) = rows["kernels"]
    return Found(
        tuple(ObjectFile(key, tuple(symbols.split(","))) for key, symbols in rows["part"]),
        int(kernels),
        tuple((int(output), int(input)) for output, input in rows["reuse"]),
        tuple(int(number) for (number,) in rows["useless"]),
        tuple(digest for (digest,) in rows["constant"]),
        tuple(
            (Deferred(name, tuple(map(int, launches.split(",")))), None if key == "-" else key)
            for name, launches, key in rows["deferred"]
        ),
        tuple(int(number) for (number,) in rows["one"]),
    )


class Programs:
    """The programs of one backend, in the folder that the settings in force name.

    Whoever wants to see the passes at work, in a dump or by the verifier, wants them to run: nothing is found then.
    Programs that check what operations make are not kept either: what they call is not in the traced program.
    """

    def __init__(self, backend: ObjectBackend) -> None:
        self._backend = backend
        self._settings = settings = config.current()
        self._store: CacheFolder | None = (
            None if settings.verify_ir or settings.dump or settings.checks_values else current_store()
        )

    def key(self, identity: Callable[[], str | None]) -> str | None:
        """The name of the entry for what ``identity()`` stands for; None where it is None, or nothing is kept."""
        version = None if self._store is None else code_version()
        what = None if version is None else identity()
        if version is None or what is None:
            return None
        settings, toolchain = repr(self._settings.key()), self._backend.toolchain
        made_of = (what, repr(self._backend.target), settings, toolchain, version, np.__version__, sys.version)
        digest = sha256("\0".join(made_of).encode()).hexdigest()
        return f"program_{digest}"

    def find(self, key: str | None) -> tuple[Found, list[Built]] | None:
        """A program with all of its objects, or None."""
        data = None if key is None or self._store is None else self._store.read(key)
        if data is None:
            return None
        try:
            found = parse_found(data.decode())
        except ValueError:  # whole, and yet no program: somebody else's idea of the format
            return None
        if any(part.symbols[0].startswith(LIBRARY_SYMBOL) for part in found.parts) and not has_lapack():
            return None  # it was compiled where SciPy was there; without, libraries are called another way
        built = self._backend.find_all([(part.key, part.symbols) for part in found.parts])
        return None if built is None else (found, built)

    def find_deferred(self, found: Found) -> dict[str, Built]:
        """Those of a program's deferred kernels that need not be compiled, by name."""
        made: dict[str, Built] = {}
        for one, key in found.deferred:
            built = None if key is None else self._backend.find_all([(key, (one.name,))])
            if built is not None:
                made[one.name] = built[0]
        return made

    def add_deferred(self, key: str | None, made: Mapping[str, str]) -> None:
        """Note the keys of deferred kernels that were made, by name, beside those that are noted by now.

        Of two processes that do so at once one may overwrite the other's: then a third finds fewer, and compiles.
        """
        data = None if key is None or self._store is None else self._store.read(key)
        if data is None:
            return
        with contextlib.suppress(ValueError):
            found = parse_found(data.decode())
            deferred = tuple([(one, made.get(one.name, known)) for one, known in found.deferred])
            self.keep(key, replace(found, deferred=deferred))

    def keep(self, key: str | None, found: Found) -> None:
        """Keep a program for other processes, unless the sources are no longer those that have made it."""
        if key is not None and self._store is not None and is_unchanged():
            self._store.write(key, found.text().encode())


def build_own(backend: ObjectBackend, name: str, source: Callable[[], Source]) -> Built:
    """The object of a text that depends on dyn's sources alone; ``source()`` writes the text if it has to be."""
    programs = Programs(backend)
    key = programs.key(lambda: f"own {name}")
    known = programs.find(key)
    if known is not None:
        return known[1][0]
    made = source()
    built = backend.build(made)
    programs.keep(key, Found((ObjectFile(backend.key(made), made.symbols),), 0))
    return built


def parts_of(backend: ObjectBackend, sources: Sequence[Source]) -> tuple[ObjectFile, ...]:
    """The objects that sources are compiled to."""
    return tuple(ObjectFile(backend.key(source), source.symbols) for source in sources)
