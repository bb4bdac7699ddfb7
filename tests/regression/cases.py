"""V-shaped scores with many ties, flat sides and coinciding knots."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from conformix.regression.planes import Planes


def tied(rng: np.random.Generator, n: int, d: int, denominator: float = 4.0) -> Planes:
    """Return planes of few different numbers: multiples of a fraction, with zero slopes."""
    centre = rng.integers(-6, 7, (n, d)) / denominator
    offset = rng.integers(-3, 4, (n, d)) / denominator
    below, above = rng.integers(0, 4, (2, n, d)) / denominator
    return Planes(centre, offset, below, above)


def smooth(rng: np.random.Generator, n: int, d: int) -> tuple[Planes, np.ndarray]:
    """Return planes of plausible models, and responses: residuals, normalised ones, quantiles."""
    y = rng.standard_normal(n)
    centre = y[:, None] + rng.standard_normal((n, d)) * np.linspace(0.5, 1.5, d)
    sigma = np.exp(0.4 * rng.standard_normal((2, n, d)))
    offset = np.where(np.arange(d) % 3 == 2, -sigma[0], 0.0)
    return Planes(centre, offset, 1 / sigma[0], 1 / sigma[1]), y


def simple_weights(rng: np.random.Generator, d: int, steps: int = 8) -> np.ndarray:
    """Return weights that are eighths, some of them zero."""
    return rng.multinomial(steps, rng.dirichlet(np.full(d, 0.7))) / steps


def in_fractions(planes: Planes) -> list[list[Any]]:
    """Return the rows as the oracle reads them."""
    parts = [part.tolist() for part in planes.parts]
    return [
        [tuple(Fraction(part[i][j]) for part in parts) for j in range(planes.d)]
        for i in range(len(planes))
    ]


def fractions(values: Any) -> list[Fraction]:
    """Return floats as the fractions that they are."""
    return [Fraction(float(value)) for value in values]
