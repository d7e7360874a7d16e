"""TensorFlow, and those parts of it that have no public name, with the names that are used of each.

What it says of its types is not complete, so that all are ``Any``. Imported once
:func:`dyn.interop.tf.installed.check` has found the version that these are parts of.
"""

from __future__ import annotations

from typing import Any

from dyn.interop.tf.installed import asked

tf: Any = asked(
    "tensorflow", "__internal__.CompositeTensor", "__internal__.autograph.control_status_ctx",
    "__internal__.autograph.tf_convert",
)  # fmt: skip
#: Eager operations, and what tapes record.
pywrap_tfe: Any = asked(
    "tensorflow.python.pywrap_tfe", "TFE_FromDlpackCapsule", "TFE_Py_FastPathExecute", "TFE_Py_TapeSetIsEmpty",
    "TFE_Py_TapeSetShouldRecordBackprop",
)  # fmt: skip
context: Any = asked(
    "tensorflow.python.eager.context", "context", "eager_mode", "executing_eagerly", "global_seed",
    "internal_operation_seed",
)  # fmt: skip
execute: Any = asked("tensorflow.python.eager.execute", "execute")
record: Any = asked("tensorflow.python.eager.record", "record_operation", "stop_recording")
tape: Any = asked("tensorflow.python.eager.tape", "variable_accessed")
#: The definitions of functions, as messages.
function_pb2: Any = asked("tensorflow.core.framework.function_pb2", "FunctionDef")
#: The definitions of operations.
op_def_registry: Any = asked("tensorflow.python.framework.op_def_registry", "get")
resource_variable_ops: Any = asked(
    "tensorflow.python.ops.resource_variable_ops", "get_eager_safe_handle_data", "variable_accessed"
)
EagerTensor: Any = asked("tensorflow.python.framework.ops", "EagerTensor").EagerTensor
FuncGraph: Any = asked("tensorflow.python.framework.func_graph", "FuncGraph").FuncGraph
auto_control_deps_utils: Any = asked(
    "tensorflow.python.framework.auto_control_deps_utils", "get_read_only_resource_input_indices_graph"
)
control_flow_util: Any = asked("tensorflow.python.ops.control_flow_util", "GraphOrParentsInXlaContext")
distribute_lib: Any = asked(
    "tensorflow.python.distribute.distribute_lib", "ReplicaContextBase", "_DefaultReplicaContext"
)
save_context: Any = asked("tensorflow.python.saved_model.save_context", "in_save_context")
