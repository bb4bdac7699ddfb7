"""The numbers of a report, all from the library's own calls; no HTML here."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from conformix import __version__
from conformix.errors import InvalidInput
from conformix.estimators.average import ScoreAverage
from conformix.experiments.compare import Comparison
from conformix.experiments.pool import sha256_of
from conformix.guarantees.ledger import Entry
from conformix.regression.average import RegressionAverage
from conformix.report.examples import Examples, examples
from conformix.report.measured import ByClass, Measured, by_class, measure
from conformix.report.methods import (
    MethodTable,
    Sizes,
    compared_methods,
    measured_methods,
    model_methods,
    other_methods,
)
from conformix.report.opening import Opening, opening
from conformix.report.responses import (
    ByDifficulty,
    ExplainedRows,
    Picture,
    ResponseRows,
    WidthTable,
    by_difficulty,
    drift_sentence,
    explained_rows,
    opening_interval,
    other_averages,
    picture,
    width_table,
)
from conformix.report.rows import AnyRows, Rows
from conformix.report.sections import (
    INTERVAL_SCRIPTS,
    OF_INTERVALS,
    OF_SETS,
    SET_SCRIPTS,
    WEIGHTS,
    Section,
)
from conformix.report.weights import WeightMap, weight_map

# More classes than this are neither read nor printed; the largest ones are listed.
MOST_CLASSES = 1000


@dataclass(frozen=True, eq=False, kw_only=True)
class AnyReport:
    """What every page shows, whatever its model is of.

    Parameters
    ----------
    title : str
        What the report is about.
    rows : Rows or ResponseRows
        The model and the rows on which it was measured.
    opening : Opening
        One of the rows and its set or interval, for readers who have never heard of either.
    measured : Measured
        Promise and measures at every level.
    methods : MethodTable
        Methods side by side.
    weights : WeightMap or None
        Size and coverage over the weights, for two scores or more.
    ledger : tuple of Entry
        Every statement that holds, at the fitted level.
    settings : tuple of pairs of str
        What it takes to get the same numbers again.
    source : str
        One sentence on the rows that were measured.
    """

    title: str
    rows: Any
    opening: Opening
    measured: Measured
    methods: MethodTable
    weights: WeightMap | None
    ledger: tuple[Entry, ...]
    settings: tuple[tuple[str, str], ...]
    source: str = ""

    listed: ClassVar[tuple[Section, ...]]  # the sections of such a page
    scripts: ClassVar[tuple[str, ...]]
    opens_with: ClassVar[str]  # what the opening says, by its name among the assets

    @property
    def sections(self) -> tuple[Section, ...]:
        """The sections of this page, in order."""
        return tuple(one for one in self.listed if one != WEIGHTS or self.weights is not None)

    @property
    def own_columns(self) -> dict[str, dict[str, Any]]:
        """Columns that move with the level, by section; those of every page are not among them."""
        raise NotImplementedError

    @property
    def own_texts(self) -> dict[str, list[str]]:
        """Texts that move with the level, which only such pages have."""
        return {}

    def html(self) -> str:
        """Return the page: one text that needs nothing else (needs jinja2)."""
        from conformix.report.page import render  # noqa: PLC0415  jinja2 is an extra

        return render(self)

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all, and return its path."""
        from conformix.report.page import write_page  # noqa: PLC0415  jinja2 is an extra

        return write_page(self, path)


@dataclass(frozen=True, eq=False, kw_only=True)
class Report(AnyReport):
    """Everything that the page of a model of labels shows.

    Parameters
    ----------
    classes : ByClass
        Coverage and size per class.
    examples : Examples
        Some rows with their sets, explained.
    title, rows, opening, measured, methods, weights, ledger, settings, source
        As of every page: what it is about, promise and measures, other methods and weights, every
        statement that holds, and what it takes to get the same numbers again.

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

    classes: ByClass
    examples: Examples

    listed: ClassVar[tuple[Section, ...]] = OF_SETS
    scripts: ClassVar[tuple[str, ...]] = SET_SCRIPTS
    opens_with: ClassVar[str] = "sets"

    @property
    def own_columns(self) -> dict[str, dict[str, Any]]:
        """Coverage and size per class."""
        return {"classes": self.classes.columns}


@dataclass(frozen=True, eq=False, kw_only=True)
class IntervalReport(AnyReport):
    """Everything that the page of a model of responses shows.

    Parameters
    ----------
    picture : Picture
        Some intervals and their responses.
    widths : WidthTable
        How widths are spread, of every method.
    bins : ByDifficulty
        Coverage of easy and of hard rows.
    explained : ExplainedRows
        Some rows and the largest misses, with what sets their ends.
    drift : str
        Whether the rows are like the calibration rows.
    title, rows, opening, measured, methods, weights, ledger, settings, source
        As of every page: what it is about, promise and measures, other methods and weights, every
        statement that holds, and what it takes to get the same numbers again.

    Examples
    --------
    >>> import numpy as np
    >>> import conformix as cx
    >>> rng = np.random.default_rng(0)
    >>> mean, sigma = rng.normal(size=600), rng.uniform(0.5, 2, size=600)
    >>> y = mean + sigma * rng.normal(size=600)
    >>> model = cx.Regressed(mean=mean, sigma=sigma)
    >>> cp = cx.RegressionAverage(alpha=0.1, random_state=0).fit(model[:300], y[:300])
    >>> found = build_report(cp, model[300:], y[300:], alphas=[0.2])
    >>> isinstance(found, IntervalReport), found.methods.names[:3]
    (True, ('this model', 'its scores, recalibrated', 'abs'))
    """

    picture: Picture
    widths: WidthTable
    bins: ByDifficulty
    explained: ExplainedRows
    drift: str

    listed: ClassVar[tuple[Section, ...]] = OF_INTERVALS
    scripts: ClassVar[tuple[str, ...]] = INTERVAL_SCRIPTS
    opens_with: ClassVar[str] = "intervals"

    @property
    def own_columns(self) -> dict[str, dict[str, Any]]:
        """Ends in the picture, widths, bins of difficulty and rows that are explained."""
        outside = {"outside": self.explained.outside}
        return {
            "picture": self.picture.columns,
            "widths": self.widths.columns,
            "histogram": {"rows": self.widths.counts.astype(float)},
            "bins": self.bins.columns,
            "explained": self.explained.picture.columns | outside,
        }

    @property
    def own_texts(self) -> dict[str, list[str]]:
        """How uneven coverage is."""
        return {"uneven": list(self.bins.sentences)}


def build_report(
    model: ScoreAverage | RegressionAverage,
    outputs: Any,
    y: Any,
    *,
    class_names: Sequence[Any] | None = None,
    alphas: Sequence[float] | None = None,
    title: str = "",
    source: str = "",
    given: Mapping[str, str] | None = None,
    comparisons: Sequence[Comparison] = (),
    average: str = "",
    seed: int = 0,
    **row_data: Any,
) -> Any:
    """Return the report of a fitted model on labelled rows that had no part in its fit.

    Parameters
    ----------
    model : ScoreAverage or RegressionAverage
        A fitted model.
    outputs, y
        Outputs of the same models on labelled rows, and the labels or responses.
    class_names : sequence of str, optional
        Names of the K classes, of a model of labels.
    alphas : sequence of float, optional
        Levels to which the page can be moved; the fitted one is always among them.
    title, source : str
        Title of the page, and one sentence on the rows; by default what there is to be said.
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

    Returns
    -------
    Report or IntervalReport
        By what the model is of; its ``save(path)`` writes the page.

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
    kind = _kind_of(model)
    rows = kind.rows.of(
        model, outputs, y, classes=class_names, alphas=alphas, seed=seed, **row_data
    )
    measured = measure(rows)
    sentence = (
        source or f"Measured on {rows.n:,} labelled rows that must have had no part in the fit."
    )
    if measured.judged[0].used is not None:
        sentence = f"{sentence} But {measured.judged[0].used}."
    sizes = measured_methods(rows, kind.others)
    shared = {
        "title": title or rows.words.title,
        "rows": rows,
        "measured": measured,
        "methods": compared_methods(comparisons, average)
        if comparisons
        else model_methods(rows, sizes, relative=kind.relative),
        "weights": weight_map(rows),
        "ledger": tuple(rows.predictor.fitted.ledger.entries()),
        "settings": report_settings(rows, model.get_params(), given or {}),
        "source": sentence,
    }
    return kind.page(rows, sizes, shared)


def _page_of_sets(rows: Rows, sizes: Sizes, shared: dict[str, Any]) -> Report:
    return Report(
        **shared, opening=opening(rows), classes=by_class(rows, MOST_CLASSES),
        examples=examples(rows),
    )  # fmt: skip


def _page_of_intervals(rows: ResponseRows, sizes: Sizes, shared: dict[str, Any]) -> IntervalReport:
    return IntervalReport(
        **shared, opening=opening_interval(rows), picture=picture(rows),
        widths=width_table(rows, sizes), bins=by_difficulty(rows), explained=explained_rows(rows),
        drift=drift_sentence(rows),
    )  # fmt: skip


class Kind(NamedTuple):
    """What pages of one kind of model are made with."""

    model: type
    rows: Any
    others: Any  # what the model is compared with
    relative: bool  # whether gains are shares: widths have units, and numbers of labels none
    page: Any


KINDS = (
    Kind(ScoreAverage, Rows, other_methods, False, _page_of_sets),
    Kind(RegressionAverage, ResponseRows, other_averages, True, _page_of_intervals),
)


def _kind_of(model: Any) -> Kind:
    for kind in KINDS:
        if isinstance(model, kind.model):
            return kind
    say = f"a report is about a fitted ScoreAverage or RegressionAverage; got {model!r}."
    raise InvalidInput(getattr(model, "no_report", say))


PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")
MODEL_SETTINGS = (
    "scores", "alpha", "split", "search", "normalize", "kind", "weights", "tune_alpha",
    "allow_empty", "guarantee", "delta", "calibration", "y_range", "random_state",
)  # fmt: skip


def report_settings(
    rows: AnyRows, params: Mapping[str, Any], caller_facts: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return names and values of everything that the numbers depend on.

    `caller_facts` are what the caller knows: the command, the files, their digests.
    """
    facts = rows.predictor.fitted.ledger.facts
    values = dict(caller_facts)
    values["rows"] = rows.described
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


def rows_digest(rows: AnyRows) -> str:
    """Return the sha256 of the labels or responses, and of every model's outputs."""
    return sha256_of(rows.kind, rows.arrays)


def _plain(value: Any) -> str:
    if isinstance(value, np.ndarray):
        small = value.size <= 12
        return str(value.tolist()) if small else f"array of shape {value.shape}"
    if isinstance(value, np.random.Generator):
        return "a Generator"
    return repr(value)
