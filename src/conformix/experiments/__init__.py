"""Experiments: methods compared over random splits, as rows, statistics, tables and pictures.

A `Spec` says what to run, `run` appends one row per case to a file of JSON lines and can be
killed and resumed, `compare` and `reproduce` turn rows into verdicts, tables and figures.
"""

from conformix.experiments.compare import compare, judge
from conformix.experiments.methods import Choices, estimator_of, method_names, resolve_method
from conformix.experiments.paper import Setup
from conformix.experiments.pool import load_data
from conformix.experiments.reproduce import reproduce, resolve_experiments
from conformix.experiments.rows import RowLog, read_rows
from conformix.experiments.runner import run
from conformix.experiments.spec import Case, Spec, read_specs
from conformix.experiments.statistics import Estimate, Results, interval
from conformix.tables import Table

__all__ = [
    "Case",
    "Choices",
    "Estimate",
    "Results",
    "RowLog",
    "Setup",
    "Spec",
    "Table",
    "compare",
    "estimator_of",
    "interval",
    "judge",
    "load_data",
    "method_names",
    "read_rows",
    "read_specs",
    "reproduce",
    "resolve_experiments",
    "resolve_method",
    "run",
]
