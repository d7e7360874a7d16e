"""NumPy's functions, by the names of NumPy and of the Python array API standard, on arrays of undecided shapes.

Inside a function that is being traced they record what is to be computed; outside they compile it and run it at once.
Outside the results are of the library whose arrays were given, or ``dyn.Array``. The names and signatures are those of
the standard's version 2024.12, with NumPy's further options. What is not there yet raises ``dyn.errors.NotYetError``.
"""

from __future__ import annotations

from importlib import import_module
from math import e, inf, nan, pi
from typing import TYPE_CHECKING, Any

from ml_dtypes import (
    bfloat16,
    float8_e3m4,
    float8_e4m3,
    float8_e4m3b11fnuz,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
)
from numpy import (
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    newaxis,
    uint8,
    uint16,
    uint32,
    uint64,
)

from dyn.late_imports import import_whole
from dyn.numpy._binary import (
    add,
    clip,
    divide,
    divmod,
    float_power,
    floor_divide,
    fmax,
    fmin,
    fmod,
    heaviside,
    hypot,
    logaddexp,
    logaddexp2,
    maximum,
    minimum,
    mod,
    multiply,
    pow,
    power,
    remainder,
    subtract,
    true_divide,
)
from dyn.numpy._bits import (
    bitwise_count,
    bitwise_left_shift,
    bitwise_right_shift,
    copysign,
    left_shift,
    nextafter,
    right_shift,
    signbit,
)
from dyn.numpy._calculus import ediff1d, gradient, trapezoid, unwrap
from dyn.numpy._comparing import (
    allclose,
    array_equal,
    array_equiv,
    iscomplex,
    iscomplexobj,
    isreal,
    isrealobj,
    isscalar,
)
from dyn.numpy._convolving import convolve, correlate
from dyn.numpy._counting import bincount, histogram, histogram2d, histogram_bin_edges, histogramdd
from dyn.numpy._creation import (
    arange,
    array,
    asanyarray,
    asarray,
    ascontiguousarray,
    copy,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    identity,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tri,
    tril,
    triu,
    zeros,
    zeros_like,
)
from dyn.numpy._cumulative import cumprod, cumsum, cumulative_prod, cumulative_sum
from dyn.numpy._diagonal import diag, diagonal, trace
from dyn.numpy._dtypes import can_cast, finfo, iinfo, isdtype, promote_types, result_type
from dyn.numpy._editing import (
    append,
    block,
    choose,
    delete,
    diagflat,
    fill_diagonal,
    insert,
    piecewise,
    place,
    put,
    resize,
    rollaxis,
)
from dyn.numpy._einsum import einsum
from dyn.numpy._float_parts import frexp, ldexp, modf, spacing
from dyn.numpy._grids import (
    diag_indices,
    diag_indices_from,
    fromfunction,
    indices,
    ix_,
    ravel_multi_index,
    tril_indices,
    tril_indices_from,
    triu_indices,
    triu_indices_from,
    unravel_index,
)
from dyn.numpy._indexing.index_tricks import index_exp, mgrid, ogrid, s_
from dyn.numpy._indexing.nonzero import argwhere, compress, extract, flatnonzero, nonzero
from dyn.numpy._indexing.selection import diff, nan_to_num, select, where
from dyn.numpy._indexing.take import put_along_axis, take, take_along_axis
from dyn.numpy._integers import gcd, lcm
from dyn.numpy._joining import (
    array_split,
    column_stack,
    concat,
    concatenate,
    dsplit,
    dstack,
    hsplit,
    hstack,
    repeat,
    roll,
    split,
    stack,
    tile,
    unstack,
    vsplit,
    vstack,
)
from dyn.numpy._linalg.products import dot, inner, matmul, outer, tensordot, vdot, vecdot
from dyn.numpy._linalg.vector_products import cross, kron
from dyn.numpy._logic import (
    bitwise_and,
    bitwise_invert,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    equal,
    greater,
    greater_equal,
    invert,
    isclose,
    isfinite,
    isinf,
    isnan,
    isneginf,
    isposinf,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
)
from dyn.numpy._manipulation import (
    astype,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    expand_dims,
    flatten,
    flip,
    fliplr,
    flipud,
    matrix_transpose,
    moveaxis,
    ndim,
    permute_dims,
    ravel,
    reshape,
    rot90,
    shape,
    size,
    squeeze,
    swapaxes,
    transpose,
)
from dyn.numpy._mapped import apply_along_axis, apply_over_axes, vectorize
from dyn.numpy._moments import average, mean, std, var
from dyn.numpy._nan_reductions import nanargmax, nanargmin, nanmax, nanmean, nanmin, nanprod, nanstd, nansum, nanvar
from dyn.numpy._packing import packbits, unpackbits
from dyn.numpy._padding import pad
from dyn.numpy._polynomials import poly, polyadd, polyder, polyint, polymul, polysub, polyval, vander
from dyn.numpy._reductions import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    count_nonzero,
    max,
    min,
    prod,
    ptp,
    sum,
)
from dyn.numpy._sorting.lexsort import lexsort
from dyn.numpy._sorting.quantiles import (
    argpartition,
    median,
    nanmedian,
    nanpercentile,
    nanquantile,
    partition,
    percentile,
    quantile,
)
from dyn.numpy._sorting.search import digitize, interp, isin, searchsorted
from dyn.numpy._sorting.sets import intersect1d, setdiff1d, setxor1d, trim_zeros, union1d
from dyn.numpy._sorting.sort import argsort, sort, sort_complex
from dyn.numpy._sorting.unique import unique, unique_all, unique_counts, unique_inverse, unique_values
from dyn.numpy._special import bartlett, blackman, hamming, hanning, i0, kaiser, sinc
from dyn.numpy._standard import __array_api_version__, __array_namespace_info__
from dyn.numpy._statistics import corrcoef, cov, geomspace, logspace, nancumprod, nancumsum
from dyn.numpy._trig import (
    acos,
    acosh,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cos,
    cosh,
    deg2rad,
    degrees,
    rad2deg,
    radians,
    sin,
    sinh,
    tan,
    tanh,
)
from dyn.numpy._unary import (
    abs,
    absolute,
    angle,
    around,
    cbrt,
    ceil,
    conj,
    conjugate,
    exp,
    exp2,
    expm1,
    fabs,
    floor,
    imag,
    log,
    log1p,
    log2,
    log10,
    negative,
    positive,
    real,
    reciprocal,
    rint,
    round,
    sign,
    sqrt,
    square,
    trunc,
)

if TYPE_CHECKING:
    from dyn.numpy import fft, linalg, special

bool = bool_


def __getattr__(name: str) -> Any:
    if name in ("fft", "linalg", "special"):  # imported when they are first asked for
        import_whole(f"dyn.numpy.{name}")
        return import_module(f"dyn.numpy.{name}")
    raise AttributeError(f"module 'dyn.numpy' has no attribute {name!r}")


__all__ = [
    "__array_api_version__", "__array_namespace_info__", "abs", "absolute", "acos", "acosh", "add", "all",
    "allclose", "amax", "amin", "angle", "any", "append", "apply_along_axis", "apply_over_axes", "arange",
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin",
    "argpartition", "argsort", "argwhere", "around", "array", "array_equal", "array_equiv", "array_split",
    "asanyarray", "asarray", "ascontiguousarray", "asin", "asinh", "astype", "atan", "atan2", "atanh",
    "atleast_1d", "atleast_2d", "atleast_3d", "average", "bartlett", "bfloat16", "bincount", "bitwise_and",
    "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "blackman", "block", "bool", "bool_", "broadcast_arrays", "broadcast_shapes", "broadcast_to",
    "can_cast", "cbrt", "ceil", "choose", "clip", "column_stack", "complex128", "complex64", "compress",
    "concat", "concatenate", "conj", "conjugate", "convolve", "copy", "copysign", "corrcoef", "correlate",
    "cos", "cosh", "count_nonzero", "cov", "cross", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum",
    "deg2rad", "degrees", "delete", "diag", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "diff",
    "digitize", "divide", "divmod", "dot", "dsplit", "dstack", "e", "ediff1d", "einsum", "empty", "empty_like",
    "equal", "exp", "exp2", "expand_dims", "expm1", "extract", "eye", "fabs", "fft", "fill_diagonal", "finfo",
    "flatnonzero", "flatten", "flip", "fliplr", "flipud", "float16", "float32", "float64", "float8_e3m4",
    "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float_power",
    "floor", "floor_divide", "fmax", "fmin", "fmod", "frexp", "from_dlpack", "fromfunction", "full",
    "full_like", "gcd", "geomspace", "gradient", "greater", "greater_equal", "hamming", "hanning", "heaviside",
    "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "hsplit", "hstack", "hypot", "i0",
    "identity", "iinfo", "imag", "index_exp", "indices", "inf", "inner", "insert", "int16", "int32", "int64",
    "int8", "interp", "intersect1d", "invert", "isclose", "iscomplex",
    "iscomplexobj", "isdtype", "isfinite", "isin", "isinf",
    "isnan", "isneginf", "isposinf", "isreal", "isrealobj", "isscalar", "ix_", "kaiser", "kron", "lcm", "ldexp",
    "left_shift", "less", "less_equal", "lexsort", "linalg", "linspace", "log", "log10", "log1p", "log2",
    "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor", "logspace", "matmul",
    "matrix_transpose", "max", "maximum", "mean", "median", "meshgrid", "mgrid", "min", "minimum", "mod",
    "modf", "moveaxis", "multiply", "nan", "nan_to_num", "nanargmax", "nanargmin", "nancumprod", "nancumsum",
    "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum",
    "nanvar", "ndim", "negative", "newaxis", "nextafter", "nonzero", "not_equal", "ogrid", "ones", "ones_like",
    "outer", "packbits", "pad", "partition", "percentile", "permute_dims", "pi", "piecewise", "place", "poly",
    "polyadd", "polyder", "polyint", "polymul", "polysub", "polyval", "positive", "pow", "power", "prod",
    "promote_types", "ptp", "put", "put_along_axis", "quantile", "rad2deg", "radians", "ravel",
    "ravel_multi_index", "real", "reciprocal", "remainder", "repeat", "reshape", "resize", "result_type",
    "right_shift", "rint", "roll", "rollaxis", "rot90", "round", "s_",
    "searchsorted", "select", "setdiff1d", "setxor1d", "shape",
    "sign", "signbit", "sin", "sinc", "sinh", "size", "sort", "sort_complex", "spacing", "split", "special", "sqrt",
    "square", "squeeze", "stack", "std", "subtract", "sum", "swapaxes", "take", "take_along_axis", "tan",
    "tanh", "tensordot", "tile", "trace", "transpose", "trapezoid", "tri", "tril", "tril_indices",
    "tril_indices_from", "trim_zeros", "triu", "triu_indices", "triu_indices_from", "true_divide", "trunc", "uint16",
    "uint32", "uint64", "uint8", "union1d", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "unpackbits", "unravel_index", "unstack", "unwrap", "vander", "var", "vdot", "vecdot", "vectorize",
    "vsplit", "vstack", "where", "zeros", "zeros_like",
]  # fmt: skip
