"""How far floating-point bounds may be off, so that they can be moved outwards by that much.

Every bound compares sums of at most d + 1 products ``w_j * s_j`` or ``w_j * r_j`` with each other.
With unit roundoff u, each sum is off by at most ``(d + 2) u`` times ``sum_j |w_j|`` times the
largest ``|s_j| + |r_j|``; a comparison involves fewer than ten such sums. Anchored bounds also
assume that the weights sum to one, and are off by as much as those do not. A little is added for
products that underflow.

Scores so large that differences could overflow get NaN: every comparison with a NaN bound fails,
so nothing is ever decided by a bound, and all is counted exactly.
"""

from __future__ import annotations

import numpy as np

from conformix.kernels.host.engine.cells import Cells

LARGE = 1e150
TINY = 1e-290


def rounding_slack(cells: Cells, scale: float) -> float:
    """Absolute slack for scores and recentring vectors with ``|s_j| + |r_j| <= scale``."""
    if not cells.mass * scale < LARGE:
        return float("nan")
    d = cells.weights.shape[1]
    return 32.0 * (d + 2) * np.finfo(np.float64).eps * cells.mass * scale + TINY
