"""Builds the site of the documentation into ``docs/_build/html``: ``build_site.py [OPTION …]``, Sphinx's options.

Every warning is an error, and every reference leads somewhere. Notebooks run, unless a cache has their results: that
takes minutes, in which a line each 15 seconds says what Sphinx is at. Sphinx's warnings come at the end, without the
messages of the libraries that are imported.

Run as ``python -m scripts.build_site``, by the Python of an environment that ``bootstrap.py docs`` has prepared.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.bootstrap import ROOT, last_line, last_words, run_visibly

SITE = ROOT / "docs" / "_build" / "html"
#: Lines in which Sphinx says at which page or notebook it is; others are of libraries, and of notebooks' kernels.
_PROGRESS = re.compile(r"\w+ \w+\.\.\. \[ *\d+%\]|.*/(?P<notebook>.*): Executing notebook")


def at_which_page(lines: Sequence[str]) -> str:
    """Sphinx's last line about its progress."""
    for line in reversed(lines):
        if found := _PROGRESS.match(line):
            return f": running {found['notebook']}" if found["notebook"] else last_line([line])
    return ""


def build(options: Sequence[str], source: Path, site: Path) -> str:
    """Build a site. The answer is ``""``, or what Sphinx warned of or ended with."""
    with tempfile.TemporaryDirectory() as folder:
        warnings = Path(folder) / "warnings"
        warnings.touch()
        command = [Path(sys.executable), "-m", "sphinx", "-W", "--keep-going", "-n", "-w", warnings, "-b", "html"]
        task = "building the site (ten minutes, when notebooks run)"
        result = run_visibly([*command, source, site, *options], task, at_which_page)
        if result.returncode == 0:
            return ""
        return warnings.read_text(encoding="utf-8").strip() or last_words(result.stdout)


def main(arguments: Sequence[str]) -> int:
    """Build the site and say where it is."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    problem = build(arguments, ROOT / "docs", SITE)
    if problem:
        print(problem, file=sys.stderr)
        return 1
    print(f"open {SITE.relative_to(ROOT)}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
