"""From settings to rows: every method sees the same splits, and what is in the file stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from conformix.data.bundled import load
from conformix.experiments.pool import Pool
from conformix.experiments.rows import Row, RowLog
from studies.frontier.averaged import Averaging
from studies.frontier.baseline import Case, Chosen, run_baseline
from studies.frontier.blended import AUTO, EXACT, Blending
from studies.frontier.cases import ALPHAS, HELD_OUT, SIZES, STUDIED, Setting

RUNS = 50
Way = Chosen | Blending | Averaging
"""A baseline, or what gives sets: `test_scores` once per split, `sets_of` once per case."""
PLAIN = "baseline, plain ensembles"
METHODS: dict[str, Way] = {"baseline": Chosen(), "auto": AUTO, "auto, exact": EXACT}


def run_frontier(
    path: str | Path,
    *,
    settings: Sequence[Setting] = (*STUDIED, *HELD_OUT),
    methods: Mapping[str, Way] = METHODS,
    runs: int = RUNS,
    sizes: Sequence[int | None] = SIZES,
    alphas: Sequence[float] = ALPHAS,
    workers: int = 2,
    progress: Callable[[str], None] | None = None,
) -> list[Row]:
    """Return the rows of the study; those in the file are not computed again.

    Parameters
    ----------
    path : path
        File of JSON lines.
    settings, methods, runs, sizes, alphas
        What to run.
    workers : int
        Processes; each takes a method on a setting.
    progress : callable, optional
        Told what has just been finished.

    Examples
    --------
    >>> import tempfile
    >>> small = Setting("mmlu_llama13b", ("llama13b_prompt0",), "mmlu")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = run_frontier(
    ...         Path(folder) / "rows.jsonl", settings=[small], runs=1, sizes=[300], alphas=[0.1],
    ...         workers=1,
    ...     )
    >>> [row["method"] for row in rows]
    ['baseline', 'auto', 'auto, exact']
    """
    with RowLog(path) as log:
        wanted, jobs = [], []
        for setting in settings:
            cases = cases_of(setting, runs, sizes, alphas)
            for name, method in methods.items():
                keys = {case: key_of(setting, name, case) for case in cases}
                wanted += list(keys.values())
                todo = [case for case in cases if keys[case] not in log.rows]
                if todo:
                    jobs.append((setting, name, method, todo))
        for rows in _parallel(jobs, workers):
            for row in rows:
                log.append(row)
            if progress is not None:
                progress(f"{rows[0]['setting']}: {rows[0]['method']}")
        return [log.rows[key] for key in wanted]


def cases_of(
    setting: Setting, runs: int, sizes: Sequence[int | None], alphas: Sequence[float]
) -> list[Case]:
    """Return runs, calibration rows and levels; a half that is too small for a size is left out."""
    half = len(load(setting.data).labels) // 2
    rows = [half if size is None else size for size in sizes if size is None or size < half]
    return [(run, n, alpha) for run in range(runs) for n in rows for alpha in alphas]


def key_of(setting: Setting, method: str, case: Case) -> str:
    """Return the name of one row."""
    run, rows, alpha = case
    return f"{setting.label} | {method} | {rows} | {alpha:g} | {run}"


def _parallel(jobs: list[Any], workers: int) -> Iterable[list[Row]]:
    if workers == 1 or len(jobs) < 2:
        return (run_job(*job) for job in jobs)
    from joblib import Parallel, delayed  # noqa: PLC0415  loads late

    rows: Iterable[list[Row]] = Parallel(n_jobs=workers, return_as="generator")(
        delayed(run_job)(*job) for job in jobs
    )
    return rows


def run_job(setting: Setting, name: str, method: Way, cases: list[Case]) -> list[Row]:
    """Return the rows of one method on one setting."""
    pool = Pool(load(setting.data), setting.models)
    if isinstance(method, Chosen):
        found = run_baseline(pool, setting, cases, method)
    else:
        found = dict(_blended(pool, setting, method, cases))
    half = pool.outputs.n // 2
    return [
        {
            "key": key_of(setting, name, case), "setting": setting.label, "method": name,
            "run": case[0],
            "n_calibrate": case[1], "half": case[1] == half,
            "alpha": case[2], **found[case],
        }
        for case in cases
    ]  # fmt: skip


def _blended(
    pool: Pool, setting: Setting, method: Blending | Averaging, cases: list[Case]
) -> Iterator[tuple[Case, Row]]:
    last = -1
    for case in cases:
        run, rows, alpha = case
        cal, test = setting.draw(pool.outputs.n, run)
        if run != last:
            last, scores = run, method.test_scores(pool, test)
        mask, told = method.sets_of(pool, cal[:rows], scores, alpha)
        covered = mask[np.arange(len(test)), pool.labels[test]]
        yield (
            case,
            {
                "size": float(np.count_nonzero(mask) / len(test)),
                "coverage": float(covered.mean()),
                "coefficients": {name: round(value, 4) for name, value in told.items()},
            },
        )
