"""The first rows of outputs that are not all here: of batches, and of Dask arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from conformix.data.batches import Batches
from conformix.data.checks import by_model, is_chunked
from conformix.errors import InvalidInput
from conformix.kernels.arrays import to_host


def first_rows(outputs: Any, y: Any, most: int) -> tuple[Any, Any]:
    """Return outputs and labels of up to `most` rows; what is in memory stays as it is.

    Parameters
    ----------
    outputs
        As in `ScoreAverage.fit`, Dask arrays too, or batches as in `fit_batches`.
    y
        The labels of arrays; batches bring theirs along.
    most : int
        How many rows are read of what is not in memory.

    Examples
    --------
    >>> outputs, y = first_rows(lambda: iter([(np.eye(2), [0, 1])] * 9), None, 5)
    >>> outputs.shape, y.tolist()
    ((6, 2), [0, 1, 0, 1, 0, 1])
    """
    if is_chunked(outputs):
        return _computed(outputs, most), None if y is None else _computed(y, most)
    if isinstance(outputs, Batches) or callable(outputs) or hasattr(outputs, "__next__"):
        if y is not None:
            raise InvalidInput("batches bring their labels along, as (outputs, y); leave y out.")
        return _joined(iter(outputs() if callable(outputs) else outputs), most)
    return outputs, y


def _computed(values: Any, most: int) -> Any:
    if isinstance(values, Mapping):
        return {model: _computed(part, most) for model, part in values.items()}
    part = values[:most]
    return part.compute() if hasattr(part, "compute") else part


def _joined(batches: Iterator[Any], most: int) -> tuple[Any, Any]:
    """Return the first batches in one piece, by model where there are several."""
    rows: dict[str, list[Any]] = {}
    labels: list[Any] = []
    n = 0
    for batch in batches:
        outputs, y = (batch[0], batch[1]) if isinstance(batch, tuple) else (batch, None)
        for model, values in by_model(outputs, "outputs").items():
            rows.setdefault(model, []).append(np.asarray(to_host(values)))
        labels += [] if y is None else [np.asarray(to_host(y))]
        n += len(rows[model][-1])
        if n >= most:
            break
    if not rows:
        raise InvalidInput("a source of batches must give at least one (outputs, y); got none.")
    widths = {values.shape[1:] for parts in rows.values() for values in parts}
    if len(widths) > 1:
        raise InvalidInput("all batches must have the same number of classes.")
    models = {model: np.concatenate(parts) for model, parts in rows.items()}
    return models.get("", models), np.concatenate(labels) if labels else None
