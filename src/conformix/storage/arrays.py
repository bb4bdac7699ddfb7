"""Arrays inside JSON: small ones as lists of numbers, large ones in an npz."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.errors import InvalidInput

# Arrays up to this many numbers stand in the JSON itself.
INLINE = 50_000


class Arrays:
    """Arrays on their way out of and into the JSON."""

    def __init__(self, stored: dict[str, Any] | None = None) -> None:
        self.stored: dict[str, Any] = {} if stored is None else stored

    def put(self, values: Any) -> dict[str, Any]:
        """Return the JSON form of an array."""
        array = np.ascontiguousarray(values)
        told: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
        if array.size <= INLINE:
            return told | {"data": [_number_out(x) for x in array.ravel().tolist()]}
        name = f"array{len(self.stored)}"
        self.stored[name] = array
        return told | {"npz": name}

    def get(self, told: dict[str, Any]) -> Any:
        """Return the array that a JSON form stands for."""
        if told["dtype"] not in ("float64", "int64"):
            raise InvalidInput(f"a model file holds float64 and int64 only; got {told['dtype']!r}.")
        if "npz" in told:
            array = self.stored[told["npz"]]
            if array.dtype != told["dtype"] or list(array.shape) != told["shape"]:
                raise InvalidInput("an array of the npz is not of the shape that the model names")
            return array
        data = [_number_in(x) for x in told["data"]]
        return np.array(data, dtype=told["dtype"]).reshape(told["shape"])


def _number_out(value: float) -> Any:
    """Return a number as JSON has it; infinities, which JSON lacks, as text."""
    return value if np.isfinite(value) else repr(value)


def _number_in(value: Any) -> float:
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"a model file holds numbers in its arrays; got {value!r}.")
    return value
