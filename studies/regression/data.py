"""Real responses: which rows train, which are labelled, which test."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conformix.data.bundled import REPOSITORY
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray

ALPHAS = (0.05, 0.1)
SIZES = (300, 1000, 2500)
"""Labelled rows."""
LEAST_TEST, MOST_TEST = 300, 3000
DRAWS = 5
"""Random draws of labelled and test rows for every training."""
MADE = "made"
FOLDER = "regression"


class Rows(NamedTuple):
    """Features (n, p) and responses (n,)."""

    X: FloatArray
    y: FloatArray


@dataclass(frozen=True)
class Setting:
    """One data set.

    Parameters
    ----------
    data : str
        Its name, and that of its file.
    n_train : int
        Rows that train the models.
    chooses : bool
        Whether the constants of the library were chosen on it, or confirmed.

    Examples
    --------
    >>> Setting("made", 60).sizes(700)
    [300]
    """

    data: str
    n_train: int
    chooses: bool = False

    def load(self) -> Rows:
        """Return all rows; those of ``made`` are drawn, for trying things out."""
        if self.data == MADE:
            return made()
        path = _found(self.data)
        with np.load(path, allow_pickle=False) as file:
            return Rows(np.asarray(file["X"], dtype=np.float64), np.asarray(file["y"], np.float64))

    def training(self, n: int, seed: int) -> tuple[IntArray, IntArray]:
        """Return the rows that train the models of a seed, and all others."""
        order = _random("training", self.data, seed).permutation(n)
        return order[: self.n_train], order[self.n_train :]

    def draw(self, others: IntArray, run: int) -> tuple[IntArray, IntArray]:
        """Return places among the others: the largest number of labelled rows, and test rows.

        The first m of the former are m labelled rows.
        """
        order = _random("draw", self.data, run).permutation(len(others))
        most = max(self.sizes(self.n_train + len(others)))
        return order[:most], order[most : most + MOST_TEST]

    def sizes(self, n: int) -> list[int]:
        """Return the numbers of labelled rows that n rows allow."""
        return [size for size in SIZES if n - self.n_train - size >= LEAST_TEST]


def _random(*key: Any) -> np.random.Generator:
    text = json.dumps(["regression", *key])
    digest = hashlib.sha256(text.encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def _found(name: str) -> Path:
    """Return the file of a data set: below ``CONFORMIX_DATA``, or in a checkout's data folder."""
    named = os.environ.get("CONFORMIX_DATA")
    for folder in ([Path(named)] if named else []) + [REPOSITORY]:
        path = folder / FOLDER / f"{name}.npz"
        if path.exists():
            return path
    raise InvalidInput(
        f"data set {name!r} must lie in {FOLDER}/{name}.npz (X, y) below data/ of a checkout or "
        "below the folder that CONFORMIX_DATA names; found none."
    )


def made(n: int = 700) -> Rows:
    """Return rows whose responses are skewed and of uneven spread."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    spread = np.exp(0.6 * X[:, 2])
    y = X[:, 0] + np.sin(2 * X[:, 1]) + spread * (rng.gamma(2.0, size=n) - 2.0)
    return Rows(X, y)


SETTINGS = (
    Setting("concrete", 400, chooses=True),
    Setting("community", 600),
    Setting("star", 700),
    Setting("bike", 2000, chooses=True),
    Setting("california", 2000, chooses=True),
    Setting("protein", 2000),
)
