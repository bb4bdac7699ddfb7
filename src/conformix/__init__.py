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

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from conformix import (
        conformal,
        datasets,
        guarantees,
        metrics,
        normalize,
        oracle,
        plots,
        scores,
        search,
        splits,
        testing,
    )
    from conformix.classifier import ConformalClassifier
    from conformix.conformal import conformal_rank
    from conformix.errors import (
        ConformixWarning,
        InvalidInput,
        NotFitted,
        SmallBatchWarning,
        TrivialSetsWarning,
    )
    from conformix.estimators import ScoreAverage, load
    from conformix.scores import score_tensor
    from conformix.sets import NestedSets, PredictionSets
    from conformix.topk import TopK

_MODULES = frozenset(
    {
        "conformal",
        "datasets",
        "guarantees",
        "metrics",
        "normalize",
        "oracle",
        "plots",
        "scores",
        "search",
        "splits",
        "testing",
    }
)
_NAMES = {
    "ConformalClassifier": "classifier",
    "ConformixWarning": "errors",
    "InvalidInput": "errors",
    "NestedSets": "sets",
    "NotFitted": "errors",
    "PredictionSets": "sets",
    "ScoreAverage": "estimators",
    "SmallBatchWarning": "errors",
    "TopK": "topk",
    "TrivialSetsWarning": "errors",
    "conformal_rank": "conformal",
    "load": "estimators",
    "score_tensor": "scores",
}

__all__ = [
    "ConformalClassifier",
    "ConformixWarning",
    "InvalidInput",
    "NestedSets",
    "NotFitted",
    "PredictionSets",
    "ScoreAverage",
    "SmallBatchWarning",
    "TopK",
    "TrivialSetsWarning",
    "conformal",
    "conformal_rank",
    "datasets",
    "guarantees",
    "load",
    "metrics",
    "normalize",
    "oracle",
    "plots",
    "score_tensor",
    "scores",
    "search",
    "splits",
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
