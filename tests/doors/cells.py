"""Every capability through every door: the cells of the matrix, and what a cell does.

A cell is a source of rows, a split, scores, a calibration, and one thing more that is asked of the
fit or of the model. What it does by its own door is compared with what it does in memory: all that
can be seen, bit for bit, or the same refusal.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np

import conformix as cx
from conformix.calibration import LabelShift
from conformix.data.batches import Batches
from conformix.search import GridSearch

SOURCES = ("memory", "mapped", "batches", "dask", "tensors")
SPLITS = ("vfcp", "efcp", "dlcp", "dlcp+", "exact")
SCORES = ("given", "auto")
CALIBRATIONS = ("marginal", "class", "cluster", "group", "weighted", "label shift", "rc3p")
EXTRAS = (
    "sets", "groups", "pac", "non-empty", "several levels", "p-values", "recalibrate", "drift",
    "save and load",
)  # fmt: skip
N_CLASSES, ALPHA, DELTA = 4, 0.2, 0.2
N_FIT, N_TEST, N_NEW = 96, 100, 12
MODEL = ("thr", "rank")


@dataclass(frozen=True)
class Cell:
    source: str
    split: str
    scores: str
    calibration: str
    extra: str

    def by(self, source: str) -> Cell:
        return Cell(source, self.split, self.scores, self.calibration, self.extra)


def cells() -> Iterator[Cell]:
    for values in itertools.product(SOURCES, SPLITS, SCORES, CALIBRATIONS, EXTRAS):
        yield Cell(*values)


@dataclass(frozen=True)
class Rows:
    outputs: np.ndarray
    y: np.ndarray
    strata: np.ndarray
    weight: np.ndarray
    groups: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Any) -> Rows:
        return Rows(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@cache
def rows_of(part: str, seed: int = 0) -> Rows:
    """Rows to fit, a test batch, new rows and fresh ones: probabilities in single precision."""
    sizes = {"fit": N_FIT, "test": N_TEST, "new": N_NEW, "fresh": 40}
    rng = np.random.default_rng([seed, list(sizes).index(part)])
    n = sizes[part]
    y = rng.choice(N_CLASSES, size=n, p=[0.4, 0.3, 0.2, 0.1])
    chances = rng.dirichlet(np.full(N_CLASSES, 0.5), size=n)
    chances[np.arange(n), y] += rng.choice([0.1, 0.5, 1.5], size=n)
    chances /= chances.sum(axis=1, keepdims=True)
    strata = rng.choice(["north", "south"], size=n)
    return Rows(
        chances.astype(np.float32), y, strata, rng.integers(1, 9, size=n) / 4,
        rng.integers(0, n // 3, size=n),
    )  # fmt: skip


def row_data(cell: Cell, rows: Rows) -> dict[str, Any]:
    if cell.calibration == "group":
        return {"strata": rows.strata}
    return {"sample_weight": rows.weight} if cell.calibration == "weighted" else {}


def model_of(cell: Cell, seed: int = 0) -> cx.ScoreAverage:
    calibration: Any = cell.calibration
    if calibration == "label shift":
        calibration = LabelShift(tuple((1 + k % 3) / 2 for k in range(N_CLASSES)))
    return cx.ScoreAverage(
        MODEL if cell.scores == "given" else "auto", alpha=ALPHA, split=cell.split,
        search=GridSearch(8) if cell.scores == "given" else "auto", calibration=calibration,
        guarantee="pac" if cell.extra == "pac" else "marginal", delta=DELTA,
        allow_empty=cell.extra != "non-empty", random_state=seed, threads=1,
    )  # fmt: skip


@dataclass(frozen=True)
class Door:
    """How rows come in, and how what comes out is read."""

    source: str
    folder: Path
    size: int = 17  # rows of a batch or a chunk

    def given(self, rows: Rows) -> Any:
        """Return outputs as the door has them."""
        if self.source == "mapped":
            path = self.folder / f"{len(list(self.folder.iterdir()))}.npy"
            np.save(path, rows.outputs)
            return np.load(path, mmap_mode="r")
        if self.source == "dask":
            import dask.array as da

            return da.from_array(rows.outputs, (self.size, 3))
        if self.source == "tensors":
            import torch

            home = "cuda" if torch.cuda.is_available() else "cpu"
            return torch.from_numpy(rows.outputs).to(home)
        return rows.outputs

    def batches(self, rows: Rows, **brought: Any) -> Batches:
        def begin() -> Iterator[Any]:
            for start in range(0, len(rows), self.size):
                part = slice(start, start + self.size)
                more = {name: values[part] for name, values in brought.items()}
                yield rows.outputs[part], rows.y[part], more

        return Batches(begin, len(rows))

    def fit(self, cell: Cell, seed: int = 0) -> cx.ScoreAverage:
        rows, test = rows_of("fit", seed), None
        brought = row_data(cell, rows)
        if cell.extra == "groups":
            brought["groups"] = rows.groups
        model = model_of(cell, seed)
        transductive = cell.split.startswith("dlcp")
        if self.source == "batches":
            if transductive:
                test = {"test": self.batches(rows_of("test", seed))}
            return model.fit_batches(self.batches(rows, **brought), **(test or {}))
        if transductive:
            test = self.given(rows_of("test", seed))
        return model.fit(self.given(rows), rows.y, test=test, **brought)

    def predicted(self, cell: Cell, model: cx.ScoreAverage, rows: Rows, **options: Any) -> Any:
        """Return sets, by level where there are several."""
        brought = row_data(cell, rows)
        if self.source == "batches":
            found = list(model.predict_batches(self.batches(rows, **brought), **options))
            if "alpha" not in options:
                return np.concatenate([sets.mask for sets in found])
            levels = options["alpha"]
            return {a: np.concatenate([sets.at(a).mask for sets in found]) for a in levels}
        sets = model.predict_set(self.given(rows), **options, **brought)
        if "alpha" not in options:
            return host(sets)
        at = sets.get if isinstance(sets, dict) else sets.at
        return {level: host(at(level)) for level in options["alpha"]}


def host(values: Any) -> np.ndarray:
    """Return an answer of any door as an array."""
    values = values.compute() if hasattr(values, "compute") else values
    values = getattr(values, "mask", values)
    return values.cpu().numpy() if hasattr(values, "cpu") else np.asarray(values)


def seen(cell: Cell, door: Door, seed: int = 0) -> list[Any]:
    """Return all that can be seen of a cell's model."""
    model = door.fit(cell, seed)
    new, fresh = rows_of("new", seed), rows_of("fresh", seed)
    brought = row_data(cell, new)
    found: list[Any] = []
    if cell.extra == "recalibrate":
        model.recalibrate(door.given(fresh), fresh.y, **row_data(cell, fresh))
    if cell.extra == "save and load":
        model.save(door.folder / "model.json")
        model = cx.load(door.folder / "model.json")
    if cell.extra == "drift":
        found.append(repr(model.check_drift(door.given(fresh), fresh.y)))
    if cell.extra == "several levels":
        levels = door.predicted(cell, model, new, alpha=[0.1, 0.3])
        found += [level.tolist() for level in levels.values()]
    if cell.extra == "p-values":
        found.append(host(model.predict_pvalues(door.given(new), **brought)).tolist())
    found += [
        model.weights_.tolist(), repr(model.search_), model.held_out_size_,
        model.guarantee_.table(), np.asarray(model.predictor_.fitted.calibration).tolist(),
        door.predicted(cell, model, new).tolist(),
        str(model.verdict(door.given(new), new.y, **brought)),  # fresh rows may have recalibrated
    ]  # fmt: skip
    return found


def in_this_thread(cell: Cell) -> Any:
    """Let Dask compute in this thread, where it is asked at all."""
    if cell.source != "dask":
        return nullcontext()
    import dask

    return dask.config.set(scheduler="synchronous")


def outcome(cell: Cell, size: int = 17, seed: int = 0) -> list[Any] | str:
    """Return what can be seen of a cell, or the sentence by which it is refused."""
    with (
        TemporaryDirectory() as folder, warnings.catch_warnings(), in_this_thread(cell),
        mock.patch("conformix.fit.rows.MAPPED_BYTES", 0),  # as if the file were large
    ):  # fmt: skip
        warnings.simplefilter("ignore")
        try:
            return seen(cell, Door(cell.source, Path(folder), size), seed)
        except cx.InvalidInput as refusal:
            return str(refusal)


@cache
def in_memory(cell: Cell, seed: int = 0) -> list[Any] | str:
    return outcome(cell.by("memory"), seed=seed)


def verdict(cell: Cell) -> str:
    """Return ``"works"``, the sentence of a refusal, or how the door differs from memory."""
    here, there = in_memory(cell.by("memory")), outcome(cell)
    if isinstance(there, str):
        return there
    return "works" if there == here else "differs from memory"
