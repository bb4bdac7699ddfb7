"""What the log of a stream says: coverage, sizes, levels, weights and drift, as it grows.

A monitor reads records as they come and holds curves of a fixed number of stretches: when they are
full, neighbours are put together. It needs neither the rows nor the process that writes them.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from conformix.fit.saved.files import format_of
from conformix.guarantees import Guarantee
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.online.alarm import Alarm
from conformix.online.average import OnlineAverage
from conformix.online.controllers import bound_of, ceiling_of
from conformix.online.log import START, Ended, Issued, Labelled, log_folder, recorded_steps
from conformix.online.regression import OnlineRegression
from conformix.online.statement import stream_guarantee
from conformix.online.stream import Stream

# Stretches of a curve, between this many and half of it.
STRETCHES = 240
# Records read at once, before a view is drawn again.
AT_ONCE = 100_000


@dataclass(frozen=True, eq=False)
class Curves:
    """A stream in stretches, one row each; shapes are (T,), (T, m) of m levels, (T, d) of d scores.

    Parameters
    ----------
    labels : integer array of shape (T,)
        Labels up to the end of each stretch.
    coverage, running, bound, size, level : float64 arrays of shape (T, m)
        The share of sets that held the truth in the stretch, and up to its end; what the running
        share can differ by from what was asked for, ``inf`` where nothing is promised; mean size,
        of intervals the mean width of those that are bounded, NaN where none is; mean level.
    ceiling : float64 array of shape (T, m)
        By how much the running share can be below what was asked for, where that is less.
    weights : float64 array of shape (T, d)
        Mean weights.
    evidence : float64 array of shape (T,)
        What the alarm has against a stream without drift at the end of the stretch.

    Examples
    --------
    >>> Curves.__dataclass_fields__.keys() >= {"labels", "coverage", "evidence"}
    True
    """

    labels: IntArray
    coverage: FloatArray
    running: FloatArray
    bound: FloatArray
    ceiling: FloatArray
    size: FloatArray
    level: FloatArray
    weights: FloatArray
    evidence: FloatArray


class Monitor:
    """Reads the log of a stream, from its beginning and as it grows.

    Parameters
    ----------
    folder : path
        The log (`OnlineAverage.record`, `OnlineRegression.record`).
    delta : float
        False-alarm rate of the alarm.
    reference : int, optional
        Rows that the alarm compares with: by default the window of the stream.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     online = OnlineAverage("thr", alpha=0.4).record(Path(folder) / "log")
    ...     _ = online.run([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]], [0, 1, 0])
    ...     monitor = Monitor(Path(folder) / "log")
    ...     _ = monitor.read()
    ...     online.close()
    >>> monitor.rows, monitor.labels, monitor.errors == online._errors
    (3, 3, True)
    >>> monitor.guarantee == online.guarantee_
    True
    """

    def __init__(self, folder: Any, *, delta: float = 0.01, reference: int | None = None) -> None:
        self.folder = log_folder(folder)
        kinds: list[type[Stream]] = [OnlineRegression, OnlineAverage]
        named = format_of(self.folder / START)
        kind = next((one for one in kinds if one._file.format == named), OnlineAverage)
        self.stream, self._place = kind._loaded(self.folder / START)
        stream = self.stream
        self.alphas = stream._alphas
        self.names = tuple(map(str, stream._columns))
        self.alarm = None
        if stream._plain is not None:
            self.alarm = Alarm(self.alphas[0], delta, reference or stream.window)
        self.rows, self.labels, self.late = stream._issued, stream._steps, stream._late
        self.errors, self.ended = list(stream._errors), False
        self._before = stream._issued  # rows of which the log says nothing
        self.total_size = np.zeros(len(self.alphas))  # of the answers that are bounded
        self.bounded = np.zeros(len(self.alphas), dtype=np.int64)
        self.recent: deque[tuple[bool, ...]] = deque(maxlen=stream.window)
        self.recent_sizes: deque[Any] = deque(maxlen=stream.window)
        self._waiting: dict[int, Issued] = {}
        self._stretches: list[Any] = []
        self._each = 1  # labels of a stretch
        self._since = 0
        self._sums = self._fresh_sums()

    def _fresh_sums(self) -> Any:
        return np.zeros(1 + 4 * len(self.alphas) + len(self.names))

    def read(self, most: int | None = None) -> int:
        """Take in what has been appended since, and return how many records that was."""
        count, shape = 0, self.stream._log_shape()
        steps = recorded_steps(self.folder, shape, self._place)
        for step, place in islice(steps, most):
            self._place = place
            count += 1
            self.ended = isinstance(step, Ended)
            if isinstance(step, Issued):
                self.rows += 1
                size, bounded = _bounded(step)
                self.total_size += size
                self.bounded += bounded
                self.recent_sizes.append((size, bounded))
                self._waiting[step.number] = step
                if len(self._waiting) > self.stream.max_pending:
                    del self._waiting[next(iter(self._waiting))]
            elif isinstance(step, Labelled):
                self._take(step)
        return count

    def _take(self, step: Labelled) -> None:
        issued = self._waiting.pop(step.number, None)
        if issued is None:
            return
        self.labels += 1
        self.late = step.late
        self.errors = [n + wrong for n, wrong in zip(self.errors, step.errors, strict=True)]
        self.recent.append(step.errors)
        if self.alarm is not None:
            self.alarm.update(step.score)
        self._sums += np.concatenate(
            [[1.0], step.errors, *_bounded(issued), issued.levels, issued.weights]
        )
        self._since += 1
        if self._since == self._each:
            self._close_stretch()

    def _close_stretch(self) -> None:
        self._stretches.append((self._sums, self.labels, list(self.errors), self.late, self._worth))
        self._sums, self._since = self._fresh_sums(), 0
        if len(self._stretches) == STRETCHES:
            pairs = zip(self._stretches[::2], self._stretches[1::2], strict=True)
            self._stretches = [(one[0] + two[0], *two[1:]) for one, two in pairs]
            self._each *= 2

    @property
    def _worth(self) -> float:
        return math.nan if self.alarm is None else self.alarm.evidence_

    @property
    def unlabelled(self) -> int:
        """Sets whose labels have not come."""
        return self.rows - self.labels

    @property
    def guarantee(self) -> Guarantee:
        """What holds for the errors so far, as the stream itself states it."""
        return stream_guarantee(
            self.stream._controls(), self.alphas, self.labels, self.errors, late=self.late,
            unlabelled=self.unlabelled, noun=self.stream._noun, assumes=self.stream._assumes,
        )  # fmt: skip

    def bound(self, place: int, labels: int | None = None, late: int | None = None) -> float:
        """Return the bound of a level after so many labels, ``inf`` where none is known."""
        control = self.stream._controls()[place]
        steps = self.labels if labels is None else labels
        most = self.late if late is None else late
        m = len(self.alphas)
        return bound_of(control, steps, most, m, above=m - 1 - place) if steps else math.inf

    def curves(self) -> Curves:
        """Return the stream in stretches of equal numbers of labels, the last one as it stands."""
        parts = list(self._stretches)
        if self._since:
            parts.append((self._sums, self.labels, list(self.errors), self.late, self._worth))
        m, d = len(self.alphas), len(self.names)
        sums = np.array([part[0] for part in parts]).reshape(-1, 1 + 4 * m + d)
        labels = np.array([part[1] for part in parts], dtype=np.int64)
        wrong = np.array([part[2] for part in parts], dtype=np.float64).reshape(-1, m)
        bounds = [[self.bound(j, part[1], part[3]) for j in range(m)] for part in parts]
        ceilings = [
            [min(bound, ceiling_of(control, part[1], part[3]))
             for bound, control in zip(row, self.stream._controls(), strict=True)]
            for row, part in zip(bounds, parts, strict=True)
        ]  # fmt: skip
        means = sums[:, 1:] / sums[:, :1]
        return Curves(
            labels=labels,
            coverage=1 - means[:, :m],
            running=1 - wrong / np.maximum(labels, 1)[:, None],
            bound=np.array(bounds).reshape(-1, m),
            ceiling=np.array(ceilings).reshape(-1, m),
            size=_mean_of(sums[:, 1 + m : 1 + 2 * m], sums[:, 1 + 2 * m : 1 + 3 * m]),
            level=means[:, 3 * m : 4 * m],
            weights=means[:, 4 * m :],
            evidence=np.array([part[4] for part in parts]),
        )

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the stream by name, as a record of JSON has them."""
        alarm, told = self.alarm, self.guarantee
        recent = np.array(self.recent, dtype=float).reshape(-1, len(self.alphas))
        sizes = np.array(self.recent_sizes, dtype=float).reshape(-1, 2, len(self.alphas))
        last = self._stretches[-1][0][-len(self.names) :] if self._stretches else None
        weights = None if last is None else (last / last.sum()).tolist()
        return {
            "log": str(self.folder), "rows": self.rows, "labels": self.labels,
            "unlabelled": self.unlabelled, "late": self.late, "ended": self.ended,
            "alphas": list(self.alphas),
            "coverage": [1 - n / self.labels if self.labels else None for n in self.errors],
            "recent_coverage": (1 - recent.mean(axis=0)).tolist() if len(recent) else None,
            "answer": self.stream._noun,
            "mean_size": _numbers(_mean_of(self.total_size, self.bounded)) if self.rows else None,
            "recent_size": _numbers(_mean_of(*sizes.sum(axis=0))) if len(sizes) else None,
            "unbounded": (self.rows - self._before - self.bounded).tolist(),
            "bounds": [self.bound(place) for place in range(len(self.alphas))],
            "weights": dict(zip(self.names, weights, strict=True)) if weights else None,
            "evidence": None if alarm is None else alarm.evidence_,
            "alarm_after": None if alarm is None else alarm.raised_at_,
            "delta": None if alarm is None else alarm.delta,
            "guarantee": told.kind, "statement": told.statement,
        }  # fmt: skip


def _bounded(step: Issued) -> tuple[FloatArray, IntArray]:
    """Return how large an answer is at every level, 0 where it has no end, and whether it has."""
    size = np.asarray(step.extent, dtype=np.float64)
    bounded = np.isfinite(size)
    return np.where(bounded, size, 0.0), bounded.astype(np.int64)


def _mean_of(total: Any, count: Any) -> Any:
    """Return means, NaN of nothing."""
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _numbers(values: Any) -> list[float | None]:
    """Return numbers as JSON has them: none where there is none."""
    return [None if math.isnan(value) else value for value in values.tolist()]


__all__ = ["Curves", "Monitor"]
