"""Compile everything beforehand: by using it once, on rows that come out of a generator."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from conformix.calibration import PerClass
from conformix.errors import ConformixWarning
from conformix.estimators.average import ScoreAverage
from conformix.fit.exact import leave_one_out_efcp
from conformix.kernels.helpers import NO_BOARD
from conformix.kernels.patterns import patterns
from conformix.kernels.twins import spend_patience
from conformix.metrics import worst_slab_coverage
from conformix.scores import score_tensor
from conformix.search import GradientSearch, GridSearch

# Rows and classes: enough for tables of buckets on the scale.
ROWS, CLASSES = 1600, 64


class Warm(NamedTuple):
    """What is ready: how long it took, how much of that was compilation, where it is kept."""

    seconds: float
    compiled: float
    folder: str | None


def warm_up() -> Warm:
    """Compile whatever a fit or a prediction on the host can need; nothing where it is kept.

    Examples
    --------
    >>> warm_up().seconds > 0
    True
    """
    from conformix.kernels.host import bands, compiled, widths  # noqa: PLC0415  numba loads late
    from conformix.kernels.host.engine.walk import walk  # noqa: PLC0415
    from conformix.kernels.host.likelihood import Rows, likelihood, room_for  # noqa: PLC0415

    start = time.perf_counter()
    spend_patience()
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((2 * ROWS, CLASSES))
    logits[[0, ROWS], 1] = logits[[0, ROWS], 0] = 9.0  # rows with ties
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConformixWarning)
        for model in _models():
            model.fit(logits[:ROWS], y[:ROWS])
            sets = model.predict_set(logits[ROWS:])
            model.predict_pvalues(logits[ROWS : ROWS + 2])
        # Of several models a blend is computed in passes.
        both = ScoreAverage("auto", kind="logits", random_state=0)
        both.fit(dict.fromkeys("ab", logits[:ROWS]), y[:ROWS])
    patterns(logits[:ROWS])
    worst_slab_coverage(sets, y[ROWS:], features=logits[ROWS:, :2], directions=1)
    scores = score_tensor(logits[:ROWS], ("thr", "rank"), kind="logits")
    leave_one_out_efcp(scores, y[:ROWS], np.array([[0.5, 0.5], [0.0, 1.0]]), alpha=0.1)
    # Of many more numbers than here; so few are left to NumPy.
    one_row = Rows(
        np.ones((1, 1)), 1, 1, np.ones(1), np.zeros(1, dtype=np.int64), np.zeros(1),
        np.zeros((1, 1)), np.zeros((1, 1, 1)), *room_for(1, 1, 1, 1), 1,
    )  # fmt: skip
    likelihood(NO_BOARD, 0, 1, one_row, -1, 0)
    # Intervals of numbers, by rooms that this one does not see.
    planes, order, one = np.ones((4, 2, 3)), np.zeros((2, 3), dtype=np.int64), np.ones(1)
    knots: Any = (order, *planes)
    many: Any = (*knots, np.ones((3, 1)), one[None], -np.inf, np.inf, 0, 1, one[None, None])
    single: Any = (*knots, np.ones(3), one, np.ones((1, 3)), -np.inf, np.inf, one, np.ones(3))
    ends: Any = (*planes, np.ones(3), *np.ones((3, 1, 2)))
    bands.fill_bands(*ends)
    widths.add_widths(*many)
    widths.add_slopes(*single)
    kernel: Any = walk
    seconds = time.perf_counter() - start
    return Warm(seconds, compiled.NOTICE.seconds, kernel.stats.cache_path)


def _models() -> Iterator[Any]:
    def average(*names: str, **options: Any) -> ScoreAverage:
        settings = {"kind": "logits", "search": GridSearch(8), "random_state": 0, **options}
        return ScoreAverage(names, **settings)  # type: ignore[arg-type]

    yield average("thr", "aps", "rank")
    yield ScoreAverage("auto", kind="logits", random_state=0)
    yield average("thr", "aps", split="exact")
    yield average("thr", "rank", split="efcp", objective="singletons")
    yield average("thr", "rank", objective="size_stratified")
    yield average("thr", "rank", calibration=PerClass(tune=True))
    yield average("thr", "rank", search=GradientSearch())
    yield average("thr", "raps")
    yield average("thr", "kin")
    yield average("thr", "logp", allow_empty=False)
