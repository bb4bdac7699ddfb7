"""What comes in: model outputs and labels, checked once at the edge.

Everything behind this module may rely on the shapes, ranges and types checked here. Arrays are
never modified and are converted to float64 one block of rows at a time. Tensors of PyTorch in host
memory are read as arrays; tensors on a CUDA device stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias

import numpy as np

from conformix.data.checks import (
    all_finite,
    as_wide,
    by_model,
    called,
    check_shares,
    check_values,
    common_home,
    is_half,
    is_suspect,
    is_truncated,
    matrix,
    numeric,
    release_pages,
)
from conformix.errors import InvalidInput, shown
from conformix.kernels.arrays import (
    FloatArray,
    IntArray,
    host_array,
    is_tensor,
    on_device,
    to_host,
    torch_module,
)
from conformix.kernels.blocks import DEVICE_ENTRIES, row_blocks
from conformix.kernels.elementary import sums_of

# What the arithmetic of scores tells apart.
Kind: TypeAlias = Literal["probs", "logits"]
# What outputs are when they come in, and what they are to the arithmetic: log-probabilities are
# logits, shares become probabilities once they are divided by their sums, and so does the
# probability of the second of two classes once the first has its own.
Form: TypeAlias = Literal["probs", "logits", "logprobs", "shares", "binary"]
KIND_OF: dict[str, Kind] = {
    "probs": "probs", "logits": "logits", "logprobs": "logits", "shares": "probs",
    "binary": "probs",
}  # fmt: skip
KINDS = tuple(KIND_OF)
# Whose exponential and logarithm: ours, the same bits everywhere (`conformix.kernels.elementary`),
# or NumPy's on the host, for models that were saved before there was ours.
Arithmetic: TypeAlias = Literal["exact", "numpy"]
ARITHMETICS = ("exact", "numpy")

# Outputs of rows on the host that are read at once (2 MiB): some are copied.
READ_ENTRIES = 2**18

# How far a row of probabilities may sum from 1, by the width of its numbers: half precision
# rounds every entry by up to 2**-12 of its size and drops small ones altogether.
SUM_TOLERANCE = 1e-4
HALF_SUM_TOLERANCE = 5e-3


@dataclass(frozen=True)
class Unchecked:
    """What a check of the numbers needs: the argument's name, and by model how far sums may be off.

    Models that are not named, such as truncated outputs, have been checked before.
    """

    name: str
    tolerances: dict[str, float]
    first: int = 0
    form: Form = "probs"

    def settled(self, part: Outputs, start: int) -> Outputs:
        """Return a block of rows whose numbers are fine; `start` is where it begins."""
        self.check(part, start)
        return replace(part, unchecked=None)

    def check(self, part: Outputs, start: int) -> None:
        """Refuse a block of rows whose numbers are not fine."""
        for key, tolerance in self.tolerances.items():
            block = part.models[key]
            if not on_device(block) or is_suspect(block, form=self.form, tolerance=tolerance):
                text, first = called(self.name, key), self.first + start
                check_values(to_host(block), self.form, text, first, tolerance)


class Source(Protocol):
    """Outputs of n rows, wherever they live: they can be read as often as one likes.

    `Outputs` are here, `Passes` of `conformix.data.passes` read batches, and `Chunked` of
    `conformix.data.chunks` leaves the work to those who have the chunks. Where rows are cut into
    blocks is their own business.
    """

    @property
    def models(self) -> Any:
        """By the names of the models, in order."""

    @property
    def kind(self) -> Kind:
        """What the outputs are."""

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""

    def map(
        self,
        function: Callable[..., Any],
        rows: IntArray | None = None,
        arrays: tuple[Any, ...] = (),
    ) -> Iterator[tuple[slice, Any]]:
        """Yield the places of every block among `rows`, and what the function says of it, in order.

        It is asked ``function(outputs, *values)``: the checked outputs of a block of `rows`, which
        rise (None: all), and the same places of `arrays`, each as long as `rows`, or None.
        """

    def fold(
        self,
        function: Callable[..., Any],
        add: Callable[[Any, Any], Any],
        rows: IntArray | None = None,
        arrays: tuple[Any, ...] = (),
    ) -> Any:
        """Return the sum of what the function says, by `add`; None of no rows.

        For sums that no cut into blocks changes: of integers, or exact.
        """


def over_blocks(
    blocks: Iterable[Outputs],
    function: Callable[..., Any],
    rows: IntArray | None = None,
    arrays: tuple[Any, ...] = (),
) -> Iterator[tuple[slice, Any]]:
    """Yield what a function says of blocks of outputs in order, as `Source.map` does."""
    first = 0
    for outputs in blocks:
        places, some = slice(first, first + outputs.n), outputs
        if rows is not None:
            places, within = chosen(rows, first, outputs.n)
            some = outputs if len(within) == outputs.n else outputs.rows(within)
        first += outputs.n
        if places.start < places.stop:
            yield places, function(some, *cut(arrays, places))


def added(answers: Iterable[tuple[slice, Any]], add: Callable[[Any, Any], Any]) -> Any:
    """Return the sum of the answers of a map; None where there are none."""
    first, *others = [answer for _, answer in answers] or [None]
    return reduce(add, others, first)


def chosen(rows: IntArray, first: int, n: int) -> tuple[slice, IntArray]:
    """Return the places in rising `rows` of a block of n rows, and where in the block they are.

    Examples
    --------
    >>> chosen(np.array([1, 4, 5]), 3, 2)
    (slice(1, 2, None), array([1]))
    """
    start, stop = np.searchsorted(rows, [first, first + n])
    return slice(int(start), int(stop)), rows[start:stop] - first


def cut(arrays: tuple[Any, ...], rows: Any) -> list[Any]:
    """Return the same rows of several arrays, None where there is none."""
    return [None if array is None else array[rows] for array in arrays]


class ReadHere:
    """A `Source` whose blocks are read here, where their answers are added up too."""

    map: Callable[..., Iterator[tuple[slice, Any]]]

    def fold(
        self,
        function: Callable[..., Any],
        add: Callable[[Any, Any], Any],
        rows: IntArray | None = None,
        arrays: tuple[Any, ...] = (),
    ) -> Any:
        """Return the sum of what a function says of blocks of rows; see `Source`."""
        return added(self.map(function, rows, arrays), add)


def _is_plain(values: Any) -> bool:
    """Whether `take` reads rows where they are: of columns it would copy all of the array."""
    return type(values) is np.ndarray and values.flags.c_contiguous


@dataclass(frozen=True)
class Outputs(ReadHere):
    """The checked outputs of one or several models on the same rows."""

    models: dict[str, FloatArray]  # (n, K) each; a single unnamed model is called ""
    kind: Kind
    home: Any = None  # the device that answers go to; None: they are NumPy arrays
    unchecked: Unchecked | None = None  # how the numbers are to be checked when they are read
    arithmetic: Arithmetic = "exact"
    form: Form | None = None  # what they were when they came in; None: `kind`

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(next(iter(self.models.values())).shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return int(next(iter(self.models.values())).shape[1])

    def rows(self, rows: slice | IntArray) -> Outputs:
        """Return the outputs on some of the rows; those of a blend are not computed yet."""
        models = {}
        for name, values in self.models.items():
            later = getattr(values, "later_rows", None)
            if later is not None:
                models[name] = later(rows)
            elif isinstance(rows, np.ndarray) and _is_plain(values):
                models[name] = values.take(rows, axis=0)  # in half the time of an index
            else:
                models[name] = values[rows]
        return replace(self, models=models)

    def read(self, rows: slice) -> Outputs:
        """Return the outputs on a block of rows, whose numbers are checked now if not before."""
        part = self.rows(rows)
        return part if self.unchecked is None else self.unchecked.settled(part, rows.start)

    def settled(self) -> Outputs:
        """Return the outputs with all numbers checked."""
        if self.unchecked is not None and self.unchecked.tolerances:
            for rows in self.blocks():
                whole = rows.start == 0 and rows.stop == self.n
                self.unchecked.check(self if whole else self._dense_rows(rows), rows.start)
                self.release_pages()
        return replace(self, unchecked=None)

    def _dense_rows(self, rows: slice) -> Outputs:
        """Return some rows of the models that are still to be checked."""
        assert self.unchecked is not None
        models = {name: self.models[name] for name in self.unchecked.tolerances}
        return replace(self, models=models).rows(rows)

    def release_pages(self) -> None:
        """Give up the memory of rows that have been read from a memory-mapped file."""
        for values in self.models.values():
            if isinstance(values, LaterOutputs):
                values.outputs.release_pages()
            else:
                release_pages(values)

    def blocks(self) -> Iterator[slice]:
        """Yield slices of rows whose (rows, K) block stays small."""
        entries = DEVICE_ENTRIES if self.on_device else READ_ENTRIES
        yield from row_blocks(self.n, self.n_classes, entries)

    def map(
        self,
        function: Callable[..., Any],
        rows: IntArray | None = None,
        arrays: tuple[Any, ...] = (),
    ) -> Iterator[tuple[slice, Any]]:
        """Yield what a function says of blocks of rows; see `Source`."""

        def blocks() -> Iterator[Outputs]:
            for block in self.blocks():
                yield self.read(block)
                self.release_pages()

        return over_blocks(blocks(), function, rows, arrays)

    @property
    def on_device(self) -> bool:
        """Whether the outputs are tensors that are computed on their device."""
        values: Any = next(iter(self.models.values()))
        blended = getattr(values, "outputs", None)  # those that a blend is made of
        return on_device(values) if blended is None else bool(blended.on_device)

    def empty(self, dtype: str) -> Any:
        """Return room for one answer per label, shape (n, K), where the outputs are computed."""
        shape = (self.n, self.n_classes)
        if not self.on_device:
            return np.empty(shape, dtype=dtype)
        torch = torch_module()
        return torch.empty(shape, dtype=getattr(torch, dtype), device=self.home)

    def to_host(self) -> Outputs:
        """Return the outputs in host memory; answers still go to the device they came from."""
        if not self.on_device:
            return self
        home = self.home or next(iter(self.models.values())).device  # type: ignore[attr-defined]
        return replace(self, models={m: to_host(v) for m, v in self.models.items()}, home=home)

    @property
    def stays_on_device(self) -> bool:
        """Whether every score of ours is computed where these outputs are: on their device."""
        return self.on_device and self.arithmetic == "exact"

    def to_caller(self, answer: Any) -> Any:
        """Return an answer as the user's kind of array, on the user's device."""
        if self.home is None or is_tensor(answer):
            return answer
        return torch_module().from_numpy(answer).to(self.home)


@dataclass(frozen=True, eq=False)
class LaterOutputs:
    """Stands in for the (n, K) outputs of one model, whose rows are computed when asked for."""

    outputs: Outputs  # of the models that it is made of

    ndim: ClassVar[int] = 2
    dtype: ClassVar[Any] = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and labels."""
        return self.outputs.n, self.outputs.n_classes

    def __len__(self) -> int:
        return self.outputs.n

    def later_rows(self, rows: slice | IntArray) -> Self:
        """Return the outputs of some rows, not computed yet."""
        return replace(self, outputs=self.outputs.rows(rows))

    @staticmethod
    def joined(blocks: Sequence[LaterOutputs]) -> LaterOutputs:
        """Return the outputs of several blocks of rows, not computed yet."""
        return replace(blocks[0], outputs=one_below_the_other([block.outputs for block in blocks]))


def one_below_the_other(blocks: Sequence[Outputs]) -> Outputs:
    """Return the checked outputs of several blocks of rows as those of one."""
    models = {}
    for name, values in blocks[0].models.items():
        joined = getattr(values, "joined", np.concatenate)
        models[name] = joined([block.models[name] for block in blocks])
    return replace(blocks[0], models=models, unchecked=None)


def taken(source: Source, rows: IntArray | None = None) -> Outputs:
    """Return the outputs of some rows, which rise, brought here from wherever they live."""
    if isinstance(source, Outputs):
        return source if rows is None else source.rows(rows)
    blocks = [block for _, block in source.map(_kept, rows)]
    if not blocks:
        none = np.empty((0, source.n_classes))
        return Outputs(dict.fromkeys(source.models, none), source.kind)
    return one_below_the_other(blocks)


def _kept(outputs: Outputs) -> Outputs:
    models = {name: np.array(values[:]) for name, values in outputs.models.items()}
    return replace(outputs, models=models, unchecked=None)


def check_outputs(
    outputs: Any,
    kind: Form = "probs",
    *,
    name: str = "outputs",
    first: int = 0,
    later: bool = False,
) -> Outputs:
    """Return outputs of one or several models as checked arrays by model name.

    ``{"vgg": P1, "resnet": P2}``, ``[P1, P2]``, or an object with ``.logits``, as models of
    transformers return. `first` is the number of the first row, for errors in a later batch;
    `later` checks the numbers when rows are read, so that large outputs are read once. Shares and
    the probabilities of one class of two are made probabilities here, in arrays of their own.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        allowed = ", ".join(f'"{one}"' for one in KINDS[:-1])
        raise InvalidInput(f'kind must be {allowed} or "{KINDS[-1]}"; got {shown(kind)}.')
    named = {"": outputs} if kind == "binary" and is_listed(outputs) else by_model(outputs, name)
    home = common_home(named, name)
    half = {key for key, value in named.items() if is_half(value)}
    read = {"binary": two_columns, "shares": divided_by_sums}.get(kind, matrix)
    models = {key: read(value, called(name, key)) for key, value in named.items()}
    shapes = {value.shape for value in models.values()}
    if len(shapes) > 1:
        text = ", ".join(f"{key!r} {tuple(value.shape)}" for key, value in models.items())
        raise InvalidInput(f"{name} of several models must share one shape (n, K); got {text}.")
    dense = {key: value for key, value in models.items() if not is_truncated(value)}
    for key in models:
        if key not in dense and kind != "probs":
            text = called(name, key)
            raise InvalidInput(f'{text} is a TopK of probabilities; say kind="probs".')
    widths = {key: HALF_SUM_TOLERANCE if key in half else SUM_TOLERANCE for key in dense}
    unchecked = Unchecked(name, widths, first, form_of(kind))
    checked = Outputs(models, KIND_OF[kind], home, unchecked, form=kind)
    return checked if later else checked.settled()


def check_row_like(row: Any, like: tuple[int, Any], kind: Form) -> Outputs | None:
    """Return one row of one model, checked in its numbers, where its form is that of a known one.

    For streams, whose rows look alike: an array (K,) or (1, K) of the length and type `like`. None
    for anything else, which `check_outputs` looks at.
    """
    n_classes, dtype = like
    if type(row) is not np.ndarray or row.dtype != dtype or kind not in ("probs", "logits"):
        return None
    block = row[None] if row.ndim == 1 else row
    if block.shape != (1, n_classes) or dtype not in (np.float64, np.float32):
        return None
    check_values(block, kind, "outputs", 0, SUM_TOLERANCE)
    return Outputs({"": block}, KIND_OF[kind], form=kind)


def matching(new: Outputs, models: tuple[str, ...], n_classes: int, name: str) -> Outputs:
    """Return `new` in the order of the fitted models, or say how it differs from them."""
    check_models(tuple(new.models), new.n_classes, models, n_classes, name)
    return replace(new, models={model: new.models[model] for model in models})


def check_models(
    new: tuple[str, ...], new_classes: int, models: tuple[str, ...], n_classes: int, name: str
) -> None:
    """Refuse outputs of other models, or of other classes, than the fitted ones."""
    if set(new) != set(models):
        expected, got = [
            "one array" if set(names) == {""} else sorted(names) for names in (models, new)
        ]
        raise InvalidInput(f"{name} must come from the fitted models {expected}; got {got}.")
    if new_classes != n_classes:
        raise InvalidInput(f"{name} must have the {n_classes} fitted classes; got {new_classes}.")


def form_of(kind: Form) -> Form:
    """Return by which rule numbers are checked once they have been read."""
    return "probs" if kind in ("shares", "binary") else kind


def is_listed(outputs: Any) -> bool:
    """Whether outputs are plain numbers in a list, which are one model's."""
    listed = isinstance(outputs, list | tuple) and len(outputs) > 0
    return listed and all(isinstance(one, int | float | np.number) for one in outputs)


def two_columns(values: Any, name: str) -> FloatArray:
    """Return the probabilities (n, 2) of two classes from those (n,) or (n, 1) of the second."""
    array = numeric(values, name)
    shape = tuple(array.shape)
    if len(shape) not in (1, 2) or shape[1:] not in ((), (1,)):
        raise InvalidInput(
            f'{name} of kind "binary" must be the probability of class 1 of 0 and 1, shape (n,) or '
            f'(n, 1); got shape {shape} (of a column per class say kind="probs").'
        )
    if 0 in shape:
        raise InvalidInput(f"{name} must not be empty; got shape {shape}.")
    if on_device(array):
        p: Any = array.reshape(-1).double()  # type: ignore[attr-defined]
        return torch_module().stack([1 - p, p], dim=1)  # type: ignore[no-any-return]
    p = np.asarray(array, dtype=np.float64).reshape(-1)
    return np.column_stack([1 - p, p])


def divided_by_sums(values: Any, name: str) -> FloatArray:
    """Return rows (n, K) of numbers from 0 on, each divided by the sum of its row."""
    array = matrix(values, name)
    if is_truncated(array):
        raise InvalidInput(f'{name} is a TopK, whose missing mass is known; say kind="probs".')
    if on_device(array):
        wide: Any = array.double()  # type: ignore[attr-defined]
    else:
        wide = np.asarray(array, dtype=np.float64)
    top = wide.max(1)[:, None] if isinstance(wide, np.ndarray) else wide.amax(1)[:, None]
    fine = (wide >= 0).all() & (top > 0).all() & (top < float("inf")).all()
    if not bool(fine):
        check_shares(to_host(wide), name)
    wide = wide / top  # in [0, 1], where sums are exact in any order
    return wide / sums_of(wide)  # type: ignore[no-any-return]


def check_labels(y: Any, n: int, n_classes: int, *, name: str = "y", first: int = 0) -> IntArray:
    """Return `y` as an integer array of shape (n,) with values in ``0 .. n_classes - 1``.

    `first` is the number of the first row, for errors in a later batch of rows.
    """
    labels = host_array(y, name)
    if labels.ndim != 1:
        one_hot = labels.ndim == 2 and labels.shape[1] == n_classes > 1
        hint = f"; one-hot rows are {name}.argmax(1)" if one_hot else ""
        raise InvalidInput(
            f"{name} must be one label per row, shape (n,); got {labels.shape}{hint}."
        )
    if len(labels) != n:
        raise InvalidInput(f"{name} must hold one label per row; got {len(labels)} for {n} rows.")
    if not np.issubdtype(labels.dtype, np.integer):
        names = labels.dtype.kind in "OUT"
        cure = "name the columns, fit(..., classes=[...])" if names else "convert with astype(int)"
        raise InvalidInput(
            f"{name} must hold integer class indices 0..{n_classes - 1}; got {labels.dtype} "
            f"({cure})."
        )
    wrong = (labels < 0) | (labels >= n_classes)
    if wrong.any():
        row = int(np.argmax(wrong))
        # With two classes and one of them met, nothing tells where the count begins.
        from_one = first == 0 and labels.min() == 1 and labels.max() == n_classes
        cure = (
            f"; they seem to count from 1: give {name} - 1, or name the classes "
            f"(classes=range(1, {n_classes + 1}), in the shell --labels-from 1)"
        )
        raise InvalidInput(
            f"{name} must hold class indices 0..{n_classes - 1}; row {first + row} holds "
            f"{labels[row]}{cure if from_one else ''}."
        )
    return labels.astype(np.intp)


def check_groups(groups: Any, n: int) -> IntArray | None:
    """Return group numbers ``0 .. G-1`` of shape (n,), or None where no groups are given."""
    if groups is None:
        return None
    values = host_array(groups, "groups")
    if values.shape != (n,):
        raise InvalidInput(f"groups must hold one value per row, shape ({n},); got {values.shape}.")
    try:
        return np.unique(values, return_inverse=True)[1].reshape(n)
    except TypeError:
        raise InvalidInput(
            "groups must hold values of one type, all text or all numbers."
        ) from None


def check_scores(scores: Any, *, name: str = "scores") -> FloatArray:
    """Return bare scores of shape (n, K, d), finite and float32 or float64, on a device or not."""
    tensor = numeric(scores, name)
    shape = tuple(tensor.shape)
    if len(shape) != 3:
        raise InvalidInput(f"{name} must be an array of shape (n, K, d); got shape {shape}.")
    if 0 in shape:
        raise InvalidInput(f"{name} must not be empty; got shape {shape}.")
    if on_device(tensor):
        wide: FloatArray = as_wide(tensor)
        return wide if all_finite(wide) else check_scores(to_host(wide), name=name)
    if tensor.dtype not in (np.float32, np.float64):
        tensor = tensor.astype(np.float64)
    for rows in row_blocks(tensor.shape[0], tensor.shape[1] * tensor.shape[2]):
        block = tensor[rows]
        # One pass without temporaries: NaN and inf reach the sum. So may an overflow; look again.
        with np.errstate(all="ignore"):
            total = block.sum()
        if not np.isfinite(total) and not np.isfinite(block).all():
            bad = np.argwhere(~np.isfinite(block))[0]
            raise InvalidInput(
                f"{name} must be finite; row {rows.start + bad[0]}, label {bad[1]}, score {bad[2]} "
                f"is {block[tuple(bad)]}."
            )
    return tensor
