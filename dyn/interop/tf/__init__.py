"""TensorFlow and Keras: ``jit`` compiles their functions and models, once for every shape."""

from dyn.interop.tf.installed import check

check()

from dyn.frontend.fallback import FallbackWarning  # noqa: E402
from dyn.interop.tf.calls import TfCallable, call  # noqa: E402  # TensorFlow is there
from dyn.interop.tf.jit import TfJitted, jit  # noqa: E402
from dyn.interop.tf.saved import load  # noqa: E402

__all__ = ["FallbackWarning", "TfCallable", "TfJitted", "call", "jit", "load"]
