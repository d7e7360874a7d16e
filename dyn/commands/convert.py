"""``python -m dyn convert``: a StableHLO module or an ONNX model as StableHLO, in another form or for other sizes."""

from __future__ import annotations

import argparse
from typing import Any

from dyn.commands.models import Model, contents_of, model_of, read_model, written
from dyn.errors import ArgumentError, ArtifactError
from dyn.late_imports import import_whole


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Writes a StableHLO module, or an ONNX model (.onnx), as text of StableHLO, as MLIR bytecode or as a portable "
        "artifact, which consumers of its version and of later ones read; for static sizes, if asked. It is read by "
        "dyn and written anew."
    )
    parser.add_argument("model", help="the file, or - for standard input")
    parser.add_argument("out", help="the file to write, or - for standard output")
    parser.add_argument("--to", choices=("text", "bytecode", "artifact"), help="the form; else as out's ending says")
    parser.add_argument("--version", help="of an artifact: 1.0.0, or how many weeks old its consumers may be")
    parser.add_argument("--static", default="", metavar="SIZES", help='sizes for dims, such as "b=4,s=128"')
    parser.add_argument("--entry", default="main", metavar="NAME", help="the function to write (main)")
    parser.add_argument("--from-jax-exported", action="store_true", help="the file is a serialised jax.export.Exported")


#: The endings of files by form; .mlir is text.
_ENDINGS = {".mlirbc": "bytecode", ".bc": "bytecode", ".shlo": "artifact", ".stablehlo": "artifact"}


def main(chosen: argparse.Namespace) -> int:
    out: str = chosen.out
    ending = next((form for end, form in _ENDINGS.items() if out.endswith(end)), "text")
    form = chosen.to or ("artifact" if chosen.version is not None else ending)
    version = _version(form, chosen.version)
    model = _exported(chosen.model) if chosen.from_jax_exported else read_model(chosen.model, chosen.entry)
    written(out, _written(model, _sizes(model, chosen.static), form, version))
    return 0


def _version(form: str, text: str | None) -> str | int | None:
    if form != "artifact":
        if text is not None:
            raise ArgumentError(f"--version {text} is a matter of artifacts, not of {form}.",
                                remedy="leave --version out, or write --to artifact.")  # fmt: skip
        return None
    if text is None:
        return 0
    return int(text) if text.isdigit() else text


def _exported(path: str) -> Model:
    """The module of a serialised ``jax.export.Exported``."""
    import_whole("dyn.interop.jax.internals", "dyn.interop.stablehlo.mlir", "dyn.interop.stablehlo.decode")
    from dyn.interop.jax.internals import import_jax
    from dyn.interop.stablehlo import mlir
    from dyn.interop.stablehlo.decode import is_known

    data = contents_of(path)
    jax = import_jax()
    try:
        exported: Any = jax.export.deserialize(bytearray(data))
        module = mlir.parse(exported.mlir_module_serialized, is_known)
    except ArtifactError:
        raise
    except Exception as error:  # flatbuffers, and JAX, raise many kinds
        raise ArtifactError(
            f"{path} is no serialised jax.export.Exported: {str(error).strip() or type(error).__name__}.",
            remedy="write it with exported.serialize(); a StableHLO module needs no --from-jax-exported.",
        ) from None
    return model_of(path, module, "main")


def _sizes(model: Model, text: str) -> dict[str, int]:
    """``b=4,s=128``, for dims of the model."""
    dims = list(dict.fromkeys(axis for axes in model.axes for axis in axes if isinstance(axis, str)))
    found: dict[str, int] = {}
    for part in filter(None, [part.strip() for part in text.split(",")]):
        name, _, size = part.partition("=")
        if not size.strip().isdigit():
            raise ArgumentError(f"--static {text}: {part!r} is no size of a dim.", remedy='write --static "b=4,s=128".')
        if name.strip() not in dims:
            raise ArgumentError(
                f"--static {text}: {model.signature()} has no dim {name.strip()}.",
                remedy=f"its dims are {', '.join(dims) or 'all static'}.",
            )
        found[name.strip()] = int(size)
    return found


def _written(model: Model, sizes: dict[str, int], form: str, version: str | int | None) -> bytes:
    import_whole("dyn.interop.stablehlo.dump")
    from dyn.interop.stablehlo import dump

    traced = model.run.trace(*model.structs(sizes))
    made = (
        dump(traced, version) if form == "artifact" else dump(traced, format="text" if form == "text" else "bytecode")
    )
    return made.encode() if isinstance(made, str) else made
