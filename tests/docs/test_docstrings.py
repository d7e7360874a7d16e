"""Public docstrings say what each parameter is, what comes back and what is raised, and their examples run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType

import pytest

from tests.docs.public_names import PublicName, failed_examples, faults, public_names, sections_of

#: Modules all of whose public names are documented, with what has to be installed for them.
NAMESPACES: dict[str, tuple[str, ...]] = {
    "dyn": (),
    "dyn.numpy": (),
    "dyn.numpy.linalg": (),
    "dyn.numpy.fft": (),
    "dyn.numpy.special": (),
    "dyn.lax": (),
    "dyn.lax.linalg": (),
    "dyn.nn": (),
    "dyn.random": (),
    "dyn.tree": (),
    "dyn.debug": (),
    "dyn.checkpoint_policies": (),
    "dyn.errors": (),
    "dyn.config": (),
    "dyn.hosts": (),
    "dyn.interop.stablehlo": ("jax",),
    "dyn.interop.jax": ("jax",),
    "dyn.interop.torch": ("torch",),
}


#: Classes that modules do not export, and whose objects users have in hand: what calls give, and traced functions get.
GIVEN: dict[str, tuple[str, ...]] = {
    "dyn.trace.tracer": ("Tracer",),
    "dyn.trace.dims": ("SymbolicDim",),
    "dyn.numpy._indexing.at": ("At", "AtIndex"),
    "dyn.explain.cost_analysis": ("CostAnalysis", "KernelCost"),
    "dyn.profiling.session": ("Profile",),
    "dyn.profiling.averages": ("Average", "Averages"),
    "dyn.profiling.events": ("CallEvent", "CompileStage", "Events", "KernelInfo", "LaunchEvent", "PieceEvent"),
}


def _names(namespace: str, require_module: Callable[[str], ModuleType]) -> Iterator[PublicName]:
    for needed in NAMESPACES.get(namespace, ()):
        require_module(needed)
    yield from public_names(import_module(namespace), GIVEN.get(namespace))


@pytest.mark.parametrize("namespace", [*NAMESPACES, *GIVEN])
def test_docstrings_are_whole(namespace: str, require_module: Callable[[str], ModuleType]) -> None:
    found = {name.path: faults(name) for name in _names(namespace, require_module)}
    assert found, f"{namespace} exports nothing"
    wrong = [f"{path}: {fault}" for path, each in found.items() for fault in each]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("namespace", [*NAMESPACES, *GIVEN])
def test_examples_run_and_give_what_is_shown(namespace: str, require_module: Callable[[str], ModuleType]) -> None:
    failed = failed_examples(_names(namespace, require_module))
    assert not failed, failed


def _function(x: int, *more: int) -> int:
    """Add numbers.

    Args:
        x: the first.
        *more: the others.

    Returns:
        The sum.

    Raises:
        ValueError: never.
    """
    return x + sum(more)


def _undocumented(x: int, y: int) -> int:
    """What it is

    Args:
        x: the first,
            which is explained.

    Raises:
        NoSuchError: always.
    """
    return x + y


def test_faults_are_found() -> None:
    assert faults(PublicName("f", _function)) == []
    assert faults(PublicName("g", _undocumented)) == [
        "the first line is no sentence: 'What it is'",
        "the first line does not say what the thing is: 'What it is'",
        "Raises names NoSuchError, which is no error",
        "Args has ['x'], the signature ['x', 'y']",
        "no Returns",
    ]
    assert sections_of(PublicName("f", _function).doc)["Args"] == ["x", "*more"]
