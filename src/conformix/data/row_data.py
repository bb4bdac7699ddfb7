"""What rows bring along besides their outputs: the stratum they belong to, their importance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, host_array


@dataclass(frozen=True)
class RowData:
    """Per-row data that a calibration may need, at fit and at prediction.

    Parameters
    ----------
    strata : array of shape (n,), optional
        The group of every row: text or integers.
    weight : float64 array of shape (n,), optional
        The importance of every row: the ratio of the densities of the new and the old law.

    Examples
    --------
    >>> RowData(strata=np.array(["a", "b"])).take(slice(1, 2)).strata
    array(['b'], dtype='<U1')
    """

    strata: Any = None
    weight: FloatArray | None = None

    def take(self, rows: Any) -> RowData:
        """Return the data of some of the rows."""
        strata = None if self.strata is None else self.strata[rows]
        weight = None if self.weight is None else self.weight[rows]
        return RowData(strata, weight)


NO_DATA = RowData()


def group_names(data: RowData) -> tuple[Any, ...]:
    """Return the names of the groups of some rows, sorted; none without groups.

    Examples
    --------
    >>> group_names(RowData(strata=np.array([7, 3, 7])))
    (3, 7)
    """
    return () if data.strata is None else tuple(np.unique(data.strata).tolist())


_USED_BY = {
    "strata": 'calibration="group" or PerGroup(...)',
    "sample_weight": 'calibration="weighted" or Weighted(...)',
}


def check_rows(
    strata: Any, sample_weight: Any, n: int, needs: tuple[str, ...], called: str
) -> RowData:
    """Return the checked data of n rows, or say what is missing or not used.

    Parameters
    ----------
    strata, sample_weight
        As the user gave them.
    n : int
        Number of rows.
    needs : tuple of str
        What the calibration needs of every row: ``"strata"``, ``"sample_weight"`` or nothing.
    called : str
        The calibration, for the error.

    Examples
    --------
    >>> check_rows(None, [1, 2], 2, ("sample_weight",), "weighted").weight
    array([1., 2.])
    >>> check_rows(None, None, 2, ("strata",), "group")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: calibration "group" needs strata=..., one value per row.
    """
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
