"""The converters of TensorFlow's operations, ``@converts("MatMul")``, and the folds of known values.

The modules of ``dyn.interop.tf.ops`` fill them.
"""

from __future__ import annotations

from dyn.interop.converters import ConverterRegistry

#: TensorFlow's operations.
OPERATIONS = ConverterRegistry()
converts, takes_call, folds = OPERATIONS.converts, OPERATIONS.takes_call, OPERATIONS.folds_known
