"""Builds the distributions of this version and tries them: ``release.py [--wheel] [PYTHON …]``.

The wheel and the sdist are built into ``dist/`` and looked at: metadata, links of the long description, files, sizes,
and that the changelog has a section for the version. Then each is installed in an empty environment of each Python, and
compiles a program there. At the end stands what a person does: nothing here tags, or uploads. ``--wheel`` builds and
tries the wheel alone. Without PYTHONs those of 3.11 to 3.14 on the PATH are taken, and pyenv's.

Run as ``python -m scripts.release``. Only the standard library is used; ``build`` and ``twine`` are installed in an
environment of their own, in a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from email import message_from_string
from pathlib import Path

from scripts.bootstrap import Failure, last_words, run_visibly, runs, say

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
#: The Pythons that the distributions are tried with.
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
#: A distribution of more bytes is refused, and one of more than the goal gets a warning.
MOST_BYTES, GOAL_BYTES = 2_500_000, 2_000_000
#: The pages that say how dyn is installed, and what they say until there is a release on PyPI.
INSTALL_PAGES, NOT_YET = ("README.md", "docs/index.md", "docs/start.md"), "dyn is not on PyPI yet"
#: What is in no distribution.
_STRAY = re.compile(r"(^|/)(__pycache__|tests|docs|\.venv|\.git)(/|$)|\.pyc$")
_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^()\s]*)\)")
#: The program that each installation runs: at two sizes, one of them 0, from one compile.
PROGRAM = """
import sys, numpy as np, dyn, dyn.numpy as dnp
f = dyn.jit(lambda x: dnp.exp(x).sum(axis=-1))
assert f(np.zeros((2, 3), "f4")).tolist() == [3, 3] and f(np.zeros((0, 5), "f4")).shape == (0,)
assert f.cache_info().compiles == 1 and "site-packages" in dyn.__file__, dyn.__file__
print("Python", sys.version.split()[0], "runs dyn", dyn.__version__)
"""


# ---- what the sources say --------------------------------------------------------------------------------------------


def version_of_tree(root: Path) -> str:
    """The version of the sources, which ``pyproject.toml`` and ``dyn/__init__.py`` have to agree on."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    found = re.search(r'^__version__ = "(.*)"$', (root / "dyn" / "__init__.py").read_text(encoding="utf-8"), re.M)
    package = found[1] if found is not None else None
    if package != project:
        raise Failure(f"pyproject.toml says version {project}, and dyn/__init__.py {package}.\n  help: make them one.")
    return project


def faults_of_changelog(text: str, version: str) -> Iterator[str]:
    """What is wrong with the changelog for this version; a development version's section is Unreleased."""
    sections = re.findall(r"^## \[([^]]+)\](.*)$", text, re.MULTILINE)
    names = [name for name, _ in sections]
    if names[:1] != ["Unreleased"]:
        yield "CHANGELOG.md does not begin with a section [Unreleased]"
    if ".dev" in version:
        return
    if version not in names:
        yield f"CHANGELOG.md has no section [{version}]"
        return
    if names[1] != version:
        yield f"CHANGELOG.md has [{names[1]}] above [{version}]"
    rest = dict(sections)[version]
    if re.fullmatch(r" - \d{4}-\d\d-\d\d", rest) is None:
        yield f"CHANGELOG.md: the heading of [{version}] has no date (`## [{version}] - 2026-11-30`)"
    body = re.split(r"^## ", text.split(f"## [{version}]", 1)[1], flags=re.MULTILINE)[0]
    if "\n- " not in body:
        yield f"CHANGELOG.md says nothing in the section [{version}]"


def faults_of_pages(root: Path, version: str) -> Iterator[str]:
    """Pages that an upload of this version would make wrong."""
    if ".dev" not in version:
        for page in INSTALL_PAGES:
            if NOT_YET in (root / page).read_text(encoding="utf-8"):
                yield f"{page} says `{NOT_YET}`, which is wrong when {version} is uploaded"


# ---- what the distributions are --------------------------------------------------------------------------------------


def relative_links(markdown: str) -> list[str]:
    """The targets of links and pictures that lead nowhere on a package index, which has none of the files."""
    targets = _LINK.findall(_CODE.sub("", markdown))
    return [target for target in targets if not re.match(r"https://|mailto:|#", target)]


def long_description(wheel: Path) -> str:
    """What an index shows of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return str(message_from_string(archive.read(path).decode()).get_payload())


def files_of(distribution: Path) -> list[tuple[str, int]]:
    """The files of a wheel or sdist, with the bytes that they take in it (in an sdist: before compression)."""
    if distribution.suffix == ".whl":
        with zipfile.ZipFile(distribution) as archive:
            return [(entry.filename, entry.compress_size) for entry in archive.infolist()]
    with tarfile.open(distribution) as archive:
        return [(entry.name.partition("/")[2], entry.size) for entry in archive.getmembers()]


def largest_parts(files: Iterable[tuple[str, int]]) -> str:
    """The three folders that take the most, for whoever has to make a distribution smaller."""
    sizes: dict[str, int] = {}
    for name, size in files:
        part = "/".join(name.split("/")[:2])
        sizes[part] = sizes.get(part, 0) + size
    most = sorted(sizes.items(), key=lambda part: -part[1])[:3]
    return ", ".join([f"{part} {size:,}" for part, size in most])


def faults_of_distribution(distribution: Path) -> Iterator[str]:
    """What keeps a built file from being uploaded."""
    files = files_of(distribution)
    for name, _ in files:
        if _STRAY.search(name):
            yield f"{distribution.name} has {name}, which is none of the package's"
    size = distribution.stat().st_size
    if size > MOST_BYTES:
        yield f"{distribution.name} has {size:,} bytes, more than {MOST_BYTES:,}: {largest_parts(files)}"
    if distribution.suffix == ".whl":
        for target in relative_links(long_description(distribution)):
            yield f"the long description links to {target}, which a package index does not have"


# ---- building and trying ---------------------------------------------------------------------------------------------


def pythons() -> list[str]:
    """The newest program of each version that is on the PATH or pyenv's, and can make environments."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found: list[str] = []
    for version in VERSIONS:
        own = sorted(pyenv.glob(f"{version}.*/bin/python"), key=lambda path: int(path.parts[-3].split(".")[2]))
        candidates = [f"python{version}", *map(str, reversed(own))]
        check = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != {tuple(map(int, version.split('.')))})"
        usable = [name for name in candidates if runs(name, "-c", check)]
        if usable:
            found.append(shutil.which(usable[0]) or usable[0])
        else:
            say(f"warning: no Python {version} is here, or it cannot make environments; it is not tried.")
    return found


def build(folder: Path, wheel_only: bool) -> list[Path]:
    """Build into ``dist/``, the wheel out of the sdist where there are both; what was there of dyn goes."""
    tools = folder / "tools"
    run([sys.executable, "-m", "venv", str(tools)], "making an environment for build and twine")
    python = str(tools / "bin" / "python")
    run([*pip(python), "build", "twine"], "installing build and twine")
    for old in DIST.glob("dynhlo-*"):
        old.unlink()
    kinds = ["--wheel"] if wheel_only else []
    run([python, "-m", "build", "--outdir", str(DIST), *kinds, str(ROOT)], "building")
    built = sorted(DIST.glob("dynhlo-*"))
    run([python, "-m", "twine", "check", "--strict", *map(str, built)], "checking the metadata")
    return built


def run(command: Sequence[str], task: str) -> None:
    """Run a step; a Failure where it fails."""
    result = run_visibly(command, task)
    if result.returncode != 0:
        raise Failure(f"{task} failed:\n{last_words(result.stdout)}")


def pip(python: str) -> list[str]:
    """The command that installs quietly for a Python."""
    return [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]


def try_out(python: str, distributions: Sequence[Path], folder: Path) -> None:
    """Install each distribution in an empty environment, one after the other, and run a program by it."""
    environment = Path(tempfile.mkdtemp(dir=folder))
    run([python, "-m", "venv", str(environment)], f"making an environment of {python}")
    own = str(environment / "bin" / "python")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables["DYN_CACHE_DIR"] = str(environment / "cache")
    for place, distribution in enumerate(distributions):
        # What dyn needs is there after the first one.
        again = ["--force-reinstall", "--no-deps"] if place else []
        run([*pip(own), *again, str(distribution)], f"installing {distribution.name}")
        done = subprocess.run(
            [own, "-c", PROGRAM], cwd=folder, env=variables, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise Failure(f"{distribution.name} does not run with {python}:\n{done.stderr.rstrip()}")
        say(f"{done.stdout.strip()}, of {distribution.name}")
    shutil.rmtree(environment)


# ---- what a person does then -----------------------------------------------------------------------------------------


def next_steps(version: str, names: Sequence[str]) -> str:
    """What is left to do by hand."""
    if ".dev" in version:
        final = version.partition(".dev")[0]
        return (
            f"{version} is a version in development, which nobody uploads. To release {final}:\n"
            f'  1. set version = "{final}" in pyproject.toml and dyn/__init__.py;\n'
            f"  2. call the changelog's section [Unreleased] `[{final}] - ` and the day, under an empty [Unreleased];\n"
            "  3. commit, and run `make release` and `make test` again."
        )
    major, minor, _ = version.split(".")
    return (
        f"What is left is done by hand:\n"
        f"  1. git tag --annotate v{version} --message 'dyn {version}' && git push origin v{version}\n"
        f"  2. twine upload {' '.join(f'dist/{name}' for name in names)}\n"
        f"     (who uploads first has the name dynhlo; nobody had it on 2026-11-30)\n"
        f"  3. set the version to {major}.{int(minor) + 1}.0.dev0 in pyproject.toml and dyn/__init__.py, and commit."
    )


def release(wheel_only: bool, given: Sequence[str]) -> None:
    """Build, check and try; a Failure names everything that is wrong with what was built."""
    version = version_of_tree(ROOT)
    faults = list(faults_of_changelog((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version))
    faults += faults_of_pages(ROOT, version)
    if faults and not wheel_only:
        raise Failure("\n".join(faults))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = build(folder, wheel_only)
        faults = [fault for distribution in built for fault in faults_of_distribution(distribution)]
        if faults:
            raise Failure("\n".join(faults))
        for distribution in built:
            size = distribution.stat().st_size
            say(f"dist/{distribution.name}: {size:,} bytes")
            if size > GOAL_BYTES:
                parts = largest_parts(files_of(distribution))
                say(f"warning: that is more than the goal of {GOAL_BYTES:,}; most take {parts}")
        wheel_first = sorted(built, key=lambda path: path.suffix != ".whl")
        programs = list(given) or pythons()
        if not programs:
            raise Failure(f"no Python of {', '.join(VERSIONS)} is here to try the distributions with.")
        for python in programs:
            try_out(python, wheel_first, folder)
    if not wheel_only:
        print(next_steps(version, [path.name for path in built]))


def main(arguments: Sequence[str]) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="release.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheel", action="store_true", help="the wheel alone")
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", help="programs to try it with")
    options = parser.parse_args(arguments)
    try:
        release(options.wheel, options.pythons)
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
