"""Where a search has one candidate only: the weights that no row has to choose."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.kernels.arrays import FloatArray
from conformix.search.auto import AutoSearch
from conformix.search.candidates import Candidates, check_candidates
from conformix.search.gradient import GradientSearch
from conformix.search.grid import GridSearch
from conformix.search.line import LineSearch
from conformix.search.stability import OneStandardError
from conformix.search.weights import resolve_search


def only_candidate(search: Any, d: int) -> FloatArray | None:
    """Return the one weight vector (d,) that a search can find, or None where it has a choice.

    One score has weight 1 whatever the search, and given candidates may be one. A strategy of
    somebody else's may choose as it likes.

    Examples
    --------
    >>> only_candidate(GridSearch(100), 1), only_candidate(GridSearch(100), 2) is None
    (array([1.]), True)
    >>> only_candidate(Candidates([[0.2, 0.8]]), 2)
    array([0.2, 0.8])
    """
    if isinstance(search, OneStandardError):
        return only_candidate(resolve_search(search.search), d)
    if isinstance(search, Candidates):
        weights = np.unique(check_candidates(search.weights, d), axis=0)
        return weights[0] if len(weights) == 1 else None
    on_the_simplex = isinstance(search, AutoSearch | GridSearch | LineSearch | GradientSearch)
    return np.ones(1) if on_the_simplex and d == 1 else None
