"""What the rows of the study say: ratios of widths, coverage and its law, evenness.

Intervals are over draws of labelled and test rows, given the data set and the models of a few
trainings, as in the study of classification, whose models are given too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from conformix.conformal import conformal_rank
from conformix.experiments.rows import Row
from studies.frontier.tables import Ratio, ratios
from studies.regression.tasks import TERCILES

EACH, HINDSIGHT = "each score", "best score in hindsight"


def hindsight(rows: Iterable[Row]) -> list[Row]:
    """Return rows of the score that is narrowest on the test rows of all runs of a case.

    Examples
    --------
    >>> row = {"method": "each score", "setting": "s", "n_labelled": 9, "alpha": 0.1, "key": "k"}
    >>> [one["size"] for one in hindsight([row | {"each": {"a": [2.0, 0.9], "b": [1.0, 0.8]}}])]
    [1.0]
    """
    cases: dict[tuple[str, int, float], list[Row]] = {}
    for row in rows:
        if row["method"] == EACH:
            place = (row["setting"], row["n_labelled"], row["alpha"])
            cases.setdefault(place, []).append(row)
    found = []
    for some in cases.values():
        names = list(some[0]["each"])
        best = min(names, key=lambda name: float(np.mean([row["each"][name][0] for row in some])))
        for row in some:
            size, coverage = row["each"][best]
            found.append(row | {"method": HINDSIGHT, "size": size, "coverage": coverage})
            for part in TERCILES:
                found[-1].pop(part, None)
    return found


def method_table(rows: Sequence[Row], methods: Sequence[str], other: str) -> str:
    """Return one line per method: width over that of `other`, coverage, and by terciles.

    Widths are geometric means over all cases that both have; coverages are means.

    Examples
    --------
    >>> print(method_table([], [], "select"))
    | method | draws | width | narrower in | largest | coverage at 0.9 | at 0.95 | by ... |
    |---|---|---|---|---|---|---|---|
    """
    head = ["method", "draws", "width", "narrower in", "largest", "coverage at 0.9", "at 0.95",
            "by terciles, at 0.9"]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for method in methods:
        mine = [row for row in rows if row["method"] == method]
        if not mine:
            continue
        cells = [method, _draws(mine)]
        if method == other:
            cells += ["1", "", ""]
        else:
            found = ratios(rows, method, other)
            means = [r.ratio.mean for r in found]
            cells += [
                f"{overall(found):.3f}",
                f"{sum(mean < 1 for mean in means)} of {len(means)}",
                f"{max(means):.3f}",
            ]
        cells += [_coverage(mine, 0.1), _coverage(mine, 0.05), _by_terciles(mine, 0.1)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _draws(rows: Sequence[Row]) -> str:
    """Return how many draws a case has, for people."""
    counts = Counter((row["setting"], row["n_labelled"], row["alpha"]) for row in rows).values()
    least, most = min(counts), max(counts)
    return f"{most}" if least == most else f"{least} to {most}"


def overall(found: Sequence[Ratio]) -> float:
    """Return the geometric mean of the ratios of all cases.

    Examples
    --------
    >>> bool(np.isnan(overall([])))
    True
    """
    return float(np.exp(np.mean([np.log(r.ratio.mean) for r in found]))) if found else float("nan")


def _coverage(rows: Sequence[Row], alpha: float, key: str = "coverage") -> str:
    cases: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        if row["alpha"] == alpha and key in row:
            cases.setdefault((row["setting"], row["n_labelled"]), []).append(row[key])
    return f"{np.mean([np.mean(values) for values in cases.values()]):.3f}" if cases else ""


def _by_terciles(rows: Sequence[Row], alpha: float) -> str:
    return " / ".join(filter(None, (_coverage(rows, alpha, part) for part in TERCILES)))


@dataclass(frozen=True)
class Law:
    """Coverage of one case beside its law.

    Parameters
    ----------
    setting, n_labelled, alpha
        Which case.
    mean, expected : float
        Coverage over all test rows and runs, and what it is on average, ``k / (n + 1)``.
    deviation : float
        The difference in standard deviations of the law.
    """

    setting: str
    n_labelled: int
    alpha: float
    mean: float
    expected: float
    deviation: float


def laws(rows: Iterable[Row], method: str) -> list[Law]:
    """Return coverage of a method with exact guarantee in every case, beside its law.

    Of n calibration rows and m test rows drawn together, in any order alike, the number of covered
    test rows is beta-binomial, whatever the rows are; draws are independent of each other.

    Examples
    --------
    >>> row = {"method": "auto", "setting": "s", "n_labelled": 9, "alpha": 0.1, "n_cal": 9,
    ...        "n_test": 10, "coverage": 0.9}
    >>> laws([row], "auto")[0].deviation
    0.0
    """
    cases: dict[tuple[str, int, float], list[Row]] = {}
    for row in rows:
        if row["method"] == method and row.get("n_cal"):
            place = (row["setting"], row["n_labelled"], row["alpha"])
            cases.setdefault(place, []).append(row)
    found = []
    for place, some in cases.items():
        mean = float(np.mean([row["coverage"] for row in some]))
        expected, variance = np.mean(
            [_moments(row["n_cal"], row["n_test"], place[2]) for row in some], axis=0
        )
        spread = np.sqrt(variance / len(some))
        found.append(Law(*place, mean, float(expected), float((mean - expected) / spread)))
    return found


def _moments(n: int, m: int, alpha: float) -> tuple[float, float]:
    """Return mean and variance of the share of m test rows that n calibration rows cover."""
    k = conformal_rank(n, alpha)
    share = k / (n + 1)
    return share, share * (1 - share) * (n + 1 + m) / (m * (n + 2))


def law_sentence(found: Sequence[Law]) -> str:
    """Return how far coverage is from its law, over all cases.

    Examples
    --------
    >>> law_sentence([])
    'no case'
    """
    if not found:
        return "no case"
    from scipy.stats import norm  # noqa: PLC0415  scipy loads late

    limit = float(norm.ppf(1 - 0.05 / len(found) / 2))
    worst = max(found, key=lambda law: abs(law.deviation))
    outside = sum(abs(law.deviation) > limit for law in found)
    return (
        f"Coverage lies outside its law in {outside} of {len(found)} cases (beyond {limit:.2f} "
        f"standard deviations, which all of them exceed together in 5 % of such studies). The "
        f"largest deviation is {worst.deviation:+.2f}: {worst.mean:.4f} where {worst.expected:.4f} "
        f"is expected ({worst.setting}, {worst.n_labelled:,} rows, alpha = {worst.alpha:g})."
    )


def choice_table(rows: Sequence[Row], methods: Sequence[str], other: str) -> str:
    """Return widths relative to `other` on the data sets that choose and on those that confirm.

    Examples
    --------
    >>> print(choice_table([], [], "auto"))
    | | chosen on | confirmed on |
    |---|---|---|
    """
    groups = ("chosen on", "confirmed on")
    lines = ["| | " + " | ".join(groups) + " |", "|---|---|---|"]
    for method in methods:
        found = ratios(rows, method, other)
        cells = [f"{overall([r for r in found if r.group == group]):.4f}" for group in groups]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def evenness_table(rows: Sequence[Row], methods: Sequence[str]) -> str:
    """Return coverage by terciles of the predicted size of the stack's residuals.

    Examples
    --------
    >>> print(evenness_table([], []))
    | method | alpha | easy | middle | hard |
    |---|---|---|---|---|
    """
    lines = ["| method | alpha | " + " | ".join(TERCILES) + " |", "|---|---|---|---|---|"]
    for method in methods:
        mine = [row for row in rows if row["method"] == method and TERCILES[0] in row]
        for alpha in sorted({row["alpha"] for row in mine}, reverse=True):
            cells = [_coverage(mine, alpha, part) for part in TERCILES]
            lines.append(f"| {method} | {alpha:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
