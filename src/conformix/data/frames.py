"""Frames of outputs whose columns are called as the classes are: they say which column is which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def column_names(frame: Any) -> list[str] | None:
    """Return what a frame calls its columns; None for other values, and for names of numbers."""
    if not hasattr(frame, "columns") or not hasattr(frame, "shape"):
        return None
    names = list(frame.columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def class_columns(outputs: Any, y: Any) -> list[str] | None:
    """Return the class names that the columns of a frame are, where labels are names as well.

    Of several models the first frame says it.

    Examples
    --------
    >>> import pandas as pd
    >>> P = pd.DataFrame({"cat": [0.9], "dog": [0.1]})
    >>> class_columns(P, ["dog"]), class_columns(P, [1])
    (['cat', 'dog'], None)
    """
    names = next(filter(None, map(column_names, _each(outputs))), None)
    if names is None or np.asarray(y).dtype.kind not in "OUT":
        return None
    return names


def in_class_order(outputs: Any, classes: Sequence[Any] | None) -> Any:
    """Return outputs whose frames have their columns in the order of the classes that they name.

    Examples
    --------
    >>> import pandas as pd
    >>> in_class_order(pd.DataFrame({"dog": [0.1], "cat": [0.9]}), ["cat", "dog"]).columns.tolist()
    ['cat', 'dog']
    """
    if classes is None:
        return outputs
    if isinstance(outputs, Mapping):
        return {model: in_class_order(values, classes) for model, values in outputs.items()}
    if isinstance(outputs, list | tuple) and any(map(column_names, outputs)):
        return [in_class_order(values, classes) for values in outputs]
    names = column_names(outputs)
    if names is None:
        return outputs
    order = list(classes)
    moved = names != order and len(names) == len(order) and set(names) == set(order)
    return outputs[order] if moved else outputs


def _each(outputs: Any) -> list[Any]:
    if isinstance(outputs, Mapping):
        return list(outputs.values())
    return list(outputs) if isinstance(outputs, list | tuple) else [outputs]
