"""``dyn.interop.tf.jit``: functions and models of TensorFlow's and Keras's, compiled by dyn once for every shape."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from dyn.errors import ArgumentError, DynError, NotYetError
from dyn.frontend.compiled_function import CacheInfo
from dyn.frontend.fallback import OF_CALLERS, Fallback, FallbackReason, reason_of
from dyn.frontend.library import LibraryFunction
from dyn.interop.tf.gradients import GradientProgram, Joint, RecordedProgram, is_recording, watched_untrained
from dyn.interop.tf.graph_calls import call_in_graph, part_of_graph
from dyn.interop.tf.internals import EagerTensor, context, pywrap_tfe, tf
from dyn.interop.tf.library_calls import LibraryCalls
from dyn.interop.tf.options import DEFAULT, TfOptions
from dyn.interop.tf.programs import TfProgram, traced_for_dyn
from dyn.interop.tf.read_calls import TfCall, is_of_keras, read_call
from dyn.interop.tf.sized_programs import SizedProgram, specs_of, words_of
from dyn.source import user_loc
from dyn.specialize.call_arguments import OnNewShape
from dyn.trace.pytree import flatten
from dyn.tracebacks import hide_own_frames

#: What is asked of sizes below is asked by the function that is called here.
CALLS_USERS = True

_NO_RESULT = object()


def jit(
    function: Any = None, /, *, strict: bool = False, on_new_shape: OnNewShape = "compile", freeze: bool = False,
    batch_invariant: bool = False,
) -> Any:  # fmt: skip
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
        freeze: say that variables are seldom assigned while it is used: in calls that no ``tf.GradientTape`` records,
            matrices that are multiplied are kept once more, in the order in which products read them best. A variable
            that is assigned all the same has its new value at the next call, which computes that once more; one that
            three calls in a row find assigned is frozen no more, by another program.
        batch_invariant: have each row of a product of matrices have the same bits however many rows there are, as
            :func:`dyn.jit` does.

    Returns:
        A function with the results of the given one: tensors, in the memory that dyn computed them in. Variables are
        read where they lie at each call, and assigned in TensorFlow. ``tf.GradientTape`` sees through calls.

    Raises:
        ArgumentError: for what cannot be called, and for options of other values.
        BackendUnavailableError: without TensorFlow, or with another version.
    """
    options = TfOptions(strict, on_new_shape, freeze, batch_invariant)
    options.check("dyn.interop.tf.jit")
    if function is None:
        return functools.partial(
            jit, strict=strict, on_new_shape=on_new_shape, freeze=freeze, batch_invariant=batch_invariant
        )
    if not callable(function):
        raise ArgumentError(f"jit takes a function or a model, not a {type(function).__name__}.", loc=user_loc())
    return TfJitted(function, options)


class TfJitted(LibraryFunction[TfCall, SizedProgram]):
    """Function or model of TensorFlow's that dyn compiles. Made by :func:`jit`.

    Attributes:
        programs: its programs, as dyn's own records.
    """

    #: AutoGraph leaves alone what has this.
    autograph_info__: ClassVar[dict[str, Any]] = {}

    def __init__(self, function: Callable[..., Any], options: TfOptions = DEFAULT) -> None:
        name = getattr(function, "__name__", None) or getattr(function, "name", type(function).__name__)
        remedy = "strict=True of jit makes it an error."
        super().__init__(
            function, tf.compat.as_str_any(name), wraps=False, library="TensorFlow", remedy=remedy,
            strict=options.strict, on_new_shape=options.on_new_shape,
        )  # fmt: skip
        self._options = options
        functools.update_wrapper(self, function, updated=())
        #: The function as TensorFlow calls it, where dyn does not.
        self._library_calls = LibraryCalls(function)
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
        try:
            if not kwargs and pywrap_tfe.TFE_Py_TapeSetIsEmpty() and context.executing_eagerly():
                try:
                    # A sparse tensor would make a dense array of itself, and be taken for it.
                    arrays: list[Any] = [one._numpy() if type(one) is EagerTensor else None for one in args]
                    key = [(array.dtype, array.ndim) for array in arrays]
                except (AttributeError, TypeError, tf.errors.OpError):
                    key = None
                program = None if key is None else self._programs.recent.get(tuple(key))
                if program is not None and (result := self._call_plain(program, args)) is not _NO_RESULT:
                    return result
            return self._call_slow(*args, **kwargs)
        except Exception as error:
            hide_own_frames(error)
            raise

    def _call_plain(self, sized: SizedProgram, args: tuple[Any, ...]) -> Any:
        """The result of a program; _NO_RESULT where dyn has something against another version of it, that of sizes
        which a guard tells apart."""
        program = sized.unrecorded_program
        if program is None or sized.fallback_reason is not None:
            return _NO_RESULT
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
        try:
            if context.executing_eagerly() or any(map(is_of_keras, flatten((args, kwargs))[0])):
                return super()._call_slow(*args, **kwargs)
            return self._call_in_graph(args, kwargs)
        except Exception as error:
            hide_own_frames(error)
            raise

    def _bind_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, stands: bool = False) -> TfCall | None:
        return read_call(self._function, self._name, args, kwargs, stands=stands)

    def _reason_of(self, error: BaseException) -> FallbackReason:
        return reason_of(error, notes=True)

    def _run_eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call as TensorFlow makes it: as a ``tf.function``, except for one that puts a model together."""
        if any(map(is_of_keras, flatten((args, kwargs))[0])):
            return self._function(*args, **kwargs)
        return self._library_calls(args, kwargs)

    def _run_program(self, program: SizedProgram, call: TfCall) -> Any:
        assert program.program is not None, "a program without one is refused"
        if is_recording(call.tensors, program.program):
            return self._recorded(program, call)(call.tensors)
        made = program.unrecorded_program
        assert made is not None
        return made(call.tensors)

    def _fallback_for(self, program: SizedProgram, call: TfCall, error: Exception) -> Fallback | None:
        if self._strict or not isinstance(error, DynError) or program.is_compiled_for(call):
            return None
        reason = self._reason_of(error)
        return Fallback(reason, lambda: program.leave_to_library(call, reason))

    def _accept_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], call: TfCall, program: SizedProgram) -> None:
        """Have a call of tensors by position find its program by their dtypes and ranks from now on."""
        is_plain = program.is_open and not kwargs and len(args) == len(call.rest) == len(call.tensors)
        if is_plain and all(type(one) is EagerTensor for one in args):
            arrays = [tensor._numpy() for tensor in call.tensors]
            key = tuple([(array.dtype, array.ndim) for array in arrays])
            self._programs.remember(key, program, self._programs.recent)

    def _call_in_graph(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call with tensors of a graph: an operation of that graph, or all of the function's own."""
        reason = part_of_graph()
        if reason is not None:
            return self._part(args, kwargs, FallbackReason(reason, user_loc()), warns=False)
        try:
            call = self._bind_call(args, kwargs)
            assert call is not None, "calls of Keras's are made elsewhere"
            with context.eager_mode():
                version = self._program_for(call)[0]
                if version.program is not None and not version.is_for_graphs:
                    version.program.trace()
                    version.is_for_graphs = True
        except (DynError, TypeError, ValueError) as error:  # TensorFlow's of tensors of the outer graph, among others
            if self._strict:
                raise
            return self._part(args, kwargs, self._reason_of(error))
        program, reason = version.program, version.fallback_reason or version.unrecorded
        if reason is not None:
            return self._part(args, kwargs, reason)
        assert program is not None, "a version without a program says why"
        reason = "a call inside of a tf.function is a tf.numpy_function."
        self.fallbacks.say(self._name, FallbackReason(reason, user_loc()), warns=False)
        self.fallbacks.report(self._name, program.pieces)

        def gradient() -> GradientProgram:
            with self._lock:
                if version.gradient is None:
                    version.gradient = GradientProgram(Joint(call.flat(), version.specs(call.tensors), program))
                return version.gradient

        return call_in_graph(program, call.tensors, self._shapes_in_graph(program, call), gradient)

    def _shapes_in_graph(self, program: TfProgram, call: TfCall) -> list[Any]:
        """Shapes of results, as TensorFlow infers them from what the graph at hand knows of these tensors."""
        shapes = [one.shape for one in program.concrete.outputs]
        given = [one.shape for one in call.tensors]
        if all(size is None for shape in given for size in shape):
            return shapes
        key = program, tuple([tuple(shape) for shape in given])
        with self._lock:
            found = self._inferred.get(key)
            if found is None:
                specs = [tf.TensorSpec(one.shape, one.dtype) for one in call.tensors]
                own = [one.shape for one in traced_for_dyn(call.flat(), specs).outputs]
                is_same = len(own) == len(shapes) and all(map(tf.TensorShape.is_compatible_with, own, shapes))
                found = self._inferred[key] = list(map(tf.TensorShape.merge_with, own, shapes)) if is_same else shapes
            return found

    def _part(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], reason: FallbackReason, *, warns: bool = True
    ) -> Any:
        """The function as a part of the graph at hand."""
        converted = tf.__internal__.autograph.tf_convert(self._function, tf.__internal__.autograph.control_status_ctx())
        result = converted(*args, **kwargs)
        self.fallbacks.say(self._name, reason, warns=warns)
        return result

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

    def _while_making(self) -> AbstractContextManager[object]:
        return self._lock  # TensorFlow's traces make variables, once

    def _make_program(self, call: TfCall) -> SizedProgram:
        """The program for as many sizes as TensorFlow traces the function for."""
        why = ""
        built_by = self._building_specs(call.tensors)
        for fixed in _ladder(call.tensors):
            specs = specs_of(fixed, call.tensors)
            self._traces += 1
            try:
                concrete = traced_for_dyn(call.flat(), specs, built_by)
            except NotYetError as error:
                if self._strict:
                    raise
                return SizedProgram(None, fixed, self._reason_of(error))
            except Exception as error:  # whatever it is: with numbers for sizes it may not come
                if fixed == tuple(call.shapes):
                    raise
                why = why or f"{type(error).__name__}: {words_of(error)}"
                continue
            try:
                program = TfProgram(concrete, self._name, call.called(), self._options)
            except DynError as error:
                if self._strict:
                    raise
                return SizedProgram(None, fixed, self._reason_of(error))
            return SizedProgram(program, fixed, None, why)
        raise AssertionError("the last attempt returns or raises")

    def _recorded(self, version: SizedProgram, call: TfCall) -> TfProgram:
        """The program that a tape records, with its gradient."""
        with self._lock:
            assert version.program is not None, "the caller has one"
            untrained = watched_untrained(version.program)
            key = tuple(map(id, untrained))
            found = version.recorded.get(key)
            if found is None:
                try:
                    found = RecordedProgram(call.flat(), version.specs(call.tensors), version.program, untrained)
                except (NotImplementedError, TypeError, ValueError, tf.errors.OpError) as error:  # TensorFlow's
                    raise NotYetError(
                        f"TensorFlow makes no gradient of it for open sizes: {words_of(error)}"
                    ) from error
                version.recorded[key] = found
        return found

    # What there is

    def _info(self, program: SizedProgram) -> CacheInfo:
        return super()._info(program)._replace(traces=0)  # TensorFlow's are counted

    def _counted(self, info: CacheInfo) -> Mapping[str, int]:
        return {**super()._counted(info), "trace": info.traces}


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
