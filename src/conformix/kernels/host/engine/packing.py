"""From a row of 0/1 marks to the positions of the ones, eight marks at a time.

Eight marks, read as one word, become a byte with one multiplication; a table of 256 rows knows the
positions of its set bits. All eight table entries are written and the pointer moves by as many as
are valid: no branch, whatever the marks.
"""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import IntArray
from conformix.kernels.host.compiled import compiled

_BYTES = np.arange(256)[:, None]
_BITS = (_BYTES >> np.arange(8)) & 1
POSITIONS = np.argsort(1 - _BITS, axis=1, kind="stable").astype(np.int32)
ONES = _BITS.sum(axis=1)
# gathers the lowest bit of each of the eight bytes into the highest byte, first mark lowest
GATHER = np.uint64(0x0102040810204080)


@compiled
def pack_marks(marks: IntArray, picked: IntArray) -> int:
    """Write the positions of the ones in `marks` to `picked`; returns how many there are.

    Parameters
    ----------
    marks : uint8, length a multiple of 8.
    picked : int32, at least 8 longer than the number of ones.
    """
    words = marks.view(np.uint64)
    kept = 0
    for g in range(len(words)):
        byte = np.int64((words[g] * GATHER) >> np.uint64(56))
        positions = POSITIONS[byte]
        out = picked[kept : kept + 8]
        for q in range(8):
            out[q] = positions[q] + np.int32(8 * g)
        kept += ONES[byte]
    return kept
