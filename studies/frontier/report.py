"""Everything that docs/frontier.md shows: tables as Markdown, all cases as CSV, pictures."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from conformix.atomic import write_whole
from conformix.experiments.rows import Row
from conformix.plots.style import MARKERS, PALETTE, explain_with, new_figure, save_figure, tidy
from conformix.scores.blend import DICTIONARY
from studies.frontier.averaged import Averaging
from studies.frontier.baseline import Chosen
from studies.frontier.blended import ABLATIONS
from studies.frontier.cases import HELD_OUT, STUDIED
from studies.frontier.run import METHODS, PLAIN, RUNS, run_frontier
from studies.frontier.tables import Ratio, frontier_tables, ratios

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEARCHED = {
    "thr, aps, rank by set size": Averaging(("thr", "aps", "rank")),
    "the dictionary by set size": Averaging(DICTIONARY),
}
ABLATED = tuple(s for s in STUDIED if s.label in {
    "cifar100, two good models and a bad one", "cifar100, wideresnet_16_4",
    "cifar10_trio, resnet56", "vlm_mmbench, 26 models",
})  # fmt: skip
ABLATION_RUNS = 10


def write_frontier(folder: str | Path, *, runs: int = RUNS, workers: int = 2) -> list[Path]:
    """Run what is not there yet, write tables, cases and pictures, and return their paths.

    Parameters
    ----------
    folder : path
        Where rows are kept and everything is written.
    runs : int
        Random splits in halves.
    workers : int
        Processes.
    """
    target = Path(folder)
    main = {name: METHODS[name] for name in ("baseline", "auto")}
    shared: dict[str, Any] = {"workers": workers, "progress": _tell}
    rows = run_frontier(target / "rows.jsonl", methods=main, runs=runs, **shared)
    plain = run_frontier(
        target / "rows.jsonl", settings=STUDIED[:1], runs=runs,
        methods={PLAIN: Chosen(warm_ensembles=False), "auto": METHODS["auto"]}, **shared,
    )  # fmt: skip
    few = {"runs": min(runs, ABLATION_RUNS), "alphas": (0.01, 0.05), **shared}
    ablated = run_frontier(target / "rows.jsonl", settings=ABLATED, methods=ABLATIONS, **few)
    # With many models a search by size takes minutes where a likelihood takes milliseconds.
    alone = [setting for setting in ABLATED if len(setting.models) == 1]
    ablated += run_frontier(target / "rows.jsonl", settings=alone, methods=SEARCHED, **few)
    both = {name: METHODS[name] for name in ("auto", "auto, exact")}
    exact = run_frontier(
        target / "rows.jsonl", settings=STUDIED, methods=both, runs=few["runs"], **shared
    )
    others = [name for name in (*ABLATIONS, *SEARCHED) if name != "auto"]
    held = {setting.label for setting in HELD_OUT}
    studied = [row for row in rows if row["setting"] not in held]
    unseen = [row for row in rows if row["setting"] in held]
    found = ratios(studied, "auto")
    written = {
        "studied.md": frontier_tables(studied) + "\n",
        "held_out.md": frontier_tables(unseen) + "\n",
        "plain.md": frontier_tables(plain, "auto", PLAIN) + "\n",
        "exact.md": frontier_tables(exact, "auto, exact", "auto") + "\n",
        "ablation.md": ablation_table(ablated, others) + "\n",
        "cases.csv": cases_csv(rows),
    }
    for name, text in written.items():
        write_whole(target / name, partial(_fill, text))
    paths = [target / name for name in written]
    return paths + save_figure(draw(found), target, "frontier", formats=("png",))


def ablation_table(rows: Sequence[Row], methods: Sequence[str]) -> str:
    """Return sizes relative to ``auto`` as Markdown: geometric means over settings and splits."""
    places = sorted({(r["n_calibrate"] if not r["half"] else 10**9, r["alpha"]) for r in rows})
    heads = [f"{'half' if n == 10**9 else n}, {alpha:g}" for n, alpha in places]
    head = ["instead of auto", *heads, "largest"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for method in methods:
        found = ratios(rows, method, "auto")
        cells = []
        for n, alpha in places:
            logs = [
                np.log(r.ratio.mean) for r in found
                if r.alpha == alpha and (r.half if n == 10**9 else r.n_calibrate == n)
            ]  # fmt: skip
            cells.append(f"{np.exp(np.mean(logs)):.3f}" if logs else "")
        worst = max(found, key=lambda r: r.ratio.mean)
        cells.append(f"{worst.ratio.mean:.3f} ({worst.setting})")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cases_csv(rows: Sequence[Row]) -> str:
    """Return every case of the study, one line each."""
    out = StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(
        ["setting", "rows", "alpha", "splits", "ratio", "low", "high", "size", "baseline_size",
         "coverage", "coverage_low", "coverage_high"]
    )  # fmt: skip
    for r in ratios(rows, "auto"):
        numbers = [r.ratio.mean, r.ratio.low, r.ratio.high, r.size, r.other, r.coverage.mean,
                   r.coverage.low, r.coverage.high]  # fmt: skip
        told = [f"{number:.5g}" for number in numbers]
        table.writerow([r.setting, r.n_calibrate, f"{r.alpha:g}", r.ratio.n, *told])
    return out.getvalue()


def draw(found: Sequence[Ratio]) -> Figure:
    """Return the picture of all cases: the ratio with its interval, by rows and level."""
    settings = list(dict.fromkeys(r.setting for r in found))
    alphas = sorted({r.alpha for r in found})
    figure = new_figure(6.8, 0.6 + 0.34 * len(settings))
    panels = figure.subplots(1, 3, sharey=True)
    titles = ("300 rows", "1,000 rows", "half of the rows")
    for panel, title in zip(panels, titles, strict=True):
        tidy(panel, title=title, xlabel="size / baseline")
        panel.axvline(1.0, color="black", linewidth=0.8)
        panel.set_xscale("log")
        panel.set_xticks([0.5, 0.7, 1.0, 1.4], ["0.5", "0.7", "1", "1.4"])
        panel.minorticks_off()
    handles: dict[float, Any] = {}
    for r in found:
        panel = panels[2 if r.half else 0 if r.n_calibrate == 300 else 1]
        which = alphas.index(r.alpha)
        y = settings.index(r.setting) + 0.18 * (which - (len(alphas) - 1) / 2)
        look = {"color": PALETTE[which], "marker": MARKERS[which], "markersize": 3}
        ends = [[r.ratio.mean - r.ratio.low], [r.ratio.high - r.ratio.mean]]
        handles[r.alpha] = panel.errorbar(
            [r.ratio.mean], [y], xerr=ends, elinewidth=0.8, linestyle="none", **look
        )
    panels[0].set_yticks(range(len(settings)), settings)
    panels[0].invert_yaxis()
    for panel in panels:
        panel.set_xlim(0.45, 1.6)
    names = [f"alpha = {alpha:g}" for alpha in alphas]
    explain_with(panels[0], [handles[alpha] for alpha in alphas], names, loc="lower left")
    return figure


def _fill(text: str, file: IO[bytes]) -> None:
    file.write(text.encode())


def _tell(text: str) -> None:
    sys.stderr.write(text + "\n")
