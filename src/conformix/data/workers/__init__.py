"""Rows on many machines: Dask arrays in, the same weights and sets out; experiments on workers.

`ScoreAverage.fit` and ``predict_set`` take Dask arrays as they take others: the array chooses. The
kernels are those of one machine, a chunk of rows at a time. The scores of the true labels stay with
the workers; what comes to the client are the labels, the outputs of the rows that tune, and in the
end one number per calibration row, which for one threshold the workers have sorted and merged in a
tree. A worker that is lost costs the time to compute its chunks again.
"""

from __future__ import annotations

from conformix.data.workers.connect import connected

__all__ = ["connected"]
