"""Calls of ``scipy.fft``."""

from __future__ import annotations

from tests.libraries.calls import Table, complexes, normal, positive

TABLE = Table("scipy.fft")
_add = TABLE.add

_add("fft ifft fft2 ifft2 fftn ifftn", complexes("n 4"))
_add("hfft hfft2 hfftn irfft irfft2 irfftn", complexes("n 4"))
_add("rfft rfft2 rfftn ihfft ihfft2 ihfftn", normal("n 4"))
_add("dct dctn dst dstn idct idctn idst idstn", normal("n 4"))
_add("fftshift ifftshift", normal("n 4"))
_add("fht ifht", positive("n"), by=lambda f, xp, a: f(a, 0.1, 0.5))
_add("fftfreq rfftfreq", normal("n"), by=lambda f, xp, x: f(x.shape[0], d=0.5, xp=xp))
