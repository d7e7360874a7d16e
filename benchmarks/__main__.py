"""``python -m benchmarks NAME``: run a benchmark and print what it found.

``python -m benchmarks report`` draws the charts of docs/performance.md from the record of what the last runs found.

``python -m benchmarks --device cuda`` is ``python -m benchmarks gpu --device cuda``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.charts import draw
from benchmarks.process import WorkerError
from benchmarks.suites import suites


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Times dyn beside other frameworks.")
    commands = parser.add_subparsers(dest="name", required=True, metavar="BENCHMARK")
    known = suites()
    for name, suite in known.items():
        summary = (suite.__doc__ or "").partition("\n")[0]
        command = commands.add_parser(name, help=summary, description=suite.__doc__)
        suite.add_arguments(command)
        command.add_argument("--json", type=Path, metavar="FILE", help="write all measurements into FILE")
        command.add_argument("--markdown", action="store_true", help="print tables for docs/performance/")
    commands.add_parser("report", help="draw the charts of docs/performance.md from the tables of docs/performance/")
    words = sys.argv[1:]
    arguments = parser.parse_args(["gpu", *words] if words[:1] and words[0].startswith("--device") else words)
    if arguments.name == "report":
        draw().show()
        return 0
    try:
        report = known[arguments.name].run(arguments)
    except (WorkerError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if arguments.json is not None:
        arguments.json.write_text(report.json(), encoding="utf-8")
    if arguments.markdown:
        print(report.markdown(), end="")
    else:
        report.show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
