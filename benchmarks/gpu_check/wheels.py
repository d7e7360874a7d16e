"""Unpacks the wheels of a folder that this Python lacks, into another folder: ``python wheels.py .whl /tmp/site``.

It prints the names. What is there already stays as it is, whatever its version: the machine's own goes before. Neither
pip nor anything else is needed.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import zipfile
from pathlib import Path


def unpack(source: Path, target: Path) -> list[str]:
    """Unpack what is missing; gives the names."""
    done: list[str] = []
    for wheel in sorted(source.glob("*.whl")):
        name = re.sub(r"[-_.]+", "-", wheel.name.split("-")[0]).lower()
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            with zipfile.ZipFile(wheel) as file:
                file.extractall(target)
            done.append(name)
    return done


if __name__ == "__main__":
    print(" ".join(unpack(Path(sys.argv[1]), Path(sys.argv[2]))))
