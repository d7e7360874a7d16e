"""Calls of ``scipy.ndimage``."""

from __future__ import annotations

from typing import Any

from tests.libraries.calls import Table, booleans, classes, complexes, constant, integers, normal, positive

TABLE = Table("scipy.ndimage")
_add = TABLE.add
_PYTHON = "it calls a Python function for each element"


def _shifted(index: Any) -> Any:
    """The place in the input of a place in the output."""
    return (index[0] * 0.9, index[1] * 0.5)


_add("convolve correlate", normal("n 6"), normal("3 3"))
_add("convolve1d correlate1d", normal("n 6"), normal("3"))
_add("gaussian_filter gaussian_filter1d gaussian_gradient_magnitude gaussian_laplace", normal("n 6"), sigma=1.0)
_add("laplace prewitt sobel spline_filter spline_filter1d", normal("n 6"))
_add("maximum_filter minimum_filter median_filter uniform_filter", normal("n 6"), size=3)
_add("maximum_filter1d minimum_filter1d uniform_filter1d", normal("n 6"), size=3)
_add("percentile_filter", normal("n 6"), percentile=40, size=3)
_add("rank_filter", normal("n 6"), rank=2, size=3)
_add(
    "vectorized_filter", normal("n 6"),
    by=lambda f, xp, x: f(x, lambda window, axis: xp.mean(window, axis=axis), size=3),
)  # fmt: skip
_add("generic_filter", normal("n 6"), by=lambda f, xp, x: f(x, lambda w: w.mean(), size=3), eager_only=_PYTHON)
_add(
    "generic_filter1d", normal("n 6"), eager_only=_PYTHON,
    by=lambda f, xp, x: f(x, lambda line, out: out.__setitem__(slice(None), line[1:-1]), 3),
)  # fmt: skip
_add("generic_gradient_magnitude", normal("n 6"), by=lambda f, xp, x: f(x, _ndimage("sobel")), eager_only=_PYTHON)
_add("generic_laplace", normal("n 6"), by=lambda f, xp, x: f(x, _second), eager_only=_PYTHON)
_add("fourier_ellipsoid fourier_uniform", complexes("n 6"), size=2.0)
_add("fourier_gaussian", complexes("n 6"), sigma=2.0)
_add("fourier_shift", complexes("n 6"), shift=1.0)

_add("affine_transform", normal("n 6"), constant([[0.9, 0.1], [0.0, 1.1]]))
_add("geometric_transform", normal("n 6"), by=lambda f, xp, x: f(x, _shifted), eager_only=_PYTHON)
_add("map_coordinates", normal("n 6"), positive("2 n"))
_add("rotate", normal("n 6"), angle=30.0, reshape=False)
_add("shift", normal("n 6"), shift=0.5)
_add("zoom", normal("n 6"), zoom=2.0)

_add("center_of_mass extrema maximum minimum maximum_position minimum_position mean median", positive("n 6"))
_add("sum standard_deviation variance", positive("n 6"))
_LABELLED = "maximum minimum mean median sum sum_labels standard_deviation variance center_of_mass"
_add(
    _LABELLED, positive("n 6"), classes("n 6"), variant="labels",
    by=lambda f, xp, x, labels: f(x, labels, index=xp.asarray([1, 2])),
)  # fmt: skip
_add("find_objects value_indices", classes("n 6"))
_add("histogram", positive("n 6"), min=0.0, max=2.0, bins=5)
_add("label", booleans("n 6"))
_add(
    "labeled_comprehension", positive("n 6"), classes("n 6"), eager_only=_PYTHON,
    by=lambda f, xp, x, labels: f(x, labels, xp.asarray([1, 2]), lambda v: v.max(), float, 0.0),
)  # fmt: skip
_add("watershed_ift", integers("n 6", 0, 200), by=lambda f, xp, x: f(xp.astype(x, xp.uint8), _markers(xp, x)))

_add(
    "binary_closing binary_dilation binary_erosion binary_fill_holes binary_hit_or_miss binary_opening", booleans("n 6")
)
_add("binary_propagation distance_transform_bf distance_transform_cdt distance_transform_edt", booleans("n 6"))
_add("black_tophat white_tophat morphological_gradient morphological_laplace", normal("n 6"), size=3)
_add("grey_closing grey_dilation grey_erosion grey_opening", normal("n 6"), size=3)
_add("iterate_structure", constant([[False, True, False], [True, True, True], [False, True, False]]), iterations=2)


def _ndimage(name: str) -> Any:
    """A function of ``scipy.ndimage``."""
    from scipy import ndimage

    return getattr(ndimage, name)


def _second(array: Any, axis: int, output: Any, mode: str, cval: float) -> Any:
    """Second differences along an axis."""
    return _ndimage("correlate1d")(array, [1, -2, 1], axis, output, mode, cval, 0)


def _markers(xp: Any, x: Any) -> Any:
    """Two markers: the first element, and the elements that are greatest."""
    made = xp.astype(x >= xp.max(x), xp.int16)
    first = xp.reshape(xp.arange(x.shape[0] * x.shape[1]), x.shape) == 0
    return xp.astype(xp.where(first, 2, made), xp.int16)
