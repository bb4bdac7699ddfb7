"""Five numbers per method over repeated splits: what a box plot shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of several methods, Tukey's way.

    Parameters
    ----------
    names : tuple of str
        Names of the M methods.
    low, high : float64 arrays of shape (M,)
        Ends of the whiskers: the last values within 1.5 box lengths of the box.
    q1, median, q3, mean : float64 arrays of shape (M,)
        Quartiles and means.
    outliers : tuple of M arrays
        Values beyond the whiskers.
    """

    names: tuple[str, ...]
    low: FloatArray
    q1: FloatArray
    median: FloatArray
    q3: FloatArray
    high: FloatArray
    mean: FloatArray
    outliers: tuple[FloatArray, ...]


def boxes_numbers(values: Mapping[str, Any]) -> Boxes:
    """Return the box of every method from its values over the splits.

    Parameters
    ----------
    values : mapping of str to array of shape (J,)
        One number per split, by method.

    Examples
    --------
    >>> numbers = boxes_numbers({"VFCP": [1.0, 2.0, 3.0, 4.0, 20.0]})
    >>> numbers.q1.tolist(), numbers.q3.tolist(), numbers.high.tolist(), numbers.outliers[0]
    ([2.0], [4.0], [4.0], array([20.]))
    """
    columns = [np.asarray(column, dtype=np.float64) for column in values.values()]
    if not columns or any(c.ndim != 1 or not len(c) or not np.isfinite(c).all() for c in columns):
        raise InvalidInput("values must hold, by method, a non-empty list of finite numbers.")
    rows, outliers = [], []
    for column in columns:
        # One value is its own quartile; the inclusive rule needs two.
        cuts = quantiles(np.repeat(column, 2 if len(column) == 1 else 1), method="inclusive")
        reach = 1.5 * (cuts[2] - cuts[0])
        inside = column[(column >= cuts[0] - reach) & (column <= cuts[2] + reach)]
        rows.append([min(inside.min(), cuts[0]), *cuts, max(inside.max(), cuts[2]), column.mean()])
        outliers.append(np.sort(column[(column < rows[-1][0]) | (column > rows[-1][4])]))
    low, q1, median, q3, high, mean = np.array(rows, dtype=np.float64).T
    return Boxes(tuple(map(str, values)), low, q1, median, q3, high, mean, tuple(outliers))
