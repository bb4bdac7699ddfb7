"""What the rows of the study say: ratios of set sizes, with intervals that hold together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from conformix.experiments.rows import Row
from conformix.experiments.statistics import Estimate, interval

Place = tuple[str, int, float]
"""Setting, calibration rows, alpha."""


@dataclass(frozen=True)
class Ratio:
    """Sizes of a method over those of another in one case.

    Parameters
    ----------
    setting : str
        Which models of which data set.
    n_calibrate : int
        Calibration rows.
    half : bool
        Whether that is the whole half.
    alpha : float
        Allowed miscoverage.
    ratio : Estimate
        Geometric mean of the paired ratios, with the simultaneous interval.
    size, other : float
        Mean sizes.
    coverage : Estimate
        Mean coverage, with the simultaneous interval.
    """

    setting: str
    n_calibrate: int
    half: bool
    alpha: float
    ratio: Estimate
    size: float
    other: float
    coverage: Estimate

    @property
    def bound(self) -> float:
        """What the lower end of the interval must not exceed."""
        return 1.03 if self.n_calibrate <= 300 else 1.02

    @property
    def covers(self) -> bool:
        """Whether the coverage is at the promise, as far as the interval can tell."""
        return self.coverage.high >= 1 - self.alpha


def ratios(rows: Iterable[Row], method: str, other: str = "baseline") -> list[Ratio]:
    """Return the ratio of two methods in every case, intervals corrected for their number.

    Parameters
    ----------
    rows : iterable of dict
        Rows of the study.
    method, other : str
        Whose sizes are divided by whose.

    Examples
    --------
    >>> shared = {"setting": "s", "n_calibrate": 300, "half": False, "alpha": 0.1, "coverage": 0.9}
    >>> rows = [{**shared, "method": m, "run": r, "size": s} for m, s in (("auto", 1.0),
    ...         ("baseline", 2.0)) for r in (0, 1)]
    >>> ratios(rows, "auto")[0].ratio
    0.5 [0.5, 0.5]
    """
    by_place: dict[Place, dict[str, dict[int, Row]]] = {}
    for row in rows:
        place = (row["setting"], row["n_calibrate"], row["alpha"])
        by_place.setdefault(place, {}).setdefault(row["method"], {})[row["run"]] = row
    kept = {p: m for p, m in by_place.items() if method in m and other in m}
    return [_ratio(p, m[method], m[other], len(kept)) for p, m in kept.items()]


def _ratio(place: Place, mine: dict[int, Row], theirs: dict[int, Row], cases: int) -> Ratio:
    runs = sorted(mine.keys() & theirs.keys())
    own, other = (np.array([rows[r]["size"] for r in runs]) for rows in (mine, theirs))
    tiny = np.finfo(float).tiny
    logs = np.log(np.maximum(own, tiny)) - np.log(np.maximum(other, tiny))
    found = interval(logs, comparisons=cases)
    ends = [float(np.exp(x)) for x in (found.mean, found.low, found.high)]
    covered = interval([mine[r]["coverage"] for r in runs], comparisons=cases)
    ratio = Estimate(ends[0], ends[1], ends[2], sd=found.sd, n=found.n)
    half = bool(mine[runs[0]]["half"])
    return Ratio(
        place[0], place[1], half, place[2], ratio, float(own.mean()), float(other.mean()), covered
    )


def summary(found: Sequence[Ratio]) -> dict[str, float]:
    """Return how many cases are below one, how many break the bound or the promise.

    Examples
    --------
    >>> summary([])["cases"]
    0
    """
    means = [r.ratio.mean for r in found]
    return {
        "cases": len(found),
        "below one": sum(mean < 1 for mean in means),
        "above the bound": sum(r.ratio.low > r.bound for r in found),
        "below the promise": sum(not r.covers for r in found),
        "geometric mean": float(np.exp(np.mean(np.log(means)))) if means else float("nan"),
        "largest ratio": max(means, default=float("nan")),
    }


def markdown(found: Sequence[Ratio]) -> str:
    """Return all cases as a Markdown table, settings down, rows and levels across."""
    alphas = sorted({r.alpha for r in found})
    head = ["models", "rows", *(f"alpha = {alpha:g}" for alpha in alphas)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    by_place = {(r.setting, r.n_calibrate, r.alpha): r for r in found}
    for setting, rows in dict.fromkeys((r.setting, r.n_calibrate) for r in found):
        cells = []
        for alpha in alphas:
            r = by_place.get((setting, rows, alpha))
            cells.append("" if r is None else _cell(r))
        lines.append(f"| {setting} | {rows:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(r: Ratio) -> str:
    text = f"{r.ratio.mean:.3f} [{r.ratio.low:.3f}, {r.ratio.high:.3f}]"
    marks = "" if r.ratio.low <= r.bound else " larger"
    return f"{text}{marks} ({r.size:.3g}; {r.coverage.mean:.3f})"


def frontier_tables(rows: Iterable[Row], method: str = "auto", other: str = "baseline") -> str:
    """Return the summary and all cases as Markdown.

    Examples
    --------
    >>> frontier_tables([]).splitlines()[0]
    '0 cases: the ratio is below one in 0, its interval lies above the bound in 0, coverage lies'
    """
    found = ratios(rows, method, other)
    told = summary(found)
    text = (
        f"{told['cases']} cases: the ratio is below one in {told['below one']}, its interval lies "
        f"above the bound in {told['above the bound']}, coverage lies\nbelow the promise in "
        f"{told['below the promise']}. Geometric mean of the ratios {told['geometric mean']:.3f}, "
        f"largest {told['largest ratio']:.3f}."
    )
    return text + ("\n\n" + markdown(found) if found else "")
