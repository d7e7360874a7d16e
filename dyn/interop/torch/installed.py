"""The PyTorch that is installed: nothing here works with another version, whose internals are others.

The names that have no public one are all asked for before anything rests on them.
"""

from __future__ import annotations

from collections.abc import Mapping

from dyn.errors import BackendUnavailableError
from dyn.interop.internal_names import absent, lacks
from dyn.requirements import install_extra

#: The versions that the tests have passed with.
KNOWN = ("2.13", "2.14", "2.15")
_NEEDS = f"dyn.interop.torch needs one of {', '.join(f'torch=={version}.*' for version in KNOWN)}."
_REMEDY = f"install it with: {install_extra('torch')}"

#: The names without a public one, by the module that has them. A test finds those that are used and not here.
NAMES: Mapping[str, tuple[str, ...]] = {
    "torch._C": (
        "DisableTorchFunction", "DispatchKey.AutocastCPU", "DispatchKey.AutocastCUDA", "DispatchKey.Autograd",
        "DispatchKey.CompositeExplicitAutograd", "DispatchKey.CompositeImplicitAutograd", "DispatchKeySet",
        "_ExcludeDispatchKeyGuard", "_InferenceMode", "_LinAlgError", "_current_graph_task_id", "_dispatch_has_kernel",
        "_dispatch_tls_is_dispatch_key_excluded", "_get_obj_in_tls", "_is_any_autocast_enabled", "_is_key_in_tls",
        "_len_torch_dispatch_stack", "_len_torch_function_stack", "_set_grad_enabled", "_set_throw_on_mutable_data_ptr",
        "_will_engine_execute_node",
    ),
    "torch._C._dynamo.guards": ("set_is_in_mode_without_ignore_compile_internals",),
    "torch._C._functorch": ("TransformType", "is_functorch_wrapped_tensor", "peek_interpreter_stack"),
    "torch": ("_TorchCompileWrapper", "_check"),
    "torch._decomp": ("core_aten_decompositions", "decomposition_table"),
    "torch._decomp.decompositions": ("upsample_compute_output_size",),
    "torch._dispatch.python": ("enable_python_dispatcher", "no_python_dispatcher"),
    "torch._dynamo.aot_compile_types": ("SerializableCallable",),
    "torch._dynamo.config": ("caching_precompile",),
    "torch._dynamo": ("trace_rules",),
    "torch._dynamo.variables": ("UserFunctionVariable",),
    "torch._functorch.autograd_function": ("autograd_function_apply",),
    "torch._guards": ("CompileContext",),
    "torch._higher_order_ops.cond": ("cond_op",),
    "torch._higher_order_ops.effects": ("_get_effect",),
    "torch._higher_order_ops.flex_attention": ("flex_attention", "math_attention"),
    "torch._higher_order_ops.invoke_subgraph": ("invoke_subgraph",),
    "torch._higher_order_ops.map": ("map_impl",),
    "torch._higher_order_ops.scan": ("scan_op",),
    "torch._higher_order_ops.while_loop": ("while_loop_op",),
    "torch._ops": ("HigherOrderOperator", "OpOverload"),
    "torch._prims_common": ("ELEMENTWISE_TYPE_PROMOTION_KIND", "elementwise_dtypes"),
    "torch._subclasses.fake_tensor": (
        "DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor", "FakeTensorMode",
        "UnsupportedFakeTensorException", "UnsupportedOperatorException", "in_kernel_invocation_manager",
    ),
    "torch.compiler": ("_is_compiling_flag",),
    "torch.export.dynamic_shapes": ("_DerivedDim", "_DimHint", "_DimHintType"),
    "torch.fx._graph_pickler": ("GraphPickler", "Options"),
    "torch.nn.modules.module": ("_forward_unimplemented", "_has_any_global_hook"),
    "torch.utils._python_dispatch": (
        "TorchDispatchMode", "_disable_current_modes", "_get_current_dispatch_mode_stack",
        "is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type",
    ),
    "torch.utils._pytree": (
        "GetAttrKey", "KeyEntry", "MappingKey", "SUPPORTED_NODES", "SequenceKey", "TreeSpec", "keystr", "tree_flatten",
        "tree_flatten_with_path", "tree_leaves", "tree_map", "tree_structure", "tree_unflatten",
    ),
    "torch.utils._sympy.interp": ("sympy_interp",),
    "torch.utils._sympy.reference": ("PythonReferenceAnalysis",),
}  # fmt: skip
#: Those of modules that take seconds to import, which only ``torch.compile`` needs.
BACKEND_NAMES: Mapping[str, tuple[str, ...]] = {
    "torch._dynamo.backends.common": ("aot_autograd",),
    "torch._dynamo.precompile_context": ("BackendCacheArtifact", "PrecompileContext"),
    "torch._dynamo.repro.after_dynamo": ("WrapBackendDebug",),
    "torch.fx.experimental._config": ("use_duck_shape",),
}


def check() -> None:
    """Raise BackendUnavailableError where PyTorch cannot be imported, or is of another version."""
    try:
        import torch
    except ImportError as error:
        raise BackendUnavailableError(f"PyTorch cannot be imported ({error}), and {_NEEDS}", remedy=_REMEDY) from None
    version = str(torch.__version__)
    if ".".join(version.split(".")[:2]) not in KNOWN:
        raise BackendUnavailableError(f"PyTorch {version} is installed, and {_NEEDS}", remedy=_REMEDY)
    check_names(NAMES)


def check_names(names: Mapping[str, tuple[str, ...]]) -> None:
    """Raise BackendUnavailableError where modules of PyTorch's have not all of some names."""
    lacking = [one for module, own in names.items() for one in absent(module, own)]
    if lacking:
        raise missing(*lacking)


def missing(*names: str) -> BackendUnavailableError:
    """The error that says which of PyTorch's internals are missing."""
    import torch

    return lacks("PyTorch", str(torch.__version__), names, KNOWN, _REMEDY)
