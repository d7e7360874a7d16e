"""A process that runs some checks of a part: ``python -m benchmarks.gpu_check.worker PART --log FILE --checks JSON``.

It ends at a check that leaves the device unusable, or that takes too long; whoever started it goes on with the others.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import sys
from pathlib import Path

#: What a process answers that has ended at a check, and left others.
ENDED_EARLY = 75


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("part")
    parser.add_argument("--device", required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--checks", type=json.loads, required=True)
    parser.add_argument("--peers", default="")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0, help="that a check may take")
    arguments = parser.parse_args()
    faulthandler.enable()
    faulthandler.dump_traceback_later(arguments.seconds, exit=True)  # importing may take too long as well
    from benchmarks.gpu_check.checks import Options
    from benchmarks.gpu_check.outcomes import Log, run_check
    from benchmarks.gpu_check.parts import parts

    peers = tuple([name for name in arguments.peers.split(",") if name])
    options, log = Options(arguments.device, peers, arguments.small), Log(arguments.log)
    known = {check.name: check for check in parts()[arguments.part].checks}
    for name in arguments.checks:
        faulthandler.dump_traceback_later(arguments.seconds, exit=True)
        log.begin(name)
        outcome, goes_on = run_check(known[name], options)
        log.end(outcome)
        if not goes_on:
            return ENDED_EARLY
    faulthandler.cancel_dump_traceback_later()
    return 0


if __name__ == "__main__":
    sys.exit(main())
