"""Everything that docs/frontier.md shows: tables as Markdown, all cases as CSV, a picture."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformix.plots.style import MARKERS, PALETTE, new_figure, save_figure, tidy
from studies.frontier.averaged import Averaging
from studies.frontier.blended import OTHERWISE, PARTS
from studies.frontier.cases import FEW_MODELS, SETTINGS, SEVERAL
from studies.frontier.exactly import Exactly
from studies.frontier.run import run_frontier
from studies.frontier.similarity import Similarity
from studies.frontier.symmetric import Symmetric
from studies.frontier.tables import (
    HALF,
    Ratio,
    choice_table,
    class_table,
    group_table,
    left_out_table,
    markdown,
    parts_table,
    ratios,
    summary,
    write_text,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEFORE, BASELINE = "auto of 0.1.0", "tuned baseline"
PAPER, SIMILAR = "the paper's average", "class similarity"
AGGREGATED, SELECTED = "SACP", "auto under split exact"
TITLES = {BASELINE: "the tuned baseline"}
PARTS_RUNS, RIVALS_RUNS, SLOW_RUNS = 10, 20, 10
# With so few rows hardly any tune, and nothing is chosen.
FEW_ROWS = 100


def write_frontier(folder: str | Path, *, runs: int | None = None, workers: int = 2) -> list[Path]:
    """Run what is not there yet, write tables, cases and a picture, and return their paths.

    Parameters
    ----------
    folder : path
        Where rows are kept and everything is written.
    runs : int, optional
        Random splits in halves; by default 30, or 60 of small settings.
    workers : int
        Processes.
    """
    target = Path(folder)
    shared: dict[str, Any] = {"workers": workers, "progress": _tell}
    log = target / "rows.jsonl"
    rows = run_frontier(log, runs=runs, **shared)
    shared["sizes"] = (300, 1000, None)
    few = PARTS_RUNS if runs is None else min(runs, PARTS_RUNS)
    shared |= {"runs": few, "alphas": (0.01, 0.05)}
    parts = run_frontier(log, methods=PARTS, **shared)
    forms = [*rows, *parts, *run_frontier(log, methods=OTHERWISE, **shared)]
    forms = [row for row in forms if row["alpha"] < 0.1 and row["n_labelled"] != FEW_ROWS]
    named = ["auto", *PARTS, *OTHERWISE]
    del shared["alphas"]
    shared["runs"] = RIVALS_RUNS if runs is None else runs
    similar = run_frontier(log, methods={SIMILAR: Similarity()}, **shared)
    few_models = [s for s in SETTINGS if s not in SEVERAL or s in FEW_MODELS]
    average = {PAPER: Averaging(("thr", "aps", "rank"))}
    paper = run_frontier(log, settings=few_models, methods=average, **shared)
    shared |= {"sizes": (300, 1000), "runs": SLOW_RUNS if runs is None else min(runs, SLOW_RUNS)}
    sacp = run_frontier(log, settings=SEVERAL, methods={AGGREGATED: Symmetric()}, **shared)
    exact = run_frontier(log, methods={SELECTED: Exactly()}, **shared)
    before = ratios(rows, "auto", BEFORE)
    everything = [*rows, *paper, *similar, *sacp, *exact]
    names = (BASELINE, PAPER, SIMILAR, AGGREGATED, SELECTED)
    rivals = {name: ratios(everything, "auto", name) for name in names}
    classes = [
        row for row in rows if row["alpha"] > 0.01 and (row["half"] or row["n_labelled"] == 1000)
    ]
    written = {
        "groups.md": _told(before, group_table(before)),
        "rivals.md": "\n".join(
            f"**Against {TITLES.get(name, name)}.** {_told(cases, group_table(cases))}"
            for name, cases in rivals.items()
        ),
        "parts.md": parts_table([*rows, *parts], list(PARTS)) + "\n",
        "choice.md": choice_table(forms, named, BEFORE) + "\n",
        "left_out.md": left_out_table(forms, named, BEFORE) + "\n",
        "classes.md": class_table(classes, "auto", BEFORE) + "\n",
        "cases.md": _told(before, markdown(before)),
        "cases_baseline.md": _told(rivals[BASELINE], markdown(rivals[BASELINE])),
        "cases.csv": cases_csv({BEFORE: before, **rivals}),
    }
    for name, text in written.items():
        write_text(target / name, text)
    paths = [target / name for name in written]
    return paths + save_figure(draw(before), target, "frontier", formats=("png",))


def _told(found: Sequence[Ratio], table: str) -> str:
    return f"{summary(found)}\n\n{table}\n"


def cases_csv(found: dict[str, list[Ratio]]) -> str:
    """Return every case of the study, one line each."""
    out = StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(
        ["against", "group", "setting", "rows", "alpha", "splits", "ratio", "low", "high", "size",
         "other_size", "coverage", "coverage_low", "coverage_high"]
    )  # fmt: skip
    for other, cases in found.items():
        for r in cases:
            numbers = [r.ratio.mean, r.ratio.low, r.ratio.high, r.size, r.other, r.coverage.mean,
                       r.coverage.low, r.coverage.high]  # fmt: skip
            told = [f"{number:.5g}" for number in numbers]
            place = [other, r.group, r.setting, r.n_labelled, f"{r.alpha:g}", r.ratio.n]
            table.writerow([*place, *told])
    return out.getvalue()


def draw(found: Sequence[Ratio]) -> Figure:
    """Return the picture of all cases: the ratio with its interval, by rows and level."""
    settings = list(dict.fromkeys(r.setting for r in found))
    alphas = sorted({r.alpha for r in found})
    sizes = sorted({r.rows for r in found})
    figure = new_figure(8.4, 0.8 + 0.26 * len(settings))
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for panel, rows in zip(panels, sizes, strict=True):
        title = "half of the rows" if rows == HALF else f"{rows:,} rows"
        tidy(panel, title=title)
        panel.axvline(1.0, color="black", linewidth=0.8)
        panel.set_xscale("log")
        panel.set_xticks([0.25, 0.5, 1.0], ["0.25", "0.5", "1"])
        panel.minorticks_off()
        panel.set_xlim(0.2, 1.5)
    handles: dict[float, Any] = {}
    for r in found:
        which = alphas.index(r.alpha)
        y = settings.index(r.setting) + 0.22 * (which - (len(alphas) - 1) / 2)
        look = {"color": PALETTE[which], "marker": MARKERS[which], "markersize": 3}
        ends = [[r.ratio.mean - r.ratio.low], [r.ratio.high - r.ratio.mean]]
        handles[r.alpha] = panels[sizes.index(r.rows)].errorbar(
            [r.ratio.mean], [y], xerr=ends, elinewidth=0.8, linestyle="none", **look
        )
    panels[0].set_yticks(range(len(settings)), settings)
    panels[0].set_ylim(len(settings) - 0.4, -0.6)  # the first setting on top
    figure.supxlabel("mean set size relative to auto of 0.1.0", fontsize=panels[0].title.get_size())
    figure.legend(
        [handles[alpha] for alpha in alphas], [f"alpha = {alpha:g}" for alpha in alphas],
        loc="outside upper center", ncols=len(alphas), frameon=False, fontsize=8,
    )  # fmt: skip
    return figure


def _tell(text: str) -> None:
    sys.stderr.write(text + "\n")
