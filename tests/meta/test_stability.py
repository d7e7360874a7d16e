"""Public names that a version had are there (docs/stability.md). New ones are added to no list here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from dyn import errors

#: The names of 0.1.0. One that goes has warned for a minor version, and is taken off with the change that removes it.
NAMES = (Path(__file__).parent / "public_names_0_1.txt").read_text(encoding="utf-8").split()


def test_public_names_of_0_1_are_exported() -> None:
    assert len(NAMES) == 843
    modules = {name.rpartition(".")[0] for name in NAMES}
    exported = {f"{module}.{name}" for module in modules for name in import_module(module).__all__}
    assert sorted({*NAMES} - exported) == []


def test_public_names_of_0_1_can_be_had() -> None:
    def is_there(path: str) -> bool:
        module, _, name = path.rpartition(".")
        return hasattr(import_module(module), name)

    assert [name for name in NAMES if not is_there(name)] == []


def test_errors_derive_from_what_programs_catch() -> None:
    """Bases from Python and NumPy that ``except`` clauses rest on."""
    bases = {
        "AxisError": IndexError, "DeviceError": RuntimeError, "DomainError": ValueError,
        "InvalidValueError": ValueError, "NotYetError": NotImplementedError, "OutOfRangeError": IndexError,
        "ShapeError": ValueError,
    }  # fmt: skip
    assert {name: base for name, base in bases.items() if not issubclass(getattr(errors, name), base)} == {}
    assert all(issubclass(getattr(errors, name), errors.DynError) for name in errors.__all__)
