"""Intervals: the y whose averaged score is at most a threshold, ends rounded outward."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.errors import InvalidInput, shown
from conformix.kernels.arrays import FloatArray, is_tensor, on_device, to_host
from conformix.kernels.plain.bands import fill_single
from conformix.kernels.twins import host_kernels
from conformix.regression.planes import Planes, distinct_rows, each_once


def bands(
    planes: Planes, weights: Any, threshold: Any, kernels: Any = None
) -> tuple[FloatArray, FloatArray]:
    """Return the closed intervals ``{y : planes.combined(weights, y) <= threshold}``.

    Parameters
    ----------
    planes : Planes
        n rows, d scores.
    weights : array of shape (d,)
        Not negative.
    threshold : float, or array that broadcasts to (n,) or (L, n)
        One for all rows, one per row, or several at once: ``thresholds[:, None]`` for L levels.
        ``inf`` leaves intervals unbounded.
    kernels : module, optional
        What computes on the host, for callers that come many times (`band_kernels`).

    Returns
    -------
    lower, upper : arrays of shape (n,) or (L, n)
        Ends are ``-inf`` and ``inf`` where an interval has none; an empty interval is
        ``(inf, -inf)``. Ends are rounded outward: for every float y,
        ``combined(weights, y) <= threshold`` implies ``lower <= y <= upper``. Tensors where the
        planes are tensors on a device, of the same bits.

    Examples
    --------
    >>> planes = Planes([[1.0]], [[0.0]], [[1.0]], [[2.0]])
    >>> lower, upper = bands(planes, [1.0], 4.0)
    >>> lower.round(12), upper.round(12)
    (array([-3.]), array([3.]))
    """
    weights = check_weights(weights, planes.d)
    there = is_tensor(planes.centre)
    cuts: Any = threshold if there and on_device(threshold) else to_host(threshold)
    cuts = cuts.double() if is_tensor(cuts) else np.asarray(cuts, dtype=np.float64)
    n = len(planes)
    if (
        cuts.ndim > 2
        or tuple(cuts.shape[-1:]) not in ((), (1,), (n,))
        or bool(cuts.isnan().any() if is_tensor(cuts) else np.isnan(cuts).any())
    ):
        raise InvalidInput(
            f"threshold must be numbers that broadcast to ({n},) or (L, {n}); got "
            f"{shown(threshold)}."
        )
    shape = (*cuts.shape[:-1], n)
    if there:
        from conformix.kernels.device.bands import fill_bands  # noqa: PLC0415  PyTorch loads late

        flat = cuts.reshape(-1, cuts.shape[-1] if cuts.ndim else 1)
        return tuple(ends.reshape(shape) for ends in fill_bands(*planes.parts, weights, flat))  # type: ignore[return-value]
    flat = np.array(cuts, ndmin=2, order="C")
    lower, upper = np.empty((2, len(flat), n))
    if planes.d == 1:  # a few passes over the rows, which nothing needs to be compiled for
        floor, below, above = each_once(lambda part: distinct_rows(part)[:, 0], planes.parts[1:])
        knots = planes.centre[:, 0]
        fill_single(knots, floor, below, above, float(weights[0]), flat, lower, upper)
    else:
        kernels = band_kernels(n, planes.d) if kernels is None else kernels
        kernels.fill_bands(*planes.arrays, weights, flat, lower, upper)
    return lower.reshape(shape), upper.reshape(shape)


def band_kernels(n: int, d: int) -> Any:
    """Return the kernels for the intervals of n rows with d scores, all told."""
    return host_kernels("bands", n * d * d)


def widths(
    lower: FloatArray, upper: FloatArray, y_range: tuple[float, float] | None = None
) -> FloatArray:
    """Return how wide intervals are: 0 where empty, ``inf`` where unbounded.

    With ``y_range`` intervals are cut to it first.

    Examples
    --------
    >>> widths(np.array([1.0, np.inf, 0.0]), np.array([3.0, -np.inf, np.inf]))
    array([ 2.,  0., inf])
    """
    if y_range is not None:
        lower, upper = np.maximum(lower, y_range[0]), np.minimum(upper, y_range[1])
    with np.errstate(invalid="ignore"):  # of empty ones
        return np.where(lower > upper, 0.0, upper - lower)


def lowest(planes: Planes, weights: Any) -> tuple[FloatArray, FloatArray]:
    """Return where the averaged score of every row is lowest, and its value there, each (n,).

    The first knot, among the d centres of a row, of the smallest combined score.

    Examples
    --------
    >>> planes = Planes([[1.0, 3.0]], [[0.0, 0.0]], [[1.0, 2.0]], [[1.0, 2.0]])
    >>> lowest(planes, [0.5, 0.5])
    (array([3.]), array([1.]))
    """
    weights = check_weights(weights, planes.d)
    if is_tensor(planes.centre):
        return _lowest_there(planes, weights)
    knots = planes.centre.T
    values = np.array([planes.combined(weights, knot) for knot in knots])
    place = values.argmin(axis=0)
    each = np.arange(len(planes))
    return knots[place, each], values[place, each]


def _lowest_there(planes: Planes, weights: FloatArray) -> tuple[Any, Any]:
    """Return the same for planes on a device, one knot after the other."""
    knots: Any = planes.centre
    where = knots[:, 0]
    least: Any = planes.combined(weights, where)
    for knot in knots.unbind(dim=1)[1:]:
        value: Any = planes.combined(weights, knot)
        lower = value < least
        where, least = knot.where(lower, where), value.where(lower, least)
    return where, least


def check_weights(weights: Any, d: int) -> FloatArray:
    """Return weights as float64 (d,) or (m, d), not negative."""
    values = np.asarray(to_host(weights), dtype=np.float64)
    if values.ndim not in (1, 2) or values.shape[-1] != d or not np.isfinite(values).all():
        raise InvalidInput(f"weights must be finite, one for each of {d} scores.")
    if values.size and values.min() < 0:
        raise InvalidInput(
            f"weights must not be negative; got {values.min():g}: the average would not be convex."
        )
    return np.array(values, order="C")  # as compiled kernels take them
