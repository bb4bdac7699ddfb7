"""Prediction sets on a stream, with a coverage that holds for every sequence of rows."""

from conformix.estimators.online.adapt import AdaptiveWeights
from conformix.estimators.online.control import ACI, CONTROLLERS, Betting, resolve_control
from conformix.estimators.online.stream import OnlineAverage, Trace

__all__ = [
    "ACI",
    "CONTROLLERS",
    "AdaptiveWeights",
    "Betting",
    "OnlineAverage",
    "Trace",
    "resolve_control",
]
