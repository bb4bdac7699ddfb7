"""What a score is: a frozen object that turns ranked rows into one number per label."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from conformix.data.outputs import Kind
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray
from conformix.registry import check_flags
from conformix.scores.ranked import Ranked


class LookedUp(NamedTuple):
    """How the score of a label is read off its sorted row: nothing is computed."""

    by: Literal["probs", "mass_up_to", "below", "rank"]  # what of `Ranked` says it
    table: FloatArray | None = None  # (K + 1,), where that is a number of labels


@dataclass(frozen=True)
class Score(ABC):
    """A conformity score; higher means that the label fits better.

    A subclass is a frozen dataclass with a `name`, its options as fields, and one method. It is
    deterministic: calibration and prediction call the same code on the same kind of rows.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Odds(Score):
    ...     name: ClassVar[str] = "odds"
    ...
    ...     def __call__(self, ranked):
    ...         return ranked.probs / (1.001 - ranked.probs)
    >>> Odds()(Ranked(np.array([[0.501, 0.499]]))).round(2)
    array([[1.  , 0.99]])
    """

    name: ClassVar[str]
    # Whether sums, products, quotients and comparisons, through `ranked` and `ranked.xp`, and
    # `ranked.log` are all it needs: such a score of a CUDA tensor is computed on its device, all
    # others on the host.
    on_device: ClassVar[bool] = False
    # Whether it asks for the order of the labels.
    sorts: ClassVar[bool] = True
    # Whether it learns from rows, without their labels, before it scores any.
    learns: ClassVar[bool] = False

    @property
    def rises(self) -> bool:
        """Whether in every row a label with a larger output never scores lower, to the last bit."""
        return False

    def __post_init__(self) -> None:
        """Check the options that several scores share."""
        options = {name: getattr(self, name) for name in _names_of(type(self))}
        temperature, penalty = options.get("temperature", 1.0), options.get("penalty", 0.0)
        if not is_number(temperature) or temperature <= 0:
            raise InvalidInput(f"temperature must be a positive number; got {temperature!r}.")
        if not is_number(penalty) or penalty < 0:
            raise InvalidInput(f"penalty must be a non-negative number; got {penalty!r}.")
        u = options.get("u", 0.0)
        if not is_number(u) or not 0 <= u <= 1:
            raise InvalidInput(f"u must be a number between 0 and 1; got {u!r}.")
        k_reg = options.get("k_reg", 0)
        if not isinstance(k_reg, int | np.integer) or isinstance(k_reg, bool) or k_reg < 0:
            raise InvalidInput(f"k_reg must be a non-negative integer; got {k_reg!r}.")
        check_flags(self)

    @abstractmethod
    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return the scores of all labels of a block of rows, shape (n, K)."""

    def unit(self, n_classes: int) -> float:
        """Return the natural width of the score's range, by which ``normalize="scale"`` divides."""
        return 1.0

    def is_output(self, kind: Kind) -> bool:
        """Whether the score of a label is its output, bit for bit."""
        return False

    def looked_up(self, n_classes: int) -> LookedUp | None:
        """Return how the score of a label is read off its sorted row; None where it is computed.

        Bit for bit what calling the score gives, with exactly rounded logarithms.
        """
        return None

    def __str__(self) -> str:
        return text_of(self)


@lru_cache(maxsize=256)  # asked whenever a score is made
def _names_of(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def text_of(score: Any) -> str:
    """Return a score in the notation of its name and the options that are not its defaults."""
    options = [
        f"{field.name}={_plain(getattr(score, field.name))!r}"
        for field in fields(score)
        # What is learnt is no option.
        if field.compare
        and field.name != "negative"
        and getattr(score, field.name) != field.default
    ]
    sign = "-" if getattr(score, "negative", False) else ""
    return f"{sign}{score.name}({', '.join(options)})" if options else f"{sign}{score.name}"


def _plain(value: Any) -> Any:
    """Return NumPy's numbers as Python's, so that the text of a score can be read back."""
    return value.item() if isinstance(value, np.generic) else value


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number."""
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    try:
        return bool(real and math.isfinite(value))
    except OverflowError:  # a whole number that no float holds
        return False


@dataclass(frozen=True)
class Custom(Score):
    """A user's own score: a function from probabilities (n, K) to scores (n, K).

    Parameters
    ----------
    function : callable
        Gets a float64 array of probabilities of shape (n, K) and returns finite scores of the
        same shape. It must treat rows one by one: a row's score may not depend on other rows.

    Examples
    --------
    >>> root = Custom(np.sqrt)
    >>> root(Ranked(np.array([[0.36, 0.64]])))
    array([[0.6, 0.8]])
    """

    name: ClassVar[str] = "custom"
    function: Callable[[FloatArray], Any]

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return the user's scores, checked."""
        # A copy, so that a function that works in place cannot spoil the other scores.
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused below
                values = np.asarray(self.function(ranked.probs.copy()), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"score {self} failed to return numbers: {error}.") from error
        if values.shape != ranked.probs.shape:
            raise InvalidInput(
                f"score {self} must return one number per label, shape {ranked.probs.shape}; "
                f"got shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise InvalidInput(f"score {self} must return finite numbers; it returned NaN or inf.")
        return values

    def __str__(self) -> str:
        return getattr(self.function, "__name__", self.name)
