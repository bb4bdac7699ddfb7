"""The wishes of a user, resolved once: below this nothing is a name any more.

Every refusal that needs no rows is made here, whether a fit would come to it or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformix.calibration import Marginal, resolve_calibration
from conformix.calibration.cuts import Calibration
from conformix.conformal import simple_fraction
from conformix.data.outputs import Form
from conformix.errors import InvalidInput, shown
from conformix.guarantees.order import check_delta
from conformix.kernels import available_threads
from conformix.kernels.arrays import FloatArray
from conformix.registry import check_flag
from conformix.scores import PAPER
from conformix.scores.ensemble import Ensemble, resolve_ensemble
from conformix.scores.scale import Normalizer, resolve_normalizer
from conformix.search import MeanSize, resolve_objective, resolve_search
from conformix.search.goals import Goal, is_mean_size
from conformix.search.grid import check_simplex
from conformix.search.weights import AutoSearch, Search, only_candidate
from conformix.splits import Exact, Split, ValidityFirst, resolve_split

# The name of weights that treat all scores alike, however many there are.
EQUAL = "equal"


@dataclass(frozen=True)
class Settings:
    """What a fit is asked to do, as objects; see `conformix.ScoreAverage` for each.

    Parameters
    ----------
    scores
        What is averaged: ``"auto"``, or what becomes columns once the models are known.
    alpha, tune_alpha : float
        Level of the sets, and of the search (None: the same).
    split : Split
        Who may see what.
    frugal : bool
        Whether rows tune only where there is something to choose or to learn: the split was named,
        not given.
    search : Search
        How weights are found.
    scale : Normalizer or None
        On which scale scores are averaged; None leaves it to the roles (`normalizer`).
    kind : {"probs", "logits", "logprobs", "shares", "binary"}
        What the outputs are.
    weights : array of shape (d,) or None
        Weights given by hand.
    allow_empty : bool
        Whether a set may be empty.
    delta : float or None
        Of a PAC statement, where one is asked for.
    calibration : Calibration
        How thresholds are taken from the calibration scores.
    goal : Goal
        What the weights minimise.
    random_state
        Where randomness comes from.
    threads : int or None
        Threads to use; None takes the available cores.
    ensemble : Ensemble or None
        How models are averaged before they are scored.

    Examples
    --------
    >>> resolve(alpha=0.05, normalize="scale").normalizer(separate=True)
    NaturalScale(widths=None)
    """

    scores: Any = PAPER
    alpha: float = 0.1
    split: Split = field(default_factory=ValidityFirst)
    frugal: bool = False
    search: Search = field(default_factory=AutoSearch)
    scale: Normalizer | None = None
    kind: Form = "probs"
    weights: Any = None
    tune_alpha: float | None = None
    allow_empty: bool = True
    delta: float | None = None
    calibration: Calibration = field(default_factory=Marginal)
    goal: Goal = field(default_factory=MeanSize)
    random_state: Any = None
    threads: int | None = None
    ensemble: Ensemble | None = None

    @property
    def blends(self) -> bool:
        """Whether the scores are left to the library."""
        return is_auto(self.scores)

    @property
    def tune_level(self) -> float:
        """The level used while searching."""
        return self.alpha if self.tune_alpha is None else self.tune_alpha

    @property
    def learns_apart(self) -> bool:
        """Whether scale or calibration learn from rows that do not calibrate."""
        return self.calibration_learns or self.normalizer(separate=False).learns

    @property
    def votes(self) -> bool:
        """Whether every score has a threshold of its own, so that no weight is chosen."""
        return bool(getattr(self.calibration, "votes", False))

    @property
    def calibration_learns(self) -> bool:
        """Whether the calibration learns, as one of somebody else's may."""
        return bool(getattr(self.calibration, "learns", True))

    @property
    def calibration_apart(self) -> bool:
        """Whether the calibration cannot do without rows apart from those that calibrate.

        What a scheme learns by counting the candidate with the calibration rows it learns alike
        from all of them, where the candidate takes part: under ``exact``.
        """
        counts = getattr(self.calibration, "counts_candidate", False)
        return self.calibration_learns and not (counts and is_symmetric(self.split))

    def normalizer(self, *, separate: bool) -> Normalizer:
        """Return the normaliser, given whether the tuning rows stay out of calibration."""
        return resolve_normalizer("auto", separate=separate) if self.scale is None else self.scale

    def settled(self, d: int) -> FloatArray | None:
        """Return the weights (d,) that no row has to choose, so that all rows calibrate; or None.

        They are given, or the only candidate where neither the scale nor the calibration learns
        anything. Settings decide, never labels. A split object keeps the share that it asks for:
        only ``split="vfcp"``, by name, leaves it to the library.
        """
        if self.votes or are_equal(self.weights):
            return np.full(d, 1 / d)
        if self.weights is not None:
            return check_simplex(self.weights, d)
        return self.only_weights(d) if self.frugal and not self.calibration_learns else None

    def split_for(self, d: int) -> Split | None:
        """Return the split of a fit with d scores; None where no row tunes and all calibrate."""
        if self.settled(d) is not None:
            return None
        alone = self.only_weights(d) is not None and not self.calibration_apart
        if is_symmetric(self.split) and alone:
            return Exact()  # one candidate: a shortlist has nothing to choose
        return self.split

    def only_weights(self, d: int) -> FloatArray | None:
        """Return the one candidate (d,) on a scale that learns nothing; None where rows choose.

        An automatic scale is learnt for several scores; one score has the same sets on every
        rising scale, and so takes one that learns nothing.
        """
        return None if self.normalizer(separate=d > 1).learns else only_candidate(self.search, d)


def read_as(kind: Any, *, renormalize: bool) -> Any:
    """Return the kind of outputs, of which probabilities may be divided by the sums of their rows.

    Examples
    --------
    >>> read_as("probs", renormalize=True)
    'shares'
    """
    check_flag(renormalize, "renormalize")
    if not renormalize or kind == "shares":
        return kind
    if kind != "probs":
        raise InvalidInput(
            f'renormalize=True divides probabilities by their sums, and kind="{kind}" has none to '
            "divide; leave it out."
        )
    return "shares"


def are_equal(weights: Any) -> bool:
    """Whether weights are asked for by the name of those that treat all scores alike."""
    if isinstance(weights, str) and weights != EQUAL:
        raise InvalidInput(f'weights must be numbers, "{EQUAL}" or None; got {shown(weights)}.')
    return isinstance(weights, str)


def is_auto(scores: Any) -> bool:
    """Whether the scores are left to the library.

    Examples
    --------
    >>> is_auto("auto"), is_auto(["auto"]), is_auto(("thr", "rank"))
    (True, True, False)
    """
    if isinstance(scores, str):
        return scores == "auto"
    return isinstance(scores, Sequence) and len(scores) == 1 and is_auto(scores[0])


def scores_left_out(
    *,
    split: Any = "vfcp",
    search: Any = "auto",
    normalize: Any = "auto",
    weights: Any = None,
    tune_alpha: float | None = None,
    calibration: Any = "marginal",
    objective: Any = "size",
    ensemble: Any = None,
) -> str:
    """Return what is averaged where nobody says: "auto", or "paper" where it has no say.

    A blend finds its weights by likelihood, on rows that do not calibrate. Whoever asks for
    weights, a search, a scale, an objective, a vote or another split means scores that have names,
    and gets those of the paper.

    Examples
    --------
    >>> scores_left_out(), scores_left_out(split="exact"), scores_left_out(weights=[0.5, 0.5, 0])
    ('auto', 'auto', 'paper')
    """
    asked = (
        weights is not None,
        not _is_auto_search(search),
        not _is_auto_scale(normalize),
        tune_alpha is not None,
        ensemble is not None,
        not is_mean_size(resolve_objective(objective)),
        getattr(resolve_calibration(calibration), "votes", False),
        not hasattr(resolve_split(split), "share"),
    )
    return "paper" if any(asked) else "auto"


def resolve(
    scores: Any = None,
    *,
    alpha: float = 0.1,
    split: Any = "vfcp",
    search: Any = "auto",
    normalize: Any = "auto",
    kind: Form = "probs",
    weights: Any = None,
    tune_alpha: float | None = None,
    allow_empty: bool = True,
    guarantee: str = "marginal",
    delta: float = 0.1,
    calibration: Any = "marginal",
    objective: Any = "size",
    random_state: Any = None,
    threads: int | None = None,
    ensemble: Any = None,
    renormalize: bool = False,
) -> Settings:
    """Return the settings of `conformix.ScoreAverage`, checked against each other.

    Examples
    --------
    >>> resolve(split="exact", tune_alpha=0.2)
    Traceback (most recent call last):
    conformix.errors.InvalidInput: split "exact" selects at alpha by one rule for all rows; ...
    """
    simple_fraction(alpha)
    if tune_alpha is not None:
        simple_fraction(tune_alpha, "tune_alpha")
    if not isinstance(guarantee, str) or guarantee not in ("marginal", "pac"):
        raise InvalidInput(f'guarantee must be "marginal" or "pac"; got {shown(guarantee)}.')
    check_delta(delta)
    check_flag(allow_empty, "allow_empty")
    if scores is None:
        scores = scores_left_out(
            split=split, search=search, normalize=normalize, weights=weights,
            tune_alpha=tune_alpha, calibration=calibration, objective=objective, ensemble=ensemble,
        )  # fmt: skip
    if is_auto(scores):
        _check_blend(weights, search, objective)
    available_threads(threads)
    resolved = Settings(
        scores,
        alpha,
        resolve_split(split),
        frugal=isinstance(split, str) and resolve_split(split).name == ValidityFirst.name,
        search=resolve_search(search),
        scale=None if _is_auto_scale(normalize) else resolve_normalizer(normalize, separate=False),
        kind=read_as(kind, renormalize=renormalize),
        weights=weights,
        tune_alpha=tune_alpha,
        allow_empty=bool(allow_empty),
        delta=delta if guarantee == "pac" else None,
        calibration=resolve_calibration(calibration),
        goal=resolve_objective(objective),
        random_state=random_state,
        threads=threads,
        ensemble=resolve_ensemble(ensemble),
    )
    are_equal(weights)
    _check_calibration(resolved)
    _check_vote(resolved)
    _check_exact(resolved)
    if resolved.ensemble is not None and resolved.blends:
        raise InvalidInput(
            'scores="auto" averages the models itself; leave ensemble out, or name the scores.'
        )
    return resolved


def _is_auto_search(search: Any) -> bool:
    return isinstance(search, str) and search == "auto"


def _is_auto_scale(normalize: Any) -> bool:
    return isinstance(normalize, str) and normalize == "auto"


def _check_blend(weights: Any, search: Any, objective: Any) -> None:
    """Refuse what has no effect beside a blend, which finds its weights by likelihood."""
    asked = {
        "weights": weights is not None,
        "search": not _is_auto_search(search),
        "objective": not is_mean_size(resolve_objective(objective)),
    }
    option = next((name for name, is_asked in asked.items() if is_asked), None)
    if option:
        raise InvalidInput(
            f'scores="auto" finds its own weights, by likelihood; leave {option} at its '
            "default, or name the scores."
        )


def _check_exact(settings: Settings) -> None:
    """Refuse what the selection of the exact split has no room for."""
    if settings.weights is not None or not is_symmetric(settings.split):
        return
    altered = {
        "tune_alpha": settings.tune_alpha is not None,
        "another objective": not is_mean_size(settings.goal),
    }
    option = next((name for name, asked in altered.items() if asked), None)
    if option:
        raise InvalidInput(
            f'split "exact" selects at alpha by one rule for all rows; {option} does not apply.'
        )
    if settings.delta is not None:
        raise InvalidInput(
            'guarantee="pac" bounds the coverage given the calibration rows by the law of one '
            'order statistic, and under split "exact" every label selects weights of its own, so '
            'that no such law is known; say split="holdout" (vfcp) or "all-rows" (efcp).'
        )


def _check_calibration(settings: Settings) -> None:
    """Refuse a calibration that does not go with the other settings."""
    scheme, split = settings.calibration, settings.split
    if scheme.name == Marginal.name:
        return
    by_hand, pac = settings.weights is not None, settings.delta is not None
    if not by_hand and is_symmetric(split):
        _check_symmetry(settings)
    if pac and not getattr(scheme, "has_pac", True):
        raise InvalidInput(f'guarantee="pac" is not known for calibration "{scheme.name}".')
    if pac and not by_hand and split.needs_test:
        raise InvalidInput(
            f'guarantee="pac" with split "{split.name}" speaks of the whole test batch, and '
            f'calibration "{scheme.name}" of parts of unknown size; say split="holdout" (vfcp) or '
            '"all-rows" (efcp).'
        )
    if by_hand and hasattr(scheme, "limits"):
        raise InvalidInput(
            f'calibration "{scheme.name}" freezes its ranks on tuning rows, and fixed weights '
            "leave none; say search=[weights] instead."
        )
    lifted = not settings.allow_empty and (by_hand or not is_symmetric(split))
    if scheme.tune and lifted:  # the exact split selects as if sets could be empty
        raise InvalidInput("tune=True of a calibration goes with allow_empty=True only.")


def _check_symmetry(settings: Settings) -> None:
    """Refuse a calibration that would not treat the candidate of the exact split as the others."""
    scheme = settings.calibration
    if hasattr(scheme, "limits"):
        raise InvalidInput(
            f'calibration "{scheme.name}" freezes ranks under one weighting, and under split '
            '"exact" every label selects its own; say calibration="class", or split="holdout" '
            "(vfcp)."
        )
    if settings.calibration_apart and getattr(settings.split, "shortlist", None) is None:
        raise InvalidInput(
            f'calibration "{scheme.name}" learns from labelled rows, and under split "exact" all '
            "of them calibrate: the candidate would be the only row that it has not seen; set rows "
            'aside with Exact(shortlist=...), or say split="holdout" (vfcp).'
        )


def _check_vote(settings: Settings) -> None:
    """Refuse what a vote has no room for: it has neither weights nor a scale nor a best label."""
    if not settings.votes:
        return
    scale = settings.scale
    asked = {
        "weights": settings.weights is not None,
        "search": settings.search != AutoSearch(),
        "normalize": scale is not None and scale.name != "none",
        "allow_empty=False": not settings.allow_empty,
        "tune_alpha": settings.tune_alpha is not None,
        "another objective": not is_mean_size(settings.goal),
    }
    option = next((name for name, is_asked in asked.items() if is_asked), None)
    if option:
        raise InvalidInput(
            'calibration "vote" compares every score with its own calibration scores and counts; '
            f"{option} does not apply."
        )


def is_symmetric(split: Split) -> bool:
    """Whether a candidate label takes part in the choice of its weights, as under ``exact``."""
    return bool(getattr(split, "symmetric", False))
