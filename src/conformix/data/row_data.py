"""What rows bring along besides their outputs: the stratum they belong to, their importance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, host_array


@dataclass(frozen=True)
class RowData:
    """Per-row data that a calibration may need, at fit and at prediction."""

    strata: Any = None  # the group of every row, text or integers, (n,)
    weight: FloatArray | None = None  # the ratio of the densities of the new and the old law, (n,)

    def take(self, rows: Any) -> RowData:
        """Return the data of some of the rows."""
        strata = None if self.strata is None else self.strata[rows]
        weight = None if self.weight is None else self.weight[rows]
        return RowData(strata, weight)

    def followed_by(self, other: RowData) -> RowData:
        """Return the data of these rows and then of others, of what both have."""
        both = [
            None if one is None or two is None else np.concatenate([one, two])
            for one, two in ((self.strata, other.strata), (self.weight, other.weight))
        ]
        return RowData(*both)


NO_DATA = RowData()


def group_names(data: RowData) -> tuple[Any, ...]:
    """Return the names of the groups of some rows, sorted; none without groups."""
    return () if data.strata is None else tuple(np.unique(data.strata).tolist())


_USED_BY = {
    "strata": 'calibration="group" or PerGroup(...)',
    "sample_weight": 'calibration="weighted" or Weighted(...)',
}


def check_rows(
    strata: Any, sample_weight: Any, n: int, needs: tuple[str, ...], called: str
) -> RowData:
    """Return the checked data of n rows, or say what is missing or not used."""
    for name, value in (("strata", strata), ("sample_weight", sample_weight)):
        if value is None and name in needs:
            raise InvalidInput(f'calibration "{called}" needs {name}=..., one value per row.')
        if value is not None and name not in needs:
            raise InvalidInput(
                f'{name} has no use under calibration "{called}"; it is for {_USED_BY[name]}.'
            )
    groups = None if strata is None else _strata(strata, n)
    weight = None if sample_weight is None else _weight(sample_weight, n)
    return RowData(groups, weight)


def _strata(strata: Any, n: int) -> Any:
    values = host_array(strata, "strata")
    if values.dtype == object and all(isinstance(value, str) for value in values.ravel()):
        values = values.astype(np.str_)
    if values.shape != (n,) or values.dtype.kind not in "iubU":
        raise InvalidInput(
            f"strata must hold one text or integer per row, shape ({n},); got {values.dtype} of "
            f"shape {values.shape}."
        )
    return values.astype(np.int64) if values.dtype.kind in "iub" else values


def _weight(sample_weight: Any, n: int) -> FloatArray:
    values = host_array(sample_weight, "sample_weight")
    if values.shape != (n,) or values.dtype.kind not in "fiu":
        raise InvalidInput(
            f"sample_weight must hold one number per row, shape ({n},); got {values.dtype} of "
            f"shape {values.shape}."
        )
    weight = values.astype(np.float64)
    if not np.isfinite(weight).all() or (weight < 0).any():
        row = int(np.argmax(~np.isfinite(weight) | (weight < 0)))
        raise InvalidInput(
            f"sample_weight must be finite and not negative; row {row} holds {weight[row]}."
        )
    return weight


def row_ids(X: Any) -> list[Any] | None:
    """Return what a pandas frame calls its rows; None where it only counts them from 0.

    Of several models the first frame says it.

    Examples
    --------
    >>> import pandas as pd
    >>> row_ids(pd.DataFrame({"x": [1, 2]}, index=["a", "b"])), row_ids(pd.DataFrame({"x": [1]}))
    (['a', 'b'], None)
    """
    if isinstance(X, Mapping):
        X = next(iter(X.values()), None)
    elif isinstance(X, list | tuple) and len(X):
        X = X[0]
    if not hasattr(X, "iloc"):
        return None
    index = X.index
    counted = getattr(index, "start", None) == 0 and getattr(index, "step", None) == 1
    return None if counted else list(index.tolist())
