"""Sets and p-values of Dask outputs: Dask arrays, computed where the rows are when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.chunks import Chunked, chunked, column_of
from conformix.data.row_data import RowData
from conformix.kernels.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from conformix.fit.predictor import Predictor


def predict_chunks(predictor: Predictor, outputs: Any, alpha: Any = None, **rows: Any) -> Any:
    """Return the sets of Dask outputs as a Dask array of booleans (n, K) in the same chunks.

    Of several levels a dictionary of such by level, made in one pass where they are computed
    together. Nothing is computed until the arrays are.
    """
    fitted: Any = predictor.fitted
    several = np.ndim(alpha) == 1
    levels = predictor.levels(alpha) if several else [predictor.alpha if alpha is None else alpha]
    simple_fraction(levels[0])
    if alpha is not None:
        fitted.warn(levels[0])
    chunks, columns = _rows(predictor, outputs, rows)
    # Thresholds that are the same for all rows travel alone.
    each_row = fitted.ledger.each_row
    whole = each_row or fitted.needs
    at = [fitted if whole else fitted.at_level(level) for level in levels]
    light = replace(predictor, fitted=at[0], threads=1, classes=None, kind=chunks.form)
    small = np.min_scalar_type(len(levels))
    depth = _mapped(
        _depths, chunks, columns, small, predictor=light, levels=levels, at=at, names=tuple(rows),
        each_row=each_row,
    )  # fmt: skip
    sets = {float(simple_fraction(level)): depth > i for i, level in enumerate(levels)}
    return sets if several else depth > 0


def chunk_pvalues(predictor: Predictor, outputs: Any, *, smoothed: bool, **rows: Any) -> Any:
    """Return the p-values of Dask outputs as a Dask array (n, K) in the same chunks."""
    chunks, columns = _rows(predictor, outputs, rows)
    light = replace(predictor, threads=1, classes=None, kind=chunks.form)
    return _mapped(
        _pvalues, chunks, columns, np.float64, predictor=light, smoothed=smoothed, names=tuple(rows)
    )


def _rows(predictor: Predictor, outputs: Any, rows: Mapping[str, Any]) -> tuple[Chunked, list[Any]]:
    """Return the outputs in the order of the models, and what rows bring along, as columns (n, 1).

    What is here is checked here; what is chunked too, chunk by chunk by the workers.
    """
    import dask.array as da  # noqa: PLC0415  there already: outputs are its arrays

    chunks = chunked(outputs, predictor.kind)
    chunks = chunks.matching(predictor.models, predictor.n_classes, "outputs")
    there = {name for name, values in rows.items() if isinstance(values, da.Array)}
    # Whether something is missing, or of no use, is known without the values.
    predictor.row_data(0, **{name: np.zeros(0, dtype=np.int64) for name in rows})
    for name, values in rows.items():
        if name not in there:
            predictor.row_data(chunks.n, **{name: values})
    columns = [column_of(values, chunks.sizes, name)[:, None] for name, values in rows.items()]
    return chunks, columns


def _mapped(function: Any, chunks: Chunked, columns: list[Any], dtype: Any, **shared: Any) -> Any:
    """Return a Dask array of what a function says of every chunk, and of its columns."""
    import dask.array as da  # noqa: PLC0415
    from dask import delayed  # noqa: PLC0415

    once = delayed(shared, pure=False, traverse=False)  # and not with every task
    return da.map_blocks(
        function, *chunks.arrays.values(), *columns, shared=once, dtype=dtype,
        meta=np.empty((0, 0), dtype=dtype),
    )  # fmt: skip


def _given(chunk: tuple[Any, ...], shared: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the outputs of a chunk by model, and what its rows bring along by name."""
    predictor, names = shared["predictor"], shared["names"]
    n_models = len(predictor.models)
    arrays = [np.asarray(values) for values in chunk[:n_models]]
    models = dict(zip(predictor.models, arrays, strict=True))
    columns = [np.asarray(column)[:, 0] for column in chunk[n_models:]]
    return models, dict(zip(names, columns, strict=True))


def _depths(*chunk: Any, shared: dict[str, Any]) -> IntArray:
    """Return in how many of the sets every label of a chunk is."""
    predictor, at = shared["predictor"], shared["at"]
    models, rows = _given(chunk, shared)
    checked = predictor.check(models, later=True)
    data = predictor.row_data(checked.n, **rows) if rows else RowData()
    depth = np.zeros((checked.n, checked.n_classes), dtype=np.min_scalar_type(len(at)))
    if shared["each_row"]:
        predictor.fill_depths(checked, shared["levels"], data, depth)
        return depth
    for block, scores in predictor.blocks(checked):
        for fitted, level in zip(at, shared["levels"], strict=True):
            depth[block] += fitted.member(scores, level, data.take(block))
    return depth


def _pvalues(*chunk: Any, shared: dict[str, Any]) -> FloatArray:
    models, rows = _given(chunk, shared)
    return shared["predictor"].predict_pvalues(models, smoothed=shared["smoothed"], **rows)  # type: ignore[no-any-return]
