"""The sort of every row, as integers: a third faster than ``argsort``.

Floats, read as integers with the negative ones turned round, rise as floats do. The lowest bits of
each make room for its place in the row, so that one plain sort carries the places along. Numbers
that differ in those bits alone may come out in the wrong order; they are found and sorted again.
"""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray


def rising_order(values: FloatArray) -> IntArray:
    """Return the places of the rising entries of every row, in any order among equal ones.

    Parameters
    ----------
    values : float64 array of shape (n, K), C-contiguous
        Finite numbers.

    Returns
    -------
    int64 array of shape (n, K)

    Examples
    --------
    >>> rising_order(np.array([[0.3, -0.5, 0.2]]))
    array([[1, 2, 0]])
    """
    n_classes = values.shape[1]
    room = (1 << (n_classes - 1).bit_length()) - 1
    bits = values.view(np.int64)
    keys = bits >> 63
    keys &= np.iinfo(np.int64).max
    keys ^= bits
    keys &= ~room
    keys |= np.arange(n_classes)
    keys.sort(axis=1)
    unclear = np.flatnonzero(((keys[:, 1:] ^ keys[:, :-1]) <= room).any(axis=1))
    keys &= room
    if len(unclear):
        rising = np.take_along_axis(values[unclear], keys[unclear], axis=1)
        wrong = unclear[(rising[:, 1:] < rising[:, :-1]).any(axis=1)]
        keys[wrong] = np.argsort(values[wrong], axis=1)
    return keys
