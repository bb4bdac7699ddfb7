"""A model of responses on labelled rows, and the parts of a page that only intervals have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor, log10
from typing import Any, ClassVar

import numpy as np

from conformix import metrics
from conformix.conformal import conformal_rank
from conformix.data.row_data import RowData
from conformix.errors import InvalidInput
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.cached import cached_property
from conformix.kernels.simplex import grid_size
from conformix.predictions.intervals import Intervals
from conformix.regression.average import RegressionAverage
from conformix.regression.bands import bands, widths
from conformix.regression.explanation import explain_interval, in_host_memory
from conformix.regression.planes import Planes
from conformix.regression.predictor import LinePredictor
from conformix.regression.regressed import RegressedOutputs, check_responses
from conformix.regression.rule import clipped
from conformix.regression.scale import unscaled
from conformix.regression.scores import Abs
from conformix.regression.search import order_statistics, total_widths
from conformix.regression.verdict import LabelledResponses
from conformix.report.methods import AGAIN, UNIFORM, Sizes
from conformix.report.opening import Opening
from conformix.report.rows import AnyRows, chosen_levels
from conformix.report.sections import INTERVALS, Words
from conformix.report.weights import steps_of
from conformix.scores.names import Column

# Widths that are worked out at most while weights are compared; beyond it rows are drawn.
MOST_WIDTHS = 2**28
# Digits that a width is told in.
DIGITS = 3
# Bins of difficulty; intervals in the picture; stretches of the histogram.
N_BINS, MOST_DRAWN, STRETCHES = 5, 90, 24
# Rows that are explained, of every kind.
PER_KIND, MOST_MISSES = 2, 12
QUANTILES = {"q10": 0.1, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q90": 0.9}


@dataclass(frozen=True, eq=False)
class ResponseRows(AnyRows):
    """A fitted model on rows with responses, at a fixed list of levels."""

    predictor: LinePredictor
    outputs: RegressedOutputs
    y: FloatArray  # (n,), the responses
    data: RowData  # strata and importance of the rows, or their bins
    alphas: tuple[float, ...]
    seed: int = 0
    _made: dict[float, Intervals] = field(default_factory=dict, repr=False)

    words: ClassVar[Words] = INTERVALS
    plain: ClassVar[str] = "abs"

    @classmethod
    def of(
        cls,
        model: RegressionAverage,
        outputs: Any,
        y: Any,
        *,
        classes: Sequence[Any] | None = None,
        alphas: Sequence[float] | None = None,
        seed: int = 0,
        **row_data: Any,
    ) -> ResponseRows:
        """Return the rows of a report, checked."""
        predictor = model._check_fitted()
        if classes is not None:
            raise InvalidInput("class_names are those of labels, and responses have none.")
        checked = in_host_memory(predictor.check(outputs))
        return cls(
            predictor,
            checked,
            check_responses(y, checked.n),
            predictor.row_data(checked, **row_data),
            chosen_levels(predictor, alphas),
            seed,
        )

    @property
    def kind(self) -> str:  # type: ignore[override]
        """What the outputs are."""
        return "responses"

    @property
    def described(self) -> str:  # type: ignore[override]
        """How many rows of what."""
        return f"{self.n:,} rows with responses"

    @property
    def arrays(self) -> list[tuple[str, Any]]:  # type: ignore[override]
        """Responses and what every model predicts, by name."""
        found: list[tuple[str, Any]] = [("responses", self.y)]
        for name, model in self.outputs.by_name.items():
            found += [(f"{name} {part}", getattr(model, part)) for part in sorted(model.has)]
        return found

    @property
    def judged(self) -> LabelledResponses:
        """These rows, to be judged by the model."""
        labels = np.zeros(self.n, dtype=np.intp)
        outputs: Any = self.outputs
        predictor: Any = self.predictor
        return LabelledResponses(predictor, outputs, labels, self.data, self.y)

    def sets(self, alpha: float) -> Intervals:
        """Return the intervals of the model at one of the levels, by the library's own call."""
        if alpha not in self._made:
            self._made[alpha] = self.predictor.predict_at(self.outputs, alpha, self.data)
        return self._made[alpha]

    def sizes(self, alpha: float) -> FloatArray:
        """Return the widths (n,) at one of the levels."""
        return self.sets(alpha).width

    def hits(self, alpha: float) -> BoolArray:
        """Return whether the responses lie in their intervals, (n,)."""
        return self.sets(alpha).contains(self.y)

    @cached_property
    def digits(self) -> int:  # type: ignore[override]
        """Digits after the point of widths and ends."""
        made = self.sizes(self.alphas[self.fitted_place])
        some = made[np.isfinite(made) & (made > 0)]
        size = float(np.median(some)) if len(some) else 1.0
        return min(max(DIGITS - 1 - floor(log10(size)), 0), 12)

    @cached_property
    def compared(self) -> IntArray:  # type: ignore[override]
        """Rows on which weights are compared: all, or as many as can be waited for, drawn."""
        d = len(self.names)
        each = d * grid_size(d, steps_of(d)) * len(self.alphas)
        return self.drawn(max(4, MOST_WIDTHS // each))

    @cached_property
    def planes(self) -> Planes:
        """The scores of the rows `compared` as functions of y, on the fitted scale."""
        made = self.predictor.fitted.rule.transform(self.outputs.rows(self.compared))
        return made.on_host()  # type: ignore[no-any-return]

    @property
    def y_range(self) -> tuple[float, float]:
        """What responses cannot leave; infinite where nothing is assumed."""
        return (-np.inf, np.inf) if self.predictor.y_range is None else self.predictor.y_range

    def cuts(self, planes: Planes, weights: FloatArray, calibrate: IntArray) -> FloatArray:
        """Return the thresholds (A, M) of weights (M, d) from the responses of some rows."""
        scores = planes.rows(calibrate).scores(self.y[self.compared][calibrate])
        ranks = [conformal_rank(len(calibrate), alpha) for alpha in self.alphas]
        return order_statistics(scores, weights, ranks)

    def under(self, weights: FloatArray, planes: Planes) -> tuple[FloatArray, IntArray]:
        """Return widths (A, n) and covered rows (A,) under weights (d,), both ways round."""
        y = self.y[self.compared]
        sizes = np.zeros((len(self.alphas), len(y)))
        hits = np.zeros(len(self.alphas), dtype=np.int64)
        for calibrate, test in self.both_ways():
            part, cuts = planes.rows(test), self.cuts(planes, weights[None], calibrate)
            lower, upper = clipped(*bands(part, weights, cuts), self.predictor.y_range)
            sizes[:, test] = widths(lower, upper)
            hits += ((lower <= y[test]) & (y[test] <= upper)).sum(axis=1)
        return sizes, hits

    def crossed(self, weights: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return widths added up and covered rows, (A, M) each, over both ways round."""
        y = self.y[self.compared]
        totals = np.zeros((len(self.alphas), len(weights)))
        hits = np.zeros(totals.shape, dtype=np.int64)
        for calibrate, test in self.both_ways():
            part, cuts = self.planes.rows(test), self.cuts(self.planes, weights, calibrate)
            totals += total_widths(part, weights, cuts, self.y_range)
            hits += self.covered(weights, -cuts, -part.scores(y[test]))
        return totals, hits


def other_averages(rows: ResponseRows) -> Sizes:
    """Return widths (A, n) and covered rows (A,) of what the model is compared with, by name."""
    d, plain = len(rows.names), plain_columns(rows)
    tried = {AGAIN: rows.weights} if d > 1 else {}
    if d > 1 or plain:
        tried |= {name: np.eye(d)[j] for j, name in enumerate(rows.names)}
    if d > 1:
        tried[UNIFORM] = np.full(d, 1 / d)
    found: Sizes = {name: rows.under(weights, rows.planes) for name, weights in tried.items()}
    for column in plain:
        planes = unscaled((column,))(rows.outputs.rows(rows.compared)).on_host()
        found[str(column)] = rows.under(np.ones(1), planes)
    return found


def plain_columns(rows: ResponseRows) -> list[Column]:
    """Return the absolute residuals that the model does not name."""
    means = [name for name, model in rows.outputs.by_name.items() if "mean" in model.has]
    residual: Any = Abs()
    columns = [Column(name, residual) for name in means]
    return [column for column in columns if str(column) not in rows.names]


def told(rows: ResponseRows, value: float) -> str:
    """Return an end or a response in words."""
    text = f"{value:.{rows.digits}f}" if np.isfinite(value) else f"{'-' if value < 0 else ''}∞"
    return text.replace("-", "\u2212")


def opening_interval(rows: ResponseRows) -> Opening:
    """Return the row to begin with, and what its interval is at every level.

    The first of the middle width among those that hold their response.
    """
    alpha = rows.alphas[rows.fitted_place]
    sizes, hits = rows.sizes(alpha), rows.hits(alpha)
    middle = np.median(sizes[np.isfinite(sizes)]) if np.isfinite(sizes).any() else np.inf
    with np.errstate(invalid="ignore"):
        off = np.nan_to_num(np.abs(sizes - middle), nan=np.inf)
    row = int(np.lexsort((np.arange(rows.n), off, ~hits))[0])
    sentences = []
    for level in rows.alphas:
        lower, upper = rows.sets(level)[row]
        holds = "holds" if rows.hits(level)[row] else "misses"
        ends = f"the interval from {told(rows, lower)} to {told(rows, upper)}"
        sentences.append(
            f"For example, row {row:,} (counted from 0) has "
            f"{'an empty interval' if lower > upper else ends}, which {holds} its response, "
            f"{told(rows, float(rows.y[row]))}."
        )
    return Opening(row, tuple(sentences))


@dataclass(frozen=True, eq=False)
class ByDifficulty:
    """Coverage and width in bins of the width at the fitted level, from easy to hard."""

    low: FloatArray  # (B,), the narrowest interval of every bin at the fitted level
    high: FloatArray
    rows: IntArray  # rows per bin
    # (A, B), ``coverage``, ``low``, ``high`` (Clopper-Pearson) and ``size``, the mean width
    columns: dict[str, FloatArray]
    sentences: tuple[str, ...]  # how uneven coverage is, one sentence per level


def by_difficulty(rows: ResponseRows) -> ByDifficulty:
    """Return coverage with interval and mean width by bins of difficulty."""
    by = rows.sizes(rows.alphas[rows.fitted_place])
    by = np.where(np.isfinite(by), by, np.finfo(np.float64).max)
    found = [
        metrics.coverage_by_bins(rows.sets(alpha), rows.y, by=by, n_bins=N_BINS)
        for alpha in rows.alphas
    ]
    counts = np.array([one.rows for one in found[0]])
    columns = {
        "coverage": np.array([[one.coverage for one in bins] for bins in found]),
        "size": np.array([[one.mean_width for one in bins] for bins in found]),
    }
    ends = [
        [metrics.share_interval(round(one.coverage * one.rows), one.rows) for one in bins]
        for bins in found
    ]
    columns["low"], columns["high"] = np.moveaxis(np.array(ends), 2, 0)
    sentences = tuple(
        _unevenness(columns["coverage"][a], columns["low"][a], columns["high"][a], alpha)
        for a, alpha in enumerate(rows.alphas)
    )
    low, high = (np.array([getattr(one, end) for one in found[0]]) for end in ("low", "high"))
    return ByDifficulty(low, high, counts, columns, sentences)


def _unevenness(coverage: FloatArray, low: FloatArray, high: FloatArray, alpha: float) -> str:
    """Return in words how coverage differs between easy and hard rows."""
    if len(coverage) < 2:
        return "All intervals are as wide as each other, so that no row is told to be harder."
    shares = f"{100 * coverage[0]:.1f} % of the easiest rows and {100 * coverage[-1]:.1f} % of the "
    first = f"{shares}hardest are covered."
    asked = 1 - alpha
    apart = [b for b in range(len(coverage)) if high[b] < asked or low[b] > asked]
    if not apart:
        return f"{first} In every bin chance alone may explain the distance from {100 * asked:g} %."
    return (
        f"{first} In {len(apart)} of {len(coverage)} bins the distance from {100 * asked:g} % is "
        'more than chance: calibration="bins" gives every bin a threshold of its own.'
    )


@dataclass(frozen=True, eq=False)
class WidthTable:
    """How widths are spread: quantiles by method, and a histogram of the model's own."""

    columns: dict[str, FloatArray]  # (A, methods), `QUANTILES` of the widths
    edges: FloatArray  # (S + 1,), of the stretches
    counts: IntArray  # (A, S), rows by stretch; the last one holds all that are wider


def width_table(rows: ResponseRows, measured: Sizes) -> WidthTable:
    """Return how the widths of every method are spread."""
    columns = {
        name: np.array(
            [[_quantile(sizes[a], q) for sizes, _ in measured.values()]
             for a in range(len(rows.alphas))]
        )
        for name, q in QUANTILES.items()
    }  # fmt: skip
    every = np.concatenate([rows.sizes(alpha) for alpha in rows.alphas])
    some = every[np.isfinite(every)]
    most = float(_quantile(some, 0.99)) if len(some) else 1.0
    edges = np.linspace(0.0, most or 1.0, STRETCHES + 1)
    counts = np.array(
        [
            np.bincount(
                np.minimum(np.searchsorted(edges, rows.sizes(alpha), side="right") - 1,
                           STRETCHES - 1),
                minlength=STRETCHES,
            )
            for alpha in rows.alphas
        ]
    )  # fmt: skip
    return WidthTable(columns, edges, counts)


def _quantile(values: FloatArray, q: float) -> float:
    """Return an order statistic, which infinite widths do not spoil."""
    ordered = np.sort(values)
    return float(ordered[min(int(q * len(ordered)), len(ordered) - 1)])


@dataclass(frozen=True, eq=False)
class Picture:
    """Some rows with their intervals, from low to high ones."""

    rows: IntArray  # (R,), places in the file
    y: FloatArray  # (R,)
    columns: dict[str, FloatArray]  # (A, R), ``lower`` and ``upper``; NaN where empty


def picture(rows: ResponseRows) -> Picture:
    """Return rows that are spread evenly over where their intervals lie, not picked."""
    made = rows.sets(rows.alphas[rows.fitted_place])
    low, high = np.clip(made.lower, *_reach(rows)), np.clip(made.upper, *_reach(rows))
    order = np.argsort(low / 2 + high / 2, kind="stable")
    step = np.unique(np.linspace(0, rows.n - 1, min(rows.n, MOST_DRAWN)).round().astype(int))
    return _drawn(rows, order[step])


def _reach(rows: ResponseRows) -> tuple[float, float]:
    """Return how far responses lie, for ends that are infinite."""
    return float(rows.y.min()), float(rows.y.max())


def _drawn(rows: ResponseRows, places: IntArray) -> Picture:
    columns = {}
    for name in ("lower", "upper"):
        ends = [getattr(rows.sets(alpha), name)[places] for alpha in rows.alphas]
        empty = [rows.sets(alpha).is_empty[places] for alpha in rows.alphas]
        columns[name] = np.where(np.array(empty), np.nan, np.array(ends))
    return Picture(places, rows.y[places], columns)


@dataclass(frozen=True, eq=False)
class ExplainedRows:
    """Rows with their intervals, and what sets the ends of each at the fitted level."""

    picture: Picture
    kinds: tuple[str, ...]
    sentences: tuple[str, ...]
    outside: FloatArray  # (A, R), how far the response lies outside, 0 inside


def explained_rows(rows: ResponseRows) -> ExplainedRows:
    """Return narrow, middling and wide intervals that hold their response, and the worst misses."""
    alpha = rows.alphas[rows.fitted_place]
    made, hits, sizes = rows.sets(alpha), rows.hits(alpha), rows.sizes(alpha)
    outside = _outside(made, rows.y)
    # Misses of empty intervals are nowhere: they come last.
    missed = np.flatnonzero(~hits)
    far = np.where(np.isfinite(outside[missed]), outside[missed], -1.0)
    misses = missed[np.argsort(-far, kind="stable")][:MOST_MISSES]
    inside = np.flatnonzero(hits)
    inside = inside[np.argsort(sizes[inside], kind="stable")]
    third = max(len(inside) // 3, 1)
    listed: list[tuple[str, int]] = []
    for kind, part in (("narrow", inside[:third]), ("middling", inside[third : 2 * third]),
                       ("wide", inside[2 * third :])):  # fmt: skip
        picks = {int(part[(2 * j + 1) * len(part) // (2 * PER_KIND)])
                 for j in range(PER_KIND if len(part) else 0)}  # fmt: skip
        listed += [(kind, row) for row in sorted(picks)]
    listed += [("missed", int(row)) for row in misses]
    places = np.array([row for _, row in listed], dtype=np.intp)
    return ExplainedRows(
        _drawn(rows, places),
        tuple(kind for kind, _ in listed),
        tuple(_explained(rows, row, alpha) for _, row in listed),
        np.array([_outside(rows.sets(level), rows.y)[places] for level in rows.alphas]),
    )


def _explained(rows: ResponseRows, row: int, alpha: float) -> str:
    """Return what sets the ends of a row."""
    one = rows.outputs.rows(np.array([row]))
    needs = rows.predictor.needs
    own = {name: getattr(rows.data, "strata" if name == "strata" else "weight")[[row]]
           for name in needs}  # fmt: skip
    sentence = explain_interval(rows.predictor, one.by_name, 0, alpha=alpha, **own).sentence
    start = sentence.partition("; ")[2] or sentence.partition(": ")[2]
    return start.removesuffix(".")


def _outside(made: Intervals, y: FloatArray) -> FloatArray:
    """Return how far responses lie outside of their intervals, (n,)."""
    return np.maximum(np.maximum(made.lower - y, y - made.upper), 0.0)  # type: ignore[no-any-return]


def drift_sentence(rows: ResponseRows) -> str:
    """Return whether the rows are like the calibration rows; why not where no law is known."""
    judged = rows.judged
    if judged.no_law is not None:
        return f"No false-alarm level is known here: {judged.no_law}."
    verdict = judged.drift().verdict
    return f"{verdict[0].upper()}{verdict[1:]}."
