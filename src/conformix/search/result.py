"""What a search found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix.kernels.arrays import FloatArray


@dataclass(frozen=True)
class SearchResult:
    """The winning weights and what they cost.

    Parameters
    ----------
    weights : float64 array of shape (d,)
        The winner.
    count : int
        Labels in all sets of the size rows under the winner.
    n_size : int
        Number of size rows.
    n_evaluated : int
        Number of weight vectors among which the winner is the exact minimum.
    strategy : str
        What was searched, for people.
    reason : str
        Why this strategy, where ``search="auto"`` picked it.
    objective : str
        What was minimised.
    value : float or None
        Its mean per size row, where it is not the size.

    Examples
    --------
    >>> found = SearchResult(np.array([0.5, 0.5]), count=30, n_size=20, n_evaluated=101,
    ...                      strategy="grid of resolution 100")
    >>> found.size
    1.5
    """

    weights: FloatArray
    count: int
    n_size: int
    n_evaluated: int
    strategy: str
    reason: str = ""
    objective: str = "size"
    value: float | None = None

    @property
    def size(self) -> float:
        """Mean set size on the size rows: minimised over the weights, hence optimistic."""
        return self.count / self.n_size

    def __repr__(self) -> str:
        told = np.array2string(np.asarray(self.weights), precision=3, separator=", ")
        why = f" (auto: {self.reason})" if self.reason else ""
        value = "" if self.value is None else f"{self.objective} {self.value:.3f}, "
        return (
            f"SearchResult(weights={told}, searched (optimistic) {value}size {self.size:.3f}, "
            f"{self.strategy}{why}, {self.n_evaluated:,} weights)"
        )
