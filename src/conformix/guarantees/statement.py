"""What is promised, in words that travel with every fitted object, table and report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from conformix.conformal import simple_fraction


@dataclass(frozen=True)
class Guarantee:
    """A coverage statement and what it rests on.

    Parameters
    ----------
    kind : {"exact", "pac", "approximate", "none"}
        ``exact``: coverage is at least ``1 - alpha`` in finite samples. ``pac``: so it is for all
        but a share delta of the calibration draws. ``approximate``: the same rows chose the
        weights and the threshold, so a selection term is lost. ``none``: no finite-sample
        statement is known.
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


EXACT = Guarantee(
    "exact",
    "P(y in set) >= 1 - alpha",
    "calibration and test rows exchangeable; weights chosen on other rows",
)
EXACT_FULL = Guarantee(
    "exact",
    "P(y in set) >= 1 - alpha",
    "calibration and test rows exchangeable; every candidate label takes part in the selection",
)
SELECTED = Guarantee(
    "approximate",
    "P(y in set) >= 1 - alpha minus a selection term",
    "i.i.d. rows; the calibration rows also chose the weights",
)
TRANSDUCTIVE = Guarantee(
    "approximate",
    "mean coverage of this test batch >= 1 - alpha minus a selection term",
    "i.i.d. rows; calibration labels and test features chose the weights",
)
UNBOUNDED = Guarantee(
    "none",
    "no finite-sample bound is known",
    "the normalisation was learnt from the calibration rows; use split vfcp or normalize scale",
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
    chosen = "chosen on other rows" if n_weights == 1 else f"chosen among {n_weights:,} candidates"
    return Guarantee(
        "pac",
        f"{what} >= 1 - alpha with probability >= {sure:g} over {over}",
        f"i.i.d. rows; weights {chosen}",
    )
