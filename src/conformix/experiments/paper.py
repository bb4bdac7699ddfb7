"""The experiments of the paper (Luo & Zhou, 2025), each a list of specs and a way to show rows.

Score weighting: table 1, figures 2 and 3, and two splitting ratios (the supplement). Model
weighting, one score of several models: figures 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.experiments.pool import load_data
from conformix.experiments.spec import Spec
from conformix.experiments.statistics import Estimate, Results, in_words, percent
from conformix.plots import new_figure, plot_boxes, plot_size_coverage
from conformix.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SPLITS = ("average:vfcp", "average:efcp", "average:dlcp", "average:dlcp+")
SINGLES = ("aps", "thr", "rank", "raps", "saps")
TUNED = ("uniform", "best-single", "tuned-thr", "tuned-raps", "tuned-saps")
ALPHAS = (0.01, 0.02, 0.03, 0.04, 0.05)

LABELS = {
    "average:vfcp": "VFCP",
    "average:efcp": "EFCP",
    "average:dlcp": "DLCP",
    "average:dlcp+": "DLCP+",
    "aps": "APS",
    "thr": "THR",
    "rank": "RANK",
    "raps": "RAPS",
    "saps": "SAPS",
    "uniform": "uniform average",
    "best-single": "best single score",
    "tuned-thr": "THR, tuned",
    "tuned-raps": "RAPS, tuned",
    "tuned-saps": "SAPS, tuned",
    "majority-vote": "majority vote",
    "probability-ensemble": "probability ensemble",
    "logit-ensemble": "logit ensemble",
    "oracle": "oracle (reads test labels)",
}
# The model of the paper's score experiments, where a data set has several.
PRIMARY = {"cifar100": "wideresnet_16_4", "cifar10": "vgg16"}


@dataclass(frozen=True)
class Setup:
    """Settings of a reproduction.

    Parameters
    ----------
    data : str
        Name of a bundled data set, or an npz file.
    model : str, optional
        The model whose scores are averaged; by default the data set's primary one.
    runs : int
        Number of random splits.
    normalize : str, optional
        On which scale scores are averaged. By default ``scale`` for the scores of one model, as
        in the paper's text, and ``ecdf`` for one score of several models, whose probabilities
        are not on one scale.
    resolution, rows, kind, seed
        As in `conformix.experiments.Spec`.

    Examples
    --------
    >>> Setup("cifar100").models
    ('wideresnet_16_4',)
    """

    data: str
    model: str | None = None
    runs: int = 100
    normalize: str | None = None
    resolution: int | None = None
    rows: int | None = None
    kind: str = "auto"
    seed: int = 0

    @property
    def models(self) -> tuple[str, ...]:
        """The one model of the score experiments."""
        if self.model is not None:
            return (self.model,)
        return (PRIMARY.get(self.data) or next(iter(self.all_models)),)

    @property
    def all_models(self) -> tuple[str, ...]:
        """All models of the data set."""
        return tuple(load_data(self.data, self.kind).outputs)

    @property
    def title(self) -> str:
        """What the rows are, for titles."""
        return f"{self.data}, {self.models[0]}"

    def spec(self, methods: tuple[str, ...], alphas: tuple[float, ...], **changes: Any) -> Spec:
        """Return an experiment under these settings."""
        settings: dict[str, Any] = {
            "models": self.models,
            "runs": self.runs,
            "normalize": self.normalize or "scale",
            "resolution": self.resolution,
            "rows": self.rows,
            "kind": self.kind,
            "seed": self.seed,
        }
        return Spec(self.data, methods=methods, alphas=alphas, **(settings | changes))


@dataclass(frozen=True)
class Product:
    """What an experiment gives: a table, pictures, and sentences computed from its rows."""

    table: Table | None = None
    figures: dict[str, Figure] = field(default_factory=dict)
    findings: tuple[str, ...] = ()


def label(method: str) -> str:
    """Return the name of a method in tables and figures."""
    return LABELS.get(method, method)


# Numbers of the paper, to stand beside ours: "Averaging of conformity scores for classification"
# (ICML 2025), table 1, CIFAR-100, mean (standard deviation) over 100 splits. The network behind the
# table is not named; it is more over-confident than ours, which is why absolute sizes differ.
# alpha -> method -> (coverage, its sd, size, its sd)
TABLE1: dict[float, dict[str, tuple[float, float, float, float]]] = {
    0.01: {
        "average:vfcp": (0.990, 0.003, 13.782, 1.114),
        "average:efcp": (0.989, 0.003, 13.306, 0.464),
        "average:dlcp": (0.989, 0.003, 13.298, 0.461),
        "average:dlcp+": (0.989, 0.003, 13.299, 0.459),
        "aps": (0.990, 0.003, 40.217, 1.786),
        "thr": (0.989, 0.003, 26.949, 2.198),
        "rank": (0.990, 0.003, 27.161, 2.421),
        "raps": (0.990, 0.003, 26.403, 2.505),
        "saps": (0.990, 0.003, 25.096, 2.298),
    },
    0.05: {
        "average:vfcp": (0.950, 0.005, 3.890, 0.266),
        "average:efcp": (0.949, 0.005, 3.754, 0.096),
        "average:dlcp": (0.949, 0.005, 3.752, 0.097),
        "average:dlcp+": (0.949, 0.005, 3.753, 0.097),
        "aps": (0.949, 0.006, 19.545, 1.022),
        "thr": (0.949, 0.006, 4.519, 0.381),
        "rank": (0.950, 0.006, 6.298, 0.395),
        "raps": (0.950, 0.005, 5.581, 0.263),
        "saps": (0.950, 0.006, 5.036, 0.302),
    },
}
# The data set of the table.
TABLE1_DATA = "cifar100"


TABLE_ALPHAS = (0.01, 0.05)
SHOWN = ("average:vfcp", *SINGLES)


def table1_specs(setup: Setup) -> list[Spec]:
    """Return the nine methods of table 1, tuned baselines and the oracle beside them."""
    methods = (*SPLITS, *SINGLES, *TUNED, "majority-vote", "oracle")
    return [setup.spec(methods, TABLE_ALPHAS)]


def table1(setup: Setup, results: list[Results]) -> Product:
    """Return table 1 of the paper beside ours, and what follows from it."""
    (measured,) = results
    paper = setup.data == TABLE1_DATA
    header = ["method"]
    for alpha in TABLE_ALPHAS:
        header += [f"coverage {alpha:g}", f"size {alpha:g}", f"matched {alpha:g}"]
        header += [f"paper {alpha:g}"] if paper else []
    blocks = (SPLITS, SINGLES, (*TUNED, "majority-vote"), ("oracle",))
    rows: list[tuple[str, ...]] = []
    for block in blocks:
        rows += [()] if rows else []
        rows += [_table1_row(measured, method, paper=paper) for method in block]
    notes = (
        f"Mean (standard deviation) over {setup.runs} random splits, 80:20, of the same rows.",
        "Untuned methods calibrate on all calibration rows; tuned ones and VFCP tune on one half.",
        '"matched" is the size when the coverage on the test rows is just 1 - alpha.',
    )
    table = Table(
        f"Coverage and set size, {setup.title}", (*header, "guarantee"), tuple(rows), notes
    )
    lines = [
        line for alpha in TABLE_ALPHAS for line in _table1_findings(measured, alpha, paper=paper)
    ]
    return Product(table, findings=tuple(lines))


def _table1_row(results: Results, method: str, *, paper: bool) -> tuple[str, ...]:
    cells = [label(method)]
    for alpha in TABLE_ALPHAS:
        coverage = results.estimate(method, alpha=alpha, field="coverage")
        size = results.estimate(method, alpha=alpha)
        matched = results.values(method, alpha=alpha, field="size_at_matched_coverage")
        cells += [f"{coverage.mean:.3f} ({coverage.sd:.3f})", f"{size.mean:.2f} ({size.sd:.2f})"]
        cells.append("-" if np.isnan(matched).any() else f"{matched.mean():.2f}")
        if paper:
            known = TABLE1[alpha].get(method)
            cells.append("-" if known is None else f"{known[2]:.2f} ({known[3]:.2f})")
    return (*cells, results.guarantee(method, TABLE_ALPHAS[0]))


def _table1_findings(results: Results, alpha: float, *, paper: bool) -> list[str]:
    ours = SPLITS[0]
    single, tuned = (results.smallest(some, alpha=alpha) for some in (SINGLES, TUNED))
    saved, lost = (in_words(results.saving(ours, other, alpha=alpha)) for other in (single, tuned))
    gap = results.saving("oracle", ours, alpha=alpha, field="size_at_matched_coverage")
    hindsight = in_words(gap)
    largest = max(SPLITS, key=lambda split: results.estimate(split, alpha=alpha).mean)
    lines = [
        f"sets of VFCP are {saved} than those of the best fixed score ({label(single)})",
        f"sets of VFCP are {lost} than those of the best other baseline ({label(tuned)})",
        _pairs_below(results, alpha),
        f"the largest of the four splits is {label(largest)}; {_coverages(results, alpha)}",
        f"with the best weights in hindsight sets are {hindsight} than VFCP's at matched coverage",
    ]
    if paper:
        theirs = {method: numbers[2] for method, numbers in TABLE1[alpha].items()}
        rival = min(SINGLES, key=theirs.__getitem__)
        share = 100 * (1 - theirs[ours] / theirs[rival])
        lines[0] += f"; in the paper {share:.0f} % smaller than those of {label(rival)}"
    return [f"alpha = {alpha:g}: {line}." for line in lines]


def _pairs_below(results: Results, alpha: float) -> str:
    """Say in how many pairs of an averaged split and a fixed score the average is smaller."""
    pairs = [(split, single) for split in SPLITS for single in SINGLES]
    savings = [results.saving(*pair, alpha=alpha, comparisons=len(pairs)) for pair in pairs]
    below = sum(saving.low > 0 for saving in savings)
    return (
        f"of the {len(pairs)} pairs of an averaged split and a fixed score the average is smaller "
        f"in {below}, by intervals that hold together"
    )


def _coverages(results: Results, alpha: float) -> str:
    means = [results.estimate(split, alpha=alpha, field="coverage").mean for split in SPLITS]
    return f"their mean coverages are {', '.join(f'{mean:.4f}' for mean in means)}"


def fig2_specs(setup: Setup) -> list[Spec]:
    """Return the methods of figure 2 at alpha = .01."""
    return [setup.spec(SHOWN, (0.01,))]


def fig2(setup: Setup, results: list[Results]) -> Product:
    """Return the box plots of coverage and size."""
    (measured,) = results
    figure = new_figure(6.8, 2.7)
    for place, (measure, target) in enumerate((("coverage", 0.99), ("size", None)), start=1):
        values = {label(m): measured.values(m, alpha=0.01, field=measure) for m in SHOWN}
        ax = figure.add_subplot(1, 2, place)
        name = measure if measure == "coverage" else "mean set size"
        plot_boxes(values, ylabel=name, target=target, ax=ax)
    figure.suptitle(f"{setup.title}, alpha = 0.01, {setup.runs} splits", fontsize=9)
    return Product(figures={"fig2": figure})


def fig3_specs(setup: Setup) -> list[Spec]:
    """Return the methods of figure 3 at five levels, two tuned scores beside them."""
    return [setup.spec((*SHOWN, "tuned-thr", "tuned-raps"), ALPHAS)]


def fig3(setup: Setup, results: list[Results]) -> Product:
    """Return size against coverage for alpha = .01 to .05."""
    (measured,) = results
    tuned = ("tuned-thr", "tuned-raps")
    figure = new_figure(4.6, 3.4)
    curves = {label(m): curve(measured, m) for m in (*SHOWN, *tuned)}
    ax = figure.add_subplot()
    plot_size_coverage(curves, title=setup.title, dashed=[label(m) for m in tuned], ax=ax)
    header = ("method", *(f"alpha = {alpha:g}" for alpha in ALPHAS))
    rows = tuple(
        (label(m), *(f"{measured.estimate(m, alpha=a).mean:.2f}" for a in ALPHAS))
        for m in (*SHOWN, *tuned)
    )
    notes = (f"Mean set size over {setup.runs} random splits, 80:20.",)
    return Product(
        Table(f"Set size by level, {setup.title}", header, rows, notes), {"fig3": figure}
    )


def curve(results: Results, method: str) -> tuple[list[float], list[float]]:
    """Return mean coverage and mean size of a method at all levels."""
    return (
        [results.estimate(method, alpha=a, field="coverage").mean for a in results.alphas],
        [results.estimate(method, alpha=a).mean for a in results.alphas],
    )


RATIOS = ((0.8, "80:20"), (0.99, "99:1"))
RATIO_ALPHA = 0.05


def ratios_specs(setup: Setup) -> list[Spec]:
    """Return the four splits at two ratios of calibration to test rows."""
    return [setup.spec(SPLITS, (RATIO_ALPHA,), share=share) for share, _ in RATIOS]


def ratios(setup: Setup, results: list[Results]) -> Product:
    """Return box plots and a table of the four splits at both ratios."""
    figure = new_figure(6.8, 4.8)
    rows: list[tuple[str, ...]] = []
    findings = []
    for place, ((_, ratio), measured) in enumerate(zip(RATIOS, results, strict=True)):
        for side, (measure, target) in enumerate((("coverage", 1 - RATIO_ALPHA), ("size", None))):
            values = {
                label(m): measured.values(m, alpha=RATIO_ALPHA, field=measure) for m in SPLITS
            }
            ax = figure.add_subplot(2, 2, 2 * place + side + 1)
            name = measure if measure == "coverage" else "mean set size"
            plot_boxes(values, ylabel=name, title=ratio, target=target, ours=4, ax=ax)
        rows += [()] if rows else []
        rows += [_ratios_row(measured, method, ratio) for method in SPLITS]
        least = measured.smallest(SPLITS, alpha=RATIO_ALPHA)
        saving = measured.saving(least, SPLITS[0], alpha=RATIO_ALPHA, comparisons=2)
        findings.append(
            f"{ratio}: the smallest sets are those of {label(least)}, {in_words(saving)} "
            "than those of VFCP."
        )
    figure.suptitle(f"{setup.title}, alpha = {RATIO_ALPHA:g}, {setup.runs} splits", fontsize=9)
    table = Table(
        f"Splits at two ratios of calibration to test rows, {setup.title}, alpha = {RATIO_ALPHA:g}",
        ("split", "ratio", "coverage", "size", "guarantee"),
        tuple(rows),
        (f"Mean (standard deviation) over {setup.runs} random splits of the same rows.",),
    )
    return Product(table, {"ratios": figure}, tuple(findings))


def _ratios_row(results: Results, method: str, ratio: str) -> tuple[str, ...]:
    coverage = results.estimate(method, alpha=RATIO_ALPHA, field="coverage")
    size = results.estimate(method, alpha=RATIO_ALPHA)
    return (
        label(method),
        ratio,
        f"{coverage.mean:.3f} ({coverage.sd:.3f})",
        f"{size.mean:.2f} ({size.sd:.2f})",
        results.guarantee(method, RATIO_ALPHA),
    )


MODEL_SCORES = ("thr", "aps", "raps", "saps")
MODEL_CASES = len(MODEL_SCORES) * len(ALPHAS)
OURS = "average:vfcp"
RIVALS = (
    "best-single", "uniform", "probability-ensemble", "logit-ensemble", "majority-vote",
)  # fmt: skip


def models_specs(setup: Setup) -> list[Spec]:
    """Return one experiment per score: the weighted models, every model, and the ensembles."""
    models = setup.all_models
    if len(models) < 2:
        raise InvalidInput(
            f"weighting models needs at least two; {setup.data} holds {', '.join(models)}."
        )
    return [
        setup.spec(
            (OURS, *(f"{model}.{score}" for model in models), *RIVALS),
            ALPHAS,
            models=models,
            scores=(score,),
            normalize=scale_of(setup),
        )
        for score in MODEL_SCORES
    ]


def scale_of(setup: Setup) -> str:
    """Return on which scale the models are averaged."""
    return setup.normalize or "ecdf"


def models(setup: Setup, results: list[Results]) -> Product:
    """Return size against coverage for every score, the savings, and what holds for all."""
    by_score = dict(zip(MODEL_SCORES, results, strict=True))
    return Product(
        _models_table(setup, by_score),
        {"models": _models_figure(setup, by_score)},
        _models_findings(setup, by_score),
    )


def _best_models(setup: Setup, by_score: dict[str, Results]) -> dict[tuple[str, float], Estimate]:
    """Return the saving against the best single model of every case, by simultaneous intervals."""
    savings = {}
    for score, results in by_score.items():
        singles = [f"{model}.{score}" for model in setup.all_models]
        for alpha in ALPHAS:
            best = results.smallest(singles, alpha=alpha)
            savings[score, alpha] = results.saving(OURS, best, alpha=alpha, comparisons=MODEL_CASES)
    return savings


def _models_table(setup: Setup, by_score: dict[str, Results]) -> Table:
    savings = _best_models(setup, by_score)
    rows: list[tuple[str, ...]] = []
    for score, results in by_score.items():
        rows += [()] if rows else []
        shown = (OURS, *(f"{model}.{score}" for model in setup.all_models), *RIVALS)
        for alpha in ALPHAS:
            cells = [f"{results.estimate(method, alpha=alpha).mean:.2f}" for method in shown]
            rows.append((score.upper(), f"{alpha:g}", *cells, percent(savings[score, alpha])))
    header = ("score", "alpha", "weighted", *setup.all_models, *(label(m) for m in RIVALS), "saved")
    notes = (
        f"Mean set size over {setup.runs} random splits, 80:20; scale: {scale_of(setup)}.",
        (
            "Weighted models and the best single score tune on half of the calibration rows; all "
            "others calibrate on all of them."
        ),
        (
            f'"saved" is against the best single model of the row; its {MODEL_CASES} intervals '
            "hold together with probability 95 %."
        ),
        "Majority vote guarantees 1 - 2 alpha only.",
    )
    return Table(f"Weighted models, {setup.data}", header, tuple(rows), notes)


def _models_figure(setup: Setup, by_score: dict[str, Results]) -> Figure:
    figure = new_figure(6.8, 5.6)
    for place, (score, results) in enumerate(by_score.items(), start=1):
        shown = {"weighted": curve(results, OURS)}
        shown |= {model: curve(results, f"{model}.{score}") for model in setup.all_models}
        ensemble = label("probability-ensemble")
        shown[ensemble] = curve(results, "probability-ensemble")
        plot_size_coverage(
            shown,
            title=score.upper(),
            dashed=[ensemble],
            legend=False,
            ax=figure.add_subplot(2, 2, place),
        )
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=5, fontsize=7.5, frameon=False)
    figure.suptitle(f"{setup.data}, weighted models, {setup.runs} splits", fontsize=9)
    return figure


def _models_findings(setup: Setup, by_score: dict[str, Results]) -> tuple[str, ...]:
    savings = _best_models(setup, by_score)
    lost = [f"{s.upper()} at {a:g}" for (s, a), saving in savings.items() if saving.high < 0]
    named = f" ({', '.join(lost)})" if lost else ""
    first = (
        "Sets of the weighted models are larger than those of the best single model in "
        f"{len(lost)} of {MODEL_CASES} cases{named}, by intervals that hold together."
    )
    lines = [first]
    for score in by_score:
        low = [savings[score, alpha].low for alpha in ALPHAS]
        lines.append(
            f"{score.upper()}: they are smaller at {sum(bound > 0 for bound in low)} of "
            f"{len(low)} levels, by the same intervals."
        )
    for rival in ("probability-ensemble", "logit-ensemble", "uniform"):
        against = [
            results.saving(OURS, rival, alpha=alpha, comparisons=MODEL_CASES)
            for results in by_score.values()
            for alpha in ALPHAS
        ]
        lines.append(
            f"Against the {label(rival)} they are smaller in {sum(s.low > 0 for s in against)} "
            f"and larger in {sum(s.high < 0 for s in against)} of {MODEL_CASES} cases."
        )
    return tuple(lines)
