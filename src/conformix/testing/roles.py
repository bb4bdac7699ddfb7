"""The audit of roles: which rows had a part in what was learnt, and which in the calibration.

A split says who may see what; the audit asks the fit instead. Every row in turn gets another label
or other outputs, everything is fitted again with the same random state, and the fitted numbers are
compared. Coverage is exact only where no row moves both what was learnt (weights, scale, blend,
shortlist, clusters, ranks, models) and the calibration that follows from it. Nothing is assumed
about how the split draws its rows, so the audit works for any split, score, scale, search,
calibration and estimator, of the user's own too. Scores that learn from a batch of test rows learn
from the calibration rows alike, which the audit sees; that this treats all of them alike is the
matter of `leave_one_out`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import starmap, zip_longest
from typing import Any, NamedTuple

import numpy as np

from conformix.kernels.arrays import BoolArray, RandomState, as_generator
from conformix.testing.audit import take_rows

# Other labels that are tried for every row.
LABELS_TRIED = 3


class FittedNumbers(NamedTuple):
    """The numbers of a fit, by the part that they play.

    Parameters
    ----------
    learnt : mapping of str to anything
        What was chosen before calibration, by name: arrays, numbers, objects that hold such.
    calibration : mapping of str to anything
        What the calibration rows leave behind.
    n_calibration : int
        How many rows calibrate, as the fit counts them.

    Examples
    --------
    >>> FittedNumbers({"weights": np.ones(1)}, {"scores": np.zeros(3)}, 3).n_calibration
    3
    """

    learnt: Mapping[str, Any]
    calibration: Mapping[str, Any]
    n_calibration: int


def fitted_numbers(fitted: Any) -> FittedNumbers:
    """Return the numbers of a fitted `ScoreAverage`, `Predictor` or `ConformalClassifier`.

    Examples
    --------
    >>> import conformix as cx
    >>> P, y = [[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]], [0, 1, 1]
    >>> cp = cx.ScoreAverage("thr", alpha=0.4, weights=[1.0]).fit(P, y)
    >>> numbers = fitted_numbers(cp)
    >>> sorted(numbers.learnt), numbers.n_calibration
    (['blend', 'matrices', 'ranks', 'scale', 'search', 'strata', 'weights'], 3)
    """
    average = getattr(fitted, "conformal_", fitted)
    predictor = getattr(average, "predictor_", average)
    state = predictor.fitted
    models = {"models": dict(fitted.estimators_)} if hasattr(fitted, "estimators_") else {}
    blend = None
    if predictor.blend is not None:
        blend = (predictor.blend.coefficients, predictor.blend.evidence)
    columns = predictor.columns if predictor.blend is None else predictor.blend.columns
    matrices = [column.score.factors for column in columns if column.score.learns]
    if not state.nested:  # split "exact": candidates before, the rows themselves after
        learnt = {"weights": state.weights, "scale": state.transform, "blend": blend,
                  "matrices": matrices}  # fmt: skip
        rows = {"scores": state.scores, "labels": state.y, "data": state.data}
        # Which classes or groups are rare, rows and candidate say alike; clusters are learnt.
        counted = getattr(state.plan, "what", "") in ("class", "group", "group and class")
        (rows if counted else learnt)["strata"] = state.plan
        return FittedNumbers(models | learnt, rows, state.n)
    rule, size = state.rule, state.held_out_size
    learnt = {
        "weights": rule.weights, "scale": rule.transform, "blend": blend, "ranks": rule.limits,
        "strata": state.cuts.plan, "search": state.search, "matrices": matrices,
    }  # fmt: skip
    rows = {"scores": state.calibration, "thresholds": state.cuts, "held-out size": size}
    return FittedNumbers(models | learnt, rows, state.n)


def fold_numbers(fitted: Any, fold: int) -> FittedNumbers:
    """Return the numbers of one fold of a `CrossAverage` or a `CrossConformalClassifier`.

    Parameters
    ----------
    fitted : CrossAverage or CrossConformalClassifier
        A fitted one.
    fold : int
        Number of the fold: its rows calibrate, and have no part in its model, weights and scale.

    Examples
    --------
    >>> from conformix.estimators.cross import CrossAverage, Fold
    >>> folds = [Fold([[0.7, 0.3], [0.4, 0.6]], [0, 1]), Fold([[0.2, 0.8]], [1])]
    >>> cross = CrossAverage("thr", weights=[1.0]).fit(folds)
    >>> [fold_numbers(cross, fold).n_calibration for fold in (0, 1)]
    [2, 1]
    """
    cross = getattr(fitted, "cross_", fitted)
    rule, scores = cross.rules_[fold], cross.calibration_[fold]
    learnt: dict[str, Any] = {"weights": rule.weights, "scale": rule.transform}
    if hasattr(fitted, "fold_estimators_"):
        learnt["models"] = dict(fitted.fold_estimators_[fold])
    return FittedNumbers(learnt, {"scores": scores}, len(scores))


def moved_numbers(before: FittedNumbers, after: FittedNumbers) -> tuple[list[str], list[str]]:
    """Return the names of the learnt and of the calibrated numbers that differ.

    Examples
    --------
    >>> one = FittedNumbers({"weights": np.array([0.5, 0.5])}, {"scores": np.zeros(2)}, 2)
    >>> moved_numbers(one, one._replace(learnt={"weights": np.array([1.0, 0.0])}))
    (['weights'], [])
    """
    return _differing(before.learnt, after.learnt), _differing(
        before.calibration, after.calibration
    )


@dataclass(frozen=True, eq=False)
class RoleReport:
    """Which rows had a part in what.

    Parameters
    ----------
    by_label, by_outputs : dict of str to boolean array of shape (n,)
        For every learnt number, the rows whose label moves it, and those whose outputs do.
    calibrates : boolean array of shape (n,)
        Rows that can move the calibration while everything learnt stays.
    n_calibration : int
        How many rows calibrate, as the fit counts them.
    together : tuple of str
        Learnt numbers that moved when all rows that calibrate were changed at once.

    Examples
    --------
    >>> row = np.array([True, False])
    >>> report = RoleReport({"weights": row}, {"weights": row}, ~row, 1, ())
    >>> print(report)
    holds: 1 row learns, 1 calibrates, none does both
    """

    by_label: dict[str, BoolArray]
    by_outputs: dict[str, BoolArray]
    calibrates: BoolArray
    n_calibration: int
    together: tuple[str, ...]

    @property
    def tunes(self) -> BoolArray:
        """The rows whose label moves something learnt."""
        return _any(self.by_label.values(), len(self.calibrates))

    @property
    def sizes(self) -> BoolArray:
        """The rows whose outputs move something learnt, and whose label does not."""
        return _any(self.by_outputs.values(), len(self.calibrates)) & ~self.tunes

    @property
    def learns(self) -> BoolArray:
        """The rows that move something learnt."""
        return self.tunes | self.sizes

    @property
    def both(self) -> BoolArray:
        """The rows that calibrate and that move something learnt."""
        return self.calibrates & self.learns

    @property
    def idle(self) -> BoolArray:
        """The rows that no change of label or outputs lets move anything."""
        return ~self.calibrates & ~self.learns

    @property
    def n_uncounted(self) -> int:
        """Rows that the fit counts as calibrating, and that never move the calibration alone."""
        return self.n_calibration - int(np.count_nonzero(self.calibrates))

    @property
    def holds(self) -> bool:
        """Whether no row has a part in both what was learnt and the calibration."""
        return not self.both.any() and not self.together and self.n_uncounted == 0

    def __str__(self) -> str:
        learn, calibrate = int(self.learns.sum()), int(self.calibrates.sum())
        if self.holds:
            rows = f"{learn} row{'s learn' if learn != 1 else ' learns'}"
            return f"holds: {rows}, {calibrate} calibrate{'s' * (calibrate == 1)}, none does both"
        reasons = [
            f"{int(self.both.sum())} of {calibrate} rows that calibrate move what was learnt too"
        ]
        if self.together:
            reasons.append(f"all of them together move {', '.join(self.together)}")
        if self.n_uncounted:
            reasons.append(f"{self.n_uncounted} more calibrate, and move it by every change")
        return "FAILS: " + "; ".join(reasons)


def audit_roles(
    fit: Callable[[Any, Any], Any],
    outputs: Any,
    y: Any,
    *,
    read: Callable[[Any], FittedNumbers] = fitted_numbers,
    draws: int = 4,
    random_state: RandomState = 0,
) -> RoleReport:
    """Return which rows move what was learnt and which move the calibration.

    Every row gets up to three other labels, then the outputs of another row, and everything is
    fitted again. A row that moves the calibration while all that was learnt stays calibrates; one
    that moves anything learnt learns. Then all rows that calibrate are changed at once, which shows
    what no single row can move. For an exact promise no row may do both; under ``split="exact"``
    every row calibrates, and what is selected with the candidate is the matter of `leave_one_out`.

    Parameters
    ----------
    fit : callable
        ``fit(outputs, y)`` returns something fitted, the same for the same rows: fix its random
        state.
    outputs : array of shape (n, K) or (n, p), or a mapping of such arrays
        Outputs of any labelled rows, or features where `fit` trains too. Few rows are enough, and
        each should differ from the others.
    y : array of shape (n,)
        Their labels; several rows of every class.
    read : callable
        ``read(fitted)`` returns the `FittedNumbers` to compare; by default `fitted_numbers`.
    draws : int
        How often all rows that calibrate are changed at once.
    random_state : int, Generator or None
        Draws the changes.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"][:24], data.labels[:24]
    >>> for split in ("vfcp", "efcp"):
    ...     cp = cx.ScoreAverage("paper", split=split, alpha=0.3, kind="logits", random_state=0)
    ...     print(audit_roles(cp.fit, logits, y))
    holds: 12 rows learn, 12 calibrate, none does both
    FAILS: ... rows that calibrate move what was learnt too; all of them together move search...
    """
    rng = as_generator(random_state)
    labels = np.asarray(y)
    n = len(labels)
    rows = np.arange(n)
    base = read(fit(outputs, labels))
    by_label: dict[str, BoolArray] = {name: np.zeros(n, dtype=bool) for name in base.learnt}
    by_outputs = {name: np.zeros(n, dtype=bool) for name in base.learnt}
    calibrates = np.zeros(n, dtype=bool)

    def note(i: int, after: FittedNumbers, table: dict[str, BoolArray]) -> None:
        learnt, calibration = moved_numbers(base, after)
        for name in learnt:
            table[name][i] = True
        calibrates[i] |= bool(calibration) and not learnt

    for i in range(n):
        for label in _other_labels(labels, i, rng):
            note(i, read(fit(outputs, np.where(rows == i, label, labels))), by_label)
        donor = (i + 1 + rng.integers(n - 1)) % n
        note(i, read(fit(take_rows(outputs, np.where(rows == i, donor, rows)), labels)), by_outputs)
    together: set[str] = set()
    for _ in range(draws if calibrates.any() else 0):
        names = np.unique(labels)
        drawn = np.where(calibrates, rng.choice(names, n), labels)
        order = rows.copy()
        order[calibrates] = rng.choice(rows[calibrates], int(calibrates.sum()))
        for changed in ((outputs, drawn), (take_rows(outputs, order), labels)):
            together.update(moved_numbers(base, read(fit(*changed)))[0])
    return RoleReport(by_label, by_outputs, calibrates, base.n_calibration, tuple(sorted(together)))


def _other_labels(labels: Any, i: int, rng: np.random.Generator) -> Any:
    """Return up to three labels that row i does not have, never the last row of a class."""
    if np.count_nonzero(labels == labels[i]) < 2:
        return labels[:0]
    others = np.unique(labels[labels != labels[i]])
    return rng.permutation(others)[:LABELS_TRIED]


def _any(masks: Any, n: int) -> BoolArray:
    return np.logical_or.reduce([np.zeros(n, dtype=bool), *masks])


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [name for name in before if not _same(before[name], after.get(name))]


def _same(one: Any, other: Any) -> bool:
    """Whether two things hold the same numbers, whatever they are made of."""
    return all(starmap(_equal, zip_longest(_leaves(one), _leaves(other), fillvalue=_leaves)))


def _equal(one: Any, other: Any) -> bool:
    if one is other:  # names of attributes, mostly
        return True
    if type(one) is not type(other):
        return False
    return np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind in "fc")


def _leaves(value: Any, above: frozenset[int] = frozenset()) -> Iterator[Any]:
    """Yield the arrays, numbers and texts that something is made of, in order.

    `above` are the objects that hold this one: what refers back to them is not followed again.
    """
    plain = value is None or isinstance(value, int | float | str | bytes | np.generic)
    if plain or (isinstance(value, np.ndarray) and value.dtype != object):
        yield value
        return
    if id(value) in above:
        return
    if isinstance(value, np.ndarray):
        inside: Any = value.ravel().tolist()
    elif isinstance(value, Mapping):
        inside = [part for item in value.items() for part in item]
    elif isinstance(value, list | tuple):
        inside = value
    elif not isinstance(value, type) and getattr(value, "__dict__", None):
        inside = [part for item in vars(value).items() for part in item]
    else:
        inside = [pickle.dumps(value)]
    for part in inside:
        yield from _leaves(part, above | {id(value)})
