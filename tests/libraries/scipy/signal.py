"""Calls of ``scipy.signal`` on signals, and of its windows."""

from __future__ import annotations

from typing import Any

from tests.libraries.calls import Table, constant, normal, rising, uniform

TABLE = Table("scipy.signal")
WINDOWS = Table("scipy.signal.windows")
_add = TABLE.add

#: A low-pass Butterworth filter of order two, as ``b, a`` and as second-order sections.
B, A = constant([0.2, 0.4, 0.2]), constant([1.0, -0.4, 0.2])
SOS = constant([[0.2, 0.4, 0.2, 1.0, -0.4, 0.2]])

_add("convolve correlate fftconvolve oaconvolve", normal("n"), normal("3"))
_add("convolve2d correlate2d", normal("n 6"), normal("3 3"))
_add("choose_conv_method", normal("n"), normal("3"))
_add("deconvolve", normal("n"), constant([1.0, 0.5]))
_add("detrend", normal("n"))
_add("envelope hilbert", normal("n"), more=5)
_add("hilbert2", normal("n 6"))
_add("filtfilt", B, A, normal("n"), more=10)
_add("lfilter", B, A, normal("n"))
_add("lfilter_zi", B, A)
_add("lfiltic", B, A, normal("2"))
_add("medfilt", normal("n"), kernel_size=3)
_add("medfilt2d wiener", normal("n 6"))
_add("order_filter", normal("n"), by=lambda f, xp, x: f(x, xp.ones(3), 1))
_add("resample", normal("n"), num=7)
_add("resample_poly", normal("n"), up=3, down=2)
_add("savgol_filter", normal("n"), more=5, window_length=5, polyorder=2)
_add("savgol_coeffs", normal("n"), by=lambda f, xp, x: f(5, 2, xp=xp) * xp.sum(x))
_add("sosfilt", SOS, normal("n"))
_add("sosfilt_zi", SOS)
_add("sosfiltfilt", SOS, normal("n"), more=12)
_add("vectorstrength", rising("n"), constant(2.0))
_add("cspline1d qspline1d", normal("n"), more=3)
_add("cspline1d_eval qspline1d_eval", normal("n"), uniform("n", 1.0, 3.0), more=4)
_add("cspline2d spline_filter", normal("n 40"), more=40)
_add("gauss_spline", normal("n"), n=3)
_add("upfirdn", normal("3"), normal("n"), up=2, down=1)
_add("get_window", normal("n"), by=lambda f, xp, x: x * f("hann", x.shape[0], xp=xp))


def _window(*values: Any, **options: Any) -> Any:
    """Call a window's function for the length of a signal, and multiply."""
    return lambda f, xp, x: x * f(x.shape[0], *values, **options, xp=xp)


_NAMES = (
    "barthann bartlett blackman blackmanharris bohman boxcar cosine exponential flattop hamming hann lanczos "
    "nuttall parzen taylor triang tukey"
)
WINDOWS.add(_NAMES, normal("n"), by=_window())
WINDOWS.add("chebwin", normal("n"), by=_window(100))
WINDOWS.add("gaussian", normal("n"), by=_window(2.0))
WINDOWS.add("general_cosine", normal("n"), by=lambda f, xp, x: x * f(x.shape[0], xp.asarray([0.5, 0.3, 0.2])))
WINDOWS.add("general_gaussian", normal("n"), by=_window(1.5, 2.0))
WINDOWS.add("general_hamming", normal("n"), by=_window(0.7))
WINDOWS.add("kaiser", normal("n"), by=_window(5.0))
WINDOWS.add("kaiser_bessel_derived", normal("2n"), by=_window(5.0))
WINDOWS.add("get_window", normal("n"), by=lambda f, xp, x: x * f(("kaiser", 4.0), x.shape[0], xp=xp))
