"""Rows that a fit has used, recognised when they come again.

A model remembers salted digests of a sample of its rows, eight bytes each: of all rows up to
`MOST`, else of every so many-th. Equal outputs have equal digests, whatever the precision they came
in; nobody gets a row back from its digest. Whoever has the model, and with it the salt, can ask
whether a row that they hold was used, and try out rows where there are few to try.

Different rows may have equal outputs, those of trees and neighbours often do. A fresh row repeats
one of the fit about as often as a row of the fit repeats another one, so only more than that, by
`FAR` deviations, is a sign; nor is anything claimed of a few rows: fewer than `FEW` that are not
all, or fewer than `SUSPICIOUS` of what would be found were all of them used.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from conformix.data.outputs import Outputs
from conformix.kernels.arrays import IntArray, is_tensor, to_device, to_host, torch_module
from conformix.kernels.blocks import (
    DEVICE_ENTRIES,
    parts_of_rows,
    rooms,
    row_blocks,
    run_blocks,
    run_parts,
    threads_for,
)
from conformix.kernels.twins import loops
from conformix.scores.uniforms import label_seeds

# Rows of a fit that are remembered, and rows that are looked up.
MOST, MOST_ASKED = 1000, 20_000
# Outputs that are added up in the time in which one is sorted.
SUMMED = 4
# Outputs that a thread holds at once while rows are digested.
ENTRIES = 2**18
# The share of rows, and their number, from which on they are no chance repetitions.
SUSPICIOUS, FEW = 0.05, 10
# How many standard deviations beyond the repetitions within the fit are none by chance.
FAR = 4.0


class Found(NamedTuple):
    """How many of some rows are among those that a model remembers."""

    rows: int
    asked: int
    remembered: int
    used: int

    def __str__(self) -> str:
        return (
            f"these rows were used in the fit ({self.rows:,} of {self.asked:,} looked up are among "
            f"the {self.remembered:,} of its {self.used:,} rows that the model remembers)"
        )


class SeenRows:
    """What a model remembers of the rows of its fit.

    Parameters
    ----------
    digests : int64 array of shape (m,), or a function that returns it
        They rise. A function is called when somebody asks, and before the model goes anywhere: into
        a file, or to another process.
    n : int
        Rows that were used.
    """

    def __init__(self, digests: IntArray | Callable[[], IntArray], n: int) -> None:
        self._digests = digests
        self.n = n

    @property
    def digests(self) -> IntArray:
        """The digests of the rows that are remembered, rising, (m,)."""
        if callable(self._digests):
            self._digests = self._digests()
        return self._digests

    def __getstate__(self) -> dict[str, Any]:
        return {"_digests": self.digests, "n": self.n}

    def among(self, outputs: Outputs, key: int) -> Found | None:
        """Return how many of these rows were used; None where chance can have repeated them."""
        asked = digests_of(outputs, spread(outputs.n, MOST_ASKED), key)
        rows = int(np.isin(asked, self.digests).sum())
        expected = len(asked) * min(1.0, len(self.digests) / self.n)  # were all of them used
        suspicious = rows >= max(min(FEW, len(asked)), SUSPICIOUS * expected)
        suspicious &= rows > self.by_chance(len(asked))
        return Found(rows, len(asked), len(self.digests), self.n) if suspicious else None

    def by_chance(self, asked: int) -> float:
        """Return how many of some fresh rows repeat one of the fit at most, but for rare draws.

        As many as rows of the fit repeat another one; both shares are counts of draws.
        """
        _, counts = np.unique(self.digests, return_counts=True)
        expected = asked * counts[counts > 1].sum() / len(self.digests)
        return float(expected + FAR * np.sqrt(expected * (1 + asked / len(self.digests))))

    def plus(self, other: SeenRows) -> SeenRows:
        """Return what is remembered of the rows of two fits."""
        both = np.sort(np.concatenate([self.digests, other.digests]))
        return SeenRows(both[spread(len(both), MOST)], self.n + other.n)


def remembered(outputs: Any, key: int, threads: int | None = 1) -> SeenRows | None:
    """Return what to remember of rows in memory; None of batches and chunks, which come once."""
    return rows_of_fit(outputs, key, threads) if isinstance(outputs, Outputs) else None


def rows_of_fit(outputs: Any, key: int, threads: int | None = 1) -> SeenRows:
    """Return what to remember of the rows of a fit.

    Their numbers are added up now, and hashed when somebody asks: that takes longer than a fit of
    one score.
    """
    sums = sums_of(outputs, spread(outputs.n, MOST), threads)
    return SeenRows(lambda: np.sort(hashed(sums, key)), outputs.n)


def spread(n: int, most: int) -> IntArray:
    """Return the numbers of `most` rows of n, evenly spread; of all rows where they are fewer."""
    return np.arange(n) if n <= most else np.arange(most) * n // most


def digests_of(outputs: Any, rows: IntArray, key: int) -> IntArray:
    """Return one int64 per row: a digest of its outputs in the order of models and classes."""
    return hashed(sums_of(outputs, rows), key)


def hashed(sums: IntArray, key: int) -> IntArray:
    """Return the salted hashes (m,) of the sums of rows, int64."""
    salt = key.to_bytes(16, "little")
    found = b"".join(blake2b(one, digest_size=8, salt=salt).digest() for one in sums)
    return np.frombuffer(found, dtype="<i8").astype(np.int64)


def sums_of(outputs: Any, rows: IntArray, threads: int | None = 1) -> IntArray:
    """Return one int64 per row, made of the bits of its outputs, block by block."""
    row = list(outputs.rows(slice(0, 1)).models.values())
    width, on_device = sum(values.shape[1] for values in row), any(map(is_tensor, row))
    kernel = None if on_device else loops("digests", len(rows) * width)
    if kernel is not None and all(map(_is_usual, outputs.models.values())):
        return _added_up(kernel, outputs, rows, threads)

    def of_block(block: slice) -> IntArray:
        part = outputs.rows(rows[block])
        sums = sum(
            _summed(values[:], label_seeds(values.shape[1], place))
            for place, values in enumerate(part.models.values())
        )
        if isinstance(outputs, Outputs):  # pages of a file count as memory of this process
            outputs.release_pages()
        return to_host(sums)  # type: ignore[no-any-return]

    entries = DEVICE_ENTRIES if on_device else ENTRIES
    several = 1 if on_device else threads_for(len(rows) * width, threads)
    found = run_blocks(of_block, row_blocks(len(rows), width, entries), several)
    return np.concatenate([np.empty(0, dtype=np.int64), *found])


def _is_usual(values: Any) -> bool:
    """Whether outputs are an array for which the loop is compiled anyway."""
    usual = isinstance(values, np.ndarray) and values.dtype == np.float64
    return bool(usual and values.flags.c_contiguous and values.flags.writeable)


def _added_up(kernel: Any, outputs: Any, rows: IntArray, threads: int | None) -> IntArray:
    """Return the same of rows where they are, in one pass that threads share."""
    sums = np.zeros(len(rows), dtype=np.int64)
    for place, values in enumerate(outputs.models.values()):
        odd = label_seeds(values.shape[1], place).view(np.int64) | 1
        parts = parts_of_rows(len(rows), values.shape[1] / SUMMED, threads)
        room = rooms(parts.threads, values.shape[1])
        bits = kernel.Bits(values, rows, odd, sums, room, room.view(np.int64), parts.step)
        run_parts(kernel.add_bits, parts, bits)
    if isinstance(outputs, Outputs):
        outputs.release_pages()
    return sums


def _summed(values: Any, seeds: Any) -> Any:
    """Return an int64 per row, on the device of the rows: the bits of all outputs, weighed.

    As float64 with one zero, equal numbers have equal bits. Numbers that came in less precision
    have zeros for their last bits, which no product would mix: the first ones are put there.
    """
    odd = seeds.view(np.int64) | 1
    if is_tensor(values):
        bits = (values.double() + 0.0).view(torch_module().int64)
        return ((bits ^ (bits >> 32)) * to_device(odd, bits)).sum(dim=1)
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.int64)
    mixed = bits >> 32
    mixed ^= bits
    return np.einsum("ij,j->i", mixed, odd)  # sooner than a sum of products
