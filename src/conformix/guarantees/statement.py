"""What is promised, in words that travel with every fitted object, table and report."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from conformix.conformal import simple_fraction

KINDS = {
    "exact": "the statement holds as it stands, in finite samples, under the assumption beside it",
    "pac": "coverage is at least 1 - alpha for all but a share delta of the draws",
    "approximate": "the statement names what is lost of it, or for whom nothing is promised",
    "none": "no finite-sample statement is known",
}
"""The kinds of a guarantee, with what each of them means."""

LABELS = "every label among the classes"


@dataclass(frozen=True)
class Guarantee:
    """A coverage statement and what it rests on.

    Parameters
    ----------
    kind : {"exact", "pac", "approximate", "none"}
        ``exact``: the statement holds as it stands, in finite samples, under the assumption beside
        it. ``pac``: coverage is at least ``1 - alpha`` for all but a share delta of the draws.
        ``approximate``: the statement names what is lost of it, or for whom nothing is promised: a
        selection term where the same rows chose the weights and the threshold, the error of
        estimated ratios; rare classes, new groups. ``none``: no finite-sample statement is known.
    statement : str
        What holds.
    assumption : str
        What it needs.

    Examples
    --------
    >>> print(Guarantee("exact", "P(y in set) >= 1 - alpha", "exchangeable rows"))
    exact: P(y in set) >= 1 - alpha (exchangeable rows)
    """

    kind: Literal["exact", "pac", "approximate", "none"]
    statement: str
    assumption: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.statement} ({self.assumption})"

    def assuming(self, more: str) -> Guarantee:
        """Return the same statement with one more assumption.

        Examples
        --------
        >>> print(Guarantee("exact", "coverage", "exchangeable rows").assuming("no drift"))
        exact: coverage (exchangeable rows; no drift)
        """
        return replace(self, assumption=f"{self.assumption}; {more}")

    def of_responses(self, y_range: tuple[float, float] | None = None) -> Guarantee:
        """Return the statement about responses on the real line instead of classes.

        Parameters
        ----------
        y_range : pair of float, optional
            What every response is assumed to lie within.

        Examples
        --------
        >>> EXACT.of_responses((0.0, 5.0)).assumption.rpartition("; ")[2]
        'every response within [0, 5]'
        """
        text = self.assumption.replace("candidate label", "candidate response")
        same = replace(self, assumption=text.removesuffix(f"; {LABELS}"))
        if y_range is None:
            return same
        return same.assuming(f"every response within [{y_range[0]:g}, {y_range[1]:g}]")

    def taught_apart(self, n_rows: int) -> Guarantee:
        """Return the statement with what it needs of so many rows that taught scores.

        Examples
        --------
        >>> Guarantee("exact", "coverage", "exchangeable rows").taught_apart(1_000).assumption
        'exchangeable rows; the 1,000 unlabelled rows neither calibrate nor are predicted'
        """
        if not n_rows:
            return self
        rows = f"{n_rows:,} unlabelled rows neither" if n_rows > 1 else "1 unlabelled row neither"
        verbs = "calibrate nor are" if n_rows > 1 else "calibrates nor is"
        return self.assuming(f"the {rows} {verbs} predicted")


def at_least(bound: float) -> str:
    """Return a lower bound in four digits, never rounded up: what is printed is proven."""
    return f"{math.floor(bound * 10**4 + 1e-9) / 10**4:.4f}"


def at_most(bound: float) -> str:
    """Return an upper bound in four digits, never rounded down."""
    return f"{math.ceil(bound * 10**4 - 1e-9) / 10**4:.4f}"


EXACT = Guarantee(
    "exact",
    "P(y in set) >= 1 - alpha",
    f"calibration and test rows exchangeable; weights chosen without these rows; {LABELS}",
)
EXACT_FULL = Guarantee(
    "exact",
    "P(y in set) >= 1 - alpha",
    "calibration and test rows exchangeable; every candidate label takes part in the selection; "
    f"{LABELS}",
)
SELECTED = Guarantee(
    "approximate",
    "P(y in set) >= 1 - alpha minus a selection term",
    f"i.i.d. rows; the calibration rows also chose the weights; {LABELS}",
)
TRANSDUCTIVE = Guarantee(
    "approximate",
    "mean coverage of this test batch >= 1 - alpha minus a selection term",
    "i.i.d. rows; calibration labels and the features of this test batch chose the weights; "
    f"{LABELS}",
)
UNBOUNDED = Guarantee(
    "none",
    "no finite-sample bound is known",
    "the scale or a score was learnt from the calibration rows; use split vfcp, or normalize scale "
    "with scores that learn nothing",
)


def pac_guarantee(delta: float, *, n_weights: int, batch: int | None) -> Guarantee:
    """Return the statement that a PAC rank gives.

    Examples
    --------
    >>> pac_guarantee(0.1, n_weights=1, batch=None).kind
    'pac'
    """
    sure = 1 - float(simple_fraction(delta, "delta"))
    what = "coverage" if batch is None else f"coverage of the fitted batch of {batch:,} rows"
    over = "the calibration rows" if batch is None else "calibration and batch"
    chosen = (
        "chosen without these rows" if n_weights == 1 else f"chosen among {n_weights:,} candidates"
    )
    return Guarantee(
        "pac",
        f"{what} >= 1 - alpha with probability >= {sure:g} over {over}",
        f"i.i.d. rows; weights {chosen}; {LABELS}",
    )
