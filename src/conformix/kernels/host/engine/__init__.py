"""The exact engine: counts for all weights of a batch, and their exact minimum, fast.

The count of a weight ``w`` is the number of (row, label) pairs with ``combine(w, s) >= t(w)``,
where ``t(w)`` is the k-th largest combined score of the true labels. From arrays to counts:

`cells` a tree of boxes over the weights -> `thresholds` all t(w) -> `brackets` what each box knows
of t -> `walk` rows fall through the tree, in blocks, and only pairs that no box decides go down ->
`landscape` all counts, `argmin` the smallest.

Bounds are floats with outward slack; what they leave undecided is compared in the arithmetic of
`conformix.kernels.combine`, bit for bit. No order of the labels is needed: scores of one model and
of several are treated alike.
"""

from conformix.kernels.host.engine.argmin import smallest_count
from conformix.kernels.host.engine.landscape import candidate_counts, counts_and_thresholds

__all__ = ["candidate_counts", "counts_and_thresholds", "smallest_count"]
