"""``python -m benchmarks.gpu_check``: find out in minutes what dyn does on a GPU of this machine.

Without names all parts run, in their order; ``programs`` is one, ``programs/softmax`` a check of it. What failed in an
earlier run, whose report is in the folder of the results or is named by --previous, runs first.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.gpu_check import versions

_DESCRIPTION = (__doc__ or "").partition("\n\n")[2]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/gpu-check.sh", description=_DESCRIPTION)
    parser.add_argument("names", nargs="*", metavar="PART", help="parts, or checks of parts (default: all)")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, rocm, … (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="folder for the results (default: $OUT, or out/gpu-check)")
    parser.add_argument("--previous", type=Path, help="report of an earlier run (default: that in the folder)")
    parser.add_argument("--minutes", type=float, default=5.0, help="that all may take (default: %(default)s)")
    parser.add_argument("--patience", type=float, default=1.0, help="times the parts' own limits, on a slow machine")
    parser.add_argument("--peers", default="torch,torchcompile", help="beside dyn in streams (default: %(default)s)")
    parser.add_argument("--small", action="store_true", help="figures of tiny sizes, which mean nothing: a rehearsal")
    parser.add_argument("--list", action="store_true", help="print the parts and their checks, and end")
    arguments = parser.parse_args(words)
    told = [one.describe() for one in versions.requirements()]
    print(f"{versions.describe_python()}\n  " + "\n  ".join(told), flush=True)
    if lacking := versions.missing():
        names = ", ".join(one.name for one in lacking)
        print(f"error: dyn cannot be imported without {names}: `make gpu-wheels` puts wheels of these into .whl/",
              file=sys.stderr)  # fmt: skip
        return 2
    return _run(arguments, told)


def _run(arguments: argparse.Namespace, told: list[str]) -> int:
    from benchmarks.gpu_check.checks import Options
    from benchmarks.gpu_check.page import Run, read_failures
    from benchmarks.gpu_check.parts import parse_names, parts
    from benchmarks.gpu_check.supervisor import run_part

    try:
        chosen = parse_names(arguments.names)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    known = parts()
    if arguments.list:
        for name, checks in chosen.items():
            print(f"{name}: {known[name].title}\n  " + "; ".join(checks))
        return 0
    folder = arguments.out or Path(os.environ.get("OUT") or "out/gpu-check")
    before = read_failures(arguments.previous or folder / "gpu-check.json")
    first = [name for name in chosen if before.get(name)]
    run = Run(arguments.device, versions.describe_python(), told)
    options = Options(arguments.device, tuple(filter(None, arguments.peers.split(","))), arguments.small)
    end = time.monotonic() + 60 * arguments.minutes
    for name in [*first, *[name for name in chosen if name not in first]]:
        failed = [check for check in before.get(name, ()) if check in chosen[name]]
        checks = [*failed, *[check for check in chosen[name] if check not in failed]]
        start = time.monotonic()
        part = replace(known[name], seconds=arguments.patience * known[name].seconds)
        run.outcomes[name] = run_part(part, checks, options, max(min(part.seconds, end - start), 0.0))
        run.seconds[name] = time.monotonic() - start
        run.write(folder, known)
        print(_line(run, name), flush=True)
        if name == "device" and all(one.state == "failed" for one in run.outcomes[name]):
            print(f"error: nothing runs on {arguments.device}:\n{run.outcomes[name][0].message}", file=sys.stderr)
            return 1
    print(f"written to {folder / 'gpu-check.md'} and gpu-check.json")
    if run.failed:
        print("failed, or not run: " + ", ".join(run.failed))
    return 1 if run.failed else 0


def _line(run: object, name: str) -> str:
    from benchmarks.gpu_check.page import Run

    assert isinstance(run, Run)
    counts = ", ".join([f"{count} {state}" for state, count in run.counts(name).items() if count])
    return f"{name}: {counts}; {run.seconds[name]:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
