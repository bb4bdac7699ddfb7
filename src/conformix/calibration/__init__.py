"""How thresholds are taken from calibration scores: one, by class, group and more, weighted, vote.

Every calibration works on any weighted score and any fitted normalisation, and states what holds.
To add one, write a frozen dataclass with `name`, `needs`, `tune` and `learn(seen)`.
"""

from conformix.calibration.clusters import Clustered
from conformix.calibration.cuts import Marginal
from conformix.calibration.names import CALIBRATIONS, resolve_calibration
from conformix.calibration.rc3p import RankedPerClass
from conformix.calibration.strata import PerClass, PerGroup
from conformix.calibration.vote import Vote
from conformix.calibration.weighted import LabelShift, Weighted, effective_rows

__all__ = [
    "CALIBRATIONS",
    "Clustered",
    "LabelShift",
    "Marginal",
    "PerClass",
    "PerGroup",
    "RankedPerClass",
    "Vote",
    "Weighted",
    "effective_rows",
    "resolve_calibration",
]
