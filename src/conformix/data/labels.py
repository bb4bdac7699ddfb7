"""Names of the classes: checked once, and labels given by name turned into indices.

Inside this library a label is an index ``0 .. K-1``. Names come in with `fit` and go out with the
sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformix.data.outputs import check_labels
from conformix.errors import InvalidInput
from conformix.kernels.arrays import IntArray, host_array, refuse_masked


def check_classes(classes: Any, n_classes: int) -> tuple[Any, ...] | None:
    """Return K names as plain Python values, or None where there are none."""
    if classes is None:
        return None
    if isinstance(classes, str | bytes):
        raise InvalidInput(f"classes must be a sequence of names; got the text {classes!r}.")
    refuse_masked(classes, "classes")
    try:
        names = tuple(getattr(name, "item", lambda name=name: name)() for name in classes)
    except (TypeError, ValueError, RuntimeError, NotImplementedError):
        kind = type(classes).__name__
        raise InvalidInput(f"classes must be a sequence of names; got {kind}.") from None
    if len(names) != n_classes:
        raise InvalidInput(f"classes must name all {n_classes} columns; got {len(names)} names.")
    odd = [name for name in names if not isinstance(name, str | int | float)]
    if odd:
        raise InvalidInput(f"classes must be text or numbers; got {odd[0]!r}.")
    return names


def class_names(n_classes: int, classes: Sequence[Any] | None) -> list[str]:
    """Return the names of all classes: those given, or their numbers."""
    if classes is None:
        return [str(label) for label in range(n_classes)]
    if len(classes) != n_classes:
        raise InvalidInput(f"classes must name all {n_classes} classes; got {len(classes)}.")
    return [str(name) for name in classes]


def all_labels(classes: Any, met: Any) -> Any:
    """Return given class labels as a sorted array (K,), if they hold all labels that were met."""
    if isinstance(classes, str | bytes) or not hasattr(classes, "__iter__"):
        raise InvalidInput(f"classes must be a sequence of labels; got {classes!r}.")
    labels = np.array(list(classes), dtype=object if met.dtype == object else None)
    texts, numbers = labels.dtype.kind in "UO", met.dtype.kind not in "UO"
    if labels.ndim != 1 or labels.dtype.kind not in "biufUO" or texts == numbers:
        kind = "numbers" if numbers else "text"
        raise InvalidInput(f"classes must be one sequence of {kind}, like y; got {classes!r:.80}.")
    held = set(labels.tolist())
    if len({isinstance(label, str) for label in held}) > 1:
        raise InvalidInput(f"classes must be all text or all numbers; got {classes!r:.80}.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InvalidInput("classes must be finite where they are numbers; got NaN or inf.")
    if len(held) < len(labels):
        raise InvalidInput(
            f"classes must be distinct; got {len(labels) - len(held)} of them twice."
        )
    absent = [label for label in met.tolist() if label not in held]
    if absent:
        raise InvalidInput(
            "classes must hold every label of y and of fitted estimators; "
            f"{absent[0]!r} is missing."
        )
    return np.sort(labels.astype(np.result_type(labels, met)))


def label_indices(
    y: Any,
    classes: Sequence[Any] | None,
    n: int,
    n_classes: int,
    *,
    first: int = 0,
    name: str = "y",
) -> IntArray:
    """Return labels as indices ``0 .. K-1``, shape (n,).

    Where there are class names, `y` holds names; integers beside names that are text are indices.
    `first` is the number of the first row, for errors in a later batch of rows.
    """
    if y is None:
        raise InvalidInput(f"{name} should be a 1d array of labels, one per row; got None.")
    y = host_array(y, name)
    if classes is None or _are_indices(y, classes):
        return check_labels(y, n, n_classes, first=first, name=name)
    position = {one: index for index, one in enumerate(classes)}
    if len(position) < len(classes):
        twice = next(one for index, one in enumerate(classes) if position[one] != index)
        raise InvalidInput(
            f"class name {twice!r} appears twice; give {name} as class indices 0..{n_classes - 1}."
        )
    values = y
    if values.ndim != 1:
        raise InvalidInput(f"{name} must be one label per row, shape (n,); got {values.shape}.")
    indices = [position.get(value, -1) for value in values.tolist()]
    if -1 in indices:
        row = indices.index(-1)
        text = ", ".join(repr(one) for one in classes[:5]) + (", ..." if n_classes > 5 else "")
        raise InvalidInput(
            f"{name} must hold class names ({text}); row {first + row} holds "
            f"{values.tolist()[row]!r}, which no set can hold: name it among the classes in fit, "
            "or count the row as missed."
        )
    return check_labels(np.array(indices, dtype=np.intp), n, n_classes, name=name)


def _are_indices(y: Any, classes: Sequence[Any]) -> bool:
    texts = sum(isinstance(name, str) for name in classes)
    whole = y.dtype.kind in "iu"
    if whole and 0 < texts < len(classes):
        raise InvalidInput(
            "y holds integers, which beside classes of text and numbers could be names or indices; "
            "make all class names text."
        )
    return whole and texts > 0
