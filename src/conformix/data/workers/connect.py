"""A cluster for as long as it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from conformix.errors import InvalidInput
from conformix.kernels import available_threads

# By default workers give every freed array back to the system at once, and take it again page by
# page: work in blocks takes twice as long. They may keep what they free, up to 256 MiB.
ALLOCATOR = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
}


@contextmanager
def connected(where: str, *, workers: int | None = None) -> Iterator[Any]:
    """Connect to a Dask cluster: its workers take Dask arrays, experiments and searches.

    Parameters
    ----------
    where : str
        The address of a scheduler (``tcp://host:8786``), or ``"local"``: worker processes on this
        machine, over its loopback interface, which end with the ``with`` block.
    workers : int, optional
        How many processes a local cluster has; by default one per core.

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
        raise InvalidInput('a cluster needs Dask: pip install "conformix[dask]".') from None
    from joblib import parallel_config  # noqa: PLC0415  loads late

    if where != "local":
        try:
            client = Client(where, timeout="10s")
        except (OSError, TimeoutError) as error:
            raise InvalidInput(f"no Dask scheduler answers at {where}: {error}") from None
        with client, parallel_config(backend="dask"):
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
    with cluster, Client(cluster) as client, parallel_config(backend="dask"):
        yield client
