"""erf of 512-bit float32 vectors by tables that stand in registers.

|x| is split into ``n*step + r`` with n below 16; the coefficients of the n-th polynomial are picked by ``vpermps``, for
all lanes at once. It takes no division and no multiplication beyond the polynomial's, and is a fifth faster than the
quotient in ``vector_math.py``, and more exact. (For tanh, which needs 16 polynomials of degree 7, the quotient is
faster.)
"""

from __future__ import annotations

from collections.abc import Sequence

from dyn.lower.x86.llvm_text import VType, constant, float_literal
from dyn.lower.x86.machine import Machine

_STEP = 35 / 128
#: The k-th row holds the coefficients of r**k, for |r| <= step/2 (r >= 0 for n = 0), 5.4e-8 relative. They were rounded
#: to float32 one after another, each time with a new fit of the rest.
_ERF = (
    (
        0.0, 0.30102095007896423, 0.5607131719589233, 0.7539907097816467, 0.87808758020401, 0.9468247890472412,
        0.9796696305274963, 0.9932084083557129, 0.9980224967002869, 0.9994991421699524, 0.9998897910118103,
        0.9999789595603943, 0.999996542930603, 0.9999995231628418, 0.9999999403953552, 1.0,
    ),
    (
        1.1283791065216064, 1.0470894575119019, 0.8366997838020325, 0.5757220387458801, 0.34112483263015747,
        0.17404882609844208, 0.07646913081407547, 0.028930669650435448, 0.009425146505236626, 0.0026440825313329697,
        0.000638732744846493, 0.00013286808098200709, 2.380013575020712e-05, 3.6710935091832653e-06,
        4.876056891589542e-07, 0.0,
    ),
    (
        1.3998567737871781e-05, -0.28630515933036804, -0.4575684666633606, -0.4722691476345062, -0.3731088936328888,
        -0.23797114193439484, -0.12546288967132568, -0.05538374185562134, -0.020612070336937904, -0.006511016748845577,
        -0.0017370879650115967, -0.00039425879367627203, -8.650281961308792e-05, -2.1764424673165195e-05,
        -2.7312837573845172e-06, 0.0,
    ),
    (
        -0.376633882522583, -0.2968751788139343, -0.11209939420223236, 0.06635604053735733, 0.15834052860736847,
        0.1588706076145172, 0.11172947287559509, 0.06101805716753006, 0.02692571096122265, 0.009793966077268124,
        0.002970766043290496, 0.000757004541810602, 0.0001628684112802148, 2.9692462703678757e-05,
        4.599186922860099e-06, 0.0,
    ),
    (
        0.00596225168555975, 0.13482128083705902, 0.18217629194259644, 0.12973420321941376, 0.03819945454597473,
        -0.02814939059317112, -0.04927576705813408, -0.039437152445316315, -0.022905047982931137, -0.009726281277835369,
        -0.004000561777502298, -0.001297207665629685, 0.0001889678242150694, 0.0004008231917396188,
        3.626928082667291e-05, 0.0,
    ),
    (
        0.09046658128499985, 0.07542423158884048, -0.005205346271395683, -0.061803385615348816, -0.0634584128856659,
        -0.031583357602357864, -0.000955782481469214, 0.012155539356172085, 0.011641710065305233, 0.00680295517668128,
        0.0029327243100851774, 0.0009933309629559517, 0.0002720746269915253, 6.129004759714007e-05,
        1.1463350347185042e-05, 0.0,
    ),
)  # fmt: skip

#: Added to a number below 2**22, this leaves its rounded value in the lowest bits.
_MAGIC = 12582912.0


def _row(m: Machine, ty: VType, k: int, values: Sequence[float]) -> str:
    name = f"dyn.erf.{k}"
    if name not in m.helpers:
        text = ", ".join([f"float {float_literal(value, 'float')}" for value in values])
        m.helpers[name] = f"@{name} = internal constant {ty} <{text}>, align 64"
    return m.fn.load(ty, f"@{name}", 64)


def erf(m: Machine, ty: VType, x: str) -> str:
    """3 ulp, for ``<16 x float>`` and AVX-512. The last polynomial is the constant 1."""
    fn, bits = m.fn, ty.of("i32")
    size = fn.intrinsic("fabs", ty, x)
    most = constant(15 * _STEP, ty)
    size = fn.select(fn.op("fcmp olt", ty, most, size), ty, most, size)
    shifted = m.fma(ty, size, constant(1 / _STEP, ty), constant(_MAGIC, ty))
    n = fn.op("fadd", ty, shifted, constant(-_MAGIC, ty))
    r = m.fma(ty, n, constant(-_STEP, ty), size)
    index = fn.cast("bitcast", ty, shifted, bits)
    y = ""
    for k in range(len(_ERF) - 1, -1, -1):
        row = _row(m, ty, k, _ERF[k])
        c = fn.call("llvm.x86.avx512.permvar.sf.512", ty, [(ty, row), (bits, index)])
        y = m.fma(ty, y, r, c) if y else c
    return fn.intrinsic("copysign", ty, y, x)
