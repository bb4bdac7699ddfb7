"""Controllers: which level to ask for next, so that the errors come out right in the long run.

A controller holds the level ``alpha_t``. After each set it is told whether the set **that was
issued** missed the truth, and moves the level: down after an error, up otherwise. A level outside
(0, 1) means the full or the empty set. Nothing is assumed about the data: the bounds below hold for
every sequence, drifting or adversarial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput
from conformix.registry import Registry


class Controller(Protocol):
    """What the online predictor asks of a controller."""

    @property
    def level(self) -> float:
        """The level to ask for next; it may lie outside (0, 1)."""

    def start(self, alpha: float) -> Controller:
        """Return a fresh controller with the target `alpha`."""

    def update(self, error: bool) -> None:
        """Learn whether the issued set missed the truth."""

    def bound(self, steps: int) -> float:
        """Return a number that ``|errors / steps - alpha|`` cannot exceed."""


def _check_start(alpha: float) -> float:
    return float(simple_fraction(alpha))


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
        fresh.alpha = fresh.level = _check_start(alpha)
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
        room = max(self.alpha, 1 - self.alpha) + self.gamma
        return (room if self.decay == 0 else 1 + 2 * self.gamma) / (self.step(steps) * steps)


@dataclass
class Betting:
    """A level without a step to choose: coin betting by Krichevsky and Trofimov.

    The excess ``g_t = alpha - err_t`` is a coin in [-1, 1]. A bettor of wealth 1 stakes the signed
    share ``(g_1 + ... + g_{t-1}) / t`` of the wealth, and the level is ``alpha`` plus the stake
    (Orabona & Pal, 2016; for conformal sets: Podkopaev et al., 2024). Wealth grows only while the
    level lies in [0, 1], so it stays below ``1 + T``; a bettor with a large sum of coins would be
    richer, hence ``|mean error - alpha| <= sqrt(2 log((1 + T) e sqrt(pi T)) / T)``, always.

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
        fresh.alpha = fresh.level = _check_start(alpha)
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


CONTROLLERS: Registry[Controller] = Registry("control", {"aci": ACI(), "betting": Betting()})


def resolve_control(control: Any) -> Controller:
    """Return a controller for its name, or the controller itself.

    Examples
    --------
    >>> resolve_control("betting").level
    0.1
    """
    return CONTROLLERS.resolve(control, needs="update")
