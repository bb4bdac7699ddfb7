"""Which level to ask for next, so that the share of errors comes out right on every stream.

A controller is told after each set whether it missed the truth, and moves the level: down after an
error, up otherwise. A level at or below 0 means the full set, which never misses; one at or above 1
the empty set, which always does. The bounds follow from these two facts alone, so they hold for
every sequence of rows, drifting or adversarial.

Labels may come late and several levels may run at once. A set that was issued ``late`` labels ago
moves a level that has meanwhile gone on, and levels that cross are played as one, so a level can go
further past its end than by one step: by ``(1 + late) m`` of them, m the number of levels. That is
all that changes in the bounds (`ACI.late_bound`, `DtACI.late_bound`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput
from conformix.kernels import elementary
from conformix.registry import Registry

# Rounding of a level, relative to a step, that a bound has room for.
ROUNDING = 2.0**-50
# The steps of DtACI's experts, each twice the one before.
GAMMAS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128)


class Controller(Protocol):
    """What a stream asks of a controller.

    One that has ``reads_pvalues = True`` is told the p-value of the truth as well,
    ``update(error, pvalue)``; one that has ``late_bound(steps, late, levels)`` has a bound where
    labels come late or several levels run at once.
    """

    @property
    def level(self) -> float:
        """The level to ask for next; it may lie outside (0, 1)."""

    def start(self, alpha: float) -> Controller:
        """Return a fresh controller with the target `alpha`."""

    def update(self, error: bool) -> None:
        """Learn whether the issued set missed the truth."""

    def bound(self, steps: int) -> float:
        """Return a number that ``|errors / steps - alpha|`` cannot exceed."""


@dataclass
class ACI:
    """Adaptive conformal inference (Gibbs & Candes, 2021).

    ``alpha_{t+1} = alpha_t + gamma_t (alpha - err_t)`` with ``gamma_t = gamma t^-decay``. With a
    constant step, ``|mean error - alpha| <= (max(a_1, 1 - a_1) + gamma) / (gamma T)`` for every
    sequence; with a falling one (Angelopoulos et al., 2024) it is ``(1 + 2 gamma)/(gamma_T T)``, by
    summation by parts and levels that stay in ``[-gamma, 1 + gamma]``.

    Parameters
    ----------
    gamma : float
        The step: large adapts fast, small is steady.
    decay : float
        0 for a constant step; between 0 and 1 the level settles on quiet streams.

    Examples
    --------
    >>> control = ACI(gamma=0.1).start(0.2)
    >>> control.update(error=True)
    >>> round(control.level, 3)
    0.12
    >>> round(control.bound(100), 3)
    0.09
    """

    integrates: ClassVar[bool] = True  # the level is alpha plus a sum of coins: see `Ladder`

    gamma: float = 0.02
    decay: float = 0.0
    alpha: float = field(default=0.1, init=False)
    level: float = field(default=0.1, init=False)
    _steps: int = field(default=0, init=False, repr=False)

    def start(self, alpha: float) -> ACI:
        """Return a fresh controller with the target `alpha`, which is also the first level."""
        if not self.gamma > 0 or not 0 <= self.decay < 1:
            raise InvalidInput(
                "gamma must be positive and decay in [0, 1); got "
                f"gamma={self.gamma!r}, decay={self.decay!r}."
            )
        fresh = ACI(self.gamma, self.decay)
        fresh.alpha = fresh.level = float(simple_fraction(alpha))
        return fresh

    def step(self, t: int) -> float:
        """Return the step after the t-th set, t = 1, 2, ..."""
        return self.gamma * t**-self.decay

    def update(self, error: bool) -> None:
        """Move the level by one step."""
        self._steps += 1
        self.level += self.step(self._steps) * (self.alpha - error)

    def bound(self, steps: int) -> float:
        """Return the deterministic bound after so many steps."""
        return self.late_bound(steps)

    def late_bound(self, steps: int, late: int = 0, levels: int = 1) -> float:
        """Return the bound after so many labels, of which some came late.

        A set that never misses has a level at or below 0, one that always does at or above 1. A
        label moves the level that is now, up to `late` steps from the one that its set had; and
        that one is within ``levels - 1`` times as much of the level that was played. So levels stay
        within ``(1 + late) levels`` steps of [0, 1].

        Parameters
        ----------
        steps : int
            Labels so far.
        late : int
            How many labels came, at most, between a set and its own label.
        levels : int
            How many levels run at once.
        """
        reach, step = (1 + late) * levels * self.gamma, self.step(steps)
        room = max(self.alpha, 1 - self.alpha) + reach if self.decay == 0 else 1 + 2 * reach
        return room / (step * steps) + ROUNDING * (1 + 2 * reach) / step


@dataclass
class Betting:
    """A level without a step to choose: coin betting by Krichevsky and Trofimov.

    The excess ``g_t = alpha - err_t`` is a coin in [-1, 1]. A bettor of wealth 1 stakes the signed
    share ``(g_1 + ... + g_{t-1}) / t`` of the wealth, and the level is ``alpha`` plus the stake
    (Orabona & Pal, 2016; for conformal sets: Podkopaev et al., 2024). Wealth grows only while the
    level lies in [0, 1], so it stays below ``1 + T``; a bettor with a large sum of coins would be
    richer, hence ``|mean error - alpha| <= sqrt(2 log((1 + T) e sqrt(pi T)) / T)``, always. Labels
    that come late may pay on a level outside [0, 1]; no bound is known then.

    Examples
    --------
    >>> control = Betting().start(0.2)
    >>> control.update(error=True)
    >>> round(control.level, 3)
    -0.2
    >>> round(control.bound(10_000), 3)
    0.055
    """

    alpha: float = field(default=0.1, init=False)
    level: float = field(default=0.1, init=False)
    _wealth: float = field(default=1.0, init=False, repr=False)
    _sum: float = field(default=0.0, init=False, repr=False)
    _steps: int = field(default=0, init=False, repr=False)

    def start(self, alpha: float) -> Betting:
        """Return a fresh controller with the target `alpha`, which is also the first level."""
        fresh = Betting()
        fresh.alpha = fresh.level = float(simple_fraction(alpha))
        return fresh

    def update(self, error: bool) -> None:
        """Pay out the last stake and place the next."""
        coin = self.alpha - error
        self._wealth += coin * (self.level - self.alpha)
        self._sum += coin
        self._steps += 1
        self.level = self.alpha + self._wealth * self._sum / (self._steps + 1)

    def bound(self, steps: int) -> float:
        """Return ``sqrt(2 log((1 + T) e sqrt(pi T)) / T)``."""
        wealth = (1 + steps) * math.e * math.sqrt(math.pi * steps)
        return math.sqrt(2 * math.log(wealth) / steps)


@dataclass
class DtACI:
    """Several steps at once, weighed by how they did lately, and a budget that makes it safe.

    Experts i = 1..k are ACI with the steps `gammas`, each told what its own set would have done:
    ``a_i += gamma_i (alpha - [a_i >= p])``, p the p-value of the truth. They pay the pinball loss
    ``l_i = alpha (p - a_i) - min(0, p - a_i)``, and their weights are
    ``w_i <- (1 - sigma) w_i exp(-eta l_i) / sum_j w_j exp(-eta l_j) + sigma / k``. The level is the
    mean ``sum_i w_i a_i`` (Gibbs & Candes, "Conformal inference for online prediction with
    arbitrary distribution shifts", 2022), with their choice for intervals of `memory` steps,
    ``sigma = 1 / (2 memory)`` and ``eta^2 = 3 (log(k memory) + 2) / (memory c)`` with
    ``c = (1 - alpha)^2 alpha^3 + alpha^2 (1 - alpha)^3``.

    Of that alone no bound is known that vanishes with constant eta and sigma. So a budget stands
    behind it: once ``|errors - alpha t| > room sqrt(t)`` the set is full, or empty, until the
    errors are back within. Then for every sequence ``|mean error - alpha|`` is at most
    ``room / sqrt(T) + max(alpha, 1 - alpha) / T``. On streams that nobody steers the budget is
    hardly ever touched.

    Parameters
    ----------
    gammas : sequence of float
        The steps of the experts.
    memory : int
        Over how many steps the experts are compared.
    room : float
        The budget; ``inf`` is DtACI as published, of which nothing is promised.

    Examples
    --------
    >>> control = DtACI().start(0.1)
    >>> control.update(error=True, pvalue=0.02)
    >>> round(control.level, 3)
    0.071
    >>> round(control.bound(10_000), 3)
    0.02
    """

    reads_pvalues: ClassVar[bool] = True

    gammas: tuple[float, ...] = GAMMAS
    memory: int = 500
    room: float = 2.0
    alpha: float = field(default=0.1, init=False)
    level: float = field(default=0.1, init=False)
    _levels: list[float] = field(default_factory=list, init=False, repr=False)
    _weights: list[float] = field(default_factory=list, init=False, repr=False)
    _steps: int = field(default=0, init=False, repr=False)
    _errors: int = field(default=0, init=False, repr=False)

    def start(self, alpha: float) -> DtACI:
        """Return a fresh controller with the target `alpha`, which is also the first level."""
        gammas = tuple(float(gamma) for gamma in self.gammas)
        if not gammas or not all(gamma > 0 and math.isfinite(gamma) for gamma in gammas):
            raise InvalidInput(f"gammas must be positive steps; got {self.gammas!r}.")
        if not self.room > 0 or not self.memory >= 1:
            raise InvalidInput(
                "room must be positive and memory at least 1; got "
                f"room={self.room!r}, memory={self.memory!r}."
            )
        fresh = DtACI(gammas, int(self.memory), float(self.room))
        fresh.alpha = fresh.level = float(simple_fraction(alpha))
        fresh._levels = [fresh.alpha] * len(gammas)
        fresh._weights = [1 / len(gammas)] * len(gammas)
        return fresh

    @property
    def eta(self) -> float:
        """How strongly a loss counts against an expert."""
        a, k = self.alpha, len(self.gammas)
        spread = (1 - a) ** 2 * a**3 + a**2 * (1 - a) ** 3
        return math.sqrt(3 / self.memory * (math.log(k * self.memory) + 2) / spread)

    def update(self, error: bool, pvalue: float) -> None:
        """Let every expert pay and move, and place the next level within the budget."""
        self._steps += 1
        self._errors += int(error)
        gaps = [pvalue - level for level in self._levels]
        losses = [self.alpha * gap - min(0.0, gap) for gap in gaps]
        least, eta, sigma = min(losses), self.eta, 1 / (2 * self.memory)
        shrink = elementary.exp(np.array([eta * (least - loss) for loss in losses])).tolist()
        kept = [weight * factor for weight, factor in zip(self._weights, shrink, strict=True)]
        total, even = math.fsum(kept), sigma / len(kept)
        self._weights = [(1 - sigma) * weight / total + even for weight in kept]
        self._levels = [
            level + gamma * (self.alpha - (gap <= 0))
            for level, gamma, gap in zip(self._levels, self.gammas, gaps, strict=True)
        ]
        mean = math.fsum(w * a for w, a in zip(self._weights, self._levels, strict=True))
        self.level = self._within_budget(mean)

    def _within_budget(self, level: float) -> float:
        asked = simple_fraction(self.alpha)
        excess = self._errors * asked.denominator - self._steps * asked.numerator  # exact
        budget = self.room * math.sqrt(self._steps) * asked.denominator
        if excess > budget:
            return min(level, 0.0)
        return max(level, 1.0) if excess < -budget else level

    def bound(self, steps: int) -> float:
        """Return ``room / sqrt(T) + max(alpha, 1 - alpha) / T``."""
        return self.late_bound(steps)

    def late_bound(self, steps: int, late: int = 0, levels: int = 1) -> float:
        """Return the bound after so many labels, of which some came late; as in `ACI.late_bound`.

        A set misses only if the budget allowed it, and up to `late` others may have missed since.
        Of several levels this is what holds for the lowest; the others have less (`floor`).
        """
        return self.floor(steps, late, levels - 1)

    def ceiling(self, steps: int, late: int = 0) -> float:
        """Return how far the share of errors can lie above alpha, also among several levels."""
        last = (1 + late) * max(self.alpha, 1 - self.alpha)
        return (self.room * math.sqrt(steps) + last) / steps * (1 + ROUNDING)

    def floor(self, steps: int, late: int = 0, above: int = 0) -> float:
        """Return how far the share of errors can lie below alpha, with so many levels `above`.

        A level that has too few errors asks for empty sets and gets those of the level above it,
        so that both err together from the last step s on at which it was within its budget:
        ``E_j(T) - E_j(s) >= E_j+1(T) - E_j+1(s) - (1 + late)``. On the right the level above has
        at least ``a (T - s)`` less what it may lack at T and what it may have too many at s. So
        every level above adds ``2 room sqrt(T) + 2 (1 + late)``, and no more.

        Parameters
        ----------
        steps : int
            Labels so far.
        late : int
            How many labels came, at most, between a set and its own label.
        above : int
            How many larger targets run beside this one.
        """
        if not above:
            return self.ceiling(steps, late)
        last = (1 + late) * (1 + 2 * above)
        spent = (1 + 2 * above) * self.room * math.sqrt(steps)
        return (spent + last) / steps * (1 + ROUNDING)


class Ladder:
    """Several levels at once, whose sets are nested: one controller each.

    Levels that a controller adds up (`ACI`) may cross; those that do are played at their common
    mean, by isotonic regression. Sets of one mean are the same, so their errors are, and the levels
    move apart again by the difference of their targets: no two neighbours are ever more than one
    step in the wrong order, and the bound of every level holds with a few steps more (cf. Ding,
    Gibbs & Tibshirani, 2025). Of other controllers the lower level is played, so that a full set
    that one of them needs is full: what bounds errors from above goes on to hold. An empty set that
    one needs is no larger than that of the level above, which bounds errors from below
    (`DtACI.floor`).

    Parameters
    ----------
    control : Controller
        What every level gets a fresh one of.
    alphas : sequence of float
        The targets, rising.

    Examples
    --------
    >>> ladder = Ladder(ACI(gamma=0.1), [0.1, 0.2])
    >>> ladder.update([False, True], pvalue=0.15)
    >>> [round(control.level, 3) for control in ladder.controls]
    [0.11, 0.12]
    >>> ladder.update([False, True], pvalue=0.115)
    >>> [round(level, 3) for level in ladder.levels]
    [0.08, 0.08]
    """

    def __init__(self, control: Controller, alphas: Sequence[float]) -> None:
        self.controls = [control.start(alpha) for alpha in alphas]

    @property
    def levels(self) -> list[float]:
        """The levels that are played, none above a later one."""
        own = [control.level for control in self.controls]
        if getattr(self.controls[0], "integrates", False):
            return pooled(own)
        return np.minimum.accumulate(own[::-1])[::-1].tolist()  # type: ignore[no-any-return]

    def update(self, errors: Sequence[bool], pvalue: float) -> None:
        """Tell every controller whether the set of its level missed."""
        for control, error in zip(self.controls, errors, strict=True):
            tell(control, bool(error), pvalue)


def pooled(values: Sequence[float]) -> list[float]:
    """Return the nearest values that never fall, in the sense of squares.

    Examples
    --------
    >>> pooled([1.0, 4.0, 2.0, 5.0])
    [1.0, 3.0, 3.0, 5.0]
    """
    blocks: list[list[float]] = []
    for value in values:
        block = [value]
        while blocks and _mean(blocks[-1]) > _mean(block):
            block = blocks.pop() + block
        blocks.append(block)
    return [mean for block in blocks for mean in [_mean(block)] * len(block)]


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def tell(control: Any, error: bool, pvalue: float) -> None:
    """Tell a controller what became of a set: all of them the error, some the p-value."""
    if getattr(control, "reads_pvalues", False):
        control.update(error, pvalue)
    else:
        control.update(error)


def bound_of(
    control: Any, steps: int, late: int = 0, levels: int = 1, above: int | None = None
) -> float:
    """Return the bound of a controller on both sides, ``inf`` where it has none.

    Of `levels` that run at once, `above` have larger targets; all others, where that is not said.

    Examples
    --------
    >>> bound_of(Betting().start(0.1), 100, late=1)
    inf
    """
    if late == 0 and levels == 1:
        return float(control.bound(steps))
    if hasattr(control, "floor") and above is not None:
        return float(control.floor(steps, late, above))
    if not hasattr(control, "late_bound"):
        return math.inf
    return float(control.late_bound(steps, late, levels))


def ceiling_of(control: Any, steps: int, late: int = 0) -> float:
    """Return how far above alpha the share of errors can lie, ``inf`` where nothing is known."""
    return float(control.ceiling(steps, late)) if hasattr(control, "ceiling") else math.inf


_DTACI: Any = DtACI()  # is told more than the protocol asks for
CONTROLLERS: Registry[Controller] = Registry(
    "control", {"aci": ACI(), "betting": Betting(), "dtaci": _DTACI}
)


def resolve_control(control: Any) -> Controller:
    """Return a controller for its name, or the controller itself.

    Examples
    --------
    >>> resolve_control("betting").level
    0.1
    """
    return CONTROLLERS.resolve(control, needs="update")


def control_name(control: Any) -> str:
    """Return the name of a controller of this library, by which a file can hold it."""
    name = next((one for one in CONTROLLERS if type(CONTROLLERS[one]) is type(control)), None)
    if name is None:
        raise InvalidInput(
            f"control {control!r} is of your own, which no file can hold; pickle the estimator "
            "yourself."
        )
    return name


def state_of(control: Any) -> dict[str, Any]:
    """Return where a controller of this library stands: numbers, and lists of them."""
    values = {one.name: getattr(control, one.name) for one in fields(control)}
    return {
        # JSON has lists where there are tuples, and no infinity: a budget without end is none
        name: list(v) if isinstance(v, tuple) else None if v == math.inf else v
        for name, v in values.items()
    }


def resumed(name: str, alpha: float, state: dict[str, Any]) -> Controller:
    """Return the controller that stands where `state_of` says.

    Examples
    --------
    >>> control = DtACI(room=3.0).start(0.2)
    >>> control.update(error=False, pvalue=0.5)
    >>> resumed("dtaci", 0.2, state_of(control)) == control
    True
    """
    control: Any = CONTROLLERS[name].start(alpha)
    target = control.alpha
    if set(state) != set(state_of(control)):
        raise InvalidInput("its online.state is not one of its control")
    for key, value in state.items():
        if isinstance(value, list) != isinstance(getattr(control, key), list | tuple):
            raise InvalidInput(f"its online.state.{key} is not one of its control")
        known: Any = math.inf if value is None else value
        setattr(control, key, tuple(known) if key == "gammas" else known)
    lists = [value for value in state.values() if isinstance(value, list)]
    if len({len(one) for one in lists}) > 1:
        raise InvalidInput("its online.state has lists of several lengths")
    if control.alpha != target:
        raise InvalidInput("its online.state.alpha is not its online.alpha")
    counted = [state[one] for one in ("_errors", "_steps") if one in state]
    whole = all(isinstance(one, int) for one in counted)
    if counted and not (whole and 0 <= counted[0] <= counted[-1]):
        raise InvalidInput("its online.state counts more errors than steps")
    control.start(alpha)  # refuses settings that none has
    return control  # type: ignore[no-any-return]


__all__ = ["ACI", "CONTROLLERS", "Betting", "DtACI", "Ladder", "resolve_control"]
