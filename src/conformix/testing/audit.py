"""The audit of exactness: an identity that holds without tolerance, or the claim is false.

Take any n + 1 labelled rows, hold each out in turn, calibrate on the other n and ask whether the
held-out true label is in its set. A rule with exact coverage treats the n + 1 rows alike, so at
least ``k = ceil((n+1)(1-alpha))`` of them are covered, always: no simulation, no tolerance. A rule
that looks at the calibration rows in a way that leaves the held-out row out fails on some bags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.conformal import conformal_rank


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

    Examples
    --------
    >>> AuditReport(covered=9, needed=9, n_rows=10).holds
    True
    """

    covered: int
    needed: int
    n_rows: int

    @property
    def holds(self) -> bool:
        """Whether at least k of the n + 1 rows are covered."""
        return self.covered >= self.needed

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "FAILS"
        return f"{verdict}: {self.covered} of {self.n_rows} covered, {self.needed} needed"


def leave_one_out(
    calibrate: Callable[[Any, Any], Any], outputs: Any, y: Any, *, alpha: float
) -> AuditReport:
    """Return how many rows are covered when each is held out in turn.

    Parameters
    ----------
    calibrate : callable
        ``calibrate(outputs, y)`` returns an object with ``predict_set(outputs)``. For a split
        that claims exactness it is ``lambda p, y: cp.fit(p, y)``; for VFCP, whose tuning rows
        are fixed, it is ``cp.recalibrate``.
    outputs : array of shape (n + 1, K), or a mapping of such arrays
        Outputs on any labelled rows.
    y : integer array of shape (n + 1,)
        Their labels.
    alpha : float
        The level that the sets claim.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"], data.labels
    >>> cp = cx.ScoreAverage(alpha=0.2, kind="logits", random_state=0).fit(logits[:500], y[:500])
    >>> print(leave_one_out(cp.recalibrate, logits[500:530], y[500:530], alpha=0.2))
    holds: 24 of 30 covered, 24 needed
    """
    labels = np.asarray(y)
    rows = np.arange(len(labels))
    covered = 0
    for i in rows:
        others = rows != i
        fitted = calibrate(take_rows(outputs, others), labels[others])
        covered += bool(np.asarray(fitted.predict_set(take_rows(outputs, rows == i)))[0, labels[i]])
    return AuditReport(covered, conformal_rank(len(rows) - 1, alpha), len(rows))


def take_rows(outputs: Any, rows: Any) -> Any:
    """Return the outputs on the rows of a mask or an index array."""
    if isinstance(outputs, Mapping):
        return {model: take_rows(values, rows) for model, values in outputs.items()}
    return outputs.subset(rows) if hasattr(outputs, "subset") else np.asarray(outputs)[rows]
