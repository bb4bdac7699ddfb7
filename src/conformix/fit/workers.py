"""A fit and predictions on Dask arrays: the work is done where the chunks are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from conformix.calibration import resolve_calibration
from conformix.conformal import simple_fraction
from conformix.data.labels import check_classes, label_indices
from conformix.data.outputs import Outputs, check_groups
from conformix.data.row_data import NO_DATA, RowData, check_rows
from conformix.data.workers.tree import brought, kept
from conformix.errors import InvalidInput
from conformix.fit.batches import stream_split
from conformix.fit.chunk_scores import ChunkScores
from conformix.fit.chunks import (
    Chunked,
    ChunkReader,
    chunked,
    column_of,
    is_chunked,
    outputs_of,
    packed,
    unpacked,
)
from conformix.fit.memory import rows_held
from conformix.fit.predictor import Predictor
from conformix.fit.rule import Fitted, Rule
from conformix.fit.scored import assembled, side_by_side, summarised
from conformix.fit.settings import Recipe
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, as_generator
from conformix.scores import Column, score_columns
from conformix.scores.tensor import draw_key
from conformix.splits import Drawn, Split, ValidityFirst


def fit_anywhere(recipe: Recipe, outputs: Any, y: Any, **options: Any) -> Predictor:
    """Return the fit on this machine, or on the workers where outputs are Dask arrays."""
    if not is_chunked(outputs):
        return recipe.fit(outputs, y, **options)
    return fit_chunks(recipe, outputs, y, **options)


def predict_anywhere(predictor: Predictor, outputs: Any, alpha: Any, **rows: Any) -> Any:
    """Return the sets, or where outputs are Dask arrays a Dask array of booleans."""
    if not is_chunked(outputs):
        return predictor.predict_set(outputs, alpha, **rows)
    if rows:
        raise InvalidInput(
            f"{next(iter(rows))} does not go with Dask arrays; predict the chunks with "
            "predict_batches."
        )
    return predict_chunks(predictor, outputs, alpha)


def fit_chunks(
    recipe: Recipe,
    outputs: Any,
    y: Any,
    *,
    groups: Any = None,
    test: Any = None,
    classes: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
) -> Predictor:
    """Return the predictor fitted on Dask arrays: that of `Recipe.fit` on the same rows.

    Workers score their chunks and keep the scores of the true labels. Here arrive the labels and
    the outputs of the tuning rows, which are searched here, and in the end one number per
    calibration row.
    """
    recipe.check()
    drawn: Any = stream_split(recipe)
    if test is not None:
        raise InvalidInput('test has no use under split "vfcp", the one for Dask arrays.')
    given = chunked(outputs, recipe.kind)
    n, n_classes = given.shape
    models = tuple(given.models)
    names = check_classes(classes, n_classes)
    rng = as_generator(recipe.random_state)
    key = draw_key(rng)
    parts = check_groups(groups, n)
    scheme = resolve_calibration(recipe.calibration)
    data = check_rows(_host(strata), _host(sample_weight), n, scheme.needs, scheme.name)
    columns = score_columns(models, recipe.scores)
    tune = np.arange(0)
    if recipe.settled(len(columns)) is not None:
        drawn = None
    if isinstance(drawn, ValidityFirst):
        drawn = drawn.held_in(rows_held(n_classes, len(columns)))
        roles = drawn.roles(n, 0, rng, parts)
        tune, drawn = roles.tune, Drawn(drawn, roles)
    found = _first_pass(given, y, tune, columns, key=key, classes=names)
    like = Outputs({name: np.empty((0, n_classes)) for name in models}, recipe.kind)
    scores = assembled(
        found.true, found.tuning, tune, like, columns,
        reader=ChunkReader(given, columns, key), key=key, threads=recipe.threads,
    )  # fmt: skip
    split: Split = drawn
    fitted = recipe.fit_scores(
        scores, found.labels, columns, split, rng=rng, test=None, groups=parts, data=data
    )
    return Predictor(
        columns, models, n_classes, recipe.kind, key, recipe.alpha, fitted,
        threads=recipe.threads, classes=names,
    )  # fmt: skip


def _host(values: Any) -> Any:
    return brought(values)[0] if is_chunked(values) else values


class FirstPass(NamedTuple):
    """What one pass over the chunks has found: scores there, the rest here."""

    true: ChunkScores
    tuning: dict[str, FloatArray]
    labels: IntArray


def _first_pass(
    given: Chunked, y: Any, tune: IntArray, columns: tuple[Column, ...], *, key: int, classes: Any
) -> FirstPass:
    """Return true-label scores, outputs of the tuning rows (m, K) by model, and labels (n,)."""
    from dask import delayed  # noqa: PLC0415  there already: outputs are its arrays

    n, sizes = given.shape[0], given.sizes
    work = delayed(_summary, pure=False, nout=2)
    shared = delayed((tuple(given.models), given.kind, columns, key, classes))
    steps = zip(
        given.delayed(), column_of(y, sizes), packed(tune, n, sizes), given.starts, strict=True
    )
    pairs = [tuple(work(shared, *step)) for step in steps]
    # Both halves of a summary at once, so that no chunk is scored twice; the second is let go.
    there = kept(*(true for true, _ in pairs), *(told for _, told in pairs))
    told = brought(*there[len(pairs) :])
    tuning = side_by_side([outputs for outputs, _ in told])
    labels = np.concatenate([labels for _, labels in told])
    return FirstPass(ChunkScores(there[: len(pairs)], sizes), tuning, labels)


def _summary(shared: Any, chunk: list[Any], y: Any, bits: Any, first: int) -> Any:
    """Return of one chunk the true-label scores, and a pair for the client.

    The pair are the outputs of the tuning rows, and labels in as few bytes as K asks for.
    """
    names, kind, columns, key, classes = shared
    outputs = outputs_of(names, kind, chunk, first)
    labels = label_indices(y, classes, outputs.n, outputs.n_classes, first=first)
    tune = unpacked(bits, outputs.n)
    true, tuning = [], []
    for rows in outputs.blocks():
        own = tune[(tune >= rows.start) & (tune < rows.stop)] - rows.start
        found = summarised(outputs.read(rows), labels[rows], own, columns, key=key, threads=1)
        true.append(found[0])
        tuning.append(found[1])
    small = labels.astype(np.min_scalar_type(outputs.n_classes - 1))
    return np.concatenate(true), (side_by_side(tuning), small)


@dataclass(frozen=True, eq=False)
class AtLevel:
    """A rule with its thresholds at one level: what travels to the workers."""

    rule: Rule
    thresholds: Any

    def member(self, scores: FloatArray, alpha: float, data: RowData = NO_DATA) -> BoolArray:
        """Return the sets of some rows (r, K, d) as a boolean array (r, K)."""
        return self.rule.reaches(scores, self.thresholds)


def predict_chunks(predictor: Predictor, outputs: Any, alpha: float | None = None) -> Any:
    """Return the sets of Dask outputs as a Dask array of booleans (n, K) in the same chunks.

    Nothing is computed until the array is.
    """
    import dask.array as da  # noqa: PLC0415

    level = predictor.alpha if alpha is None else alpha
    if isinstance(level, Sequence) or np.ndim(level):
        raise InvalidInput("sets of Dask arrays are predicted one level at a time.")
    simple_fraction(level)
    fitted = predictor.fitted
    given = chunked(outputs, predictor.kind)
    if set(given.models) != set(predictor.models) or given.shape[1] != predictor.n_classes:
        raise InvalidInput(
            f"outputs must come from the fitted models {sorted(predictor.models)} with "
            f"{predictor.n_classes} classes; got {sorted(given.models)} with {given.shape[1]}."
        )
    light: Any = predictor
    if isinstance(fitted, Fitted):
        if fitted.cuts.plan.needs:
            raise InvalidInput(
                f'calibration "{fitted.cuts.name}" needs {fitted.cuts.plan.needs[0]} of every row; '
                "predict the chunks with predict_batches."
            )
        here: Any = AtLevel(fitted.rule, fitted.at(level))
        light = replace(predictor, fitted=here)
    light = replace(light, threads=1, classes=None)
    return da.map_blocks(
        _predict_chunk, *(given.models[name] for name in predictor.models), level=level,
        predictor=light, dtype=bool, meta=np.empty((0, 0), dtype=bool),
    )  # fmt: skip


def _predict_chunk(*chunk: Any, predictor: Predictor, level: float) -> BoolArray:
    models = dict(zip(predictor.models, chunk, strict=True))
    checked = predictor.check({name: np.asarray(v) for name, v in models.items()}, later=True)
    mask = np.empty((checked.n, checked.n_classes), dtype=bool)
    for rows, scores in predictor.blocks(checked):
        mask[rows] = predictor.fitted.member(scores, level)
    return mask
