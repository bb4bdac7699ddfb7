"""Everything that docs/regression.md shows of the study: tables as Markdown, cases as CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from conformix.atomic import write_whole
from conformix.experiments.rows import Row
from conformix.plots.style import MARKERS, PALETTE, new_figure, save_figure, tidy
from studies.frontier.tables import Ratio, markdown, ratios, summary
from studies.regression.data import DRAWS
from studies.regression.run import AUTO, EXACT, MAIN, METHODS, PARTS, PLUS, RUNS, SELECT, run_study
from studies.regression.tables import (
    EACH,
    HINDSIGHT,
    choice_table,
    evenness_table,
    hindsight,
    law_sentence,
    laws,
    method_table,
    overall,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EVEN = (AUTO, "bins of difficulty", SELECT, "stacked residuals", "stacked residuals, normalised",
        "residuals of boosting, Mondrian", "tuned CQR")  # fmt: skip


def write_study(
    folder: str | Path,
    *,
    known: str | Path | None = None,
    runs: int = RUNS,
    workers: int = 2,
    **chosen: Any,
) -> list[Path]:
    """Run what is not there yet, write tables, cases and a picture, and return their paths.

    Parameters
    ----------
    folder : path
        Where rows are kept and everything is written.
    known : path, optional
        Where predictions of trained models are kept; by default ``results/regression``, which no
        repository keeps.
    runs : int
        Draws of rows; every five share their models. All of them have ``auto`` and ``select``, the
        first two of five the other methods, the first the slow ones: the exact split, CV+ and the
        jackknife+.
    workers : int
        Processes.
    **chosen
        Further arguments of `run_study`, such as other settings.
    """
    target = Path(folder)
    log, predictions = target / "rows.jsonl", Path(known or "results/regression")
    shared: dict[str, Any] = {"workers": workers, "progress": _tell} | chosen
    draws = {k: [run for run in range(runs) if run % DRAWS < k] for k in (1, 2, DRAWS)}
    rows = run_study(log, predictions, methods=MAIN, runs=draws[DRAWS], **shared)
    others = {name: way for name, way in (METHODS | PARTS).items() if name not in MAIN}
    rows += run_study(log, predictions, methods=others, runs=draws[2], **shared)
    rows += run_study(log, predictions, methods=EXACT, runs=draws[1], **shared | {"most": 1000})
    rows += run_study(log, predictions, methods=PLUS, runs=draws[1], **shared)
    return write_tables(target, rows)


def write_tables(target: Path, rows: Sequence[Row]) -> list[Path]:
    """Write what rows say, and return the paths."""
    everything = [*rows, *hindsight(rows)]
    names = [*METHODS, HINDSIGHT, *EXACT, *PLUS]
    names.remove(EACH)
    found = ratios(everything, AUTO, SELECT)
    written = {
        "methods.md": method_table(everything, names, SELECT) + "\n",
        "parts.md": method_table(everything, [AUTO, *PARTS], SELECT) + "\n",
        "choice.md": choice_table(rows, list(PARTS), AUTO) + "\n",
        "evenness.md": evenness_table(rows, EVEN) + "\n",
        "cases.md": f"{told(found, rows)}\n\n{markdown(found)}\n",
        "cases.csv": cases_csv({name: ratios(everything, name, SELECT)
                                for name in (*names, *PARTS) if name != SELECT}),
    }  # fmt: skip
    for name, text in written.items():
        write_whole(target / name, partial(_fill, text))
    paths = [target / name for name in written]
    return paths + save_figure(draw_ratios(found), target, "regression", formats=("png",))


def told(found: Sequence[Ratio], rows: Sequence[Row]) -> str:
    """Return what the cases come to, in a few sentences."""
    parts = [
        f"{group}: {overall([r for r in found if r.group == group]):.3f}"
        for group in dict.fromkeys(r.group for r in found)
    ]
    return (
        f"Mean width {overall(found):.3f} of that of the best single score ({'; '.join(parts)}). "
        f"{summary(found)} {law_sentence(laws(rows, AUTO))}"
    )


def cases_csv(found: dict[str, list[Ratio]]) -> str:
    """Return every case of the study, one line each."""
    out = StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(
        ["method", "group", "data", "rows", "alpha", "runs", "ratio", "low", "high", "width",
         "width_of_select", "coverage", "coverage_low", "coverage_high"]
    )  # fmt: skip
    for name, cases in found.items():
        for r in cases:
            numbers = [r.ratio.mean, r.ratio.low, r.ratio.high, r.size, r.other, r.coverage.mean,
                       r.coverage.low, r.coverage.high]  # fmt: skip
            place = [name, r.group, r.setting, r.n_labelled, f"{r.alpha:g}", r.ratio.n]
            table.writerow([*place, *(f"{number:.5g}" for number in numbers)])
    return out.getvalue()


def draw_ratios(found: Sequence[Ratio]) -> Figure:
    """Return the picture of all cases: the ratio with its interval, by data set, rows and level."""
    places = list(dict.fromkeys((r.setting, r.n_labelled) for r in found))
    alphas = sorted({r.alpha for r in found})
    figure = new_figure(6.4, 1.0 + 0.28 * len(places))
    panel = figure.subplots()
    tidy(panel)
    panel.axvline(1.0, color="black", linewidth=0.8)
    handles: dict[float, Any] = {}
    for r in found:
        which = alphas.index(r.alpha)
        y = places.index((r.setting, r.n_labelled)) + 0.24 * (which - (len(alphas) - 1) / 2)
        ends = [[r.ratio.mean - r.ratio.low], [r.ratio.high - r.ratio.mean]]
        handles[r.alpha] = panel.errorbar(
            [r.ratio.mean], [y], xerr=ends, elinewidth=0.8, linestyle="none", markersize=3,
            color=PALETTE[which], marker=MARKERS[which],
        )  # fmt: skip
    panel.set_yticks(range(len(places)), [f"{name}, {n:,} rows" for name, n in places])
    panel.set_ylim(len(places) - 0.4, -0.6)  # the first on top
    panel.set_xlabel("mean width relative to the best single score")
    figure.legend(
        [handles[alpha] for alpha in alphas], [f"alpha = {alpha:g}" for alpha in alphas],
        loc="outside upper center", ncols=max(1, len(alphas)), frameon=False, fontsize=8,
    )  # fmt: skip
    return figure


def _fill(text: str, file: IO[bytes]) -> None:
    file.write(text.encode())


def _tell(text: str) -> None:
    sys.stderr.write(text + "\n")
