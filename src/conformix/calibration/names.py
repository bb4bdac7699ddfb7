"""The names of the calibrations."""

from __future__ import annotations

from typing import Any

from conformix.calibration.clusters import Clustered
from conformix.calibration.ranks import RankedPerClass
from conformix.calibration.schemes import Calibration, Marginal, PerClass, PerGroup
from conformix.calibration.weighted import Weighted
from conformix.errors import InvalidInput
from conformix.registry import Registry

CALIBRATIONS: Registry[Calibration] = Registry(
    "calibration",
    {
        "marginal": Marginal(),
        "class": PerClass(),
        "cluster": Clustered(),
        "group": PerGroup(),
        "rc3p": RankedPerClass(),
        "weighted": Weighted(),
    },
)


def resolve_calibration(calibration: Any) -> Calibration:
    """Return a calibration for its name, or the calibration itself.

    Examples
    --------
    >>> resolve_calibration("class")
    PerClass(fallback='all', min_rows=None, tune=False)
    """
    if isinstance(calibration, str):
        return CALIBRATIONS[calibration]
    if isinstance(calibration, type) or not hasattr(calibration, "learn"):
        raise InvalidInput(
            f"calibration must be one of {', '.join(CALIBRATIONS)}, or a calibration object; got "
            f"{calibration!r}."
        )
    return calibration  # type: ignore[no-any-return]
