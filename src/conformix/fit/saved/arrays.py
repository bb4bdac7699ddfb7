"""Arrays inside JSON: small ones as lists of numbers, large ones in an npz."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.fit.saved.fields import field_of, is_number, is_whole, shortened
from conformix.fit.saved.migrations import refuse_unknown

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

    def get(self, told: Any, where: str = "arrays") -> Any:
        """Return the array that a JSON form stands for."""
        dtype = field_of(told, "dtype", "str", where)
        shape = field_of(told, "shape", "list", where)
        if dtype not in ("float64", "int64"):
            raise InvalidInput(f"a model file holds float64 and int64 only; got {dtype!r}.")
        if len(shape) > 3 or not all(is_whole(length) and length >= 0 for length in shape):
            raise InvalidInput(f"its {where}.shape is no shape; got {shortened(shape)}")
        if "npz" in told:
            refuse_unknown(told, ("dtype", "shape", "npz"), where)
            name = field_of(told, "npz", "str", where)
            if name not in self.stored:
                raise InvalidInput(f"its {where} is not among the arrays beside the model")
            array = self.stored[name]
            if array.dtype != dtype or list(array.shape) != shape:
                raise InvalidInput("an array of the npz is not of the shape that the model names")
            return array
        refuse_unknown(told, ("dtype", "shape", "data"), where)
        data = field_of(told, "data", "list", where)
        if math.prod(shape) != len(data):
            raise InvalidInput(f"its {where} holds {len(data)} numbers, but its shape is {shape}")
        numbers = [_number_in(x, whole=dtype == "int64") for x in data]
        return np.array(numbers, dtype=dtype).reshape(shape)


def _number_out(value: float) -> Any:
    """Return a number as JSON has it; infinities, which JSON lacks, as text."""
    return value if np.isfinite(value) else repr(value)


def _number_in(value: Any, *, whole: bool) -> float:
    if not whole and value in ("inf", "-inf"):
        return float(value)
    if not (is_whole(value) if whole else is_number(value)):
        kind = "whole numbers of 64 bits" if whole else "numbers"
        raise InvalidInput(f"a model file holds {kind} in its arrays; got {shortened(value)}.")
    return value  # type: ignore[no-any-return]
