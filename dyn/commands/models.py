"""Files with StableHLO modules, as the commands read them; and their results on the way out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dyn.errors import ArgumentError, ArtifactError
from dyn.late_imports import import_whole

if TYPE_CHECKING:
    from dyn.api import Jitted
    from dyn.interop.stablehlo.hlo import HloFunction, HloModule, HloType


def contents_of(path: str) -> bytes:
    """The bytes of a file; of standard input for ``-``. ArgumentError for what cannot be read, or is empty."""
    if path == "-":
        data = sys.stdin.buffer.read()
    else:
        try:
            data = Path(path).read_bytes()
        except FileNotFoundError:
            raise ArgumentError(f"there is no file {path}.", remedy="check the path; - is standard input.") from None
        except IsADirectoryError:
            raise ArgumentError(f"{path} is a directory.", remedy="name a file in it.") from None
        except OSError as error:
            raise ArgumentError(f"{path} cannot be read: {error.strerror or error}.") from None
    if not data.strip():
        raise ArtifactError(
            f"{path} is empty.", remedy="a StableHLO module is text, MLIR bytecode or a portable artifact."
        )
    return data


def written(path: str, data: bytes) -> None:
    """Write a file; standard output for ``-``. ArgumentError where that cannot be done."""
    if path == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        Path(path).write_bytes(data)
    except FileNotFoundError:
        raise ArgumentError(f"{path} cannot be written: there is no such directory.", remedy="make it first.") from None
    except OSError as error:
        raise ArgumentError(f"{path} cannot be written: {error.strerror or error}.") from None


@dataclass(frozen=True, eq=False, slots=True)
class Model:
    """A function of a module that was read: what the commands are about."""

    path: str
    module: HloModule
    function: HloFunction
    run: Jitted
    #: What its arguments are called.
    names: tuple[str, ...]
    #: For each argument and axis, the number or the name of its size.
    axes: tuple[tuple[int | str, ...], ...]

    @property
    def types(self) -> tuple[HloType, ...]:
        return tuple([value.type for value in self.function.body.params])

    def type_text(self, number: int) -> str:
        """``f32[b, 4]``: the type of an argument."""
        return f"{self.types[number].dtype.short}[{', '.join(map(str, self.axes[number]))}]"

    def signature(self) -> str:
        """``@main(x: f32[b, 4], w: f32[4, 3])``"""
        params = [f"{name}: {self.type_text(i)}" for i, name in enumerate(self.names)]
        return f"@{self.function.name}({', '.join(params)})"


def read_model(path: str, entry: str) -> Model:
    """A module's function. Raises what ``dyn.interop.stablehlo.load`` raises, with the file's name."""
    import_whole("dyn.interop.stablehlo.mlir", "dyn.interop.stablehlo.decode")
    from dyn.interop.stablehlo import mlir
    from dyn.interop.stablehlo.decode import is_known

    data = contents_of(path)
    try:
        module = mlir.parse(data, is_known, file=path)
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error.problem}", remedy=error.remedy) from None
    except UnicodeDecodeError:
        raise ArtifactError(f"{path}: this is no StableHLO module: it is neither text nor bytecode.") from None
    return model_of(path, module, entry)


def model_of(path: str, module: HloModule, entry: str) -> Model:
    """A function of a module that was read."""
    import_whole("dyn.interop.stablehlo.load")
    from dyn.interop.stablehlo.load import dim_names, function_of

    if entry not in module.functions:
        has = ", ".join(module.functions) or "none"
        raise ArgumentError(f"{path} has no function {entry}; it has {has}.", remedy="name one of them: --entry NAME.")
    function = module.functions[entry]
    run = function_of(module, entry)
    names = tuple(run.parameter_names)
    known = dim_names(function)
    axes: list[tuple[int | str, ...]] = []
    for number, (name, value) in enumerate(zip(names, function.body.params, strict=True)):
        axes.append(tuple([
            size if isinstance(size, int) else known.get((number, axis), f"{name}_{axis}")
            for axis, size in enumerate(value.shape)
        ]))  # fmt: skip
    return Model(path, module, function, run, names, tuple(axes))
