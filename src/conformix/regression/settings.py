"""The wishes of a user about responses, resolved once, in the words of `conformix.fit.settings`.

What averages share is resolved there: levels, splits, searches, weights, PAC, threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput
from conformix.fit.settings import Settings, is_symmetric, resolve
from conformix.kernels.arrays import FloatArray
from conformix.registry import check_flag
from conformix.regression.bins import resolve_regression_calibration
from conformix.regression.regressed import check_range
from conformix.regression.scale import LineScale, check_normalize, given_scale
from conformix.regression.search import levels_around
from conformix.scores.names import Column
from conformix.search.weights import only_candidate
from conformix.splits import ValidityFirst

# The share of the rows that tune where the split is named.
SHARE = 0.4


@dataclass(frozen=True)
class RegressionSettings(Settings):
    """What a fit to responses is asked to do; see `conformix.RegressionAverage` for each.

    Parameters
    ----------
    learns_scale : bool
        Whether the scale is learnt from rows, without their responses.
    divisors : tuple of float or None
        What scores are divided by instead.
    tune_levels : tuple of float or None
        Levels whose widths are added up while searching; None takes levels around alpha.
    y_range : pair of float or None
        What every response is assumed to lie within.
    """

    learns_scale: bool = True
    divisors: tuple[float, ...] | None = None
    tune_levels: tuple[float, ...] | None = None
    y_range: tuple[float, float] | None = None

    def only_weights(self, d: int) -> FloatArray | None:
        """Return the one candidate (d,) on a scale that learns nothing; None where rows choose.

        One score has the same intervals on every scale.
        """
        return None if self.learns_scale and d > 1 else only_candidate(self.search, d)

    def given_scale(self, columns: tuple[Column, ...]) -> LineScale:
        """Return the scale that learns nothing: the divisors that are given, or none."""
        return given_scale(columns, self.divisors)

    def levels(self, n_tune: int) -> tuple[float, ...]:
        """Return the levels whose widths are added up on so many tuning rows.

        Under ``exact`` that is alpha alone: several levels would widen the hull.
        """
        if is_symmetric(self.split):
            return (float(self.alpha),)
        if self.tune_levels is not None:
            return self.tune_levels
        return levels_around(self.alpha, n_tune)


def resolve_regression(
    scores: Any = "auto",
    *,
    alpha: float = 0.1,
    split: Any = "vfcp",
    search: Any = "auto",
    normalize: Any = "auto",
    weights: Any = None,
    tune_alpha: Any = None,
    allow_empty: bool = True,
    guarantee: str = "marginal",
    delta: float = 0.1,
    calibration: Any = "marginal",
    y_range: Any = None,
    random_state: Any = None,
    threads: int | None = None,
) -> RegressionSettings:
    """Return the settings of `conformix.RegressionAverage`, checked against each other.

    Examples
    --------
    >>> resolve_regression(alpha=0.05, y_range=(0, 1)).y_range
    (0.0, 1.0)
    """
    scheme = resolve_regression_calibration(calibration)
    common = resolve(
        "paper", alpha=alpha, split=split, search=search, weights=weights, guarantee=guarantee,
        delta=delta, calibration=scheme, random_state=random_state, threads=threads,
    )  # fmt: skip
    learns, divisors = check_normalize(normalize)
    shared = vars(common) | {
        "scores": scores,
        "scale": None,
        "allow_empty": check_flag(allow_empty, "allow_empty"),
    }
    if common.frugal:
        shared["split"] = ValidityFirst(SHARE)
    settings = RegressionSettings(
        **shared,
        learns_scale=learns,
        divisors=divisors,
        tune_levels=_levels(tune_alpha),
        y_range=check_range(y_range),
    )
    _check_search(settings)
    _check(settings)
    return settings


def _levels(tune_alpha: Any) -> tuple[float, ...] | None:
    if tune_alpha is None:
        return None
    one = not isinstance(tune_alpha, Sequence) or isinstance(tune_alpha, str)
    listed = [tune_alpha] if one else list(tune_alpha)
    if not listed:
        raise InvalidInput("tune_alpha must hold at least one level, or be None; got none.")
    return tuple(float(simple_fraction(level, "tune_alpha")) for level in listed)


def _check_search(settings: RegressionSettings) -> None:
    """Refuse a search of ours that counts labels: responses have widths."""
    search: Any = settings.search
    ours = type(search).__module__.startswith("conformix.search")
    if ours and not (hasattr(search, "counted") or hasattr(search, "candidate_weights")):
        raise InvalidInput(
            f"search {search!r} counts the labels of sets, and responses have widths; say "
            '"auto", "grid", GridSearch(...) or an array of weights.'
        )


def _check(settings: RegressionSettings) -> None:
    symmetric = is_symmetric(settings.split) and settings.weights is None
    if symmetric and settings.tune_levels is not None:
        raise InvalidInput(
            'split "exact" selects at alpha alone, since further levels only widen the hull; leave '
            "tune_alpha out."
        )
    by_difficulty = getattr(settings.calibration, "by_difficulty", False)
    if by_difficulty and settings.weights is not None:
        raise InvalidInput(
            'calibration "bins" takes its edges from tuning rows, and fixed weights leave none; '
            "say search=[weights] instead."
        )
    if by_difficulty and not symmetric and not hasattr(settings.split, "share"):
        raise InvalidInput(
            'calibration "bins" takes its edges from rows that do not calibrate, and split '
            f'"{settings.split.name}" has none; say split="holdout" (vfcp).'
        )
    shared = not hasattr(settings.split, "share") and settings.weights is None
    if settings.delta is not None and shared and settings.learns_scale:
        raise InvalidInput(
            'guarantee="pac" with split "all-rows" (efcp), "batch" (dlcp) or "batch+" (dlcp+) '
            "counts the weights beforehand, and a scale that the same rows teach multiplies them; "
            'say normalize="none", or give the divisors.'
        )
