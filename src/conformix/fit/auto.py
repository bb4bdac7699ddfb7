"""``scores="auto"``: from labelled outputs to a blend, and what is left for the split to do.

The blend learns from the tuning rows of the split, or, under ``exact``, from rows set aside.
Nothing else sees their labels, so that it is fixed as far as the calibration rows are concerned,
and the guarantee of the split stays what it is. Where all rows are needed for a finite threshold
none tunes: the blend is then its prior, the mean of the models' log-probabilities, which for one
model has the sets of ``thr``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.outputs import Outputs
from conformix.errors import InvalidInput
from conformix.guarantees import RankRule
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.scores import Column, Thr
from conformix.scores.blend.dictionary import LADDER, dictionary_columns, plan_rows
from conformix.scores.blend.learn import fit_blend
from conformix.scores.blend.model import Blend, host_outputs
from conformix.search.grid import Candidates
from conformix.search.objective import SizeObjective
from conformix.search.result import SearchResult
from conformix.splits import Drawn, Exact, Split, ValidityFirst, resolve_split


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


@dataclass(frozen=True, eq=False)
class Plan:
    """What a fit scores, and what changes in its settings.

    Parameters
    ----------
    columns : tuple of Column
        The scores.
    blend : Blend, optional
        The learnt expert that they belong to; None where they belong to the models.
    rows : slice or integer array
        The labelled rows that the split is given.
    settings : dict
        What replaces the user's settings.
    """

    columns: tuple[Column, ...]
    blend: Blend | None = None
    rows: Any = field(default_factory=lambda: slice(None))
    settings: dict[str, Any] = field(default_factory=dict)

    def scored(self, outputs: Outputs) -> Outputs:
        """Return the outputs that are scored, of the rows that the split is given."""
        if self.blend is None:
            return outputs
        return self.blend.over(taken(host_outputs(outputs), self.rows))


@dataclass(frozen=True)
class OnlyBlend:
    """The search where there is one candidate: its size on the tuning rows is read, no more.

    Parameters
    ----------
    n_rows : int
        Rows that the blend has learnt from.
    """

    n_rows: int

    def n_candidates(self, d: int) -> int:
        """Return one."""
        return 1

    def __call__(
        self, objective: SizeObjective, rng: np.random.Generator | None = None
    ) -> SearchResult:
        """Return the one candidate; plain sizes need no compiled code."""
        weights = np.ones((1, 1))
        if type(objective) is SizeObjective:
            threshold = objective.thresholds(weights)[0]
            reached = (combine(part, weights[0]) >= threshold for part in objective.size_parts)
            count = sum(int(np.count_nonzero(part)) for part in reached)
        else:
            count = int(objective.counts(weights)[0])
        strategy = f"blend by the likelihood of {self.n_rows:,} rows"
        return SearchResult(weights[0], count, objective.n_size, 1, strategy)


def plan_auto(
    outputs: Outputs,
    y: IntArray,
    *,
    alpha: float,
    split: Any,
    rng: np.random.Generator,
    normalize: Any = "auto",
    groups: IntArray | None = None,
    threads: int | None = None,
    rank: RankRule | None = None,
    apart: bool = False,
) -> Plan:
    """Return the blend of checked outputs, learnt on the rows that tune.

    Parameters
    ----------
    outputs, y
        Labelled rows.
    alpha : float
        Allowed miscoverage; it decides how many rows calibrate.
    split : str or split
        ``vfcp`` or ``exact``; a split object brings its own share of tuning rows.
    rng : Generator
        Where the split draws from.
    normalize : str or normaliser
        ``auto`` is ``none``: the blend's probabilities are one scale already.
    groups : integer array of shape (n,), optional
        Rows of one group stay together.
    threads : int or None
        Threads for the scores.
    rank : RankRule, optional
        Which order statistic is the threshold; by default the conformal one.
    apart : bool
        Whether something else than the blend learns from rows that do not calibrate, so that
        there must be some.
    """
    columns = dictionary_columns(tuple(outputs.models))
    own = shared_out(
        split, len(y), alpha, len(columns), outputs.n_classes, rank=rank, groups=groups, apart=apart
    )
    plain = isinstance(normalize, str) and normalize == "auto"
    settings: dict[str, Any] = {"normalize": "none" if plain else normalize}
    roles = None
    if own is not None:
        # Drawn once: the rows that the blend learns from are those that do not calibrate.
        roles = own.roles(len(y), 0, rng, groups)
    tune = np.arange(0) if roles is None else roles.tune
    some = taken(host_outputs(outputs), tune)
    blend = fit_blend(some, y[tune], columns, name=_free_name(outputs), threads=threads)
    if isinstance(resolve_split(split), Exact):
        ladder = tuple(Column(blend.name, Thr(temperature)) for temperature in LADDER)
        settings |= {"split": Exact(), "search": Candidates(np.eye(len(ladder)))}
        return Plan(ladder, blend, slice(None) if roles is None else roles.calibrate, settings)
    single = (Column(blend.name, Thr()),)
    if own is None or roles is None:
        return Plan(single, blend, settings=settings | {"split": "vfcp", "search": "auto"})
    settings |= {"split": Drawn(own, roles), "search": OnlyBlend(len(tune))}
    if len(tune) + 1 < 1 / simple_fraction(alpha):
        # The blend is the only candidate: the tuning rows need not be enough for alpha.
        settings["tune_alpha"] = 1 / (len(tune) + 1)
    return Plan(single, blend, settings=settings)


def shared_out(
    split: Any,
    n: int,
    alpha: float,
    n_scores: int,
    n_classes: int,
    *,
    rank: RankRule | None = None,
    groups: IntArray | None = None,
    apart: bool = False,
) -> Split | None:
    """Return the split with a share of tuning rows that suits a blend; None where none can tune.

    Sizes and settings decide, never labels. Groups stay whole: so many tune that even the largest
    ones leave enough rows to calibrate.
    """
    own = resolve_split(split)
    if not isinstance(own, ValidityFirst | Exact):
        raise InvalidInput(
            'scores="auto" learns from rows that do not calibrate, so split must be "vfcp" or '
            f'"exact"; got "{own.name}".'
        )
    asked = own.shortlist is not None if isinstance(own, Exact) else not isinstance(split, str)
    if asked:
        return own
    rule = RankRule() if rank is None else rank
    reserved = rule.rows_needed(alpha, n)
    units = plan_rows(n, alpha, n_scores, n_classes, reserved=reserved)
    n_units = n
    if groups is not None:
        largest = np.cumsum(np.sort(np.bincount(groups))[::-1])
        n_units = len(largest)
        can_go = int(np.searchsorted(largest, n - reserved, side="right"))
        units = min(max(round(units / n * n_units), 1), can_go) if units else 0
    if units == 0 and not apart:
        return None
    share = max(units, 1) / n_units if n_units > 1 else 0.5  # one unit is refused by `roles`
    if isinstance(own, Exact):
        return replace(own, shortlist=len(LADDER), share=share)
    return ValidityFirst(share)


def taken(outputs: Outputs, rows: Any) -> Outputs:
    """Return the outputs on the rows of an index array, or all of them."""
    if isinstance(rows, slice):
        return outputs
    models: dict[str, FloatArray] = {name: values[rows] for name, values in outputs.models.items()}
    return replace(outputs, models=models)


def _free_name(outputs: Outputs) -> str:
    name = "blend"
    while name in outputs.models:
        name += "_"
    return name
