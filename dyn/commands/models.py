"""Files with StableHLO modules and ONNX models, as the commands read them; and their results on the way out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyn.errors import ArgumentError, ArtifactError, NotYetError
from dyn.late_imports import import_whole

if TYPE_CHECKING:
    from dyn.api import Jitted
    from dyn.dtypes import DType
    from dyn.interop.stablehlo.hlo import HloFunction, HloModule


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
    """A function of a model that was read: what the commands are about."""

    path: str
    #: What the function is called in the file.
    entry: str
    run: Jitted
    #: What its arguments are called, and their dtypes.
    names: tuple[str, ...]
    dtypes: tuple[DType, ...]
    #: For each argument and axis, the number or the name of its size.
    axes: tuple[tuple[int | str, ...], ...]

    def type_text(self, number: int) -> str:
        """``f32[b, 4]``: the type of an argument."""
        return f"{self.dtypes[number].short}[{', '.join(map(str, self.axes[number]))}]"

    def signature(self) -> str:
        """``@main(x: f32[b, 4], w: f32[4, 3])``"""
        params = [f"{name}: {self.type_text(i)}" for i, name in enumerate(self.names)]
        return f"@{self.entry}({', '.join(params)})"

    def structs(self, sizes: Mapping[str, int] | None = None) -> list[Any]:
        """Its arguments as ``ShapeDtypeStruct``s, of these sizes by name, and open ones."""
        import_whole("dyn.specialize.arguments")
        from dyn.specialize.arguments import ShapeDtypeStruct

        known = sizes or {}
        return [
            ShapeDtypeStruct(tuple([known.get(a) if isinstance(a, str) else a for a in axes]), dtype.name)
            for dtype, axes in zip(self.dtypes, self.axes, strict=True)
        ]


@dataclass(frozen=True, eq=False, slots=True)
class StablehloModel(Model):
    """A function of a StableHLO module."""

    module: HloModule
    function: HloFunction


def read_model(path: str, entry: str) -> Model:
    """The function of a file: of an ONNX model where its name ends in ``.onnx``, else of a StableHLO module."""
    return _read_onnx(path, entry) if path.endswith(".onnx") else read_stablehlo(path, entry)


def _read_onnx(path: str, entry: str) -> Model:
    import_whole("dyn.interop.onnx", "dyn.interop.onnx.graphs", "dyn.interop.onnx.load")
    from dyn.interop.onnx.graphs import read
    from dyn.interop.onnx.load import function_of

    if entry != "main":
        raise ArgumentError(f"{path} has no function {entry}: an ONNX model is one.", remedy="leave --entry out.")
    model = read(path)
    run = function_of(model)
    names = tuple(run.parameter_names)
    axes = [
        tuple([f"{name}_{axis}" if size is None else size for axis, size in enumerate(one.axes)])
        for name, one in zip(names, model.inputs, strict=True)
    ]
    return Model(path, model.name or "main", run, names, tuple([one.dtype for one in model.inputs]), tuple(axes))


def read_stablehlo(path: str, entry: str) -> StablehloModel:
    """A module's function. Raises what ``dyn.interop.stablehlo.load`` raises, with the file's name."""
    if path.endswith(".onnx"):
        raise NotYetError(
            f"{path}: an ONNX model, operation by operation.",
            remedy=f"convert it first: python -m dyn convert {path} {path.removesuffix('.onnx')}.mlir",
        )
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


def model_of(path: str, module: HloModule, entry: str) -> StablehloModel:
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
    dtypes = tuple([value.type.dtype for value in function.body.params])
    return StablehloModel(path, function.name, run, names, dtypes, tuple(axes), module, function)
