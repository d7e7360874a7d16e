"""``grad``, ``vmap`` and their kin, as in JAX: functions of functions.

Inside a trace (in a jitted function, or in one another) they write ops into the program at hand. Called with arrays
they run the function to trace it, as JAX does outside of ``jit``, and its program is compiled once for every shape and
for every value that it closes over.
"""

from dyn.transforms.batching import vmap
from dyn.transforms.gradients import grad, jvp, linearize, stop_gradient, value_and_grad, vjp
from dyn.transforms.jacobians import hessian, jacfwd, jacobian, jacrev
from dyn.transforms.second_halves import SecondHalf
from dyn.transforms.transformed import Transformed

__all__ = [
    "SecondHalf", "Transformed", "grad", "hessian", "jacfwd", "jacobian", "jacrev", "jvp", "linearize", "stop_gradient",
    "value_and_grad", "vjp", "vmap",
]  # fmt: skip
