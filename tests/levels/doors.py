"""Every public way from a level to sets, each with the p-values that the sets must agree with.

A set is ``{y : p(x, y) > alpha}`` as exact rationals. The p-values of n calibration rows are
``r / (n + 1)`` with whole r, so that the fraction behind the float is found again, and compared
with what alpha stands for: no float decides.
"""

from __future__ import annotations

import io
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

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
from conformix.cli.app import main
from conformix.data.batches import from_arrays
from conformix.estimators.cross import Fold
from conformix.search import GridSearch

N_CLASSES, N_NEW = 4, 12
SCORES = ("thr", "rank")
IRRATIONAL = (float(np.exp(-2)), float(1 / np.pi), float(np.sqrt(2) / 10))
SIMPLE = (0.1, 1 - 0.9, 1 / 3, 0.5, float(np.nextafter(0.1, 0)))
TINY = (1e-9, 1e-13, 1e-300, 5e-324)
HIGH = (1 - 1e-9, float(np.nextafter(1, 0)))
SPECIAL = (*IRRATIONAL, *SIMPLE, *TINY, *HIGH)

Answer = tuple[Any, Any]
"""Sets (m, K) and p-values (m, K)."""


def stands_for(alpha: float) -> Fraction:
    """Return the fraction that a level is documented to mean."""
    exact = Fraction(float(alpha))
    simple = exact.limit_denominator(10**6)
    near = abs(simple - exact) <= Fraction(1, 10**12) and 0 < simple < 1
    return simple if near else exact


def drawn_levels(rng: np.random.Generator, n: int) -> list[float]:
    """Return levels in (0, 1): a third even, a third crowded towards 0, a third towards 1."""
    even = rng.uniform(size=n - 2 * (n // 3))
    low = 10.0 ** -rng.uniform(0, 12, size=n // 3)
    high = 1 - 10.0 ** -rng.uniform(0, 12, size=n // 3)
    both = np.concatenate([even, low, high])
    return [float(alpha) for alpha in both[(both > 0) & (both < 1)]]


def n_broken(answer: Answer, alpha: float, n: int) -> int:
    """Return how many labels are in a set against their p-value, or out of it."""
    mask, pvalues = np.asarray(answer[0]), np.asarray(answer[1])
    values, place = np.unique(pvalues, return_inverse=True)
    exact = [Fraction(value).limit_denominator(4 * (n + 1)) for value in values]
    out = bisect_right(exact, stands_for(alpha))  # p-values up to alpha are out
    return int(np.count_nonzero(mask != (place.reshape(mask.shape) >= out)))


class Rows(NamedTuple):
    """Labelled rows, and new ones."""

    probs: Any
    y: Any
    new: Any
    strata: Any
    new_strata: Any


def drawn_rows(seed: int, n: int) -> Rows:
    """Return n labelled rows of a fair classifier, in two groups, and a few new ones."""
    rng = np.random.default_rng([seed, n])
    y = rng.integers(N_CLASSES, size=n + N_NEW)
    logits = rng.normal(size=(n + N_NEW, N_CLASSES))
    logits[np.arange(n + N_NEW), y] += 1.0
    powers = np.exp(logits)
    probs = powers / powers.sum(axis=1, keepdims=True)
    strata = np.arange(n + N_NEW) % 2
    return Rows(probs[:n], y[:n], probs[n:], strata[:n], strata[n:])


Opened = Callable[[float], Answer]
"""From a level to sets and p-values."""


def _read(cp: Any, new: Any, alpha: float | None = None, **more: Any) -> Answer:
    sets = (
        cp.predict_set(new, **more) if alpha is None else cp.predict_set(new, alpha=alpha, **more)
    )
    return sets.mask, cp.predict_pvalues(new, **more)


def _fitted_there(rows: Rows, options: dict[str, Any], fit: dict[str, Any]) -> Opened:
    """The level is the estimator's."""
    new = {"strata": rows.new_strata} if "strata" in fit else {}
    if "sample_weight" in fit:
        new = {"sample_weight": np.ones(N_NEW)}

    def answer(alpha: float) -> Answer:
        cp = cx.ScoreAverage(**{"scores": "paper"} | options | {"alpha": alpha, "random_state": 0})
        return _read(cp.fit(rows.probs, rows.y, **fit), rows.new, **new)

    return answer


def average(**options: Any) -> Callable[[Rows], Opened]:
    """Return the door of a `ScoreAverage` that is fitted at the level."""

    def opened(rows: Rows) -> Opened:
        fit: dict[str, Any] = {}
        if isinstance(options.get("calibration"), PerGroup):
            fit = {"strata": rows.strata}
        if isinstance(options.get("calibration"), Weighted):
            fit = {"sample_weight": np.ones(len(rows.y))}
        if str(options.get("split", "")).startswith("dlcp"):
            fit = {"test": rows.new}
        return _fitted_there(rows, {"scores": SCORES} | options, fit)

    return opened


def other_level(rows: Rows) -> Opened:
    """The level is one of a prediction."""
    cp = cx.ScoreAverage(SCORES, weights=[0.5, 0.5], alpha=0.5).fit(rows.probs, rows.y)
    return lambda alpha: _read(cp, rows.new, alpha)


def several_levels(rows: Rows) -> Opened:
    """The level is one of several."""
    cp = cx.ScoreAverage(SCORES, weights=[0.5, 0.5], alpha=0.5).fit(rows.probs, rows.y)

    def answer(alpha: float) -> Answer:
        nested = cp.predict_set(rows.new, alpha=[alpha, 0.25, 0.75])
        return nested.at(alpha).mask, cp.predict_pvalues(rows.new)

    return answer


def stored(rows: Rows) -> Opened:
    """The level goes through a model file."""

    def answer(alpha: float) -> Answer:
        cp = cx.ScoreAverage(SCORES, weights=[0.5, 0.5], alpha=alpha).fit(rows.probs, rows.y)
        with tempfile.TemporaryDirectory() as folder:
            cp.save(Path(folder) / "model.json")
            return _read(cx.load_predictor(Path(folder) / "model.json"), rows.new)

    return answer


def batches(rows: Rows) -> Opened:
    """The rows come in batches."""

    def answer(alpha: float) -> Answer:
        cp = cx.ScoreAverage(SCORES, weights=[0.5, 0.5], alpha=alpha)
        return _read(cp.fit_batches(from_arrays(rows.probs, rows.y)), rows.new)

    return answer


def classifier(rows: Rows) -> Opened:
    """A classifier that was trained before."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.naive_bayes import GaussianNB

    X, y, new = np.log(rows.probs), rows.y, np.log(rows.new)
    trained = GaussianNB().fit(np.concatenate([np.eye(N_CLASSES)] * 2), [0, 1, 2, 3] * 2)
    trained.var_[:] = 1.0
    fixed = {"scores": SCORES, "weights": [0.5, 0.5], "random_state": 0}
    at_half = cx.ConformalClassifier(
        FrozenEstimator(trained), alpha=0.5, **{"scores": "paper", **fixed}
    ).fit(X, y)

    def answer(alpha: float) -> Answer:
        return _read(at_half, new, alpha)

    return answer


def folds_of(rows: Rows) -> list[Fold]:
    """Return five folds of nearly equal size."""
    parts = np.array_split(np.arange(len(rows.y)), min(5, len(rows.y)))
    return [Fold(rows.probs[part], rows.y[part]) for part in parts]


def cross(rows: Rows) -> Opened:
    """Cross-conformal sets at the level of the fit."""
    folds = folds_of(rows)

    def answer(alpha: float) -> Answer:
        found = cx.CrossAverage(SCORES, weights=[0.5, 0.5], alpha=alpha).fit(folds)
        return _read(found, [rows.new] * len(folds))

    return answer


def cross_other_level(rows: Rows) -> Opened:
    """Cross-conformal sets at a level of the prediction."""
    folds = folds_of(rows)
    found = cx.CrossAverage(SCORES, weights=[0.5, 0.5], alpha=0.5).fit(folds)
    return lambda alpha: _read(found, [rows.new] * len(folds), alpha)


def cross_classifier(rows: Rows) -> Opened:
    """Cross-conformal sets around scikit-learn classifiers."""
    from sklearn.naive_bayes import GaussianNB

    X = np.log(rows.probs)
    found = cx.CrossConformalClassifier(
        GaussianNB(var_smoothing=1.0), scores=SCORES, cv=4, alpha=0.5, normalize="scale",
        search=GridSearch(2), random_state=0,
    ).fit(X, rows.y)  # fmt: skip
    return lambda alpha: _read(found, np.log(rows.new), alpha)


def online(rows: Rows) -> Opened:
    """The set after n steps of a stream, at a level of the controller."""
    options: dict[str, Any] = {"window": len(rows.y), "adapt": None, "candidates": 1}
    stream = cx.OnlineAverage("thr", alpha=0.5, control=Still(), **options)
    stream.run(rows.probs, rows.y)
    past = rows.probs[np.arange(len(rows.y)), rows.y]
    pvalues = (1 + (past[:, None] <= rows.new[0]).sum(axis=0)) / (len(past) + 1)

    def answer(alpha: float) -> Answer:
        there = deepcopy(stream)
        there.control_ = cx.OnlineAverage("thr", alpha=alpha, control=Still(), **options).control_
        return there.predict_set(rows.new[0]).mask, pvalues[None, :]

    return answer


class Still:
    """A controller that asks for the same level always."""

    level = 0.5

    def start(self, alpha: float) -> Still:
        """Return one that asks for alpha."""
        fresh = Still()
        fresh.level = alpha
        return fresh

    def update(self, error: bool) -> None:
        """Stay."""

    def bound(self, steps: int) -> float:
        """Return nothing of use."""
        return 1.0


def threshold(rows: Rows) -> Opened:
    """The threshold of bare scores."""
    own = rows.probs[np.arange(len(rows.y)), rows.y]
    pvalues = (1 + (own[:, None, None] <= rows.new).sum(axis=0)) / (len(own) + 1)
    return lambda alpha: (rows.new >= cx.conformal.threshold(own, alpha), pvalues)


def shell(command: str) -> Callable[[Rows], Opened]:
    """Return the door of a command: ``fit --alpha``, or ``predict --alpha`` of one model."""

    def opened(rows: Rows) -> Opened:
        folder = Path(tempfile.mkdtemp())
        files = {"cal": (rows.probs, rows.y), "new": (rows.new, np.zeros(N_NEW, dtype=int))}
        for name, (probs, y) in files.items():
            np.savez(folder / f"{name}.npz", outputs=probs, labels=y)
        fit = ["fit", str(folder / "cal.npz"), "-o", str(folder / "model.json"), "--scores", "thr"]
        _run(*fit, "--alpha", "0.5")
        sets = folder / "sets.npz"
        predict = ["predict", str(folder / "model.json"), str(folder / "new.npz"), "-o", str(sets)]

        def answer(alpha: float) -> Answer:
            level = ["--alpha", repr(alpha)]
            if command == "fit":
                _run(*fit, *level)
            if command == "evaluate":
                _run("evaluate", *predict[1:3], *level)
            _run(*predict, *([] if command == "fit" else level))
            with np.load(sets) as found:
                mask = found["mask"]
            predictor = cx.load_predictor(folder / "model.json")
            return mask, predictor.predict_pvalues(rows.new)

        return answer

    return opened


def _run(*arguments: str) -> str:
    """Run a command in this process; it must end well."""
    told, said = io.StringIO(), io.StringIO()
    with redirect_stdout(told), redirect_stderr(said):
        code = main(list(arguments))
    if code:
        raise AssertionError(f"{' '.join(arguments)}: exit {code}: {said.getvalue()}")
    return told.getvalue()


FIXED: dict[str, Any] = {"weights": [0.5, 0.5]}
SEARCHED: dict[str, Any] = {"search": GridSearch(2), "normalize": "scale"}

DOORS: dict[str, Callable[[Rows], Opened]] = {
    "threshold": threshold,
    "weights by hand": average(**FIXED),
    "one score": average(scores="thr"),
    "never empty": average(**FIXED, allow_empty=False),
    "vfcp": average(**SEARCHED),
    "efcp": average(**SEARCHED, split="efcp"),
    "dlcp": average(**SEARCHED, split="dlcp"),
    "dlcp+": average(**SEARCHED, split="dlcp+"),
    "exact": average(**SEARCHED, split="exact"),
    "auto": average(scores="auto"),
    "auto, exact": average(scores="auto", split="exact"),
    "another level": other_level,
    "several levels": several_levels,
    "by class": average(**FIXED, calibration=PerClass()),
    "by class, pooled": average(**FIXED, calibration=PerClass("pooled")),
    "by class, tuned": average(**SEARCHED, calibration=PerClass(tune=True)),
    "by group": average(**FIXED, calibration=PerGroup()),
    "by cluster": average(**SEARCHED, calibration=Clustered(2)),
    "rc3p": average(**SEARCHED, calibration=RankedPerClass()),
    "weighted": average(**FIXED, calibration=Weighted()),
    "label shift": average(**FIXED, calibration=LabelShift(np.ones(N_CLASSES))),
    "model file": stored,
    "batches": batches,
    "ConformalClassifier": classifier,
    "CrossAverage": cross,
    "CrossAverage, another level": cross_other_level,
    "CrossConformalClassifier": cross_classifier,
    "OnlineAverage": online,
    "shell: fit": shell("fit"),
    "shell: predict": shell("predict"),
    "shell: evaluate": shell("evaluate"),
}


def count_broken(name: str, n: int, levels: Sequence[float], seed: int = 0) -> int:
    """Return how many labels one door puts on the wrong side of some levels."""
    answer = DOORS[name](drawn_rows(seed, n))
    return sum(n_broken(answer(alpha), alpha, n) for alpha in levels)
