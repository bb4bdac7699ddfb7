"""Rows that do not fit in memory: batches of memory-mapped files, Parquet files and iterators.

`ScoreAverage.fit_batches` and `ScoreAverage.predict_batches` take what is made here, or any
iterable of batches. A fit reads every row once, and once more for the held-out size where the
rows can be read again.
"""

from __future__ import annotations

from conformix.data.batches.sources import (
    Batches,
    from_arrays,
    from_iterable,
    from_npy,
    from_parquet,
)

__all__ = [
    "Batches",
    "from_arrays",
    "from_iterable",
    "from_npy",
    "from_parquet",
]
