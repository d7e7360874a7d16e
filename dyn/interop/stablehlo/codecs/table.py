"""The codec of each op, by the op's name."""

from __future__ import annotations

from dyn.errors import NotYetError
from dyn.interop.stablehlo.codecs import (
    calls,
    contract,
    control,
    elementwise,
    folds,
    indexing,
    linalg,
    of_numbers,
    random_bits,
    shape,
    sorting,
)
from dyn.interop.stablehlo.hlo import Codec
from dyn.ir.opdef import OpDef
from dyn.ops.compaction import by_scatter
from dyn.ops.reduce import identity
from dyn.ops.threefry import NAMES, cipher
from dyn.ops.variadic_reduce import reduced
from dyn.source import Loc

_WITHOUT_DERIVATIVES = calls.written_out("derivatives are not written")

#: By the name of the op. An op that is not here can be computed and not written.
CODECS: dict[str, Codec] = {
    **{name: elementwise.twin(name) for name in elementwise.TWINS},
    **{
        name: of_numbers.of_complex(elementwise.twin(name), getattr(of_numbers, name))
        for name in ("atan2", "cbrt", "maximum", "minimum")
    },
    **elementwise.SPECIAL,
    "bitcast_convert": of_numbers.of_bits(elementwise.bitcast_convert),
    "bitcast_regroup": elementwise.bitcast_regroup,
    "checkpoint_name": elementwise.identity("names are not written"),
    "clamp": elementwise.clamp,
    "compare": elementwise.compare,
    "complex": elementwise.complex_,
    "convert": elementwise.convert,
    "copy": elementwise.identity("a copy"),
    "imag": elementwise.imag,
    "map": elementwise.map_,
    "real": elementwise.real,
    "select": elementwise.select,
    "stop_gradient": elementwise.identity("derivatives are not written"),
    "view_as_real": elementwise.custom("view_as_real"),
    # Movement of elements, and what is made of nothing.
    "broadcast_in_dim": shape.broadcast_in_dim,
    "concatenate": shape.concatenate,
    "constant": shape.constant,
    "dim_size": shape.dim_size,
    "get_dimension_size": shape.get_dimension_size,
    "iota": shape.iota,
    "pad": shape.pad,
    "reshape": shape.reshape,
    "reverse": shape.reverse,
    "slice": shape.slice_,
    "transpose": shape.transpose,
    # Elements at computed places.
    "dynamic_slice": indexing.dynamic_slice,
    "dynamic_update_slice": indexing.dynamic_update_slice,
    "gather": indexing.gather,
    "scatter": indexing.scatter,
    "variadic_scatter": indexing.variadic_scatter,
    # Reductions, windows and running reductions.
    "compact": calls.in_other_ops("a scatter to where a running sum says", by_scatter),
    "cumulative": folds.cumulative(identity),
    "reduce": folds.reduce(identity),
    "reduce_window": folds.reduce_window(identity),
    "select_and_scatter": folds.select_and_scatter,
    "variadic_reduce": folds.variadic_reduce(reduced),
    "variadic_reduce_window": folds.variadic_reduce_window,
    "window_choice": folds.window_choice,
    # Products, linear algebra, Fourier transforms, normalisation.
    "convolution": contract.convolution,
    "csr_matmul": elementwise.custom("csr_matmul"),
    "dot_general": contract.dot_general,
    "from_panels": elementwise.custom("from_panels"),
    "cholesky": linalg.cholesky,
    "fft": linalg.fft,
    "triangular_solve": linalg.triangular_solve,
    **{name: linalg.batch_norm(name) for name in ("batch_norm_grad", "batch_norm_inference", "batch_norm_training")},
    **{
        name: elementwise.custom(name)
        for name in ("adjugate", "det", "eig", "eigh", "inverse", "lu", "pinv", "qr", "slogdet", "solve", "svd")
    },
    # Sorting.
    "sort": sorting.sort,
    "sort_by": sorting.sort_by,
    "top_k": sorting.top_k,
    # Random numbers.
    "random_gamma": elementwise.custom("random_gamma"),
    "random_poisson": elementwise.custom("random_poisson", dtype=True),
    "rng_bit_generator": random_bits.rng_bit_generator,
    "threefry2x32": indexing.threefry(cipher, NAMES),
    # Control flow, calls, barriers.
    "case": control.case,
    "if": control.if_,
    "scan": control.scan,
    "while": control.while_,
    "checkpoint": calls.written_out("with the barriers of second passes"),
    "composite": calls.composite,
    "custom_call": calls.custom_call,
    "custom_jvp_call": _WITHOUT_DERIVATIVES,
    "custom_vjp_call": _WITHOUT_DERIVATIVES,
    "custom_vjp_forward": _WITHOUT_DERIVATIVES,
    "measure": calls.measure,
    "optimization_barrier": calls.optimization_barrier,
}


def codec_of(op: OpDef, loc: Loc | None = None) -> Codec:
    """The codec of an op.

    Raises:
        NotYetError: at ``loc``, if it has no form in StableHLO.
    """
    found = CODECS.get(op.name)
    if found is None:
        raise NotYetError(f"{op.name} has no form in StableHLO yet.", loc=loc)
    return found
