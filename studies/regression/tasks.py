"""What a method is given, and what it has to give back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from conformix.experiments.rows import Row
from conformix.kernels.arrays import BoolArray, FloatArray
from conformix.regression.bands import widths
from studies.regression.models import MEANS
from studies.regression.predictions import Draw, Outputs

TERCILES = ("easy", "middle", "hard")


class Verdict(NamedTuple):
    """Widths of the sets of test rows (m,), and whether they hold the responses (m,)."""

    widths: FloatArray
    covered: BoolArray
    also: Row = {}  # noqa: RUF012  nobody writes to it


@dataclass(frozen=True, eq=False)
class Task:
    """Some labelled rows of a run, its test rows, and a level."""

    draw: Draw
    n: int
    alpha: float

    def labelled(self, pairs: tuple[float, ...] | None = None) -> Outputs:
        """Return what the models say of the labelled rows, by default at the usual levels."""
        return self.draw.outputs(slice(self.n), self._pairs(pairs))

    def test(self, pairs: tuple[float, ...] | None = None) -> Outputs:
        """Return what the models say of the test rows."""
        return self.draw.outputs(self.draw.rest, self._pairs(pairs))

    def _pairs(self, pairs: tuple[float, ...] | None) -> tuple[float, ...]:
        """Return the lower levels of quantiles: as `ConformalRegressor` has them where left out."""
        return (self.alpha / 2, 2 * self.alpha) if pairs is None else pairs

    @property
    def y(self) -> FloatArray:
        """Responses of the labelled rows."""
        return self.draw.y(slice(self.n))

    @property
    def y_test(self) -> FloatArray:
        """Responses of the test rows."""
        return self.draw.y(self.draw.rest)

    def verdict(self, lower: FloatArray, upper: FloatArray) -> Verdict:
        """Return what is to be said of intervals of the test rows."""
        y = self.y_test
        return Verdict(widths(lower, upper), (lower <= y) & (y <= upper))


def told(verdict: Verdict, task: Task) -> Row:
    """Return mean width and coverage, also by terciles of the predicted size of residuals."""
    known = task.draw.known.sigmas[task.draw.rest, MEANS.index("stack")]
    parts = np.array_split(np.argsort(known, kind="stable"), len(TERCILES))
    return {
        "n_test": len(verdict.widths),
        "size": float(verdict.widths.mean()),
        "coverage": float(verdict.covered.mean()),
        **{
            name: float(verdict.covered[part].mean())
            for name, part in zip(TERCILES, parts, strict=True)
        },
        **verdict.also,
    }
