"""Averaged conformity scores on the real line: prediction intervals for responses.

`Regressed` is what a model predicts, a `RegressionScore` turns it into a V-shaped function of the
response (`conformix.regression.scores`), and `RegressionAverage` averages such functions with the
weights that make intervals narrow. `PerBin` calibrates bins of difficulty apart.
"""

from conformix.regression.average import RegressionAverage
from conformix.regression.bins import PerBin
from conformix.regression.explanation import IntervalExplanation
from conformix.regression.regressed import Regressed
from conformix.regression.scores import (
    Abs,
    Cqr,
    CqrM,
    CqrR,
    Laplace,
    LogGap,
    LogSigma,
    Norm,
    OwnScore,
    RegressionScore,
    Vees,
)
from conformix.regression.search import WidthResult

__all__ = [
    "Abs",
    "Cqr",
    "CqrM",
    "CqrR",
    "IntervalExplanation",
    "Laplace",
    "LogGap",
    "LogSigma",
    "Norm",
    "OwnScore",
    "PerBin",
    "Regressed",
    "RegressionAverage",
    "RegressionScore",
    "Vees",
    "WidthResult",
]
