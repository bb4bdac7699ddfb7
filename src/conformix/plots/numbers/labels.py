"""One row explained: its labels by combined score, and what every score contributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.conformal import conformal_rank, simple_fraction
from conformix.data.row_data import RowData
from conformix.errors import InvalidInput
from conformix.fit.exact.fitted import FullFitted
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, to_host
from conformix.plots.numbers.classes import class_names


@dataclass(frozen=True, eq=False)
class Explanation:
    """The best labels of one row, best first.

    Parameters
    ----------
    row : int
        Which row.
    labels : integer array of shape (m,)
        Class indices by combined score, highest first; the true label is always among them.
    names : tuple of str
        Their names.
    score_names : tuple of str
        Names of the d scores.
    weights : float64 array of shape (m, d)
        Weights, the same for every label except under split ``"exact"``.
    contributions : float64 array of shape (m, d)
        ``w_j s_j``; they add up to the combined score.
    combined : float64 array of shape (m,)
        Combined scores.
    thresholds : float64 array of shape (m,)
        What the combined score must reach: mostly one number, else one per label.
    included : boolean array of shape (m,)
        Which labels are in the set.
    places : integer array of shape (m,)
        Place of each label among all, from 0.
    set_size, n_classes : int
        Labels in the set, and in all.
    true_label : int or None
        The truth, where it was given.
    alpha : float
        Level of the set.
    """

    row: int
    labels: IntArray
    names: tuple[str, ...]
    score_names: tuple[str, ...]
    weights: FloatArray
    contributions: FloatArray
    combined: FloatArray
    thresholds: FloatArray
    included: BoolArray
    places: IntArray
    set_size: int
    n_classes: int
    true_label: int | None
    alpha: float

    @property
    def votes(self) -> FloatArray:
        """What every score says for (above 0) or against a label, shape (m, d).

        ``w_j (s_j - t / sum w)`` with the threshold t: they add up to the combined score minus the
        threshold.
        """
        share = self.weights / self.weights.sum(axis=1, keepdims=True)
        return self.contributions - share * self.thresholds[:, None]


def explain_numbers(
    cp: Any,
    outputs: Any,
    i: int = 0,
    *,
    y: Any = None,
    classes: Sequence[Any] | None = None,
    top: int = 12,
    alpha: float | None = None,
    strata: Any = None,
    sample_weight: Any = None,
) -> Explanation:
    """Return why the labels of row i are in its set or not.

    Parameters
    ----------
    cp : ScoreAverage
        A fitted model. Under split ``"exact"`` every label has weights and threshold of its own;
        calibrations by class, group or weight give thresholds of their own too.
    outputs : like in ``predict_set``
        Outputs on new rows.
    i : int
        Which row.
    y : array of shape (n,), or one label, optional
        The truth, to be marked.
    classes : sequence of length K, optional
        Names of the classes; by default those of the fit, or their numbers.
    top : int
        Labels to show, from the best.
    alpha : float, optional
        Another level than the fitted one.
    strata, sample_weight : arrays of shape (n,), optional
        As in ``predict_set``, where the calibration needs them.

    Examples
    --------
    >>> import conformix as cx
    >>> P = np.array([[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    >>> cp = cx.ScoreAverage(("thr", "rank"), alpha=0.4, weights=[0.5, 0.5]).fit(P, [0, 1, 2, 0])
    >>> numbers = explain_numbers(cp, P, 1, classes=["cat", "dog", "eel"])
    >>> numbers.names, numbers.contributions[0].tolist(), numbers.included.tolist()
    (('cat', 'dog', 'eel'), [0.25, 0.5], [True, False, False])
    """
    predictor = _fitted(cp)
    checked = predictor.check(outputs)
    if isinstance(i, bool) or not isinstance(i, int | np.integer) or not 0 <= i < checked.n:
        raise InvalidInput(f"i must be a row from 0 to {checked.n - 1}; got {i!r}.")
    if top < 1:
        raise InvalidInput(f"top must be a positive number of labels; got {top!r}.")
    level = predictor.alpha if alpha is None else float(simple_fraction(alpha))
    names = class_names(predictor.n_classes, predictor.classes if classes is None else classes)
    truth = _truth(predictor, y, int(i), checked.n)
    row = slice(int(i), int(i) + 1)
    data = predictor.row_data(checked.n, strata, sample_weight).take(row)
    scores = to_host(predictor.scores(checked.rows(row)))
    weights, thresholds = _rule(predictor.fitted, scores, level, data)
    values = predictor.fitted.rule.transform(scores)[0]
    combined = combine(values, weights)
    member = predictor.fitted.member(scores, level, data)[0]
    # Thresholds may differ by label: those in the set come first.
    order = np.lexsort((np.arange(len(combined)), -combined, ~member))
    shown = order[:top]
    if truth is not None and truth not in shown:
        shown = np.append(shown[: max(top - 1, 1)], truth)
    place = np.argsort(order, kind="stable")
    return Explanation(
        int(i), shown, tuple(names[label] for label in shown), tuple(cp.score_names_),
        np.broadcast_to(weights, values.shape)[shown],
        (weights * values)[shown], combined[shown], thresholds[shown], member[shown],
        place[shown], int(member.sum()), predictor.n_classes, truth, level,
    )  # fmt: skip


def _fitted(cp: Any) -> Any:
    cp.guarantee_  # noqa: B018  says in one sentence where nothing is fitted
    return cp.predictor_


def _truth(predictor: Any, y: Any, i: int, n: int) -> int | None:
    if y is None:
        return None
    return int(predictor.labels([y], 1)[0] if np.ndim(y) == 0 else predictor.labels(y, n)[i])


def _rule(
    fitted: Any, scores: FloatArray, alpha: float, data: RowData
) -> tuple[FloatArray, FloatArray]:
    """Return the weights (d,) or (K, d) of the labels and their thresholds (K,)."""
    n_classes = scores.shape[1]
    if not isinstance(fitted, FullFitted):
        return fitted.rule.weights, np.broadcast_to(fitted.at(alpha, data), (1, n_classes))[0]
    if conformal_rank(fitted.n, alpha) > fitted.n:
        return fitted.weights[0], np.full(n_classes, -np.inf)
    tables = fitted.tables(alpha)
    chosen = fitted.choose(fitted.transform(scores), tables)[0]
    return tables.weights[chosen], tables.cuts[chosen, 1]
