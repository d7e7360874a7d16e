"""TensorFlow, and those parts of it that have no public name.

What it says of its types is not complete, so that all are ``Any``. Imported once
:func:`dyn.interop.tf.installed.check` has found the version that these are parts of.
"""

from __future__ import annotations

import importlib
from typing import Any

tf: Any = importlib.import_module("tensorflow")
#: Eager operations, and what tapes record.
pywrap_tfe: Any = importlib.import_module("tensorflow.python.pywrap_tfe")
context: Any = importlib.import_module("tensorflow.python.eager.context")
execute: Any = importlib.import_module("tensorflow.python.eager.execute")
record: Any = importlib.import_module("tensorflow.python.eager.record")
tape: Any = importlib.import_module("tensorflow.python.eager.tape")
#: The definitions of functions, as messages.
function_pb2: Any = importlib.import_module("tensorflow.core.framework.function_pb2")
#: The definitions of operations.
op_def_registry: Any = importlib.import_module("tensorflow.python.framework.op_def_registry")
resource_variable_ops: Any = importlib.import_module("tensorflow.python.ops.resource_variable_ops")
EagerTensor: Any = importlib.import_module("tensorflow.python.framework.ops").EagerTensor
FuncGraph: Any = importlib.import_module("tensorflow.python.framework.func_graph").FuncGraph
auto_control_deps_utils: Any = importlib.import_module("tensorflow.python.framework.auto_control_deps_utils")
control_flow_util: Any = importlib.import_module("tensorflow.python.ops.control_flow_util")
distribute_lib: Any = importlib.import_module("tensorflow.python.distribute.distribute_lib")
save_context: Any = importlib.import_module("tensorflow.python.saved_model.save_context")
