"""A fit and predictions on Dask arrays: the work is done where the chunks are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformix.arrays import BoolArray, FloatArray, as_generator
from conformix.calibration import resolve_calibration
from conformix.calibration.rows import NO_DATA, RowData, check_rows
from conformix.classnames import check_classes, label_indices
from conformix.cluster.chunks import (
    ChunkReader,
    chunked,
    column_of,
    is_chunked,
    outputs_of,
    packed,
    unpacked,
)
from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput
from conformix.fitted import Fitted, Rule
from conformix.gathered import assembled, rows_held, side_by_side, summarised
from conformix.inputs import Outputs, check_groups
from conformix.predictor import Predictor
from conformix.recipe import Recipe
from conformix.scores import score_columns
from conformix.scores.tensor import draw_key
from conformix.splits import Drawn, Split, ValidityFirst
from conformix.stream.fit import stream_split


def fit_anywhere(recipe: Recipe, outputs: Any, y: Any, **options: Any) -> Predictor:
    """Return the fit on this machine, or on the workers where outputs are Dask arrays."""
    if not is_chunked(outputs):
        return recipe.fit(outputs, y, **options)
    if options.pop("test", None) is not None:
        raise InvalidInput('test has no use under split "vfcp", the one for Dask arrays.')
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
    classes: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
) -> Predictor:
    """Return the predictor fitted on Dask arrays: that of `Recipe.fit` on the same rows.

    Workers score their chunks; here arrive d numbers per row and the outputs of the tuning rows,
    which are searched here.
    """
    from dask import compute, delayed  # noqa: PLC0415  there already: outputs are its arrays

    recipe.check()
    drawn: Any = stream_split(recipe)
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
    if isinstance(drawn, ValidityFirst):
        drawn = drawn.held_in(rows_held(n_classes, len(columns)))
        roles = drawn.roles(n, 0, rng, parts)
        tune, drawn = roles.tune, Drawn(drawn, roles)
    work = delayed(_summary, pure=False)
    shared = delayed((models, recipe.kind, columns, key, names))
    labelled = column_of(y, given.sizes)
    steps = zip(given.delayed(), labelled, packed(tune, n, given.sizes), given.starts, strict=True)
    found = compute(*[work(shared, *step) for step in steps])
    like = Outputs({name: np.empty((0, n_classes)) for name in models}, recipe.kind)
    scores = assembled(
        [one[0] for one in found], side_by_side([one[1] for one in found]), tune, like, columns,
        reader=ChunkReader(given, columns, key), key=key, threads=recipe.threads,
    )  # fmt: skip
    labels = np.concatenate([one[2] for one in found])
    split: Split = drawn
    fitted = recipe.fit_scores(
        scores, labels, columns, split, rng=rng, test=None, groups=parts, data=data
    )
    return Predictor(
        columns, models, n_classes, recipe.kind, key, recipe.alpha, fitted,
        threads=recipe.threads, classes=names,
    )  # fmt: skip


def _host(values: Any) -> Any:
    return values.compute() if is_chunked(values) else values


def _summary(shared: Any, chunk: list[Any], y: Any, bits: Any, first: int) -> Any:
    """Return true-label scores, outputs of the tuning rows and labels of one chunk."""
    names, kind, columns, key, classes = shared
    outputs = outputs_of(names, kind, chunk, first)
    labels = label_indices(y, classes, outputs.n, outputs.n_classes)
    tune = unpacked(bits, outputs.n)
    true, kept = [], []
    for rows in outputs.blocks():
        own = tune[(tune >= rows.start) & (tune < rows.stop)] - rows.start
        found = summarised(outputs.read(rows), labels[rows], own, columns, key=key, threads=1)
        true.append(found[0])
        kept.append(found[1])
    return np.concatenate(true), side_by_side(kept), labels


@dataclass(frozen=True, eq=False)
class AtLevel:
    """A rule with its thresholds at one level: what travels to the workers."""

    rule: Rule
    thresholds: Any

    def member(self, scores: FloatArray, alpha: float, data: RowData = NO_DATA) -> BoolArray:
        """Return the sets of some rows (r, K, d) as a boolean array (r, K)."""
        return self.rule.combined(scores) >= self.thresholds  # type: ignore[no-any-return]


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
