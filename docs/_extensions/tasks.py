"""What people come to the reference for: names by task, and those that each module is opened for.

Only the order stands here. What is said of a name is the first line of its docstring, and a name that is not here has
its place all the same: under the file that defines it, or at the end of its module's page.
"""

from __future__ import annotations

#: What people do, in the order in which they come to it, and the names that do it.
TASKS = {
    "Compile a function for every shape": (
        "dyn.jit", "dyn.Jitted", "dyn.ShapeDtypeStruct", "dyn.Traced", "dyn.Lowered", "dyn.Compiled",
    ),
    "Say what is known of sizes": ("dyn.Dim", "dyn.lax.as_dim"),
    "Compile functions and models of other libraries": (
        "dyn.interop.jax.jit", "dyn.interop.torch.jit", "dyn.interop.tf.jit", "dyn.interop.keras.compile",
        "dyn.interop.onnx.load", "dyn.interop.stablehlo.load", "dyn.interop.tf.load",
    ),
    "Give programs of dyn to other libraries": (
        "dyn.interop.jax.call", "dyn.interop.jax.exported", "dyn.interop.tf.call", "dyn.interop.stablehlo.dump",
    ),
    "Differentiate": (
        "dyn.grad", "dyn.value_and_grad", "dyn.vjp", "dyn.jvp", "dyn.linearize", "dyn.jacrev", "dyn.jacfwd",
        "dyn.jacobian", "dyn.hessian", "dyn.stop_gradient", "dyn.custom_vjp", "dyn.custom_jvp",
    ),
    "Differentiate in less memory": ("dyn.checkpoint", "dyn.remat", "dyn.checkpoint_name"),
    "Map over examples": ("dyn.vmap",),
    "Loop and branch": (
        "dyn.lax.scan", "dyn.lax.fori_loop", "dyn.lax.while_loop", "dyn.lax.cond", "dyn.lax.switch", "dyn.lax.map",
        "dyn.lax.associative_scan",
    ),
    "Hold arrays, and move them to devices": (
        "dyn.asarray", "dyn.Array", "dyn.device_put", "dyn.devices", "dyn.Device", "dyn.NotAViewWarning",
    ),
    "See what was compiled, and where time goes": (
        "dyn.report", "dyn.profile", "dyn.CacheInfo", "dyn.cache_info", "dyn.CodeInfo", "dyn.RecompileWarning",
        "dyn.interop.torch.explain",
    ),
    "Find what is wrong with a call": ("dyn.bisect", "dyn.minify", "dyn.debug.program"),
    "Look at values, and call out of programs": (
        "dyn.debug.print", "dyn.debug.callback", "dyn.pure_callback", "dyn.io_callback", "dyn.ffi_call",
    ),
    "Work with trees of arrays": ("dyn.tree.map", "dyn.tree.flatten", "dyn.tree.unflatten", "dyn.tree.leaves"),
    "Name element types": ("dyn.dtype", "dyn.DType"),
}  # fmt: skip

#: The names that a module is opened for, which its page begins with. Modules of a few functions have none.
FIRST = {
    "dyn.numpy": (
        "asarray", "zeros", "arange", "reshape", "concatenate", "where", "sum", "mean", "max", "matmul", "einsum",
        "exp", "take", "sort", "cumsum", "nonzero", "unique",
    ),
    "dyn.numpy.linalg": ("solve", "inv", "det", "eigh", "svd", "qr", "cholesky", "lstsq", "norm"),
    "dyn.numpy.fft": ("fft", "ifft", "rfft", "irfft", "fftn", "fftfreq"),
    "dyn.lax": (
        "scan", "fori_loop", "while_loop", "cond", "switch", "map", "associative_scan", "as_dim", "dynamic_slice",
        "top_k", "dot_general", "reduce",
    ),
    "dyn.nn": (
        "linear", "embedding", "gelu", "relu", "softmax", "layer_norm", "rms_norm", "dot_product_attention", "conv",
        "max_pool", "softmax_cross_entropy_with_integer_labels",
    ),
    "dyn.random": (
        "key", "split", "fold_in", "normal", "uniform", "randint", "bernoulli", "categorical", "permutation", "choice",
    ),
    "dyn.tree": ("map", "flatten", "unflatten", "leaves", "structure", "reduce", "register_dataclass"),
}  # fmt: skip

#: The modules whose functions the index by tasks lists too, group by group.
LISTED = (
    "dyn.numpy", "dyn.numpy.linalg", "dyn.numpy.fft", "dyn.numpy.special", "dyn.lax", "dyn.lax.linalg", "dyn.nn",
    "dyn.random", "dyn.tree", "dyn.checkpoint_policies",
)  # fmt: skip
