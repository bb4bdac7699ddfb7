"""From settings to rows: every method sees the same splits, and what is in the file stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conformix.experiments.pool import Pool
from conformix.experiments.rows import Row, RowLog
from conformix.kernels.arrays import BoolArray, IntArray
from studies.frontier.averaged import Averaging
from studies.frontier.baseline import Case, Chosen, run_baseline
from studies.frontier.blended import AUTO, BEFORE, Blending, Blends
from studies.frontier.cases import ALPHAS, RUNS, RUNS_IF_SMALL, SETTINGS, SIZES, SMALL, Setting
from studies.frontier.exactly import Exactly
from studies.frontier.similarity import Similarity
from studies.frontier.symmetric import Symmetric

Way = Chosen | Blending | Averaging | Similarity | Symmetric | Exactly
METHODS: dict[str, Way] = {"auto": AUTO, "auto of 0.1.0": BEFORE, "tuned baseline": Chosen()}
# Splits of one setting that a process computes before their rows are written.
RUNS_AT_ONCE = 5
# The same of the baseline, whose planes serve all splits: what a killed run has to do again.
RUNS_OF_BASELINE = 10


class Job(NamedTuple):
    """Some methods on one setting, by the same code."""

    setting: Setting
    methods: dict[str, Any]
    todo: dict[str, list[Case]]


def run_frontier(
    path: str | Path,
    *,
    settings: Sequence[Setting] = SETTINGS,
    methods: Mapping[str, Way] = METHODS,
    runs: int | None = None,
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
    settings, methods, sizes, alphas
        What to run.
    runs : int, optional
        Splits; by default 30, or 60 of small settings.
    workers : int
        Processes.
    progress : callable, optional
        Told what has just been finished.

    Examples
    --------
    >>> import tempfile
    >>> small = Setting("mmlu_llama13b", ("llama13b_prompt0",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = run_frontier(
    ...         Path(folder) / "rows.jsonl", settings=[small], runs=1, sizes=[300], alphas=[0.1],
    ...         workers=1,
    ...     )
    >>> [row["method"] for row in rows]
    ['auto', 'auto of 0.1.0', 'tuned baseline']
    """
    with RowLog(path) as log:
        wanted: list[str] = []
        jobs: list[Job] = []
        for setting in settings:
            cases = cases_of(setting, runs, sizes, alphas)
            todo = {}
            for name in methods:
                keys = {case: key_of(setting, name, case) for case in cases}
                wanted += keys.values()
                todo[name] = [case for case in cases if keys[case] not in log.rows]
            jobs += jobs_of(setting, methods, todo)
        for rows in _parallel(jobs, workers):
            for row in rows:
                log.append(row)
            if progress is not None:
                done = dict.fromkeys(row["method"] for row in rows)
                progress(f"{rows[0]['setting']}: {', '.join(done)}")
        return [log.rows[key] for key in wanted]


def cases_of(
    setting: Setting, runs: int | None, sizes: Sequence[int | None], alphas: Sequence[float]
) -> list[Case]:
    """Return splits, labelled rows and levels; a half that is too small for a size is left out."""
    data = setting.load()
    n, n_classes = next(iter(data.outputs.values())).shape
    if runs is None:
        runs = RUNS_IF_SMALL if n * n_classes * len(data.outputs) <= SMALL else RUNS
    half = n // 2
    rows = [half if size is None else size for size in sizes if size is None or size < half]
    return [(run, size, alpha) for run in range(runs) for size in rows for alpha in alphas]


def jobs_of(
    setting: Setting, methods: Mapping[str, Way], todo: dict[str, list[Case]]
) -> Iterator[Job]:
    """Yield what is to do: baselines see many splits at once, blends share what rows teach."""
    blends = [name for name, way in methods.items() if isinstance(way, Blending)]
    for names in (blends, *([name] for name in methods if name not in blends)):
        some = {name: methods[name] for name in names}
        runs = sorted({case[0] for name in names for case in todo[name]})
        step = RUNS_AT_ONCE
        if any(isinstance(way, Chosen) for way in some.values()):
            step = RUNS_OF_BASELINE
        for start in range(0, len(runs), step):
            at_once = set(runs[start : start + step])
            part = {name: [c for c in todo[name] if c[0] in at_once] for name in names}
            yield Job(setting, some, {name: cases for name, cases in part.items() if cases})


def key_of(setting: Setting, method: str, case: Case) -> str:
    """Return the name of one row."""
    run, rows, alpha = case
    return f"{setting.label} | {method} | {rows} | {alpha:g} | {run}"


def _parallel(jobs: list[Job], workers: int) -> Iterable[list[Row]]:
    if workers == 1 or len(jobs) < 2:
        return (run_job(job) for job in jobs)
    from joblib import Parallel, delayed  # noqa: PLC0415  loads late

    rows: Iterable[list[Row]] = Parallel(n_jobs=workers, return_as="generator_unordered")(
        delayed(run_job)(job) for job in jobs
    )
    return rows


@lru_cache(maxsize=1)
def blends_of(setting: Setting) -> Blends:
    """Return the rows of a setting, kept for the next job of the same process."""
    return Blends(Pool(setting.load()))


def run_job(job: Job) -> list[Row]:
    """Return the rows of one job."""
    blends = blends_of(job.setting)
    pool = blends.pool
    half = pool.outputs.n // 2
    judge = Judge(pool)
    rows: list[Row] = []
    for name, case, told in _results(job, blends, judge):
        run, n, alpha = case
        rows.append(
            {"key": key_of(job.setting, name, case), "setting": job.setting.label,
             "group": job.setting.group, "method": name, "run": run, "n_labelled": n,
             "half": n == half, "alpha": alpha, **told}
        )  # fmt: skip
    return rows


def _results(job: Job, blends: Blends, judge: Judge) -> Iterator[tuple[str, Case, Row]]:
    pool = blends.pool
    for run in sorted({case[0] for cases in job.todo.values() for case in cases}):
        rows, test = job.setting.draw(pool.outputs.n, run)
        blends.forget()
        for name, all_cases in job.todo.items():
            way, cases = job.methods[name], [case for case in all_cases if case[0] == run]
            if isinstance(way, Chosen) or not cases:
                continue
            if isinstance(way, Blending):
                # In the order of the tuning rows, so that levels share a fit.
                cases.sort(key=lambda case: (blends.n_tune(way, case[1], case[2]), case[1]))
                masks = blends.all_sets(way, rows, test, [case[1:] for case in cases])
            else:
                masks = way.all_sets(pool, rows, test, [case[1:] for case in cases])
            for case, mask in zip(cases, masks, strict=True):
                yield name, case, judge(mask, test, case[2])
    for name, way in job.methods.items():
        if isinstance(way, Chosen) and name in job.todo:
            found = run_baseline(pool, job.setting, job.todo[name])
            yield from ((name, case, told) for case, told in found.items())


class Judge:
    """Sizes and coverage of sets, altogether and by class."""

    def __init__(self, pool: Pool) -> None:
        self._labels, self._n_classes = pool.labels, pool.outputs.n_classes
        counts = np.bincount(pool.labels, minlength=self._n_classes)
        order = np.argsort(counts, kind="stable")
        order = order[counts[order] > 0]
        # The rarest third of the classes that occur; without a tail it is any third.
        self._rare = order[: max(len(order) // 3, 1)]

    def __call__(self, mask: BoolArray, test: IntArray, alpha: float) -> Row:
        """Return what is told of the sets (m, K) of some rows."""
        y = self._labels[test]
        covered = mask[np.arange(len(test)), y]
        counts = np.bincount(y, minlength=self._n_classes)
        hits = np.bincount(y, weights=covered, minlength=self._n_classes)
        by_class = np.where(counts > 0, hits / np.maximum(counts, 1), np.nan)
        return {
            "size": float(np.count_nonzero(mask) / len(test)),
            "coverage": float(covered.mean()),
            "class coverage": float(np.nanmean(by_class)),
            "rare coverage": float(np.nanmean(by_class[self._rare])),
            "class gap": float(np.nanmean(np.abs(by_class - (1 - alpha)))),
        }
