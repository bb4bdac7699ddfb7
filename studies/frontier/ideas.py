"""What was tried to make the sets of a blend by likelihood smaller, and what it gave.

Two ideas give something. Let ``q`` be the blend's probabilities.

**Evidence.** The score is ``log q_y(x) + e(x)``: a constant per row, which no likelihood of labels
given a row can see, and which a threshold that all rows share does
(`conformix.scores.evidence`). Models of many labels have it in the library; here all have it.
**Three numbers** of a row instead of two, and no bound on how many rows teach them, is how it was
found (`features`, `fit_offset`).

**Confusion.** One more column of every model, ``log(sum_k r_k(x) C_ky + 0.01 / K)`` with r
proportional to ``sqrt(p)``, where ``C`` says which labels are true when k is likely (`confusion`).
Unlike the columns of ``auto``, labels of the tuning rows teach it. Not in the library.

**The ceiling** is no method: the columns of ``auto`` as the tuning rows taught them, with
coefficients from the labels of all other rows, and no evidence.

Every score is fixed by the tuning rows alone (the ceiling is not). All rows that do not tune
calibrate it, and its sizes are counted on the same rows: scores are compared, and this is the
comparison with the least noise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from conformix.conformal import conformal_rank, kth_largest
from conformix.experiments.pool import Pool
from conformix.experiments.rows import Row, RowLog
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.scores.blend import prior_of, ridge_of
from conformix.scores.evidence import fit_evidence
from conformix.scores.learnt import N_PARTS, PatternScore, pattern_sum
from conformix.scores.likelihood import most_likely
from studies.frontier import cases
from studies.frontier.blended import AUTO, Blending, Blends
from studies.frontier.cases import FEW_CLASSES, MANY_CLASSES, Setting
from studies.frontier.command import write_study
from studies.frontier.run import Judge, cases_of, key_of
from studies.frontier.tables import HALF, TAILED, geometric_mean, head, ratios

RUNS = 8
ALPHAS = (0.01, 0.05)
SIZES = (1000, None)
# Whose rows tune, at both levels: one fit serves both, and rounding wastes nothing of either.
PLANNED = min(ALPHAS)
# Coefficients of 26 models take longer than all other settings together.
SETTINGS = tuple(setting for setting in cases.SETTINGS if "26 models" not in setting.label)
# Log-probabilities below it are alike, in the pattern of a row and beyond.
FLOORS = (-12.0, -60.0)
# Of the true labels of the tuning rows, how many lie below the level of the loss.
LEVEL = 0.05
OFFSET_RIDGE = 1.0
# Rows a label that the soft confusion counts for, and the probability that a column spreads.
SOFT_ROWS, SPREAD = 20.0, 0.01


class LogProbs(NamedTuple):
    """Log-probabilities (n, K) of a blend: of tuning rows, out of fold, and of all others."""

    tuning: FloatArray
    rest: FloatArray


class Split:
    """Scores of the rows that do not tune, by what the tuning rows teach.

    Parameters
    ----------
    blends : Blends
        The rows of a setting.
    tune, rest : int arrays
        Rows that tune and rows that do not.

    Examples
    --------
    >>> import conformix as cx
    >>> blends = Blends(Pool(cx.datasets.load("cifar10"), ["vgg16"]))
    >>> split = Split(blends, np.arange(300), np.arange(9000, 9100))
    >>> split.offset(split.likely).shape
    (100, 10)
    """

    def __init__(self, blends: Blends, tune: IntArray, rest: IntArray) -> None:
        self._blends, self._tune, self._rest = blends, tune, rest
        self._taught = blends.taught(tune)

    @property
    def y(self) -> IntArray:
        """Labels of the tuning rows, the only ones that a method sees."""
        return self._blends.pool.labels[self._tune]

    @cached_property
    def planes(self) -> FloatArray:
        """The columns of ``auto`` (p, n, K) for the rows that do not tune."""
        pool, rest = self._blends.pool, self._rest
        columns = self._taught.columns
        out = np.empty((len(columns), len(rest), pool.outputs.n_classes))
        for plane, column in zip(out, columns, strict=True):
            if isinstance(column.score, PatternScore):
                patterns = self._blends.rows[column.model].patterns[rest]
                plane[:] = pattern_sum([column.score], [1.0])(patterns)
            elif column.score.learns:
                plane[:] = column.score.factors  # type: ignore[attr-defined]
            else:
                plane[:] = pool.plane(column, rest)
        return out

    @cached_property
    def likely(self) -> LogProbs:
        """The blend of ``auto`` without evidence; of the rows that do not tune the library's."""
        planes = self._taught.planes
        tuning = log_softmax(np.tensordot(self._likely(planes, self.y), planes, 1))
        return LogProbs(tuning, log_softmax(self._taught.logits(LIKELY, self._rest)))

    @cached_property
    def confused(self) -> LogProbs:
        """The blend with a column of confusions for every model."""
        found = [self._confusion(model) for model in self._blends.rows]
        tuning = np.concatenate([self._taught.planes, [one.tuning for one in found]])
        rest = np.concatenate([self.planes, [one.rest for one in found]])
        c = self._likely(tuning, self.y)
        return LogProbs(*(log_softmax(np.tensordot(c, planes, 1)) for planes in (tuning, rest)))

    def _confusion(self, model: str) -> LogProbs:
        rows = self._blends.rows[model].probs
        roots = [np.sqrt(np.maximum(rows[some], 1e-30)) for some in (self._tune, self._rest)]
        tuning, rest = (r / r.sum(axis=1, keepdims=True) for r in roots)
        return LogProbs(confusion_out_of_fold(tuning, self.y), confusion(tuning, self.y, rest))

    @cached_property
    def ceiling(self) -> FloatArray:
        """``auto`` with coefficients that the rows' own labels make most likely."""
        c = self._likely(self.planes, self._blends.pool.labels[self._rest])
        return log_softmax(np.tensordot(c, self.planes, 1))

    def _likely(self, planes: FloatArray, y: IntArray) -> FloatArray:
        columns = self._taught.columns
        p, prior = len(columns), np.zeros(len(planes))
        prior[:p] = prior_of(columns)
        ridge = len(self._blends.rows) / 2 * np.eye(len(planes))
        ridge[:p, :p] = ridge_of(columns)
        return most_likely(np.moveaxis(planes, 0, -1), y, prior, ridge, 1)

    def evident(self, blend: LogProbs) -> FloatArray:
        """Return the scores of the rows that do not tune, by the evidence of the library."""
        tuning, rest = (self._blends.spread(some) for some in (self._tune, self._rest))
        return np.asarray(fit_evidence(blend.tuning, self.y, tuning).logits(blend.rest, rest))

    def offset(self, blend: LogProbs, b: FloatArray | None = None) -> FloatArray:
        """Return ``log q_y(x) + b . g(x)`` of the rows that do not tune; b is learnt by default."""
        tuning, rest = self.features(blend)
        if b is None:
            b = fit_offset(blend.tuning, self.y, tuning)
        return blend.rest + (rest @ b)[:, None]

    def features(self, blend: LogProbs) -> tuple[FloatArray, FloatArray]:
        """Return g (n, 3) of the tuning rows and of the others, in units of the tuning rows."""
        tuning, rest = (
            features([rows.probs[some] for rows in self._blends.rows.values()], log_probs)
            for some, log_probs in zip((self._tune, self._rest), blend, strict=True)
        )
        mean, sd = tuning.mean(axis=0), tuning.std(axis=0) + 1e-6
        return np.clip((tuning - mean) / sd, -4, 4), np.clip((rest - mean) / sd, -4, 4)


LIKELY = Blending(evidence=False)
# What all others are compared with.
LIKELIHOOD = "likelihood"
WAYS: dict[str, Callable[[Split], FloatArray]] = {
    LIKELIHOOD: lambda split: split.likely.rest,
    "evidence": lambda split: split.evident(split.likely),
    "three numbers": lambda split: split.offset(split.likely),
    "confusion": lambda split: split.confused.rest,
    "both": lambda split: split.evident(split.confused),
    "ceiling": lambda split: split.ceiling,
}


def log_softmax(z: FloatArray) -> FloatArray:
    """Return ``z_y - log sum_k exp z_k``."""
    z = z - z.max(axis=1, keepdims=True)
    return np.asarray(z - np.log(np.exp(z).sum(axis=1, keepdims=True)))


def features(probs: Sequence[FloatArray], log_probs: FloatArray) -> FloatArray:
    """Return three numbers (n, 3) of every row, without its label.

    The logarithm of the standard deviation of ``max(log p, floor)`` over the labels, for two
    floors, added up over the models, and the entropy ``-sum_y q_y log q_y`` of the blend.
    """
    entropy = -(np.exp(log_probs) * log_probs).sum(axis=1)
    logs = [np.log(np.maximum(p, 1e-300)) for p in probs]
    spreads = [sum(np.log(np.maximum(z, low).std(axis=1) + 1e-3) for z in logs) for low in FLOORS]
    return np.stack([*spreads, entropy], axis=1)


def fit_offset(log_probs: FloatArray, y: IntArray, g: FloatArray) -> FloatArray:
    """Return b, by the labels of tuning rows.

    With ``v_k = log q_k(x) + b . g(x) + a - log t`` it minimises ``sum_T log(1 + exp(-v_y)) +
    t sum_T sum_k log(1 + exp(v_k)) + |b|^2``, which is convex. Over all functions v it would be
    smallest where exp(v_k) is the probability of k over t, and labels near t, the 5 % quantile of
    the true labels' q, count most. The constant a moves all rows alike: no score needs it.
    """
    from scipy.optimize import minimize  # noqa: PLC0415  loads late

    own = log_probs[np.arange(len(y)), y]
    t = float(np.sort(own)[int(LEVEL * (len(own) + 1))])
    g = np.column_stack([g, np.ones(len(g))])
    ridge = np.array([OFFSET_RIDGE] * (g.shape[1] - 1) + [1e-6])

    def parts(b: FloatArray) -> tuple[FloatArray, FloatArray]:
        return log_probs + (g @ b - t)[:, None], own + g @ b - t

    def loss(b: FloatArray) -> tuple[float, FloatArray]:
        v, true = parts(b)
        value = np.logaddexp(0, -true).sum() + np.exp(t) * _softplus(v).sum()
        slope = np.exp(t) * _logistic(v).sum(axis=1) - _logistic(-true)
        return float(value + ridge @ b**2), slope @ g + 2 * ridge * b

    def curvature(b: FloatArray) -> FloatArray:
        v, true = (_logistic(part) for part in parts(b))
        weights = np.exp(t) * (v * (1 - v)).sum(axis=1) + true * (1 - true)
        return np.asarray((g.T * weights) @ g + np.diag(2 * ridge))

    start = np.zeros(g.shape[1])
    found = minimize(loss, start, jac=True, hess=curvature, method="trust-exact",
                     options={"gtol": 1e-7})  # fmt: skip
    return np.asarray(found.x[:-1])


def _logistic(v: FloatArray) -> FloatArray:
    small = np.exp(-np.abs(v))
    return np.asarray(np.where(v > 0, 1.0, small) / (1 + small))


def _softplus(v: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(v, 0) + np.log1p(np.exp(-np.abs(v))))


def confusion(r: FloatArray, y: IntArray, rows: FloatArray) -> FloatArray:
    """Return ``log(sum_k r_k C_ky + 0.01 / K)`` of some rows, by C of labelled ones.

    With ``S = sum_i r_k(x_i) r_y(x_i)``, its rows scaled to one, the soft confusion,
    ``C_ky = (sum_i r_k(x_i) [y_i = y] + 20 S_ky) / (sum_i r_k(x_i) + 20)``.

    Examples
    --------
    >>> r = np.array([[0.6, 0.4], [0.5, 0.5]])
    >>> np.exp(confusion(r, np.array([1, 1]), r)).round(2)  # two rows say 1, twenty what r says
    array([[0.53, 0.48],
           [0.53, 0.48]])
    """
    n_classes = r.shape[1]
    soft = r.T @ r
    soft /= soft.sum(axis=1, keepdims=True)
    hard = r.T @ np.eye(n_classes)[y]
    matrix = (hard + SOFT_ROWS * soft) / (r.sum(axis=0)[:, None] + SOFT_ROWS)
    return np.asarray(np.log(rows @ matrix + SPREAD / n_classes))


def confusion_out_of_fold(r: FloatArray, y: IntArray) -> FloatArray:
    """Return the column of labelled rows, each by the other nine of ten parts."""
    out = np.empty_like(r)
    parts = np.arange(len(r)) % N_PARTS
    for part in range(N_PARTS):
        held = parts == part
        out[held] = confusion(r[~held], y[~held], r[held])
    return out


def run_ideas(
    path: str | Path,
    *,
    settings: Sequence[Setting] = SETTINGS,
    runs: int = RUNS,
    sizes: Sequence[int | None] = SIZES,
) -> list[Row]:
    """Return sizes and coverage of all ways; rows that are in the file are not computed again."""
    wanted = []
    with RowLog(path) as log:
        for setting in settings:
            places = cases_of(setting, runs, sizes, ALPHAS)
            keys = [key_of(setting, way, case) for case in places for way in WAYS]
            wanted += keys
            if all(key in log.rows for key in keys):
                continue
            blends = Blends(Pool(setting.load()))
            for run, n in dict.fromkeys(case[:2] for case in places):
                names = [key_of(setting, way, (run, n, a)) for way in WAYS for a in ALPHAS]
                if not all(name in log.rows for name in names):
                    for row in run_split(blends, setting, run, n):
                        log.append(row)
            sys.stderr.write(f"{setting.label}\n")
        return [log.rows[key] for key in wanted]


def run_split(blends: Blends, setting: Setting, run: int, n: int) -> Iterator[Row]:
    """Yield the rows of one split: all ways at all levels."""
    pool = blends.pool
    labelled, test = setting.draw(pool.outputs.n, run)
    n_tune = blends.n_tune(AUTO, n, PLANNED)
    rest = np.concatenate([labelled[n_tune:n], test])
    split, judge = Split(blends, labelled[:n_tune], rest), Judge(pool)
    for name, way in WAYS.items():
        scores = way(split)
        own = scores[np.arange(len(rest)), pool.labels[rest]]
        for alpha in ALPHAS:
            mask = scores >= kth_largest(own, conformal_rank(len(rest), alpha))
            yield {
                "key": key_of(setting, name, (run, n, alpha)), "setting": setting.label,
                "group": setting.group, "method": name, "run": run, "n_labelled": n,
                "half": n == len(labelled), "alpha": alpha, **judge(mask, rest, alpha),
            }  # fmt: skip
    blends.forget()


def ideas_tables(rows: Sequence[Row]) -> str:
    """Return the tables: of groups, of single networks, of rare classes."""
    ideas = [way for way in WAYS if way != LIKELIHOOD]
    found = {way: ratios(rows, way, LIKELIHOOD) for way in ideas}
    runs = len({row["run"] for row in rows})
    lines = [
        f"Sizes relative to a blend by likelihood alone, {runs} splits, with standard errors.", "",
        *head(["settings", "labelled rows", "alpha", *ideas]),
    ]  # fmt: skip
    places = dict.fromkeys((r.group, r.rows, r.alpha) for some in found.values() for r in some)
    order = list(dict.fromkeys(group for group, _, _ in places))
    for group, n, alpha in sorted(places, key=lambda p: (order.index(p[0]), *p[1:])):
        some = [
            [r for r in found[way] if (r.group, r.rows, r.alpha) == (group, n, alpha)]
            for way in ideas
        ]
        size = "half" if n == HALF else f"{n:,}"
        cells = " | ".join(geometric_mean(one) for one in some)
        lines.append(f"| {group} ({len(some[0])}) | {size} | {alpha:g} | {cells} |")
    halves = {way: [r for r in found[way] if r.half] for way in ideas}
    lines += ["", "Single networks, half of the rows, alpha = 0.01 and 0.05:", ""]
    lines += head(["network", *ideas])
    networks = (MANY_CLASSES, FEW_CLASSES)
    for name in dict.fromkeys(r.setting for r in halves[ideas[0]] if r.group in networks):
        pairs = [[geometric_mean([r]) for r in halves[way] if r.setting == name] for way in ideas]
        lines.append(f"| {name} | " + " | ".join("; ".join(pair) for pair in pairs) + " |")
    return "\n".join([*lines, *_rare_lines(rows)])


def _rare_lines(rows: Sequence[Row]) -> list[str]:
    """Return how often the rarest third of the classes of long tails is covered."""
    tails = [row for row in rows if row["group"] == TAILED and row["half"]]
    if not tails:
        return []
    lines = ["", "Coverage of the rarest third of the classes on long tails, half of the rows:", ""]
    lines += head(["alpha", *WAYS])
    for alpha in ALPHAS:
        cells = []
        for way in WAYS:
            some = [row for row in tails if row["method"] == way and row["alpha"] == alpha]
            cells.append(f"{np.mean([row['rare coverage'] for row in some]):.3f}")
        lines.append(f"| {alpha:g} | " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    write_study(
        "ideas", "What was tried to make sets of auto smaller.", RUNS,
        lambda path, runs: ideas_tables(run_ideas(path, runs=runs)),
    )  # fmt: skip
