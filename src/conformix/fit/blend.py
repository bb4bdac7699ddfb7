"""What a fit scores under ``scores="auto"``: the columns of a blend that is learnt here.

The blend learns from the tuning rows of the split, or, under ``exact``,
from rows set aside. Nothing else sees their labels, so that it is fixed as far as the calibration
rows are concerned, and the guarantee of the split stays what it is. Where all rows are needed for a
finite threshold, or a plan leaves fewer than sixteen that could teach, none does: the blend is then
its prior, the mean of the models' log-probabilities, which for one model has the sets of ``thr``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.outputs import Outputs
from conformix.errors import InvalidInput
from conformix.fit.learning import LearntScores, learn, learn_from, refuse_own_rows, with_batch
from conformix.fit.rows import Rows
from conformix.fit.settings import Settings, is_symmetric
from conformix.guarantees import RankRule
from conformix.kernels.arrays import FloatArray, IntArray, n_true
from conformix.scores import Column, Logit, Thr
from conformix.scores.blend import (
    DICTIONARY,
    LADDER,
    LEARNT,
    Blend,
    Computing,
    KnownRows,
    can_teach,
    dictionary_columns,
    fit_blend,
    plan_rows,
)
from conformix.scores.scale import Unscaled
from conformix.search.grid import Candidates
from conformix.search.objective import SearchResult, SizeObjective
from conformix.search.weights import AutoSearch
from conformix.splits import Exact, Roles, Split, ValidityFirst


class Blended(NamedTuple):
    """What is scored, of which rows, and what is left of the settings."""

    columns: tuple[Column, ...]
    rows: Rows  # that the split is given
    settings: Settings
    blend: Blend  # whose scores the columns are
    roles: Roles | None = None  # where they are drawn already
    known: Outputs | None = None  # those of the rows that tune, where they are known


def learn_blend(rows: Any, settings: Settings, rng: np.random.Generator) -> Blended:
    """Return the blend of all models, learnt on the rows that tune, brought here from afar."""
    most = len(rows.models) * (len(DICTIONARY) + len(LEARNT) + 1)
    split = blend_split(settings, rows.n, most, rows.n_classes, rows.groups)
    # Drawn once: the rows that the blend learns from are those that do not calibrate.
    roles = None if split is None else split.roles(rows.n, 0, rng, rows.groups)
    tuning = rows.take(np.arange(0) if roles is None else roles.tune)
    # In one arithmetic, wherever it is done: a device learns the same coefficients.
    seen = tuning.outputs if tuning.outputs.stays_on_device else tuning.outputs.to_host()
    columns = dictionary_columns(seen)
    teaches = roles is not None and (split_is_asked_for(settings) or can_teach(seen, columns))
    if roles is not None:
        refuse_own_rows(rows, roles, settings)
    if roles is None or not teaches:
        learnt = LearntScores(tuple(c for c in columns if not c.score.learns), {})
        seen, tuning = seen.rows(slice(0)), tuning.take(np.arange(0))
    else:
        room, seen = _with_room(seen, columns)
        tuning = replace(tuning, outputs=seen)
        learnt = learn_from(rows, tuning, columns, settings.threads, room)
    blend, of_teachers = fit_blend(
        seen, tuning.y, learnt.columns, name=_free_name(rows.models), threads=settings.threads,
        left_out=learnt.left_out,
        room=learnt.room,
    )  # fmt: skip
    if roles is not None:
        blend = replace(blend, columns=with_batch(rows, blend.columns, roles, settings))
    if not learn(learnt.columns):
        rows = replace(rows, unlabelled=None)  # of no use: nothing has looked at them
    known = None
    if is_symmetric(settings.split) and roles is not None:
        rows = rows.take(roles.calibrate)
    elif roles is not None and len(tuning.y):
        known = KnownRows(roles.tune, of_teachers)
    rows = rows.blended(blend, Computing(settings.threads, learnt.room, known))
    scale = Unscaled() if settings.scale is None else settings.scale
    settings = replace(settings, scale=scale, scores=None)
    if is_symmetric(settings.split):
        ladder = tuple(Column(blend.name, Thr(temperature)) for temperature in LADDER)
        if blend.evidence is not None:
            ladder += (Column(blend.name, Logit()),)
        settings = replace(settings, split=Exact(), search=Candidates(np.eye(len(ladder))))
        return Blended(ladder, rows, settings, blend)
    single = (Column(blend.name, Thr() if blend.evidence is None else Logit()),)
    if split is None or roles is None:
        settings = replace(settings, split=ValidityFirst(), frugal=True, search=AutoSearch())
        return Blended(single, rows, settings, blend)
    search = OnlyBlend(len(tuning.y))
    settings = replace(settings, split=split, frugal=False, search=search)
    if len(roles.tune) + 1 < 1 / simple_fraction(settings.alpha):
        # The blend is the only candidate: the tuning rows need not be enough for alpha.
        settings = replace(settings, tune_alpha=1 / (len(roles.tune) + 1))
    own = None if known is None else blend.instead(seen, known.values)
    return Blended(single, rows, settings, blend, roles, own)


def _with_room(outputs: Outputs, columns: tuple[Column, ...]) -> tuple[FloatArray | None, Outputs]:
    """Return room (p, n, K) for the scores of rows on the host, and their outputs, some of it.

    Probabilities are a score as they are, and take no room of their own. What comes last is where
    the blend itself will be, and is nobody's.
    """
    if outputs.on_device:
        return None, outputs
    room, models = np.empty((len(columns), outputs.n, outputs.n_classes)), dict(outputs.models)
    itself = Thr() if outputs.kind == "probs" else None
    for (model, score), plane in zip(columns[:-1], room, strict=False):
        if score == itself:
            plane[:] = outputs.models[model][:]  # rows of few labels are filled up here
            models[model] = plane
    return room, replace(outputs, models=models)


@dataclass(frozen=True)
class OnlyBlend:
    """The search where there is one candidate: its size on the tuning rows is read, no more.

    Parameters
    ----------
    n_rows : int
        Rows that the blend has learnt from; none where too few are set aside.
    """

    n_rows: int

    def n_candidates(self, d: int) -> int:
        """Return one."""
        return 1

    def only_counts(self, d: int) -> bool:
        """Return that labels are counted for a positive weight, and no more."""
        return True

    def __call__(
        self, objective: SizeObjective, rng: np.random.Generator | None = None
    ) -> SearchResult:
        """Return the one candidate; plain sizes need no compiled code."""
        weights = np.ones((1, 1))
        if objective.plain:
            threshold = objective.thresholds(weights)[0]
            # Of one score with a weight of one, which is itself.
            reached = (part[..., 0] >= threshold for part in objective.size_parts)
            count = sum(n_true(part) for part in reached)
        else:
            count = int(objective.counts(weights)[0])
        strategy = f"blend by the likelihood of {self.n_rows:,} rows"
        if not self.n_rows:
            strategy = "mean of the log-probabilities"
        return SearchResult(weights[0], count, objective.n_size, 1, strategy)


def blend_split(
    settings: Settings, n: int, n_scores: int, n_classes: int, groups: IntArray | None = None
) -> Split | None:
    """Return the split with a share of tuning rows that suits a blend; None where none can tune.

    Sizes and settings decide, never labels. Groups stay whole: so many tune that even the largest
    ones leave enough rows to calibrate.
    """
    split: Any = settings.split
    if not hasattr(split, "share"):
        raise InvalidInput(
            'scores="auto" learns from rows that do not calibrate, so split must be "holdout" '
            f'(vfcp) or "exact"; got "{split.name}".'
        )
    symmetric = is_symmetric(split)
    if split_is_asked_for(settings):
        return split  # type: ignore[no-any-return]
    reserved = RankRule(settings.delta).rows_needed(settings.alpha, n)
    units = plan_rows(n, settings.alpha, n_scores, n_classes, reserved=reserved)
    n_units = n
    if groups is not None:
        largest = np.cumsum(np.sort(np.bincount(groups))[::-1])
        n_units = len(largest)
        can_go = int(np.searchsorted(largest, n - reserved, side="right"))
        units = min(max(round(units / n * n_units), 1), can_go) if units else 0
    if units == 0 and not settings.learns_apart:
        return None
    share = max(units, 1) / n_units if n_units > 1 else 0.5  # one unit is refused by `roles`
    return Exact(shortlist=len(LADDER), share=share) if symmetric else ValidityFirst(share)


def split_is_asked_for(settings: Settings) -> bool:
    """Whether a split object says how many rows tune; by name that is left to the library."""
    split: Any = settings.split
    return split.shortlist is not None if is_symmetric(split) else not settings.frugal


def _free_name(models: tuple[str, ...]) -> str:
    name = "blend"
    while name in models:
        name += "_"
    return name
