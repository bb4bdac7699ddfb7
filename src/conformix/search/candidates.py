"""Search over a set of weights of the user's own, inside or outside the simplex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, refuse_missing, to_host
from conformix.search.objective import SizeObjective
from conformix.search.result import SearchResult


@dataclass(frozen=True, eq=False)
class Candidates:
    """Exact minimum of the set size over given weight vectors.

    Parameters
    ----------
    weights : array of shape (m, d)
        Any finite numbers; they need not be positive nor sum to one (the paper allows any
        finite set in R^d).

    Examples
    --------
    >>> Candidates([[1.0, 0.0], [0.5, 0.5], [1.0, -0.2]])
    Candidates(3 weights)
    """

    weights: Any

    def n_candidates(self, d: int) -> int:
        """Return the number of candidates."""
        return len(self.weights)

    def __call__(
        self, objective: SizeObjective, rng: np.random.Generator | None = None
    ) -> SearchResult:
        """Return the exact winner; `rng` is not used."""
        weights = check_candidates(self.weights, objective.d)
        best, count = objective.smallest(weights, weights)
        return SearchResult(
            weights=weights[best],
            count=count,
            n_size=objective.n_size,
            n_evaluated=len(weights),
            strategy="given candidates",
        )

    def __repr__(self) -> str:
        return f"Candidates({len(self.weights)} weights)"


def _numbers(weights: object, name: str) -> FloatArray:
    """Return a copy, so that what the user changes later changes no fit."""
    refuse_missing(weights, name)
    weights = to_host(weights, name)
    try:
        return np.array(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} must be a rectangular array of numbers.") from None


def check_candidates(weights: object, d: int) -> FloatArray:
    """Return candidate weights as a finite float64 array of shape (m, d)."""
    array = _numbers(weights, "candidate weights")
    if array.ndim != 2 or array.shape[1] != d or len(array) == 0:
        raise InvalidInput(
            f"candidate weights must have shape (m, {d}), one column per score; got {array.shape}."
        )
    if not np.isfinite(array).all():
        raise InvalidInput("candidate weights must be finite; got NaN or inf.")
    return array


def check_simplex(weights: object, d: int) -> FloatArray:
    """Return weights given by hand, shape (d,): non-negative, summing to one.

    Examples
    --------
    >>> check_simplex([0.7, 0.7], 2)
    Traceback (most recent call last):
    conformix.errors.InvalidInput: weights must be non-negative and sum to 1; got [0.7, 0.7], \
    which sum to 1.4 (divide by the sum, or give other weights as search candidates).
    """
    array = _numbers(weights, "weights")
    if array.shape != (d,):
        raise InvalidInput(
            f"weights must hold one number per score, shape ({d},); got shape {array.shape}."
        )
    if not (array >= 0).all() or abs(array.sum() - 1) > 1e-9:
        raise InvalidInput(
            f"weights must be non-negative and sum to 1; got {array.tolist()}, which sum to "
            f"{array.sum():g} (divide by the sum, or give other weights as search candidates)."
        )
    return array
