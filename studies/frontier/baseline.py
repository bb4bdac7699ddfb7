"""The best of all tuned baselines, as somebody would choose it.

Half of the calibration rows tune: every temperature of THR, every penalty of RAPS and SAPS, APS and
RANK, for every model; THR at every temperature on the probability and on the logit ensemble; the
uniform average of all. Whichever has the smallest sets on the tuning rows is calibrated on the
other half; where a half has too few rows for a finite threshold, THR is calibrated on all of them.
One plane is held at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from conformix.conformal import conformal_rank, kth_largest, rows_needed
from conformix.experiments.methods import TUNED_RAPS, TUNED_SAPS, TUNED_THR
from conformix.experiments.pool import Pool
from conformix.experiments.rows import Row
from conformix.kernels.arrays import FloatArray
from conformix.scores.tensor import fill_tensor
from studies.frontier.cases import Setting

SINGLES = (*TUNED_THR, *TUNED_RAPS, *TUNED_SAPS, "aps", "rank")
UNIFORM = ("thr(temperature=1.0)", "aps", "rank")
# Scores of one model whose planes are computed together, from one sort.
AT_ONCE = 9

Case = tuple[int, int, float]
"""Run, calibration rows, alpha."""


def planes(pool: Pool, only: Collection[str] | None = None) -> Iterator[tuple[str, FloatArray]]:
    """Yield candidates with their scores (n, K) of all rows; the uniform average comes last."""
    yield from _of_models(pool, SINGLES, "", only)
    if len(pool.outputs.models) > 1:
        for how in ("probs", "logits"):
            mean = pool.ensembled(how)  # type: ignore[arg-type]
            yield from _of_models(mean, TUNED_THR, f"{how}-ensemble", only)
    if only is None or "uniform average" in only:
        yield "uniform average", sum(p for _, p in _of_models(pool, UNIFORM, "", None))  # type: ignore[misc]


def _of_models(
    pool: Pool, scores: Sequence[str], prefix: str, only: Collection[str] | None
) -> Iterator[tuple[str, FloatArray]]:
    for model, values in pool.outputs.models.items():
        alone = type(pool.outputs)({model: values}, pool.outputs.kind)
        names = {f"{prefix}{model} {text}".strip(): text for text in scores}
        wanted = [name for name in names if only is None or name in only]
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            listed = pool.columns([names[name] for name in some])
            columns = tuple(c for c in listed if c.model == model)
            tensor = fill_tensor(alone, columns, threads=1)
            for j, name in enumerate(some):
                yield name, tensor[..., j]


@dataclass(frozen=True)
class Chosen:
    """The baseline that is chosen on the tuning rows."""


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
    chosen = {
        case: names[int(np.argmin(counts[case]))] if n_tune(case) else _untuned(names)
        for case in cases
    }
    found: dict[Case, Row] = {}
    for name, plane in planes(pool, set(chosen.values())):
        own = plane[np.arange(n), pool.labels]
        for case in (case for case in cases if chosen[case] == name):
            run, rows, alpha = case
            pool_rows, test = draws[run]
            threshold = _threshold(own[pool_rows[n_tune(case) : rows]], alpha)
            found[case] = {
                "size": float((plane[test] >= threshold).sum() / len(test)),
                "coverage": float((own[test] >= threshold).mean()),
                "chosen": name,
            }
    return found


def n_tune(case: Case) -> int:
    """Return half of the rows; none where the other half is too few for a finite threshold."""
    _, rows, alpha = case
    return rows // 2 if rows - rows // 2 >= rows_needed(alpha) else 0


def _untuned(names: Sequence[str]) -> str:
    """Return THR as it is, of the logit ensemble where there are several models."""
    plain = [name for name in names if name.endswith("thr(temperature=1.0)")]
    return plain[-1]


def _threshold(own: FloatArray, alpha: float) -> float:
    return float(kth_largest(own, conformal_rank(len(own), alpha)))
