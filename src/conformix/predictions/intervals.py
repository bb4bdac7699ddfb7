"""Prediction intervals: two ends per row with manners, their tables, and their files.

``contains(y)`` is the comparison ``lower <= y <= upper`` and nothing else. An interval that holds
no number has ``lower = inf`` and ``upper = -inf``, so that the comparison says so; in tables, whose
readers would stumble over that, both its ends are NaN.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from conformix.data.checks import check_numbers
from conformix.errors import InvalidInput
from conformix.kernels.arrays import (
    BoolArray,
    FloatArray,
    is_tensor,
    stacked,
    to_device,
    to_host,
)
from conformix.predictions.sets import (
    SHOWN,
    as_html,
    check_ids,
    html_table,
    leading_columns,
    place_of_level,
    plain_names,
    row_numbers,
    write_csv,
    write_parquet,
)

__all__ = ["Intervals", "NestedIntervals"]

if TYPE_CHECKING:
    import pandas as pd

# Columns of our own, which no kept one may be called.
TAKEN = ("id", "lower", "upper", "width")


def check_ends(lower: Any, upper: Any, *, levels: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return the ends of intervals as float64 arrays; empty ones have the ends ``inf, -inf``."""
    low, high = check_numbers(lower, "lower"), check_numbers(upper, "upper")
    if low.ndim != 1 + levels or low.shape != high.shape:
        shape = "(levels, n)" if levels else "(n,)"
        raise InvalidInput(
            f"lower and upper must hold one number per row, shape {shape}; got shapes {low.shape} "
            f"and {high.shape}."
        )
    missing = np.isnan(low) | np.isnan(high)
    if missing.any():
        row = int(np.argwhere(missing)[0][-1])
        raise InvalidInput(f"lower and upper must be numbers; row {row} holds NaN.")
    empty = low > high
    return np.where(empty, np.inf, low), np.where(empty, -np.inf, high)


class Intervals:
    """Prediction intervals of n rows: closed, one per row, perhaps unbounded or empty.

    Parameters
    ----------
    lower, upper : arrays of shape (n,)
        The ends, both in the interval; ``-inf`` and ``inf`` where it has none, and any
        ``lower > upper`` where it is empty.
    ids : sequence of length n, optional
        What the rows are called: the index of a frame that was predicted. They go with the rows
        into slices, frames and files.

    Examples
    --------
    >>> intervals = Intervals([0.0, 1.0, 2.0], [1.0, 3.0, 1.0])
    >>> intervals
    Intervals(3 intervals, mean width 1)
    >>> intervals.contains([1.0, 3.5, 1.5])
    array([ True, False, False])
    >>> intervals.is_empty, intervals[0]
    (array([False, False,  True]), (0.0, 1.0))
    """

    def __init__(self, lower: Any, upper: Any, *, ids: Sequence[Any] | None = None) -> None:
        self._lower, self._upper = check_ends(lower, upper)
        check_ids(ids, len(self._lower))
        self._lower.flags.writeable = self._upper.flags.writeable = False
        self.ids = plain_names(ids)

    @classmethod
    def made(cls, lower: Any, upper: Any, ids: Any = None) -> Self:
        """Return the intervals of ends that are as `check_ends` leaves them; they are kept."""
        found = object.__new__(cls)
        found._lower, found._upper, found.ids = lower, upper, plain_names(ids)
        if not is_tensor(lower):
            lower.flags.writeable = upper.flags.writeable = False
        return found

    def on_host(self) -> Intervals:
        """Return the same intervals with arrays as ends: these, unless their ends are tensors."""
        if not is_tensor(self._lower):
            return self
        lower, upper = (np.array(to_host(end)) for end in (self._lower, self._upper))
        return Intervals.made(lower, upper, self.ids)

    @property
    def lower(self) -> FloatArray:
        """The lower ends, shape (n,), read-only; ``inf`` of an empty interval.

        A tensor on the device of what was predicted, where that was a tensor; so are all numbers
        of a row below.
        """
        return self._lower

    @property
    def upper(self) -> FloatArray:
        """The upper ends, shape (n,), read-only; ``-inf`` of an empty interval."""
        return self._upper

    @property
    def width(self) -> FloatArray:
        """How wide the intervals are, shape (n,); 0 where they are empty."""
        if is_tensor(self._lower):
            wide: Any = self._upper - self._lower
            return wide.masked_fill(self.is_empty, 0.0)  # type: ignore[no-any-return]
        return np.where(self.is_empty, 0.0, self._upper - self._lower)

    @property
    def is_empty(self) -> BoolArray:
        """Whether an interval holds no number, shape (n,)."""
        return self._lower > self._upper  # type: ignore[no-any-return]

    def contains(self, y: Any) -> BoolArray:
        """Return ``lower <= y <= upper`` for every row, shape (n,).

        Parameters
        ----------
        y : number or array of shape (n,)
            One response per row, or one for all.
        """
        values = check_numbers(y, "y")
        if values.shape not in ((), (len(self),)):
            raise InvalidInput(
                f"y must hold one number per row, shape ({len(self)},); got shape {values.shape}."
            )
        values = to_device(values, self._lower)
        return (self._lower <= values) & (values <= self._upper)  # type: ignore[no-any-return]

    def to_frame(
        self,
        *,
        ids: Sequence[Any] | None = None,
        keep: Mapping[str, Sequence[Any]] | None = None,
    ) -> pd.DataFrame:
        """Return a pandas frame of ``lower``, ``upper`` and ``width``; own `ids` are its index.

        Parameters
        ----------
        ids : sequence of length n, optional
            What the rows are called, as a first column ``id``.
        keep : mapping of str to sequence of length n, optional
            Further columns, one value per row, to stand before the ends.

        Examples
        --------
        >>> Intervals([0.0], [1.5]).to_frame()
           lower  upper  width
        0    0.0    1.5    1.5
        """
        import pandas as pd  # noqa: PLC0415  an extra, loaded where it is used

        if ids is None and self.ids is not None:
            return pd.DataFrame(self._columns(None, keep), index=pd.Index(self.ids))
        return pd.DataFrame(self._columns(ids, keep))

    def to_csv(
        self,
        path: str | os.PathLike[str],
        *,
        ids: Sequence[Any] | None = None,
        keep: Mapping[str, Sequence[Any]] | None = None,
        escape_formulas: bool = False,
    ) -> None:
        """Write a csv file, whole or not at all; numpy is all that it needs.

        Parameters
        ----------
        path : path
            The file.
        ids, keep
            As in `to_frame`; `ids` of the rows are a column.
        escape_formulas : bool
            As in `PredictionSets.to_csv`: for names from strangers in a spreadsheet.
        """
        table = self._columns(self.ids if ids is None else ids, keep)
        write_csv(path, table, escape_formulas=escape_formulas)

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        ids: Sequence[Any] | None = None,
        keep: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """Write a parquet file, whole or not at all (needs pyarrow).

        Parameters
        ----------
        path : path
            The file.
        ids, keep
            As in `to_csv`.
        """
        write_parquet(path, self._columns(self.ids if ids is None else ids, keep))

    def _columns(
        self, ids: Sequence[Any] | None, keep: Mapping[str, Sequence[Any]] | None
    ) -> dict[str, Any]:
        named, kept = leading_columns(len(self), ids, keep, TAKEN)
        here = self.on_host()
        ends = {
            "lower": np.where(here.is_empty, np.nan, here.lower),
            "upper": np.where(here.is_empty, np.nan, here.upper),
        }
        return ({} if named is None else {"id": named}) | kept | ends | {"width": here.width}

    def __len__(self) -> int:
        return len(self._lower)

    def __getitem__(self, key: Any) -> Any:
        """Return intervals for a slice, numbers or a mask of rows; the two ends of one row."""
        rows = row_numbers(key, len(self))
        if rows is None:
            return float(self._lower[key]), float(self._upper[key])
        ids = None if self.ids is None else [self.ids[row] for row in rows.tolist()]
        where = to_device(rows, self._lower)
        return Intervals.made(self._lower[where], self._upper[where], ids)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return zip(self._lower.tolist(), self._upper.tolist(), strict=True)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the ends as an array (n, 2)."""
        ends = [to_host(self._lower), to_host(self._upper)]
        return np.stack(ends, axis=1).astype(dtype or np.float64)

    def __repr__(self) -> str:
        mean = f"{self.on_host().width.mean():.4g}" if len(self) else "-"
        return f"Intervals({len(self):,} intervals, mean width {mean})"

    def _repr_html_(self) -> str:
        """Return a table of the first intervals for a notebook, in the colours of its page."""
        first = self[:SHOWN]
        named = range(len(first)) if first.ids is None else first.ids
        rows = "".join(
            f"<tr><th>{as_html(name)}</th>{_html_ends(*ends)}</tr>"
            for name, ends in zip(named, first, strict=True)
        )
        head = "<th></th><th>lower</th><th>upper</th><th>width</th>"
        return html_table(repr(self), head, rows, left=len(self) - len(first))


def _html_ends(lower: float, upper: float) -> str:
    if lower > upper:
        return '<td colspan="3"><i>empty</i></td>'
    return f"<td>{lower:.6g}</td><td>{upper:.6g}</td><td>{upper - lower:.6g}</td>"


class NestedIntervals:
    """Prediction intervals of the same rows at several levels.

    Parameters
    ----------
    lower, upper : arrays of shape (number of levels, n)
        The ends at every level.
    alphas : sequence of float
        The levels, rising: intervals shrink as alpha grows.
    ids
        As in `Intervals`.

    Examples
    --------
    >>> nested = NestedIntervals([[0.0, 1.0], [0.5, 1.5]], [[2.0, 4.0], [1.5, 3.0]], [0.05, 0.1])
    >>> nested
    NestedIntervals(2 rows at alpha 0.05, 0.1)
    >>> nested.at(0.1), nested.mean_widths
    (Intervals(2 intervals, mean width 1.25), array([2.5 , 1.25]))
    """

    def __init__(
        self,
        lower: Any,
        upper: Any,
        alphas: Sequence[float],
        *,
        ids: Sequence[Any] | None = None,
    ) -> None:
        if is_tensor(lower):  # of a prediction, as `check_ends` would leave them
            self._lower, self._upper = lower, upper
        else:
            self._lower, self._upper = check_ends(lower, upper, levels=True)
        self.alphas = tuple(float(alpha) for alpha in alphas)
        if len(self.alphas) != len(self._lower):
            raise InvalidInput(
                f"alphas must name all {len(self._lower)} levels; got {len(self.alphas)}."
            )
        check_ids(ids, self._lower.shape[1])
        self.ids = plain_names(ids)

    def at(self, alpha: float) -> Intervals:
        """Return the intervals at one of the levels; ``at(1 - 0.7)`` finds 0.3."""
        level = place_of_level(self.alphas, alpha)
        return Intervals.made(self._lower[level], self._upper[level], self.ids)

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row per level and interval."""
        import pandas as pd  # noqa: PLC0415  an extra, loaded where it is used

        frames = {alpha: self.at(alpha).to_frame() for alpha in self.alphas}
        return pd.concat(frames, names=["alpha", "row"]).reset_index()

    @property
    def widths(self) -> FloatArray:
        """The widths by level, shape (number of levels, n)."""
        return stacked([self.at(alpha).width for alpha in self.alphas])  # type: ignore[no-any-return]

    @property
    def mean_widths(self) -> FloatArray:
        """The mean width at every level."""
        return self.widths.mean(1)  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return self._lower.shape[1]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the ends of all levels, shape (number of levels, n, 2), rising in alpha."""
        ends = [to_host(self._lower), to_host(self._upper)]
        return np.stack(ends, axis=2).astype(dtype or np.float64)

    def __repr__(self) -> str:
        levels = ", ".join(f"{alpha:g}" for alpha in self.alphas)
        return f"NestedIntervals({len(self):,} rows at alpha {levels})"
