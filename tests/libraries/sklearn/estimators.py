"""Calls of scikit-learn's estimators and tools that support the array API, and of the pairwise functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.libraries.calls import Maker, Table, classes, found, normal, positive

TABLE = Table("sklearn")
PAIRWISE = Table("sklearn.metrics.pairwise")
_add = TABLE.add

X, POINTS, Y, TARGET = normal("n 4"), positive("n 4"), classes("n"), normal("n")
#: Estimators are fitted to samples of which there are more than features, and of each class some.
_MORE = 20


def _estimator(*methods: str, attributes: str = "", **options: Any) -> Callable[..., Any]:
    """Fit an estimator, and give what some methods make of the first array, and fitted attributes."""

    def use(estimator: Any, xp: Any, x: Any, *others: Any) -> Any:
        fitted = estimator(**options).fit(x, *others)
        return [getattr(fitted, m)(x) for m in methods] + [getattr(fitted, a) for a in attributes.split()]

    return use


def _fit(names: str, makers: tuple[Maker, ...], *methods: str, variant: str = "", **options: Any) -> None:
    """Add a call of each of some estimators."""
    _add(names, *makers, by=_estimator(*methods, **options), more=_MORE, variant=variant)


_fit("preprocessing.Binarizer", (X,), "transform", threshold=0.1)
_fit("preprocessing.KernelCenterer", (normal("n n"),), "transform")
_fit("preprocessing.MaxAbsScaler preprocessing.MinMaxScaler preprocessing.StandardScaler", (X,), "transform")
_fit("preprocessing.Normalizer", (X,), "transform")
_fit("preprocessing.Normalizer", (X,), "transform", variant="l1", norm="l1")
_fit("preprocessing.PolynomialFeatures", (X,), "transform", degree=2)
_add("preprocessing.LabelEncoder", Y, by=lambda f, xp, y: f().fit_transform(y), more=_MORE)
_add("preprocessing.LabelBinarizer", Y, by=lambda f, xp, y: f().fit_transform(y), more=_MORE)
_add("preprocessing.label_binarize", Y, by=lambda f, xp, y: f(y, classes=xp.asarray([0, 1, 2])), more=_MORE)
_add("preprocessing.minmax_scale preprocessing.maxabs_scale preprocessing.normalize", X, more=_MORE)
_add("preprocessing.binarize", X, more=_MORE)

for _solver in ("full", "covariance_eigh"):
    _fit(
        "decomposition.PCA", (X,), variant=_solver, n_components=2, svd_solver=_solver,
        attributes="explained_variance_ mean_",
    )  # fmt: skip
_add(
    "decomposition.PCA", X, variant="randomized", more=_MORE,
    by=lambda f, xp, x: f(2, svd_solver="randomized", power_iteration_normalizer="QR", random_state=0).fit(x).mean_,
)  # fmt: skip
_fit(
    "discriminant_analysis.LinearDiscriminantAnalysis", (X, Y), "transform", "predict", "predict_proba", solver="svd",
)  # fmt: skip
_fit("kernel_approximation.Nystroem", (X,), "transform", n_components=5, random_state=0)
_fit("naive_bayes.GaussianNB", (X, Y), "predict", "predict_proba", attributes="theta_ var_")
_fit("linear_model.Ridge", (X, TARGET), "predict", solver="svd", attributes="coef_ intercept_")
_fit("linear_model.RidgeCV", (X, TARGET), "predict", attributes="coef_ alpha_")
_fit("linear_model.RidgeClassifier", (X, Y), "predict", "decision_function", solver="svd")
_fit("linear_model.RidgeClassifierCV", (X, Y), "predict", "decision_function")
_fit("linear_model.LogisticRegression", (X, Y), "predict", "predict_proba", solver="lbfgs", tol=1e-10)
_fit("linear_model.PoissonRegressor", (X, positive("n")), "predict", solver="lbfgs", tol=1e-10)
_fit(
    "mixture.GaussianMixture", (X,), "predict", "predict_proba", "score_samples", n_components=2, random_state=0,
    init_params="random_from_data", attributes="means_ weights_",
)  # fmt: skip


def _made(name: str, **options: Any) -> Any:
    """An estimator by its dotted name."""
    return found(f"sklearn.{name}")(**options)


def _lda() -> Any:
    """The estimator that the others are given."""
    return _made("discriminant_analysis.LinearDiscriminantAnalysis", solver="svd")


def _folds() -> Any:
    """Folds without random numbers."""
    return _made("model_selection.KFold", n_splits=3)


_add(
    "calibration.CalibratedClassifierCV", X, Y, more=_MORE,
    by=lambda f, xp, x, y: f(_lda(), method="temperature", cv=_folds()).fit(x, y).predict_proba(x), wide_only=True,
)  # fmt: skip
_add(
    "pipeline.Pipeline", X, Y, more=_MORE,
    by=lambda f, xp, x, y: f([("scale", _made("preprocessing.StandardScaler")), ("lda", _lda())]).fit(x, y).predict(x),
)  # fmt: skip
_add(
    "pipeline.FeatureUnion", X, more=_MORE,
    by=lambda f, xp, x: f([(n, _made(f"preprocessing.{n}")) for n in ("MaxAbsScaler", "Normalizer")]).fit_transform(x),
)  # fmt: skip
_GRID = {"tol": [1e-4, 1e-3]}


def _searched(search: Any, x: Any) -> Any:
    """What a search found."""
    return [search.predict(x), search.best_score_, search.cv_results_["mean_test_score"]]


_add(
    "model_selection.GridSearchCV", X, Y, more=_MORE,
    by=lambda f, xp, x, y: _searched(f(_lda(), _GRID, cv=_folds()).fit(x, y), x),
)  # fmt: skip
_add(
    "model_selection.RandomizedSearchCV", X, Y, more=_MORE,
    by=lambda f, xp, x, y: _searched(f(_lda(), _GRID, n_iter=2, cv=_folds(), random_state=0).fit(x, y), x),
)  # fmt: skip
_add("model_selection.cross_val_predict", X, Y, by=lambda f, xp, x, y: f(_lda(), x, y, cv=_folds()), more=_MORE)
_add("model_selection.cross_val_score", X, Y, by=lambda f, xp, x, y: f(_lda(), x, y, cv=_folds()), more=_MORE)
_add("model_selection.train_test_split", X, Y, more=_MORE, random_state=0)
_add("utils.check_consistent_length", X, Y)
_add("utils.check_array", X)
_add("utils.extmath.randomized_svd", X, by=lambda f, xp, x: f(x, 4, random_state=0, power_iteration_normalizer="QR")[1])
_add("utils.shuffle utils.resample", X, Y, random_state=0)

_TWO = positive("n 4"), positive("5 4")
PAIRWISE.add(
    "additive_chi2_kernel chi2_kernel cosine_similarity cosine_distances euclidean_distances linear_kernel "
    "laplacian_kernel manhattan_distances polynomial_kernel rbf_kernel sigmoid_kernel pairwise_distances "
    "pairwise_kernels",
    *_TWO,
)
PAIRWISE.add("paired_cosine_distances paired_euclidean_distances paired_manhattan_distances", POINTS, positive("n 4"))
PAIRWISE.add("pairwise_distances_argmin", *_TWO)
for _metric in ("cosine", "l2", "manhattan"):
    PAIRWISE.add("pairwise_distances", *_TWO, variant=_metric, metric=_metric)
for _metric in ("rbf", "polynomial", "cosine"):
    PAIRWISE.add("pairwise_kernels", *_TWO, variant=_metric, metric=_metric)
