"""``dyn.interop.tf.jit``: functions and models of TensorFlow's and Keras's, compiled by dyn once for every shape.

This file is longer than most: it is one class, whose calls in graphs, on tapes and by themselves have much in common.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dyn import dtypes
from dyn.errors import ArgumentError, DynError, NotYetError, UnsupportedOpError
from dyn.frontend.compiled_function import CacheInfo, CompiledFunction
from dyn.frontend.fallback import OF_CALLERS, FallbackReason, failure_of
from dyn.interop.tf.gradients import GradientProgram, Joint, RecordedProgram, is_recording, watched_untrained
from dyn.interop.tf.graph_calls import call_in_graph, part_of_graph
from dyn.interop.tf.internals import EagerTensor, context, pywrap_tfe, tf
from dyn.interop.tf.programs import TfProgram, traced_for_dyn
from dyn.interop.tf.values import check_is_array
from dyn.late_imports import import_whole
from dyn.source import UNKNOWN, Loc, user_loc
from dyn.specialize.arguments import ShapeDtypeStruct
from dyn.specialize.call_arguments import OnNewShape, check_on_new_shape
from dyn.stages import Traced
from dyn.trace.pytree import TreeSpec, flatten, leaf_names, unflatten
from dyn.trace.signature import Signature
from dyn.trace.static_keys import Static
from dyn.trace.tracer import Tracer

#: What is asked of sizes below is asked by the function that is called here.
CALLS_USERS = True

if TYPE_CHECKING:
    from dyn.explain.explanation import WayToCall
    from dyn.explain.versions import MadeFor

_NO_RESULT = object()


def jit(function: Any = None, /, *, strict: bool = False, on_new_shape: OnNewShape = "compile") -> Any:
    """In place of ``tf.function``: TensorFlow traces once, dyn compiles once, and every shape runs.

    Each axis of each tensor is open, those of a batch above all: TensorFlow traces the function for tensors of which it
    knows ranks and dtypes alone, as it does for ``tf.TensorSpec([None, None])``. Where it cannot, a tensor's last axis
    is fixed, then all but its first, the batch, and then all: other sizes get another program there, and ``explain()``
    says so.

    Args:
        function: a function, a ``tf.function``, a Keras model or layer, a ``tf.Module`` that can be called. Arguments
            are tensors, NumPy arrays, and trees of them; anything else is static, and has to have a hash.
        strict: whether what dyn cannot compile is an error, instead of TensorFlow's.
        on_new_shape: ``"error"`` raises instead of compiling a second program for other sizes.

    Returns:
        A function with the results of the given one: tensors, in the memory that dyn computed them in. Variables are
        read where they lie at each call, and assigned in TensorFlow. ``tf.GradientTape`` sees through calls.

    Raises:
        BackendUnavailableError: without TensorFlow, or with another version.
    """
    if function is None:
        return functools.partial(jit, strict=strict, on_new_shape=on_new_shape)
    if not callable(function):
        raise ArgumentError(f"jit takes a function or a model, not a {type(function).__name__}.", loc=user_loc())
    check_on_new_shape(on_new_shape)
    return TfJitted(function, strict=strict, on_new_shape=on_new_shape)


class _SizedProgram:
    """A program with the sizes that it is for; None for those that are open. ``failure`` is why it is none, ``why`` why
    sizes are fixed."""

    def __init__(
        self, program: TfProgram | None, fixed: tuple[tuple[int | None, ...], ...],
        failure: FallbackReason | None = None, why: str = "",
    ) -> None:  # fmt: skip
        self.program, self.fixed, self.failure, self.why = program, fixed, failure, why
        #: What it was made for, but for sizes, in words.
        self.made_for: MadeFor | None = None
        #: The program with its gradients, by which variables tapes watch that are not trained.
        self.recorded: dict[tuple[int, ...], TfProgram] = {}
        #: Its gradient by itself, of calls in graphs.
        self.gradient: GradientProgram | None = None
        #: Whether it is known that dyn compiles it: in a graph nothing can take its place.
        self.is_for_graphs = False

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        return all(
            own is None or own == size
            for fixed, shape in zip(self.fixed, shapes, strict=True)
            for own, size in zip(fixed, shape, strict=True)
        )

    @property
    def is_open(self) -> bool:
        return all(size is None for sizes in self.fixed for size in sizes)

    @property
    def programs(self) -> list[TfProgram]:
        """The program, and those with its gradients."""
        alone = None if self.gradient is None else self.gradient.program
        return [one for one in (self.program, *self.recorded.values(), alone) if one is not None]


class TfJitted(CompiledFunction[_SizedProgram]):
    """Function or model of TensorFlow's that dyn compiles. Made by :func:`jit`.

    Attributes:
        programs: its programs, as dyn's own records.
    """

    #: AutoGraph leaves alone what has this.
    autograph_info__: ClassVar[dict[str, Any]] = {}

    def __init__(self, function: Callable[..., Any], *, strict: bool, on_new_shape: OnNewShape = "compile") -> None:
        name = getattr(function, "__name__", None) or getattr(function, "name", type(function).__name__)
        remedy = "strict=True of jit makes it an error."
        super().__init__(function, tf.compat.as_str_any(name), wraps=False, library="TensorFlow", remedy=remedy)
        functools.update_wrapper(self, function, updated=())
        self._strict = strict
        self._on_new_shape: OnNewShape = on_new_shape
        #: Programs for every size of calls whose arguments are tensors by position, by dtypes and ranks.
        self._plain: dict[Any, TfProgram] = {}
        #: Shapes of results by a program and by shapes of tensors.
        self._inferred: dict[Any, list[Any]] = {}
        #: The tensors that layers are built by, where they are others than those of the call.
        self._built_by: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return f"dyn.interop.tf.jit({self._name})"

    def _binds(self) -> bool:
        return hasattr(type(self._function), "__get__")

    def __reduce__(self) -> Any:
        """As a function is, by its name. Models are saved by TensorFlow's means."""
        if self._binds():
            return super().__reduce__()
        raise TypeError(f"cannot copy or pickle {self!r}: copy the model, and compile the copy.")

    def __getattr__(self, name: str) -> Any:
        if name == "_function" or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._function, name)

    # Calling

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and pywrap_tfe.TFE_Py_TapeSetIsEmpty() and context.executing_eagerly():
            try:
                key = [(array.dtype, array.ndim) for array in [tensor._numpy() for tensor in args]]
            except (AttributeError, TypeError, tf.errors.OpError):
                key = None
            program = None if key is None else self._plain.get(tuple(key))
            if program is not None and (result := self._call_plain(program, args)) is not _NO_RESULT:
                return result
        return self._call_slow(*args, **kwargs)

    def _call_plain(self, program: TfProgram, args: tuple[Any, ...]) -> Any:
        """The result of a program; _NO_RESULT where dyn has something against another version of it, that of sizes
        which a guard tells apart."""
        known = len(program.pieces)
        try:
            result = program(args)
        except OF_CALLERS:
            raise
        except DynError:
            return _NO_RESULT
        self.fallbacks.report(self._name, program.pieces[known:])
        return result

    def _call_slow(self, /, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = flatten((args, kwargs))
        if any(map(_is_of_keras, leaves)):  # a model is being put together
            return self._function(*args, **kwargs)
        if not context.executing_eagerly():
            return self._call_in_graph(args, kwargs, leaves, tree)
        try:
            tensors, rest = self._apart(leaves)
        except UnsupportedOpError as error:
            if self._strict:
                raise
            return self._eagerly(failure_of(error, notes=True), args, kwargs)
        version = self._version(tensors, rest, tree)
        if version.program is None:
            assert version.failure is not None, "a version without a program says why"
            return self._eagerly(version.failure, args, kwargs)
        program = version.program
        known = len(program.pieces)
        try:
            if is_recording(tensors, program):
                program = self._recorded(version, tensors, rest, tree)
                known = len(program.pieces)
            result = program(tensors)
        except OF_CALLERS:
            raise
        except DynError as error:
            if self._strict or len(program.pieces) != known:
                raise
            failure = failure_of(error, notes=True)

            def replace() -> None:
                self._forget([version])
                self._programs.replace(version, _SizedProgram(None, version.fixed, failure))

            return self._eagerly(failure, args, kwargs, replace)
        self.fallbacks.report(self._name, program.pieces)
        self._note_program()
        is_plain = version.is_open and not kwargs and len(args) == len(leaves) == len(tensors)
        if is_plain and all(type(one) is EagerTensor for one in args):
            arrays = [tensor._numpy() for tensor in tensors]
            self._plain.setdefault(tuple([(array.dtype, array.ndim) for array in arrays]), version.program)
        return result

    def _call_in_graph(self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[Any], tree: Any) -> Any:
        """A call with tensors of a graph: an operation of that graph, or all of the function's own."""
        reason = part_of_graph()
        if reason is not None:
            return self._part(args, kwargs, FallbackReason(reason, user_loc()), warns=False)
        try:
            tensors, rest = self._apart(leaves)
            with context.eager_mode():
                version = self._version(tensors, rest, tree)
                if version.program is not None and not version.is_for_graphs:
                    version.program.trace()
                    version.is_for_graphs = True
        except (DynError, TypeError, ValueError) as error:  # TensorFlow's of tensors of the outer graph, among others
            if self._strict:
                raise
            return self._part(args, kwargs, failure_of(error, notes=True))
        if version.program is None:
            assert version.failure is not None, "a version without a program says why"
            return self._part(args, kwargs, version.failure)
        reason = "a call inside of a tf.function is a tf.numpy_function."
        self.fallbacks.say(self._name, FallbackReason(reason, user_loc()), warns=False)
        self.fallbacks.report(self._name, version.program.pieces)

        def gradient() -> GradientProgram:
            with self._lock:
                if version.gradient is None:
                    assert version.program is not None, "calls in graphs are of programs"
                    joint = Joint(self._flat(rest, tree), self._specs(version, tensors), version.program)
                    version.gradient = GradientProgram(joint)
                return version.gradient

        shapes = self._shapes_in_graph(version.program, tensors, rest, tree)
        return call_in_graph(version.program, tensors, shapes, gradient)

    def _shapes_in_graph(self, program: TfProgram, tensors: Sequence[Any], rest: Any, tree: TreeSpec) -> list[Any]:
        """Shapes of results, as TensorFlow infers them from what the graph at hand knows of these tensors."""
        shapes = [one.shape for one in program.concrete.outputs]
        given = [one.shape for one in tensors]
        if all(size is None for shape in given for size in shape):
            return shapes
        key = program, tuple([tuple(shape) for shape in given])
        with self._lock:
            found = self._inferred.get(key)
            if found is None:
                specs = [tf.TensorSpec(one.shape, one.dtype) for one in tensors]
                own = [one.shape for one in traced_for_dyn(self._flat(rest, tree), specs).outputs]
                is_same = len(own) == len(shapes) and all(map(tf.TensorShape.is_compatible_with, own, shapes))
                found = self._inferred[key] = list(map(tf.TensorShape.merge_with, own, shapes)) if is_same else shapes
            return found

    def _part(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], failure: FallbackReason, *, warns: bool = True
    ) -> Any:
        """The function as a part of the graph at hand."""
        converted = tf.__internal__.autograph.tf_convert(self._function, tf.__internal__.autograph.control_status_ctx())
        result = converted(*args, **kwargs)
        self.fallbacks.say(self._name, failure, warns=warns)
        return result

    @staticmethod
    def _specs(version: _SizedProgram, tensors: Sequence[Any]) -> list[Any]:
        return [tf.TensorSpec(list(sizes), one.dtype) for sizes, one in zip(version.fixed, tensors, strict=True)]

    def _apart(self, leaves: Sequence[Any]) -> tuple[list[Any], tuple[Static | None, ...]]:
        """The tensors among the leaves of a call, and the others. UnsupportedOpError for tensors that are no arrays."""
        tensors: list[Any] = []
        rest: list[Static | None] = []
        for leaf in leaves:
            if isinstance(leaf, np.ndarray | np.generic):
                leaf = tf.convert_to_tensor(leaf)
            if isinstance(leaf, Tracer):
                raise ArgumentError(
                    f"{self._name}() is TensorFlow's, and is called in a trace of dyn's with {leaf!r}.",
                    loc=user_loc(),
                    remedy="call it outside, or call the function of dyn's in it by dyn.interop.tf.call.",
                )
            if isinstance(leaf, tf.TensorSpec):  # of a call that is not made
                tensors.append(leaf)
                rest.append(None)
            elif isinstance(leaf, tf.Tensor):
                check_is_array(leaf)
                tensors.append(leaf)
                rest.append(None)
            elif isinstance(leaf, tf.__internal__.CompositeTensor) and not isinstance(leaf, tf.Variable):
                raise UnsupportedOpError(
                    f"an argument that is a {type(leaf).__name__}, whose elements do not lie in an array.",
                    loc=user_loc(),
                    remedy="pass tf.sparse.to_dense(x) or x.to_tensor().",
                )
            else:
                rest.append(Static("argument", leaf))
        return tensors, tuple(rest)

    def build_by(self, specs: Any) -> None:
        """Have Keras's layers built by open sizes, such as a data set has, in place of the first call's.

        Args:
            specs: tree of ``tf.TensorSpec`` like that of a call; for any other nothing is done.
        """
        leaves = flatten(specs)[0]
        if all(isinstance(leaf, tf.TensorSpec) and leaf.shape.rank is not None for leaf in leaves):
            self._built_by = tuple(leaves)

    def _building_specs(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """The tensors that a trace builds by: those of :meth:`build_by`, where they are like those of the call."""
        specs = self._built_by
        is_like = len(specs) == len(tensors) and all(map(tf.TensorSpec.is_compatible_with, specs, tensors))
        return specs if is_like else [tf.TensorSpec(one.shape, one.dtype) for one in tensors]

    # Programs

    def _version(self, tensors: Sequence[Any], rest: tuple[Static | None, ...], tree: TreeSpec) -> _SizedProgram:
        shapes = [tuple(tensor.shape) for tensor in tensors]
        key = (tree, rest, tuple([(tensor.dtype, len(shape)) for tensor, shape in zip(tensors, shapes, strict=True)]))
        try:
            hash(key)
        except TypeError:
            raise ArgumentError(
                f"{self._name}(): an argument is neither a tensor nor has a hash.",
                loc=user_loc(),
                remedy="pass a tensor, or a tuple.",
            ) from None

        def make() -> _SizedProgram:
            known = self._programs.of(key)
            if known and self._on_new_shape == "error":
                raise self._second_program(str(known[-1].fixed), loc=user_loc())
            return self._made(tensors, rest, tree, shapes)

        return self._alone(key, lambda one: one.fits(shapes), make)

    def _made(
        self, tensors: Sequence[Any], rest: tuple[Static | None, ...], tree: TreeSpec, shapes: list[tuple[int, ...]]
    ) -> _SizedProgram:
        """The program for as many sizes as TensorFlow traces the function for."""
        why = ""
        built_by = self._building_specs(tensors)
        for fixed in _ladder(tensors):
            specs = [tf.TensorSpec(list(sizes), one.dtype) for sizes, one in zip(fixed, tensors, strict=True)]
            self._traces += 1
            try:
                concrete = traced_for_dyn(self._flat(rest, tree), specs, built_by)
            except NotYetError as error:
                if self._strict:
                    raise
                return _SizedProgram(None, fixed, failure_of(error, notes=True))
            except Exception as error:  # whatever it is: with numbers for sizes it may not come
                if fixed == tuple(shapes):
                    raise
                why = why or f"{type(error).__name__}: {_words(error)}"
                continue
            try:
                labels = self._labels(tree)
                called = [label for label, one in zip(labels, rest, strict=True) if one is None]
                program = TfProgram(
                    concrete, self._name, called, strict=self._strict,
                    on_new_shape=self._on_new_shape,
                )  # fmt: skip
                made = _SizedProgram(program, fixed, None, why)
                made.made_for = _described(called, tensors, labels, rest)
                program.function.reason = self._why(made.made_for)
                return made
            except DynError as error:
                if self._strict:
                    raise
                return _SizedProgram(None, fixed, failure_of(error, notes=True))
        raise AssertionError("the last attempt returns or raises")

    def _recorded(
        self, version: _SizedProgram, tensors: Sequence[Any], rest: tuple[Static | None, ...], tree: TreeSpec
    ) -> TfProgram:
        """The program that a tape records, with its gradient."""
        with self._lock:
            assert version.program is not None, "the caller has one"
            untrained = watched_untrained(version.program)
            key = tuple(map(id, untrained))
            found = version.recorded.get(key)
            if found is None:
                specs = self._specs(version, tensors)
                try:
                    found = RecordedProgram(self._flat(rest, tree), specs, version.program, untrained)
                except (NotImplementedError, TypeError, ValueError, tf.errors.OpError) as error:  # TensorFlow's
                    raise NotYetError(f"TensorFlow makes no gradient of it for open sizes: {_words(error)}") from error
                version.recorded[key] = found
        return found

    def _labels(self, tree: TreeSpec) -> list[str]:
        """The leaves of the arguments as a user would write them: ``x``, ``batch['mask']``."""
        function: Any = self._function
        if not isinstance(function, FunctionType | MethodType):
            function = getattr(function, "python_function", None) or getattr(function, "call", function)
        signature = Signature(function, None, (), ())
        args, kwargs = tree.children()
        labels = [signature.argument_name(number) for number in range(len(args.children()))]
        labels += [signature.keyword_label(str(keyword)) for keyword in kwargs.entries()]
        parts = zip(labels, [*args.children(), *kwargs.children()], strict=True)
        return [name for label, part in parts for name in leaf_names(part, label)]

    def _flat(self, rest: tuple[Static | None, ...], tree: TreeSpec) -> Callable[..., Any]:
        """The function of its tensors alone."""
        function = self._function

        def flat(*tensors: Any) -> Any:
            left = iter(tensors)
            args, kwargs = unflatten(tree, [next(left) if one is None else one.value for one in rest])
            return function(*args, **kwargs)

        flat.__name__ = self._name if self._name.isidentifier() else "function"
        return flat

    # Stages

    def _staged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_SizedProgram, TfProgram, list[Any]]:
        """The program of a call that is not made, with specifications of its tensors."""
        leaves, tree = flatten((args, kwargs))
        tensors, rest = self._apart([_stand_in(leaf) for leaf in leaves])
        version = self._version(tensors, rest, tree)
        if version.program is None:
            assert version.failure is not None, "a version without a program says why"
            raise NotYetError(version.failure.reason, loc=version.failure.loc, remedy="leave it to TensorFlow.")
        return version, version.program, tensors

    def _trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
        version, program, tensors = self._staged(args, kwargs)
        return program.function.trace(*program.structs(self._specs(version, tensors)))

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            _, program, tensors = self._staged(args, kwargs)
            program.function.prepare([program.structs(tensors)])
        except OF_CALLERS:
            raise
        except DynError as error:  # which a call would leave to TensorFlow
            if self._strict:
                raise
            self.fallbacks.say(self._name, failure_of(error, notes=True))
        else:
            self.fallbacks.report(self._name, program.pieces)

    # What there is

    def _info(self, program: _SizedProgram) -> CacheInfo:
        infos = [one.function.cache_info() for one in program.programs]
        return functools.reduce(CacheInfo.__add__, infos, CacheInfo())._replace(traces=0)  # TensorFlow's are counted

    def _made_for(self, program: _SizedProgram) -> MadeFor | None:
        return program.made_for if program.program is not None else None

    def _made_by(self, program: _SizedProgram) -> tuple[str, Loc]:
        return ("sizes that TensorFlow cannot trace as open ones" if program.why else "", UNKNOWN)

    def _counted(self, info: CacheInfo) -> Mapping[str, int]:
        return {**super()._counted(info), "trace": info.traces}

    def _way(self, program: _SizedProgram) -> WayToCall:
        import_whole("dyn.explain.explanation")
        from dyn.explain.explanation import WayToCall

        fixed = f"sizes are fixed to {program.fixed}, for TensorFlow cannot trace it: {program.why}"
        reports = [report for one in program.programs for report in one.function.explain().versions]
        pieces = [self.fallbacks.pieces_text(own) for one in program.programs for own in one.pieces if own]
        return WayToCall(tuple(reports), () if program.is_open or not reports else (fixed,), tuple(pieces))


def _is_of_keras(leaf: object) -> bool:
    """Whether something stands for a tensor in a model of Keras that is put together."""
    keras = sys.modules.get("keras")  # who has one has imported it
    return keras is not None and isinstance(leaf, getattr(keras, "KerasTensor", ()))


def _described(
    called: Sequence[str], tensors: Sequence[Any], labels: Sequence[str], rest: Sequence[Static | None]
) -> MadeFor:
    """The key of a program in words, without sizes."""
    import_whole("dyn.explain.versions")
    from dyn.explain.versions import ArgumentKey, made_for_leaves

    arguments = [
        ArgumentKey(name, one.dtype.name, len(one.shape), weak=False) for name, one in zip(called, tensors, strict=True)
    ]
    static = [(label, one.value) for label, one in zip(labels, rest, strict=True) if one is not None]
    return made_for_leaves(arguments, labels, static)


def _stand_in(leaf: Any) -> Any:
    """The specification of a tensor for what stands for one."""
    if isinstance(leaf, ShapeDtypeStruct):
        return tf.TensorSpec(leaf.sizes(), tf.as_dtype(dtypes.dtype(leaf.dtype).name))
    return leaf


#: What Keras prints in bold: what went wrong in a layer, between where that was and what the layer was given.
_BOLD = re.compile(r"\x1b\[1m(.*?)\x1b\[0m", re.DOTALL)


def _words(error: BaseException) -> str:
    """The line of an error's text that says what went wrong: TensorFlow's last one, or what Keras has set in bold."""
    bold = _BOLD.search(str(error))
    lines = (bold[1] if bold else str(error)).strip().splitlines()
    return (lines[0 if bold else -1] if lines else type(error).__name__).strip()


def _ladder(tensors: Sequence[Any]) -> list[tuple[tuple[int | None, ...], ...]]:
    """The sizes that are fixed, from none to all: None for those that are open.

    First those of features, the last axes of floats, and of other tensors, whose last axis may be one of words or of a
    mask, then; and each but the first, the batch.
    """
    shapes = [tuple(tensor.shape) for tensor in tensors]
    none = tuple([(None,) * len(shape) for shape in shapes])
    last = tuple(
        [(None,) * (len(shape) - 1) + shape[-1:] if len(shape) > 1 else (None,) * len(shape) for shape in shapes]
    )
    features = tuple([
        own if tensor.dtype.is_floating else (None,) * len(own) for own, tensor in zip(last, tensors, strict=True)
    ])  # fmt: skip
    batch = tuple([(None, *shape[1:]) if shape else () for shape in shapes])
    return list(dict.fromkeys([none, features, last, batch, tuple(shapes)]))
