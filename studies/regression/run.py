"""From data sets to rows: every method sees the same rows, and what is in the file stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from conformix.experiments.rows import Row, RowLog
from studies.regression.averaged import Averaging, Exactly
from studies.regression.data import ALPHAS, DRAWS, SETTINGS, Setting
from studies.regression.models import LEVELS, QUANTILES
from studies.regression.plus import CrossPlus, JackknifePlus
from studies.regression.predictions import draw
from studies.regression.rivals import (
    Alone,
    Cola,
    Each,
    MajorityVote,
    Mondrian,
    Symmetric,
    likelihood,
)
from studies.regression.tasks import Task, Verdict, told

Way = Callable[[Task], Verdict]
RUNS = 20
"""Four trainings, five draws of labelled and test rows each."""
AUTO, SELECT = "auto", "select"
EVERY_PAIR = tuple(level for level in LEVELS if level < 0.5)
METHODS: dict[str, Way] = {
    AUTO: Averaging(),
    SELECT: Averaging(0.5, (1.0,), search="single"),
    "select, 4 levels": Averaging(0.5, search="single"),
    "select, 4 levels, 40 % tune": Averaging(0.4, search="single"),
    "uniform average": Averaging(search="equal"),
    "likelihood": Averaging(search=likelihood),
    "tuned CQR": Averaging(0.5, (1.0,), EVERY_PAIR, "single", QUANTILES),
    "CQR, nominal level": Alone("quantile boosting", "cqr"),
    "stacked residuals": Alone("stack", "abs"),
    "stacked residuals, normalised": Alone("stack", "norm"),
    "residuals of boosting, normalised": Alone("boosting", "norm"),
    "residuals of boosting, Mondrian": Mondrian(),
    "majority vote": MajorityVote(),
    "COLA": Cola(),
    "SACP": Symmetric(),
    "each score": Each(),
}
MAIN = {name: METHODS[name] for name in (AUTO, SELECT)}
PARTS: dict[str, Way] = {
    "alpha alone": Averaging(around=(1.0,)),
    "alpha to 2 alpha": Averaging(around=(1.0, 1.5, 2.0)),
    "not bagged": Averaging(search="once"),
    "alpha alone, not bagged": Averaging(around=(1.0,), search="once"),
    "30 % tune": Averaging(0.3),
    "50 % tune": Averaging(0.5),
    "60 % tune": Averaging(0.6),
    "levels 0.05 and 0.95": Averaging(pairs=(0.05,)),
    "levels 0.05, 0.2, 0.8 and 0.95": Averaging(pairs=(0.05, 0.2)),
    "four pairs of levels": Averaging(pairs=EVERY_PAIR),
    "bins of difficulty": Averaging(options={"calibration": "bins"}),
    "EFCP": Averaging(options={"split": "efcp"}),
}
EXACT: dict[str, Way] = {"exact": Exactly()}
PLUS: dict[str, Way] = {"CV+": CrossPlus(), "jackknife+": JackknifePlus()}
Case = tuple[int, int, float]
"""Run, labelled rows, alpha."""


class Job(NamedTuple):
    """Methods on the runs of one training."""

    setting: Setting
    methods: Mapping[str, Way]
    todo: list[tuple[str, Case]]
    known: Path


def run_study(
    path: str | Path,
    known: str | Path,
    *,
    settings: Sequence[Setting] = SETTINGS,
    methods: Mapping[str, Way] = METHODS,
    runs: Iterable[int] = range(RUNS),
    most: int | None = None,
    alphas: Sequence[float] = ALPHAS,
    workers: int = 2,
    progress: Callable[[str], None] | None = None,
) -> list[Row]:
    """Return the rows of the study; those in the file are not computed again.

    Parameters
    ----------
    path : path
        File of JSON lines.
    known : path
        Folder of what the models predict, which are trained where it has nothing.
    settings, methods, runs, alphas
        What to run.
    most : int, optional
        No more labelled rows than these.
    workers : int
        Processes.
    progress : callable, optional
        Told what has just been finished.
    """
    with RowLog(path) as log:
        wanted: list[str] = []
        jobs: list[Job] = []
        for setting in settings:
            by_seed: dict[int, list[tuple[str, Case]]] = {}
            for name, case in cases_of(setting, methods, runs, most, alphas):
                key = key_of(setting, name, case)
                wanted.append(key)
                if key not in log.rows:
                    by_seed.setdefault(case[0] // DRAWS, []).append((name, case))
            jobs += [Job(setting, methods, todo, Path(known)) for todo in by_seed.values()]
        for rows in _parallel(jobs, workers):
            for row in rows:
                log.append(row)
            if progress is not None:
                progress(f"{rows[0]['setting']}: {len(rows)} cases")
        return [log.rows[key] for key in wanted]


def cases_of(
    setting: Setting,
    methods: Mapping[str, Way],
    runs: Iterable[int],
    most: int | None,
    alphas: Sequence[float],
) -> list[tuple[str, Case]]:
    """Return methods and cases; sizes that leave too few test rows are left out."""
    sizes = setting.sizes(len(setting.load().y))
    return [
        (name, (run, n, alpha))
        for run in runs
        for n in sizes
        if most is None or n <= most
        for name in methods
        for alpha in alphas
    ]


def key_of(setting: Setting, method: str, case: Case) -> str:
    """Return the name of one row."""
    run, n, alpha = case
    return f"{setting.data} | {method} | {n} | {alpha:g} | {run}"


def _parallel(jobs: list[Job], workers: int) -> Iterable[list[Row]]:
    if workers == 1 or len(jobs) < 2:
        return (run_job(job) for job in jobs)
    from joblib import Parallel, delayed  # noqa: PLC0415  loads late

    rows: Iterable[list[Row]] = Parallel(n_jobs=workers, return_as="generator_unordered")(
        delayed(run_job)(job) for job in jobs
    )
    return rows


def run_job(job: Job) -> list[Row]:
    """Return the rows of one job."""
    rows: list[Row] = []
    setting, drawn = job.setting, None
    for name, case in job.todo:
        run, n, alpha = case
        if drawn is None or drawn.run != run:
            drawn = draw(setting, run, job.known)
        task = Task(drawn, n, alpha)
        rows.append(
            {"key": key_of(setting, name, case), "setting": setting.data,
             "group": "chosen on" if setting.chooses else "confirmed on", "method": name,
             "run": run, "n_labelled": n, "half": False, "alpha": alpha,
             **told(job.methods[name](task), task)}
        )  # fmt: skip
    return rows
