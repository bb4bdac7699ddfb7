"""conformix: smaller prediction sets, same guarantee.

A conformal classifier returns a *set* of labels that holds the truth with probability at least
``1 - alpha``. conformix averages several conformity scores, of one model or of many, with the
weights that make those sets smallest.

This module is a table of contents. Names are loaded on first use, so that importing conformix
imports numpy alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy  # noqa: F401  the one import that everything below shares

__version__ = "0.1.0"

if TYPE_CHECKING:
    from conformix import (
        blend,
        calibration,
        cluster,
        conformal,
        cross,
        datasets,
        guarantees,
        merge,
        metrics,
        normalize,
        online,
        oracle,
        plots,
        scores,
        search,
        shift,
        splits,
        stream,
        tensors,
        testing,
    )
    from conformix.classifier import ConformalClassifier, small_sets_scorer
    from conformix.conformal import conformal_rank
    from conformix.cross.classifier import CrossConformalClassifier
    from conformix.cross.folds import CrossAverage
    from conformix.errors import (
        ConformixWarning,
        InvalidInput,
        NotFitted,
        SmallBatchWarning,
        TrivialSetsWarning,
    )
    from conformix.estimators import ScoreAverage, load
    from conformix.influence import contributions
    from conformix.online import OnlineAverage
    from conformix.scores import score_tensor
    from conformix.sets import NestedSets, PredictionSets
    from conformix.storage import load_predictor
    from conformix.topk import TopK

_MODULES = frozenset(
    {
        "blend",
        "calibration",
        "cluster",
        "conformal",
        "cross",
        "datasets",
        "guarantees",
        "merge",
        "metrics",
        "normalize",
        "online",
        "oracle",
        "plots",
        "scores",
        "search",
        "shift",
        "splits",
        "stream",
        "tensors",
        "testing",
    }
)
_NAMES = {
    "ConformalClassifier": "classifier",
    "ConformixWarning": "errors",
    "CrossAverage": "cross.folds",
    "CrossConformalClassifier": "cross.classifier",
    "InvalidInput": "errors",
    "NestedSets": "sets",
    "NotFitted": "errors",
    "OnlineAverage": "online",
    "PredictionSets": "sets",
    "ScoreAverage": "estimators",
    "SmallBatchWarning": "errors",
    "TopK": "topk",
    "TrivialSetsWarning": "errors",
    "conformal_rank": "conformal",
    "contributions": "influence",
    "load": "estimators",
    "load_predictor": "storage",
    "score_tensor": "scores",
    "small_sets_scorer": "classifier",
}

__all__ = [
    "ConformalClassifier",
    "ConformixWarning",
    "CrossAverage",
    "CrossConformalClassifier",
    "InvalidInput",
    "NestedSets",
    "NotFitted",
    "OnlineAverage",
    "PredictionSets",
    "ScoreAverage",
    "SmallBatchWarning",
    "TopK",
    "TrivialSetsWarning",
    "blend",
    "calibration",
    "cluster",
    "conformal",
    "conformal_rank",
    "contributions",
    "cross",
    "datasets",
    "guarantees",
    "load",
    "load_predictor",
    "merge",
    "metrics",
    "normalize",
    "online",
    "oracle",
    "plots",
    "score_tensor",
    "scores",
    "search",
    "shift",
    "small_sets_scorer",
    "splits",
    "stream",
    "tensors",
    "testing",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        value = getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
