"""Prediction sets: a boolean (n, K) array with manners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.arrays import BoolArray, IntArray
from conformix.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

    from conformix.arrays import FloatArray


class PredictionSets(np.lib.mixins.NDArrayOperatorsMixin):
    """Prediction sets of n rows over K classes.

    Behaves as the boolean array ``mask``: operators, ufuncs, indexing and the methods of arrays
    work on it and give plain arrays.

    Parameters
    ----------
    mask : boolean array of shape (n, K)
        ``mask[i, y]`` says whether label y is in the set of row i.
    classes : sequence of length K, optional
        Names of the classes; by default ``0 .. K-1``.

    Examples
    --------
    >>> sets = PredictionSets(np.array([[True, False], [True, True]]), classes=["cat", "dog"])
    >>> sets
    PredictionSets(2 sets over 2 classes, mean size 1.50)
    >>> sets.labels(1)
    ['cat', 'dog']
    >>> sets.sum(), (~sets)[0]
    (np.int64(3), array([False,  True]))
    """

    def __init__(self, mask: Any, classes: Sequence[Any] | None = None) -> None:
        mask = np.asarray(mask)
        if mask.ndim != 2 or mask.dtype != bool:
            raise InvalidInput(
                f"mask must be a boolean (n, K) array; got {mask.dtype} of shape {mask.shape}."
            )
        if classes is not None and len(classes) != mask.shape[1]:
            raise InvalidInput(
                f"classes must name all {mask.shape[1]} columns; got {len(classes)} names."
            )
        self.mask: BoolArray = mask
        self.classes = None if classes is None else list(classes)

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, K)``."""
        return self.mask.shape[0], self.mask.shape[1]

    @property
    def sizes(self) -> IntArray:
        """Number of labels in every set, shape (n,)."""
        return self.mask.sum(axis=1)

    def labels(self, i: int) -> list[Any]:
        """Return the labels in set i, as class names where there are any."""
        members = np.flatnonzero(self.mask[i]).tolist()
        return members if self.classes is None else [self.classes[y] for y in members]

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row per set: its size and its labels."""
        import pandas as pd  # noqa: PLC0415  an extra, loaded where it is used

        labels = [self.labels(i) for i in range(len(self))]
        return pd.DataFrame({"size": self.sizes, "labels": labels})

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, key: Any) -> Any:
        return self.mask[key]

    def __iter__(self) -> Iterator[BoolArray]:
        return iter(self.mask)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if dtype is None and not copy:
            return self.mask
        return np.array(self.mask, dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [x.mask if isinstance(x, PredictionSets) else x for x in inputs]
        if "out" in options:
            options["out"] = tuple(
                x.mask if isinstance(x, PredictionSets) else x for x in options["out"]
            )
        return getattr(ufunc, method)(*plain, **options)

    def __getattr__(self, name: str) -> Any:
        # Private names are never the array's: copying and pickling ask for them early.
        if name.startswith("_") or name == "mask":
            raise AttributeError(name)
        return getattr(self.mask, name)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        n, n_classes = self.shape
        mean = f"{self.sizes.mean():.2f}" if n else "-"
        return f"PredictionSets({n:,} sets over {n_classes:,} classes, mean size {mean})"


class NestedSets:
    """Prediction sets of the same rows at several levels, in one small array.

    Sets grow as alpha shrinks, so per label one number is enough: at how many of the levels it
    is in.

    Parameters
    ----------
    depth : integer array of shape (n, K)
        At how many levels, counted from the smallest alpha, the label is in the set.
    alphas : sequence of float
        The levels, rising.

    Examples
    --------
    >>> nested = NestedSets(np.array([[2, 1, 0]], dtype=np.uint8), [0.05, 0.1])
    >>> nested
    NestedSets(1 rows over 3 classes at alpha 0.05, 0.1)
    >>> nested.at(0.05).labels(0), nested.at(0.1).labels(0)
    ([0, 1], [0])
    >>> nested.sizes
    array([[2],
           [1]])
    """

    def __init__(self, depth: IntArray, alphas: Sequence[float]) -> None:
        self.depth = depth
        self.alphas = tuple(float(alpha) for alpha in alphas)

    def at(self, alpha: float) -> PredictionSets:
        """Return the sets at one of the levels."""
        if float(alpha) not in self.alphas:
            raise InvalidInput(f"alpha must be one of {list(self.alphas)}; got {alpha!r}.")
        return PredictionSets(self.depth > self.alphas.index(float(alpha)))

    @property
    def sizes(self) -> IntArray:
        """Set sizes by level, shape (number of levels, n)."""
        return np.stack([(self.depth > i).sum(axis=1) for i in range(len(self.alphas))])

    @property
    def mean_sizes(self) -> FloatArray:
        """Mean set size at every level."""
        return self.sizes.mean(axis=1)

    def __len__(self) -> int:
        return len(self.depth)

    def __repr__(self) -> str:
        n, n_classes = self.depth.shape
        told = ", ".join(f"{alpha:g}" for alpha in self.alphas)
        return f"NestedSets({n:,} rows over {n_classes:,} classes at alpha {told})"
