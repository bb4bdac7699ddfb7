"""From specs to rows: all cores, any order, the same numbers."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from conformix import metrics
from conformix.errors import ConformixWarning, InvalidInput
from conformix.experiments.methods import Method, Task
from conformix.experiments.pool import load_pool
from conformix.experiments.rows import Row, RowLog
from conformix.experiments.spec import Case, Spec
from conformix.fit.saved.codec import is_number, is_whole, shortened

Progress = Callable[[int, int], None]


def run(
    specs: Spec | Sequence[Spec],
    path: str | Path,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Return the rows of all cases of some experiments; those in the file are not computed again.

    Cases run through joblib, so that any backend of it (``joblib.parallel_config``) can take them;
    inside ``conformix.data.workers.connected(...)`` they are the workers of a Dask cluster.
    A row depends on its case alone, and rows are written in the order of the cases: the file is
    the same whatever the number of workers and however often the run was killed and resumed.

    Parameters
    ----------
    specs : Spec or sequence of Spec
        What to run. Cases that two experiments share are run once.
    path : path
        File of JSON lines to which rows are added.
    workers : int or None
        Number of processes; None takes one per core.
    progress : callable, optional
        Called with the numbers of finished and of all cases.

    Examples
    --------
    >>> import tempfile
    >>> spec = Spec("mmlu_llama13b", ("thr", "aps"), models=("llama13b_prompt0",), runs=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = run(spec, Path(folder) / "rows.jsonl", workers=1)
    >>> [row["method"] for row in rows]
    ['thr', 'aps', 'thr', 'aps']
    """
    if workers is not None and (isinstance(workers, bool) or workers < 1):
        raise InvalidInput(f"workers must be a positive integer or None; got {workers!r}.")
    listed = [specs] if isinstance(specs, Spec) else list(specs)
    cases = {case.key: case for spec in listed for case in spec.cases()}
    with RowLog(path) as log:
        for key in (key for key in cases if key in log.rows):
            check_row(log.rows[key], cases[key], f"{log.path} line {log.lines[key]}")
        todo = [case for key, case in cases.items() if key not in log.rows]
        done = len(cases) - len(todo)
        if progress is not None:
            progress(done, len(cases))
        for row in _computed(todo, workers):
            log.append(row)
            done += 1
            if progress is not None:
                progress(done, len(cases))
        return [log.rows[key] for key in cases]


def _share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def _size(value: Any) -> bool:
    return is_number(value) and value >= 0


def _count(value: Any) -> bool:
    return is_whole(value) and value >= 1


def _weights(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_number, value.values()))


# What a row says beside the settings of its case, and what that may be.
FOUND: dict[str, Callable[[Any], bool]] = {
    "key": lambda value: isinstance(value, str),
    "n_calibrate": _count,
    "n_test": _count,
    "guarantee": lambda value: isinstance(value, str),
    "normalizer": lambda value: value is None or isinstance(value, str),
    "weights": lambda value: value is None or _weights(value),
    "size_at_matched_coverage": lambda value: value is None or _size(value),
    "coverage": _share,
    "size": _size,
    "singleton_rate": _share,
    "empty_rate": _share,
    "full_rate": _share,
}


def check_row(row: Row, case: Case, where: str) -> None:
    """Refuse a row of a file that is not what its case would give."""
    known = {*FOUND, *case.settings}
    wrong = next((f"has no {name!r}" for name in sorted(known - set(row))), None)
    wrong = wrong or next((f"has {name!r}, which no row has" for name in set(row) - known), None)
    for name in () if wrong else sorted(known):
        value, settings = row[name], case.settings
        if not (value == settings[name] if name in settings else FOUND[name](value)):
            wrong = f"cannot have {name} = {shortened(value)}"
            break
    if wrong:
        raise InvalidInput(f"{where} {wrong}; move the file away, or name another folder.")


def _computed(cases: list[Case], workers: int | None) -> Iterator[Row]:
    """Yield the rows of the cases in their order, computed in parallel."""
    if not cases:
        return
    from joblib import Parallel, delayed  # noqa: PLC0415  loads late

    batches = [list(batch) for _, batch in groupby(cases, key=lambda c: (c.draw, c.alpha))]
    n_jobs = -1 if workers is None else workers
    parallel = Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch="3*n_jobs")
    # Workers share the cores, so each searches on one thread; a lone one has them all.
    threads = None if n_jobs == 1 else 1
    for rows in parallel(delayed(run_cases)(batch, threads) for batch in batches):
        yield from rows


def run_cases(cases: Iterable[Case], threads: int | None = None) -> list[Row]:
    """Return the rows of some cases, in order."""
    if threading.current_thread() is not threading.main_thread():
        return [run_case(case, threads) for case in cases]  # filters belong to all threads
    with warnings.catch_warnings():
        # What they warn of is in the rows: sets with all labels, and the number of test rows.
        warnings.simplefilter("ignore", ConformixWarning)
        return [run_case(case, threads) for case in cases]


def run_case(case: Case, threads: int | None = None) -> Row:
    """Return the row of one case: its settings, and what came out."""
    draw = case.draw
    pool = load_pool(draw.data, draw.kind, draw.digest, draw.models, rows=draw.rows, seed=draw.seed)
    calibrate, test, seed = draw.roles()
    task = Task(pool, calibrate, test, case.alpha, seed, threads)
    return {"key": case.key, **case.settings, **measured(case.method, task)}


def measured(method: Method, task: Task) -> Row:
    """Return what came out of a method on one split."""
    outcome, y = method(task), task.pool.labels[task.test]
    matched = None
    if outcome.combined is not None:
        matched = metrics.size_at_coverage(outcome.combined, y, coverage=1 - task.alpha)
    return {
        "n_calibrate": len(task.calibrate),
        "n_test": len(task.test),
        "guarantee": outcome.guarantee,
        "normalizer": outcome.normalizer,
        "weights": outcome.weights,
        "size_at_matched_coverage": matched,
        **_measured(outcome.mask, y),
    }


def _measured(mask: Any, y: Any) -> dict[str, float]:
    return {
        "coverage": metrics.coverage(mask, y),
        "size": metrics.mean_size(mask),
        "singleton_rate": metrics.singleton_rate(mask),
        "empty_rate": metrics.empty_rate(mask),
        "full_rate": float(mask.all(axis=1).mean()),
    }
