"""Model weighting: one score of several models, figures 4 and 5 of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformix.errors import InvalidInput
from conformix.experiments.paper.scores import curve
from conformix.experiments.paper.setup import ALPHAS, Product, Setup, label
from conformix.experiments.spec import Spec
from conformix.experiments.statistics import Estimate, Results, percent
from conformix.plots import new_figure, plot_size_coverage
from conformix.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORES = ("thr", "aps", "raps", "saps")
CASES = len(SCORES) * len(ALPHAS)
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
        for score in SCORES
    ]


def scale_of(setup: Setup) -> str:
    """Return on which scale the models are averaged."""
    return setup.normalize or "ecdf"


def models(setup: Setup, results: list[Results]) -> Product:
    """Return size against coverage for every score, the savings, and what holds for all."""
    found = dict(zip(SCORES, results, strict=True))
    return Product(_table(setup, found), {"models": _figure(setup, found)}, _findings(setup, found))


def _best_models(setup: Setup, found: dict[str, Results]) -> dict[tuple[str, float], Estimate]:
    """Return the saving against the best single model of every case, by simultaneous intervals."""
    savings = {}
    for score, results in found.items():
        singles = [f"{model}.{score}" for model in setup.all_models]
        for alpha in ALPHAS:
            best = results.smallest(singles, alpha=alpha)
            savings[score, alpha] = results.saving(OURS, best, alpha=alpha, comparisons=CASES)
    return savings


def _table(setup: Setup, found: dict[str, Results]) -> Table:
    savings = _best_models(setup, found)
    rows: list[tuple[str, ...]] = []
    for score, results in found.items():
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
            f'"saved" is against the best single model of the row; its {CASES} intervals hold '
            "together with probability 95 %."
        ),
        "Majority vote guarantees 1 - 2 alpha only.",
    )
    return Table(f"Weighted models, {setup.data}", header, tuple(rows), notes)


def _figure(setup: Setup, found: dict[str, Results]) -> Figure:
    figure = new_figure(6.8, 5.6)
    for place, (score, results) in enumerate(found.items(), start=1):
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


def _findings(setup: Setup, found: dict[str, Results]) -> tuple[str, ...]:
    savings = _best_models(setup, found)
    lost = [f"{s.upper()} at {a:g}" for (s, a), saving in savings.items() if saving.high < 0]
    named = f" ({', '.join(lost)})" if lost else ""
    first = (
        "Sets of the weighted models are larger than those of the best single model in "
        f"{len(lost)} of {CASES} cases{named}, by intervals that hold together."
    )
    lines = [first]
    for score in found:
        low = [savings[score, alpha].low for alpha in ALPHAS]
        lines.append(
            f"{score.upper()}: they are smaller at {sum(bound > 0 for bound in low)} of "
            f"{len(low)} levels, by the same intervals."
        )
    for rival in ("probability-ensemble", "logit-ensemble", "uniform"):
        against = [
            results.saving(OURS, rival, alpha=alpha, comparisons=CASES)
            for results in found.values()
            for alpha in ALPHAS
        ]
        lines.append(
            f"Against the {label(rival)} they are smaller in {sum(s.low > 0 for s in against)} "
            f"and larger in {sum(s.high < 0 for s in against)} of {CASES} cases."
        )
    return tuple(lines)
