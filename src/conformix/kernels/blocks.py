"""Blocks of rows: how many numbers are worked on at once."""

from __future__ import annotations

from collections.abc import Iterator

# Entries held at once while a block of rows is worked on (8 MiB of float64).
BLOCK_ENTRIES = 2**20
# The same on a device, whose many cores want larger blocks.
DEVICE_ENTRIES = 2**24


def row_blocks(n: int, width: int, entries: int = BLOCK_ENTRIES) -> Iterator[slice]:
    """Yield slices that cut `n` rows of `width` numbers into blocks of about `entries`.

    Examples
    --------
    >>> [(b.start, b.stop) for b in row_blocks(3, 2**19)]
    [(0, 2), (2, 3)]
    """
    step = max(1, entries // max(1, width))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))
