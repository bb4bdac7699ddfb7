"""Streams: sets or intervals for one row at a time, whose errors come out right on every stream."""

from conformix.online.alarm import Alarm
from conformix.online.average import OnlineAverage
from conformix.online.controllers import (
    ACI,
    CONTROLLERS,
    Betting,
    DtACI,
    Ladder,
    resolve_control,
)
from conformix.online.monitor import Curves, Monitor
from conformix.online.regression import OnlineRegression
from conformix.online.stream import Trace
from conformix.online.weights import AdaptiveWeights

__all__ = [
    "ACI",
    "CONTROLLERS",
    "AdaptiveWeights",
    "Alarm",
    "Betting",
    "Curves",
    "DtACI",
    "Ladder",
    "Monitor",
    "OnlineAverage",
    "OnlineRegression",
    "Trace",
    "resolve_control",
]
