"""Calls of scikit-learn's metrics that support the array API."""

from __future__ import annotations

from tests.libraries.calls import Table, classes, integers, positive, uniform

TABLE = Table("sklearn.metrics")
_add = TABLE.add

_BINARY = integers("n", 0, 2), integers("n", 0, 2)
_MANY = classes("n"), classes("n")
_LABELS = integers("n 3", 0, 2), integers("n 3", 0, 2)
_MORE = 20

_add("accuracy_score balanced_accuracy_score cohen_kappa_score confusion_matrix f1_score", *_BINARY, more=_MORE)
_add("jaccard_score multilabel_confusion_matrix precision_score recall_score zero_one_loss", *_BINARY, more=_MORE)
_add("hamming_loss precision_recall_fscore_support classification_report class_likelihood_ratios", *_BINARY, more=_MORE)
_add("fbeta_score", *_BINARY, beta=0.5, more=_MORE)
_add(
    "det_curve precision_recall_curve roc_curve average_precision_score roc_auc_score",
    integers("n", 0, 2),
    uniform("n"),
    more=_MORE,
)
_add("brier_score_loss log_loss d2_brier_score d2_log_loss_score", integers("n", 0, 2), uniform("n"), more=_MORE)
_add("accuracy_score balanced_accuracy_score cohen_kappa_score confusion_matrix", *_MANY, variant="classes", more=_MORE)
_add("multilabel_confusion_matrix zero_one_loss hamming_loss", *_MANY, variant="classes", more=_MORE)
_add("f1_score jaccard_score precision_score recall_score", *_MANY, variant="classes", more=_MORE, average="macro")
_add("accuracy_score multilabel_confusion_matrix zero_one_loss hamming_loss", *_LABELS, variant="labels", more=_MORE)
_add("f1_score jaccard_score precision_score recall_score", *_LABELS, variant="labels", more=_MORE, average="micro")

_TRUE = positive("n"), positive("n")
_REGRESSION = (
    "d2_absolute_error_score d2_pinball_score d2_tweedie_score explained_variance_score max_error mean_absolute_error "
    "mean_absolute_percentage_error mean_gamma_deviance mean_pinball_loss mean_poisson_deviance mean_squared_error "
    "mean_squared_log_error mean_tweedie_deviance median_absolute_error r2_score root_mean_squared_error "
    "root_mean_squared_log_error"
)
_add(_REGRESSION, *_TRUE)
_add("mean_tweedie_deviance d2_tweedie_score", *_TRUE, variant="power", power=1.5)
_add("mean_squared_error r2_score", *[positive("n 3")] * 2, variant="outputs", multioutput="raw_values")
_add(
    "mean_squared_error mean_absolute_error r2_score", *_TRUE, positive("n"), variant="weights",
    by=lambda f, xp, true, predicted, weights: f(true, predicted, sample_weight=weights),
)  # fmt: skip
_add("cluster.contingency_matrix", *_MANY, more=_MORE)
_add("cluster.entropy", classes("n"), more=_MORE)
