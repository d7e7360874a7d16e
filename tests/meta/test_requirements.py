"""The table of packages is that of pyproject.toml, and no text tells people to install what is not ours."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import dyn
from dyn.requirements import DISTRIBUTION, EXTRAS, REQUIRED, install_extra, install_required
from scripts.release import INSTALL_PAGES, NOT_YET

ROOT = Path(dyn.__file__).parents[1]
#: ``pip install dyn``, ``pip install -U "dynhlo[jax]"``: the first is somebody else's, the second nobody's before a
#: release is uploaded. So remedies name the packages that are missing, and only pages that say so name the second.
_SQUATTED = re.compile(rf"""pip3?\s+install\s+(?:-\S+\s+)*["'`]?(?:dyn|{DISTRIBUTION})(?![\w./-])|["'`]dyn\[""")
_SUFFIXES = {".py", ".md", ".ipynb", ".sh", ".toml", ".yml", ".yaml", ".html", ".txt", ""}
_FOLDERS = ("dyn", "docs", "notebooks", "examples", "scripts", "tests", "benchmarks", ".github")


def test_pyproject_has_the_same_table() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == DISTRIBUTION
    assert tuple(project["dependencies"]) == REQUIRED
    assert {name: tuple(project["optional-dependencies"][name]) for name in EXTRAS} == EXTRAS


def test_commands_name_the_packages_themselves() -> None:
    assert install_extra("jax") == "pip install 'jax>=0.9.2,<0.11'"
    assert install_extra("cuda") == (
        "pip install cuda-python==13.4.4 nvidia-cuda-crt==13.0.88 nvidia-cuda-nvrtc==13.0.88 "
        "nvidia-cuda-runtime==13.0.96"
    )
    assert install_extra("linalg") == "pip install 'scipy>=1.13'"
    assert install_required("llvmlite") == "pip install 'llvmlite>=0.50,<0.51'"


def test_what_the_tests_have_is_in_the_ranges_of_the_extras() -> None:
    """And so is what else ``make test-versions`` runs, which no extra may leave out."""
    taken = {one.name: one.specifier for extra in EXTRAS.values() for one in map(Requirement, extra)}
    lines = (ROOT / "scripts" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    here = [line for line in lines if not line.startswith("#")]
    others = re.search(r"^KNOWN = \((.*)\)$", (ROOT / "scripts" / "versions.py").read_text(encoding="utf-8"), re.M)
    assert others is not None
    for text in [*here, *re.findall(r'"([\w-]+==[\d.]+)', others[1])]:
        name, _, version = text.partition("==")
        assert taken[name].contains(version), text


def test_no_text_installs_somebody_elses_package() -> None:
    paths = [path for path in ROOT.iterdir() if path.is_file() and not path.name.startswith(".")]
    for folder in _FOLDERS:
        paths += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    found: list[str] = []
    for path in paths:
        if path.suffix in _SUFFIXES and "_build" not in path.parts and path != Path(__file__):
            text = path.read_text(encoding="utf-8", errors="replace")
            name = str(path.relative_to(ROOT))
            if name in INSTALL_PAGES:
                text = text.replace(f"pip install {DISTRIBUTION} ", "")
            found += [f"{name}: {match[0]}" for match in _SQUATTED.finditer(text)]
    assert found == []


def test_pages_agree_whether_a_release_is_uploaded() -> None:
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in INSTALL_PAGES}
    assert all(f"pip install {DISTRIBUTION} " in text for text in texts.values())
    assert len({NOT_YET in text for text in texts.values()}) == 1


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("pip install dyn", True),
        ("pip install -U dyn", True),
        ("pip install 'dyn[cuda]'", True),
        ('it needs "dyn[jax]"', True),
        ("pip install dynhlo", True),
        ("pip install -e '.[cuda]'", False),
        ("pip install dynamo", False),
        ("pip install 'torch>=2.13,<2.16'", False),
        ("`dyn.jit`", False),
    ],
)
def test_what_is_looked_for(text: str, wrong: bool) -> None:
    assert (_SQUATTED.search(text) is not None) == wrong
