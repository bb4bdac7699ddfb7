"""Prediction sets: a boolean (n, K) array with manners."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput
from conformix.kernels.arrays import (
    BoolArray,
    IntArray,
    beside,
    host_array,
    is_tensor,
    plain_tensor,
    refuse_masked,
    to_host,
    torch_module,
)
from conformix.sets import exports
from conformix.sets.exports import Layout

if TYPE_CHECKING:
    import pandas as pd

    from conformix.kernels.arrays import FloatArray


class PredictionSets(np.lib.mixins.NDArrayOperatorsMixin):
    """Prediction sets of n rows over K classes.

    Behaves as the boolean array ``mask``: operators, ufuncs, indexing and the methods of arrays
    work on it and give plain arrays. These are read-only, because the order of the labels belongs
    to the members: for other members, write into ``np.array(sets)`` or say ``sets &= allowed``,
    after which labels come in class order.

    Parameters
    ----------
    mask : boolean array or tensor of shape (n, K)
        ``mask[i, y]`` says whether label y is in the set of row i. The sets of a tensor are a
        tensor on the same device; ``np.asarray(sets)`` brings them to the host.
    classes : sequence of length K, optional
        Names of the classes; by default ``0 .. K-1``.
    order : integer array of shape (total size,), optional
        The labels in the sets, row after row, best first within a row: two bytes or fewer per
        label up to 65,536 classes, however many classes there are. Without it labels come in
        class order.

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

    def __init__(
        self, mask: Any, classes: Sequence[Any] | None = None, order: IntArray | None = None
    ) -> None:
        mask = plain_tensor(mask, "mask") if is_tensor(mask) else host_array(mask, "mask")
        if mask.ndim != 2 or str(mask.dtype) not in ("bool", "torch.bool"):
            raise InvalidInput(
                f"mask must be a boolean (n, K) array; got {mask.dtype} of shape "
                f"{tuple(mask.shape)}."
            )
        check_names(classes, mask.shape[1])
        if order is not None and len(order) != int(mask.sum()):
            raise InvalidInput(
                f"order must hold every label of every set, {int(mask.sum())} in all; got "
                f"{len(order)}."
            )
        self._mask: BoolArray = mask
        self.classes = _plain(classes)
        self.order = order

    @property
    def mask(self) -> BoolArray:
        """Which labels are in, shape (n, K): a read-only view (of a tensor, the tensor itself)."""
        if is_tensor(self._mask):
            return self._mask
        view = self._mask.view()
        view.flags.writeable = False
        return view

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, K)``."""
        return self.mask.shape[0], self.mask.shape[1]

    @property
    def sizes(self) -> IntArray:
        """Number of labels in every set, shape (n,)."""
        return self.mask.sum(axis=1)

    def labels(self, i: int) -> list[Any]:
        """Return the labels in set i, best first, as class names where there are any.

        Best is the highest combined score; sets made without scores list labels in class order.
        """
        row = np.asarray(self)[i]
        members = np.flatnonzero(row).tolist()
        if self.order is not None:
            stop = int(self._stops()[i])
            members = self.order[stop - len(members) : stop].tolist()
        return members if self.classes is None else [self.classes[y] for y in members]

    def members(self) -> list[list[Any]]:
        """Return the labels of every set: ``labels(i)`` for all i, in one go."""
        flat = np.nonzero(np.asarray(self))[1] if self.order is None else self.order
        names = flat.tolist() if self.classes is None else [self.classes[y] for y in flat.tolist()]
        stops = self._stops().tolist()
        return [names[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]

    def _stops(self) -> IntArray:
        """Return where the labels of every row end in `order`, shape (n,)."""
        if "_ends" not in self.__dict__:
            self._ends = np.cumsum(np.asarray(self).sum(axis=1))
        return self._ends

    def to_frame(
        self, layout: Layout = "sets", *, ids: Sequence[Any] | None = None
    ) -> pd.DataFrame:
        """Return a pandas frame.

        Parameters
        ----------
        layout : {"sets", "long", "wide"}
            ``sets``: one row per set, its size and its labels, best first. ``long``: one row per
            label of a set, with its rank, 1 for the best. ``wide``: one boolean column per class.
        ids : sequence of length n, optional
            What the rows are called, as a first column ``id``.

        Examples
        --------
        >>> sets = PredictionSets(np.array([[True, True]]), ["cat", "dog"], np.array([1, 0]))
        >>> sets.to_frame()
           size      labels
        0     2  [dog, cat]
        """
        import pandas as pd  # noqa: PLC0415  an extra, loaded where it is used

        return pd.DataFrame(self._columns(layout, ids))

    def to_csv(
        self,
        path: str | os.PathLike[str],
        layout: Layout = "sets",
        *,
        ids: Sequence[Any] | None = None,
        separator: str = "|",
        escape_formulas: bool = False,
    ) -> None:
        """Write a csv file, whole or not at all; numpy is all that it needs.

        Parameters
        ----------
        path : path
            The file.
        layout, ids
            As in `to_frame`; ``wide`` has 0 and 1.
        separator : str
            Joins the labels of a set in the layout ``sets``.
        escape_formulas : bool
            Names are written as they are. A spreadsheet takes text that begins with ``= + - @``
            for a formula: where names come from strangers and people open the file in one, say
            True, and such text gets a ``'`` in front.
        """
        table = self._columns(layout, ids)
        exports.write_csv(path, table, separator=separator, escape_formulas=escape_formulas)

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        layout: Layout = "sets",
        *,
        ids: Sequence[Any] | None = None,
    ) -> None:
        """Write a parquet file, whole or not at all; labels are a list column (needs pyarrow).

        Parameters
        ----------
        path : path
            The file.
        layout, ids
            As in `to_frame`.
        """
        exports.write_parquet(path, self._columns(layout, ids))

    def _columns(self, layout: Layout, ids: Sequence[Any] | None) -> dict[str, Any]:
        mask = np.asarray(self)
        names = range(mask.shape[1]) if self.classes is None else self.classes
        return exports.columns(mask, self.members, names, layout=layout, ids=ids)

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, key: Any) -> Any:
        return self.mask[key]

    def __iter__(self) -> Iterator[BoolArray]:
        return iter(self.mask)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        mask = to_host(self.mask)
        return mask if dtype is None and not copy else np.array(mask, dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "at" and isinstance(inputs[0], PredictionSets):  # which NumPy does not ask
            raise ValueError("sets are read-only; write into np.array(sets).")
        plain = [np.asarray(x) if isinstance(x, PredictionSets) else x for x in inputs]
        out = options.pop("out", ())
        # Other members go into an array of their own: this one may be shared, or not to be written.
        fresh = [np.array(x) if isinstance(x, PredictionSets) else x for x in out]
        if out:
            options["out"] = tuple(fresh)
        found = getattr(ufunc, method)(*plain, **options)
        for given, members in zip(out, fresh, strict=True):
            if isinstance(given, PredictionSets):
                given._become(members)
        return out[0] if len(out) == 1 else found  # ``sets &= allowed`` are sets again

    def _become(self, members: BoolArray) -> None:
        """Take other members, whose order is not known."""
        self._mask, self.order = beside(members, self._mask), None
        self.__dict__.pop("_ends", None)

    def __getattr__(self, name: str) -> Any:
        # Private names are never the array's: copying and pickling ask for them early.
        if name.startswith("_") or name == "mask":
            raise AttributeError(name)
        return getattr(self.mask, name)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        n, n_classes = self.shape
        mean = f"{int(self.mask.sum()) / n:.2f}" if n else "-"
        return f"PredictionSets({n:,} sets over {n_classes:,} classes, mean size {mean})"


def check_names(classes: Any, n_classes: int) -> None:
    """Refuse names that are no sequence, or not one per column."""
    if classes is None:
        return
    refuse_masked(classes, "classes")
    if not hasattr(classes, "__len__") or isinstance(classes, bytes | type):
        raise InvalidInput(f"classes must be a sequence of names; got {type(classes).__name__}.")
    if len(classes) != n_classes:
        raise InvalidInput(f"classes must name all {n_classes} columns; got {len(classes)} names.")


def _plain(classes: Any) -> list[Any] | None:
    """Return class names as a list of Python's own values."""
    if classes is None:
        return None
    return list(classes.tolist() if hasattr(classes, "tolist") else classes)


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
    classes, order
        As in `PredictionSets`, with the order of the largest sets: those of the smallest alpha.

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

    def __init__(
        self,
        depth: IntArray,
        alphas: Sequence[float],
        classes: Sequence[Any] | None = None,
        order: IntArray | None = None,
    ) -> None:
        self.depth = depth
        self.alphas = tuple(float(simple_fraction(alpha)) for alpha in alphas)
        self.classes = _plain(classes)
        self.order = order

    def at(self, alpha: float) -> PredictionSets:
        """Return the sets at one of the levels; ``at(1 - 0.7)`` finds 0.3."""
        wanted = float(simple_fraction(alpha))
        if wanted not in self.alphas:
            raise InvalidInput(
                f"alpha must be one of the predicted levels {list(self.alphas)}; got {alpha!r}."
            )
        level = self.alphas.index(wanted)
        order = self.order
        if order is not None:
            depth = to_host(self.depth)
            rows = np.repeat(np.arange(len(depth)), (depth > 0).sum(axis=1))
            order = order[depth[rows, order] > level]
        return PredictionSets(self.depth > level, self.classes, order)

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row per level and set: its size and its labels."""
        import pandas as pd  # noqa: PLC0415  an extra, loaded where it is used

        frames = {alpha: self.at(alpha).to_frame() for alpha in self.alphas}
        return pd.concat(frames, names=["alpha", "row"]).reset_index()

    @property
    def sizes(self) -> IntArray:
        """Set sizes by level, shape (number of levels, n)."""
        rows = [(self.depth > i).sum(axis=1) for i in range(len(self.alphas))]
        return torch_module().stack(rows) if is_tensor(self.depth) else np.stack(rows)

    @property
    def mean_sizes(self) -> FloatArray:
        """Mean set size at every level."""
        return to_host(self.sizes).mean(axis=1)

    def __len__(self) -> int:
        return len(self.depth)

    def __repr__(self) -> str:
        n, n_classes = self.depth.shape
        told = ", ".join(f"{alpha:g}" for alpha in self.alphas)
        return f"NestedSets({n:,} rows over {n_classes:,} classes at alpha {told})"
