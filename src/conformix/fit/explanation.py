"""One row explained: labels by combined score, the threshold, what every score contributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.labels import class_names
from conformix.data.row_data import RowData
from conformix.errors import InvalidInput
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, to_host
from conformix.tables import Table


@dataclass(frozen=True, eq=False)
class Explanation:
    """The best labels of one row, best first."""

    row: int
    # (m,), class indices by combined score, highest first; the true label is always among them
    labels: IntArray
    names: tuple[str, ...]
    score_names: tuple[str, ...]
    weights: FloatArray  # (m, d), weights, the same for every label except under split ``"exact"``
    contributions: FloatArray  # (m, d), ``w_j s_j``; they add up to the combined score
    combined: FloatArray  # (m,), combined scores
    # (m,), what the combined score must reach: mostly one number, else one per label
    thresholds: FloatArray
    included: BoolArray  # (m,), which labels are in the set
    places: IntArray  # (m,), place of each label among all, from 0
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

    def table(self) -> Table:
        """Return the labels with what every score contributes, for a terminal or a page."""
        size = f"{self.set_size:,} of {self.n_classes:,} labels"
        rows = tuple(
            (
                name + (" (true)" if label == self.true_label else ""),
                *(f"{part:.4g}" for part in parts),
                f"{total:.4g}",
                f"{threshold:.4g}",
                "in" if inside else "out",
            )
            for name, label, parts, total, threshold, inside in zip(
                self.names, self.labels, self.contributions, self.combined, self.thresholds,
                self.included, strict=True,
            )
        )  # fmt: skip
        header = ("label", *self.score_names, "combined", "threshold", "set")
        return Table(f"row {self.row}: {size} at alpha = {self.alpha:g}", header, rows)

    def __repr__(self) -> str:
        return self.table().text()


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
    if hasattr(predictor, "no_sum_of_parts"):
        raise InvalidInput(predictor.no_sum_of_parts)
    if not hasattr(predictor, "n_classes"):
        raise InvalidInput(
            "this shows the labels of a row, and responses have none; the model's own "
            "explain(outputs, i) says which scores set the ends of its interval."
        )
    checked = predictor.check(outputs)
    if isinstance(i, bool) or not isinstance(i, int | np.integer) or not 0 <= i < checked.n:
        raise InvalidInput(f"i must be a row from 0 to {checked.n - 1}; got {i!r}.")
    level = predictor.alpha if alpha is None else float(simple_fraction(alpha))
    names = class_names(predictor.n_classes, predictor.classes if classes is None else classes)
    truth = _truth(predictor, y, int(i), checked.n)
    row = slice(int(i), int(i) + 1)
    data = predictor.row_data(checked.n, strata, sample_weight).take(row)
    one = predictor.for_row(checked.rows(row))
    scores = to_host(one.scores(checked.rows(row)))
    weights, thresholds = _rule(one.fitted, scores, level, data)
    values = one.fitted.rule.transform(scores)[0]
    member = one.fitted.member(scores, level, data)[0]
    score_names = tuple(str(column) for column in predictor.columns)
    return explanation_of(
        values, weights, thresholds, member, names=names, score_names=score_names, row=int(i),
        alpha=level, truth=truth, top=top,
    )  # fmt: skip


def explanation_of(
    values: FloatArray,
    weights: FloatArray,
    thresholds: FloatArray,
    member: BoolArray,
    *,
    names: Sequence[str],
    score_names: tuple[str, ...],
    row: int,
    alpha: float,
    truth: int | None,
    top: int,
) -> Explanation:
    """Return the explanation of a row with scores (K, d), thresholds (K,) and members (K,)."""
    if top < 1:
        raise InvalidInput(f"top must be a positive number of labels; got {top!r}.")
    combined = combine(values, weights)
    # Thresholds may differ by label: those in the set come first.
    order = np.lexsort((np.arange(len(combined)), -combined, ~member))
    shown = order[:top]
    if truth is not None and truth not in shown:
        shown = np.append(shown[: max(top - 1, 1)], truth)
    place = np.argsort(order, kind="stable")
    return Explanation(
        row, shown, tuple(names[label] for label in shown), score_names,
        np.broadcast_to(weights, values.shape)[shown],
        (weights * values)[shown], combined[shown], thresholds[shown], member[shown],
        place[shown], int(member.sum()), len(combined), truth, alpha,
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
    if fitted.nested and not fitted.additive:
        raise InvalidInput(
            "a vote lets a label in by counting its scores, so there is no sum of parts to show; "
            "predict_pvalues has the middle p-value of every label."
        )
    if fitted.nested:
        return fitted.rule.weights, np.broadcast_to(fitted.at(alpha, data), (1, n_classes))[0]
    weights, thresholds = fitted.selected(scores, alpha, data)
    return weights[0], thresholds[0]
