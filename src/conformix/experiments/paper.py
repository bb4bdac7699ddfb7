"""The experiments of the paper (Luo & Zhou, 2025), each a list of specs and a way to show rows.

Score weighting: table 1, figures 2 and 3, and two splitting ratios (the supplement). Model
weighting, one score of several models: figures 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput
from conformix.experiments.pool import load_data
from conformix.experiments.spec import Spec
from conformix.experiments.statistics import Estimate, Results, in_words, percent
from conformix.plots import new_figure, plot_boxes, plot_size_coverage
from conformix.scores import named_scores, parse_score
from conformix.splits import resolve_split
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
    "average:exact": "EXACT",
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
    "auto:vfcp": "auto",
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
    alphas, splits, scores : tuple
        Levels, splits of the averages, and what is averaged, where they are not the paper's. Of
        the model experiment `scores` are those whose models are weighted, one after the other.

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
    alphas: tuple[float, ...] = ()
    splits: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for alpha in self.alphas:
            simple_fraction(alpha)
        by_name = tuple(resolve_split(split).name for split in self.splits)
        object.__setattr__(self, "splits", by_name)
        object.__setattr__(self, "scores", named_scores(self.scores))
        for score in self.scores:
            if score == "auto":
                raise InvalidInput(
                    'scores that are averaged have names, and "auto" finds its own; compare ranks '
                    "it beside the others."
                )
            parse_score(score)

    def levels(self, usual: tuple[float, ...]) -> tuple[float, ...]:
        """Return the levels, rising: those asked for, else the usual ones."""
        return tuple(sorted({float(simple_fraction(a)) for a in self.alphas})) or usual

    def level(self, what: str, usual: float) -> float:
        """Return the one level of an experiment."""
        if len(self.alphas) > 1:
            given = ", ".join(f"{alpha:g}" for alpha in self.alphas)
            raise InvalidInput(f"{what} is drawn at one level; got {given}.")
        return self.levels((usual,))[0]

    def averages(self, usual: tuple[str, ...]) -> tuple[str, ...]:
        """Return the averages, one per split."""
        return tuple(f"average:{split}" for split in dict.fromkeys(self.splits)) or usual

    def average(self, what: str) -> str:
        """Return the average of an experiment with one split."""
        if len(self.splits) > 1:
            given = ", ".join(self.splits)
            raise InvalidInput(f"{what} shows one split of the average; got {given}.")
        return self.averages(SPLITS[:1])[0]

    @property
    def singles(self) -> tuple[str, ...]:
        """The single scores that stand beside the averages, those that are averaged among them."""
        return tuple(dict.fromkeys((*SINGLES, *self.scores)))

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
        if self.scores:
            settings["scores"] = self.scores
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
Numbers = dict[float, dict[str, tuple[float, float, float, float]]]
# The data set of the table.
TABLE1_DATA = "cifar100"


TABLE_ALPHAS = (0.01, 0.05)
# What the paper did not have: a blend that finds its own scores, under VFCP.
AUTO = "auto:vfcp"
BESIDES = ("tuned-thr", "tuned-raps", AUTO)


def table1_specs(setup: Setup) -> list[Spec]:
    """Return the nine methods of table 1, tuned baselines, ``auto`` and the oracle beside them."""
    averages = setup.averages(SPLITS)
    methods = (*averages, *setup.singles, *TUNED, "majority-vote", AUTO, "oracle")
    return [setup.spec(methods, setup.levels(TABLE_ALPHAS))]


def table1(setup: Setup, results: list[Results]) -> Product:
    """Return table 1 of the paper beside ours, and what follows from it."""
    (measured,) = results
    alphas = setup.levels(TABLE_ALPHAS)
    # The paper's numbers stand beside ours where both averaged the same scores.
    known = setup.data == TABLE1_DATA and not setup.scores
    paper = {alpha: TABLE1[alpha] for alpha in alphas if known and alpha in TABLE1}
    header = ["method"]
    for alpha in alphas:
        header += [f"coverage {alpha:g}", f"size {alpha:g}", f"matched {alpha:g}"]
        header += [f"paper {alpha:g}"] if alpha in paper else []
    averages = setup.averages(SPLITS)
    blocks = (averages, setup.singles, (*TUNED, "majority-vote"), (AUTO,), ("oracle",))
    rows: list[tuple[str, ...]] = []
    for block in blocks:
        rows += [()] if rows else []
        rows += [_table1_row(measured, method, alphas, paper) for method in block]
    tuning = "tuned ones and VFCP" if SPLITS[0] in averages else "tuned ones"
    tuning += " tune on one half, auto on as many as it plans"
    notes = (
        f"Mean (standard deviation) over {setup.runs} random splits, 80:20, of the same rows.",
        f"Untuned methods calibrate on all calibration rows; {tuning}.",
        '"matched" is the size when the coverage on the test rows is just 1 - alpha.',
    )
    table = Table(
        f"Coverage and set size, {setup.title}", (*header, "guarantee"), tuple(rows), notes
    )
    lines = [
        line
        for alpha in alphas
        for line in _table1_findings(measured, alpha, averages, setup.singles, paper)
    ]
    return Product(table, findings=tuple(lines))


def _table1_row(
    results: Results, method: str, alphas: tuple[float, ...], paper: Numbers
) -> tuple[str, ...]:
    cells = [label(method)]
    for alpha in alphas:
        coverage = results.estimate(method, alpha=alpha, field="coverage")
        size = results.estimate(method, alpha=alpha)
        matched = results.values(method, alpha=alpha, field="size_at_matched_coverage")
        cells += [f"{coverage.mean:.3f} ({coverage.sd:.3f})", f"{size.mean:.2f} ({size.sd:.2f})"]
        cells.append("-" if np.isnan(matched).any() else f"{matched.mean():.2f}")
        if alpha in paper:
            known = paper[alpha].get(method)
            cells.append("-" if known is None else f"{known[2]:.2f} ({known[3]:.2f})")
    return (*cells, results.guarantee(method, alphas[0]))


def _table1_findings(
    results: Results,
    alpha: float,
    averages: tuple[str, ...],
    singles: tuple[str, ...],
    paper: Numbers,
) -> list[str]:
    ours, name = averages[0], label(averages[0])
    single, tuned = (results.smallest(some, alpha=alpha) for some in (singles, TUNED))
    saved, lost = (in_words(results.saving(ours, other, alpha=alpha)) for other in (single, tuned))
    gap = results.saving("oracle", ours, alpha=alpha, field="size_at_matched_coverage")
    best = in_words(gap)
    blended = in_words(results.saving(AUTO, ours, alpha=alpha))
    largest = max(averages, key=lambda split: results.estimate(split, alpha=alpha).mean)
    covered = _coverages(results, alpha, averages)
    count = {2: "two", 3: "three", 4: "four", 5: "five"}.get(len(averages), str(len(averages)))
    lines = [
        f"sets of {name} are {saved} than those of the best fixed score ({label(single)})",
        f"sets of {name} are {lost} than those of the best other baseline ({label(tuned)})",
        _pairs_below(results, alpha, averages, singles),
        f"the largest of the {count} splits is {label(largest)}; {covered}",
        f"with the best weights in hindsight sets are {best} than {name}'s at matched coverage",
        f"sets of {label(AUTO)} are {blended} than those of {name}",
    ]
    if len(averages) == 1:
        del lines[3]
    if alpha in paper and ours in paper[alpha]:
        theirs = {method: numbers[2] for method, numbers in paper[alpha].items()}
        rival = min(SINGLES, key=theirs.__getitem__)
        share = 100 * (1 - theirs[ours] / theirs[rival])
        lines[0] += f"; in the paper {share:.0f} % smaller than those of {label(rival)}"
    return [f"alpha = {alpha:g}: {line}." for line in lines]


def _pairs_below(
    results: Results, alpha: float, averages: tuple[str, ...], singles: tuple[str, ...]
) -> str:
    """Say in how many pairs of an averaged split and a fixed score the average is smaller."""
    pairs = [(split, single) for split in averages for single in singles]
    savings = [results.saving(*pair, alpha=alpha, comparisons=len(pairs)) for pair in pairs]
    below = sum(saving.low > 0 for saving in savings)
    return (
        f"of the {len(pairs)} pairs of an averaged split and a fixed score the average is smaller "
        f"in {below}, by intervals that hold together"
    )


def _coverages(results: Results, alpha: float, averages: tuple[str, ...]) -> str:
    means = [results.estimate(split, alpha=alpha, field="coverage").mean for split in averages]
    return f"their mean coverages are {', '.join(f'{mean:.4f}' for mean in means)}"


def fig2_specs(setup: Setup) -> list[Spec]:
    """Return the methods of figure 2, in the paper at alpha = .01, and ``auto``."""
    return [setup.spec((*_shown(setup, "fig2"), AUTO), (setup.level("fig2", 0.01),))]


def _shown(setup: Setup, what: str) -> tuple[str, ...]:
    """Return the average and the single scores beside it."""
    return (setup.average(what), *setup.singles)


def fig2(setup: Setup, results: list[Results]) -> Product:
    """Return the box plots of coverage and size."""
    (measured,) = results
    alpha = setup.level("fig2", 0.01)
    figure = new_figure(6.8, 2.7)
    for place, (measure, target) in enumerate((("coverage", 1 - alpha), ("size", None)), start=1):
        shown = (*_shown(setup, "fig2"), AUTO)
        values = {label(m): measured.values(m, alpha=alpha, field=measure) for m in shown}
        ax = figure.add_subplot(1, 2, place)
        name = measure if measure == "coverage" else "mean set size"
        plot_boxes(values, ylabel=name, target=target, ax=ax)
    figure.suptitle(f"{setup.title}, alpha = {alpha:g}, {setup.runs} splits", fontsize=9)
    return Product(figures={"fig2": figure})


def fig3_specs(setup: Setup) -> list[Spec]:
    """Return the methods of figure 3 at several levels, two tuned scores and ``auto`` besides."""
    return [setup.spec((*_shown(setup, "fig3"), *BESIDES), setup.levels(ALPHAS))]


def fig3(setup: Setup, results: list[Results]) -> Product:
    """Return size against coverage, in the paper for alpha = .01 to .05."""
    (measured,) = results
    shown, alphas = (*_shown(setup, "fig3"), *BESIDES), setup.levels(ALPHAS)
    figure = new_figure(4.6, 3.4)
    curves = {label(m): curve(measured, m) for m in shown}
    ax = figure.add_subplot()
    plot_size_coverage(curves, title=setup.title, dashed=[label(m) for m in BESIDES], ax=ax)
    header = ("method", *(f"alpha = {alpha:g}" for alpha in alphas))
    rows = tuple(
        (label(m), *(f"{measured.estimate(m, alpha=a).mean:.2f}" for a in alphas)) for m in shown
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
    """Return the splits at two ratios of calibration to test rows."""
    level = (setup.level("ratios", RATIO_ALPHA),)
    return [setup.spec(setup.averages(SPLITS), level, share=share) for share, _ in RATIOS]


def ratios(setup: Setup, results: list[Results]) -> Product:
    """Return box plots and a table of the splits at both ratios."""
    alpha, averages = setup.level("ratios", RATIO_ALPHA), setup.averages(SPLITS)
    figure = new_figure(6.8, 4.8)
    rows: list[tuple[str, ...]] = []
    findings = []
    for place, ((_, ratio), measured) in enumerate(zip(RATIOS, results, strict=True)):
        for side, (measure, target) in enumerate((("coverage", 1 - alpha), ("size", None))):
            values = {label(m): measured.values(m, alpha=alpha, field=measure) for m in averages}
            ax = figure.add_subplot(2, 2, 2 * place + side + 1)
            name = measure if measure == "coverage" else "mean set size"
            plot_boxes(values, ylabel=name, title=ratio, target=target, ours=len(values), ax=ax)
        rows += [()] if rows else []
        rows += [_ratios_row(measured, method, ratio, alpha) for method in averages]
        least = measured.smallest(averages, alpha=alpha)
        saving = measured.saving(least, averages[0], alpha=alpha, comparisons=2)
        findings.append(
            f"{ratio}: the smallest sets are those of {label(least)}, {in_words(saving)} "
            f"than those of {label(averages[0])}."
        )
    figure.suptitle(f"{setup.title}, alpha = {alpha:g}, {setup.runs} splits", fontsize=9)
    table = Table(
        f"Splits at two ratios of calibration to test rows, {setup.title}, alpha = {alpha:g}",
        ("split", "ratio", "coverage", "size", "guarantee"),
        tuple(rows),
        (f"Mean (standard deviation) over {setup.runs} random splits of the same rows.",),
    )
    return Product(table, {"ratios": figure}, tuple(findings))


def _ratios_row(results: Results, method: str, ratio: str, alpha: float) -> tuple[str, ...]:
    coverage = results.estimate(method, alpha=alpha, field="coverage")
    size = results.estimate(method, alpha=alpha)
    return (
        label(method),
        ratio,
        f"{coverage.mean:.3f} ({coverage.sd:.3f})",
        f"{size.mean:.2f} ({size.sd:.2f})",
        results.guarantee(method, RATIO_ALPHA),
    )


MODEL_SCORES = ("thr", "aps", "raps", "saps")
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
            (setup.average("models"), *(f"{model}.{score}" for model in models), *RIVALS),
            setup.levels(ALPHAS),
            models=models,
            scores=(score,),
            normalize=scale_of(setup),
        )
        for score in model_scores(setup)
    ]


def model_scores(setup: Setup) -> tuple[str, ...]:
    """Return the scores whose models are weighted, one after the other."""
    return tuple(dict.fromkeys(setup.scores)) or MODEL_SCORES


def scale_of(setup: Setup) -> str:
    """Return on which scale the models are averaged."""
    return setup.normalize or "ecdf"


def models(setup: Setup, results: list[Results]) -> Product:
    """Return size against coverage for every score, the savings, and what holds for all."""
    by_score = dict(zip(model_scores(setup), results, strict=True))
    return Product(
        _models_table(setup, by_score),
        {"models": _models_figure(setup, by_score)},
        _models_findings(setup, by_score),
    )


def _best_models(setup: Setup, by_score: dict[str, Results]) -> dict[tuple[str, float], Estimate]:
    """Return the saving against the best single model of every case, by simultaneous intervals."""
    savings, ours, alphas = {}, setup.average("models"), setup.levels(ALPHAS)
    n_cases = len(by_score) * len(alphas)
    for score, results in by_score.items():
        singles = [f"{model}.{score}" for model in setup.all_models]
        for alpha in alphas:
            best = results.smallest(singles, alpha=alpha)
            savings[score, alpha] = results.saving(ours, best, alpha=alpha, comparisons=n_cases)
    return savings


def _models_table(setup: Setup, by_score: dict[str, Results]) -> Table:
    savings = _best_models(setup, by_score)
    rows: list[tuple[str, ...]] = []
    for score, results in by_score.items():
        rows += [()] if rows else []
        singles = [f"{model}.{score}" for model in setup.all_models]
        shown = (setup.average("models"), *singles, *RIVALS)
        for alpha in setup.levels(ALPHAS):
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
            f'"saved" is against the best single model of the row; its {len(savings)} intervals '
            "hold together with probability 95 %."
        ),
        "Majority vote guarantees 1 - 2 alpha only.",
    )
    return Table(f"Weighted models, {setup.data}", header, tuple(rows), notes)


def _models_figure(setup: Setup, by_score: dict[str, Results]) -> Figure:
    n_rows = -(-len(by_score) // 2)
    figure = new_figure(6.8, 2.8 * n_rows)
    for place, (score, results) in enumerate(by_score.items(), start=1):
        shown = {"weighted": curve(results, setup.average("models"))}
        shown |= {model: curve(results, f"{model}.{score}") for model in setup.all_models}
        ensemble = label("probability-ensemble")
        shown[ensemble] = curve(results, "probability-ensemble")
        plot_size_coverage(
            shown,
            title=score.upper(),
            dashed=[ensemble],
            legend=False,
            ax=figure.add_subplot(n_rows, 2, place),
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
        f"{len(lost)} of {len(savings)} cases{named}, by intervals that hold together."
    )
    lines = [first]
    for score in by_score:
        low = [savings[score, alpha].low for alpha in setup.levels(ALPHAS)]
        lines.append(
            f"{score.upper()}: they are smaller at {sum(bound > 0 for bound in low)} of "
            f"{len(low)} levels, by the same intervals."
        )
    for rival in ("probability-ensemble", "logit-ensemble", "uniform"):
        against = [
            results.saving(setup.average("models"), rival, alpha=alpha, comparisons=len(savings))
            for results in by_score.values()
            for alpha in setup.levels(ALPHAS)
        ]
        lines.append(
            f"Against the {label(rival)} they are smaller in {sum(s.low > 0 for s in against)} "
            f"and larger in {sum(s.high < 0 for s in against)} of {len(savings)} cases."
        )
    return tuple(lines)
