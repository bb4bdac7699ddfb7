"""A fit on batches of rows: one pass, in the memory of the tuning rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conformix.calibration import resolve_calibration
from conformix.data.batches.sample import RowSample
from conformix.data.batches.sources import Batches, from_iterable
from conformix.data.labels import check_classes, label_indices
from conformix.data.outputs import Kind, Outputs, check_outputs
from conformix.data.row_data import RowData, check_rows
from conformix.errors import InvalidInput
from conformix.fit.auto import is_auto
from conformix.fit.memory import rows_held
from conformix.fit.predictor import Predictor, matching
from conformix.fit.scored import (
    BlockReader,
    Gathered,
    HeldScores,
    assembled,
    chosen,
    side_by_side,
    summarised,
)
from conformix.fit.settings import Recipe
from conformix.kernels.arrays import FloatArray, IntArray, as_generator
from conformix.scores import Column, score_columns
from conformix.scores.blend.model import host_outputs
from conformix.scores.tensor import draw_key
from conformix.splits import Drawn, Roles, Split, ValidityFirst, resolve_split


@dataclass(frozen=True, eq=False)
class Part:
    """A small block of checked rows: what one step of a pass works on."""

    outputs: Outputs
    y: Any
    more: dict[str, Any]
    first: int


def fit_batches(recipe: Recipe, source: Any, *, classes: Any = None) -> Predictor:
    """Return the predictor fitted on batches of labelled rows.

    Where the source knows its number of rows, the split draws the rows that `Recipe.fit` would
    draw, and the result is the same bit for bit. Where it does not, they are a uniform sample of
    another draw; the guarantee is the same.

    Parameters
    ----------
    recipe : Recipe
        The settings.
    source : Batches or iterable
        See `conformix.data.batches`.
    classes : sequence of length K, optional
        Names of the classes.
    """
    recipe.check()
    split = stream_split(recipe)
    batches = from_iterable(source)
    rng = as_generator(recipe.random_state)
    key = draw_key(rng)
    parts = read_parts(batches, recipe.kind)
    head = next(parts, None)
    if head is None:
        raise InvalidInput("there are no rows to fit: the batches are empty.")
    like = head.outputs
    columns = score_columns(tuple(like.models), recipe.scores)
    names = check_classes(classes, like.n_classes)
    if recipe.settled(len(columns)) is not None:
        split = None
    if isinstance(split, ValidityFirst):
        split = split.held_in(rows_held(like.n_classes, len(columns)))
    seen = Pass(columns, key, recipe.threads, names, batches.n, split, rng)
    seen.take(head)
    for part in parts:
        own = matching(part.outputs, tuple(like.models), like.n_classes, "outputs")
        seen.take(replace(part, outputs=own))
    reader = None
    if batches.again:
        reader = BlockReader(lambda: read_again(batches, seen), columns, key, recipe.threads)
    scheme = resolve_calibration(recipe.calibration)
    scores, labels, split = seen.gathered(reader)
    data = seen.row_data(scheme.needs, scheme.name)
    fitted = recipe.fit_scores(
        scores, labels, columns, split, rng=rng, test=None, groups=None, data=data
    )
    return Predictor(
        columns, tuple(like.models), like.n_classes, recipe.kind, key, recipe.alpha, fitted,
        threads=recipe.threads, classes=names,
    )  # fmt: skip


def stream_split(recipe: Recipe) -> Split | None:
    """Return the split of a fit that never holds all scores; None where weights are given.

    How many rows tune is decided when the number of scores is known (`Recipe.settled`).
    """
    if is_auto(recipe.scores):
        raise InvalidInput(
            'scores="auto" learns a blend before it scores, and that takes the rows twice; give '
            "NumPy arrays to fit (they may be mapped from files), or name the scores."
        )
    if recipe.weights is not None:
        return None
    split = resolve_split(recipe.split)
    if not isinstance(split, ValidityFirst):
        raise InvalidInput(
            f'split "{split.name}" keeps the scores of all labels of all rows; for batches and '
            'Dask arrays say split="vfcp", or give NumPy arrays to fit.'
        )
    split.check()
    return split


def read_parts(batches: Batches, kind: Kind) -> Iterator[Part]:
    """Yield small blocks of checked rows from batches of any size."""
    first = 0
    for batch in batches:
        if not isinstance(batch, tuple) or len(batch) not in (2, 3):
            raise InvalidInput(
                "a batch must be a tuple (outputs, y), or (outputs, y, {...}) with strata or "
                f"sample_weight; got {type(batch).__name__}."
            )
        outputs, y = batch[0], batch[1]
        more = batch[2] if len(batch) == 3 else {}
        checked = host_outputs(check_outputs(outputs, kind, first=first, later=True))
        if y is None or len(y) != checked.n:
            told = "none" if y is None else f"{len(y)}"
            raise InvalidInput(f"y of a batch must hold {checked.n} labels; got {told}.")
        for rows in checked.blocks():
            own = {name: np.asarray(values)[rows] for name, values in more.items()}
            yield Part(checked.read(rows), y[rows], own, first + rows.start)
        first += checked.n


def read_again(batches: Batches, seen: Pass) -> Iterator[Outputs]:
    """Yield the outputs of another pass over the same rows, which their labels must show.

    A loader that shuffles, or an iterator that has ended, would calibrate with other rows' labels.
    """
    like, labels = seen.like, np.concatenate(seen.labels)
    first = 0
    for part in read_parts(batches, like.kind):
        own = matching(part.outputs, tuple(like.models), like.n_classes, "outputs")
        y = label_indices(part.y, seen.classes, own.n, own.n_classes)
        if not np.array_equal(y, labels[first : first + own.n]):
            break
        first += own.n
        yield own
    else:
        if first == len(labels):
            return
    raise InvalidInput(
        "batches that are read a second time must hold the same rows in the same order, and these "
        "do not: do not shuffle, let a function return a fresh iterator, or give an iterator."
    )


@dataclass(eq=False)
class Pass:
    """What one pass over the rows keeps.

    Parameters
    ----------
    columns, key, threads
        The scores.
    classes : tuple or None
        Names of the classes.
    n : int or None
        The number of rows, where it is known.
    split : ValidityFirst or None
        Which rows tune; None where weights are settled, and none do.
    rng : Generator
        Where the split draws from.
    """

    columns: tuple[Column, ...]
    key: int
    threads: int | None
    classes: Any
    n: int | None
    split: Any
    rng: np.random.Generator
    true: list[FloatArray] = field(default_factory=list)
    labels: list[IntArray] = field(default_factory=list)
    more: dict[str, list[Any]] = field(default_factory=dict)
    kept: list[dict[str, FloatArray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.roles: Roles | None = None
        self.sample: RowSample | None = None
        if self.split is not None and self.n is not None:
            self.roles = self.split.roles(self.n, 0, self.rng)
        elif self.split is not None:
            self.sample = RowSample(self.split.max_rows, self.rng)

    def take(self, part: Part) -> None:
        """Take in a block of rows."""
        outputs = part.outputs
        self.like = outputs
        y = label_indices(part.y, self.classes, outputs.n, outputs.n_classes, first=part.first)
        tune = np.arange(0) if self.roles is None else self.roles.tune
        keep = chosen(tune, part.first, outputs.n)[1]
        true, kept = summarised(outputs, y, keep, self.columns, key=self.key, threads=self.threads)
        self.true.append(true)
        self.kept.append(kept)
        self.labels.append(y)
        for name, values in part.more.items():
            self.more.setdefault(name, []).append(values)
        if self.sample is not None:
            self.sample.offer(outputs, part.first)

    def gathered(self, reader: BlockReader | None) -> tuple[Gathered, IntArray, Any]:
        """Return the scores, the labels and the split with its rows drawn."""
        labels = np.concatenate(self.labels)
        n = len(labels)
        if self.n is not None and n != self.n:
            raise InvalidInput(f"the batches hold {n} rows, and {self.n} were announced.")
        rows: IntArray = np.arange(0)
        models: dict[str, FloatArray] = {}
        if self.sample is not None:
            if n < 2:
                self.split.roles(n, 0, self.rng)  # says that one row cannot be split
            rows, models = self.sample.smallest(min(self.split.n_units(n), self.split.max_rows))
            rest = np.setdiff1d(np.arange(n), rows, assume_unique=True)
            self.roles = Roles(rows, rows, rest)
        elif self.roles is not None:
            rows = self.roles.tune
            models = side_by_side(self.kept)
        self.kept.clear()
        drawn = self.split if self.roles is None else Drawn(self.split, self.roles)
        found = assembled(
            HeldScores(np.concatenate(self.true)), models, rows, self.like, self.columns,
            reader=reader, key=self.key, threads=self.threads,
        )  # fmt: skip
        return found, labels, drawn

    def row_data(self, needs: tuple[str, ...], called: str) -> RowData:
        """Return what the rows brought along, checked."""
        found = {name: np.concatenate(values) for name, values in self.more.items()}
        n = sum(map(len, self.labels))
        unknown = sorted(set(found) - {"strata", "sample_weight"})
        if unknown:
            raise InvalidInput(
                f"a batch may bring strata and sample_weight along; got {unknown[0]!r}."
            )
        return check_rows(found.get("strata"), found.get("sample_weight"), n, needs, called)
