"""Clustered calibration: classes whose scores look alike share a threshold (Ding et al., 2023).

A class with few rows has a poor threshold of its own. Classes are embedded by the quantiles of
their true-label scores on the tuning rows, gathered by k-means (each class weighted by the square
root of its rows), and each cluster is calibrated as one stratum: coverage is exact given the
cluster. Classes too rare to be embedded form one more cluster, the null cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from conformix.calibration.cuts import Plan, Seen
from conformix.calibration.strata import Partition, check_fallback, stand_in
from conformix.conformal import conformal_rank, kth_largest, rows_needed
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)
RESTARTS, STEPS = 10, 100


@dataclass(frozen=True)
class Clustered:
    """A threshold per cluster of classes: ``P(y in set | cluster of y) >= 1 - alpha``.

    Parameters
    ----------
    n_clusters : int, optional
        By default half the rows of the rarest class that is embedded.
    fallback : {"pooled", "all", "marginal"}
        What happens to the null cluster, see `conformix.calibration.PerClass`.
    min_rows : int, optional
        Classes with fewer rows are in the null cluster; by default ``ceil(1/alpha) - 1``.
    clusters : sequence of length K, optional
        Clusters of your own, one integer per class, -1 for the null cluster: nothing is learnt,
        and no rows apart are needed.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar100")
    >>> logits, y = data.outputs["wideresnet_16_4"], data.labels
    >>> cp = cx.ScoreAverage("paper", kind="logits", calibration=Clustered(4), random_state=0)
    >>> cp.fit(logits[:5000], y[:5000]).threshold_.shape  # by class, four different ones
    (100,)
    >>> print(cp.guarantee_.statement)
    P(y in set | cluster of y) >= 1 - alpha
    """

    name: ClassVar[str] = "cluster"
    needs: ClassVar[tuple[str, ...]] = ()
    tune: ClassVar[bool] = False

    n_clusters: int | None = None
    fallback: str = "pooled"
    min_rows: int | None = None
    clusters: Any = None

    @property
    def learns(self) -> bool:
        """Whether the clusters are learnt, or given."""
        return self.clusters is None

    def learn(self, seen: Seen) -> Plan:
        """Return one stratum per cluster."""
        check_fallback(self.fallback, self.min_rows)
        if self.clusters is not None:
            cells = _checked(self.clusters, seen.n_classes)
        elif not seen.separate:
            raise InvalidInput(
                "clusters are learnt on rows apart from calibration, and this split has none; say "
                'split="holdout" (vfcp), or give them: Clustered(clusters=[...]).'
            )
        else:
            cells = self._learnt(seen)
        rare = cells < 0
        cells[rare] = stand_in(self.fallback, pool=int(cells.max(initial=-1)) + 1)
        return Partition(cells[None, :], (), "cluster", self.fallback, int(rare.sum()))

    def _learnt(self, seen: Seen) -> IntArray:
        counts = np.bincount(seen.y, minlength=seen.n_classes)
        least = rows_needed(seen.alpha) if self.min_rows is None else self.min_rows
        classes = np.flatnonzero(counts >= max(least, 1))
        cells = np.full(seen.n_classes, -1)
        if not len(classes):
            return cells
        n_clusters = self.n_clusters
        if n_clusters is None:
            n_clusters = max(int(counts[classes].min()) // 2, 1)
        whole = isinstance(n_clusters, int | np.integer) and not isinstance(n_clusters, bool)
        if not whole or n_clusters < 1:
            raise InvalidInput(f"n_clusters must be a positive integer; got {n_clusters!r}.")
        points = np.array([embedding(seen.values[seen.y == c], seen.alpha) for c in classes])
        clusters = weighted_kmeans(
            points, np.sqrt(counts[classes]), min(int(n_clusters), len(classes)), seen.rng
        )
        cells[classes] = clusters
        return cells


def _checked(clusters: Any, n_classes: int) -> IntArray:
    cells = np.array(clusters)
    if cells.shape != (n_classes,) or cells.dtype.kind not in "iu":
        raise InvalidInput(
            f"clusters must hold one integer per class, {n_classes} of them (-1: null cluster); "
            f"got {cells.dtype} of shape {cells.shape}."
        )
    known = cells >= 0
    cells[known] = np.unique(cells[known], return_inverse=True)[1].ravel()
    return np.where(known, cells, -1)


def embedding(values: FloatArray, alpha: float) -> FloatArray:
    """Return the scores that the best 50, 60, ..., 90 % and ``1 - alpha`` of the rows reach.

    Examples
    --------
    >>> embedding(np.arange(10.0), 0.1)
    array([4., 3., 2., 1., 0., 0.])
    """
    n = len(values)
    levels = [1 - level for level in LEVELS] + [float(alpha)]
    reached = [kth_largest(values, min(conformal_rank(n, level), n)) for level in levels]
    # Lifted scores (no empty sets) are infinite; distances need numbers.
    finite = values[np.isfinite(values)]
    return np.nan_to_num(np.array(reached), posinf=finite.max() if len(finite) else 0.0)


def weighted_kmeans(
    points: FloatArray, weights: FloatArray, n_clusters: int, rng: np.random.Generator
) -> IntArray:
    """Return the cluster of every point: Lloyd's steps from k-means++ starts, the best of ten.

    Examples
    --------
    >>> points = np.array([[0.0], [0.1], [9.0], [9.1]])
    >>> found = weighted_kmeans(points, np.ones(4), 2, np.random.default_rng(0))
    >>> bool(found[0] == found[1] != found[2] == found[3])
    True
    """
    best, least = np.zeros(len(points), dtype=np.int64), np.inf
    for _ in range(RESTARTS):
        centres = _starts(points, weights, n_clusters, rng)
        labels = np.full(len(points), -1)
        for _ in range(STEPS):
            distances = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2)
            moved = distances.argmin(axis=1)
            if (moved == labels).all():
                break
            labels = moved
            for c in np.unique(labels):
                centres[c] = np.average(points[labels == c], axis=0, weights=weights[labels == c])
        cost = float((weights * distances.min(axis=1)).sum())
        if cost < least:
            best, least = labels, cost
    return np.unique(best, return_inverse=True)[1].reshape(-1)


def _starts(
    points: FloatArray, weights: FloatArray, n_clusters: int, rng: np.random.Generator
) -> FloatArray:
    """Return start centres: each new one far from the others, by chance (k-means++)."""
    chosen = [int(rng.choice(len(points), p=weights / weights.sum()))]
    for _ in range(n_clusters - 1):
        nearest = ((points[:, None, :] - points[None, chosen]) ** 2).sum(axis=2).min(axis=1)
        chances = weights * nearest
        if not chances.sum() > 0:
            break
        chosen.append(int(rng.choice(len(points), p=chances / chances.sum())))
    return points[chosen].copy()
