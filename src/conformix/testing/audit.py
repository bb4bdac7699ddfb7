"""The audit of exactness: an identity that holds without tolerance, or the claim is false.

Take any n + 1 labelled rows, hold each out in turn, calibrate on the other n and ask whether the
held-out true label is in its set. A rule with exact coverage treats the n + 1 rows alike, so at
least ``k = ceil((n+1)(1-alpha))`` of them are covered, always: no simulation, no tolerance. A rule
that looks at the calibration rows in a way that leaves the held-out row out fails on some bags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformix.conformal import conformal_rank
from conformix.kernels.arrays import BoolArray


@dataclass(frozen=True)
class AuditReport:
    """How many of the held-out rows were covered, and how many had to be.

    Parameters
    ----------
    covered : int
        Covered rows among the n + 1.
    needed : int
        The conformal rank k.
    n_rows : int
        n + 1.
    cells : dict of AuditReport
        The same for the rows of every cell, where cells are given; the numbers are then sums.

    Examples
    --------
    >>> AuditReport(covered=9, needed=9, n_rows=10).holds
    True
    """

    covered: int
    needed: int
    n_rows: int
    cells: dict[Any, AuditReport] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether at least k of the n + 1 rows are covered, of all or of every cell."""
        if self.cells:
            return all(cell.holds for cell in self.cells.values())
        return self.covered >= self.needed

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "FAILS"
        failing = [f"{name}: {cell}" for name, cell in self.cells.items() if not cell.holds]
        counts = f"{self.covered} of {self.n_rows} covered, {self.needed} needed"
        cells = f" in {len(self.cells)} cells" if self.cells else ""
        return "; ".join([f"{verdict}: {counts}{cells}", *failing])


def leave_one_out(
    calibrate: Callable[..., Any],
    outputs: Any,
    y: Any,
    *,
    alpha: float,
    cells: Any = None,
    **rows: Any,
) -> AuditReport:
    """Return how many rows are covered when each is held out in turn.

    A promise that holds in every cell (class, group) is audited cell by cell: of the ``n_c + 1``
    rows of a cell at least ``k(n_c)`` are covered.

    Parameters
    ----------
    calibrate : callable
        ``calibrate(outputs, y)`` returns an object with ``predict_set(outputs)``, or of responses
        with ``predict_interval(outputs)``. For a split
        that claims exactness it is ``lambda p, y: cp.fit(p, y)``; for VFCP, whose tuning rows
        are fixed, it is ``cp.recalibrate``.
    outputs : array of shape (n + 1, K), `Regressed`, or a mapping of such
        Outputs on any labelled rows.
    y : array of shape (n + 1,)
        Their labels, or responses.
    alpha : float
        The level that the sets claim.
    cells : sequence of length n + 1, optional
        The cell of every row: anything that can be a key of a dict. A cell may depend on all n + 1
        rows together (classes that are rare among them), never on which of them is held out.
    **rows : arrays of shape (n + 1,)
        What rows bring along, handed to `calibrate` and to ``predict_set``: ``strata=``.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"], data.labels
    >>> cp = cx.ScoreAverage("paper", alpha=0.2, kind="logits", random_state=0)
    >>> cp = cp.fit(logits[:500], y[:500])
    >>> print(leave_one_out(cp.recalibrate, logits[500:530], y[500:530], alpha=0.2))
    holds: 24 of 30 covered, 24 needed
    """
    labels = np.asarray(y)
    brought = {name: np.asarray(values) for name, values in rows.items()}
    places = np.arange(len(labels))
    covered = np.zeros(len(labels), dtype=bool)
    for i in places:
        others, held_out = places != i, places == i
        fitted = calibrate(
            take_rows(outputs, others), labels[others], **{n: v[others] for n, v in brought.items()}
        )
        predict = getattr(fitted, "predict_interval", None) or fitted.predict_set
        sets = predict(take_rows(outputs, held_out), **{n: v[held_out] for n, v in brought.items()})
        if hasattr(sets, "contains"):  # intervals of responses
            covered[i] = sets.contains(labels[held_out])[0]
        else:
            covered[i] = np.asarray(sets)[0, labels[i]]
    if cells is None:
        return _report(covered, alpha)
    by_cell = {
        cell: _report(covered[[other == cell for other in cells]], alpha)
        for cell in dict.fromkeys(cells)
    }
    needed = sum(report.needed for report in by_cell.values())
    return AuditReport(int(covered.sum()), needed, len(labels), by_cell)


def _report(covered: BoolArray, alpha: float) -> AuditReport:
    """Return the report of rows that share a threshold."""
    return AuditReport(int(covered.sum()), conformal_rank(len(covered) - 1, alpha), len(covered))


def take_rows(outputs: Any, rows: Any) -> Any:
    """Return the outputs on the rows of a mask or an index array."""
    if isinstance(outputs, Mapping):
        return {model: take_rows(values, rows) for model, values in outputs.items()}
    return outputs.subset(rows) if hasattr(outputs, "subset") else np.asarray(outputs)[rows]
