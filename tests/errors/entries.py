"""Every public door through which a user's numbers come in, with good arguments by default.

An entry is a function of named arguments; a bad case replaces one of them. `public_doors` lists
what there is, so that no door is forgotten.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

import conformix as cx
from conformix import guarantees, metrics, search
from conformix.calibration import merge, shift
from conformix.data import files as readers
from conformix.estimators.cross import Fold

RNG = np.random.default_rng(0)
N, K = 120, 4
P = RNG.dirichlet(np.full(K, 0.6), size=N)
Y = (P.cumsum(axis=1) > RNG.random((N, 1))).argmax(axis=1)
S = cx.score_tensor(P, ("thr", "aps", "rank"))
X = RNG.standard_normal((N, 3)) + Y[:, None]
STRATA = np.arange(N) % 2
WEIGHT = RNG.random(N)


def good(**options: Any) -> cx.ScoreAverage:
    settings = {"alpha": 0.2, "random_state": 0, "search": search.GridSearch(4), "threads": 1}
    return cx.ScoreAverage(**{"scores": "paper", **settings, **options})


@cache
def fitted(split: str = "vfcp") -> cx.ScoreAverage:
    return good(split=split).fit(P, Y)


@cache
def sets() -> cx.PredictionSets:
    return fitted().predict_set(P)


@cache
def classifier() -> cx.ConformalClassifier:
    return cx.ConformalClassifier(alpha=0.2, random_state=0, search=search.GridSearch(4)).fit(X, Y)


def fit_classifier(
    y: Any = Y, alpha: Any = 0.2, scores: Any = "thr", split: Any = "vfcp", normalize: Any = "auto"
) -> object:
    clf = cx.ConformalClassifier(
        alpha=alpha, scores=scores, split=split, normalize=normalize, random_state=0
    )
    return clf.fit(X, y)


@cache
def crossed() -> cx.CrossAverage:
    return cx.CrossAverage(weights=[0.5, 0.25, 0.25], alpha=0.2).fit([Fold(P, Y), Fold(P, Y)])


@cache
def cross_classifier() -> cx.CrossConformalClassifier:
    return cx.CrossConformalClassifier(alpha=0.2, random_state=0, cv=2).fit(X, Y)


HALVES = np.arange(len(X)) % 2


@cache
def cross_classifier_by_group() -> cx.CrossConformalClassifier:
    classifier = cx.CrossConformalClassifier(alpha=0.2, random_state=0, cv=2, calibration="group")
    return classifier.fit(X, Y, strata=HALVES)


def fit_folds(
    outputs: Any = P, y: Any = Y, alpha: Any = 0.2, weights: Any = None, scores: Any = "thr",
    normalize: Any = "auto", kind: Any = "probs",
) -> object:  # fmt: skip
    cross = cx.CrossAverage(
        scores if weights is None else ("thr", "aps", "rank"), alpha=alpha, weights=weights,
        normalize=normalize, kind=kind, search=search.GridSearch(2), random_state=0,
    )  # fmt: skip
    return cross.fit([Fold(outputs, y, P, Y), Fold(P, Y, P, Y)])


def update_online(y: Any = 0) -> object:
    online = cx.OnlineAverage(alpha=0.2, window=20)
    online.predict_set(P[0])
    return online.update(y)


def first_row(predicted: Any) -> Any:
    """Return the first row of what is fine so far; the others stay as they are."""
    plain = type(predicted) is np.ndarray and predicted.dtype.kind == "f"
    fine = isinstance(predicted, cx.Regressed) or (plain and np.isfinite(predicted).all())
    return predicted[:1] if fine else predicted


def update_responses(responses: Any = 0.5) -> object:
    online = cx.OnlineRegression("abs", alpha=0.2, window=20)
    online.predict_interval(0.0)
    return online.update(responses)


def grouped(strata: Any = STRATA, new_strata: Any = STRATA) -> object:
    cp = good(calibration="group").fit(P, Y, strata=strata)
    return cp.predict_set(P, strata=new_strata)


def weighted(sample_weight: Any = WEIGHT, new_weight: Any = WEIGHT) -> object:
    cp = good(calibration="weighted").fit(P, Y, sample_weight=sample_weight)
    return cp.predict_set(P, sample_weight=new_weight)


MODEL = cx.Regressed(X[:, 0], WEIGHT + 0.5, X[:, :1] + [[-1.0, 0.0, 1.0]], [0.1, 0.5, 0.9])
R = X[:, 0] + WEIGHT * RNG.standard_normal(N)


def regression(**options: Any) -> cx.RegressionAverage:
    settings = {"scores": ("abs", "norm", "cqr"), "alpha": 0.2, "random_state": 0, "threads": 1}
    return cx.RegressionAverage(**{**settings, "search": search.GridSearch(4), **options})


@cache
def regressed(split: str = "vfcp") -> cx.RegressionAverage:
    return regression(split=split).fit(MODEL, R)


@cache
def intervals() -> cx.Intervals:
    return regressed().predict_interval(MODEL)


@cache
def regressor() -> cx.ConformalRegressor:
    return cx.ConformalRegressor(alpha=0.2, sigma=None, random_state=0).fit(X, R)


@cache
def cross_regressor() -> cx.CrossConformalRegressor:
    return cx.CrossConformalRegressor(alpha=0.2, sigma=None, random_state=0, cv=2).fit(X, R)


def of_groups(strata: Any = STRATA, new_strata: Any = STRATA) -> object:
    cp = regression(calibration="group").fit(MODEL, R, strata=strata)
    return cp.predict_interval(MODEL, strata=new_strata)


def of_importance(sample_weight: Any = WEIGHT, new_weight: Any = WEIGHT) -> object:
    cp = regression(calibration="weighted").fit(MODEL, R, sample_weight=sample_weight)
    return cp.predict_interval(MODEL, sample_weight=new_weight)


Entry = Callable[..., object]


def of_sets(metric: Entry) -> Entry:
    return lambda y=Y, one_set=P > 0.2: metric(one_set, y)


def at_level(metric: Entry) -> Entry:
    return lambda y=Y, alpha=0.2: metric(sets(), y, alpha=alpha)


def of_intervals(metric: Entry) -> Entry:
    return lambda responses=R: metric(intervals(), responses)


def of_intervals_at_level(metric: Entry) -> Entry:
    return lambda responses=R, alpha=0.2: metric(intervals(), responses, alpha=alpha)


ENTRIES: dict[str, Entry] = {
    "ScoreAverage.fit": lambda outputs=P, y=Y, **o: good(**o).fit(outputs, y),
    "ScoreAverage.fit(split=efcp)": lambda outputs=P, y=Y, alpha=0.2: good(
        split="efcp", alpha=alpha
    ).fit(outputs, y),
    "ScoreAverage.fit(split=exact)": lambda outputs=P, y=Y, alpha=0.2: good(
        split="exact", alpha=alpha
    ).fit(outputs, y),
    "ScoreAverage.fit(test=)": lambda outputs=P, alpha=0.2: good(split="dlcp", alpha=alpha).fit(
        P, Y, test=outputs
    ),
    "ScoreAverage.predict_set": lambda outputs=P, alpha=None: fitted().predict_set(
        outputs, alpha=alpha
    ),
    "ScoreAverage.predict_set(exact)": lambda outputs=P, alpha=None: fitted("exact").predict_set(
        outputs, alpha=alpha
    ),
    "ScoreAverage.predict_pvalues": lambda outputs=P: fitted().predict_pvalues(outputs),
    "ScoreAverage.recalibrate": lambda outputs=P, y=Y: good().fit(P, Y).recalibrate(outputs, y),
    "ScoreAverage.check_drift": lambda outputs=P, y=Y: fitted().check_drift(outputs, y),
    "ScoreAverage.verdict": lambda outputs=P, y=Y, alpha=None: fitted().verdict(
        outputs, y, alpha=alpha
    ),
    "ScoreAverage.measured_coverage": lambda outputs=P, y=Y: fitted("efcp").measured_coverage(
        outputs, y
    ),
    "score_tensor": lambda outputs=P, scores=("thr",): cx.score_tensor(outputs, scores),
    "ConformalClassifier.fit": fit_classifier,
    "ConformalClassifier.predict_set": lambda alpha=0.2: classifier().predict_set(X, alpha=alpha),
    "search.search_weights": lambda tensor=S, y=Y, alpha=0.2: search.search_weights(
        tensor, y, alpha=alpha, resolution=4
    ),
    "search.landscape": lambda tensor=S, y=Y, alpha=0.2: search.landscape(
        tensor, y, alpha=alpha, resolution=4
    ),
    "metrics.evaluate": lambda y=Y, alpha=0.2: metrics.evaluate(sets(), y, alpha=alpha),
    "conformal_rank": lambda alpha=0.2: cx.conformal_rank(50, alpha),
    "conformal.threshold": lambda alpha=0.2: cx.conformal.threshold(P[:, 0], alpha),
    "conformal.rows_needed": lambda alpha=0.2: cx.conformal.rows_needed(alpha),
    "conformal.credibility": lambda pvalue_rows=P: cx.conformal.credibility(pvalue_rows),
    "conformal.confidence": lambda pvalue_rows=P: cx.conformal.confidence(pvalue_rows),
    "guarantees.n_needed": lambda alpha=0.2: cx.guarantees.n_needed(alpha, delta=0.1),
    "guarantees.pac_rank": lambda alpha=0.2, delta=0.1, n=50: guarantees.pac_rank(n, alpha, delta),
    "guarantees.batch_pac_rank": lambda alpha=0.2, delta=0.1, n=50: guarantees.batch_pac_rank(
        n, 20, alpha, delta
    ),
    "guarantees.batch_bound": lambda delta=0.1, n=50: guarantees.batch_bound(n, 20, 45, delta),
    "guarantees.conditional_bound": lambda delta=0.1, n=50: guarantees.conditional_bound(
        n, 45, delta
    ),
    "guarantees.restoring_rank": lambda alpha=0.2, n=50: guarantees.restoring_rank(n, alpha),
    "guarantees.marginal_bound": lambda n=50: guarantees.marginal_bound(n, 45),
    "guarantees.kappa": lambda alpha=0.2, n=50: guarantees.kappa(n, alpha),
    "guarantees.vc_eta": lambda delta=0.1, n=50: guarantees.vc_eta(n, 3, delta),
    "guarantees.grid_eta": lambda delta=0.1, n=50: guarantees.grid_eta(n, 66, delta),
    "guarantees.relative_bound": lambda delta=0.1, n=50: guarantees.relative_bound(
        n, 3, delta, 0.1
    ),
    "guarantees.largest_tune_alpha": lambda alpha=0.2, delta=0.1: guarantees.largest_tune_alpha(
        10**6, 10**6, alpha=alpha, d=2, delta=delta
    ),
    "guarantees.theorem1": lambda alpha=0.2, delta=0.1: guarantees.theorem1(
        500, 500, alpha=alpha, tune_alpha=0.1, n_classes=3, d=2, delta=delta
    ),
    "guarantees.theorem2": lambda alpha=0.2, delta=0.1, n=500: guarantees.theorem2(
        n, alpha=alpha, n_classes=3, d=2, delta=delta
    ),
    "guarantees.theorem3": lambda alpha=0.2, delta=0.1, n=500: guarantees.theorem3(
        n, 100, alpha=alpha, n_classes=3, d=2, delta=delta
    ),
    "guarantees.theorem4": lambda alpha=0.2, delta=0.1, n=500: guarantees.theorem4(
        n, 100, alpha=alpha, n_classes=3, d=2, delta=delta
    ),
    "guarantees.pac_guarantee": lambda delta=0.1: guarantees.pac_guarantee(
        delta, n_weights=1, batch=None
    ),
    "Ledger.entries": lambda delta=0.1: fitted().guarantee_.entries(delta),
    "Ledger.table": lambda delta=0.1: fitted().guarantee_.table(delta),
    # Conditional, weighted, online, cross, merged.
    "ScoreAverage.fit(calibration=class)": lambda outputs=P, y=Y, alpha=0.2: good(
        calibration="class", alpha=alpha
    ).fit(outputs, y),
    "ScoreAverage.fit(calibration=group)": grouped,
    "ScoreAverage.fit(calibration=weighted)": weighted,
    "OnlineAverage.run": lambda outputs=P, y=Y, alpha=0.2: cx.OnlineAverage(
        alpha=alpha, window=20
    ).run(outputs, y),
    "OnlineAverage.predict_set": lambda row=P[0]: cx.OnlineAverage(window=20).predict_set(row),
    "OnlineAverage.update": update_online,
    "OnlineRegression.run": lambda predicted=MODEL, responses=R, alpha=0.2: cx.OnlineRegression(
        ("abs", "norm", "cqr"), alpha=alpha, window=20, candidates=1
    ).run(predicted, responses),
    "OnlineRegression.predict_interval": lambda predicted=MODEL: cx.OnlineRegression(
        ("abs", "norm", "cqr")
    ).predict_interval(first_row(predicted)),
    "OnlineRegression.update": update_responses,
    "OnlineRegression.evaluate": lambda predicted=MODEL, responses=R: cx.OnlineRegression(
        ("abs", "norm", "cqr"), window=20, candidates=1
    ).evaluate(predicted, responses),
    "CrossAverage.fit": fit_folds,
    "CrossAverage.predict_set": lambda outputs=P, alpha=None: crossed().predict_set(
        [P, outputs], alpha=alpha
    ),
    "CrossAverage.predict_pvalues": lambda outputs=P: crossed().predict_pvalues([outputs, P]),
    "CrossConformalClassifier.fit": lambda y=Y, alpha=0.2: cx.CrossConformalClassifier(
        alpha=alpha, random_state=0, cv=2
    ).fit(X, y),
    "CrossConformalClassifier.predict_set": lambda alpha=0.2: cross_classifier().predict_set(
        X, alpha=alpha
    ),
    "CrossConformalClassifier.predict_pvalues": lambda strata=HALVES: (
        cross_classifier_by_group().predict_pvalues(X, strata=strata)
    ),
    "cross.cross_coverage": lambda alpha=0.2: cx.cross.cross_coverage(alpha, [50, 50]),
    "cross.cell_coverage": lambda alpha=0.2: cx.cross.cell_coverage(alpha, [50, 50]),
    "merge.merge_pvalues": lambda pvalues=(P, P): merge.merge_pvalues(pvalues),
    "merge.merge_sets": lambda masks=(P > 0.2, P > 0.3), votes=None: merge.merge_sets(
        masks, weights=votes
    ),
    "shift.label_ratios": lambda outputs=P, y=Y: shift.label_ratios(outputs, y, P),
    "shift.label_ratios(new_outputs=)": lambda outputs=P: shift.label_ratios(P, Y, outputs),
    "shift.density_ratio": lambda features=X: shift.density_ratio(features, X),
    "shift.density_ratio(X_target=)": lambda features=X: shift.density_ratio(X, features),
    "calibration.effective_rows": lambda sample_weight=WEIGHT: cx.calibration.effective_rows(
        sample_weight
    ),
    "choose": lambda alpha=0.2: cx.choose(100, 3, alpha=alpha),
    "compare(fit)": lambda outputs=P, y=Y, alpha=0.2, classes=None: cx.compare(
        outputs, y, methods=["thr"], alpha=alpha, classes=classes, kind="probs", runs=2
    ),
    "contributions": lambda outputs=P, y=Y: cx.contributions(fitted(), outputs, y),
    "NestedSets.at": lambda alpha=0.2: fitted().predict_set(P, alpha=[0.2, 0.3]).at(alpha),
    "search.bootstrap_weights": lambda tensor=S, y=Y, alpha=0.2: search.bootstrap_weights(
        tensor, y, alpha=alpha, search=search.GridSearch(2), n_draws=2, random_state=0
    ),
    # Metrics, each of them.
    **{f"metrics.{name}": of_sets(getattr(metrics, name)) for name in (
        "class_coverages", "class_table", "coverage", "coverage_interval", "covered",
        "singleton_accuracy",
    )},
    **{f"metrics.{name}": at_level(getattr(metrics, name)) for name in (
        "class_coverage_gap", "measures", "size_stratified_violation",
    )},
    "metrics.worst_slab_coverage": lambda y=Y, features=X: metrics.worst_slab_coverage(
        sets(), y, features=features, directions=3, random_state=0
    ),
    "metrics.size_at_coverage": lambda y=Y: metrics.size_at_coverage(P, y, coverage=0.9),
    # Responses.
    "RegressionAverage.fit": lambda predicted=MODEL, responses=R, **o: regression(**o).fit(
        predicted, responses
    ),
    "RegressionAverage.fit(split=exact)": lambda predicted=MODEL, responses=R, alpha=0.2: (
        regression(alpha=alpha, split="exact").fit(predicted, responses)
    ),
    "RegressionAverage.fit(test=)": lambda predicted=MODEL: regression(split="dlcp").fit(
        MODEL, R, test=predicted
    ),
    "RegressionAverage.fit(calibration=group)": of_groups,
    "RegressionAverage.fit(calibration=weighted)": of_importance,
    "RegressionAverage.predict_interval": lambda predicted=MODEL, alpha=None: (
        regressed().predict_interval(predicted, alpha=alpha)
    ),
    "RegressionAverage.predict_interval(exact)": lambda predicted=MODEL, alpha=None: (
        regressed("exact").predict_interval(predicted, alpha=alpha)
    ),
    "RegressionAverage.recalibrate": lambda predicted=MODEL, responses=R: (
        regression().fit(MODEL, R).recalibrate(predicted, responses)
    ),
    "RegressionAverage.check_drift": lambda predicted=MODEL, responses=R: (
        regressed().check_drift(predicted, responses)
    ),
    "RegressionAverage.verdict": lambda predicted=MODEL, responses=R, alpha=None: (
        regressed().verdict(predicted, responses, alpha=alpha)
    ),
    "RegressionAverage.explain": lambda predicted=MODEL, alpha=None: regressed().explain(
        predicted, alpha=alpha
    ),
    "RegressionAverage.contributions": lambda predicted=MODEL, responses=R: (
        regressed().contributions(predicted, responses)
    ),
    "RegressionAverage.report": lambda predicted=MODEL, responses=R: regressed().report(
        predicted, responses, alphas=[]
    ),
    "RegressionAverage.evaluate": lambda predicted=MODEL, responses=R, alpha=None: (
        regressed().evaluate(predicted, responses, alpha=alpha)
    ),
    "ConformalRegressor.fit": lambda y=Y, alpha=0.2, split="vfcp": cx.ConformalRegressor(
        alpha=alpha, split=split, sigma=None, random_state=0
    ).fit(X, y),
    "ConformalRegressor.predict_interval": lambda alpha=0.2: regressor().predict_interval(
        X, alpha=alpha
    ),
    "ConformalRegressor.check_drift": lambda responses=R: regressor().check_drift(X, responses),
    "ConformalRegressor.verdict": lambda responses=R, alpha=None: regressor().verdict(
        X, responses, alpha=alpha
    ),
    "ConformalRegressor.evaluate": lambda responses=R, alpha=None: regressor().evaluate(
        X, responses, alpha=alpha
    ),
    "CrossConformalRegressor.fit": lambda y=Y, alpha=0.2: cx.CrossConformalRegressor(
        alpha=alpha, sigma=None, random_state=0, cv=2
    ).fit(X, y),
    "CrossConformalRegressor.predict_interval": lambda alpha=0.2: (
        cross_regressor().predict_interval(X, alpha=alpha)
    ),
    "CrossConformalRegressor.evaluate": lambda responses=R, alpha=None: (
        cross_regressor().evaluate(X, responses, alpha=alpha)
    ),
    "Intervals.contains": lambda responses=R: intervals().contains(responses),
    "NestedIntervals.at": lambda alpha=0.2: regressed().predict_interval(
        MODEL, alpha=[0.2, 0.3]
    ).at(alpha),
    **{f"metrics.{name}": of_intervals(getattr(metrics, name)) for name in (
        "coverage_by_bins", "interval_coverage",
    )},
    **{f"metrics.{name}": of_intervals_at_level(getattr(metrics, name)) for name in (
        "bin_coverage_gap", "interval_score",
    )},
    # Files.
    "load": lambda path=None: path and cx.load(path),
    "load_predictor": lambda path=None: path and cx.load_predictor(path),
    "readers.read_contents": lambda path=None: path and readers.read_contents(path),
}  # fmt: skip


def entries_with(argument: str) -> Iterator[str]:
    """Yield the doors that take an argument of that name."""
    for name, entry in ENTRIES.items():
        listed = inspect.signature(entry).parameters
        spread = any(p.kind is p.VAR_KEYWORD for p in listed.values())
        settings = set(SETTINGS)
        if name.startswith("Regression"):
            settings -= set(OTHER_SETTINGS)
        if argument in listed or (spread and argument in settings):
            yield name


# Settings of the estimators, reached through their constructors.
SETTINGS = ("alpha", "weights", "scores", "split", "search", "normalize", "kind")
# Of responses, which have scores and scales of other names, and outputs of one kind.
OTHER_SETTINGS = ("scores", "normalize", "kind")


def public_doors() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield everything public that can be called: functions, and methods of all public classes."""
    seen = set()
    for module in ["", *sorted(m for m in cx.__all__ if inspect.ismodule(getattr(cx, m)))]:
        place = getattr(cx, module) if module else cx
        own = [k for k, v in vars(place).items() if getattr(v, "__module__", "") == place.__name__]
        for name in getattr(place, "__all__", [k for k in own if not k.startswith("_")]):
            thing = getattr(place, name)
            ours = inspect.isclass(thing) and thing.__module__.startswith("conformix")
            if not (ours or inspect.isfunction(thing)) or thing in seen:
                continue
            seen.add(thing)
            if inspect.isfunction(thing):
                yield f"{module}.{name}".lstrip("."), thing
            else:
                for method, function in inspect.getmembers(thing, inspect.isfunction):
                    if not method.startswith(("_", "get_", "set_")):
                        yield f"{name}.{method}", function
