"""Probabilities of scikit-learn classifiers, in one order of the classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, refuse_masked


def rows_of(X: Any) -> Any:
    """Return frames as they are, sparse matrices by rows, anything else as an array of rows.

    Examples
    --------
    >>> rows_of([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if hasattr(X, "iloc") or hasattr(X, "get_column"):
        return X
    if hasattr(X, "tocsr"):
        return X.tocsr()
    refuse_masked(X, "X")
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise InvalidInput(
            f"X must have shape (n, p); got shape {rows.shape}. Reshape your data with "
            "X.reshape(-1, 1) for one feature or X.reshape(1, -1) for one sample."
        )
    return rows


def probabilities(estimator: Any, X: Any, classes: Any) -> FloatArray:
    """Return an estimator's probabilities in the order of `classes`, shape (n, K).

    A class that the estimator never saw has probability 0. A classifier without probabilities is
    taken by the softmax of its decision values.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> model = GaussianNB().fit([[0.0], [0.1], [1.0], [1.1]], ["a", "a", "c", "c"])
    >>> probabilities(model, [[0.05]], np.array(["a", "b", "c"])).round(3)
    array([[1., 0., 0.]])
    """
    if hasattr(estimator, "predict_proba"):
        own: FloatArray = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    else:
        own = softmax(np.asarray(estimator.decision_function(X), dtype=np.float64))
    full = np.zeros((len(own), len(classes)))
    full[:, np.searchsorted(classes, estimator.classes_)] = own
    return full


def softmax(decisions: FloatArray) -> FloatArray:
    """Return decision values as probabilities: any rule by row keeps the guarantee.

    Examples
    --------
    >>> softmax(np.array([0.0]))  # two classes have one decision value
    array([[0.5, 0.5]])
    """
    binary = decisions.ndim == 1
    values = np.column_stack([np.zeros_like(decisions), decisions]) if binary else decisions
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
