"""The measured shortfall: what EFCP loses by selecting on its calibration rows."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from conformix.conformal import conformal_rank
from conformix.fit.exact.split import ROWS_AT_ONCE
from conformix.fit.exact.tables import two_cuts
from conformix.kernels import available_threads, run_blocks
from conformix.kernels.arrays import FloatArray, IntArray, as_tensor, to_host, torch_counts
from conformix.kernels.blocks import row_blocks
from conformix.kernels.twins import host_kernels
from conformix.search.objective import SizeObjective


def leave_one_out_efcp(
    scores: FloatArray,
    y: IntArray,
    weights: FloatArray,
    *,
    alpha: float,
    threads: int | None = None,
) -> float:
    """Return the leave-one-out coverage of EFCP: the measured cost of selecting on all rows.

    Each row is held out in turn, weights and threshold are chosen on the other n - 1, and the
    held-out true label is tested. Unbiased for the coverage of EFCP with n - 1 rows, and more
    telling than any bound. Without row i the threshold is ``c_{k+1}`` of all rows where row i is
    among the first k, else ``c_k``; the counts lose row i's labels.

    Parameters
    ----------
    scores : array of shape (n, K, d)
        Scores of the calibration rows.
    y : integer array of shape (n,)
        Their labels.
    weights : array of shape (M, d)
        Candidates, in the order that breaks ties.
    alpha : float
        Allowed miscoverage.
    threads : int or None
        Threads to use.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> scores = cx.score_tensor(data.outputs["vgg16"][:200], kind="logits")
    >>> from conformix.search.weights import candidate_weights
    >>> weights = candidate_weights(cx.search.GridSearch(10), 3)
    >>> leave_one_out_efcp(scores, data.labels[:200], weights, alpha=0.1)
    0.9
    """
    n, n_classes = scores.shape[:2]
    k = conformal_rank(n - 1, alpha)
    if k > n - 1:
        return 1.0
    cuts, counts, _ = two_cuts(scores, y, weights, k + 1, threads)
    at_high, at_low = counts.T
    # Without a row a count is at least count(c_k) - K, and some weight has at most count(c_{k+1}).
    plausible = np.flatnonzero(at_high <= at_low.min() + n_classes)
    some, cuts, counts = weights[plausible], cuts[plausible], counts[plausible]
    if torch_counts(scores):
        kernels = import_module("conformix.kernels.device.selection")
        return float(to_host(kernels.leave_out(as_tensor(scores), y, some, cuts, counts)).mean())
    host = host_kernels("selection", scores.size * len(some))
    covered = np.empty(n, dtype=bool)

    def work(rows: slice) -> None:
        planes = SizeObjective.planes(scores[rows])
        host.leave_out(planes, y[rows], some, cuts, counts, covered[rows])

    run_blocks(work, row_blocks(n, 1, ROWS_AT_ONCE), available_threads(threads))
    return float(covered.mean())
