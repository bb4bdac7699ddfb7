"""Work that stays with the workers: what they merge among themselves, and what comes back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# Neighbours merged at once: fewer make the tree deep, more make one worker hold much at a time.
ARITY = 8


def fold(parts: Sequence[Any], merge: Callable[[list[Any]], Any], arity: int = ARITY) -> Any:
    """Return all parts merged into one by a tree, neighbours first.

    Parameters
    ----------
    parts : sequence
        At least one of them, values or tasks.
    merge : callable
        From a list of neighbours to what stands for them, however they are grouped: a sum, or the
        stable merge of sorted runs.
    arity : int
        How many are merged at once.

    Examples
    --------
    >>> fold(["a", "b", "c", "d", "e"], lambda some: f"({''.join(some)})", arity=2)
    '(((ab)(cd))e)'
    """
    level = list(parts)
    while len(level) > 1:
        groups = [level[start : start + arity] for start in range(0, len(level), arity)]
        level = [merge(group) if len(group) > 1 else group[0] for group in groups]
    return level[0]


def brought(*tasks: Any) -> tuple[Any, ...]:
    """Return the results of some tasks, here: nothing else that workers make comes to the client.

    Examples
    --------
    >>> brought(2, 3)  # no tasks
    (2, 3)
    """
    from dask import compute  # noqa: PLC0415  an extra

    with _rows_in_tasks():
        return compute(*tasks)  # type: ignore[no-any-return]


def kept(*tasks: Any) -> tuple[Any, ...]:
    """Return the same tasks, their results kept where they are made.

    They stay as long as somebody here holds the answer. What is lost with a worker is computed
    again when it is asked for.

    Examples
    --------
    >>> kept(2)
    (2,)
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
