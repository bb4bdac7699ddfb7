"""What models predict of a number: means, spreads and quantiles, checked once.

One model is a `Regressed`, a plain array of means or a frame; several are a mapping by name or a
list. Everything else sees `RegressedOutputs`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conformix.data.checks import called, numeric, place
from conformix.data.row_data import row_ids
from conformix.errors import InvalidInput, shown
from conformix.kernels.arrays import (
    FloatArray,
    IntArray,
    beside,
    is_tensor,
    joined,
    to_device,
    to_host,
    torch_module,
)

# Least spread: its inverse, on any sensible scale, is still far from the largest that planes take.
SMALLEST = 2.0**-200
PARTS = ("mean", "sigma", "quantiles", "levels")
_QUANTILE = re.compile(r"q[_ ]?(?P<digits>\d+|0?\.\d+)")


@dataclass(frozen=True, eq=False)
class Regressed:
    """What one model predicts of n rows.

    Parameters
    ----------
    mean : array of shape (n,), optional
        The point prediction: a mean or a median.
    sigma : array of shape (n,), optional
        How far off the point prediction is expected to be, in units of the response. It is
        positive: zeros are lifted to a number that can be divided by, and negative ones refused. It
        goes with a mean.
    quantiles : array of shape (n, q), or a mapping or frame of columns by level, optional
        Predicted quantiles. Those of a row that cross are sorted.
    levels : array of shape (q,), optional
        Levels of the quantiles, strictly between 0 and 1; a mapping or frame brings its own.

    Tensors on a CUDA device stay there; all other numbers become arrays.

    Examples
    --------
    >>> Regressed(mean=[1.0, 2.0], sigma=[0.5, 0.1])
    Regressed(2 rows: mean, sigma)
    >>> Regressed(quantiles=[[3.0, 1.0]], levels=[0.05, 0.95]).quantiles
    array([[1., 3.]])
    """

    mean: Any = None
    sigma: Any = None
    quantiles: Any = None
    levels: Any = None
    name: str = field(default="outputs", repr=False, kw_only=True)
    ids: Any = field(default=None, repr=False, kw_only=True)
    home: Any = field(default=None, repr=False, kw_only=True)  # the device of tensors

    def __post_init__(self) -> None:
        if self.home is None:
            object.__setattr__(self, "home", _home(self.mean, self.quantiles))
        quantiles, levels = _by_level(self.quantiles, self.levels, self.name)
        parts = {
            "mean": _column(self.mean, f"mean of {self.name}"),
            "sigma": _column(self.sigma, f"sigma of {self.name}"),
        }
        ids = next((found for found in map(row_ids, (self.mean, self.quantiles)) if found), None)
        if parts["sigma"] is not None:
            if parts["mean"] is None:
                raise InvalidInput(f"{self.name} has sigma and no mean to go with it; give both.")
            parts["sigma"] = _positive(parts["sigma"], self.name)
        parts |= _sorted_quantiles(quantiles, levels, self.name)
        lengths = {k: len(v) for k, v in parts.items() if v is not None and k != "levels"}
        if not lengths:
            raise InvalidInput(
                f"{self.name} must hold a mean or quantiles; Regressed(mean=(n,), sigma=(n,), "
                "quantiles=(n, q), levels=(q,))."
            )
        if len(set(lengths.values())) > 1:
            text = ", ".join(f"{part} {n}" for part, n in lengths.items())
            raise InvalidInput(f"{self.name} must have as many rows in all its parts; got {text}.")
        if not next(iter(lengths.values())):
            raise InvalidInput(f"{self.name} must not be empty; got no rows.")
        _refuse_far_apart(
            {f"{k} of {self.name}": v for k, v in parts.items() if v is not None and k != "levels"},
        )
        for part, values in parts.items():
            object.__setattr__(self, part, values)
        if self.ids is None:
            object.__setattr__(self, "ids", ids)

    def __len__(self) -> int:
        return len(self.some)

    @property
    def has(self) -> frozenset[str]:
        """Which of mean, sigma and quantiles there are."""
        return frozenset(part for part in PARTS[:3] if getattr(self, part) is not None)

    def subset(self, rows: Any) -> Regressed:
        """Return some of the rows: a slice, numbers or a mask of them.

        Examples
        --------
        >>> Regressed(mean=[1.0, 2.0, 4.0]).subset([2, 0]).mean
        array([4., 1.])
        """
        taken = {part: _rows_of(getattr(self, part), rows) for part in sorted(self.has)}
        ids = None if self.ids is None else np.array(self.ids, dtype=object)[rows].tolist()
        return self._with(taken | {"ids": ids})

    def _with(self, parts: dict[str, Any]) -> Regressed:
        """Return the same with other parts, which need no checks."""
        made = object.__new__(Regressed)
        for part, value in (self.__dict__ | parts).items():
            object.__setattr__(made, part, value)
        return made

    def __getitem__(self, rows: Any) -> Regressed:
        """Return some of the rows, as `subset` does; one row of a number."""
        if isinstance(rows, int | np.integer):
            place = range(len(self))[rows]
            return self.subset(slice(place, place + 1))
        return self.subset(rows)

    def quantile(self, level: float) -> FloatArray:
        """Return the predicted quantiles (n,) of one of the levels."""
        place = np.flatnonzero(np.abs(self.levels - level) < SAME_LEVEL)
        if not len(place):
            raise InvalidInput(
                f"{self.name} has quantiles at {_listed(self.levels)}; got {level:g}."
            )
        return self.quantiles[:, int(place[0])]  # type: ignore[no-any-return]

    def matrix(self) -> FloatArray:
        """Return all that is predicted, side by side, (n, columns): what a digest is of."""
        columns = [to_host(getattr(self, part)) for part in PARTS[:3] if part in self.has]
        return np.column_stack(columns)

    @property
    def some(self) -> Any:
        """Means or quantiles, whichever there are: to see where numbers are."""
        return self.quantiles if self.mean is None else self.mean

    @property
    def on_device(self) -> bool:
        """Whether these are tensors that are computed on their device."""
        return is_tensor(self.some)

    def on_host(self) -> Regressed:
        """Return the same as arrays: itself unless it is on a device."""
        return self._with({part: to_host(getattr(self, part)) for part in sorted(self.has)})

    def followed_by(self, other: Regressed) -> Regressed:
        """Return these rows and then others of the same model, where these are."""
        parts = {part: getattr(self, part) for part in sorted(self.has)}
        both = {k: joined([v, beside(getattr(other, k), v)]) for k, v in parts.items()}
        return self._with(both | {"ids": None})

    def __repr__(self) -> str:
        parts = [part for part in PARTS[:3] if part in self.has]
        if self.quantiles is not None:
            parts[-1] = f"quantiles at {_listed(self.levels)}"
        return f"Regressed({len(self):,} rows: {', '.join(parts)})"


# Levels closer than this are one level.
SAME_LEVEL = 1e-9


def _listed(levels: FloatArray) -> str:
    return ", ".join(f"{level:g}" for level in levels)


def _numbers(values: Any, name: str) -> FloatArray:
    """Return real numbers as float64: an array, or a tensor that is on a device."""
    found: Any = numeric(values, name)
    return found.double() if is_tensor(found) else np.asarray(found, dtype=np.float64)  # type: ignore[no-any-return]


def _column(values: Any, name: str) -> FloatArray | None:
    """Return numbers (n,), finite, as float64."""
    if values is None:
        return None
    array = _numbers(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidInput(
            f"{name} must hold one number per row, (n,); got shape {tuple(array.shape)}."
        )
    _refuse_infinite(array, name)
    return array.contiguous() if is_tensor(array) else np.ascontiguousarray(array)  # type: ignore[attr-defined,no-any-return]


def _refuse_infinite(array: Any, name: str) -> None:
    fine = array.isfinite() if is_tensor(array) else np.isfinite(array)
    if not bool(fine.all()):
        wrong, array = ~to_host(fine), to_host(array)
        row = int(np.argwhere(wrong)[0][0])
        raise InvalidInput(f"{name} must be finite; row {row} holds {array[row]}.")


def _positive(sigma: FloatArray, name: str) -> FloatArray:
    least = float(sigma.min()) if len(sigma) else SMALLEST
    if least < 0:
        row = int(np.argmax(to_host(sigma) < 0))
        raise InvalidInput(f"sigma of {name} must be positive; row {row} holds {sigma[row]:.6g}.")
    return sigma if least >= SMALLEST else at_least(sigma, SMALLEST)


def at_least(values: Any, least: float) -> Any:
    """Return ``max(values, least)`` of an array or a tensor."""
    return values.clamp(min=least) if is_tensor(values) else np.maximum(values, least)


def _home(mean: Any, quantiles: Any) -> Any:
    """Return the device of what is given as tensors; None where nothing is."""
    given = [*quantiles.values()] if isinstance(quantiles, Mapping) else [quantiles]
    return next((values.device for values in (mean, *given) if is_tensor(values)), None)


def _refuse_far_apart(
    parts: Mapping[str, Any], way_out: str = "move them with .to(device)"
) -> None:
    """Refuse numbers of which some are on a device, and others on another one or on none."""
    places = {key: values.device if is_tensor(values) else None for key, values in parts.items()}
    if len(set(places.values())) > 1:
        text = ", ".join(f"{key} {place(home)}" for key, home in places.items())
        raise InvalidInput(f"predictions must be in one place; got {text} ({way_out}).")


def _rows_of(part: Any, rows: Any) -> Any:
    """Return some rows of an array or a tensor: a slice, numbers or a mask."""
    return part[rows if isinstance(rows, slice) else to_device(rows, part)]


def _by_level(quantiles: Any, levels: Any, name: str) -> tuple[Any, Any]:
    """Return quantiles as a matrix with their levels, which a mapping or a frame brings along."""
    columns = _names(quantiles)
    if columns is not None and levels is None:
        levels = [_level_of(column, name) for column in columns]
        if hasattr(quantiles, "column_names"):  # of Arrow, which has no matrix of a table
            quantiles = np.column_stack([np.asarray(quantiles[column]) for column in columns])
        return quantiles, levels
    if isinstance(quantiles, Mapping):
        if levels is not None:
            raise InvalidInput(f"levels of {name} are given twice; its quantiles bring their own.")
        if not quantiles:
            raise InvalidInput(f"quantiles of {name} are an empty mapping; give at least two.")
        found = [_column(values, f"quantiles of {name}") for values in quantiles.values()]
        if len({len(column) for column in found if column is not None}) > 1:
            raise InvalidInput(f"quantiles of {name} must have as many rows at every level.")
        _refuse_far_apart(
            {f"{name} at {key}": one for key, one in zip(quantiles, found, strict=True)}
        )
        columns = [column[:, None] for column in found if column is not None]
        return joined(columns, axis=1), [_level_of(key, name) for key in quantiles]
    return quantiles, levels


def _names(frame: Any) -> list[Any] | None:
    """Return what the columns of a frame or table are called; None of anything else."""
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    return None if names is None or is_tensor(frame) else list(names)


def _level_of(column: Any, name: str) -> float:
    """Return the level that a column stands for: 0.05, "0.05", "q0.05" and "q05" are the same."""
    match = _QUANTILE.fullmatch(str(column).strip())
    try:
        if match is not None and match["digits"].isdigit():
            return float(f"0.{match['digits']}")
        return float(match["digits"] if match is not None else column)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"quantiles of {name} must be named by their levels, such as 0.05 or q05; got "
            f"{shown(column)}."
        ) from None


def _sorted_quantiles(quantiles: Any, levels: Any, name: str) -> dict[str, Any]:
    """Return quantiles (n, q) that rise within every row, at levels (q,) that rise."""
    if quantiles is None and levels is None:
        return {"quantiles": None, "levels": None}
    if quantiles is None or levels is None:
        given, missing = ("levels", "quantiles") if quantiles is None else ("quantiles", "levels")
        raise InvalidInput(f"{name} has {given} and no {missing}; give both.")
    matrix: Any = _numbers(quantiles, f"quantiles of {name}")
    each = np.asarray(to_host(numeric(levels, f"levels of {name}")), dtype=np.float64)
    if matrix.ndim != 2 or each.shape != tuple(matrix.shape[1:]):
        raise InvalidInput(
            f"quantiles of {name} must be (n, q) with levels (q,); got shapes "
            f"{tuple(matrix.shape)} and {each.shape}."
        )
    _refuse_infinite(matrix, f"quantiles of {name}")
    if not ((each > 0) & (each < 1)).all():
        raise InvalidInput(
            f"levels of {name} must lie strictly between 0 and 1; got {_listed(each)}."
        )
    order = np.argsort(each, kind="stable")
    each = each[order]
    if len(each) < 2 or (np.diff(each) < SAME_LEVEL).any():
        raise InvalidInput(
            f"levels of {name} must be at least two different ones; got {_listed(each)}."
        )
    rising = matrix.sort(dim=1).values if is_tensor(matrix) else np.sort(matrix, axis=1)
    return {"quantiles": rising, "levels": each}


@dataclass(frozen=True, eq=False)
class RegressedOutputs:
    """What one or several models predict of the same n rows, checked."""

    by_name: dict[str, Regressed]

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(next(iter(self.by_name.values())))

    @property
    def models(self) -> dict[str, FloatArray]:
        """Everything that the models say, as matrices by name: what digests of rows are made of."""
        return {name: model.matrix() for name, model in self.by_name.items()}

    @property
    def ids(self) -> list[Any] | None:
        """What the rows are called, where a frame says so."""
        return next((one.ids for one in self.by_name.values() if one.ids is not None), None)

    def rows(self, rows: Any) -> RegressedOutputs:
        """Return some of the rows."""
        return replace(self, by_name={k: model.subset(rows) for k, model in self.by_name.items()})

    def followed_by(self, other: RegressedOutputs) -> RegressedOutputs:
        """Return these rows and then others of the same models."""
        both = {name: one.followed_by(other.by_name[name]) for name, one in self.by_name.items()}
        return RegressedOutputs(both)

    @property
    def home(self) -> Any:
        """The device of the tensors that were given; None where none were."""
        return next((one.home for one in self.by_name.values() if one.home is not None), None)

    def to_caller(self, answer: Any) -> Any:
        """Return an answer as the user's kind of array, on the user's device."""
        if self.home is None or is_tensor(answer):
            return answer
        return torch_module().from_numpy(answer).to(self.home)


def check_regressed(outputs: Any, name: str = "outputs") -> RegressedOutputs:
    """Return what a user gives as the predictions of one or several models, checked.

    Examples
    --------
    >>> check_regressed({"ridge": [1.0, 2.0], "net": Regressed(mean=[0.0, 3.0])}).by_name
    {'ridge': Regressed(2 rows: mean), 'net': Regressed(2 rows: mean)}
    """
    if isinstance(outputs, RegressedOutputs):
        return outputs
    named = _by_model(outputs, name)
    checked = {key: _model(values, called(name, key)) for key, values in named.items()}
    lengths = {key: len(model) for key, model in checked.items()}
    if len(set(lengths.values())) > 1:
        text = ", ".join(f"{key!r} {n}" for key, n in lengths.items())
        raise InvalidInput(f"{name} of several models must have the same rows; got {text}.")
    _refuse_far_apart({f"{name}[{key!r}]": model.some for key, model in checked.items()})
    return RegressedOutputs(checked)


def _by_model(outputs: Any, name: str) -> dict[str, Any]:
    if isinstance(outputs, Mapping):
        if not outputs:
            raise InvalidInput(f"{name} is an empty mapping; give at least one model.")
        if set(outputs) <= set(PARTS):
            raise InvalidInput(
                f"{name} is a mapping by model, and {', '.join(map(str, outputs))} are parts of "
                "one; say Regressed(...) with these parts."
            )
        named = {str(key): value for key, value in outputs.items()}
        if len(named) < len(outputs):
            raise InvalidInput(f"{name} must have models of different names; got {list(outputs)}.")
        return named
    several = isinstance(outputs, Sequence) and not isinstance(outputs, str | bytes | memoryview)
    if several and len(outputs) and all(_is_model(part) for part in outputs):
        return {f"model{i}": part for i, part in enumerate(outputs)}
    return {"": outputs}


def _is_model(part: Any) -> bool:
    """Whether a part of a list is a model of several, and no number of one."""
    if isinstance(part, Regressed):
        return True
    if hasattr(part, "ndim"):
        return bool(part.ndim > 0)
    return isinstance(part, Sequence) and not isinstance(part, str | bytes)


def _model(values: Any, name: str) -> Regressed:
    if isinstance(values, Regressed):
        return values
    if isinstance(values, Mapping):
        raise InvalidInput(f"{name} must be a Regressed, an array of means or a frame; got a dict.")
    columns = _names(values)
    if columns is not None:
        return _of_frame(values, columns, name)
    array = numeric(values, name)
    if array.ndim == 2 and array.shape[1] > 1:
        raise InvalidInput(
            f"{name} is a matrix of shape {tuple(array.shape)}, and an array alone means (n,) "
            "means; say Regressed(quantiles=..., levels=...)."
        )
    return Regressed(mean=values, name=name)


def _of_frame(frame: Any, columns: list[Any], name: str) -> Regressed:
    """Return the model whose mean, sigma and quantiles are columns of a frame."""
    known = [column for column in columns if column in ("mean", "sigma")]
    quantiles = {column: frame[column] for column in columns if column not in known}
    return Regressed(
        **{column: frame[column] for column in known},
        quantiles=quantiles or None,
        name=name,
        ids=row_ids(frame),
    )


def matching(outputs: RegressedOutputs, shapes: Mapping[str, Shape], name: str) -> RegressedOutputs:
    """Return outputs in the order of the fitted models, if they say what those said.

    One model may come without its name.
    """
    given = outputs.by_name
    if len(given) == 1 and len(shapes) == 1 and "" in {*given, *shapes}:
        given = {next(iter(shapes)): next(iter(given.values()))}
    if set(given) != set(shapes):
        raise InvalidInput(
            f"{name} must be of the fitted models {', '.join(map(repr, shapes))}; got "
            f"{', '.join(map(repr, given))}."
        )
    for model, shape in shapes.items():
        found = Shape.of(given[model])
        lacking = [part for part in PARTS[:3] if part in shape.has and part not in found.has]
        if lacking:
            raise InvalidInput(
                f"{called(name, model)} must hold {', '.join(lacking)}, as in fit; it has "
                f"{', '.join(part for part in PARTS if part in found.has)}."
            )
        if shape.levels and found.levels != shape.levels:
            raise InvalidInput(
                f"{called(name, model)} must have quantiles at the levels of fit, "
                f"{_listed(np.array(shape.levels))}; got {_listed(np.array(found.levels))}."
            )
    return RegressedOutputs({model: given[model] for model in shapes})


@dataclass(frozen=True)
class Shape:
    """Which parts a model predicts, and at which levels."""

    has: tuple[str, ...]
    levels: tuple[float, ...] = ()

    @classmethod
    def of(cls, model: Regressed) -> Shape:
        """Return the shape of what a model predicts."""
        parts = tuple(part for part in PARTS[:3] if part in model.has)
        return cls(parts, () if model.levels is None else tuple(model.levels.tolist()))


def check_responses(y: Any, n: int, y_range: tuple[float, float] | None = None) -> FloatArray:
    """Return the responses of n rows, finite, (n,); within the range that is assumed."""
    values: Any = to_host(_column(y, "y"))
    if values is None or len(values) != n:
        found = "None" if values is None else f"{len(values)}"
        raise InvalidInput(f"y must hold one number for each of the {n} rows; got {found}.")
    if y_range is not None:
        outside = (values < y_range[0]) | (values > y_range[1])
        if outside.any():
            row = int(np.argmax(outside))
            raise InvalidInput(
                f"y_range says that every response lies within [{y_range[0]:g}, {y_range[1]:g}], "
                f"and row {row} of y is {values[row]:.6g}; leave y_range out, or widen it by what "
                "is known without these rows."
            )
    return values  # type: ignore[no-any-return]


def check_range(y_range: Any) -> tuple[float, float] | None:
    """Return the range of the responses as two floats, the first below the second."""
    if y_range is None:
        return None
    try:
        low, high = (float(end) for end in y_range)
    except (TypeError, ValueError):
        low = high = np.nan
    if not low < high:
        raise InvalidInput(
            f"y_range must be two numbers, the first below the second; got {shown(y_range)}."
        )
    return low, high


def rows_at(n: int, rows: Any) -> IntArray:
    """Return the numbers of rows that a slice, numbers or a mask of n rows takes."""
    return np.arange(n)[rows]
