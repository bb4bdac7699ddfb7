"""Prediction sets: what a fitted rule answers, its tables, and its files."""

from conformix.sets.prediction import NestedSets, PredictionSets
from conformix.sets.written import write_sets

__all__ = ["NestedSets", "PredictionSets", "write_sets"]
