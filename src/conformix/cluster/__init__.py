"""Rows on many machines: Dask arrays in, the same weights and sets out; experiments on workers.

`ScoreAverage.fit` and ``predict_set`` take Dask arrays as they take others: the array chooses. The
kernels are those of one machine, a chunk of rows at a time; what comes back to the client are the
true-label scores of all rows, d numbers each, and the outputs of the rows that tune. A worker that
is lost costs the time to compute its chunks again.
"""

from __future__ import annotations

from conformix.cluster.connect import connected
from conformix.cluster.spread import SpreadGrid, landscape

__all__ = ["SpreadGrid", "connected", "landscape"]
