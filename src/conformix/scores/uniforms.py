"""One number per row that is uniform over a random key, as a function of the row itself.

Randomised scores need a ``u`` per row. Drawing it afresh in every call lets calibration and
prediction disagree and makes a batch differ from its rows one by one. Here ``u`` is a keyed hash
of the row's outputs: uniform over the key, the same wherever the row appears, and indifferent to
the order of labels and models. Given the key a score is then a plain function of the row, so every
guarantee that needs exchangeable rows holds. But under one key nothing is drawn: rows with equal
outputs share their number, and repeated rows are no repeated draws.
"""

from __future__ import annotations

import numpy as np

from conformix.data.outputs import Outputs
from conformix.kernels.arrays import FloatArray, to_host

# The multipliers and shifts of the splitmix64 finaliser (Steele, Lea & Flood, 2014).
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def _mix(bits: np.ndarray) -> np.ndarray:
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))


def _bits(values: FloatArray) -> np.ndarray:
    """Return the bits of numbers, the same of equal ones: adding 0.0 turns -0.0 into 0.0."""
    return (np.ascontiguousarray(to_host(values), dtype=np.float64) + 0.0).view(np.uint64)


def row_uniforms(outputs: Outputs, rows: slice, key: int) -> FloatArray:
    """Return one number in [0, 1) per row of a block, shape (rows,)."""
    seed = _mix(np.full(1, key, dtype=np.uint64) + _STEP)
    total = np.zeros(rows.stop - rows.start, dtype=np.uint64)
    for values in outputs.models.values():
        total += _mix(_bits(values[rows]) ^ seed).sum(axis=1, dtype=np.uint64)
    return (_mix(total ^ seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def row_digests(outputs: Outputs) -> np.ndarray:
    """Return 128 bits per row, (n, 2): equal where all outputs are, and by chance never."""
    digests = np.zeros((outputs.n, 2), dtype=np.uint64)
    for half in range(2):
        for place, values in enumerate(outputs.models.values()):
            seeds = label_seeds(outputs.n_classes, half + 2 * place)
            digests[:, half] += _mix(_bits(values[:]) ^ seeds).sum(axis=1, dtype=np.uint64)
    return digests


def label_seeds(n_classes: int, seed: int) -> np.ndarray:
    """Return one number of 64 random bits per label, uint64 (K,)."""
    labels = np.arange(n_classes, dtype=np.uint64) * _STEP
    return _mix(labels + _mix(np.full(1, seed, dtype=np.uint64) + _STEP))
