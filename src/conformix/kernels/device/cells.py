"""Weights in cells: what holds for a whole box of weights is worked out once.

A cell is the bounding box of some weights, ``|w_j - centre_j| <= half_j``. For a vector ``r`` and
weights that sum to one, with any anchor a,

    <w, s> - <w, r> = <centre, s - r> +- sum_j half_j |(s_j - s_a) - (r_j - r_a)|,

so that one centre and one radius bound the combined score of a label for all weights of the cell.
Other weights have no anchor and use ``|s_j - r_j|``. Any r is valid; a good r makes bounds narrow.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray

# Scores so large that differences could overflow are never decided by a bound.
LARGE = 1e150
TINY = 1e-290
RIDGE = 1e-9
# Grids are the same from call to call; larger ones than this are not kept.
REMEMBERED = 2**17


class Cells(NamedTuple):
    """Cells over M weights, a level of the tree."""

    members: IntArray  # (C, m) which weights each cell holds; short cells repeat their first
    counts: IntArray  # (C,) how many of the m are its own
    centre: FloatArray  # (C, d)
    half: FloatArray  # (C, d)
    parents: IntArray  # (C,) inside of which cell of the level above each lies; rising
    on_simplex: bool  # whether all weights sum to one, so that an anchor may be used
    anchor: int = -1  # the coordinate that bounds leave out, or -1

    def anchored(self, rows: FloatArray) -> Cells:
        """Return the cells with the anchor under which rows (n, d) spread least.

        The centres then sum to one as the weights do: the anchor takes what the others leave.
        """
        if not self.on_simplex:
            return self
        apart = rows[:, None, :] - rows[:, :, None]  # (n, a, j)
        anchor = int(np.argmin(np.abs(apart - apart.mean(axis=0)).mean(axis=0).sum(axis=1)))
        centre = self.centre.copy()
        centre[:, anchor] = 1 - np.delete(centre, anchor, axis=1).sum(axis=1)
        return self._replace(centre=centre, anchor=anchor)


def weight_cells(weights: FloatArray, *n_cells: int) -> list[Cells]:
    """Return levels of cells over weights (M, d), from wide to narrow.

    A level has at most as many cells as said. They hold a power of two of weights each, on which
    kernels work well, or fewer; the cells of a level lie inside those of the one above.
    """
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    if weights.size > REMEMBERED:
        return _build(weights, n_cells)
    return list(_remembered(weights.tobytes(), weights.shape, n_cells))


@lru_cache(maxsize=8)
def _remembered(numbers: bytes, shape: tuple[int, int], n_cells: tuple[int, ...]) -> list[Cells]:
    return _build(np.frombuffer(numbers).reshape(shape), n_cells)


def _build(weights: FloatArray, n_cells: tuple[int, ...]) -> list[Cells]:
    levels: list[Cells] = []
    groups: list[IntArray] = [np.arange(len(weights))]
    for at_most in n_cells:
        size = 1
        while sum(-(-len(group) // size) for group in groups) > at_most and size < len(weights):
            size *= 2
        inside = [_pieces(weights, group, size) for group in groups]
        parents = np.repeat(np.arange(len(groups)), [len(pieces) for pieces in inside])
        groups = [piece for pieces in inside for piece in pieces]
        levels.append(_boxes(weights, groups, parents))
    return levels


def _pieces(weights: FloatArray, group: IntArray, size: int) -> list[IntArray]:
    """Return a group cut into pieces of `size`, across its widest side; the last may be short."""
    pieces = -(-len(group) // size)
    if pieces <= 1:
        return [group]
    inside = weights[group]
    axis = int(np.argmax(np.ptp(inside, axis=0)))
    order = group[np.argsort(inside[:, axis], kind="stable")]
    cut = pieces // 2 * size
    return _pieces(weights, order[:cut], size) + _pieces(weights, order[cut:], size)


def _boxes(weights: FloatArray, groups: list[IntArray], parents: IntArray) -> Cells:
    """Return the bounding boxes of some groups of weights."""
    counts = np.array([len(group) for group in groups])
    members = np.stack([np.concatenate([g, np.full(counts.max() - len(g), g[0])]) for g in groups])
    low, high = weights[members].min(axis=1), weights[members].max(axis=1)
    centre = (low + high) / 2
    # Rounding of the centre must not lose an end.
    half = np.maximum(high - centre, centre - low)
    on_simplex = bool((np.abs(weights.sum(axis=1) - 1) <= 1e-12).all())
    return Cells(members, counts, centre, half, parents, on_simplex)


def rounding_slack(weights: FloatArray, scale: float) -> float:
    """Return by how much bounds have to move outwards, for ``|s_j| + |r_j| <= scale``.

    A bound compares fewer than ten sums of at most d + 1 products; each is off by at most
    ``(d + 2) u`` times ``sum_j |w_j|`` times the scale, whatever the order of the sum. NaN where
    sums could overflow: then no comparison decides, and everything is counted exactly.
    """
    mass = float(np.abs(weights).sum(axis=1).max())
    if not mass * scale < LARGE:
        return float("nan")
    return 32.0 * (weights.shape[1] + 2) * np.finfo(np.float64).eps * mass * scale + TINY


class Brackets(NamedTuple):
    """What each cell knows of the threshold: ``floor <= t(w) - <w - centre, r> <= ceiling``."""

    slope: FloatArray  # (C, d) r_j - r_a, or r_j without an anchor
    floor: FloatArray  # (C,) with the rounding slack, as is the ceiling
    ceiling: FloatArray


def fit_brackets(
    cells: Cells, weights: FloatArray, thresholds: FloatArray, scale: float
) -> Brackets:
    """Return the brackets around known thresholds (M,): a linear fit per cell, and its residual.

    ``scale`` is the largest ``|s_j|`` of the labels that will be compared.
    """
    inside = weights[cells.members]
    known = thresholds[cells.members]
    d = weights.shape[1]
    normal = np.einsum("cmi,cmj->cij", inside, inside)
    ridge = RIDGE * np.trace(normal, axis1=1, axis2=2) + 1e-300
    normal += ridge[:, None, None] * np.eye(d)
    right = np.einsum("cmi,cm->ci", inside, known)
    fits = np.linalg.solve(normal, right[..., None])[..., 0]
    fits = np.where(np.isfinite(fits), fits, 0.0)
    rest = known - np.einsum("cmi,ci->cm", inside, fits)
    middle = np.einsum("ci,ci->c", cells.centre, fits)
    slack = rounding_slack(weights, scale + float(np.abs(fits).max() + np.abs(known).max()))
    slope = fits - fits[:, [cells.anchor]] if cells.anchor >= 0 else fits
    return Brackets(slope, rest.min(1) + middle - slack, rest.max(1) + middle + slack)
