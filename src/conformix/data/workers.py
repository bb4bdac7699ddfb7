"""Rows on many machines: Dask arrays in, the same weights and sets out; experiments on workers.

`ScoreAverage.fit` and ``predict_set`` take Dask arrays as they take others: the array chooses. The
kernels are those of one machine, a chunk of rows at a time. The scores of the true labels stay with
the workers; what comes to the client are the labels, the outputs of the rows that tune, and in the
end one number per calibration row, which for one threshold the workers have sorted and merged in a
tree. A worker that is lost costs the time to compute its chunks again.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from conformix.errors import InvalidInput, pip_line
from conformix.kernels import available_threads

__all__ = ["connected"]


# By default workers give every freed array back to the system at once, and take it again page by
# page: work in blocks takes twice as long. They may keep what they free, up to 256 MiB.
ALLOCATOR = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
}


@contextmanager
def connected(
    where: str, *, workers: int | None = None, progress: bool | None = None
) -> Iterator[Any]:
    """Connect to a Dask cluster: its workers take Dask arrays, experiments and searches.

    Parameters
    ----------
    where : str
        The address of a scheduler (``tcp://host:8786``), or ``"local"``: worker processes on this
        machine, over its loopback interface, which end with the ``with`` block.
    workers : int, optional
        How many processes a local cluster has; by default one per core.
    progress : bool, optional
        Whether to show on the error stream how many tasks are done, how many are left, and how much
        memory the workers hold; by default where that is a terminal.

    Examples
    --------
    >>> with connected("nowhere"):
    ...     pass
    Traceback (most recent call last):
    conformix.errors.InvalidInput: dask must be "local" or an address like tcp://host:8786; got
    'nowhere'.
    """
    if where != "local" and "://" not in where:
        raise InvalidInput(
            f'dask must be "local" or an address like tcp://host:8786; got {where!r}.'
        )
    try:
        from dask.config import set as dask_settings  # noqa: PLC0415  an extra
        from distributed import Client, LocalCluster  # noqa: PLC0415
    except ImportError:
        raise InvalidInput(f"a cluster needs Dask: {pip_line('dask')}.") from None
    from joblib import parallel_config  # noqa: PLC0415  loads late

    if where != "local":
        try:
            client = Client(where, timeout="10s")
        except (OSError, TimeoutError) as error:
            raise InvalidInput(f"no Dask scheduler answers at {where}: {error}") from None
        with client, parallel_config(backend="dask"), _shown(client, progress):
            yield client
        return
    with dask_settings(ALLOCATOR):
        cluster = LocalCluster(
            n_workers=available_threads(workers),
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
        )
    with (
        cluster,
        Client(cluster) as client,
        parallel_config(backend="dask"),
        _shown(client, progress),
    ):
        yield client


class Work(NamedTuple):
    """How far the tasks of a cluster are."""

    done: int
    left: int
    workers: int
    gigabytes: float

    def __str__(self) -> str:
        return (
            f"{self.done:,} tasks done, {self.left:,} left; {self.workers} "
            f"worker{'s' * (self.workers != 1)} with {self.gigabytes:.1f} GB"
        )


# States of a task that is still to be done.
AHEAD = ("waiting", "queued", "processing", "no-worker")
# Seconds between two looks at a cluster.
PAUSE = 0.5


def work_of(dask_scheduler: Any) -> Work:
    """Return how far the tasks are, asked of a scheduler (``client.run_on_scheduler(work_of)``)."""
    prefixes = dask_scheduler.task_prefixes.values()
    held = [worker.metrics.get("memory", 0) for worker in dask_scheduler.workers.values()]
    return Work(
        done=sum(prefix.state_counts["memory"] for prefix in prefixes),
        left=sum(prefix.states[state] for prefix in prefixes for state in AHEAD),
        workers=len(held),
        gigabytes=sum(held) / 1e9,
    )


@contextmanager
def _shown(client: Any, progress: bool | None) -> Iterator[None]:
    """Show on the error stream how far the tasks of a cluster are, where that is wanted."""
    line = _line() if (sys.stderr.isatty() if progress is None else progress) else None
    if line is None:
        yield
        return
    over = threading.Event()
    with line:
        watcher = threading.Thread(target=_watch, args=(client, line, over), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _line() -> Any:
    """Return a line of the error stream that is written anew, where rich is there to do so."""
    try:
        from rich.console import Console  # noqa: PLC0415  an extra
        from rich.progress import Progress, SpinnerColumn, TextColumn  # noqa: PLC0415
    except ImportError:
        return None
    columns = SpinnerColumn(), TextColumn("{task.description}")
    return Progress(*columns, console=Console(stderr=True))


def _watch(client: Any, line: Any, over: threading.Event) -> None:
    task, last = line.add_task("no tasks yet", total=None), False
    while not last:
        last = over.wait(PAUSE)
        try:
            line.update(task, description=str(client.run_on_scheduler(work_of)))
        except Exception:  # a cluster that goes away has nothing more to tell
            return


# Neighbours merged at once: fewer make the tree deep, more make one worker hold much at a time.
ARITY = 8


def fold(items: Sequence[Any], merge: Callable[[list[Any]], Any], arity: int = ARITY) -> Any:
    """Return all items merged by a tree, neighbours first; `merge` gives one for a list of some."""
    level = list(items)
    while len(level) > 1:
        groups = [level[start : start + arity] for start in range(0, len(level), arity)]
        level = [merge(group) if len(group) > 1 else group[0] for group in groups]
    return level[0]


def computed(*tasks: Any) -> tuple[Any, ...]:
    """Return the results of some tasks: nothing else of what workers make comes to the client."""
    from dask import compute  # noqa: PLC0415  an extra

    with _rows_in_tasks():
        return compute(*tasks)  # type: ignore[no-any-return]


def persisted(*tasks: Any) -> tuple[Any, ...]:
    """Return the same tasks, their results kept where they are made.

    They stay as long as somebody here holds the answer. What is lost with a worker is computed
    again when it is asked for.
    """
    from dask import persist  # noqa: PLC0415  an extra

    with _rows_in_tasks():
        return persist(*tasks)  # type: ignore[no-any-return]


@contextmanager
def _rows_in_tasks() -> Iterator[None]:
    """Say nothing of large graphs: data travel with tasks, so that lost ones can be sent again."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        yield
