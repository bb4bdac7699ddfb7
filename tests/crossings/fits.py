"""What a combination stands for: settings of a fit, and rows to fit and to judge it by.

Probabilities are multiples of 1/1024 and logits of 1/8: half, single and double precision hold
them exactly, and many scores tie.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np

import conformix as cx
from conformix.calibration import (
    Clustered,
    LabelShift,
    Marginal,
    PerClass,
    PerGroup,
    RankedPerClass,
    Weighted,
)
from conformix.data.batches import Batches
from conformix.scores.scale import NaturalScale
from conformix.search import CappedSize, GradientSearch, GridSearch, LabelCosts, LineSearch
from conformix.search.stability import OneStandardError
from conformix.splits import Exact, ValidityFirst
from crossings.axes import Combination

DELTA = 0.2
TOP = 5  # labels that a truncated output lists
SCORES: dict[object, Any] = {
    "one": "thr",
    "three": ("thr", "aps", "rank"),
    "options": ("raps(penalty=0.1, k_reg=2)", "margin", "-entropy"),
    "randomised": ("aps(randomized=True)", "thr"),
    "two models": ("thr", "aps"),
}
N_SCORES = {"one": 1, "three": 3, "options": 3, "randomised": 2, "two models": 4}
RESOLUTION = 6
BY_HAND = {1: [1.0], 2: [0.75, 0.25], 3: [0.5, 0.2, 0.3], 4: [0.4, 0.3, 0.2, 0.1]}


def candidates(d: int) -> np.ndarray:
    """Weights off the simplex too, one of them below zero."""
    rows = [np.full(d, 1 / d), np.linspace(0.5, 2.0, d), np.linspace(1.0, -0.25, d), np.eye(d)[-1]]
    return np.unique(np.array(rows), axis=0)


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows with all that they bring along.

    Parameters
    ----------
    models : dict of float64 arrays of shape (n, K)
        What is known of every output, in full precision.
    y : integer array of shape (n,)
        True class indices.
    strata : array of text, shape (n,)
    weight : float64 array of shape (n,)
        Importance, multiples of 1/4: their sums are exact.
    groups : integer array of shape (n,)
    """

    models: dict[str, np.ndarray]
    y: np.ndarray
    strata: np.ndarray
    weight: np.ndarray
    groups: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Any) -> LabelledRows:
        models = {name: values[rows] for name, values in self.models.items()}
        return LabelledRows(
            models, self.y[rows], self.strata[rows], self.weight[rows], self.groups[rows]
        )


def probabilities(rng: np.random.Generator, y: np.ndarray, n_classes: int) -> np.ndarray:
    """Rows of 1024ths that lean towards the true label."""
    chances = rng.dirichlet(np.full(n_classes, 0.3), size=len(y))
    chances[np.arange(len(y)), y] += rng.choice([0.05, 0.3, 1.0], size=len(y))
    chances /= chances.sum(axis=1, keepdims=True)
    return np.array([rng.multinomial(1024, row) for row in chances]) / 1024


def listed_only(probs: np.ndarray) -> np.ndarray:
    """What is known of rows of which only the first labels are listed: the rest is spread evenly.

    No unlisted label gets more than the smallest listed one.
    """
    m, n_classes = min(TOP, probs.shape[1] - 1), probs.shape[1]
    dense = np.empty_like(probs)
    for row, out in zip(probs, dense, strict=True):
        first = np.argsort(-row, kind="stable")[:m]
        out[:] = min(max(1 - row[first].sum(), 0) / (n_classes - m), row[first].min())
        out[first] = row[first]
    return dense


@dataclass(frozen=True, eq=False)
class Case:
    """One combination: its settings, and its rows in whatever shape a fit is given them."""

    combination: Combination
    number: int
    roles: list[Any] = field(default_factory=list)

    def __getitem__(self, axis: str) -> Any:
        return self.combination[axis]

    @property
    def d(self) -> int:
        return N_SCORES[self["scores"]]

    @property
    def n_classes(self) -> int:
        return int(self["classes"])

    @property
    def kind(self) -> str:
        return "logits" if self["input"] == "logits" else "probs"

    @property
    def by_hand(self) -> bool:
        return bool(self["split"] == "by hand")

    @property
    def exact(self) -> bool:
        return str(self["split"]).startswith("exact")

    @cached_property
    def calibration(self) -> Any:
        k = self.n_classes
        ratios = tuple((1 + y % 4) / 2 for y in range(k))
        return {
            "marginal": Marginal(),
            "class": PerClass(),
            "class, pooled": PerClass("pooled", min_rows=9),
            "class, marginal": PerClass("marginal", min_rows=9),
            "class, tuned": PerClass(tune=True),
            "cluster": Clustered(2, min_rows=3),
            "clusters given": Clustered(clusters=[-1 if y == 1 else 5 * (y % 2) for y in range(k)]),
            "group": PerGroup(),
            "group, pooled": PerGroup("pooled"),
            "group and class, marginal": PerGroup("marginal", min_rows=4, by_class=True),
            "weighted, known": Weighted(known=True),
            "weighted": Weighted(),
            "label shift, known": LabelShift(ratios, known=True),
            "label shift": LabelShift(ratios),
            "rc3p": RankedPerClass(share=0.8),
        }[self["calibration"]]

    @property
    def needs(self) -> tuple[str, ...]:
        name = str(self["calibration"])
        if name.startswith("group"):
            return ("strata",)
        return ("sample_weight",) if name.startswith("weighted") else ()

    @cached_property
    def objective(self) -> Any:
        costs = tuple(1 + (y % 3) / 4 for y in range(self.n_classes))
        return {"capped": CappedSize(2), "costs": LabelCosts(costs)}.get(
            self["objective"], self["objective"]
        )

    @cached_property
    def search(self) -> Any:
        grid = GridSearch(RESOLUTION)
        return {
            "grid": grid,
            "candidates": candidates(self.d),
            "line": LineSearch(budget=300, starts=2),
            "gradient": GradientSearch(budget=300, starts=1),
            "few": OneStandardError(grid, "few", n_draws=20),
            "uniform": OneStandardError(grid, "uniform", errors=0.0, n_draws=20),
            "auto": "auto",
        }[self["search"]]

    @cached_property
    def settings(self) -> dict[str, Any]:
        splits = {
            "vfcp, few rows tune": ValidityFirst(0.4, max_rows=31),
            "exact, shortlist": Exact(shortlist=6, share=0.3),
            "by hand": "efcp",
        }
        widths: Any = [1.0, 2.0, 0.5, 4.0][: self.d]
        if self.number % 2:  # the same as an object
            widths = NaturalScale(tuple(widths))
        return {
            "scores": SCORES[self["scores"]],
            "alpha": self["alpha"],
            "split": splits.get(self["split"], self["split"]),
            "search": self.search,
            "normalize": widths if self["normalize"] == "widths" else self["normalize"],
            "kind": self.kind,
            "weights": BY_HAND[self.d] if self.by_hand else None,
            "tune_alpha": self["tune_alpha"],
            "allow_empty": self["allow_empty"],
            "guarantee": self["guarantee"],
            "delta": DELTA,
            "calibration": self.calibration,
            "objective": self.objective,
            "random_state": self.number,
            "threads": 1,
        }

    def model(self, **changed: Any) -> cx.ScoreAverage:
        return cx.ScoreAverage(**{"scores": "paper"} | self.settings | changed)

    # Rows.

    @cached_property
    def rows(self) -> dict[str, LabelledRows]:
        """Rows to fit, a test batch of a transductive split, new rows, and fresh ones."""
        rng = np.random.default_rng(1000 + self.number)
        few = self.n_classes == 300
        sizes = {"fit": 60 if few else 120, "test": 12, "new": 4 if few else 11, "fresh": 50}
        n = sum(sizes.values())
        # Few classes have most of the rows, so that some are rare and others are not.
        chances = 1.0 / (1 + np.arange(self.n_classes))
        y = rng.choice(self.n_classes, size=n, p=chances / chances.sum())
        names = ("a", "b") if self["scores"] == "two models" else ("",)
        models = {name: self._outputs(rng, y) for name in names}
        strata = rng.choice(["north", "south", "far"], p=[0.6, 0.35, 0.05], size=n)
        weight = rng.integers(0, 9, size=n) / 4
        every = LabelledRows(models, y, strata, weight, rng.integers(0, n // 3, size=n))
        ends = np.cumsum(list(sizes.values()))
        parts = np.split(np.arange(n), ends[:-1])
        found = {name: every.take(part) for name, part in zip(sizes, parts, strict=True)}
        # A stratum that no fit has seen.
        strata = found["new"].strata.copy()
        strata[:2] = "unseen"
        return found | {"new": replace(found["new"], strata=strata)}

    def _outputs(self, rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
        probs = probabilities(rng, y, self.n_classes)
        if self.kind == "logits":
            return np.round(8 * np.log(probs + 1 / 4096)) / 8
        return listed_only(probs) if self["input"] == "top-k" else probs

    @cached_property
    def classes(self) -> list[Any] | None:
        k = self.n_classes
        names = {"text": [f"label {y:03d}" for y in range(k)][::-1], "integers": range(7, k + 7)}
        return list(names[self["names"]]) if self["names"] != "none" else None

    def labels(self, rows: LabelledRows) -> np.ndarray:
        """True labels as a user has them: by name where there are names."""
        return rows.y if self.classes is None else np.array(self.classes)[rows.y]

    def outputs(self, rows: LabelledRows, shape: str | None = None) -> Any:
        """Outputs as a fit is given them; `shape` asks for another precision or container.

        It may be a folder, from which they are mapped.
        """
        shape = self["input"] if shape is None else shape
        given = {name: _in_shape(values, str(shape)) for name, values in rows.models.items()}
        later = [self.rows[name] for name in ("test", "new", "fresh")]
        if any(rows is part for part in later):  # models are known by name, not by place
            given = dict(reversed(given.items()))
        return given.get("", given)

    def row_data(self, rows: LabelledRows) -> dict[str, Any]:
        """What rows bring along for the calibration."""
        brought = {"strata": rows.strata, "sample_weight": rows.weight}
        return {name: brought[name] for name in self.needs}

    # Fits.

    def fit(self, shape: str | None = None) -> cx.ScoreAverage:
        """The fit in memory, whose roles are noted on the way."""
        rows = self.rows["fit"]
        test = self.outputs(self.rows["test"], shape) if "dlcp" in str(self["split"]) else None
        groups = rows.groups if self["groups"] else None
        with noted_roles(self.roles):
            return self.model().fit(
                self.outputs(rows, shape), self.labels(rows), test=test, groups=groups,
                classes=self.classes, **self.row_data(rows),
            )  # fmt: skip

    def fit_by_door(self) -> cx.ScoreAverage:
        """The same fit, of rows that come in another way."""
        import dask

        rows, transductive = self.rows["fit"], "dlcp" in str(self["split"])
        if self["door"] == "batches":
            test = self.batches(self.rows["test"], 5) if transductive else None
            return self.model().fit_batches(self.batches(rows), classes=self.classes, test=test)
        if self["door"] == "dask":
            groups = rows.groups if self["groups"] else None
            test = self.chunked(self.rows["test"], 7) if transductive else None
            with dask.config.set(scheduler="synchronous"):
                return self.model().fit(
                    self.chunked(rows), self.labels(rows), classes=self.classes, groups=groups,
                    test=test, **self.row_data(rows),
                )  # fmt: skip
        if self["door"] == "mapped files":
            with TemporaryDirectory() as folder, mock.patch("conformix.fit.rows.MAPPED_BYTES", 0):
                return self.fit(folder)
        exact = self["input"] in ("float64", "float32", "float16")
        return self.fit("tensor" if exact else "float64")

    def batches(self, rows: LabelledRows, size: int = 17) -> Batches:
        def begin() -> Iterator[Any]:
            for start in range(0, len(rows), size):
                part = rows.take(slice(start, start + size))
                brought = self.row_data(part) | ({"groups": part.groups} if self["groups"] else {})
                yield self.outputs(part, self.dense), self.labels(part), brought

        return Batches(begin, len(rows))

    @property
    def dense(self) -> str:
        """The shape of outputs where they cannot be truncated or tensors."""
        return "float64" if self["input"] in ("top-k", "tensor", "logits") else str(self["input"])

    def chunked(self, rows: LabelledRows, size: int = 23) -> Any:
        import dask.array as da

        given = {
            name: da.from_array(_in_shape(values, self.dense), (size, self.n_classes))
            for name, values in rows.models.items()
        }
        return given.get("", given)


def _in_shape(values: np.ndarray, shape: str) -> Any:
    if shape == "tensor":
        import torch

        return torch.from_numpy(values.astype(np.float32))
    if shape == "top-k":
        m = min(TOP, values.shape[1] - 1)
        labels = np.argsort(-values, axis=1, kind="stable")[:, :m]
        return cx.TopK(labels, np.take_along_axis(values, labels, 1), values.shape[1])
    if shape.startswith("float"):
        return values.astype(shape)
    folder = Path(shape)
    if folder.is_dir():
        path = folder / f"{len(list(folder.iterdir()))}.npy"
        np.save(path, values)
        return np.load(path, mmap_mode="r")
    return values


@contextmanager
def noted_roles(roles: list[Any]) -> Iterator[None]:
    """Note which rows `ValidityFirst` draws to tune, wherever it is asked to."""
    drawn = ValidityFirst.roles

    def roles_of(self: ValidityFirst, *rows: Any) -> Any:
        roles.append(drawn(self, *rows))
        return roles[-1]

    with mock.patch.object(ValidityFirst, "roles", roles_of):
        yield


def finest(d: int) -> int:
    """The resolution of the grid of ``search="auto"`` for up to four scores (its documentation)."""
    return {1: 100, 2: 100, 3: 100, 4: 50}[d]


def grid_weights(d: int, resolution: int) -> np.ndarray:
    """All weights of the grid in the order that breaks ties, by plain enumeration."""
    vectors = [()] if d == 0 else _vectors(d, resolution)
    ordered = sorted(vectors, key=lambda g: (sum(part * part for part in g), g))
    return np.array(ordered) / resolution


def _vectors(d: int, left: int) -> list[tuple[int, ...]]:
    if d == 1:
        return [(left,)]
    return [(g, *rest) for g in range(left + 1) for rest in _vectors(d - 1, left - g)]


def in_tie_order(weights: np.ndarray) -> np.ndarray:
    """Given candidates in the order that breaks ties."""
    from fractions import Fraction

    rows = [tuple(row) for row in weights.tolist()]
    return np.array(sorted(rows, key=lambda w: (sum(Fraction(x) ** 2 for x in w), w)))


def n_grid(d: int, resolution: int) -> int:
    return math.comb(resolution + d - 1, d - 1)
