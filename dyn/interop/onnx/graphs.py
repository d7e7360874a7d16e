"""ONNX models as plain data: graphs of nodes in an order to run, and the arrays that they hold.

ONNX's own package reads the file and checks it. Arrays that lie in files beside the model are mapped, not read.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.defs
import onnx.helper
import onnx.numpy_helper
import onnx.version_converter

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import ArgumentError, ArtifactError, NotYetError, UnsupportedOpError
from dyn.interop.sizes.values import MOST_LITERAL
from dyn.ir.core import Dense
from dyn.lazy_property import lazy_property
from dyn.source import Loc

#: What onnx says of its own types is not complete.
_proto: Any = onnx
_helper: Any = onnx.helper
_defs: Any = onnx.defs
Array = np.ndarray[Any, Any]

#: Where a model lies, and where it really lies: files beside it may be links, as in caches of downloads.
Folders = tuple[Path, ...]

#: The first version of ONNX's operations whose nodes are read as they are; older models are converted by ONNX.
OLDEST = 13
#: What those are converted to.
_CONVERTED = 18


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """An operation: the names of what it takes, ``""`` for what is left out, and of what it gives."""

    name: str
    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    overload: str
    proto: Any
    folders: Folders

    @lazy_property
    def attributes(self) -> Mapping[str, Any]:
        """Numbers, texts, arrays, graphs, and lists of these, by name; :class:`Reference` within a function."""
        return {one.name: value_of(one, self.folders) for one in self.proto.attribute}

    @lazy_property
    def loc(self) -> Loc:
        """Its place: the module whose operation it is, where the producer says so, or its name."""
        said = {one.key: one.value for one in self.proto.metadata_props}
        scopes = re.findall(r"'([^']*)'", said.get("pkg.torch.onnx.name_scopes", ""))
        path = next((one for one in reversed(scopes[:-1]) if one), "")
        return Loc(f"{path} ({self.op})" if path else self.name or self.op)

    @property
    def title(self) -> str:
        """The operation, with its domain where that is not ONNX's own."""
        return f"{self.domain}.{self.op}" if self.domain else self.op


@dataclass(frozen=True, slots=True)
class Reference:
    """An attribute of a function's node that is the attribute ``name`` of whoever calls the function."""

    name: str


@dataclass(frozen=True, slots=True)
class TensorInput:
    """A tensor that a graph is given: its axes have sizes, names of sizes, or are open (None)."""

    name: str
    dtype: DType
    axes: tuple[int | str | None, ...]


@dataclass(frozen=True, eq=False)
class OnnxGraph:
    """A graph: ``arguments`` and outputs by name, and the arrays that it holds."""

    arguments: tuple[str, ...]
    nodes: tuple[OnnxNode, ...]
    outputs: tuple[str, ...]
    arrays: Mapping[str, Array | Dense]


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A model that was read: its graph, what it is given, its functions and its versions."""

    name: str
    graph: OnnxGraph
    inputs: tuple[TensorInput, ...]
    functions: Mapping[tuple[str, str, str], OnnxFunction]
    versions: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class OnnxFunction:
    """A function of a model's, or of ONNX's own: nodes with attributes that callers say, or that have a value here."""

    graph: OnnxGraph
    defaults: Mapping[str, Any]


def read(source: Any) -> OnnxModel:
    """A model from a file, its bytes, or as the ``onnx`` package has it.

    Raises ArtifactError for what is no model, and NotYetError for operations of a version that ONNX here has not.
    """
    folders: Folders = ()
    if isinstance(source, _proto.ModelProto):
        proto = _proto.ModelProto()
        proto.CopyFrom(source)  # which may be changed before the first call
    elif isinstance(source, bytes | bytearray | memoryview):
        proto = _parsed(bytes(source), "these bytes")
    elif isinstance(source, str | os.PathLike):
        path = Path(source)
        try:
            proto = _parsed(path.read_bytes(), os.fspath(path))
        except FileNotFoundError:
            raise ArtifactError(f"there is no file {path}.", remedy="check the path.") from None
        except OSError as error:
            raise ArgumentError(f"{path} cannot be read: {error.strerror or error}.") from None
        folders = path.parent.resolve(), path.resolve().parent
    else:
        raise ArgumentError(f"load takes a path, bytes or an onnx.ModelProto, not a {type(source).__name__}.")
    try:
        return _of_model(_checked(proto), folders)
    except UnicodeError as error:
        raise ArtifactError(f"this ONNX model is not sound: a text in it is no UTF-8 ({error}).") from None


def _parsed(contents: bytes, what: str) -> Any:
    proto = _proto.ModelProto()
    try:
        proto.ParseFromString(contents)
    except Exception as error:  # protobuf's DecodeError, which is of its implementation
        raise ArtifactError(f"{what}: this is no ONNX model ({error}).") from None
    if not proto.ir_version:
        raise ArtifactError(f"{what}: this is no ONNX model: it does not say its version.")
    return proto


def _checked(proto: Any) -> Any:
    """The model, by a version of the operations that converters are for."""
    own = next((one.version for one in proto.opset_import if one.domain in ("", "ai.onnx")), None)
    newest = _defs.onnx_opset_version()
    if own is not None and own > newest:
        raise NotYetError(
            f"an ONNX model by version {own} of the operations: onnx {_proto.__version__} has them up to {newest}.",
            remedy="install a later onnx, or export with a smaller opset_version.",
        )
    try:
        onnx.checker.check_model(_without_elements(proto))
    except onnx.checker.ValidationError as error:
        text = str(error).strip().splitlines()
        raise ArtifactError(f"this ONNX model is not sound: {text[0].rstrip('.') if text else error}.") from None
    if own is not None and own < OLDEST:
        if any(node.op_type == "Hardmax" for node in proto.graph.node):
            raise NotYetError(f"Hardmax of version {own}.", remedy=f"export it with opset_version={_CONVERTED}.")
        try:
            made = onnx.version_converter.convert_version(proto, _CONVERTED)
            return _resized_as_before(made) if own < _HALF_PIXELS else made
        except Exception as error:  # the converter's own, of C++
            reason = str(error).strip().splitlines()
            raise NotYetError(
                f"an ONNX model by version {own} of the operations, which ONNX cannot convert to {_CONVERTED}"
                f" ({reason[0].rstrip('.') if reason else type(error).__name__}).",
                remedy=f"export it with opset_version={_CONVERTED}.",
            ) from None
    return proto


#: From this version on images are resized by the centers of pixels, where nothing else is said.
_HALF_PIXELS = 11


def _resized_as_before(proto: Any) -> Any:
    """A converted model in which images are resized as its own version has it, which ONNX's converter leaves out."""
    for node in proto.graph.node:
        if node.op_type == "Resize":
            said = {one.name for one in node.attribute}
            for name, value in (("coordinate_transformation_mode", "asymmetric"), ("nearest_mode", "floor")):
                if name not in said:
                    node.attribute.append(_helper.make_attribute(name, value))
    return proto


def _without_elements(proto: Any) -> Any:
    """A model for the checker: with no elements in the place of many, of which it would make another copy, and of those
    in files, which it would look for where the process works."""
    made = _proto.ModelProto()
    _copy_but(proto, made, "graph")
    _copy_but(proto.graph, made.graph, "initializer")
    for tensor in proto.graph.initializer:
        own = made.graph.initializer.add()
        if _is_outside(tensor) or math.prod(tensor.dims) > MOST_LITERAL:
            own.name, own.data_type = tensor.name, tensor.data_type
            own.dims.append(0)
        else:
            own.CopyFrom(tensor)
    for tensor in _tensors(made.graph):
        if _is_outside(tensor):
            del tensor.external_data[:], tensor.dims[:]
            tensor.dims.append(0)
            tensor.data_location = _proto.TensorProto.DEFAULT
    return made


def _copy_but(source: Any, to: Any, left_out: str) -> None:
    """Copy the fields of a message but for one."""
    for field, value in source.ListFields():
        if field.name == left_out:
            continue
        if field.is_repeated:
            getattr(to, field.name).MergeFrom(value)
        elif field.message_type is not None:
            getattr(to, field.name).CopyFrom(value)
        else:
            setattr(to, field.name, value)


def _tensors(graph: Any) -> Iterator[Any]:
    """The tensors that a graph holds, those of its nodes and of graphs in these among them."""
    yield from graph.initializer
    for node in graph.node:
        for one in node.attribute:
            if one.HasField("t"):
                yield one.t
            if one.HasField("g"):
                yield from _tensors(one.g)


def _is_outside(tensor: Any) -> bool:
    return tensor.data_location == _proto.TensorProto.EXTERNAL


def _of_model(proto: Any, folders: Folders) -> OnnxModel:
    graph = _of_graph(proto.graph, folders)
    given = [one for one in proto.graph.input if one.name not in graph.arrays]
    functions = {(one.domain, one.name, getattr(one, "overload", "")): of_function(one) for one in proto.functions}
    versions = {"" if one.domain == "ai.onnx" else one.domain: one.version for one in proto.opset_import}
    return OnnxModel(proto.graph.name, graph, tuple(map(_input, given)), functions, versions)


def of_function(proto: Any) -> OnnxFunction:
    """A function of nodes."""
    nodes = tuple(map(_node, proto.node))
    defaults = {one.name: value_of(one) for one in proto.attribute_proto}
    return OnnxFunction(OnnxGraph(tuple(proto.input), nodes, tuple(proto.output), {}), defaults)


def _of_graph(proto: Any, folders: Folders = ()) -> OnnxGraph:
    if proto.sparse_initializer:
        raise UnsupportedOpError("an ONNX model that holds sparse arrays.", remedy="export them dense.")
    arrays = {one.name: _kept(array_of(one, folders)) for one in proto.initializer}
    arguments = tuple([one.name for one in proto.input if one.name not in arrays])
    nodes = tuple([_node(one, folders) for one in proto.node])
    return OnnxGraph(arguments, nodes, tuple([one.name for one in proto.output]), arrays)


def _kept(array: Array) -> Array | Dense:
    """An array of the model's: a large one as a constant, which need not have its elements itself."""
    dense = Dense(array, copy=False) if array.size > MOST_LITERAL and array.dtype.kind not in "OSUT" else None
    return dense if dense is not None and dense.has_buffer else array


def _node(proto: Any, folders: Folders = ()) -> OnnxNode:
    domain, overload = "" if proto.domain == "ai.onnx" else proto.domain, getattr(proto, "overload", "")
    inputs, outputs = tuple(proto.input), tuple(proto.output)
    own = _proto.NodeProto()
    own.CopyFrom(proto)  # a part of a model keeps all of it, the arrays too
    return OnnxNode(proto.name, proto.op_type, domain, inputs, outputs, overload, own, folders)


def _input(proto: Any) -> TensorInput:
    kind = proto.type.WhichOneof("value")
    if kind != "tensor_type":
        what = (kind or "value of an unknown type").removesuffix("_type")
        raise UnsupportedOpError(f"the ONNX model takes a {what}, {proto.name}.", remedy="export it with tensors.")
    tensor = proto.type.tensor_type
    if not tensor.HasField("shape"):
        raise UnsupportedOpError(
            f"the ONNX model does not say how many axes {proto.name} has.", remedy="state the shape of its input."
        )
    return TensorInput(proto.name, dtype_of(tensor.elem_type), tuple([_axis(one) for one in tensor.shape.dim]))


def _axis(proto: Any) -> int | str | None:
    kind = proto.WhichOneof("value")
    if kind == "dim_value":
        return proto.dim_value if proto.dim_value >= 0 else None
    if kind != "dim_param" or not proto.dim_param:
        return None
    name = re.sub(r"\W", "_", proto.dim_param, flags=re.ASCII)  # two axes of one name have one size, whatever it says
    return name if name.isidentifier() and name.strip("_") else f"d_{name}"


def dtype_of(number: int) -> DType:
    """dyn's dtype by ONNX's number; UnsupportedOpError where it has none."""
    known = number in _proto.TensorProto.DataType.values()
    name = _proto.TensorProto.DataType.Name(number).lower() if known else f"type {number}"
    if known and name not in ("string", "undefined"):
        found = np.dtype(_helper.tensor_dtype_to_np_dtype(number))
        if dtypes.is_known(found):
            return dtypes.dtype(found)
    raise UnsupportedOpError(f"dyn has no arrays of ONNX's {name}.", remedy="convert to another dtype.")


def array_of(proto: Any, folders: Folders = ()) -> Array:
    """The elements of a tensor. Those in another file are mapped: they are read when they are used."""
    if proto.data_type == _proto.TensorProto.STRING:
        return np.asarray(onnx.numpy_helper.to_array(proto))
    dtype = dtype_of(proto.data_type)
    if not _is_outside(proto):
        try:
            return np.asarray(onnx.numpy_helper.to_array(proto)).astype(dtype.np, copy=False)
        except ValueError as error:
            raise ArtifactError(
                f"the elements of {proto.name or 'a constant'} are not as many as said: {error}."
            ) from None
    said = {one.key: one.value for one in proto.external_data}
    shape = tuple(proto.dims)
    bases = folders or (Path.cwd().resolve(),)
    try:
        path = (bases[0] / said.get("location", "")).resolve()
        if not any(path.is_relative_to(base) for base in bases):
            raise ArtifactError(f"the elements of {proto.name} are to lie in {path}, outside of the model's folder.")
        count = math.prod(shape) * dtype.np.itemsize
        if int(said.get("length", count)) != count:
            raise ValueError(f"they are said to take {said['length']} bytes, and take {count}")
        if not count:
            return np.zeros(shape, dtype.np)
        found = np.memmap(path, dtype.np, "r", int(said.get("offset", 0)), shape or (1,))
    except (OSError, ValueError, OverflowError) as error:
        raise ArtifactError(f"the elements of {proto.name} cannot be read from a file: {error}.") from None
    return found.reshape(shape)


def value_of(proto: Any, folders: Folders = ()) -> Any:
    """An attribute's value; None where it has none."""
    if proto.ref_attr_name:
        return Reference(proto.ref_attr_name)
    kind = _proto.AttributeProto.AttributeType.Name(proto.type)
    match kind:
        case "FLOAT" | "INT":
            return proto.f if kind == "FLOAT" else proto.i
        case "STRING":
            return proto.s.decode("utf-8", "surrogateescape")
        case "TENSOR":
            return array_of(proto.t, folders)
        case "GRAPH":
            return _of_graph(proto.g, folders)
        case "FLOATS" | "INTS":
            return list(proto.floats if kind == "FLOATS" else proto.ints)
        case "STRINGS":
            return [one.decode("utf-8", "surrogateescape") for one in proto.strings]
        case "UNDEFINED":
            return None
        case _:
            raise UnsupportedOpError(f"an attribute {proto.name} of the type {kind}.")


def names_read(graph: OnnxGraph) -> Sequence[str]:
    """The names of the values around it that a graph reads."""
    own = {*graph.arguments, *graph.arrays}
    found: dict[str, None] = {}
    for node in graph.nodes:
        inner = [one for one in node.attributes.values() if isinstance(one, OnnxGraph)]
        for name in (*node.inputs, *[name for one in inner for name in names_read(one)]):
            if name and name not in own:
                found[name] = None
        own.update(node.outputs)
    for name in graph.outputs:
        if name not in own:
            found[name] = None
    return list(found)
