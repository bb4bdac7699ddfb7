"""From outputs to the score tensor: one sort per row and model, block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from conformix.arrays import FloatArray
from conformix.errors import InvalidInput
from conformix.inputs import Kind, Outputs, check_outputs
from conformix.registry import Registry
from conformix.scores.aps import Aps
from conformix.scores.rank import Rank
from conformix.scores.ranked import Ranked
from conformix.scores.score import Custom, Score
from conformix.scores.thr import Thr

ScoreLike: TypeAlias = str | Score | Callable[[FloatArray], Any]

SCORES: Registry[Score] = Registry("score", {"aps": Aps(), "rank": Rank(), "thr": Thr()})


def resolve_scores(scores: ScoreLike | Sequence[ScoreLike]) -> tuple[Score, ...]:
    """Return score objects for names, score objects or plain functions.

    Examples
    --------
    >>> [str(score) for score in resolve_scores(("thr", np.sqrt))]
    ['thr', 'sqrt']
    """
    listed = [scores] if isinstance(scores, str | Score) or callable(scores) else list(scores)
    if not listed:
        raise InvalidInput("scores must name at least one score; got none.")
    return tuple(_resolve(score) for score in listed)


def _resolve(score: ScoreLike) -> Score:
    if isinstance(score, Score):
        return score
    return Custom(score) if callable(score) else SCORES[score]


def score_names(outputs: Outputs, scores: Sequence[Score]) -> tuple[str, ...]:
    """Return the name of every score, ``model.score`` where the models have names."""
    return tuple(
        f"{model}.{score}" if model else str(score) for model in outputs.models for score in scores
    )


def fill_tensor(outputs: Outputs, scores: Sequence[Score]) -> FloatArray:
    """Return the tensor (n, K, d) of checked outputs and resolved scores.

    The memory is one (n, K) plane per score, seen through a transposed view: the kernels read
    neighbouring labels of one score. Beyond the tensor only one block of rows is held.
    """
    d = len(outputs.models) * len(scores)
    planes = np.empty((d, outputs.n, outputs.n_classes))
    for rows in outputs.blocks():
        plane = iter(planes)
        for values in outputs.models.values():
            ranked = Ranked(values[rows], outputs.kind)
            for score in scores:
                next(plane)[rows] = score(ranked)
    return np.moveaxis(planes, 0, -1)


def score_tensor(
    outputs: Any,
    scores: ScoreLike | Sequence[ScoreLike] = ("thr", "aps", "rank"),
    *,
    kind: Kind = "probs",
) -> FloatArray:
    """Return the scores of every label: array of shape (n, K, d), higher fits better.

    Parameters
    ----------
    outputs : array of shape (n, K), or a mapping or sequence of such arrays
        Probabilities or logits of one or several models.
    scores : sequence of names, `Score` objects or functions
        With several models every score is computed for every model, model by model.
    kind : {"probs", "logits"}
        What `outputs` holds.

    Returns
    -------
    float64 array of shape (n, K, d)
        ``d`` is the number of models times the number of scores.

    Examples
    --------
    >>> score_tensor([[0.2, 0.5, 0.3]], ("thr", "rank"))
    array([[[0.2, 0. ],
            [0.5, 1. ],
            [0.3, 0.5]]])
    """
    return fill_tensor(check_outputs(outputs, kind), resolve_scores(scores))
