"""Scores on the real line: what a model predicts, as V-shaped functions of the response.

``s(x, y) = offset + below (centre - y)+ + above (y - centre)+``: a nonconformity, lower fits
better. A non-negative average of such scores is convex in y, so that ``{y : s <= t}`` is one
interval.

| score | centre | offset | below, above | needs |
|---|---|---|---|---|
| ``abs`` | mean | 0 | 1 | mean |
| ``norm`` | mean | 0 | 1/sigma | mean, sigma |
| ``laplace`` | mean | log sigma | 1/sigma | mean, sigma |
| ``cqr`` | (lo + hi)/2 | (lo - hi)/2 | 1 | quantiles |
| ``cqr_r`` | (lo + hi)/2 | -1/2 | 1/(hi - lo) | quantiles |
| ``cqr_m`` | median m | -1 | 1/(m - lo), 1/(hi - m) | quantiles, and a median or mean |
| ``log_sigma`` | - | log sigma | 0 | mean, sigma |
| ``log_gap`` | - | log (hi - lo) | 0 | quantiles |

Which scores a model has follows from what it predicts. The **spread** of a score is how far y may
move before the score rises by one: 1/slope. By it scores are put on one scale
(`conformix.regression.scale`), and where it is small beside its mean it is floored, so that a row
which a model is all too sure of has no infinite score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, constant, is_tensor, to_device, to_host
from conformix.kernels.elementary import log
from conformix.registry import Registry
from conformix.regression.regressed import SAME_LEVEL, SMALLEST, Regressed, at_least
from conformix.scores.names import Column, Notation, distinct, listed_scores
from conformix.scores.score import is_number, text_of

# What is averaged where the scores are left to the library: all of these that a model has, the
# scores of quantiles once for every pair of levels that mirror each other.
AUTO = ("abs", "norm", "cqr", "cqr_r", "cqr_m")


class Vees(NamedTuple):
    """One score of n rows as a function of y, four arrays (n,).

    Examples
    --------
    >>> Vees(*(np.ones(2) for _ in range(4))).centre
    array([1., 1.])
    """

    centre: FloatArray
    offset: FloatArray
    below: FloatArray
    above: FloatArray


@dataclass(frozen=True)
class RegressionScore(ABC):
    """A score of a response; lower fits better.

    A subclass is a frozen dataclass with a `name`, what it `needs` of a model, its options as
    fields, and one method, `vees`. A score whose slopes differ between rows says so by `spread`.
    Rows are treated one by one.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Upwards(RegressionScore):
    ...     name = "upwards"
    ...     needs = ("mean",)
    ...
    ...     def vees(self, model, floor=0.0):
    ...         ones = np.ones(len(model))
    ...         return Vees(model.mean, 0 * ones, 0 * ones, ones)
    >>> Upwards().vees(Regressed(mean=[2.0])).above
    array([1.])
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ("mean",)
    learns: ClassVar[bool] = False
    on_device: ClassVar[bool] = False  # whether `vees` and `spread` take tensors on a device

    @abstractmethod
    def vees(self, model: Regressed, floor: float = 0.0) -> Vees:
        """Return the score of the rows of a model, with no spread below `floor`."""

    def spread(self, model: Regressed) -> FloatArray | None:
        """Return how far y moves while the score rises by one, (n,), at least 0.

        None where that is the same for all rows, or where the score does not depend on y.
        """
        return None

    def lacks(self, model: Regressed) -> str | None:
        """Return what a model would have to predict for this score; None where it has it."""
        missing = [part for part in self.needs if part not in model.has]
        return " and ".join(missing) if missing else None

    def __str__(self) -> str:
        return text_of(self)


def vees_of(score: Any, model: Regressed, floor: float = 0.0) -> Vees:
    """Return the score of the rows of a model, where these are.

    Scores of the library are computed on the device of tensors, all others as arrays, and sent
    over.
    """
    if not model.on_device or getattr(score, "on_device", False):
        return score.vees(model, floor)  # type: ignore[no-any-return]
    found = score.vees(model.on_host(), floor)
    return Vees(*(to_device(np.array(part), model.some) for part in found))


def spread_of(score: Any, model: Regressed) -> FloatArray | None:
    """Return the spreads (n,) of a score in host memory; None where it has none."""
    here = getattr(score, "on_device", False)
    return to_host(score.spread(model if here else model.on_host()))  # type: ignore[no-any-return]


def _flat(model: Regressed, value: float) -> FloatArray:
    if model.on_device:
        return model.some.new_full((1,), value).expand(len(model))  # type: ignore[no-any-return]
    return constant(value, len(model))


def _lifted(spread: FloatArray, least: float) -> FloatArray:
    """Return spreads, none smaller than `least`."""
    return at_least(spread, least) if least > 0 else spread  # type: ignore[no-any-return]


def _log(values: Any) -> FloatArray:
    """Return the logarithms of an array or a tensor, the same bits."""
    if not is_tensor(values):
        return log(values)
    from conformix.kernels.device import elementary  # noqa: PLC0415  PyTorch loads late

    return elementary.log(values)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Abs(RegressionScore):
    """The absolute residual ``|y - mean|``.

    Examples
    --------
    >>> Abs().vees(Regressed(mean=[3.0]))
    Vees(centre=array([3.]), offset=array([0.]), below=array([1.]), above=array([1.]))
    """

    name: ClassVar[str] = "abs"
    on_device: ClassVar[bool] = True

    def vees(self, model: Regressed, floor: float = 0.0) -> Vees:
        """Return the residuals, in units of the response."""
        slope = _flat(model, 1.0)
        return Vees(model.mean, _flat(model, 0.0), slope, slope)


@dataclass(frozen=True)
class _InSigmas(RegressionScore):
    """A residual in units of sigma, of which there is one per row."""

    needs: ClassVar[tuple[str, ...]] = ("mean", "sigma")

    def spread(self, model: Regressed) -> FloatArray:
        """Return sigma."""
        return model.sigma  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Norm(_InSigmas):
    """The normalised residual ``|y - mean| / sigma``.

    Examples
    --------
    >>> Norm().vees(Regressed(mean=[3.0], sigma=[0.5])).above
    array([2.])
    """

    name: ClassVar[str] = "norm"
    on_device: ClassVar[bool] = True

    def vees(self, model: Regressed, floor: float = 0.0) -> Vees:
        """Return the residuals in units of sigma."""
        slope = 1 / _lifted(model.sigma, floor)
        return Vees(model.mean, _flat(model, 0.0), slope, slope)


@dataclass(frozen=True)
class Laplace(_InSigmas):
    """Minus the log density of a Laplace law, ``log sigma + |y - mean| / sigma``.

    Examples
    --------
    >>> Laplace().vees(Regressed(mean=[3.0], sigma=[1.0])).offset
    array([0.])
    """

    name: ClassVar[str] = "laplace"
    on_device: ClassVar[bool] = True

    def vees(self, model: Regressed, floor: float = 0.0) -> Vees:
        """Return the residuals in units of sigma, on top of its logarithm."""
        sigma = _lifted(model.sigma, floor)
        slope = 1 / sigma
        return Vees(model.mean, _log(sigma), slope, slope)


@dataclass(frozen=True)
class LogSigma(RegressionScore):
    """The number ``log sigma`` of a row, whatever y is: rows that are said to be hard get less.

    Examples
    --------
    >>> LogSigma().vees(Regressed(mean=[3.0], sigma=[1.0])).above
    array([0.])
    """

    name: ClassVar[str] = "log_sigma"
    on_device: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("mean", "sigma")

    def vees(self, model: Regressed, floor: float = 0.0) -> Vees:
        """Return the logarithms, with slopes of zero."""
        slope = _flat(model, 0.0)
        return Vees(model.mean, _log(model.sigma), slope, slope)


@dataclass(frozen=True)
class _OfQuantiles(RegressionScore):
    """A score of two quantiles: the outermost, or the one at `low` and its mirror image.

    Parameters
    ----------
    low : float, optional
        The lower of the two levels; the upper one is ``1 - low``. By default the smallest and the
        largest level that there are.
    """

    needs: ClassVar[tuple[str, ...]] = ("quantiles",)
    on_device: ClassVar[bool] = True

    low: float | None = None

    def __post_init__(self) -> None:
        if self.low is not None and not (is_number(self.low) and 0 < self.low < 0.5):
            raise InvalidInput(
                f"low must be a level strictly between 0 and 1/2, or None; got {self.low!r}."
            )

    def lacks(self, model: Regressed) -> str | None:
        """Return which quantiles a model would have to predict."""
        if model.quantiles is None or self.low is None:
            return super().lacks(model)
        pair = np.array([self.low, 1 - self.low])
        there = (np.abs(model.levels[:, None] - pair) < SAME_LEVEL).any(axis=0).all()
        return None if there else f"quantiles at {self.low:g} and {1 - self.low:g}"

    def ends(self, model: Regressed) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper of the two quantiles, (n,) each."""
        if self.low is None:
            return model.quantiles[:, 0], model.quantiles[:, -1]
        return model.quantile(self.low), model.quantile(1 - self.low)


@dataclass(frozen=True)
class Cqr(_OfQuantiles):
    """How far y lies outside two quantiles, ``max(lo - y, y - hi)`` (Romano et al., 2019).

    Parameters
    ----------
    low : float, optional
        The lower of the two levels; the upper one is ``1 - low``. By default the outermost two.

    Examples
    --------
    >>> model = Regressed(quantiles=[[1.0, 5.0]], levels=[0.1, 0.9])
    >>> Cqr().vees(model)
    Vees(centre=array([3.]), offset=array([-2.]), below=array([1.]), above=array([1.]))
    """

    name: ClassVar[str] = "cqr"

    def vees(self, model: Regressed, floor: float = 0.0) -> Vees:
        """Return the distances, in units of the response."""
        low, high = self.ends(model)
        slope = _flat(model, 1.0)
        return Vees(low / 2 + high / 2, low / 2 - high / 2, slope, slope)


@dataclass(frozen=True)
class CqrR(_OfQuantiles):
    """CQR in units of the distance of the two quantiles (Sesia & Candes, 2020).

    Parameters
    ----------
    low : float, optional
        As in `Cqr`.

    Examples
    --------
    >>> model = Regressed(quantiles=[[1.0, 5.0]], levels=[0.1, 0.9])
    >>> CqrR().vees(model)
    Vees(centre=array([3.]), offset=array([-0.5]), below=array([0.25]), above=array([0.25]))
    """

    name: ClassVar[str] = "cqr_r"

    def vees(self, model: Regressed, floor: float = 0.0) -> Vees:
        """Return the distances in units of the gap."""
        low, high = self.ends(model)
        gap = _lifted(high - low, max(floor, SMALLEST))
        slope = 1 / gap
        return Vees(low / 2 + high / 2, -(high - low) / gap / 2, slope, slope)

    def spread(self, model: Regressed) -> FloatArray:
        """Return the gap between the two quantiles."""
        low, high = self.ends(model)
        return high - low


@dataclass(frozen=True)
class CqrM(_OfQuantiles):
    """CQR in units of the distances to the median, on each side its own (Kivaranovic et al., 2020).

    The median is the quantile at 1/2, or the mean where there is none.

    Parameters
    ----------
    low : float, optional
        As in `Cqr`.

    Examples
    --------
    >>> model = Regressed(quantiles=[[1.0, 2.0, 6.0]], levels=[0.1, 0.5, 0.9])
    >>> CqrM().vees(model)
    Vees(centre=array([2.]), offset=array([-1.]), below=array([1.]), above=array([0.25]))
    """

    name: ClassVar[str] = "cqr_m"

    def lacks(self, model: Regressed) -> str | None:
        """Return what a model would have to predict."""
        if super().lacks(model) is None and model.mean is None and not _has_median(model):
            return "a quantile at 0.5, or a mean"
        return super().lacks(model)

    def sides(self, model: Regressed) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the median and its distances to the lower and the upper quantile, at least 0."""
        low, high = self.ends(model)
        if _has_median(model):
            middle = model.quantile(0.5)
        elif model.on_device:
            middle = model.mean.clamp(low, high)
        else:
            middle = np.clip(model.mean, low, high)
        return middle, middle - low, high - middle

    def vees(self, model: Regressed, floor: float = 0.0) -> Vees:
        """Return the distances in units of the two gaps."""
        middle, *gaps = self.sides(model)
        below, above = (_lifted(gap, max(floor, SMALLEST)) for gap in gaps)
        return Vees(middle, _flat(model, -1.0), 1 / below, 1 / above)

    def spread(self, model: Regressed) -> FloatArray:
        """Return the mean of the two gaps."""
        _, below, above = self.sides(model)
        return below / 2 + above / 2


def _has_median(model: Regressed) -> bool:
    return bool((np.abs(model.levels - 0.5) < SAME_LEVEL).any())


@dataclass(frozen=True)
class LogGap(_OfQuantiles):
    """The number ``log(hi - lo)`` of a row, whatever y is.

    Parameters
    ----------
    low : float, optional
        As in `Cqr`.

    Examples
    --------
    >>> LogGap().vees(Regressed(quantiles=[[1.0, 2.0]], levels=[0.1, 0.9])).offset
    array([0.])
    """

    name: ClassVar[str] = "log_gap"

    def vees(self, model: Regressed, floor: float = 0.0) -> Vees:
        """Return the logarithms, with slopes of zero."""
        low, high = self.ends(model)
        slope = _flat(model, 0.0)
        return Vees(low / 2 + high / 2, _log(_lifted(high - low, SMALLEST)), slope, slope)


@dataclass(frozen=True)
class OwnScore(RegressionScore):
    """A user's own score: a function of what a model predicts.

    Parameters
    ----------
    function : callable
        Gets a `Regressed` of n rows and returns either ``(centre, offset, below, above)``, each
        (n,), for a score that rises by `below` and `above` on the two sides of its centre, or one
        number per row (n,). It must treat rows one by one.

    Examples
    --------
    >>> own = OwnScore(lambda model: (model.mean, 0 * model.mean, 1 + 0 * model.mean, 3.0))
    >>> own.vees(Regressed(mean=[2.0, 4.0])).above
    array([3., 3.])
    """

    name: ClassVar[str] = "own"
    needs: ClassVar[tuple[str, ...]] = ()

    function: Callable[[Regressed], Any]

    def vees(self, model: Regressed, floor: float = 0.0) -> Vees:
        """Return the user's score, checked, with slopes of at most ``1 / floor``."""
        found = self._checked(model)
        if floor <= 0:
            return found
        most = 1 / floor
        below, above = np.minimum(found.below, most), np.minimum(found.above, most)
        return found._replace(below=below, above=above)

    def spread(self, model: Regressed) -> FloatArray:
        """Return the mean of 1/slope on the two sides; 0 of rows of which one side is flat."""
        found = self._checked(model)
        rises = (found.below > 0) & (found.above > 0)
        below, above = (np.where(rises, slope, 1.0) for slope in (found.below, found.above))
        return np.where(rises, 0.5 / below + 0.5 / above, 0.0)

    def _checked(self, model: Regressed) -> Vees:
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused below
                given = self.function(model)
                one = not isinstance(given, tuple | list)
                parts = (model.matrix()[:, 0], given, 0.0, 0.0) if one else tuple(given)
                found = [np.asarray(part, dtype=np.float64) for part in parts]
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"score {self} failed to return numbers: {error}.") from error
        shapes = {part.shape for part in found}
        if len(found) != 4 or not shapes <= {(), (len(model),)}:
            raise InvalidInput(
                f"score {self} must return (centre, offset, below, above), each of shape "
                f"({len(model)},), or one number per row; got "
                f"{', '.join(str(part.shape) for part in found)}."
            )
        vees = Vees(*(np.broadcast_to(part, (len(model),)).copy() for part in found))
        if not all(np.isfinite(part).all() for part in vees):
            raise InvalidInput(f"score {self} must return finite numbers; it returned NaN or inf.")
        if (vees.below < 0).any() or (vees.above < 0).any():
            raise InvalidInput(
                f"score {self} falls as y moves away from its centre, so that it is not convex and "
                "sets of its averages need not be intervals; below and above must be at least 0."
            )
        return vees

    def __str__(self) -> str:
        return getattr(self.function, "__name__", self.name)


_LISTED: tuple[type[RegressionScore], ...] = (
    Abs, Cqr, CqrM, CqrR, Laplace, LogGap, LogSigma, Norm,
)  # fmt: skip
SCORES: Registry[type[RegressionScore]] = Registry(
    "score",
    {score.name: score for score in _LISTED},
    elsewhere={
        "absolute": "abs",
        "residual": "abs",
        "gamma": "norm",
        "residual_normalized": "norm",
        "normalized": "norm",
        "normalised": "norm",
        "quantile": "cqr",
    },
)
# Scores that other libraries have, and that no average here can hold.
NOT_CONVEX = ("density", "histogram", "hpd", "dcp", "cdf", "chr")

NOTATION = Notation(SCORES)


def resolve_score(score: Any) -> RegressionScore:
    """Return the score object for a name, a score object or a plain function.

    Examples
    --------
    >>> resolve_score("cqr(low=0.25)")
    Cqr(low=0.25)
    >>> resolve_score("density")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: score 'density' is not convex in y, so that its averages need ...
    """
    if isinstance(score, str):
        _refuse_not_convex(score)
        return NOTATION.parse(score)  # type: ignore[no-any-return]
    if isinstance(score, RegressionScore):
        return score
    if hasattr(score, "vees") and not isinstance(score, type):
        raise InvalidInput(f"score {score!r} must be a RegressionScore, a name or a function.")
    if callable(score) and not isinstance(score, type):
        return OwnScore(score)
    raise InvalidInput(
        f"a score is a name, a RegressionScore or a function; got {type(score).__name__}."
    )


def _refuse_not_convex(text: str) -> None:
    if text.strip().lower() in NOT_CONVEX:
        raise InvalidInput(
            f"score {text!r} is not convex in y, so that its averages need not be intervals; "
            f"known: {', '.join(SCORES)}."
        )


def is_auto(scores: Any) -> bool:
    """Whether the scores are left to the library."""
    return isinstance(scores, str) and scores == "auto"


def regression_columns(models: Mapping[str, Regressed], scores: Any) -> tuple[Column, ...]:
    """Return which score of which model every plane holds.

    Parameters
    ----------
    models : mapping of str to Regressed
        What the models predict; a single unnamed one is called ``""``.
    scores : "auto", or a sequence of names, score objects or functions
        A score without a model is taken for every model that predicts what it needs. ``auto`` is
        `AUTO`, of every model what it has.

    Examples
    --------
    >>> models = {"a": Regressed(mean=[1.0]), "b": Regressed(mean=[1.0], sigma=[1.0])}
    >>> [str(column) for column in regression_columns(models, ("abs", "norm"))]
    ['a.abs', 'b.abs', 'b.norm']
    """
    if is_auto(scores):
        return tuple(
            Column(name, score) for name, model in models.items() for score in _automatic(model)
        )
    asked = [
        _of_model(tuple(models), score) for score in listed_scores(_one_or_several(scores))
    ]  # fmt: skip
    for only, score in asked:
        wanted = {k: model for k, model in models.items() if only in (None, k)}
        lacks = {k: score.lacks(model) for k, model in wanted.items()}
        if all(lacks.values()):
            name, what = next(iter(lacks.items()))
            raise InvalidInput(
                f"score {score} needs {what}, which {f'model {name!r}' if name else 'the model'} "
                f"does not predict; it has {_has(models[name])}."
            )
    return distinct(
        Column(name, score)
        for name, model in models.items()
        for only, score in asked
        if only in (None, name) and score.lacks(model) is None
    )


def _one_or_several(scores: Any) -> Any:
    return (scores,) if isinstance(scores, RegressionScore) else scores


def _of_model(models: tuple[str, ...], score: Any) -> tuple[str | None, Any]:
    if isinstance(score, str):
        _refuse_not_convex(score.rpartition(".")[2])
        return NOTATION.of_model(models, score)
    return None, resolve_score(score)


def _has(model: Regressed) -> str:
    """Return what a model predicts, for a sentence."""
    return repr(model).partition(": ")[2].rstrip(")")


def _automatic(model: Regressed) -> list[Any]:
    """Return the scores of `AUTO` that a model has."""
    found: list[Any] = []
    for name in AUTO:
        kind = SCORES[name]
        lows = _mirrored(model) if "quantiles" in kind.needs else ()
        some = [kind(low=low) for low in lows] if len(lows) > 1 else [kind()]  # type: ignore[call-arg]
        found += [score for score in some if score.lacks(model) is None]
    return found


def _mirrored(model: Regressed) -> tuple[float, ...]:
    """Return the levels below 1/2 whose mirror images a model predicts too."""
    if model.levels is None:
        return ()
    lows = [float(level) for level in model.levels if level < 0.5]
    return tuple(low for low in lows if (np.abs(model.levels - (1 - low)) < SAME_LEVEL).any())
