"""Scores that learn from rows: from which rows, and what these rows score themselves.

`conformix.scores.learnt` has the scores. What they learn from decides what is promised:

- the tuning rows, and rows without labels that neither calibrate nor are predicted: the scores are
  fixed as far as calibration and test rows are concerned, and every guarantee stays;
- the calibration rows and a batch of test rows together (``test=``): one map that treats them all
  alike, so their scores stay exchangeable, and the guarantee is for this batch alone. Weights and
  coefficients still come from matrices of the tuning rows, and from these labels only. Under
  ``exact`` the test rows are not looked at;
- the calibration rows and the one row that is predicted (``test="each"``,
  `conformix.fit.each_row`): the same for every row as a batch of its own;
- rows that tune and calibrate (efcp, dlcp, dlcp+): no finite-sample bound is known.

In every search a row that taught a score has the value of a matrix that it had no part in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from conformix.calibration import Marginal
from conformix.data.outputs import Outputs, Source
from conformix.errors import InvalidInput
from conformix.fit.rows import ArrayRows, Rows, check_test, rows_held
from conformix.fit.scored import Scored, with_planes
from conformix.fit.settings import Settings, is_symmetric
from conformix.kernels import available_threads
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.patterns import MOST_ROWS
from conformix.kernels.twins import compile_for
from conformix.scores.learnt import RowSums, parts_of, total_of
from conformix.scores.names import Column
from conformix.scores.ranked import Ranked, ranked_rows
from conformix.scores.terms import fill_terms
from conformix.scores.uniforms import row_digests
from conformix.splits import Roles, bounded

# The share of rows with outputs of their own from which on rows are told apart by them.
DISTINCT = 0.95


@dataclass(frozen=True)
class LearntScores:
    """Columns whose scores have learnt, and what the rows that taught them score."""

    columns: tuple[Column, ...]
    # By place of the column: (m, K), of the tuning rows. Of other scores, too, if had on the way.
    left_out: dict[int, FloatArray]
    room: FloatArray | None = None  # (p, m, K), of which they are planes; on the host


class Learnt(NamedTuple):
    """What a fit with scores that learn goes on with."""

    scores: LearntScores
    settings: Settings
    roles: Roles


def learn(columns: Sequence[Column]) -> bool:
    """Whether some of the scores learn."""
    return any(column.score.learns for column in columns)


def learn_columns(
    rows: Rows, columns: tuple[Column, ...], settings: Settings, rng: np.random.Generator
) -> Learnt:
    """Return named scores that have learnt from the rows that tune, with the roles of all rows."""
    settings = replace(settings, frugal=False)  # one score, too, needs rows to learn from
    split = settings.split_for(len(columns))
    if split is None:
        roles = Roles(np.arange(0), np.arange(0), np.arange(rows.n))
    else:
        split = bounded(split, rows_held(rows.n_classes, len(columns)))
        n_test = None if rows.test is None else rows.test.n
        check_test(split, n_test)
        used = n_test if split.needs_test and n_test else 0
        roles = split.roles(rows.n, used, rng, rows.groups)
    if rows.each_row and not roles.separate:
        raise InvalidInput(
            'test="each" needs weights that calibration rows had no part in, and under split '
            f'"{settings.split.name}" they choose them, so that no bound is known; say '
            'split="holdout" (vfcp).'
        )
    taught = len(roles.tune) or rows.unlabelled is not None
    if not taught and rows.each_row:  # by all rows, for reading: every row teaches them anew
        columns = taught_by_all(columns, [rows.outputs])
        return Learnt(LearntScores(columns, {}), settings, roles)
    if not taught:
        names = ", ".join(str(column) for column in columns if column.score.learns)
        raise InvalidInput(
            f"{names}: learns from rows that do not calibrate, and here all rows do; say "
            'split="holdout" (vfcp), or give other rows as fit(..., unlabelled=outputs).'
        )
    refuse_own_rows(rows, roles, settings)
    learnt = learn_from(rows, rows.take(roles.tune), columns, settings.threads)
    batch = with_batch(rows, learnt.columns, roles, settings)
    return Learnt(replace(learnt, columns=batch), settings, roles)


def learn_from(
    rows: Rows,
    tuning: ArrayRows,
    columns: Sequence[Column],
    threads: int | None = None,
    room: FloatArray | None = None,
) -> LearntScores:
    """Return the columns with what the tuning rows, and rows without labels, teach them.

    On the host in `room` for the scores (p, m, K) of all columns, where that is given.
    """
    outputs = tuning.outputs if tuning.outputs.stays_on_device else tuning.outputs.to_host()
    parts = parts_of(outputs.n, tuning.groups, outputs.n_classes)
    compile_for(outputs.n * outputs.n_classes)
    listed, left_out, several = list(columns), {}, available_threads(threads)
    for model in dict.fromkeys(column.model for column in columns if column.score.learns):
        ranked = ranked_rows(outputs.models[model][:], outputs.kind, outputs.arithmetic)
        if not outputs.on_device:
            plain = [
                (j, c) for j, c in enumerate(columns) if c.model == model and not c.score.learns
            ]
            filled = fill_terms(ranked, plain, room, several) if room is not None else []
            left_out.update({j: room[j] for j in filled if room is not None})
            if not filled:
                ranked.compute(threads)
        for j, (name, score) in enumerate(columns):
            if name != model or not score.learns:
                continue
            learning: Any = score
            own = learning.sums_of_parts(ranked, parts, threads) if outputs.n else []
            sums = add_up(score, model, [rows.unlabelled], own, threads).beside(ranked.probs)
            listed[j] = Column(model, learning.learnt(sums, threads))
            if outputs.n:
                plane = None if room is None else room[j]
                left_out[j] = learning.left_out(ranked, sums, parts, threads, own, out=plane)
    return LearntScores(tuple(listed), left_out, room)


def add_up(
    score: Any,
    model: str,
    sources: Sequence[Source | None],
    own: Sequence[RowSums] = (),
    threads: int | None = 1,
) -> RowSums:
    """Return what a score adds up over all rows of some outputs, by whoever has them.

    And over rows whose sums are known. Sums are exact: no cut into blocks changes them.
    """
    total = total_of(own, threads) if own else None
    there = [source for source in sources if source is not None]
    n = sum(source.n for source in there)
    n += total.n if total is not None else 0
    if n > MOST_ROWS:
        raise InvalidInput(
            f'score "{score}" adds up at most {MOST_ROWS:,} rows; got {n:,}, so give fewer rows as '
            "unlabelled or test."
        )
    for source in there:
        sums = source.fold(partial(_sums, score, model), RowSums.plus)
        total = sums if total is None else total.on_host.plus(sums)
    if total is None:
        raise InvalidInput(f'score "{score}" has no rows to learn from.')
    return total


def _sums(score: Any, model: str, outputs: Outputs) -> RowSums:
    """Return what a score adds up over a block of rows."""
    part = outputs.to_host()
    ranked = Ranked(part.models[model][:], part.kind, arithmetic=part.arithmetic)
    return score.sums(ranked)  # type: ignore[no-any-return]


def with_batch(
    rows: Rows, columns: tuple[Column, ...], roles: Roles, settings: Settings
) -> tuple[Column, ...]:
    """Return scores that have learnt from calibration and test rows alike, where there is a batch.

    What the tuning rows score stays: weights come from matrices of these rows alone.
    """
    if not speaks_for_batch(rows, roles, settings) or not learn(columns):
        return columns
    scheme = settings.calibration
    if settings.delta is not None and scheme.name != Marginal.name:
        raise InvalidInput(
            'guarantee="pac" for a batch that scores learn from speaks of the whole batch, and '
            f'calibration "{scheme.name}" of parts of unknown size; leave out test, or say '
            'guarantee="marginal".'
        )
    everything = [rows.outputs, rows.unlabelled, rows.test]
    return taught_by_all(columns, everything)


def taught_by_all(
    columns: Sequence[Column], sources: Sequence[Source | None]
) -> tuple[Column, ...]:
    """Return the columns with what all rows of some outputs teach them."""
    return tuple(
        Column(model, score.learnt(add_up(score, model, sources)) if score.learns else score)  # type: ignore[attr-defined]
        for model, score in columns
    )


def taught_by(rows: Any, scored: Scored, columns: Sequence[Column], settings: Settings) -> Scored:
    """Return scored rows with what the ledger says of the rows that taught the scores.

    Rows without labels had a part in coefficients, too, where these left no score that learns.
    """
    others = getattr(rows, "unlabelled", None)
    batch = learn(columns) and speaks_for_batch(rows, scored.roles, settings)
    return replace(
        scored,
        n_batch=rows.test.n if batch else 0,
        n_unlabelled=0 if others is None else others.n,
    )


def speaks_for_batch(rows: Any, roles: Roles, settings: Settings) -> bool:
    """Whether scores learn from a batch of test rows, which the promise then is for."""
    return rows.test is not None and roles.separate and not is_symmetric(settings.split)


def with_left_out(scored: Scored, learnt: LearntScores | None) -> Scored:
    """Return scored rows in which those that taught a score have the values that leave them out."""
    if learnt is None or not learnt.left_out:
        return scored
    scores = with_planes(scored.scores, scored.y, scored.roles.tune, learnt.left_out)
    return replace(scored, scores=scores)


def refuse_each_row(settings: Settings) -> None:
    """Refuse what speaks of one rule for all rows where every row has its own."""
    if settings.weights is None and is_symmetric(settings.split):
        raise InvalidInput(
            f'split "{settings.split.name}" selects by tables of the scores of all calibration '
            'labels, and test="each" changes these with every row; say split="holdout" (vfcp).'
        )
    if settings.delta is not None:
        raise InvalidInput(
            'guarantee="pac" speaks of one threshold for all rows, and test="each" gives every row '
            'its own; say guarantee="marginal", or leave out test.'
        )


def refuse_teachers(rows: Any, columns: Sequence[Column]) -> None:
    """Refuse rows that are to teach scores where no score learns."""
    asked = ["unlabelled"] if rows.unlabelled is not None else []
    asked += ['test="each"'] if rows.each_row else []
    if asked:
        names = ", ".join(dict.fromkeys(str(column.score) for column in columns))
        raise InvalidInput(
            f"{asked[0]} is for scores that learn, and here none does: {names}; leave it out, or "
            'name likeness, kin or rarity, or say scores="auto".'
        )


def refuse_own_rows(rows: Rows, roles: Roles, settings: Settings) -> None:
    """Refuse calibration rows, and those of the batch, among those without labels.

    A row that counts twice in what is learnt differs in kind from the others.

    Outputs of forests and neighbours are often equal in different rows; then nothing is said here,
    and the ledger names the assumption.
    """
    if rows.unlabelled is None:
        return
    others = _digests(rows.unlabelled)
    calibrate = _digests(rows.outputs, roles.calibrate)
    _refuse_among(calibrate, others, "those that calibrate", roles.calibrate)
    if rows.test is not None and speaks_for_batch(rows, roles, settings):
        test = _digests(rows.test)
        _refuse_among(test, others, "those of test", np.arange(len(test)))


def _refuse_among(rows: Any, others: Any, whose: str, places: IntArray) -> None:
    values, counts = np.unique(rows, return_counts=True)
    told_apart = len(values) >= DISTINCT * len(rows)
    if not told_apart or len(np.unique(others)) < DISTINCT * len(others):
        return
    both = np.flatnonzero(np.isin(rows, values[counts == 1]) & np.isin(rows, others))
    if len(both):
        raise InvalidInput(
            f"unlabelled must hold other rows than {whose}; {len(both):,} of these are among them, "
            f"the first is row {places[both[0]]}."
        )


def _digests(source: Source, rows: IntArray | None = None) -> Any:
    """Return one value of 16 bytes per row: equal where all outputs of all models are."""
    blocks = [digests for _, digests in source.map(_of_block, rows)]
    return np.concatenate(blocks).view("V16").ravel() if blocks else np.empty(0, dtype="V16")


def _of_block(outputs: Outputs) -> Any:
    return row_digests(outputs.to_host())
