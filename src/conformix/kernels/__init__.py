"""How to compute: the few routines in which weights meet scores.

`combine` is the one arithmetic: ``w[0]*s[...,0] + w[1]*s[...,1] + ...``, added in that order in
float64. Thresholds and membership both go through it, because scores tie and one last bit turns a
tie into a wrong set. The compiled kernels repeat the same operations in the same order.
"""

from conformix.kernels.blocks import available_threads, run_blocks
from conformix.kernels.combine import combine, lift_best

__all__ = ["available_threads", "combine", "lift_best", "run_blocks"]
