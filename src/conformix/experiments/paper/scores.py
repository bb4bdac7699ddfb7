"""Score weighting: table 1 and figures 2 and 3 of the paper."""

from __future__ import annotations

import numpy as np

from conformix.experiments.paper.published import TABLE1, TABLE1_DATA
from conformix.experiments.paper.setup import (
    ALPHAS,
    SINGLES,
    SPLITS,
    TUNED,
    Product,
    Setup,
    label,
)
from conformix.experiments.spec import Spec
from conformix.experiments.statistics import Results, told
from conformix.plots import new_figure, plot_boxes, plot_size_coverage
from conformix.tables import Table

TABLE_ALPHAS = (0.01, 0.05)
SHOWN = ("average:vfcp", *SINGLES)


def table1_specs(setup: Setup) -> list[Spec]:
    """Return the nine methods of table 1, tuned baselines and the oracle beside them."""
    methods = (*SPLITS, *SINGLES, *TUNED, "majority-vote", "oracle")
    return [setup.spec(methods, TABLE_ALPHAS)]


def table1(setup: Setup, results: list[Results]) -> Product:
    """Return table 1 of the paper beside ours, and what follows from it."""
    (found,) = results
    paper = setup.data == TABLE1_DATA
    header = ["method"]
    for alpha in TABLE_ALPHAS:
        header += [f"coverage {alpha:g}", f"size {alpha:g}", f"matched {alpha:g}"]
        header += [f"paper {alpha:g}"] if paper else []
    blocks = (SPLITS, SINGLES, (*TUNED, "majority-vote"), ("oracle",))
    rows: list[tuple[str, ...]] = []
    for block in blocks:
        rows += [()] if rows else []
        rows += [_table1_row(found, method, paper=paper) for method in block]
    notes = (
        f"Mean (standard deviation) over {setup.runs} random splits, 80:20, of the same rows.",
        "Untuned methods calibrate on all calibration rows; tuned ones and VFCP tune on one half.",
        '"matched" is the size when the coverage on the test rows is just 1 - alpha.',
    )
    table = Table(
        f"Coverage and set size, {setup.title}", (*header, "guarantee"), tuple(rows), notes
    )
    lines = [line for alpha in TABLE_ALPHAS for line in _table1_findings(found, alpha, paper=paper)]
    return Product(table, findings=tuple(lines))


def _table1_row(found: Results, method: str, *, paper: bool) -> tuple[str, ...]:
    cells = [label(method)]
    for alpha in TABLE_ALPHAS:
        coverage = found.estimate(method, alpha=alpha, field="coverage")
        size = found.estimate(method, alpha=alpha)
        matched = found.values(method, alpha=alpha, field="size_at_matched_coverage")
        cells += [f"{coverage.mean:.3f} ({coverage.sd:.3f})", f"{size.mean:.2f} ({size.sd:.2f})"]
        cells.append("-" if np.isnan(matched).any() else f"{matched.mean():.2f}")
        if paper:
            known = TABLE1[alpha].get(method)
            cells.append("-" if known is None else f"{known[2]:.2f} ({known[3]:.2f})")
    return (*cells, found.guarantee(method, TABLE_ALPHAS[0]))


def _table1_findings(found: Results, alpha: float, *, paper: bool) -> list[str]:
    ours = SPLITS[0]
    single, tuned = (found.smallest(some, alpha=alpha) for some in (SINGLES, TUNED))
    saved, lost = (told(found.saving(ours, other, alpha=alpha)) for other in (single, tuned))
    gap = found.saving("oracle", ours, alpha=alpha, field="size_at_matched_coverage")
    largest = max(SPLITS, key=lambda split: found.estimate(split, alpha=alpha).mean)
    lines = [
        f"sets of VFCP are {saved} than those of the best fixed score ({label(single)})",
        f"sets of VFCP are {lost} than those of the best other baseline ({label(tuned)})",
        _pairs_below(found, alpha),
        f"the largest of the four splits is {label(largest)}; {_coverages(found, alpha)}",
        f"with the best weights in hindsight sets are {told(gap)} than VFCP's at matched coverage",
    ]
    if paper:
        theirs = {method: numbers[2] for method, numbers in TABLE1[alpha].items()}
        rival = min(SINGLES, key=theirs.__getitem__)
        share = 100 * (1 - theirs[ours] / theirs[rival])
        lines[0] += f"; in the paper {share:.0f} % smaller than those of {label(rival)}"
    return [f"alpha = {alpha:g}: {line}." for line in lines]


def _pairs_below(found: Results, alpha: float) -> str:
    """Say in how many pairs of an averaged split and a fixed score the average is smaller."""
    pairs = [(split, single) for split in SPLITS for single in SINGLES]
    savings = [found.saving(*pair, alpha=alpha, comparisons=len(pairs)) for pair in pairs]
    below = sum(saving.low > 0 for saving in savings)
    return (
        f"of the {len(pairs)} pairs of an averaged split and a fixed score the average is smaller "
        f"in {below}, by intervals that hold together"
    )


def _coverages(found: Results, alpha: float) -> str:
    means = [found.estimate(split, alpha=alpha, field="coverage").mean for split in SPLITS]
    return f"their mean coverages are {', '.join(f'{mean:.4f}' for mean in means)}"


def fig2_specs(setup: Setup) -> list[Spec]:
    """Return the methods of figure 2 at alpha = .01."""
    return [setup.spec(SHOWN, (0.01,))]


def fig2(setup: Setup, results: list[Results]) -> Product:
    """Return the box plots of coverage and size."""
    (found,) = results
    figure = new_figure(6.8, 2.7)
    for place, (field, target) in enumerate((("coverage", 0.99), ("size", None)), start=1):
        values = {label(m): found.values(m, alpha=0.01, field=field) for m in SHOWN}
        ax = figure.add_subplot(1, 2, place)
        name = field if field == "coverage" else "mean set size"
        plot_boxes(values, ylabel=name, target=target, ax=ax)
    figure.suptitle(f"{setup.title}, alpha = 0.01, {setup.runs} splits", fontsize=9)
    return Product(figures={"fig2": figure})


def fig3_specs(setup: Setup) -> list[Spec]:
    """Return the methods of figure 3 at five levels, two tuned scores beside them."""
    return [setup.spec((*SHOWN, "tuned-thr", "tuned-raps"), ALPHAS)]


def fig3(setup: Setup, results: list[Results]) -> Product:
    """Return size against coverage for alpha = .01 to .05."""
    (found,) = results
    tuned = ("tuned-thr", "tuned-raps")
    figure = new_figure(4.6, 3.4)
    curves = {label(m): curve(found, m) for m in (*SHOWN, *tuned)}
    ax = figure.add_subplot()
    plot_size_coverage(curves, title=setup.title, dashed=[label(m) for m in tuned], ax=ax)
    header = ("method", *(f"alpha = {alpha:g}" for alpha in ALPHAS))
    rows = tuple(
        (label(m), *(f"{found.estimate(m, alpha=a).mean:.2f}" for a in ALPHAS))
        for m in (*SHOWN, *tuned)
    )
    notes = (f"Mean set size over {setup.runs} random splits, 80:20.",)
    return Product(
        Table(f"Set size by level, {setup.title}", header, rows, notes), {"fig3": figure}
    )


def curve(found: Results, method: str) -> tuple[list[float], list[float]]:
    """Return mean coverage and mean size of a method at all levels."""
    return (
        [found.estimate(method, alpha=a, field="coverage").mean for a in found.alphas],
        [found.estimate(method, alpha=a).mean for a in found.alphas],
    )
