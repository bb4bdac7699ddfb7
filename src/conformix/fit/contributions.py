"""What every score and every model contributes to a fitted average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any, NamedTuple

import numpy as np

from conformix.conformal import conformal_rank, kth_largest
from conformix.errors import InvalidInput
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.scores.names import Column
from conformix.scores.ranked import ranked_models

__all__ = ["Contribution", "contributions"]


@dataclass(frozen=True)
class Contribution:
    """What one score, or all scores of one model, bring to the average.

    Parameters
    ----------
    name : str
        The score, or the model.
    weight : float
        Its weight; of a model, the sum.
    share : float
        Its share of ``weight * spread`` over all scores, where the spread of a score is the
        standard deviation over the labels of a row (root mean square over rows). Of intervals, the
        mean over rows of its share in their ends (`conformix.RegressionAverage.explain`).
    larger_without : float
        By which factor the sets grow when it is left out and the threshold is taken again, less
        one: 0.05 is five per cent. Below zero the sets would be smaller without it. Of intervals,
        by which their mean width grows: infinite where nothing else is averaged.
    of : {"sets", "intervals"}
        What grows.

    Examples
    --------
    >>> Contribution("rank", weight=0.2, share=0.1, larger_without=0.034)
    rank: weight 0.2, share 10.0 %, sets 3.4 % larger without it
    """

    name: str
    weight: float
    share: float
    larger_without: float
    of: str = "sets"

    def __repr__(self) -> str:
        change = 100 * self.larger_without
        more, less = ("larger", "smaller") if self.of == "sets" else ("wider", "narrower")
        effect = f"{abs(change):.1f} % {more if change >= 0 else less}"
        if isinf(change):
            effect = "unbounded"
        return (
            f"{self.name}: weight {self.weight:.3g}, share {100 * self.share:.1f} %, {self.of} "
            f"{effect} without it"
        )


class Averaged(NamedTuple):
    """One average of scores on some rows, as its parts are asked about."""

    columns: Sequence[Column]
    weights: FloatArray  # (d,)
    influence: FloatArray  # (d,), by which shares are counted
    size: Callable[[FloatArray], float]  # of the sets under other weights
    of: str = "sets"


def contributions(
    estimator: Any, outputs: Any, y: Any, *, by: str = "score"
) -> tuple[Contribution, ...]:
    """Return what each score, or each model, contributes, largest share first.

    Parameters
    ----------
    estimator : a fitted estimator on outputs, or its predictor
        A fitted average; of one with folds, the mean over the rules of the folds. With
        ``scores="auto"`` the scores of its blend are looked at. Under split "exact" the weights
        for reading are.
    outputs, y
        Labelled rows on which sizes are measured, best not those of `fit`.
    by : {"score", "model"}
        What is left out together.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> rows = {model: values[:3000] for model, values in data.outputs.items()}
    >>> y = data.labels[:3000]
    >>> cp = cx.ScoreAverage("auto", alpha=0.01, kind="logits", random_state=0).fit(rows, y)
    >>> results = contributions(cp, rows, y, by="model")
    >>> [one.name for one in results][-1]  # the bad network
    'lenet5'
    """
    if hasattr(estimator, "_averages"):
        averages: Sequence[Averaged] = estimator._averages(outputs, y)
    else:
        averages = _of_labels(getattr(estimator, "predictor_", estimator), outputs, y)
    by_rule = []
    for columns, weights, influence, size_of, _ in averages:
        size, total = size_of(weights), influence.sum() or 1.0
        groups = _groups(columns, by)
        numbers = []
        for members in groups.values():
            alone = size_of(np.where(members, 0.0, weights))
            numbers.append(
                (weights[members].sum(), influence[members].sum() / total, alone / size - 1)
            )
        by_rule.append(numbers)
    means = np.mean(by_rule, axis=0).tolist()
    of = averages[0].of
    results = [
        Contribution(name, weight, share, larger, of)
        for name, (weight, share, larger) in zip(groups, means, strict=True)
    ]
    return tuple(sorted(results, key=lambda one: -one.share))


def _of_labels(predictor: Any, outputs: Any, y: Any) -> list[Averaged]:
    """Return the averages of a model of labels: one, or one per fold."""
    blended = None if predictor.blend is None else _blended(predictor, outputs)
    found = []
    for columns, weights, scores in predictor.weighted_scores(outputs):
        labels = predictor.labels(y, len(scores))
        spread = np.sqrt(scores.var(axis=1).mean(axis=0))

        def size(
            weights: FloatArray, scores: FloatArray = scores, labels: IntArray = labels
        ) -> float:
            return _mean_size(scores, labels, weights, predictor.alpha, blended=blended)

        found.append(Averaged(columns, weights, weights * spread, size))
    return found


def _blended(predictor: Any, outputs: Any) -> Callable[[FloatArray], FloatArray]:
    """Return how scores added up (n, K) become what a blend is cut at: evidence stays as it is."""
    checked, blend = predictor.check(outputs).to_host(), predictor.blend
    spread = blend.spread_of(ranked_models(checked))
    # Logits without evidence are no scores: a set is cut at probabilities.
    return lambda z: blend.outputs_of(z, spread, "probs", checked.arithmetic)


def _groups(columns: Sequence[Column], by: str) -> dict[str, Any]:
    if by not in ("score", "model"):
        raise InvalidInput(f'by must be "score" or "model"; got {by!r}.')
    names = [column.model if by == "model" else str(column) for column in columns]
    return {name: np.array([other == name for other in names]) for name in dict.fromkeys(names)}


def _mean_size(
    scores: FloatArray,
    y: IntArray,
    weights: FloatArray,
    alpha: float,
    *,
    blended: Callable[[FloatArray], FloatArray] | None,
) -> float:
    """Return the mean set size when threshold and size come from the same rows."""
    values = combine(scores, weights)
    if blended is not None:
        values = blended(values)
    true_values = values[np.arange(len(y)), y]
    threshold = kth_largest(true_values, conformal_rank(len(y), alpha))
    return float(np.count_nonzero(values >= threshold) / len(y))
