"""Prediction sets on their way to a file, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO, Any

import numpy as np

from conformix.atomic import as_path, write_whole
from conformix.errors import InvalidInput
from conformix.sets.exports import MIXED
from conformix.sets.prediction import PredictionSets


def write_sets(batches: Iterable[PredictionSets], path: str | os.PathLike[str]) -> int:
    """Write sets to a Parquet file, one batch in memory at a time; return the number of rows.

    The file has two columns: ``row``, counted from 0, and ``labels``, the members of the set as a
    list, best first; class names where the sets have them. It is there whole or not at all.

    Parameters
    ----------
    batches : iterable of PredictionSets
        Usually ``cp.predict_batches(...)``.
    path : path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow.parquet as pq
    >>> sets = [PredictionSets(np.array([[True, False]])), PredictionSets(np.array([[True, True]]))]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sets(sets, f"{folder}/sets.parquet")
    ...     pq.read_table(f"{folder}/sets.parquet").to_pylist()
    2
    [{'row': 0, 'labels': [0]}, {'row': 1, 'labels': [0, 1]}]
    """
    try:
        import pyarrow as pa  # noqa: PLC0415  an extra, loaded where it is used
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise InvalidInput('parquet needs pyarrow: pip install "conformix[frames]".') from None
    total = 0

    def fill(file: IO[bytes]) -> None:
        nonlocal total
        writer = None
        try:
            for sets in batches:
                table = _table(pa, sets, total)
                writer = writer or pq.ParquetWriter(file, table.schema)
                writer.write_table(table)
                total += len(sets)
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise InvalidInput("there are no sets to write: the batches are empty.")

    write_whole(as_path(path), fill)
    return total


def _table(pa: Any, sets: PredictionSets, first: int) -> Any:
    mask = np.asarray(sets)
    flat = np.nonzero(mask)[1] if sets.order is None else sets.order
    members = pa.array(flat.astype(np.int32))
    try:
        values = members if sets.classes is None else pa.array(sets.classes).take(members)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise InvalidInput(MIXED) from None
    stops = pa.array(np.concatenate([[0], np.cumsum(mask.sum(axis=1))]), pa.int64())
    labels = pa.LargeListArray.from_arrays(stops, values)
    return pa.table({"row": pa.array(np.arange(first, first + len(mask))), "labels": labels})
