"""Generated cases with heavy ties, for the property tests.

Probabilities are multiples of 1/8: their sums are exact in floats in any order, few values exist,
and rows repeat. Bare score tensors use decimals that floats do not hold exactly, so that ties
depend on the order of the additions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

import conformix as cx
from conformix.guarantees import EXACT, Guarantee
from conformix.splits import Exact, Roles, ValidityFirst

EIGHTH = 8
UNEVEN = (0.0, 0.1, 0.2, 0.3, 1 / 3, 0.5, 2 / 3, 0.7, 0.9, 1.0)

FRACTIONS = tuple(
    Fraction(p, q) for p, q in [(1, 2), (1, 3), (1, 4), (1, 5), (1, 10), (3, 10), (2, 3), (1, 20)]
)


@dataclass(frozen=True)
class FirstRowsTune:
    """VFCP whose tuning rows are the first ones, not drawn."""

    n_tune: int
    name: ClassVar[str] = "first rows tune"
    guarantee: ClassVar[Guarantee] = EXACT
    needs_test: ClassVar[bool] = False

    def roles(
        self, n: int, n_test: int, rng: np.random.Generator, groups: np.ndarray | None = None
    ) -> Roles:
        tune = np.arange(self.n_tune)
        return Roles(tune, tune, np.arange(self.n_tune, n))


@dataclass(frozen=True)
class FirstRowsTeach(ValidityFirst):
    """The same for ``scores="auto"``, which asks for a share of the rows and gets these."""

    n_tune: int = 1

    def roles(
        self, n: int, n_test: int, rng: np.random.Generator, groups: np.ndarray | None = None
    ) -> Roles:
        return FirstRowsTune(self.n_tune).roles(n, n_test, rng, groups)


@dataclass(frozen=True)
class FirstRowsAside(Exact):
    """Full-conformal selection whose shortlist is made on the first rows, not on drawn ones."""

    n_tune: int = 1

    def roles(
        self, n: int, n_test: int, rng: np.random.Generator, groups: np.ndarray | None = None
    ) -> Roles:
        tune, _, rest = FirstRowsTune(self.n_tune).roles(n, n_test, rng, groups)
        return Roles(tune, rest, rest)


@st.composite
def levels(draw: st.DrawFn) -> tuple[float, Fraction]:
    """A float alpha, spelled plainly or uglily, and the fraction that it stands for."""
    meant = draw(st.sampled_from(FRACTIONS))
    plain = float(meant)
    spelled = draw(
        st.sampled_from(
            [plain, 1 - float(1 - meant), math.nextafter(plain, 0), math.nextafter(plain, 1)]
        )
    )
    return spelled, meant


def choices(n: int, below: int) -> st.SearchStrategy[np.ndarray]:
    """Whole numbers (n,) from 0 on, of one drawn seed: n draws would cost more than most tests."""
    return st.integers(0, 2**32 - 1).map(
        lambda seed: np.random.default_rng(seed).integers(below, size=n)
    )


@st.composite
def probability_rows(draw: st.DrawFn, n_classes: int, n_rows: int) -> np.ndarray:
    """Rows of eighths that sum to one, drawn from a small pool so that rows repeat."""
    n_pool = draw(st.integers(1, 5))
    cuts = np.sort(draw(choices(n_pool * (n_classes - 1), EIGHTH + 1)).reshape(n_pool, -1))
    parts = np.diff(cuts, axis=1, prepend=0, append=EIGHTH)
    order = draw(choices(n_pool * n_classes, 2**20)).reshape(n_pool, -1).argsort(axis=1)
    pool = np.take_along_axis(parts, order, axis=1) / EIGHTH
    return pool[draw(choices(n_rows, n_pool))]


@dataclass(frozen=True)
class Bag:
    """Labelled and unlabelled rows of one or two models."""

    outputs: dict[str, np.ndarray]
    y: np.ndarray
    test: dict[str, np.ndarray]

    @property
    def models(self) -> list[list[list[float]]]:
        """The labelled outputs as nested lists, for the oracle."""
        return [model.tolist() for model in self.outputs.values()]

    @property
    def test_models(self) -> list[list[list[float]]]:
        """The test outputs as nested lists, for the oracle."""
        return [model.tolist() for model in self.test.values()]


@st.composite
def bags(draw: st.DrawFn, max_models: int = 2, min_rows: int = 2, max_rows: int = 12) -> Bag:
    """A few rows with one to five classes and ties everywhere."""
    n_classes = draw(st.integers(1, 5))
    n = draw(st.integers(min_rows, max_rows))
    m = draw(st.integers(1, 8))
    outputs, test = {}, {}
    for name in ("a", "b")[: draw(st.integers(1, max_models))]:
        rows = draw(probability_rows(n_classes, n + m))
        outputs[name], test[name] = rows[:n], rows[n:]
    return Bag(outputs, draw(choices(n, n_classes)), test)


@st.composite
def tensors(draw: st.DrawFn, max_d: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labelled scores (n, K, d), labels, and size scores (m, K, d), with uneven decimals."""
    d = draw(st.integers(1, max_d))
    n_classes = draw(st.integers(1, 4))
    n, m = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    few = draw(st.lists(st.sampled_from(UNEVEN), min_size=2, max_size=4, unique=True))
    places = draw(choices((n + m) * n_classes * d, len(few)))
    rows = np.array(few)[places].reshape(n + m, n_classes, d)
    return rows[:n], draw(choices(n, n_classes)), rows[n:]


# Scores that are defined on logits only.
NEEDS_LOGITS = ("energy", "logit")


def scores_of_rows(rows: Any, name: str) -> np.ndarray:
    """Scores (n, K) of rows of probabilities; log-probabilities stand in for logits."""
    if name not in NEEDS_LOGITS:
        return cx.score_tensor(rows, name)[..., 0]
    floored = np.maximum(np.asarray(rows, dtype=float), np.finfo(float).tiny)
    return cx.score_tensor(np.log(floored), name, kind="logits")[..., 0]


def frozen_copy(value: Any) -> Any:
    """A deep copy of arrays in (nested) dicts, to compare with later."""
    if isinstance(value, dict):
        return {key: frozen_copy(part) for key, part in value.items()}
    return np.array(value, copy=True)
