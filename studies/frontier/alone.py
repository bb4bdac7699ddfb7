"""Scores that learn from every row that is predicted, beside those that tuning rows alone teach.

``fit(..., test="each")`` and ``fit(...)`` on the same few labelled rows: sizes of the sets of the
same test rows, and the time of a row on one thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from conformix.estimators.average import ScoreAverage
from conformix.experiments.pool import Pool
from conformix.experiments.rows import Row, RowLog
from conformix.kernels.arrays import FloatArray, IntArray
from studies.frontier import cases
from studies.frontier.cases import ALPHAS, Setting
from studies.frontier.command import write_study
from studies.frontier.run import Judge, key_of
from studies.frontier.tables import geometric_mean, head, ratios

LABELLED, TESTED, RUNS = 300, 150, 16
# Rows that are asked for one by one, to tell how long one takes.
ONE_BY_ONE = 30
EACH, TUNING = "each row", "tuning rows"
LABELS = (
    "cifar100, wideresnet_16_4", "cifar100, densenet_bc_100", "tinyimagenet_trio, repvgg_a2",
    "banking77, mlp_lsa", "cifar10, vgg16", "cifar100, two good models and a bad one",
    "cifar100, forest on lenet5", "cifar100, neighbours on densenet_bc_100",
)  # fmt: skip
SETTINGS = tuple(setting for setting in cases.SETTINGS if setting.label in LABELS)


def run_alone(
    path: str | Path, *, settings: Sequence[Setting] = SETTINGS, runs: int = RUNS
) -> list[Row]:
    """Return sizes and times of both ways; rows that are in the file are not computed again."""
    wanted = []
    with RowLog(path) as log:
        for setting in settings:
            places = [(run, LABELLED, alpha) for run in range(runs) for alpha in ALPHAS]
            keys = [key_of(setting, way, place) for place in places for way in (EACH, TUNING)]
            wanted += keys
            if all(key in log.rows for key in keys):
                continue
            pool = Pool(setting.load())
            for run, _, alpha in places:
                if any(key_of(setting, way, (run, LABELLED, alpha)) not in log.rows
                       for way in (EACH, TUNING)):  # fmt: skip
                    for row in run_split(pool, setting, run, alpha):
                        log.append(row)
            sys.stderr.write(f"{setting.label}\n")
        return [log.rows[key] for key in wanted]


def run_split(pool: Pool, setting: Setting, run: int, alpha: float) -> list[Row]:
    """Return the rows of one split at one level, one for each way."""
    labelled, others = setting.draw(pool.outputs.n, run)
    test, judge, rows = others[:TESTED], Judge(pool), []
    for way in (EACH, TUNING):
        cp = ScoreAverage(
            "auto", alpha=alpha, kind=pool.outputs.kind, random_state=run, threads=1
        ).fit(
            _outputs(pool, labelled[:LABELLED]), pool.labels[labelled[:LABELLED]],
            test="each" if way == EACH else None,
        )  # fmt: skip
        mask, taken = _timed(cp, _outputs(pool, test))
        times = {"ms a row": 1000 * taken / len(test)}
        if way == TUNING:
            one = [_timed(cp, _outputs(pool, test[i : i + 1]))[1] for i in range(ONE_BY_ONE)]
            times["ms alone"] = 1000 * float(np.median(one))
        rows.append({
            "key": key_of(setting, way, (run, LABELLED, alpha)), "setting": setting.label,
            "group": setting.group, "method": way, "run": run, "n_labelled": LABELLED,
            "half": False, "alpha": alpha, **judge(mask, test, alpha), **times,
        })  # fmt: skip
    return rows


def _outputs(pool: Pool, rows: IntArray) -> dict[str, FloatArray]:
    return {model: np.asarray(values[:])[rows] for model, values in pool.outputs.models.items()}


def _timed(cp: Any, outputs: dict[str, FloatArray]) -> tuple[Any, float]:
    start = time.perf_counter()
    sets = cp.predict_set(outputs)
    return sets.mask, time.perf_counter() - start


def alone_table(rows: Sequence[Row]) -> str:
    """Return sizes with learning from each row relative to those without, and times."""
    found = ratios(rows, EACH, TUNING)
    runs = len({row["run"] for row in rows})
    batch, one = (
        np.median([row[name] for row in rows if row["method"] == TUNING])
        for name in ("ms a row", "ms alone")
    )
    told = (
        f"Sizes relative to T alone, {runs} splits with {TESTED} test rows each, with standard "
        f"errors, and the time of a row on one thread (by T alone, {batch:.2g} ms in a batch of "
        f"{TESTED} and {one:.2g} ms for a row that comes alone):"
    )
    columns = [f"{LABELLED} labelled rows", *(f"alpha = {a:g}" for a in ALPHAS), "ms a row"]
    lines = [told, "", *head(columns)]
    for name in dict.fromkeys(ratio.setting for ratio in found):
        cells = [
            geometric_mean([r for r in found if (r.setting, r.alpha) == (name, alpha)])
            for alpha in ALPHAS
        ]
        mine = [r["ms a row"] for r in rows if (r["setting"], r["method"]) == (name, EACH)]
        lines.append(f"| {name} | {' | '.join(cells)} | {np.median(mine):.1f} |")
    cells = [geometric_mean([r for r in found if r.alpha == alpha]) for alpha in ALPHAS]
    return "\n".join([*lines, f"| geometric mean | {' | '.join(cells)} | |"])


if __name__ == "__main__":
    write_study(
        "alone", "auto that learns from every row, and without.", RUNS,
        lambda path, runs: alone_table(run_alone(path, runs=runs)),
    )  # fmt: skip
