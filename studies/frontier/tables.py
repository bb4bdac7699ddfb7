"""What the rows of the study say: ratios of set sizes, with intervals that hold together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from conformix.atomic import write_whole
from conformix.experiments.rows import Row
from conformix.experiments.statistics import Estimate, interval

Place = tuple[str, int, float]
"""Setting, labelled rows, alpha."""
HALF = 10**9


@dataclass(frozen=True)
class Ratio:
    """Sizes of a method over those of another in one case.

    Parameters
    ----------
    setting, group : str
        Which models of which data set, and which kind of setting that is.
    n_labelled : int
        Labelled rows.
    half : bool
        Whether that is the whole half.
    alpha : float
        Allowed miscoverage.
    logs : dict of int to float
        By split: the logarithm of the ratio.
    ratio : Estimate
        Geometric mean of the paired ratios, with the simultaneous interval.
    size, other : float
        Mean sizes.
    coverage : Estimate
        Mean coverage, with the simultaneous interval.
    """

    setting: str
    group: str
    n_labelled: int
    half: bool
    alpha: float
    logs: dict[int, float]
    ratio: Estimate
    size: float
    other: float
    coverage: Estimate

    @property
    def larger(self) -> bool:
        """Whether the interval lies above 1.02."""
        return self.ratio.low > 1.02

    @property
    def covers(self) -> bool:
        """Whether the coverage is at the promise, as far as the interval can tell."""
        return self.coverage.high >= 1 - self.alpha

    @property
    def rows(self) -> int:
        """Labelled rows; the half of any data set has one number."""
        return HALF if self.half else self.n_labelled


def ratios(rows: Iterable[Row], method: str, other: str) -> list[Ratio]:
    """Return the ratio of two methods in every case, intervals corrected for their number.

    Parameters
    ----------
    rows : iterable of dict
        Rows of the study.
    method, other : str
        Whose sizes are divided by whose.

    Examples
    --------
    >>> shared = {"setting": "s", "group": "g", "n_labelled": 300, "half": False, "alpha": 0.1,
    ...           "coverage": 0.9}
    >>> rows = [{**shared, "method": m, "run": r, "size": s} for m, s in (("new", 1.0),
    ...         ("old", 2.0)) for r in (0, 1)]
    >>> ratios(rows, "new", "old")[0].ratio
    0.5 [0.5, 0.5]
    """
    by_place: dict[Place, dict[str, dict[int, Row]]] = {}
    for row in rows:
        place = (row["setting"], row["n_labelled"], row["alpha"])
        by_place.setdefault(place, {}).setdefault(row["method"], {})[row["run"]] = row
    both = [m for m in by_place.values() if method in m and other in m]
    return [_ratio(m[method], m[other], len(both)) for m in both]


def _ratio(mine: dict[int, Row], theirs: dict[int, Row], cases: int) -> Ratio:
    runs = sorted(mine.keys() & theirs.keys())
    own, other = (np.array([rows[r]["size"] for r in runs]) for rows in (mine, theirs))
    tiny = np.finfo(float).tiny
    logs = np.log(np.maximum(own, tiny)) - np.log(np.maximum(other, tiny))
    first = mine[runs[0]]
    return Ratio(
        first["setting"], first["group"], first["n_labelled"], bool(first["half"]), first["alpha"],
        dict(zip(runs, logs.tolist(), strict=True)), _powers(interval(logs, comparisons=cases)),
        float(own.mean()), float(other.mean()),
        interval([mine[r]["coverage"] for r in runs], comparisons=cases),
    )  # fmt: skip


def _powers(logs: Estimate) -> Estimate:
    mean, low, high = (float(np.exp(x)) for x in (logs.mean, logs.low, logs.high))
    return Estimate(mean, low, high, sd=logs.sd, n=logs.n)


def summary(found: Sequence[Ratio]) -> str:
    """Return how many cases are below one, how many are larger or break the promise.

    Examples
    --------
    >>> summary([])
    'no case'
    """
    if not found:
        return "no case"
    means = [r.ratio.mean for r in found]
    return (
        f"{len(found)} cases: the ratio is below one in {sum(mean < 1 for mean in means)}; its "
        f"interval lies below one in {sum(r.ratio.high < 1 for r in found)} and above 1.02 in "
        f"{sum(r.larger for r in found)}; coverage lies below the promise in "
        f"{sum(not r.covers for r in found)}. Largest ratio {max(means):.3f}."
    )


def group_table(found: Sequence[Ratio]) -> str:
    """Return the geometric means over the settings of every group, with the largest ratio.

    The mean over the settings is taken in every split that all of them have, and its interval over
    these splits.

    Examples
    --------
    >>> print(group_table([]))
    | settings | labelled rows |
    |---|---|
    """
    alphas = sorted({r.alpha for r in found})
    cells: dict[tuple[str, int, float], list[Ratio]] = {}
    for r in found:
        cells.setdefault((r.group, r.rows, r.alpha), []).append(r)
    head = ["settings", "labelled rows", *(f"alpha = {alpha:g}" for alpha in alphas)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    order = list(dict.fromkeys(r.group for r in found))
    for group, rows in sorted({c[:2] for c in cells}, key=lambda c: (order.index(c[0]), c[1])):
        texts = []
        for alpha in alphas:
            some = cells.get((group, rows, alpha), [])
            texts.append(_group_cell(some, len(cells)) if some else "")
        n = len({r.setting for r in found if r.group == group and r.rows == rows})
        name = "half" if rows == HALF else f"{rows:,}"
        lines.append(f"| {group} ({n}) | {name} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _group_cell(some: Sequence[Ratio], cells: int) -> str:
    runs = set.intersection(*(set(r.logs) for r in some))
    means = [float(np.mean([r.logs[run] for r in some])) for run in sorted(runs)]
    mean = _powers(interval(means, comparisons=cells))
    largest = max(r.ratio.mean for r in some)
    return f"{mean.mean:.3f} [{mean.low:.3f}, {mean.high:.3f}]; {largest:.2f}"


def parts_table(rows: Sequence[Row], methods: Sequence[str]) -> str:
    """Return sizes without a part relative to ``auto``: geometric means over settings and splits.

    Examples
    --------
    >>> print(parts_table([], []))
    | | settings |
    |---|---|
    """
    found = {method: ratios(rows, method, "auto") for method in methods}
    everything = [r for some in found.values() for r in some]
    places = sorted({(r.rows, r.alpha) for r in everything})
    heads = [f"{'half' if n == HALF else f'{n:,}'}, {alpha:g}" for n, alpha in places]
    lines = ["| " + " | ".join(["", "settings", *heads]).strip() + " |"]
    lines.append("|" + "---|" * (2 + len(places)))
    for method in methods:
        for group in dict.fromkeys(r.group for r in found[method]):
            if all(r.size == r.other for r in found[method] if r.group == group):
                continue  # these settings have no such part
            cells = []
            for place in places:
                logs = [
                    np.log(r.ratio.mean) for r in found[method]
                    if r.group == group and (r.rows, r.alpha) == place
                ]  # fmt: skip
                cells.append(f"{np.exp(np.mean(logs)):.3f}" if logs else "")
            lines.append(f"| {method} | {group} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def choice_table(rows: Sequence[Row], methods: Sequence[str], other: str) -> str:
    """Return which form the other data sets choose, and what that one gives on the one left out.

    Chosen is the form with the smallest geometric mean of sizes relative to `other`, over all
    settings, rows and levels of the other data sets.

    Examples
    --------
    >>> print(choice_table([], [], "auto of 0.1.0"))
    | left out | settings | the others choose | its sizes there | sizes of `auto` there |
    |---|---|---|---|---|
    """
    lines = [
        "| left out | settings | the others choose | its sizes there | sizes of `auto` there |"
    ]
    lines.append("|---|---|---|---|---|")
    found = _by_data(rows, methods, other)
    chosen = chosen_without(rows, methods, other)
    for data, form in chosen.items():
        settings = len({r.setting for r in found["auto"][data]})
        sizes = [f"{_geometric(found[name][data]):.3f}" for name in (form, "auto")]
        lines.append(f"| {data} | {settings} | {form} | " + " | ".join(sizes) + " |")
    return "\n".join(lines)


def chosen_without(rows: Sequence[Row], methods: Sequence[str], other: str) -> dict[str, str]:
    """Return, by data set, the form with the smallest sets on all others.

    Examples
    --------
    >>> chosen_without([], [], "auto of 0.1.0")
    {}
    """
    found = _by_data(rows, methods, other)
    return {
        data: min(methods, key=lambda form: _geometric(
            [r for name, some in found[form].items() if name != data for r in some]))
        for data in (found["auto"] if found else ())
    }  # fmt: skip


def left_out_table(rows: Sequence[Row], methods: Sequence[str], other: str) -> str:
    """Return sizes by group: of ``auto``, and of what was chosen without the data set at hand.

    Examples
    --------
    >>> print(left_out_table([], [], "auto of 0.1.0"))
    | settings |
    |---|
    """
    found = _by_data(rows, methods, other)
    chosen = chosen_without(rows, methods, other)
    pairs = {
        name: [r for data, form in chosen.items() for r in found[name or form][data]]
        for name in ("auto", "")
    }
    places = sorted({(r.rows, r.alpha) for r in pairs["auto"]})
    heads = [f"{'half' if n == HALF else f'{n:,}'}, {alpha:g}" for n, alpha in places]
    lines = ["| " + " | ".join(["settings", *heads]) + " |", "|" + "---|" * (1 + len(places))]
    for group in dict.fromkeys(r.group for r in pairs["auto"]):
        cells = []
        for place in places:
            some = [
                [r for r in pairs[name] if r.group == group and (r.rows, r.alpha) == place]
                for name in ("auto", "")
            ]
            cells.append(" / ".join(f"{_geometric(part):.3f}" for part in some) if some[0] else "")
        lines.append(f"| {group} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _by_data(
    rows: Sequence[Row], methods: Sequence[str], other: str
) -> dict[str, dict[str, list[Ratio]]]:
    """Return the ratios of every form, by data set, over the splits that all forms have."""
    runs = [{row["run"] for row in rows if row["method"] == form} for form in methods]
    shared = set.intersection(*runs) if runs else set()
    some = [row for row in rows if row["run"] in shared]
    everywhere: dict[str, dict[str, list[Ratio]]] = {}
    for form in methods:
        by_data: dict[str, list[Ratio]] = everywhere.setdefault(form, {})
        for r in ratios([row for row in some if row["method"] in (form, other)], form, other):
            # The trio of CIFAR-10 are other networks on the same images.
            data = r.setting.partition(",")[0].removesuffix("_trio")
            by_data.setdefault(data, []).append(r)
    return everywhere


def _geometric(some: Sequence[Ratio]) -> float:
    return float(np.exp(np.mean([np.log(r.ratio.mean) for r in some])))


KINDS = {
    "mean over classes": "class coverage",
    "distance of a class from the promise": "class gap",
    "rarest third": "rare coverage",
}
# Where classes have as many rows as each other, any third is the rarest.
TAILED = "long tails"


def class_table(rows: Sequence[Row], method: str, other: str) -> str:
    """Return coverage by class, before and after, as means over settings and splits.

    Examples
    --------
    >>> class_table([], "auto", "auto of 0.1.0").splitlines()[0]
    '| settings | labelled rows | alpha | mean over classes | distance of a class from the ... |'
    """
    cells: dict[tuple[str, int, float], dict[str, list[Row]]] = {}
    for row in rows:
        if row["method"] in (method, other):
            place = (row["group"], HALF if row["half"] else row["n_labelled"], row["alpha"])
            cells.setdefault(place, {}).setdefault(row["method"], []).append(row)
    head = ["settings", "labelled rows", "alpha", *KINDS]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    order = list(dict.fromkeys(group for group, _, _ in cells))
    for place in sorted(cells, key=lambda p: (order.index(p[0]), *p[1:])):
        group, n, alpha = place
        texts = []
        for key in KINDS.values():
            pair = [_mean_of_settings(cells[place][name], key) for name in (other, method)]
            shown = group == TAILED or key != "rare coverage"
            texts.append(f"{pair[0]:.3f} to {pair[1]:.3f}" if shown else "")
        name = "half" if n == HALF else f"{n:,}"
        lines.append(f"| {group} | {name} | {alpha:g} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _mean_of_settings(rows: Sequence[Row], key: str) -> float:
    settings: dict[str, list[float]] = {}
    for row in rows:
        settings.setdefault(row["setting"], []).append(row[key])
    return float(np.mean([np.mean(values) for values in settings.values()]))


def markdown(found: Sequence[Ratio]) -> str:
    """Return all cases as a Markdown table, settings down, levels across."""
    alphas = sorted({r.alpha for r in found})
    head = ["models", "labelled rows", *(f"alpha = {alpha:g}" for alpha in alphas)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    by_place = {(r.setting, r.n_labelled, r.alpha): r for r in found}
    for setting, rows in dict.fromkeys((r.setting, r.n_labelled) for r in found):
        cells = []
        for alpha in alphas:
            r = by_place.get((setting, rows, alpha))
            cells.append("" if r is None else _cell(r))
        lines.append(f"| {setting} | {rows:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(r: Ratio) -> str:
    text = f"{r.ratio.mean:.3f} [{r.ratio.low:.3f}, {r.ratio.high:.3f}]"
    return f"{text}{' larger' if r.larger else ''} ({r.size:.3g}; {r.coverage.mean:.3f})"


def head(names: Sequence[str]) -> list[str]:
    """Return the first two lines of a table with these columns."""
    return ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]


def geometric_mean(some: Sequence[Ratio]) -> str:
    """Return the geometric mean over settings, with its error over splits, which these share."""
    shared = sorted(set.intersection(*(set(r.logs) for r in some)))
    logs = np.array([np.mean([r.logs[run] for r in some]) for run in shared])
    error = logs.std(ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
    return f"{np.exp(logs.mean()):.3f} +- {np.exp(logs.mean()) * error:.3f}"


def write_text(path: Path, text: str) -> None:
    """Write a table, whole or not at all."""

    def fill(file: IO[bytes]) -> None:
        file.write(text.encode())

    write_whole(path, fill)
