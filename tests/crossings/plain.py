"""The definitions, slowly: what a fit must be, from its scores, its roles and its weights.

Nothing here calls the library but for the scores of the outputs, which have tests of their own,
and the clusters of a k-means, which are drawn. Ranks, counts and levels are integers and fractions.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy import stats

import conformix as cx
from crossings.fits import (
    BY_HAND,
    DELTA,
    RESOLUTION,
    Case,
    LabelledRows,
    candidates,
    finest,
    n_grid,
)

ALWAYS, EVERY = "always in", "as all rows"
MANY_CURVE_POINTS = 2**12


@cache
def level(alpha: float) -> Fraction:
    """The fraction that a float stands for: all levels here have small denominators."""
    return Fraction(alpha).limit_denominator(1000)


@cache
def exceeds(part: Any, whole: Any, alpha: float) -> bool:
    """Whether ``part / whole > alpha``, in fractions."""
    return Fraction(part, whole) > level(alpha)


@cache
def plain_rank(n: int, alpha: float) -> int:
    """The smallest k with ``k / (n + 1) >= 1 - alpha``, by counting up."""
    k = 0
    while Fraction(k, n + 1) < 1 - level(alpha):
        k += 1
    return k


@cache
def pac_rank(n: int, alpha: float, n_weights: int) -> int:
    """The smallest k of which a union of M binomial tails stays below delta; n + 1 if none does.

    ``P(Beta(k, n+1-k) <= 1 - alpha)`` is the chance that k of n uniform numbers are that small.
    """
    for k in range(1, n + 1):
        if n_weights * stats.binom.sf(k - 1, n, float(1 - level(alpha))) <= DELTA:
            return k
    return n + 1


@cache
def batch_pac_rank(n: int, m: int, alpha: float, n_weights: int) -> int:
    needed = math.ceil(m * (1 - level(alpha)))
    for k in range(1, n + 1):
        if n_weights * sum(beta_binomial(n, k, m)[:needed]) <= DELTA:
            return k
    return n + 1


def beta_binomial(n: int, k: int, m: int) -> list[float]:
    """The law of covered rows among m, by counting the orders of n + m rows."""
    every = math.comb(n + m, m)
    return [math.comb(h + k - 1, h) * math.comb(m - h + n - k, m - h) / every for h in range(m + 1)]


def combined(scores: np.ndarray, weights: Any) -> np.ndarray:
    """The ordered sum of products."""
    total = scores[..., 0] * weights[0]
    for j in range(1, scores.shape[-1]):
        total = total + scores[..., j] * weights[j]
    return total


def lifted(values: np.ndarray) -> np.ndarray:
    """Row maxima, all that tie, are infinite."""
    return np.where(values == values.max(axis=1, keepdims=True), math.inf, values)


@dataclass(frozen=True, eq=False)
class Fit:
    """What a case must be fitted to, given the weights that its search found."""

    case: Case
    model: cx.ScoreAverage
    roles: Any  # of the split in two, where one was drawn

    # Who does what.

    @cached_property
    def settled(self) -> bool:
        """Whether nothing is chosen or learnt, so that all rows calibrate."""
        case = self.case
        if case.by_hand:
            return True
        learns = case["calibration"] in (
            "class, pooled", "class, marginal", "cluster", "group, pooled",
            "group and class, marginal", "rc3p",
        )  # fmt: skip
        alone = case.d == 1 and case["search"] != "candidates" and case["normalize"] != "ecdf"
        return case["split"] == "vfcp" and alone and not learns

    @property
    def apart(self) -> bool:
        """Whether the tuning rows stay out of calibration."""
        return self.settled or str(self.case["split"]).startswith("vfcp")

    @cached_property
    def tune(self) -> np.ndarray:
        n = len(self.case.rows["fit"])
        if self.settled:
            return np.arange(0)
        if self.roles is not None:
            return np.asarray(self.roles.tune)
        return np.arange(0 if self.case.exact else n)

    @cached_property
    def calibrate(self) -> np.ndarray:
        n = len(self.case.rows["fit"])
        return np.arange(n) if self.roles is None else np.setdiff1d(np.arange(n), self.tune)

    @property
    def n_test(self) -> int:
        transductive = str(self.case["split"]).startswith("dlcp")
        return len(self.case.rows["test"]) if transductive else 0

    # Scores and their scale.

    def scores(self, rows: LabelledRows) -> np.ndarray:
        predictor = self.model.predictor_
        return np.asarray(predictor.scores(predictor.check(self.case.outputs(rows, "float64"))))

    @property
    def normalizer(self) -> str:
        wish = str(self.case["normalize"])
        if wish == "widths":
            return "scale"
        if wish != "auto":
            return wish
        if self.case.exact:
            return "none"
        return "ecdf" if self.apart and not self.settled else "scale"

    @property
    def learnt_scale(self) -> bool:
        return self.normalizer == "ecdf" and not self.apart and not self.case.exact

    @cached_property
    def units(self) -> list[float]:
        """Natural widths: those of raps and of the margin and of the entropy are not one."""
        k = self.case.n_classes
        if self.case["normalize"] == "widths":
            return [1.0, 2.0, 0.5, 4.0][: self.case.d]
        if self.case["scores"] == "options":
            return [1.0 + 0.1 * max(k - 2, 0), 2.0, max(math.log(k), 1.0)]
        return [1.0] * self.case.d

    @cached_property
    def curves(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The distribution functions of the scores of the tuning rows.

        Where values are very many the library keeps some of them, which it may choose.
        """
        own = self.scores(self.case.rows["fit"].take(self.tune))
        found = []
        for j in range(self.case.d):
            values = np.sort(own[..., j].ravel())
            points = np.unique(values)
            if len(points) > MANY_CURVE_POINTS:
                fitted: Any = self.model.predictor_.fitted
                kept = (fitted.transform if self.case.exact else fitted.rule.transform).knots[j]
                assert set(kept) <= set(points)
                assert (kept[0], kept[-1]) == (points[0], points[-1])
                points = kept
            rising = values.tolist()
            shares = np.array([bisect_right(rising, point) for point in points.tolist()])
            found.append((points, shares / len(values)))
        return found

    def on_scale(self, scores: np.ndarray) -> np.ndarray:
        if self.normalizer == "none":
            return scores
        out = np.empty_like(scores)
        for j in range(self.case.d):
            if self.normalizer == "scale":
                out[..., j] = scores[..., j] * (1.0 / self.units[j])
            else:
                out[..., j] = interpolated(scores[..., j], *self.curves[j])
        return out

    @cached_property
    def scaled(self) -> dict[str, np.ndarray]:
        """Scores of all rows on the scale of the fit."""
        return {name: self.on_scale(self.scores(rows)) for name, rows in self.case.rows.items()}

    # The rule.

    @cached_property
    def weights(self) -> np.ndarray:
        return np.asarray(BY_HAND[self.case.d] if self.case.by_hand else self.model.weights_)

    @cached_property
    def limits(self) -> tuple[np.ndarray, float] | None:
        """The largest rank of every class (RC3P), and how far labels beyond it fall."""
        if self.case["calibration"] != "rc3p":
            return None
        values = combined(self.scaled["fit"][self.tune], self.weights)
        y, share = self.case.rows["fit"].y[self.tune], Fraction(4, 5) * level(self.case["alpha"])
        ranks = np.array([1 + sum(row > row[label]) for row, label in zip(values, y, strict=True)])
        most = np.full(self.case.n_classes, self.case.n_classes)
        for label in np.unique(y):
            own = ranks[y == label]
            most[label] = min(
                k for k in range(1, self.case.n_classes + 1)
                if Fraction(int(sum(own > k)), len(own)) <= share
            )  # fmt: skip
        return most, float(values.max() - values.min()) + 1

    def rule(self, scaled: np.ndarray, weights: Any = None) -> np.ndarray:
        """One number per label of every row."""
        values = combined(scaled, self.weights if weights is None else weights)
        if self.limits is not None:
            most, drop = self.limits
            ranks = 1 + (values[:, None, :] > values[:, :, None]).sum(axis=2)
            values = np.where(ranks <= most, values, values - drop)
        return values if self.case["allow_empty"] else lifted(values)

    # Thresholds.

    @cached_property
    def n_weights(self) -> int:
        """Among how many weights the search chose; 0 where it does not say."""
        case = self.case
        if self.settled:
            return 1
        if case["search"] == "candidates":
            return len(candidates(case.d))
        resolution = {"grid": RESOLUTION, "auto": finest(case.d)}.get(case["search"])
        return 0 if resolution is None else n_grid(case.d, resolution)

    def rank(self, n: int, alpha: float, *, fresh: bool = False) -> int:
        if self.case["guarantee"] != "pac" or n == 0:
            return plain_rank(n, alpha)
        if fresh or self.apart:
            return pac_rank(n, alpha, 1)
        if self.n_test:
            return batch_pac_rank(n, self.n_test, alpha, self.n_weights)
        return pac_rank(n, alpha, self.n_weights)

    @cached_property
    def seen(self) -> np.ndarray:
        """The rows that lay down strata."""
        apart = (self.apart and not self.settled) or self.case["calibration"] == "cluster"
        return self.tune if apart else self.calibrate

    @property
    def least(self) -> int:
        """How many rows a class, group or pair needs for a threshold of its own."""
        needed = math.ceil(1 / level(self.case["alpha"])) - 1
        return {"class, pooled": 9, "class, marginal": 9, "group, pooled": needed,
                "group and class, marginal": 4}.get(str(self.case["calibration"]), 0)  # fmt: skip

    @cached_property
    def rare(self) -> set[Any]:
        """Classes, groups or pairs with too few rows for a threshold of their own."""
        case, name = self.case, str(self.case["calibration"])
        rows = case.rows["fit"].take(self.seen)
        if name == "clusters given":
            return {1}
        if name == "cluster":
            return {y for y in range(case.n_classes) if sum(rows.y == y) < 3}
        least = self.least
        by_class, by_group = name.startswith("class") or "and class" in name, "group" in name
        groups = sorted(set(case.rows["fit"].strata)) if by_group else [None]
        units = [(g, y) for g in groups for y in (range(case.n_classes) if by_class else [None])]
        found = set()
        for g, y in units:
            own = np.ones(len(rows), dtype=bool) if g is None else rows.strata == g
            own = own & (rows.y == y) if y is not None else own
            expected = Fraction(int(own.sum()) * len(self.calibrate), len(rows))
            if expected < least:
                found.add(y if not by_group else (g, y) if by_class else g)
        return found

    @cached_property
    def _cells(self) -> dict[tuple[str, int], Any]:
        return {}

    def cell(self, stratum: str, label: int) -> Any:
        """Whose calibration rows a label of a row is compared with."""
        if (stratum, label) not in self._cells:
            self._cells[stratum, label] = self._cell(stratum, label)
        return self._cells[stratum, label]

    def _cell(self, stratum: str, label: int) -> Any:
        name = str(self.case["calibration"])
        if name.split(",", maxsplit=1)[0] in ("marginal", "weighted", "label shift"):
            return EVERY
        if name == "cluster":
            unit = "rare" if label in self.rare else int(self.clusters[label])
        elif name == "clusters given":
            unit = "rare" if label == 1 else label % 2
        elif name.startswith("group"):
            known = stratum in set(self.case.rows["fit"].strata)
            unit = (stratum, label) if "and class" in name else stratum
            if not known or unit in self.rare:
                unit = "rare"
        else:
            unit = "rare" if label in self.rare else label
        if unit != "rare":
            return ("own", unit)
        fallback = {"class, pooled": "rare", "cluster": "rare", "clusters given": "rare",
                    "group, pooled": "rare", "class, marginal": EVERY,
                    "group and class, marginal": EVERY}  # fmt: skip
        return fallback.get(name, ALWAYS)

    @cached_property
    def clusters(self) -> np.ndarray:
        """Learnt clusters, which are drawn: taken from the fit, and the same for the rare ones."""
        fitted: Any = self.model.predictor_.fitted
        (cells,) = fitted.plan.cells
        null = [int(cells[y]) for y in sorted(self.rare)]
        others = {int(cell) for y, cell in enumerate(cells) if y not in self.rare}
        assert len(set(null)) <= 1
        assert len(others) <= 2
        assert not others & set(null)
        return cells

    @cached_property
    def calibrated(self) -> Calibrated:
        rows = self.case.rows["fit"].take(self.calibrate)
        return Calibrated(self, rows, self.rule(self.scaled["fit"][self.calibrate]))

    @cached_property
    def recalibrated(self) -> Calibrated:
        return Calibrated(
            self, self.case.rows["fresh"], self.rule(self.scaled["fresh"]), fresh=True
        )

    # What holds.

    def kind(self, *, fresh: bool = False) -> str:
        """The kind of the guarantee."""
        case, name = self.case, str(self.case["calibration"])
        base = "exact" if self.apart or fresh or case.exact else "approximate"
        base = "pac" if case["guarantee"] == "pac" else base
        if self.learnt_scale and not fresh:
            return "none"
        if name in ("weighted", "label shift"):
            return "approximate"
        marginal = name in ("class, marginal", "group and class, marginal")
        pooled = name in ("class, pooled", "group, pooled") and not fresh
        if (marginal and (self.rare or "group" in name)) or (
            pooled and self.rare and not case.exact and (self.settled or not self.apart)
        ):
            return "approximate"
        return base


def interpolated(values: np.ndarray, knots: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Between two points on the line between them, at most the higher one; beyond the ends flat."""
    if len(knots) == 1:
        return np.full(values.shape, levels[0])
    points = knots.tolist()
    left = np.array([max(0, min(len(points) - 2, bisect_right(points, v) - 1))
                     for v in values.ravel().tolist()]).reshape(values.shape)  # fmt: skip
    way = np.maximum(values - knots[left], 0.0) / (knots[left + 1] - knots[left])
    line = levels[left] + np.minimum(way, 1.0) * (levels[left + 1] - levels[left])
    return np.minimum(line, levels[left + 1])


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Calibration rows with the combined scores of their true labels."""

    fit: Fit
    rows: LabelledRows
    values: np.ndarray  # of all labels, (n, K)
    fresh: bool = False

    @cached_property
    def true(self) -> np.ndarray:
        return self.values[np.arange(len(self.rows)), self.rows.y]

    @cached_property
    def cells(self) -> list[Any]:
        return [self.fit.cell(s, y) for s, y in zip(self.rows.strata, self.rows.y, strict=True)]

    @cached_property
    def _of_cell(self) -> dict[Any, list[float]]:
        return {}

    def of_cell(self, cell: Any) -> list[float]:
        """Scores of the rows that a cell is compared with, rising."""
        if cell not in self._of_cell:
            own = [cell in (EVERY, other) for other in self.cells]
            if self.fit.case.exact and cell == "rare" and self.fit.least:
                # Counted with the candidate: units of `least` rows are rare while it is elsewhere.
                sizes = Counter(self.cells)
                own = [
                    o or sizes[c] == self.fit.least for o, c in zip(own, self.cells, strict=True)
                ]
            self._of_cell[cell] = sorted(self.true[np.array(own, dtype=bool)].tolist())
        return self._of_cell[cell]

    def rank(self, n: int, alpha: float) -> int:
        return self.fit.rank(n, alpha, fresh=self.fresh)

    @cached_property
    def _thresholds(self) -> dict[Any, float]:
        return {}

    def threshold(self, cell: Any, alpha: float) -> float:
        """The k-th largest score of a cell."""
        if cell == ALWAYS:
            return -math.inf
        if (cell, alpha) not in self._thresholds:
            own = self.of_cell(cell)
            k = self.rank(len(own), alpha)
            cut = -math.inf if k > len(own) else float(own[len(own) - k])
            self._thresholds[cell, alpha] = cut
        return self._thresholds[cell, alpha]

    @cached_property
    def shifted(self) -> bool:
        return str(self.fit.case["calibration"]).split(",")[0] in ("weighted", "label shift")

    def _weight(self, row: int, label: int, rows: LabelledRows) -> Fraction:
        if str(self.fit.case["calibration"]).startswith("weighted"):
            return Fraction(rows.weight[row])
        return Fraction(self.fit.case.calibration.ratios[label])

    @cached_property
    def _weights_by_score(self) -> tuple[list[float], list[Fraction]]:
        """Rising scores, and the weight of the first so many of them."""
        order = np.argsort(self.true, kind="stable")
        sums = [Fraction(0)]
        for i in order:
            sums.append(sums[-1] + self._weight(int(i), int(self.rows.y[i]), self.rows))
        return self.true[order].tolist(), sums

    def counted(self, value: float, row: int, label: int, rows: LabelledRows) -> tuple[Any, ...]:
        """Calibration rows below a combined score, up to it and in all, and the row itself."""
        if self.shifted:
            rising, sums = self._weights_by_score
            below, up_to = sums[bisect_left(rising, value)], sums[bisect_right(rising, value)]
            return below, up_to, sums[-1], self._weight(row, label, rows)
        cell = self.fit.cell(rows.strata[row], label)
        if cell == ALWAYS:
            return 0, 0, 0, 1
        rising = self.of_cell(cell)
        return bisect_left(rising, value), bisect_right(rising, value), len(rising), 1

    def pvalue(
        self, value: float, row: int, label: int, rows: LabelledRows, tau: float | None = None
    ) -> Any:
        """The p-value of a label of a row with combined score `value`; smoothed with `tau`."""
        if not self.shifted and self.fit.cell(rows.strata[row], label) == ALWAYS:
            return Fraction(1)
        below, up_to, total, own = self.counted(value, row, label, rows)
        if tau is None:
            return Fraction(up_to + own, total + own)
        return (float(below) + tau * float(up_to - below + own)) / float(total + own)

    def contains(
        self, value: float, row: int, label: int, rows: LabelledRows, alpha: float
    ) -> bool:
        """Whether a label is in the set: by its p-value, or by the rank of a PAC statement."""
        if self.fit.case["guarantee"] == "pac":
            return value >= self.threshold(self.fit.cell(rows.strata[row], label), alpha)
        _, up_to, total, own = self.counted(value, row, label, rows)
        return exceeds(up_to + own, total + own, alpha)

    def sets(self, name: str, alpha: float) -> np.ndarray:
        """The sets of some rows of the case."""
        rows, values = self.fit.case.rows[name], self.fit.rule(self.fit.scaled[name])
        return np.array([
            [self.contains(value, i, y, rows, alpha) for y, value in enumerate(row)]
            for i, row in enumerate(values.tolist())
        ])  # fmt: skip

    def pvalues(self, name: str) -> np.ndarray:
        rows, values = self.fit.case.rows[name], self.fit.rule(self.fit.scaled[name])
        return np.array([
            [float(self.pvalue(value, i, y, rows)) for y, value in enumerate(row)]
            for i, row in enumerate(values.tolist())
        ])  # fmt: skip

    # Laws.

    def tail(self, name: str, alpha: float) -> float | None:
        """The chance of so few covered rows; None where no law is known."""
        fit, rows = self.fit, self.fit.case.rows[name]
        if fit.case["groups"] or (fit.learnt_scale and not self.fresh) or self.shifted:
            return None
        n, values = len(self.rows), fit.rule(fit.scaled[name])
        own = values[np.arange(len(rows)), rows.y]
        chosen = not self.fresh and (not fit.apart or fit.n_test) and fit.n_weights != 1
        if chosen:  # under equal weights, which no row chose
            equal = np.full(fit.case.d, 1 / fit.case.d)
            cal = fit.rule(fit.scaled["fit"][fit.calibrate], equal)
            cal = np.sort(cal[np.arange(n), self.rows.y])
            new = fit.rule(fit.scaled[name], equal)[np.arange(len(rows)), rows.y]
            k = self.rank(n, alpha)
            cut = -math.inf if k > n else cal[n - k]
            return _at_most([(n, k, len(rows))], int((new >= cut).sum()))
        cells: dict[Any, list[bool]] = {}
        for i, value in enumerate(own.tolist()):
            cell = fit.cell(rows.strata[i], int(rows.y[i]))
            cells.setdefault(cell, []).append(value >= self.threshold(cell, alpha))
        if fit.case["calibration"] != "marginal":
            # Rows that borrow a threshold, or gather because rows of the fit were counted.
            lawless = {EVERY}
            counted = fit.case["calibration"] in ("class, pooled", "group, pooled")
            if counted and not self.fresh and (fit.settled or not fit.apart) and fit.rare:
                lawless.add("rare")
            dropped = [cells.pop(cell) for cell in lawless if cell in cells]
        else:
            dropped = []
        laws, hits = [], 0
        for cell, covered in cells.items():
            size = len(self.of_cell(cell)) if cell != ALWAYS else 0
            if cell != ALWAYS and self.rank(size, alpha) <= size:
                laws.append((size, self.rank(size, alpha), len(covered)))
                hits += sum(covered)
        if not laws and dropped:
            return None
        return _at_most(laws, hits)


def _at_most(cells: list[tuple[int, int, int]], hits: int) -> float:
    """The probability of at most so many covered rows of all cells."""
    law = [1.0]
    for n, k, m in cells:
        one = beta_binomial(n, k, m) if k <= n else [0.0] * m + [1.0]
        law = np.convolve(law, one).tolist()
    return min(1.0, sum(law[: hits + 1]))
