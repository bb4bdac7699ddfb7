"""What the weights of a report must come to, from the kernels alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.conformal import conformal_rank, kth_largest
from conformix.kernels import combine


def counted(case: Any, weights: np.ndarray, alpha: float) -> tuple[int, int]:
    """Labels in all sets and covered rows: calibrate on one half, measure on the other."""
    rows = case.report.rows
    combined = combine(rows.scores, weights)
    own = combined[np.arange(len(case.y)), case.y]
    first, second = rows.halves()
    labels = hits = 0
    for calibrate, test in ((first, second), (second, first)):
        threshold = kth_largest(own[calibrate], conformal_rank(len(calibrate), alpha))
        labels += int((combined[test] >= threshold).sum())
        hits += int((own[test] >= threshold).sum())
    return labels, hits
