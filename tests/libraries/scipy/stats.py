"""Calls of ``scipy.stats``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.libraries.calls import Table, normal, positive, uniform, unit_rows

TABLE = Table("scipy.stats")
_add = TABLE.add
_RANDOM = "it draws random numbers in Python"

# One sample.
_add("skew kurtosis moment variation sem zscore describe iqr kstat kstatvar median_abs_deviation mode", normal("n"))
_add("tmax tmin tmean tstd tvar tsem sigmaclip lmoment circmean circvar circstd rankdata", normal("n"))
_add("differential_entropy", normal("n"), more=5)
_add("entropy gmean hmean gstd gzscore", positive("n"))
_add("pmean", positive("n"), p=2.0)
_add("trim_mean", normal("n"), proportiontocut=0.1)
_add("skew kurtosis moment variation sem zscore iqr mode rankdata", normal("n 4"), variant="rows", axis=0)
_add("trim_mean", normal("n 4"), variant="rows", proportiontocut=0.1, axis=0)
_add("zmap", normal("n"), normal("n"))
_add("boxcox_llf yeojohnson_llf", positive("n"), by=lambda f, xp, x: f(0.5, x))
_add("quantile", normal("n"), uniform("3"))
_add("directional_stats", unit_rows("n 3"))
_add("false_discovery_control combine_pvalues", uniform("n"))
_add("normaltest skewtest kurtosistest jarque_bera", normal("n"), more=20)
_add("ttest_1samp", normal("n"), popmean=0.2)
_add("chisquare power_divergence", positive("n"))
_add("cramervonmises ks_1samp", normal("n"), by=lambda f, xp, x: f(x, lambda v: 1 / (1 + xp.exp(-v))))

# Two samples, and more.
_TWO = normal("n"), normal("n")
_add("ttest_ind ttest_rel pearsonr spearmanrho chatterjeexi mannwhitneyu wilcoxon", *_TWO)
_add("ansari mood brunnermunzel bartlett levene fligner f_oneway kruskal alexandergovern cramervonmises_2samp", *_TWO)
_add("epps_singleton_2samp", *_TWO, more=5)
_add("friedmanchisquare", *[normal("n")] * 3)
_add("ttest_ind_from_stats", *[positive("n")] * 2, by=lambda f, xp, m, s: f(m, s, 10, m + 0.3, s, 12))


def _mean(xp: Any) -> Any:
    """A statistic over an axis."""
    return lambda x, axis=-1: xp.mean(x, axis=axis)


_add(
    "bootstrap", normal("n"), eager_only=_RANDOM,
    by=lambda f, xp, x: f((x,), _mean(xp), n_resamples=99, rng=1, method="percentile").confidence_interval,
)  # fmt: skip
_add(
    "permutation_test", *_TWO, eager_only=_RANDOM,
    by=lambda f, xp, x, y: f(
        (x, y), lambda x, y, axis=-1: xp.mean(x, axis=axis) - xp.mean(y, axis=axis), n_resamples=99, rng=1,
        vectorized=True,
    ).pvalue,
)  # fmt: skip
_add(
    "monte_carlo_test", normal("n"), eager_only=_RANDOM,
    by=lambda f, xp, x: f(x, _draws(xp), _mean(xp), n_resamples=99, vectorized=True).pvalue,
)  # fmt: skip
_add(
    "power", normal("n"), eager_only=_RANDOM,
    by=lambda f, xp, x: f(_p_values(xp), _draws(xp), (10,), n_resamples=99, vectorized=True).power,
)  # fmt: skip


def _draws(xp: Any) -> Any:
    """A function that draws normal numbers, the same ones in each run."""
    rng = np.random.default_rng(3)
    return lambda size: xp.asarray(rng.standard_normal(size))


def _p_values(xp: Any) -> Any:
    """A test that has p-values between 0 and 1."""
    return lambda x, axis=-1: xp.exp(-xp.abs(xp.mean(x, axis=axis)) * 4)
