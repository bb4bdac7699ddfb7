"""V-shaped scores on the real line: four numbers per row and score.

Score j of row i at y is ``offset + below (centre - y)+ + above (y - centre)+``: a nonconformity,
lower fits better. A non-negative average of such scores is convex and piecewise linear in y with a
knot at every centre, so that ``{y : average <= t}`` is one closed interval
(`conformix.regression.bands`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.errors import InvalidInput, shown
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray, is_tensor, on_device, to_device, to_host

# Numbers up to here may be multiplied and added without overflow.
LARGEST = 2.0**300
NAMES = ("centre", "offset", "below", "above")


@dataclass(frozen=True, eq=False)
class Planes:
    """Scores of n rows, d each, as functions of y.

    ``s_ij(y) = offset_ij + below_ij (centre_ij - y)+ + above_ij (y - centre_ij)+``

    Parameters
    ----------
    centre : array of shape (n, d)
        Where a score is lowest.
    offset : array of shape (n, d)
        How low.
    below, above : arrays of shape (n, d)
        How steeply it rises towards smaller and larger y; not negative. Both zero: a number per
        row.

    Examples
    --------
    >>> planes = Planes([[1.0]], [[0.0]], [[1.0]], [[2.0]])
    >>> planes.scores(np.array([3.0])), planes.scores(np.array([0.5]))
    (array([[4.]]), array([[0.5]]))
    """

    centre: FloatArray
    offset: FloatArray
    below: FloatArray
    above: FloatArray

    def __post_init__(self) -> None:
        names = {id(getattr(self, name)): name for name in reversed(NAMES)}
        parts = each_once(lambda part: _plane(names[id(part)], part), self.parts)
        shape = tuple(parts[0][0].shape)
        for name, (part, _) in zip(NAMES, parts, strict=True):
            if tuple(part.shape) != shape:
                raise InvalidInput(
                    f"the four planes must have one shape; got centre {shape} and {name} "
                    f"{tuple(part.shape)}."
                )
            object.__setattr__(self, name, part)
        for name, (_, least) in zip(NAMES[2:], parts[2:], strict=True):
            if least < 0:
                raise InvalidInput(
                    f"{name} must not be negative; got {least:g}: such a score is not convex, and "
                    "its averages need not be intervals."
                )

    def on_host(self) -> Planes:
        """Return these planes in host memory: themselves unless they are tensors."""
        return _made(*each_once(to_host, self.parts)) if is_tensor(self.centre) else self

    def __len__(self) -> int:
        return len(self.centre)

    @property
    def d(self) -> int:
        """Number of scores."""
        return int(self.centre.shape[1])

    @property
    def parts(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Centre, offset, below and above, each (n, d)."""
        return self.centre, self.offset, self.below, self.above

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """The parts as compiled kernels take them: contiguous and writable, in host memory."""
        return each_once(lambda part: np.require(part, np.float64, ("C", "W")), self.parts)

    def rows(self, index: Any) -> Planes:
        """Return some rows: a slice, indices or a mask."""
        index = index if isinstance(index, slice) else to_device(index, self.centre)
        centre = self.centre[index]

        def some(part: FloatArray) -> FloatArray:
            row = distinct_rows(part)
            same = len(row) == 1 and len(part) > 1
            return np.broadcast_to(row, centre.shape) if same else part[index]

        return _made(centre, *each_once(some, self.parts[1:]))

    def columns(self, index: Any) -> Planes:
        """Return some scores: a slice, indices or a mask."""
        return _made(*each_once(lambda part: part[:, index], self.parts))

    def scaled(self, divisors: FloatArray) -> Planes:
        """Return every score divided by its own positive number, (d,)."""
        divisors = np.asarray(divisors, dtype=np.float64)
        if divisors.shape != (self.d,) or not (divisors > 0).all():
            raise InvalidInput(
                f"divisors must be {self.d} positive numbers, one per score; got {shown(divisors)}."
            )
        divisors = to_device(divisors, self.centre)
        others = each_once(lambda part: part / divisors, self.parts[1:])
        return Planes(self.centre, *others)

    def scores(self, y: FloatArray) -> FloatArray:
        """Return the scores (n, d) at ``y`` (n,)."""
        gap: Any = self.centre - to_device(y, self.centre)[:, None]
        if is_tensor(gap):
            falling, rising = gap.clamp(min=0.0), (-gap).clamp(min=0.0)
            return self.offset + self.below * falling + self.above * rising  # type: ignore[no-any-return]
        # The same sum in place. One side is zero: with one slope for both the other is |gap|.
        if self.below is self.above:
            found, rising = np.abs(gap, out=gap), None
        else:
            found, rising = np.maximum(gap, 0.0), np.maximum(np.negative(gap, out=gap), 0.0)
        if not _is_all(self.below, 1.0):
            found *= distinct_rows(self.below)
        if not _is_all(self.offset, 0.0):
            found += distinct_rows(self.offset)
        if rising is not None:
            rising *= distinct_rows(self.above)
            found += rising
        return found  # type: ignore[no-any-return]

    def combined(self, weights: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``w[0] s[0] + w[1] s[1] + ...`` (n,) at ``y`` (n,), added in that order.

        The one arithmetic of calibration and prediction: `conformix.regression.bands.bands` holds
        every y whose combined score, computed here, is at most the threshold.
        """
        scores = self.scores(y)
        one = self.d == 1 and float(weights[..., 0]) == 1.0
        return scores[:, 0] if one else combine(scores, weights)


def _plane(name: str, values: Any) -> tuple[FloatArray, float]:
    """Return one plane as finite float64 (n, d), and its smallest number."""
    plane = values.double() if on_device(values) else np.asarray(to_host(values), dtype=np.float64)
    if plane.ndim != 2 or plane.shape[1] == 0:
        raise InvalidInput(
            f"{name} must have shape (n, d) with one score or more; got {tuple(plane.shape)}."
        )
    rows = distinct_rows(plane)
    if len(plane) and rows.shape == (1, 1):
        least = most = float(rows[0, 0])
    else:
        least, most = (float(rows.min()), float(rows.max())) if len(plane) else (0.0, 0.0)
    if not (least >= -LARGEST and most <= LARGEST):
        raise InvalidInput(
            f"{name} must hold finite numbers of at most {LARGEST:.0e} in size; got "
            f"{float(abs(rows).max()):g}."
        )
    return plane, least


def distinct_rows(part: FloatArray) -> FloatArray:
    """Return the one row of an array all of whose rows lie in one place; else the array.

    Constants are such (`numpy.broadcast_to`), and most slopes and offsets are constants.
    """
    alike = not is_tensor(part) and len(part) > 1 and part.strides[0] == 0
    return part[:1] if alike else part


def _is_all(part: FloatArray, number: float) -> bool:
    """Whether all rows are known to hold one number."""
    row = distinct_rows(part)
    return len(row) == 1 and bool((row == number).all())


def each_once(function: Callable[[Any], Any], parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return what a function makes of every part; one that comes twice is made once.

    Slopes to both sides are mostly one array, and stay one.
    """
    made: dict[int, Any] = {}
    for part in parts:
        if id(part) not in made:
            made[id(part)] = function(part)
    return tuple(made[id(part)] for part in parts)


def _made(*parts: FloatArray) -> Planes:
    """Return planes of parts that are checked already."""
    made = object.__new__(Planes)
    for name, part in zip(NAMES, parts, strict=True):
        object.__setattr__(made, name, part)
    return made
