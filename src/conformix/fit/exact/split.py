"""Fitting the exact split: candidates, normalisation, and what would break the symmetry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformix.conformal import warn_if_trivial
from conformix.errors import InvalidInput
from conformix.fit.exact.fitted import FullFitted
from conformix.kernels.arrays import FloatArray, IntArray, of_labels, some_rows
from conformix.kernels.simplex import preference, simplex_grid
from conformix.scores.names import Column
from conformix.scores.scale import Unscaled, resolve_normalizer
from conformix.search.auto import AutoSearch
from conformix.search.candidates import Candidates, check_candidates
from conformix.search.grid import GridSearch, auto_resolution
from conformix.search.objective import SizeObjective, tuning_rank
from conformix.splits import Exact


def fit_exact(
    scores: FloatArray,
    y: IntArray,
    columns: Sequence[Column],
    *,
    alpha: float,
    split: Exact,
    search: Any,
    normalize: Any,
    rng: np.random.Generator,
    groups: IntArray | None = None,
    threads: int | None = None,
) -> FullFitted:
    """Return the fitted exact split.

    Parameters
    ----------
    scores, y, columns, alpha, rng, groups, threads
        As in `conformix.fit.fit.fit`.
    split : Exact
        Whether a shortlist is learnt on rows set aside.
    search : GridSearch, Candidates, LineSearch or GradientSearch
        Where the candidate weights come from: fixed beforehand, or with a shortlist visited by
        a search on the rows set aside.
    normalize : str or normaliser
        ``auto`` is ``none``. One that learns needs rows set aside.
    """
    roles = split.roles(len(y), 0, rng, groups)
    aside, rest = roles.tune, roles.calibrate
    plain = isinstance(normalize, str) and normalize == "auto"
    normalizer = Unscaled() if plain else resolve_normalizer(normalize, separate=True)
    if normalizer.learns and not len(aside):
        raise InvalidInput(
            f'normalize="{normalizer.name}" learns from the calibration rows alone, which breaks '
            'the symmetry that split "exact" rests on; say normalize="none" or "scale", or set '
            "rows aside with Exact(shortlist=...)."
        )
    learnt = hasattr(search, "tour") and len(aside) > 0  # weights found on the rows set aside
    weights = np.zeros((0, len(columns))) if learnt else candidate_weights(search, len(columns))
    transform = normalizer.fit(some_rows(scores, aside) if len(aside) else scores, columns)
    if len(aside):
        normalized = transform(some_rows(scores, aside))
        k = tuning_rank(len(aside), alpha)
        true_scores = of_labels(normalized, y[aside])
        objective = SizeObjective(true_scores, [normalized], k, threads=threads)
        if learnt:
            weights = search.tour(objective, rng).shortlist(objective, split.shortlist, rng)
            weights = weights[preference(weights)]
        counts = objective.counts(weights)
        # Stable, so that equal counts keep the order that breaks ties.
        weights = weights[np.sort(np.argsort(counts, kind="stable")[: split.shortlist])]
    warn_if_trivial(len(rest), alpha)
    kept = transform(some_rows(scores, rest) if len(aside) else scores)
    return FullFitted(
        kept, y[rest], weights, transform, alpha, normalizer.name, threads=threads,
        grouped=groups is not None,
    )  # fmt: skip


def candidate_weights(search: Any, d: int) -> FloatArray:
    """Return the candidate weights of a search in the order that breaks ties, shape (M, d).

    Examples
    --------
    >>> candidate_weights(GridSearch(2), 2)
    array([[0.5, 0.5],
           [0. , 1. ],
           [1. , 0. ]])
    """
    search = search.grid if isinstance(search, AutoSearch) else search
    if isinstance(search, GridSearch):
        resolution = auto_resolution(d) if search.resolution is None else search.resolution
        grid = simplex_grid(d, resolution)
        return grid[preference(grid)] / resolution
    if isinstance(search, Candidates):
        weights = np.unique(check_candidates(search.weights, d), axis=0)
        return weights[preference(weights)]
    raise InvalidInput(
        'split "exact" needs candidate weights that are fixed beforehand: search="grid", '
        "GridSearch(resolution=...) or an array of weights; a search of its own needs rows set "
        f"aside, Exact(shortlist=...); got {search!r}."
    )
