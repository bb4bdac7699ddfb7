"""Small saved models of every kind, as documents that a test may edit."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conformix as cx
from conformix.calibration import Clustered, LabelShift, PerClass, PerGroup, Weighted
from conformix.search import GridSearch, LineSearch, OneStandardError

N, K = 120, 4
RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.full(K, 0.6), size=N)
Q = RNG.dirichlet(np.full(K, 0.6), size=N)
Y = (P.cumsum(axis=1) > RNG.random((N, 1))).argmax(axis=1)
FRESH = RNG.dirichlet(np.full(K, 0.6), size=20)
BOTH, FRESH_BOTH = {"a": P, "b": Q}, {"a": FRESH, "b": FRESH[::-1]}
GROUPS = np.array(["north", "south", "west"])[np.arange(N) % 3]
GROUPS[:2] = "rare"
OTHERS = np.random.default_rng(1).dirichlet(np.full(K, 0.6), size=30)
LEARN = ("thr", "likeness", "rarity")
IMPORTANCE = RNG.random(N) + 0.1

# How each is fitted, and what its fit and its predictions take besides.
RECIPES: dict[str, dict[str, Any]] = {
    "vfcp": {},
    "efcp": {"split": "efcp", "normalize": "scale"},
    "dlcp": {"split": "dlcp", "normalize": "none", "fit": {"test": P}},
    "dlcp+": {"split": "dlcp+", "fit": {"test": P}},
    "exact": {"split": "exact"},
    "exact by class": {
        "split": "exact",
        "calibration": PerClass("pooled", min_rows=18, tune=True),
    },
    "exact by group": {"split": "exact", "calibration": PerGroup("pooled"), "by": "strata"},
    "exact, weighted": {
        "split": "exact",
        "calibration": Weighted(known=True),
        "by": "sample_weight",
    },
    "exact, non-empty": {"split": "exact", "allow_empty": False},
    "auto": {"scores": "auto", "search": "auto", "several": True},
    "evidence": {"scores": "auto", "search": "auto", "evident": True},
    "evidence of two": {"scores": "auto", "search": "auto", "several": True, "evident": True},
    "evidence by exact": {"scores": "auto", "search": "auto", "split": "exact", "evident": True},
    "pac": {"guarantee": "pac", "delta": 0.2, "split": "efcp"},
    "pac apart": {"guarantee": "pac", "delta": 0.2},
    "pac batch": {"guarantee": "pac", "delta": 0.2, "split": "dlcp", "fit": {"test": P}},
    "class": {"calibration": PerClass("pooled", min_rows=18)},
    "class, marginal": {"calibration": PerClass("marginal", min_rows=18), "split": "efcp"},
    "group": {"calibration": PerGroup("pooled"), "by": "strata"},
    "group and class": {"calibration": PerGroup(by_class=True), "by": "strata"},
    "cluster": {"calibration": Clustered(2, min_rows=12)},
    "clusters given": {"calibration": Clustered(clusters=(0, 0, 1, -1)), "split": "efcp"},
    "weighted": {"calibration": Weighted(), "by": "sample_weight"},
    "label shift": {"calibration": LabelShift((1.0, 2.0, 0.5, 1.0))},
    "rc3p": {"calibration": "rc3p"},
    "two models": {"several": True, "scores": ("a.thr", "b.rank", "b.thr")},
    "fixed": {"weights": [0.5, 0.25, 0.25]},
    "recalibrated": {"again": True},
    "candidates": {"search": [[1.0, 0.0, 0.0], [1.0, -0.1, 0.1]]},
    "exact candidates": {"search": [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], "split": "exact"},
    "one standard error": {"search": OneStandardError(GridSearch(4))},
    "line": {"search": LineSearch(budget=500, starts=1), "split": "efcp"},
    "widths": {"normalize": [1.0, 2.0, 3.0], "split": "efcp"},
    "non-empty": {"allow_empty": False},
    "names": {"fit": {"classes": ["cat", "dog", "emu", "fox"]}},
    "learnt": {"split": "efcp", "normalize": "ecdf"},
    "tune_alpha": {"tune_alpha": 0.15},
    "scores that learn": {"scores": LEARN, "fit": {"test": FRESH, "unlabelled": OTHERS}},
    "learnt from all rows": {"scores": LEARN, "split": "efcp", "normalize": "scale"},
    "learnt by exact": {"scores": LEARN, "split": "exact", "fit": {"unlabelled": OTHERS}},
    "pac for a batch": {"scores": LEARN, "guarantee": "pac", "fit": {"test": FRESH}},
    "learnt, recalibrated": {"scores": LEARN, "fit": {"test": FRESH}, "again": True},
}


def more(name: str, n: int) -> dict[str, Any]:
    """Return what n rows of a model bring along."""
    by = RECIPES[name].get("by")
    rows = {"strata": GROUPS, "sample_weight": IMPORTANCE}
    return {by: rows[by][:n]} if by else {}


def outputs(name: str, fresh: bool = True) -> Any:
    """Return what a model predicts, or was fitted on."""
    if RECIPES[name].get("several"):
        return FRESH_BOTH if fresh else BOTH
    return FRESH if fresh else P


@cache
def fitted(name: str) -> cx.ScoreAverage:
    """Return a fitted model."""
    recipe = dict(RECIPES[name])
    fit = recipe.pop("fit", {})
    for key in ("several", "by", "again"):
        recipe.pop(key, None)
    evident = recipe.pop("evident", False)
    settings = {"alpha": 0.2, "search": GridSearch(4), "random_state": 0, "threads": 1} | recipe
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        if evident:  # of few labels and rows
            patch.setattr("conformix.scores.blend.MANY_CLASSES", 1)
            patch.setattr("conformix.scores.blend.EVIDENT_ROWS", 1)
            patch.setattr("conformix.scores.blend.EVIDENT_ROWS_OF_SEVERAL", 1)
        model = cx.ScoreAverage(**{"scores": "paper", **settings})
        model.fit(outputs(name, fresh=False), Y, **fit, **more(name, N))
        return model.recalibrate(Q, Y) if RECIPES[name].get("again") else model


@cache
def _text(name: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        fitted(name).save(Path(folder) / "model.json")
        return (Path(folder) / "model.json").read_text()


def document(name: str) -> dict[str, Any]:
    """Return the JSON of a saved model, to be edited."""
    return json.loads(_text(name))


def put(node: Any, place: tuple[Any, ...], value: Any) -> None:
    """Put a value at a place; a function of the old value makes the new one."""
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value(node[place[-1]]) if callable(value) else value


def answers(model: Any, name: str) -> tuple[Any, ...]:
    """Return what a model predicts, and says that it promises."""
    rows = more(name, len(FRESH))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sets = model.predict_set(outputs(name), **rows)
        pvalues = model.predict_pvalues(outputs(name), **rows)
    return np.asarray(sets).tobytes(), pvalues.tobytes(), sets.classes


def leaves(node: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of all values that are no objects or lists; of arrays the two ends."""
    if isinstance(node, dict):
        return [leaf for key in node for leaf in leaves(node[key], (*place, key))]
    if isinstance(node, list):
        ends = range(len(node)) if len(node) <= 3 else (0, len(node) // 2, len(node) - 1)
        return [leaf for i in ends for leaf in leaves(node[i], (*place, i))]
    return [place]


Edit = tuple[str, tuple[Any, ...], Any, str]
Change = Callable[[dict[str, Any]], None]
