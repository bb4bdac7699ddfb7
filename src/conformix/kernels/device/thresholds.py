"""The thresholds of all weights at once, on the device of the true-label scores.

``t(w)`` is the k-th largest of ``combine(s_i, w)`` over the labelled rows. In a cell of weights
every row lies between two bounds; the k-th largest lower and upper bounds enclose all thresholds of
the cell. Rows above are counted, rows below are dropped, and the few in between are combined
exactly for each of its weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray, to_device, to_host, torch_module
from conformix.kernels.device.cells import Cells, rounding_slack

# Numbers held at once (256 MiB of float64).
ENTRIES = 2**25
SAMPLE_ROWS = 2048
TYPICAL_ROWS = 33


def all_thresholds(rows: Any, k: int, weights: FloatArray, cells: Cells) -> FloatArray:
    """Return t(w) of every weight vector, float64 (M,), in host memory; ``1 <= k <= n`` rows."""
    thresholds = np.empty(len(weights))
    slack = rounding_slack(weights, 2 * float(rows.abs().max()))
    step = max(1, ENTRIES // (4 * len(rows)))
    for first in range(0, len(cells.members), step):
        some = slice(first, first + step)
        above, undecided = _narrow(
            rows, k, cells.centre[some], cells.half[some], cells.anchor, slack
        )
        left = to_host(above), to_host(undecided.sum(dim=1))
        for group in _groups(left[1] + k - left[0], cells.members.shape[1]):
            members = cells.members[some][group]
            kth = _select(
                rows, undecided[group], left[1][group], k - left[0][group], weights[members]
            )
            thresholds[members] = kth
    return thresholds


def kth_largest(values: Any, k: int) -> Any:
    """Return the k-th largest along the last axis of a tensor."""
    return values.kthvalue(values.shape[-1] - k + 1, dim=-1).values


def _narrow(
    rows: Any, k: int, centre: FloatArray, half: FloatArray, anchor: int, slack: float
) -> tuple[Any, Any]:
    """Return how many rows are above all thresholds of each cell (C,), and which are not sure."""
    middle, reach = to_device(centre, rows), to_device(half, rows)
    typical = _typical(rows, k, middle)
    value = middle @ rows.T - (middle * typical).sum(dim=1, keepdim=True)
    radius = None
    for j in range(rows.shape[1]):
        if j == anchor:
            continue
        apart = rows[:, j] - typical[:, j : j + 1]
        if anchor >= 0:
            apart = apart - (rows[:, anchor] - typical[:, anchor : anchor + 1])
        part = apart.abs_().mul_(reach[:, j : j + 1])
        radius = part if radius is None else radius.add_(part)
    if radius is None:
        radius = value.new_zeros(())
    low, high = value - radius, value + radius
    floor = kth_largest(low, k)[:, None] - slack
    ceiling = kth_largest(high, k)[:, None] + slack
    surely_above = low > ceiling
    return surely_above.sum(dim=1), ~(surely_above | (high < floor))


def _typical(rows: Any, k: int, centre: Any) -> Any:
    """Return the mean (C, d) of some rows near the threshold of each cell's centre."""
    sample = rows[:: 1 + len(rows) // SAMPLE_ROWS]
    n = len(sample)
    order = (centre @ sample.T).argsort(dim=1, descending=True)
    near = round((k - 1) / len(rows) * n)
    first = max(0, min(near - TYPICAL_ROWS // 2, n - TYPICAL_ROWS))
    return sample[order[:, first : first + TYPICAL_ROWS]].mean(dim=1)


def _groups(columns: IntArray, n_weights: int) -> list[slice]:
    """Return runs of cells whose padded values fit into memory together."""
    groups, first = [], 0
    for stop in range(1, len(columns) + 1):
        wide = columns[first : stop + 1].max()
        if stop == len(columns) or wide * n_weights * (stop + 1 - first) > ENTRIES:
            groups.append(slice(first, stop))
            first = stop
    return groups


def _select(
    rows: Any, undecided: Any, n_undecided: IntArray, ranks: IntArray, weights: FloatArray
) -> FloatArray:
    """Return the exact k-th largest among the kept rows, (G, m), with a rank for each cell.

    One rank serves all cells once each is given ``max rank - own rank`` values of plus infinity;
    the other empty places hold minus infinity.
    """
    torch = torch_module()
    rank = int(ranks.max())
    width = int((n_undecided + rank - ranks).max())
    cell, row = undecided.nonzero(as_tuple=True)
    starts = to_device(np.cumsum(n_undecided) - n_undecided, rows)
    column = torch.arange(len(cell), device=rows.device) - starts[cell]
    padded = rows.new_zeros((rows.shape[1], len(n_undecided), 1, width))
    padded[:, cell, 0, column] = rows[row].T
    factors = to_device(weights, rows)
    value = factors[:, :, 0, None] * padded[0]
    for j in range(1, rows.shape[1]):
        value += factors[:, :, j, None] * padded[j]
    places = torch.arange(width, device=rows.device)
    filled = to_device(n_undecided, rows)[:, None]
    lifted = to_device(n_undecided + rank - ranks, rows)[:, None]
    value.masked_fill_((places >= filled)[:, None], np.inf)
    value.masked_fill_((places >= lifted)[:, None], -np.inf)
    return to_host(kth_largest(value, rank))  # type: ignore[no-any-return]
