"""The numbers of a report, all from the library's own calls; no HTML here."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from conformix import __version__
from conformix.estimators.average import ScoreAverage
from conformix.experiments.compare import Comparison
from conformix.experiments.pool import sha256_of
from conformix.guarantees.ledger import Entry
from conformix.report.examples import Examples, examples
from conformix.report.measured import ByClass, Measured, by_class, measure
from conformix.report.methods import MethodTable, compared_methods, model_methods
from conformix.report.opening import Opening, opening
from conformix.report.rows import Rows
from conformix.report.weights import WeightMap, weight_map

# More classes than this are neither read nor printed; the largest ones are listed.
MOST_CLASSES = 1000


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that the page shows.

    Parameters
    ----------
    title : str
        What the report is about.
    rows : Rows
        The model and the rows on which it was measured.
    opening : Opening
        One of the rows and its set, for readers who have never heard of sets.
    measured : Measured
        Promise and measures at every level.
    methods : MethodTable
        Methods side by side.
    weights : WeightMap or None
        Size and coverage over the weights, for two scores or more.
    classes : ByClass
        Coverage and size per class.
    examples : Examples
        Some rows with their sets, explained.
    ledger : tuple of Entry
        Every statement that holds, at the fitted level.
    settings : tuple of pairs of str
        What it takes to get the same numbers again.
    source : str
        One sentence on the rows that were measured.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"], data.labels
    >>> cp = cx.ScoreAverage("paper", kind="logits", random_state=0).fit(logits[:500], y[:500])
    >>> found = build_report(cp, logits[500:1500], y[500:1500], alphas=[0.05])
    >>> isinstance(found, Report), found.rows.alphas
    (True, (0.05, 0.1))
    """

    title: str
    rows: Rows
    opening: Opening
    measured: Measured
    methods: MethodTable
    weights: WeightMap | None
    classes: ByClass
    examples: Examples
    ledger: tuple[Entry, ...]
    settings: tuple[tuple[str, str], ...]
    source: str = ""

    def html(self) -> str:
        """Return the page: one text that needs nothing else (needs jinja2)."""
        from conformix.report.page import render  # noqa: PLC0415  jinja2 is an extra

        return render(self)

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all, and return its path."""
        from conformix.report.page import write_page  # noqa: PLC0415  jinja2 is an extra

        return write_page(self, path)


def build_report(
    model: ScoreAverage,
    outputs: Any,
    y: Any,
    *,
    class_names: Sequence[Any] | None = None,
    alphas: Sequence[float] | None = None,
    title: str = "Prediction sets",
    source: str = "",
    given: Mapping[str, str] | None = None,
    comparisons: Sequence[Comparison] = (),
    average: str = "",
    seed: int = 0,
    **row_data: Any,
) -> Report:
    """Return the report of a fitted model on labelled rows that had no part in its fit.

    Parameters
    ----------
    model : ScoreAverage
        A fitted model.
    outputs, y
        Outputs of the same models on labelled rows, and the labels.
    class_names : sequence of str, optional
        Names of the K classes.
    alphas : sequence of float, optional
        Levels to which the page can be moved; the fitted one is always among them.
    title, source : str
        Title of the page, and one sentence on the rows.
    given : mapping of str to str, optional
        Settings that only the caller knows, such as the command and the files.
    comparisons : sequence of Comparison
        One per level, rising, where methods were compared over splits.
    average : str
        Which of the compared methods is the model's.
    seed : int
        Draws the halves on which other weights are calibrated.
    **row_data
        ``strata=`` and ``sample_weight=`` of the rows, where the calibration needs them.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"], data.labels
    >>> cp = cx.ScoreAverage("paper", kind="logits", random_state=0).fit(logits[:500], y[:500])
    >>> found = build_report(cp, logits[500:1500], y[500:1500], alphas=[0.05, 0.2])
    >>> found.measured.verdicts
    ('kept', 'kept', ...)
    """
    rows = Rows.of(model, outputs, y, classes=class_names, alphas=alphas, seed=seed, **row_data)
    measured = measure(rows)
    sentence = (
        source or f"Measured on {rows.n:,} labelled rows that must have had no part in the fit."
    )
    if measured.judged[0].used is not None:
        sentence = f"{sentence} But {measured.judged[0].used}."
    return Report(
        title=title,
        rows=rows,
        opening=opening(rows),
        measured=measured,
        methods=compared_methods(comparisons, average) if comparisons else model_methods(rows),
        weights=weight_map(rows),
        classes=by_class(rows, MOST_CLASSES),
        examples=examples(rows),
        ledger=tuple(rows.predictor.fitted.ledger.entries()),
        settings=report_settings(rows, model.get_params(), given or {}),
        source=sentence,
    )


PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")
MODEL_SETTINGS = (
    "scores", "alpha", "split", "search", "normalize", "kind", "weights", "tune_alpha",
    "allow_empty", "guarantee", "delta", "calibration", "random_state",
)  # fmt: skip


def report_settings(
    rows: Rows, params: Mapping[str, Any], caller_facts: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return names and values of everything that the numbers depend on.

    `caller_facts` are what the caller knows: the command, the files, their digests.
    """
    facts = rows.predictor.fitted.ledger.facts
    values = dict(caller_facts)
    values["rows"] = f"{rows.n:,} rows, {len(rows.classes):,} classes"
    values["rows and labels, sha256"] = rows_digest(rows)
    if params.get("scores", "") is None:  # left to the library
        params = {**params, "scores": "paper" if rows.predictor.blend is None else "auto"}
    values["model"] = ", ".join(
        f"{name}={_plain(params[name])}" for name in MODEL_SETTINGS if name in params
    )
    values["normalisation in use"] = rows.predictor.fitted.normalizer
    values["fitted on"] = (
        f"{facts.n_tune:,} tuning and {facts.n_cal:,} calibration rows"
        + ("" if facts.separate else ", the same rows")
        if facts.n_tune
        else f"{facts.n_cal:,} calibration rows, weights given"
    )
    values["seed of this report"] = f"{rows.seed} (draws the halves on which weights are compared)"
    values["levels"] = ", ".join(f"{alpha:g}" for alpha in rows.alphas)
    values["conformix"] = __version__
    values["Python"] = platform.python_version()
    for name in PACKAGES:
        try:
            values[name] = version(name)
        except PackageNotFoundError:
            continue
    return tuple(values.items())


def rows_digest(rows: Rows) -> str:
    """Return the sha256 of the labels and of every model's outputs."""
    arrays: list[tuple[str, Any]] = [("labels", rows.y)]
    for model, values in rows.outputs.models.items():
        outputs: Any = values
        truncated = getattr(values, "is_truncated", False)
        arrays += [
            (model, a) for a in ((outputs.labels, outputs.values) if truncated else (outputs,))
        ]
    return sha256_of(rows.outputs.kind, arrays)


def _plain(value: Any) -> str:
    if isinstance(value, np.ndarray):
        small = value.size <= 12
        return str(value.tolist()) if small else f"array of shape {value.shape}"
    if isinstance(value, np.random.Generator):
        return "a Generator"
    return repr(value)
