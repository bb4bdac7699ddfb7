"""What every cell knows about the threshold: a linear function and a bracket around it.

With all t(w) known, each cell fits ``t(w) ~ <w, r>`` by least squares over its own weights and
keeps the exact range of the residual, ``low <= t(w) - <w, r> <= high``. A label is then compared
through ``<w, s - r>`` with a narrow bracket, instead of ``<w, s>`` with everything that t(w) does
over the cell. Any r is valid; a good r only makes fewer labels undecided. The fit starts from the
parent's r with a small ridge, so that cells with few weights stay well posed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray
from conformix.kernels.host.compiled import compiled, inlined
from conformix.kernels.host.engine.cells import MAX_DEPTH, Cells

RIDGE = 1e-9
FIT_POINTS = 64  # a fit needs no more weights than this; the range of the residual uses all


class Brackets(NamedTuple):
    """Per cell: labels are bounded around `slope`, and compared with `floor` and `ceiling`.

    Attributes
    ----------
    slope : (C, d) ``r_j`` (``r_j - r_a`` if the cell has an anchor a).
    floor, ceiling : (C,) the range of ``t(w) - <w, r>``, moved by ``<centre, r>``.
    witness : (C, d) a score vector that has the value t(w) for every weight of the cell, or NaN.
    largest : largest ``|r_j|`` or ``|t(w)|``, for the rounding slack.
    """

    slope: FloatArray
    floor: FloatArray
    ceiling: FloatArray
    witness: FloatArray
    largest: float


def fit_brackets(cells: Cells, thresholds: FloatArray, witness: FloatArray) -> Brackets:
    """Return the brackets of all cells from what `all_thresholds` found."""
    n_cells, d = cells.centre.shape
    fits = np.empty((n_cells, d))
    floor = np.empty(n_cells)
    ceiling = np.empty(n_cells)
    path, normal = np.zeros((MAX_DEPTH + 2, d)), np.empty((d, d + 1))
    _fit_all(cells, thresholds, fits, floor, ceiling, path, normal)
    largest = float(max(np.abs(fits).max(), np.abs(thresholds).max()))
    anchored = cells.anchor >= 0
    slope = fits - np.where(anchored, fits[np.arange(n_cells), cells.anchor], 0.0)[:, None]
    return Brackets(slope, floor, ceiling, witness, largest)


@compiled
def _fit_all(
    cells: Cells,
    thresholds: FloatArray,
    fits: FloatArray,
    floor: FloatArray,
    ceiling: FloatArray,
    path: FloatArray,
    normal: FloatArray,
) -> None:
    n_cells, d = fits.shape
    weights, start, stop, depth = cells.weights, cells.start, cells.stop, cells.depth
    centre = cells.centre
    for cell in range(n_cells):
        level = depth[cell]
        begin, end = start[cell], stop[cell]
        fit = path[level + 1]
        for j in range(d):
            fit[j] = path[level, j]
        _improve(weights[begin:end], thresholds[begin:end], fit, normal)
        for j in range(d):
            fits[cell, j] = fit[j]
        low, high = np.inf, -np.inf
        for i in range(begin, end):
            rest = thresholds[i] - _dot(weights[i], fit)
            low = min(low, rest)
            high = max(high, rest)
        moved = _dot(centre[cell], fit)
        floor[cell] = low + moved
        ceiling[cell] = high + moved


@inlined
def _improve(
    weights: FloatArray, thresholds: FloatArray, fit: FloatArray, normal: FloatArray
) -> None:
    """Move `fit` (d,) to the ridge solution over at most about `FIT_POINTS` of the weights."""
    m, d = weights.shape
    for a in range(d):
        for b in range(d + 1):
            normal[a, b] = 0.0
    for i in range(0, m, 1 + m // FIT_POINTS):
        rest = thresholds[i] - _dot(weights[i], fit)
        for a in range(d):
            for b in range(d):
                normal[a, b] += weights[i, a] * weights[i, b]
            normal[a, d] += weights[i, a] * rest
    ridge = 1e-300
    for a in range(d):
        ridge += RIDGE * normal[a, a]
    for a in range(d):
        normal[a, a] += ridge
    _eliminate(normal)
    for a in range(d):
        fit[a] += normal[a, d]


@inlined
def _eliminate(system: FloatArray) -> None:
    """Solve a positive definite ``(d, d + 1)`` system in place; the solution is the last column."""
    d = len(system)
    for a in range(d):
        pivot = system[a, a]
        for j in range(d + 1):
            system[a, j] /= pivot
        for b in range(d):
            factor = system[b, a]
            if b != a:
                for j in range(d + 1):
                    system[b, j] -= factor * system[a, j]


@inlined
def _dot(a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total
