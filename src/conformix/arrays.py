"""The array types that signatures speak of."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from conformix.errors import InvalidInput

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.integer[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Return a generator of its own: the one place where randomness enters.

    Examples
    --------
    >>> as_generator(0).integers(10) == as_generator(0).integers(10)
    np.True_
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InvalidInput(
            "random_state must be a non-negative integer, a NumPy generator or None; got "
            f"{random_state!r}."
        ) from None
