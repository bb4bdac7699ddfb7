"""The scale on which scores of a response are averaged: learnt without labels, or given.

Every score is divided so that the mean of its spread, 1/slope, over some rows is 1: all scores are
then in units of the response, as residuals are. These rows are not those that calibrate, or they
are all n + 1 rows alike: under ``exact`` the scale counts the row to predict. There it is rounded
to powers of two, so that nearly all rows that are predicted have one scale.

Beside the mean it says how small a spread may be: `LEAST` of its mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import mul
from typing import Any

import numpy as np

from conformix.errors import InvalidInput, shown
from conformix.kernels.arrays import FloatArray, is_tensor, torch_module
from conformix.regression.planes import Planes, each_once
from conformix.regression.regressed import RegressedOutputs
from conformix.regression.scores import spread_of, vees_of
from conformix.scores.names import Column

# No spread counts for less than this share of the mean spread of its score.
LEAST = 0.01
# Where one power of two turns into the next: no sum of plain numbers lies there.
TURN = math.sqrt(0.5)
# Sums that are as close to the turn as this are added up exactly.
CLOSE = 1e-9


@dataclass(frozen=True)
class LineScale:
    """Scores of models as planes on one scale.

    Parameters
    ----------
    columns : tuple of Column
        Which score of which model every plane is.
    means : tuple of float
        By what every score is multiplied: its mean spread, 1 where that is not known.
    floors : tuple of float
        The least spread of every score; 0 where none was learnt.
    """

    columns: tuple[Column, ...]
    means: tuple[float, ...]
    floors: tuple[float, ...]

    @property
    def plain(self) -> LineScale:
        """The scores as they are, on a scale that nobody learnt."""
        return unscaled(self.columns)

    def __call__(self, outputs: RegressedOutputs) -> Planes:
        """Return the planes of some rows."""
        parts = []
        for column, mean, floor in zip(self.columns, self.means, self.floors, strict=True):
            centre, *rest = vees_of(column.score, outputs.by_name[column.model], floor)
            parts.append([centre, *(rest if mean == 1.0 else each_once(partial(mul, mean), rest))])
        if len(parts) == 1:  # as they are: what is constant, or the same on both sides, stays so
            return Planes(*each_once(lambda part: part[:, None], parts[0]))
        return Planes(*(_side_by_side(plane) for plane in zip(*parts, strict=True)))


def _side_by_side(columns: Sequence[Any]) -> FloatArray:
    """Return columns (n,) as a matrix (n, d), on a device where they are."""
    if is_tensor(columns[0]):
        return torch_module().stack(list(columns), dim=1)  # type: ignore[no-any-return]
    return np.stack(columns, axis=1)


def unscaled(columns: tuple[Column, ...]) -> LineScale:
    """Return the scale of scores as they are."""
    return LineScale(columns, (1.0,) * len(columns), (0.0,) * len(columns))


def spreads(outputs: RegressedOutputs, columns: Sequence[Column]) -> list[FloatArray | None]:
    """Return the spreads (n,) of every score, None where they are 1 or none."""
    return [spread_of(score, outputs.by_name[model]) for model, score in columns]


def learnt_scale(outputs: RegressedOutputs, columns: tuple[Column, ...]) -> LineScale:
    """Return the scale on which the mean spread of every score over these rows is 1."""
    means = [0.0 if one is None else mean_of(one) for one in spreads(outputs, columns)]
    return _with_means(columns, means)


def _with_means(columns: tuple[Column, ...], means: Sequence[float]) -> LineScale:
    """Return the scale of mean spreads; a score that has none, or 0, stays as it is."""
    factors = tuple(mean or 1.0 for mean in means)
    return LineScale(columns, factors, tuple(LEAST * mean for mean in means))


def mean_of(spread: FloatArray) -> float:
    """Return the mean of spreads, to the last bit whatever their order."""
    return math.fsum(spread.tolist()) / len(spread)


def given_scale(columns: tuple[Column, ...], divisors: Any) -> LineScale:
    """Return the scale that a user gives as divisors (d,), or none."""
    if divisors is None:
        return unscaled(columns)
    values = np.asarray(divisors, dtype=np.float64)
    if values.shape != (len(columns),):
        raise InvalidInput(
            f"normalize must hold one divisor per score, {len(columns)} of them; got shape "
            f"{values.shape}."
        )
    return replace(unscaled(columns), means=tuple((1 / values).tolist()))


def check_normalize(normalize: Any) -> tuple[bool, Any]:
    """Return whether the scale is learnt, and the divisors that are given instead, if any."""
    if isinstance(normalize, str) and normalize in ("auto", "none"):
        return normalize == "auto", None
    try:
        values = np.asarray(normalize, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.zeros(1)
    if isinstance(normalize, str) or values.ndim != 1 or not _are_divisors(values):
        raise InvalidInput(
            'normalize must be "auto", "none" or one positive divisor per score; got '
            f"{shown(normalize)}."
        )
    return False, tuple(values.tolist())


def _are_divisors(values: FloatArray) -> bool:
    return bool(len(values) and np.isfinite(values).all() and (values > 0).all())


class SymmetricScale:
    """The scale of n rows and the one to predict, all alike, rounded to powers of two."""

    def __init__(self, outputs: RegressedOutputs, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self.n = outputs.n
        self.spreads = [
            None if one is None else one.tolist() for one in spreads(outputs, columns)
        ]  # fmt: skip
        self.sums = [0.0 if one is None else math.fsum(one) for one in self.spreads]

    def of_rows(self, outputs: RegressedOutputs) -> FloatArray:
        """Return the mean spreads (m, d) with each of m new rows; 0 where there is none."""
        found = np.zeros((outputs.n, len(self.columns)))
        for j, own in enumerate(spreads(outputs, self.columns)):
            if own is not None:
                found[:, j] = self._rounded(j, own)
        return found

    def scale(self, means: FloatArray) -> LineScale:
        """Return the scale of these mean spreads (d,)."""
        return _with_means(self.columns, means.tolist())

    def _rounded(self, j: int, own: FloatArray) -> FloatArray:
        """Return the means of n known spreads and each new one, as powers of two."""
        means = (self.sums[j] + own) / (self.n + 1)
        parts, exponents = np.frexp(means)
        for i in np.flatnonzero(np.abs(parts - TURN) < CLOSE):  # where rounding could tell rows
            exact = math.fsum([*self.spreads[j], float(own[i])]) / (self.n + 1)  # type: ignore[misc]
            parts[i], exponents[i] = math.frexp(exact)
        rounded = np.ldexp(1.0, np.where(parts >= TURN, exponents, exponents - 1))
        return np.where(means > 0, rounded, 0.0)
