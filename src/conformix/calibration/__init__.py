"""How thresholds are taken from calibration scores: one, by class, group and more, weighted, vote.

Every calibration works on any weighted score and any fitted normalisation, and states what holds.
To add one, write a frozen dataclass with `name`, `needs`, `tune` and `learn(seen)`, and name it
below.
"""

from typing import Any

from conformix.calibration.clusters import Clustered
from conformix.calibration.cuts import Calibration, Marginal
from conformix.calibration.rc3p import RankedPerClass
from conformix.calibration.strata import PerClass, PerGroup
from conformix.calibration.vote import Vote
from conformix.calibration.weighted import LabelShift, Weighted, effective_rows
from conformix.registry import Registry

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

CALIBRATIONS: Registry[Calibration] = Registry(
    "calibration",
    {
        "marginal": Marginal(),
        "class": PerClass(),
        "cluster": Clustered(),
        "group": PerGroup(),
        "rc3p": RankedPerClass(),
        "vote": Vote(),
        "weighted": Weighted(),
    },
    elsewhere={
        "mondrian": "class",
        "classwise": "class",
        "class_conditional": "class",
        "clustered": "cluster",
    },
)


def resolve_calibration(calibration: Any) -> Calibration:
    """Return a calibration for its name, or the calibration itself.

    Examples
    --------
    >>> resolve_calibration("class")
    PerClass(fallback='all', min_rows=None, tune=False)
    """
    return CALIBRATIONS.resolve(calibration, needs="learn")
