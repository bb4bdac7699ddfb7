"""An ensemble: the mean of the models' probabilities or log-probabilities, scored as one model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from conformix.data.outputs import LaterOutputs, Outputs
from conformix.errors import InvalidInput, shown
from conformix.kernels.arrays import FloatArray
from conformix.scores.ranked import Ranked

Ensembling: TypeAlias = Literal["probs", "logits"]
ENSEMBLINGS = ("probs", "logits")
# What the ensemble is called among models: it is the only one that is scored.
NAME = ""


@dataclass(frozen=True)
class Ensemble:
    """How the outputs of several models become those of one.

    Parameters
    ----------
    how : {"probs", "logits"}
        The mean of the probabilities, or of the log-probabilities: logits are averaged without the
        constant that a network adds to all of a row, which carries no weight.

    Examples
    --------
    >>> from conformix.data.outputs import check_outputs
    >>> both = check_outputs({"a": [[0.9, 0.1]], "b": [[0.5, 0.5]]})
    >>> Ensemble("probs").over(both).models[""][0:1]
    array([[0.7, 0.3]])
    """

    how: Ensembling

    def over(self, outputs: Outputs) -> Outputs:
        """Return the ensemble of some outputs in their place, computed when rows are asked for."""
        held = outputs.to_host()
        return replace(held, models={NAME: Averaged(held, self)}, kind=self.how, unchecked=None)  # type: ignore[dict-item]

    def mean(self, outputs: Outputs) -> FloatArray:
        """Return the mean of the models on some rows, (n, K)."""
        total = np.zeros((outputs.n, outputs.n_classes))
        for values in outputs.models.values():
            ranked = Ranked(values[:], outputs.kind, arithmetic=outputs.arithmetic)
            part = ranked.probs if self.how == "probs" else ranked.log_probs
            total += part / len(outputs.models)
        return total


@dataclass(frozen=True, eq=False)
class Averaged(LaterOutputs):
    """The outputs of an ensemble."""

    ensemble: Ensemble

    def __getitem__(self, rows: slice) -> FloatArray:
        return self.ensemble.mean(self.outputs.rows(rows))


def resolve_ensemble(how: object) -> Ensemble | None:
    """Return how models are averaged, or None where each is scored by itself.

    Examples
    --------
    >>> resolve_ensemble("probs")
    Ensemble(how='probs')
    """
    if how is None:
        return None
    if not isinstance(how, str) or how not in ENSEMBLINGS:
        raise InvalidInput(f'ensemble must be "probs", "logits" or None; got {shown(how)}.')
    return Ensemble(how)  # type: ignore[arg-type]


def scored_models(models: tuple[str, ...], ensemble: Ensemble | None) -> tuple[str, ...]:
    """Return the models whose scores there are: all of them, or the one that is their mean."""
    if ensemble is None:
        return models
    if len(models) < 2:
        raise InvalidInput("an ensemble needs at least two models; outputs are those of one.")
    return (NAME,)
