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

__version__ = "0.2.0"

if TYPE_CHECKING:
    from conformix import (
        calibration,
        conformal,
        guarantees,
        metrics,
        online,
        plots,
        regression,
        scores,
        search,
        splits,
        testing,
    )
    from conformix.calibration import merge, shift
    from conformix.conformal import conformal_rank
    from conformix.data import batches as stream
    from conformix.data import bundled as datasets
    from conformix.data import tensors
    from conformix.data import workers as cluster
    from conformix.data.inspection import SuspectOutputsWarning, inspect
    from conformix.data.topk import TopK
    from conformix.errors import (
        ConformixWarning,
        InvalidInput,
        LargeAlphaWarning,
        NotFitted,
        SmallBatchWarning,
        TrivialSetsWarning,
    )
    from conformix.estimators import cross
    from conformix.estimators.average import ScoreAverage, load
    from conformix.estimators.classifier import (
        ConformalClassifier,
        CrossConformalClassifier,
        RefitWarning,
        coverage_scorer,
        small_sets_scorer,
    )
    from conformix.estimators.cross import CrossAverage
    from conformix.experiments.compare import compare
    from conformix.fit.choice import choose
    from conformix.fit.contributions import contributions
    from conformix.fit.saved import load_predictor
    from conformix.guarantees import oracle
    from conformix.online.average import OnlineAverage
    from conformix.online.regression import OnlineRegression
    from conformix.predictions import sets
    from conformix.predictions.intervals import Intervals, NestedIntervals
    from conformix.predictions.sets import NestedSets, PredictionSets
    from conformix.regression import Regressed, RegressionAverage
    from conformix.regression.cross import CrossConformalRegressor
    from conformix.regression.regressor import ConformalRegressor
    from conformix.report.report import build_report
    from conformix.scores import blend, score_tensor
    from conformix.scores import scale as normalize

_MODULES = {
    "blend": "scores.blend",
    "calibration": "calibration",
    "cluster": "data.workers",
    "conformal": "conformal",
    "cross": "estimators.cross",
    "datasets": "data.bundled",
    "guarantees": "guarantees",
    "merge": "calibration.merge",
    "metrics": "metrics",
    "normalize": "scores.scale",
    "online": "online",
    "oracle": "guarantees.oracle",
    "plots": "plots",
    "regression": "regression",
    "scores": "scores",
    "search": "search",
    "sets": "predictions.sets",
    "shift": "calibration.shift",
    "splits": "splits",
    "stream": "data.batches",
    "tensors": "data.tensors",
    "testing": "testing",
}
_NAMES = {
    "ConformalClassifier": "estimators.classifier",
    "ConformalRegressor": "regression.regressor",
    "ConformixWarning": "errors",
    "CrossAverage": "estimators.cross",
    "CrossConformalClassifier": "estimators.classifier",
    "CrossConformalRegressor": "regression.cross",
    "Intervals": "predictions.intervals",
    "InvalidInput": "errors",
    "LargeAlphaWarning": "errors",
    "NestedIntervals": "predictions.intervals",
    "NestedSets": "predictions.sets",
    "NotFitted": "errors",
    "OnlineAverage": "online.average",
    "OnlineRegression": "online.regression",
    "PredictionSets": "predictions.sets",
    "RefitWarning": "estimators.classifier",
    "Regressed": "regression",
    "RegressionAverage": "regression",
    "ScoreAverage": "estimators.average",
    "SmallBatchWarning": "errors",
    "SuspectOutputsWarning": "data.inspection",
    "TopK": "data.topk",
    "TrivialSetsWarning": "errors",
    "build_report": "report.report",
    "choose": "fit.choice",
    "compare": "experiments.compare",
    "conformal_rank": "conformal",
    "contributions": "fit.contributions",
    "coverage_scorer": "estimators.classifier",
    "inspect": "data.inspection",
    "load": "estimators.average",
    "load_predictor": "fit.saved",
    "score_tensor": "scores",
    "small_sets_scorer": "estimators.classifier",
}

__all__ = [
    "ConformalClassifier",
    "ConformalRegressor",
    "ConformixWarning",
    "CrossAverage",
    "CrossConformalClassifier",
    "CrossConformalRegressor",
    "Intervals",
    "InvalidInput",
    "LargeAlphaWarning",
    "NestedIntervals",
    "NestedSets",
    "NotFitted",
    "OnlineAverage",
    "OnlineRegression",
    "PredictionSets",
    "RefitWarning",
    "Regressed",
    "RegressionAverage",
    "ScoreAverage",
    "SmallBatchWarning",
    "SuspectOutputsWarning",
    "TopK",
    "TrivialSetsWarning",
    "blend",
    "build_report",
    "calibration",
    "choose",
    "cluster",
    "compare",
    "conformal",
    "conformal_rank",
    "contributions",
    "coverage_scorer",
    "cross",
    "datasets",
    "guarantees",
    "inspect",
    "load",
    "load_predictor",
    "merge",
    "metrics",
    "normalize",
    "online",
    "oracle",
    "plots",
    "regression",
    "score_tensor",
    "scores",
    "search",
    "sets",
    "shift",
    "small_sets_scorer",
    "splits",
    "stream",
    "tensors",
    "testing",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{_MODULES[name]}")
    if name in _NAMES:
        value = getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    from conformix.registry import no_attribute  # noqa: PLC0415  only where a name is wrong

    raise no_attribute(f"module {__name__!r}", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
