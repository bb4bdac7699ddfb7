"""The methods that experiments compare, tuned and untuned, and their names.

Untuned methods calibrate on all calibration rows; tuned ones tune on the rows on which the weights
of the average are tuned. Every method says what it guarantees. ``average`` is the paper's method
under VFCP; ``average:efcp`` under another split. ``thr``, ``raps(penalty=0.2)`` or ``vgg16.aps``,
any score in the notation of `conformix.scores`, is that score alone. To add a method, write a
frozen dataclass that turns a `Task` into an `Outcome` and says which estimator does the same, and
one line in `TUNED` or `UNTUNED`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from conformix.conformal import conformal_rank, kth_largest
from conformix.errors import InvalidInput
from conformix.estimators.average import ScoreAverage
from conformix.experiments.pool import Pool
from conformix.fit.fit import fit_scores
from conformix.fit.predictor import Predictor
from conformix.fit.rule import Rule
from conformix.fit.settings import Settings, is_symmetric
from conformix.guarantees.oracle import find_oracle
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.registry import unknown_name
from conformix.scores import PAPER, Column, named_scores
from conformix.scores.ensemble import Ensembling
from conformix.scores.names import SCORES, is_score, is_score_of_a_model
from conformix.scores.scale import resolve_normalizer
from conformix.search import GridSearch, first_best
from conformix.splits import SPLITS, Roles, resolve_split


@dataclass(frozen=True, eq=False)
class Task:
    """One split of a pool at one level."""

    pool: Pool
    calibrate: IntArray  # rows whose labels a method may use
    test: IntArray  # rows on which it is judged
    alpha: float
    # Of what a method draws. It belongs to the split: all methods that set tuning rows apart set
    # the same rows apart.
    seed: int = 0
    threads: int | None = None

    @property
    def y(self) -> IntArray:
        """Labels of the calibration rows."""
        return self.pool.labels[self.calibrate]

    def rng(self) -> np.random.Generator:
        """Return a fresh generator, the same for every method."""
        return np.random.default_rng(self.seed)

    def calibration_scores(self, columns: Sequence[Column]) -> FloatArray:
        """Return the scores (n, K, d) of the calibration rows."""
        return self.pool.tensor(columns, self.calibrate)

    def test_scores(self, columns: Sequence[Column]) -> FloatArray:
        """Return the scores (m, K, d) of the test rows."""
        return self.pool.tensor(columns, self.test)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The sets of the test rows, and how they came about."""

    mask: BoolArray  # (m, K), the sets
    guarantee: str  # ``exact``, ``approximate``, ``none`` or ``1 - 2 alpha``
    # (m, K), combined scores, where one number per label decides: for sizes at matched coverage
    combined: FloatArray | None = None
    weights: dict[str, float] = field(default_factory=dict)  # weight of every score that has one
    normalizer: str = "none"


class Method(Protocol):
    """A method: a frozen dataclass (its fields are its settings) that turns a task into sets."""

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows."""

    def settings(self) -> dict[str, Any]:
        """Return the settings of the `ScoreAverage` that is this method, to be fitted and saved."""


@dataclass(frozen=True)
class Fixed:
    """Equal weights on the given scores; with one score, that score alone."""

    scores: tuple[str, ...]
    normalize: str = "scale"  # on which scale; a normaliser that learns would need tuning rows
    ensemble: Ensembling | None = None  # average the models' outputs first, and score the ensemble

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows."""
        pool = task.pool if self.ensemble is None else task.pool.ensembled(self.ensemble)
        columns = pool.columns(self.scores)
        scores = pool.tensor(columns, task.calibrate)
        normalizer = resolve_normalizer(self.normalize, separate=False)
        if normalizer.learns:
            raise InvalidInput(
                f'normalize="{normalizer.name}" learns from tuning rows, and a uniform average '
                "has none."
            )
        weights = np.full(len(columns), 1 / len(columns))
        rule = Rule(normalizer.fit(scores, columns), weights)
        k = conformal_rank(len(task.y), task.alpha)
        threshold = kth_largest(rule.of_true_labels(scores, task.y), k)
        combined = rule.combined(pool.tensor(columns, task.test))
        return Outcome(
            mask=combined >= threshold,
            guarantee="exact",
            combined=combined,
            weights={str(c): float(w) for c, w in zip(columns, weights, strict=True)},
            normalizer=normalizer.name,
        )

    def settings(self) -> dict[str, Any]:
        """Return the settings of the estimator."""
        how = {} if self.ensemble is None else {"ensemble": self.ensemble}
        return {
            "scores": self.scores, "weights": "equal", "normalize": self.normalize, **how
        }  # fmt: skip


@dataclass(frozen=True)
class MajorityVote:
    """The labels that more than half of the single sets hold.

    Every score has its own set at level alpha, so the expected share of sets that miss the truth
    is at most alpha, and by Markov's inequality the vote covers with ``1 - 2 alpha`` only
    (Cherubin, 2019; Gasparin & Ramdas, 2024).
    """

    scores: tuple[str, ...]  # the voters: every score of every model

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows."""
        columns = task.pool.columns(self.scores)
        votes = np.zeros((len(task.test), task.pool.outputs.n_classes), dtype=np.int64)
        task.pool.prepare(columns)
        for column in columns:
            true_scores = task.pool.of_true_labels(column, task.calibrate)
            threshold = kth_largest(true_scores, conformal_rank(len(true_scores), task.alpha))
            votes += task.pool.plane(column, task.test) >= threshold
        return Outcome(mask=2 * votes > len(columns), guarantee="1 - 2 alpha")

    def settings(self) -> dict[str, Any]:
        """Return the settings of the estimator."""
        return {"scores": self.scores, "calibration": "vote"}


# Columns whose scores are computed together, from one sort.
AT_ONCE = 8
# The weights that are one score alone.
CORNERS = GridSearch(1)


@dataclass(frozen=True)
class Selected:
    """The score with the smallest sets on the tuning rows.

    An average whose candidate weights are the corners of the simplex, one column at a time: many
    columns need no tensor of all of them. With one score at many temperatures or penalties it is
    that score, tuned; with different scores, the selection of Yang & Kuchibhotla (2024).
    """

    scores: tuple[str, ...]  # the candidates, for every model
    split: str = "vfcp"  # which rows select, and which calibrate, as for the average

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows."""
        split = resolve_split(self.split)
        if is_symmetric(split):  # every candidate label selects
            return fitted_outcome(task, self.scores, self.split, CORNERS, "none")
        columns = task.pool.columns(self.scores)
        n_test = len(task.test) if split.needs_test else 0
        places = split.roles(len(task.calibrate), n_test, task.rng())
        rows = np.concatenate([task.calibrate, task.test])
        tune, size, calibrate = (rows[part] for part in places)
        counts = set_counts(task, columns, Roles(tune, size, calibrate))
        # Ties go the way they go between weights.
        best = columns[first_best(counts, np.eye(len(columns)))]
        true_scores = task.pool.of_true_labels(best, calibrate)
        threshold = kth_largest(true_scores, conformal_rank(len(true_scores), task.alpha))
        combined = task.pool.plane(best, task.test)
        return Outcome(combined >= threshold, split.guarantee.kind, combined, {str(best): 1.0})

    def settings(self) -> dict[str, Any]:
        """Return the settings of the estimator."""
        split = resolve_split(self.split)
        return {"scores": self.scores, "split": split, "search": CORNERS, "normalize": "none"}


def set_counts(task: Task, columns: Sequence[Column], roles: Roles) -> IntArray:
    """Return the labels in all sets of the size rows, for every column by itself."""
    k = conformal_rank(len(roles.tune), task.alpha)
    counts = []
    for start in range(0, len(columns), AT_ONCE):
        some = columns[start : start + AT_ONCE]
        task.pool.prepare(some)
        for column in some:
            threshold = kth_largest(task.pool.of_true_labels(column, roles.tune), k)
            counts.append(int((task.pool.plane(column, roles.size) >= threshold).sum()))
    return np.array(counts)


@dataclass(frozen=True)
class Average:
    """The method of the paper: scores averaged with the weights that make the sets smallest."""

    scores: tuple[str, ...]  # what is averaged: every score of every model
    split: str = "vfcp"  # ``vfcp``, ``efcp``, ``dlcp``, ``dlcp+`` or ``exact``
    normalize: str = "scale"  # ``none``, ``scale``, ``ecdf`` or ``auto``
    # of the weight grid; None takes 100, or less where many scores make the grid too large
    resolution: int | None = None

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows."""
        search = GridSearch(self.resolution)
        return fitted_outcome(task, self.scores, self.split, search, self.normalize)

    def settings(self) -> dict[str, Any]:
        """Return the settings of the estimator."""
        return {
            "scores": self.scores, "split": resolve_split(self.split),
            "search": GridSearch(self.resolution), "normalize": self.normalize,
        }  # fmt: skip


@dataclass(frozen=True)
class Oracle:
    """The best weights in hindsight: searched with the labels of the test rows. A measure only.

    A scale that is ``auto`` or ``ecdf`` is fitted on the test rows.
    """

    scores: tuple[str, ...]
    normalize: str = "scale"
    resolution: int | None = None

    def __call__(self, task: Task) -> Outcome:
        """Return the smallest sets whose coverage on the test rows is at least ``1 - alpha``."""
        columns = task.pool.columns(self.scores)
        scores, y = task.test_scores(columns), task.pool.labels[task.test]
        normalizer = resolve_normalizer(self.normalize, separate=True)
        transform = normalizer.fit(scores, columns)
        search = GridSearch(self.resolution)
        best = find_oracle(transform(scores), y, alpha=task.alpha, search=search)
        combined = Rule(transform, best.weights).combined(scores)
        weights = named(columns, best.weights)
        return Outcome(combined >= best.threshold, "none", combined, weights, normalizer.name)

    def settings(self) -> dict[str, Any]:
        """Refuse: rows to come have no labels to choose by."""
        raise InvalidInput(
            "oracle chooses its weights with the labels of the test rows: it is a measure, and "
            "nothing that could predict; fit average:vfcp, which it is the limit of."
        )


def fitted_outcome(
    task: Task, scores: Sequence[str], split: str, search: Any, normalize: str
) -> Outcome:
    """Return the sets of a searched average: fit on the calibration rows, predict the test rows."""
    columns = task.pool.columns(scores)
    labelled, test = task.calibration_scores(columns), task.test_scores(columns)
    scale = None if normalize == "auto" else resolve_normalizer(normalize, separate=True)
    settings = Settings(
        alpha=task.alpha, split=resolve_split(split), search=search, scale=scale,
        threads=task.threads,
    )  # fmt: skip
    features = test if settings.split.needs_test else None
    fitted = fit_scores(labelled, task.y, columns, settings, task.rng(), test=features)
    combined = fitted.rule.combined(test) if fitted.nested else None
    return Outcome(
        mask=fitted.member(test, task.alpha),
        guarantee=fitted.ledger.kind,
        combined=combined,
        weights=named(columns, fitted.rule.weights),
        normalizer=fitted.normalizer,
    )


def named(columns: Sequence[Column], weights: Any) -> dict[str, float]:
    """Return the weights that are not zero by the name of their score."""
    pairs = zip(columns, weights, strict=True)
    return {str(column): float(weight) for column, weight in pairs if weight != 0}


@dataclass(frozen=True)
class Auto:
    """A blend of the dictionary's scores of all models (`conformix.scores.blend`)."""

    split: str = "vfcp"  # which rows the blend learns from, and which calibrate

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows."""
        cp = ScoreAverage(
            "auto", alpha=task.alpha, split=self.split, kind=task.pool.outputs.kind,
            random_state=task.seed % 2**31, threads=task.threads,
        )  # fmt: skip
        cp.fit(_rows(task, task.calibrate), task.y)
        predictor: Predictor = cp.predictor_
        scores = predictor.scores(predictor.check(_rows(task, task.test)))
        blend = predictor.blend
        assert blend is not None
        pairs = zip(blend.columns, blend.coefficients, strict=True)
        return Outcome(
            mask=predictor.fitted.member(scores, task.alpha),
            guarantee=cp.guarantee_.kind,
            combined=scores[..., 0] if len(predictor.columns) == 1 else None,
            weights={str(column): float(c) for column, c in pairs if c},
            normalizer=cp.normalizer_,
        )

    def settings(self) -> dict[str, Any]:
        """Return the settings of the estimator."""
        return {"scores": "auto", "split": self.split}


def estimator_of(name: str, choices: Choices | None = None, **settings: Any) -> ScoreAverage:
    """Return the estimator, not fitted yet, of a method by the name that `compare` prints.

    Parameters
    ----------
    name : str
        As in `resolve_method`: ``tuned-thr:vfcp``, ``probability-ensemble``, ``vgg16.aps``, ...
    choices : Choices, optional
        What is averaged, and how.
    **settings
        Further settings of `conformix.ScoreAverage`: ``alpha``, ``kind``, ``random_state``, ...

    Examples
    --------
    >>> estimator_of("majority-vote", alpha=0.05)
    ScoreAverage(scores=('thr', 'aps', 'rank'), alpha=0.05, calibration='vote')
    >>> estimator_of("oracle")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: oracle chooses its weights with the labels of the test rows: ...
    """
    chosen = resolve_method(name, choices).settings()
    plain = {"calibration": "marginal"}
    for option, value in settings.items():
        if option in chosen and plain.get(option) != value:
            raise InvalidInput(f"method {name!r} fixes {option} itself; leave {option} out.")
    return ScoreAverage(**(settings | chosen))


def _rows(task: Task, rows: IntArray) -> Any:
    return {model: values[rows] for model, values in task.pool.outputs.models.items()}


TEMPERATURES = (0.5, 0.7, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
RAPS_PENALTIES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
RAPS_FREE_RANKS = (1, 5)
SAPS_PENALTIES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)

TUNED_THR = tuple(f"thr(temperature={t})" for t in TEMPERATURES)
TUNED_RAPS = tuple(
    f"raps(penalty={penalty}, k_reg={free})"
    for free in RAPS_FREE_RANKS
    for penalty in RAPS_PENALTIES
)
TUNED_SAPS = tuple(f"saps(penalty={penalty})" for penalty in SAPS_PENALTIES)


@dataclass(frozen=True)
class Choices:
    """What an experiment fixes for all its averages.

    Parameters
    ----------
    scores : tuple of str
        What is averaged. An ensemble is scored by the first of them.
    normalize : str
        On which scale.
    resolution : int or None
        Of the weight grid.

    Examples
    --------
    >>> resolve_method("best-single", Choices(scores=("thr", "margin")))
    Selected(scores=('thr', 'margin'), split='vfcp')
    """

    scores: tuple[str, ...] = PAPER
    normalize: str = "scale"
    resolution: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", named_scores(self.scores))

    @property
    def unlearnt(self) -> str:
        """The scale of averages without tuning rows."""
        return "none" if self.normalize == "none" else "scale"


Builder = Callable[[Choices, str], Method]

# These tune, and take a split: name or name:split.
TUNED: dict[str, Builder] = {
    "average": lambda c, split: Average(c.scores, split, c.normalize, c.resolution),
    "auto": lambda c, split: Auto(split),
    "best-single": lambda c, split: Selected(c.scores, split),
    "tuned-thr": lambda c, split: Selected(TUNED_THR, split),
    "tuned-raps": lambda c, split: Selected(TUNED_RAPS, split),
    "tuned-saps": lambda c, split: Selected(TUNED_SAPS, split),
}
# These calibrate on all rows; so does every single score.
UNTUNED: dict[str, Callable[[Choices], Method]] = {
    "uniform": lambda c: Fixed(c.scores, c.unlearnt),
    "probability-ensemble": lambda c: Fixed(c.scores[:1], "none", "probs"),
    "logit-ensemble": lambda c: Fixed(c.scores[:1], "none", "logits"),
    "majority-vote": lambda c: MajorityVote(c.scores),
    "oracle": lambda c: Oracle(c.scores, c.normalize, c.resolution),
}


def method_names() -> list[str]:
    """Return the names of the methods, without those of single scores.

    Examples
    --------
    >>> method_names()[:4]
    ['auto', 'average', 'best-single', 'logit-ensemble']
    """
    return sorted([*TUNED, *UNTUNED])


def resolve_method(name: str, choices: Choices | None = None) -> Method:
    """Return the method that a name stands for.

    Parameters
    ----------
    name : str
        One of `method_names()`, with ``:split`` where it tunes, or a single score.
    choices : Choices, optional
        What is averaged, and how.

    Examples
    --------
    >>> resolve_method("average:efcp")
    Average(scores=('thr', 'aps', 'rank'), split='efcp', normalize='scale', resolution=None)
    >>> resolve_method("raps(penalty=0.2)")
    Fixed(scores=('raps(penalty=0.2)',), normalize='none', ensemble=None)
    >>> resolve_method("avrage")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: unknown method 'avrage'; did you mean 'average'? known: ...
    """
    choices = Choices() if choices is None else choices
    base, _, split = name.partition(":")
    split = SPLITS.aliases.get(split, split)
    if is_score(name) or (split not in SPLITS and is_score_of_a_model(name)):
        return Fixed((name,), "none")
    if base in TUNED:
        return TUNED[base](choices, SPLITS.name(split) if split else "vfcp")
    if split:
        tuned = ", ".join(sorted(TUNED))
        raise InvalidInput(f"{base} has nothing to tune and takes no split; those are {tuned}.")
    if base in UNTUNED:
        return UNTUNED[base](choices)
    raise unknown_name("method", name, [*method_names(), *SCORES.names()])
