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

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled, inlined
from conformix.kernels.host.engine.cells import Cells

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
    fits = np.zeros((n_cells, d))
    floor, ceiling = np.empty((2, n_cells))
    rest, normal = np.empty(len(thresholds)), np.empty((d, d + 1))
    _fit_all(
        cells.weights, cells.start, cells.stop, cells.parent, thresholds, fits, floor, ceiling,
        rest, normal,
    )  # fmt: skip
    largest = float(max(np.abs(fits).max(), np.abs(thresholds).max()))
    anchored = cells.anchor >= 0
    with np.errstate(all="ignore"):  # brackets that are no numbers decide nothing
        moved = (cells.centre * fits).sum(axis=1)
        slope = fits - np.where(anchored, fits[np.arange(n_cells), cells.anchor], 0.0)[:, None]
        return Brackets(slope, floor + moved, ceiling + moved, witness, largest)


@compiled
def _fit_all(
    weights: FloatArray,
    start: IntArray,
    stop: IntArray,
    parent: IntArray,
    thresholds: FloatArray,
    fits: FloatArray,
    floor: FloatArray,
    ceiling: FloatArray,
    rest: FloatArray,
    normal: FloatArray,
) -> None:
    """Write the ridge solutions `fits` (C, d), zeros before, and the ranges of the residuals.

    `rest` (M,) and `normal` (d, d + 1) are room: for residuals, and for a system of equations.
    """
    n_cells, d = fits.shape
    for cell in range(n_cells):
        begin, end, above = start[cell], stop[cell], parent[cell]
        for j in range(d):
            fits[cell, j] = fits[above, j]
        # A fit needs the residuals of some weights for the fit above, its range those of all.
        step = 1 + (end - begin) // FIT_POINTS
        for own in range(2):
            low, high = np.inf, -np.inf
            for i in range(begin, end, step):
                value = thresholds[i]
                for j in range(d):
                    value -= weights[i, j] * fits[cell, j]
                rest[i] = value
                low, high = min(low, value), max(high, value)
            if own == 0:
                _improve(weights, begin, end, step, rest, normal, fits, cell)
                step = 1
        floor[cell], ceiling[cell] = low, high


@inlined
def _improve(
    weights: FloatArray,
    begin: int,
    end: int,
    step: int,
    rest: FloatArray,
    normal: FloatArray,
    fits: FloatArray,
    cell: int,
) -> None:
    """Move the fit of a cell to the ridge solution over every so many of its weights.

    By the normal equations: a positive definite system, solved in place without exchanges.
    """
    d = len(normal)
    ridge = 1e-300
    for a in range(d):
        for b in range(d + 1):
            total = 0.0
            for i in range(begin, end, step):
                total += weights[i, a] * (weights[i, b] if b < d else rest[i])
            normal[a, b] = total
        ridge += RIDGE * normal[a, a]
    for a in range(d):
        normal[a, a] += ridge
    for a in range(d):
        for b in range(d):
            factor = normal[b, a] / normal[a, a] if b != a else 0.0
            for j in range(a, d + 1):
                normal[b, j] -= factor * normal[a, j]
    for a in range(d):
        fits[cell, a] += normal[a, d] / normal[a, a]
