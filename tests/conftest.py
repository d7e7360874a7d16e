"""Fixtures of all tests: golden files, toolchains that may be missing, hypothesis profiles."""

from __future__ import annotations

import atexit
import difflib
import gc
import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import NoReturn

# In tests the verifier runs after every pass. Read when dyn is first imported, so this comes before any test module.
os.environ.setdefault("DYN_VERIFY", "1")
# Most tests are about what programs compute. tests/models holds optimized code to be the same to the last bit.
os.environ.setdefault("DYN_OPTIMIZE", "0")
# And they compile all variants with the first call, so that it is known which one runs.
os.environ.setdefault("DYN_VARIANTS", "all")
# Compiled code is kept for this run alone, in a folder that xdist's workers share: they inherit its name.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["DYN_CACHE_DIR"] = tempfile.mkdtemp(prefix="dyn-tests-")
    atexit.register(shutil.rmtree, os.environ["DYN_CACHE_DIR"], ignore_errors=True)

# Some processors have arithmetic of float16, and XLA fuses its products and sums there: JAX's random numbers in float16
# are others then than on all other machines. XLA is to compute as on those.
if Path("/proc/cpuinfo").exists() and "avx512_fp16" in Path("/proc/cpuinfo").read_text():
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa=AVX2".strip()

import hypothesis
import pytest

from tests.rarely import leave_out

# ---- hypothesis ------------------------------------------------------------------------------------------------------

# No deadline, and no limit of the time to draw: a first example often pays for a compile, and machines differ.
# Tests draw the same examples each time; ``make random`` looks for news.
_ANY_TIME = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile(
    "same", deadline=None, suppress_health_check=_ANY_TIME, max_examples=50, derandomize=True
)
hypothesis.settings.register_profile("thorough", deadline=None, suppress_health_check=_ANY_TIME, max_examples=2000)
hypothesis.settings.load_profile("same")


# ---- toolchains that may be missing ----------------------------------------------------------------------------------

REMEDIES = {
    "benchmarks": "pip install -e '.[bench]'",  # a peer, which needs its framework
    "g++": "apt-get install g++",
    "hipcc": "apt-get install --no-install-recommends hipcc",
    "cuda": "pip install -e '.[cuda]'",
    "jax": "pip install -e '.[jax]'",
    "jaxlib": "pip install -e '.[jax]'",
    "torch": "pip install -e '.[torch]'",
    "tensorflow": "pip install -e '.[tensorflow]'",
    "ipykernel": "pip install -e '.[notebook]'",
    "matplotlib": "pip install -e '.[notebook]'",
    "nbclient": "pip install -e '.[notebook]'",
    "nbformat": "pip install -e '.[notebook]'",
}


def _missing(what: str, remedy: str) -> NoReturn:
    """Skip the running test, or fail it where everything has to be there, as in ``make test``."""
    reason = f"{what} is missing; {remedy}"
    if os.environ.get("DYN_REQUIRE_TOOLCHAINS", "0") not in ("", "0"):
        pytest.fail(f"{reason}. (DYN_REQUIRE_TOOLCHAINS=0 skips this test instead.)", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def require_tool() -> Callable[..., str]:
    """``require_tool("hipcc")``: the path of a program, the first found of several names for the same thing."""

    def require(*names: str) -> str:
        for name in names:
            path = shutil.which(name)
            if path is not None:
                return path
        _missing(" or ".join(names), REMEDIES.get(names[0], "install it and put it on the PATH"))

    return require


@pytest.fixture(scope="session")
def require_module() -> Callable[[str], ModuleType]:
    """``require_module("cuda.bindings.nvrtc")``: the imported module."""

    def require(name: str) -> ModuleType:
        known = name in sys.modules
        try:
            module = importlib.import_module(name)
        except ImportError:
            root = name.partition(".")[0]
            _missing(f"the Python module {name}", REMEDIES.get(root, f"pip install {root}"))
        if not known:
            _collect_no_more()
        return module

    return require


@pytest.fixture(scope="module")
def quick_xla(require_module: Callable[[str], ModuleType]) -> Iterator[None]:
    """JAX compiles quickly rather than to quick code: for modules that compare results within a tolerance.

    XLA takes up to twice as long otherwise, most of what such a module takes. Products and sums are not fused then, and
    so a few results differ in their last bit.
    """
    jax = require_module("jax")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()  # or other modules would run what was compiled here


# ---- garbage collection ----------------------------------------------------------------------------------------------


def _collect_no_more() -> None:
    """Leave what is there out of garbage collections, now that none of it is garbage.

    A process of tests comes to have a million objects of PyTorch, JAX and compiled programs. To go through them all
    takes half a second, and some tests make a hundred collections, in the middle of what they test. Garbage that tests
    make is still found; what others had made, and becomes garbage later, is not.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def collect_no_more() -> Callable[[], None]:
    """``collect_no_more()``: collections from here on go through what is made from here on, and no more."""
    return _collect_no_more


#: Objects that are made before the youngest are collected: ten times Python's number. Collections still come in the
#: middle of anything, and take 2% of the time instead of 10%.
_YOUNG = 7000


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        _collect_no_more()
        gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def a_module_collects_its_own_garbage() -> Iterator[None]:
    yield
    _collect_no_more()


# ---- golden files ----------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption("--device", default="", help="run what needs a GPU, and nothing else, on this one: cuda, rocm:1")


def pytest_configure(config: pytest.Config) -> None:
    device = config.getoption("--device")
    if device:
        from dyn.backends.families import placement_of
        from dyn.errors import DynError

        try:
            placement_of(device)
        except DynError as error:
            raise pytest.UsageError(f"there is nothing to test on {device}: {error}") from None


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what ``make test`` leaves out; with ``--device`` leave the tests that run programs on a GPU."""
    leave_out(items)
    if config.getoption("--device"):
        left = [item for item in items if {"device", "cuda"} & set(getattr(item, "fixturenames", ()))]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(left)])
        items[:] = left


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden("softmax.txt", text)``: the text is that of ``golden/softmax.txt`` beside the test's file.

    A final newline more or less does not count.
    """
    folder = request.path.parent / "golden"
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path = folder / name
        text = text.rstrip("\n") + "\n"
        expected = path.read_text(encoding="utf-8") if path.exists() else None
        if text == expected:
            return
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        shown = _relative(path, request.config.rootpath)
        problem = f"There is no {shown} yet." if expected is None else f"The text is not that of {shown}."
        old = [] if expected is None else expected.splitlines()
        diff = "\n".join(difflib.unified_diff(old, text.splitlines(), f"{shown}", "this run", lineterm=""))
        help_ = f"if the new text is right: pytest --update-golden '{request.node.nodeid}', and review the diff"
        pytest.fail(f"{problem}\n\n{diff}\n\n  help: {help_}", pytrace=False)

    return compare


def _relative(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
