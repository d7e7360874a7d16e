"""Calls of the parts of ``scipy.signal`` that design filters and convert their forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.libraries.calls import Maker, Table, constant, uniform
from tests.libraries.scipy.signal import SOS, A, B

TABLE = Table("scipy.signal")
_add = TABLE.add


def near(values: Any) -> Maker:
    """Numbers within a hundredth of those given, so that programs see others in each call."""
    return lambda rng, n: np.asarray(values) * rng.uniform(0.99, 1.01)


_BAND = near([0.2, 0.5])
_ZEROS, _POLES = constant([-1.0 + 0.5j, -1.0 - 0.5j]), constant([0.2 + 0.4j, 0.2 - 0.4j, 0.5 + 0j])
_GAIN = near(0.3)
_ANALOG_B, _ANALOG_A = near([1.0]), near([1.0, 1.5, 2.0])


def _prototype(order: int, *values: float) -> Any:
    """Call the prototype of an analog filter, and multiply with a number, so that there is an input."""
    return lambda f, xp, x: [part * x for part in f(order, *values, xp=xp)]


_add("butter bessel", _BAND, by=lambda f, xp, wn: f(3, wn, btype="bandpass"))
_add("cheby1", _BAND, by=lambda f, xp, wn: f(3, 1.0, wn, btype="bandpass"))
_add("cheby2", _BAND, by=lambda f, xp, wn: f(3, 30.0, wn, btype="bandpass"))
_add("ellip", _BAND, by=lambda f, xp, wn: f(3, 1.0, 30.0, wn, btype="bandpass"))
_add("iirfilter", _BAND, by=lambda f, xp, wn: f(3, wn))
_add("iirdesign", near(0.2), near(0.4), gpass=1.0, gstop=30.0)
_add("buttord cheb1ord cheb2ord ellipord", _BAND, near([0.1, 0.6]), gpass=1.0, gstop=30.0)
_add("iirnotch iirpeak", near(0.3), by=lambda f, xp, w: f(w, 20.0, xp=xp))
_add("iircomb", constant(0.25), by=lambda f, xp, w: f(w, 20.0, xp=xp))
_add("gammatone", near(0.3), by=lambda f, xp, w: f(w, "iir", xp=xp))
_add("buttap besselap", near(1.0), by=_prototype(3))
_add("cheb1ap", near(1.0), by=_prototype(3, 1.0))
_add("cheb2ap", near(1.0), by=_prototype(3, 30.0))
_add("ellipap", near(1.0), by=_prototype(3, 1.0, 30.0))
_add("bilinear", _ANALOG_B, _ANALOG_A, fs=2.0)
_add("bilinear_zpk", _ZEROS, _POLES, by=lambda f, xp, z, p: f(z, p, 0.3, fs=2.0))
_add("lp2hp lp2lp", _ANALOG_B, _ANALOG_A, wo=2.0)
_add("lp2bp lp2bs", _ANALOG_B, _ANALOG_A, wo=2.0, bw=0.5)
_add("lp2hp_zpk lp2lp_zpk", _ZEROS, _POLES, by=lambda f, xp, z, p: f(z, p, 0.3, wo=2.0))
_add("lp2bp_zpk lp2bs_zpk", _ZEROS, _POLES, by=lambda f, xp, z, p: f(z, p, 0.3, wo=2.0, bw=0.5))
_add("freqs", _ANALOG_B, _ANALOG_A, uniform("n"))
_add("freqs_zpk freqz_zpk", _ZEROS, _POLES, _GAIN, uniform("n"))
_add("freqz", B, A, uniform("n"))
_add("freqz_sos sosfreqz", SOS, uniform("n"))
_add("group_delay", B, A, uniform("n"), by=lambda f, xp, b, a, w: f((b, a), w))
_add("normalize tf2sos tf2zpk", B, A)
_add("sos2tf sos2zpk", SOS)
_add("zpk2sos zpk2tf", _ZEROS, _POLES, by=lambda f, xp, z, p: f(z, p, 0.3))

_add("firls", near([0.0, 0.3, 0.4, 1.0]), by=lambda f, xp, x: f(7, xp.clip(x, 0.0, 1.0), xp.asarray([1.0, 1, 0, 0])))
_add("firwin", _BAND, by=lambda f, xp, x: f(7, x))
_add("firwin2", near([0.4]), by=lambda f, xp, x: f(7, xp.concat([xp.zeros(1), x, xp.ones(1)]), xp.asarray([1.0, 1, 0])))
_add("minimum_phase", near([0.1, 0.3, 0.5, 0.3, 0.1]))
_add(
    "remez",
    near([0.1, 0.2]),
    by=lambda f, xp, x: f(9, xp.asarray([0.0, 0.1, 0.2, 0.5]) * x[0] / x[0], xp.asarray([1.0, 0.0])),
)

_AB = (near([[0.0, 1.0], [-2.0, -0.7]]), near([[0.0], [1.0]]))
_add("abcd_normalize", *_AB, near([[1.0, 0.0]]), near([[0.0]]))
_add("bode", _ANALOG_B, _ANALOG_A, uniform("n"), by=lambda f, xp, b, a, w: f((b, a), w))
_add("impulse", _ANALOG_B, _ANALOG_A, by=lambda f, xp, b, a: f((b, a), N=20))
_add("place_poles", *_AB, constant([-1.0, -2.0]), by=lambda f, xp, a, b, p: f(a, b, p).gain_matrix)
