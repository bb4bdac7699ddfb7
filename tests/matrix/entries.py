"""Every public door through which a user's numbers come in, with good arguments by default.

An entry is a function of named arguments; a bad case replaces one of them. `PARAMETERS` says which
kinds of argument the doors take, and `covered` that no public function was forgotten.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

import conformix as cx
from conformix import metrics, search

RNG = np.random.default_rng(0)
N, K = 120, 4
P = RNG.dirichlet(np.full(K, 0.6), size=N)
Y = (P.cumsum(axis=1) > RNG.random((N, 1))).argmax(axis=1)
S = cx.score_tensor(P, ("thr", "aps", "rank"))
X = RNG.standard_normal((N, 3)) + Y[:, None]


def good(**options: Any) -> cx.ScoreAverage:
    settings = {"alpha": 0.2, "random_state": 0, "search": search.GridSearch(4), "threads": 1}
    return cx.ScoreAverage(**{**settings, **options})


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


Entry = Callable[..., object]
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
    "guarantees.n_needed": lambda alpha=0.2: cx.guarantees.n_needed(alpha, delta=0.1),
    "guarantees.pac_rank": lambda alpha=0.2: cx.guarantees.pac_rank(50, alpha, 0.1),
}


def entries_with(argument: str) -> Iterator[str]:
    """Yield the doors that take an argument of that name."""
    for name, entry in ENTRIES.items():
        listed = inspect.signature(entry).parameters
        spread = any(p.kind is p.VAR_KEYWORD for p in listed.values())
        if argument in listed or (spread and argument in SETTINGS):
            yield name


# Settings of the estimators, reached through their constructors.
SETTINGS = ("alpha", "weights", "scores", "split", "search", "normalize", "kind")


def public_functions() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield everything public that can be called, methods of the main classes included."""
    for module in ["", *sorted(m for m in cx.__all__ if inspect.ismodule(getattr(cx, m)))]:
        place = importlib.import_module(f"conformix.{module}".rstrip("."))
        for name in getattr(place, "__all__", ()):
            thing = getattr(place, name)
            told = f"{module}.{name}".lstrip(".")
            if inspect.isfunction(thing):
                yield told, thing
            elif name in {"ScoreAverage", "ConformalClassifier"}:
                for method, function in inspect.getmembers(thing, inspect.isfunction):
                    if not method.startswith(("_", "get_", "set_")):
                        yield f"{told}.{method}", function
