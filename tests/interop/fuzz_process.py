"""Reading and tracing modules in processes with limits: a crash, a hang, or too much memory ends that process alone."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dyn.errors import DynError, IRError

#: CPU seconds and bytes for one module, beside what the process has already.
SECONDS = 20
MEMORY = 2 << 30
Source = str | bytes


@dataclass(frozen=True)
class Outcome:
    """The outcome of a module: ``kind`` is ``traced``, the name of an error of dyn's, or else a finding."""

    kind: str
    said: str = ""

    @property
    def finding(self) -> bool:
        """Tell whether it is none of what may become of a module. An IRError is a bug in dyn."""
        return self.kind not in _FINE


def _errors(error: type[DynError]) -> Iterator[str]:
    yield error.__name__
    for kind in error.__subclasses__():
        yield from _errors(kind)


#: What ends the guard's process, and no other.
GUARDED = "guard ended"
_FINE = {"traced", GUARDED, *_errors(DynError)} - {IRError.__name__}


def examined(sources: Sequence[Source]) -> list[Outcome]:
    """The outcome of each module."""
    return list(outcomes(sources))


def read(source: Source) -> Outcome:
    """Load a module, which the guard's process reads first, and trace its main with arguments as it declares them."""
    from dyn.interop.stablehlo import mlir
    from dyn.interop.stablehlo.decode import is_known
    from dyn.interop.stablehlo.load import function_of
    from dyn.trace.function import LeafSpec, trace_function

    try:
        module = mlir.parse(source, is_known)
        loaded: Any = function_of(module)
        params = module.functions["main"].body.params
        axes = [tuple([d if isinstance(d, int) else None for d in p.shape]) for p in params]
        leaves = [LeafSpec(f"x{i}", p.dtype, a) for i, (p, a) in enumerate(zip(params, axes, strict=True))]
        trace_function(lambda tracers: loaded(*tracers), "fuzzed", leaves)
    except DynError as error:
        return Outcome(GUARDED if "MLIR's reader" in error.problem else type(error).__name__, str(error)[:400])
    except BaseException as error:
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        line = f"{os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno}" if place is not None else ""
        return Outcome(type(error).__name__, f"{line}: {str(error)[:300]}")
    return Outcome("traced")


def outcomes(sources: Sequence[Source]) -> Iterator[Outcome]:
    """The outcome of each module, in order; the process of one that ends it is replaced."""
    done = 0
    while done < len(sources):
        for outcome in _batch(sources[done:]):
            done += 1
            yield outcome


def _batch(sources: Sequence[Source]) -> Iterator[Outcome]:
    """Outcomes up to the first module that ends its process, whose outcome is the last one."""
    into, out = os.pipe()
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.close(into)
            os.dup2(said.fileno(), 2)
            _examine_all(sources, out)
        os.close(out)
        count = 0
        with os.fdopen(into, "rb") as pipe, contextlib.suppress(EOFError, pickle.UnpicklingError):
            while count < len(sources):
                yield pickle.load(pipe)
                count += 1
        _, status = os.waitpid(child, 0)
        if count < len(sources):
            said.seek(0)
            text = said.read().decode(errors="replace")
            yield Outcome(_ending(status), text[:200] + " … " + text[-600:] if len(text) > 800 else text)


def _ending(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return f"exit {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    return "hang" if number == signal.SIGPROF else signal.Signals(number).name


def _examine_all(sources: Sequence[Source], out: int) -> None:
    """In the child: one outcome after the other into the pipe."""
    try:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with os.fdopen(out, "wb") as pipe:
            for source in sources:
                signal.setitimer(signal.ITIMER_PROF, SECONDS)
                pickle.dump(read(source), pipe)
                pipe.flush()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(70)
    os._exit(0)
