"""The best of all tuned baselines, as somebody would choose it.

Half of the calibration rows tune: every temperature of THR, every penalty of RAPS and SAPS, APS and
RANK, for every model; THR at every temperature on the probability and on the logit ensemble; the
uniform average of all. Whichever has the smallest sets on the tuning rows is calibrated on the
other half. One plane is held at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from conformix.arrays import FloatArray
from conformix.conformal import conformal_rank, kth_largest
from conformix.experiments.frontier.cases import Setting
from conformix.experiments.methods.names import TUNED_RAPS, TUNED_SAPS, TUNED_THR
from conformix.experiments.pool import Pool
from conformix.experiments.rows import Row
from conformix.scores.tensor import fill_tensor

SINGLES = (*TUNED_THR, *TUNED_RAPS, *TUNED_SAPS, "aps", "rank")
UNIFORM = ("thr(temperature=1.0)", "aps", "rank")
# Scores of one model whose planes are computed together, from one sort.
AT_ONCE = 9

Case = tuple[int, int, float]
"""Run, calibration rows, alpha."""


def planes(pool: Pool) -> Iterator[tuple[str, FloatArray]]:
    """Yield every candidate with its scores (n, K) of all rows; the uniform average comes last."""
    total: Any = 0.0
    for name, plane in _of_models(pool, SINGLES):
        total = total + plane if name.split(" ")[1] in UNIFORM else total
        yield name, plane
    if len(pool.outputs.models) > 1:
        for how in ("probs", "logits"):
            for name, plane in _of_models(pool.ensembled(how), TUNED_THR):  # type: ignore[arg-type]
                yield f"{how}-ensemble{name}", plane
    yield "uniform average", total


def _of_models(pool: Pool, scores: Sequence[str]) -> Iterator[tuple[str, FloatArray]]:
    for model, values in pool.outputs.models.items():
        alone = type(pool.outputs)({model: values}, pool.outputs.kind)
        for start in range(0, len(scores), AT_ONCE):
            some = scores[start : start + AT_ONCE]
            columns = tuple(c for c in pool.columns(some) if c.model == model)
            tensor = fill_tensor(alone, columns, threads=1)
            for j, text in enumerate(some):
                yield f"{model} {text}", tensor[..., j]


def run_baseline(pool: Pool, setting: Setting, cases: Sequence[Case]) -> dict[Case, Row]:
    """Return what the chosen baseline gives in every case."""
    n = pool.outputs.n
    draws = {run: setting.draw(n, run) for run in {case[0] for case in cases}}
    counts: dict[Case, list[int]] = {case: [] for case in cases}
    names = []
    for name, plane in planes(pool):
        names.append(name)
        own = plane[np.arange(n), pool.labels]
        for (run, rows), some in groupby(cases, key=lambda case: case[:2]):
            tune = draws[run][0][: rows // 2]
            scores = plane[tune]
            for case in some:
                threshold = _threshold(own[tune], case[2])
                counts[case].append(int(np.count_nonzero(scores >= threshold)))
    chosen = {case: int(np.argmin(counts[case])) for case in cases}
    found: dict[Case, Row] = {}
    for i, (name, plane) in enumerate(planes(pool)):
        own = plane[np.arange(n), pool.labels]
        for case in (case for case in cases if chosen[case] == i):
            run, rows, alpha = case
            pool_rows, test = draws[run]
            threshold = _threshold(own[pool_rows[rows // 2 : rows]], alpha)
            found[case] = {
                "size": float((plane[test] >= threshold).sum() / len(test)),
                "coverage": float((own[test] >= threshold).mean()),
                "chosen": name.strip(),
            }
    return found


def _threshold(own: FloatArray, alpha: float) -> float:
    return float(kth_largest(own, conformal_rank(len(own), alpha)))
