"""Helpers for shifted data: density ratios, class priors, and what the weights are worth.

The weights go to ``calibration=Weighted()`` (covariate shift) or ``calibration=LabelShift(ratios)``
(label shift). Estimated ratios make the guarantee approximate: where the calibration rows had no
part in the estimate, coverage loses at most the total variation between the true new law and the
one that the estimate stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.calibration import effective_rows
from conformix.data.checks import check_matrix, on_host
from conformix.data.outputs import Kind, check_labels, check_outputs
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray, RandomState, as_generator
from conformix.registry import unknown_name

# Steps of the EM algorithm, and how little a step may change before it ends.
EM_STEPS, EM_CHANGE = 1000, 1e-10
LABEL_METHODS = ("confusion", "em")


@dataclass(frozen=True, eq=False)
class DensityRatio:
    """An estimated ratio of densities, target over source.

    Parameters
    ----------
    source : float64 array of shape (n,)
        The ratios at the source rows, cross-fitted: the weights of the calibration rows.
    classifier : fitted classifier
        Tells target rows (class 1) from source rows (class 0).
    odds : float
        Source rows per target row, which turns its odds into a ratio of densities.
    clip : float
        The largest ratio that is believed.

    Examples
    --------
    See `density_ratio`.

    >>> DensityRatio.__name__
    'DensityRatio'
    """

    source: FloatArray
    classifier: Any
    odds: float
    clip: float

    def __call__(self, X: Any) -> FloatArray:
        """Return the ratios at new rows, shape (m,)."""
        return _ratios(self.classifier, X, self.odds, self.clip)

    @property
    def effective_rows(self) -> float:
        """How many equally weighted rows the source rows are worth."""
        return effective_rows(self.source)

    def __repr__(self) -> str:
        n = len(self.source)
        return f"DensityRatio({n:,} source rows, worth {self.effective_rows:,.0f})"


def density_ratio(
    X_source: Any,
    X_target: Any,
    *,
    classifier: Any = None,
    folds: int = 5,
    clip: float = 50.0,
    random_state: RandomState = 0,
) -> DensityRatio:
    """Return the ratio of the densities of two samples, from a classifier that tells them apart.

    ``w(x) = (n_source / n_target) P(target | x) / P(source | x)``, at most `clip`.

    Parameters
    ----------
    X_source : array of shape (n, p)
        Features of the calibration rows.
    X_target : array of shape (m, p)
        Features of rows as they come now; no labels.
    classifier : scikit-learn classifier with `predict_proba`, optional
        By default a logistic regression.
    folds : int
        The weights of the source rows come from a classifier that was trained without them, over
        so many folds; 1 for no cross-fitting, which trusts the classifier not to overfit.
    clip : float
        The largest ratio that is believed: a bound on the variance, at the price of bias.
    random_state : int, Generator or None
        Draws the folds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ratio = density_ratio(rng.normal(size=(500, 1)), rng.normal(1.0, size=(500, 1)))
    >>> low, high = ratio(np.array([[-1.0], [2.0]]))
    >>> bool(low < 1 < high)
    True
    >>> ratio
    DensityRatio(500 source rows, worth ...)
    """
    from sklearn.base import clone  # noqa: PLC0415  scikit-learn loads late
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.model_selection import StratifiedKFold  # noqa: PLC0415

    source, target = check_matrix(X_source, "X_source"), check_matrix(X_target, "X_target")
    if source.shape[1] != target.shape[1]:
        raise InvalidInput(
            f"X_source and X_target must have shapes (n, p) and (m, p); got {source.shape} and "
            f"{target.shape}."
        )
    if not clip > 0:
        raise InvalidInput(f"clip must be positive; got {clip!r}.")
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer) or folds < 1:
        raise InvalidInput(f"folds must be a positive integer; got {folds!r}.")
    model = LogisticRegression(max_iter=1000) if classifier is None else classifier
    X, z = np.concatenate([source, target]), np.repeat([0, 1], [len(source), len(target)])
    odds = len(source) / len(target)
    whole = clone(model).fit(X, z)
    weights = np.empty(len(source))
    if folds == 1:
        weights[:] = _ratios(whole, source, odds, clip)
    else:
        seed = int(as_generator(random_state).integers(2**31))
        for others, held in StratifiedKFold(folds, shuffle=True, random_state=seed).split(X, z):
            rows = held[held < len(source)]
            weights[rows] = _ratios(clone(model).fit(X[others], z[others]), X[rows], odds, clip)
    return DensityRatio(weights, whole, odds, float(clip))


def _ratios(classifier: Any, X: Any, odds: float, clip: float) -> FloatArray:
    p = np.asarray(classifier.predict_proba(np.asarray(X, dtype=np.float64)), dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.minimum(odds * p[:, 1] / p[:, 0], clip)


def label_ratios(
    outputs: Any,
    y: Any,
    new_outputs: Any,
    *,
    method: str = "confusion",
    kind: Kind = "probs",
) -> FloatArray:
    """Return new class frequency over old class frequency, estimated without new labels, (K,).

    Parameters
    ----------
    outputs : array of shape (n, K)
        Outputs of one model on labelled rows, which trained it not.
    y : integer array of shape (n,)
        Their labels.
    new_outputs : array of shape (m, K)
        Outputs of the same model on rows as they come now.
    method : {"confusion", "em"}
        ``confusion``: solve ``C w = mu`` with ``C[i, j] = P(predicted i, true j)`` on the labelled
        rows and ``mu`` the predicted classes of the new rows (Lipton et al., 2018); sound for any
        model whose C is invertible. ``em``: the priors that make the new probabilities most
        likely (Saerens et al., 2002); better where the probabilities are calibrated.
    kind : {"probs", "logits"}
        What the outputs are.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, new = rng.integers(2, size=4000), (rng.random(4000) < 0.8).astype(int)
    >>> P = lambda t: np.column_stack([0.8 - 0.6 * t, 0.2 + 0.6 * t])[np.arange(len(t))]
    >>> noisy = lambda t: P(np.where(rng.random(len(t)) < 0.2, 1 - t, t))
    >>> label_ratios(noisy(y), y, noisy(new)).round(1)
    array([0.4, 1.6])
    """
    if method not in LABEL_METHODS:
        raise unknown_name("method", method, list(LABEL_METHODS))
    old = _probabilities(outputs, kind, "outputs")
    new = _probabilities(new_outputs, kind, "new_outputs")
    n_classes = old.shape[1]
    if new.shape[1] != n_classes:
        raise InvalidInput(f"new_outputs must have {n_classes} classes; got {new.shape[1]}.")
    labels = check_labels(y, len(old), n_classes)
    priors = np.bincount(labels, minlength=n_classes) / len(labels)
    frequencies = _em(new, priors) if method == "em" else _confusion(old, labels, new, priors)
    return np.divide(frequencies, priors, out=np.zeros(n_classes), where=priors > 0)


def _probabilities(outputs: Any, kind: Kind, name: str) -> FloatArray:
    models = check_outputs(on_host(outputs), kind, name=name).models
    if len(models) > 1:
        raise InvalidInput(f"{name} must come from one model; got {', '.join(models)}.")
    values = np.asarray(next(iter(models.values())), dtype=np.float64)
    if kind == "probs":
        return values
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _confusion(old: FloatArray, y: IntArray, new: FloatArray, priors: FloatArray) -> FloatArray:
    """Return the new class frequencies, not negative and summing to one."""
    n_classes = old.shape[1]
    joint = np.zeros((n_classes, n_classes))
    np.add.at(joint, (old.argmax(axis=1), y), 1 / len(y))
    mu = np.bincount(new.argmax(axis=1), minlength=n_classes) / len(new)
    ratios = np.linalg.lstsq(joint, mu, rcond=None)[0]
    frequencies = np.maximum(ratios, 0.0) * priors
    return frequencies / frequencies.sum() if frequencies.sum() > 0 else priors


def _em(new: FloatArray, priors: FloatArray) -> FloatArray:
    """Return the class frequencies under which the new rows are most likely."""
    likelihood = np.divide(new, priors, out=np.zeros_like(new), where=priors > 0)
    frequencies = priors.copy()
    for _ in range(EM_STEPS):
        posterior = likelihood * frequencies
        total = posterior.sum(axis=1, keepdims=True)
        posterior = np.divide(posterior, total, out=np.zeros_like(posterior), where=total > 0)
        fresh = posterior.mean(axis=0)
        fresh /= fresh.sum()
        if np.abs(fresh - frequencies).max() < EM_CHANGE:
            return fresh
        frequencies = fresh
    return frequencies


__all__ = ["DensityRatio", "density_ratio", "effective_rows", "label_ratios"]
