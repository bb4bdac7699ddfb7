"""How scores of a response become one number, and the interval where it is small enough.

The library compares conformity: larger fits better, and a threshold is a k-th largest. Here scores
are nonconformity; the sign is turned in `LineRule.of_true_labels` and `LineRule.intervals`, and
nowhere else. A row has one label, its response, so that everything that calibrates classes
calibrates responses too: `Responses` are rows whose label 0 is the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from conformix.kernels.arrays import (
    FloatArray,
    IntArray,
    is_tensor,
    to_device,
    to_host,
    torch_module,
)
from conformix.regression.bands import bands, lowest
from conformix.regression.planes import Planes
from conformix.regression.regressed import RegressedOutputs
from conformix.regression.scale import LineScale

Range = tuple[float, float]


def span_of(y_range: Range | None) -> float | None:
    """Return the length of a range; None where it has none."""
    return None if y_range is None or np.isinf(y_range).any() else y_range[1] - y_range[0]


@dataclass(frozen=True, eq=False)
class Responses:
    """Labelled rows: what models predict, and the response."""

    outputs: RegressedOutputs
    y: FloatArray
    d: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, labels (the response alone) and scores."""
        return len(self.y), 1, self.d

    @property
    def labels(self) -> IntArray:
        """The label of every row: the only one that it has."""
        return np.broadcast_to(np.int64(0), (len(self.y),))

    def __len__(self) -> int:
        return len(self.y)

    def on(self, scale: LineScale) -> Planes:
        """Return the planes of these rows on a scale; those of the last one are kept."""
        kept: dict[LineScale, Planes] = self.__dict__.setdefault("_kept", {})
        if scale not in kept:
            kept.clear()
            kept[scale] = scale(self.outputs)
        return kept[scale]

    def take(self, rows: IntArray) -> Responses:
        """Return some of the rows."""
        return replace(self, outputs=self.outputs.rows(rows), y=self.y[rows])

    def followed_by(self, other: Responses) -> Responses:
        """Return these rows and then others."""
        both = self.outputs.followed_by(other.outputs)
        return replace(self, outputs=both, y=np.concatenate([self.y, other.y]))


@dataclass(frozen=True, eq=False)
class LineRule:
    """An average of scores on a scale; the same in calibration and prediction."""

    transform: LineScale
    weights: FloatArray
    allow_empty: bool = True  # if not, where the average is lowest counts as ``+inf``

    limits: ClassVar[None] = None

    @property
    def with_equal_weights(self) -> LineRule:
        """The rule with weights and a scale that nobody chose."""
        equal = np.full(len(self.weights), 1 / len(self.weights))
        return replace(self, transform=self.transform.plain, weights=equal)

    def of_true_labels(self, rows: Responses, y: IntArray) -> FloatArray:
        """Return how well the responses of rows fit, (n,), in host memory: larger is better."""
        return self.of_planes(rows.on(self.transform), rows.y)

    def of_planes(self, planes: Planes, y: FloatArray) -> FloatArray:
        """Return the same from planes on the scale of this rule."""
        values: Any = planes.combined(self.weights, y)
        if not self.allow_empty:
            values[values <= lowest(planes, self.weights)[1]] = -np.inf
        values = to_host(values)  # one number per row is little
        return np.negative(values, out=values)  # type: ignore[no-any-return]

    def rising(self, rows: Responses, y: IntArray) -> FloatArray:
        """Return the same, sorted upwards."""
        values = self.of_true_labels(rows, y)
        values.sort()
        return values

    def intervals(
        self, planes: Planes, threshold: Any, y_range: Range | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the intervals of rows on the scale of this rule.

        Every y that fits as well as the threshold (one, or one per row) lies within them.
        """
        least = -np.asarray(threshold, dtype=np.float64).reshape(-1)
        least = least[0] if len(least) == 1 else least
        floor: Any = None if self.allow_empty else lowest(planes, self.weights)[1]
        cut = least if floor is None else _larger(floor, least)
        ends = bands(planes, self.weights, cut)
        return clipped(*ends, y_range, allow_empty=self.allow_empty)


def _larger(values: Any, others: Any) -> Any:
    """Return the larger of numbers (n,), tensors perhaps, and of one or as many of the host."""
    if not is_tensor(values):
        return np.maximum(values, others)
    return torch_module().maximum(values, to_device(np.atleast_1d(others), values))


def clipped(
    lower: FloatArray, upper: FloatArray, y_range: Range | None, *, allow_empty: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Return intervals within the range of the responses.

    One that lies outside is empty, or where it may not be, the end of the range that is nearest.

    Examples
    --------
    >>> clipped(np.array([-1.0, 7.0]), np.array([1.0, 8.0]), (0.0, 5.0))
    (array([ 0., inf]), array([  1., -inf]))
    >>> clipped(np.array([-1.0, 7.0]), np.array([1.0, 8.0]), (0.0, 5.0), allow_empty=False)
    (array([0., 5.]), array([1., 5.]))
    """
    if y_range is None:
        return lower, upper
    if is_tensor(lower):
        return _clipped_there(lower, upper, y_range, allow_empty=allow_empty)
    low, high = np.maximum(lower, y_range[0]), np.minimum(upper, y_range[1])
    empty = low > high
    if allow_empty:
        return np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
    nearest = np.clip(lower, *y_range)
    return np.where(empty, nearest, low), np.where(empty, nearest, high)


def _clipped_there(lower: Any, upper: Any, y_range: Range, *, allow_empty: bool) -> tuple[Any, Any]:
    """Return the same on a device."""
    low, high = lower.clamp(min=y_range[0]), upper.clamp(max=y_range[1])
    empty = low > high
    if allow_empty:
        return low.masked_fill(empty, np.inf), high.masked_fill(empty, -np.inf)
    nearest = lower.clamp(*y_range)
    return nearest.where(empty, low), nearest.where(empty, high)
