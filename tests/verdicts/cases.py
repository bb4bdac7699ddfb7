"""Models of every split and calibration, fitted and judged on synthetic exchangeable rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import conformix as cx
from conformix.calibration import (
    Clustered,
    LabelShift,
    PerClass,
    PerGroup,
    RankedPerClass,
    Weighted,
)
from conformix.search import GridSearch, LineSearch
from conformix.splits import Exact

if TYPE_CHECKING:
    from conformix.fit.verdict import LabelledRows

K = 4


@dataclass(frozen=True)
class Rows:
    """Rows of one law: outputs of all models, labels, and what a calibration may ask for."""

    outputs: dict[str, np.ndarray]
    y: np.ndarray
    strata: np.ndarray

    def with_misses(self, share: float, rng: np.random.Generator) -> Rows:
        """Return the rows with a share of them on which every model rules out the truth."""
        wrong = np.flatnonzero(rng.random(len(self.y)) < share)
        outputs = {}
        for name, values in self.outputs.items():
            changed = values.copy()
            rest = values[wrong].copy()
            rest[np.arange(len(wrong)), self.y[wrong]] = np.inf
            least = rest.argmin(axis=1)
            changed[wrong, least] += values[wrong, self.y[wrong]]
            changed[wrong, self.y[wrong]] = 0.0
            outputs[name] = changed
        return replace(self, outputs=outputs)

    def take(self, rows: slice) -> Rows:
        outputs = {name: values[rows] for name, values in self.outputs.items()}
        return Rows(outputs, self.y[rows], self.strata[rows])


def draw(rng: np.random.Generator, n: int, *, skewed: bool = False, models: int = 4) -> Rows:
    """Return n i.i.d. rows; every model sees the label through noise of its own."""
    chances = np.array([0.55, 0.35, 0.07, 0.03]) if skewed else np.full(K, 1 / K)
    y = rng.choice(K, size=n, p=chances)
    strata = rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    outputs = {}
    for j in range(models):
        logits = rng.normal(size=(n, K)) * (1.0 + 0.3 * strata[:, None])
        logits[np.arange(n), y] += 1.5
        values = np.exp(logits)
        outputs[f"m{j}"] = values / values.sum(axis=1, keepdims=True)
    return Rows(outputs, y, strata)


@dataclass(frozen=True)
class Case:
    """A way to fit, and how its rows are drawn."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    law: bool = True
    skewed: bool = False
    needs: tuple[str, ...] = ()
    alpha: float | None = None
    grouped: bool = False
    recalibrated: bool = False
    earlier: bool = False
    models: int = 4

    @property
    def separate(self) -> bool:
        """Whether half of the labelled rows do not calibrate."""
        one = self.options.get("split", "vfcp")
        return one not in ("efcp", "dlcp", "dlcp+", "exact") and "weights" not in self.options

    def fit(self, rows: Rows, test: Rows, rng: np.random.Generator, alpha: float) -> Any:
        """Return the fitted model."""
        settings = {"scores": "thr", "alpha": alpha, "search": GridSearch(4), "threads": 1}
        settings |= {"random_state": int(rng.integers(2**31))} | self.options
        groups = np.arange(len(rows.y)) // 2 if self.grouped else None
        model = cx.ScoreAverage(**{"scores": "paper", **settings})
        outputs = test.outputs if settings.get("split") in ("dlcp", "dlcp+") else None
        model.fit(rows.outputs, rows.y, test=outputs, groups=groups, **self.more(rows))
        if self.recalibrated:
            fresh = self.draw(rng, len(rows.y))
            model.recalibrate(fresh.outputs, fresh.y, **self.more(fresh))
        if self.earlier:  # a file that does not hold scores under equal weights
            fitted = replace(model.predictor_.fitted, reference=None)
            model.predictor_ = replace(model.predictor_, fitted=fitted)
        return model

    def draw(self, rng: np.random.Generator, n: int) -> Rows:
        """Return n rows."""
        return draw(rng, n, skewed=self.skewed, models=self.models)

    def more(self, rows: Rows) -> dict[str, Any]:
        """Return what the calibration asks for besides outputs and labels."""
        have = {"strata": rows.strata, "sample_weight": np.ones(len(rows.y))}
        return {name: have[name] for name in self.needs}

    def fitted(
        self, rng: np.random.Generator, n: int, m: int, *, alpha: float, planted: float = 0.0
    ) -> tuple[Any, Rows]:
        """Return a model with n calibration rows, and m fresh rows, a share of them planted."""
        both = self.draw(rng, (2 * n if self.separate else n) + m)
        labelled, test = both.take(slice(None, -m)), both.take(slice(-m, None))
        test = test.with_misses(planted, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cx.ConformixWarning)
            return self.fit(labelled, test, rng, alpha), test

    def judged(
        self, rng: np.random.Generator, n: int, m: int, *, alpha: float, planted: float = 0.0
    ) -> LabelledRows:
        """Return m fresh rows judged by a model with n calibration rows."""
        from conformix.fit.verdict import LabelledRows

        model, test = self.fitted(rng, n, m, alpha=alpha, planted=planted)
        return LabelledRows.of(model.predictor_, test.outputs, test.y, **self.more(test))


# One pair of models or the other: few candidates, as a union over many sees little.
SIDES = [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
ALIKE: dict[str, Any] = {"search": np.eye(12)}

CASES = [
    Case("vfcp"),
    Case("vfcp, scale", {"normalize": "scale"}),
    Case("vfcp, no empty sets", {"allow_empty": False}),
    Case("vfcp, tune_alpha", {"tune_alpha": 0.3}),
    Case("vfcp, auto scores", {"scores": "auto", "search": "auto"}),
    Case("vfcp, pac", {"guarantee": "pac"}),
    Case("vfcp, recalibrated", recalibrated=True),
    Case("vfcp, another alpha", alpha=0.05),
    Case("fixed weights", {"weights": [0.4, 0.3, 0.2, 0.1]}),
    Case("fixed weights, class", {"weights": [0.25] * 4, "calibration": "class"}),
    Case("efcp", {"split": "efcp"}),
    # Many models that are equally good: the rows choose the one that looks best on them.
    Case("efcp, many alike", ALIKE | {"split": "efcp"}, models=12),
    Case("efcp, one score", {"split": "efcp", "scores": ("m0.thr",), "search": [[1.0]]}),
    Case("efcp, pac", {"split": "efcp", "guarantee": "pac"}),
    Case("efcp, no empty sets", {"split": "efcp", "allow_empty": False}),
    Case("efcp, recalibrated", {"split": "efcp"}, recalibrated=True),
    Case("efcp, class", {"split": "efcp", "calibration": "class"}),
    Case("efcp, class, pooled", {"split": "efcp", "calibration": PerClass("pooled")}, skewed=True),
    Case("efcp, group", {"split": "efcp", "calibration": "group"}, needs=("strata",)),
    Case("efcp, earlier file", {"split": "efcp", "search": SIDES}, earlier=True),
    Case(
        "efcp, class, earlier file",
        {"split": "efcp", "calibration": "class", "search": SIDES},
        earlier=True,
    ),
    Case("dlcp", {"split": "dlcp"}),
    Case("dlcp, many alike", ALIKE | {"split": "dlcp"}, models=12),
    Case("dlcp, earlier file", {"split": "dlcp", "search": SIDES}, earlier=True),
    Case("dlcp+", {"split": "dlcp+"}),
    Case("dlcp, pac", {"split": "dlcp", "guarantee": "pac"}),
    Case("dlcp, class", {"split": "dlcp", "calibration": "class"}),
    Case("exact", {"split": "exact"}),
    Case("exact, many alike", ALIKE | {"split": "exact"}, models=12),
    Case("exact, shortlist", {"split": Exact(shortlist=4, share=0.5)}),
    Case("exact, another alpha", {"split": "exact"}, alpha=0.05),
    Case("class", {"calibration": "class"}),
    Case("class, pooled", {"calibration": PerClass("pooled")}, skewed=True),
    Case("class, marginal", {"calibration": PerClass("marginal")}, skewed=True),
    Case("class, always", {"calibration": PerClass("all", min_rows=12)}, skewed=True),
    Case("class, pac", {"calibration": "class", "guarantee": "pac"}),
    Case("cluster", {"calibration": Clustered(2)}),
    Case("cluster, rare", {"calibration": Clustered(2)}, skewed=True),
    Case("rc3p", {"calibration": RankedPerClass()}),
    Case("group", {"calibration": "group"}, needs=("strata",)),
    Case("group, pooled", {"calibration": PerGroup("pooled", min_rows=15)}, needs=("strata",)),
    Case("group and class", {"calibration": PerGroup(by_class=True)}, needs=("strata",)),
    Case("efcp, learnt scale", {"split": "efcp", "normalize": "ecdf"}, law=False),
    Case("efcp, line search", {"split": "efcp", "search": LineSearch(300, 1)}),
    Case("weighted", {"calibration": Weighted(known=True)}, law=False, needs=("sample_weight",)),
    Case("label shift", {"calibration": LabelShift((1.0,) * K, known=True)}, law=False),
    Case("rows in groups", grouped=True, law=False),
    Case("rows in groups, exact", {"split": "exact"}, grouped=True, law=False),
]
