"""The sort by integers orders rows as ``argsort`` does, whatever the numbers."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from conformix.kernels import twins
from conformix.kernels.twins import WORTHWHILE, compile_for
from conformix.scores import ranked
from conformix.scores.ranked import Ranked, rising_order


def check(values: np.ndarray) -> None:
    compile_for(WORTHWHILE)
    for numbers in (2**20, 0):  # by the compiled loops, however few there are, and by NumPy
        with mock.patch.object(ranked, "loops", lambda name, _, n=numbers: twins.loops(name, n)):
            order, ties = rising_order(values)
        every = np.tile(np.arange(values.shape[1]), (len(order), 1))
        assert_array_equal(np.sort(order, axis=1), every)
        rising = np.sort(values, axis=1)
        assert_array_equal(np.take_along_axis(values, order, axis=1), rising)
        # A row may be said to have equal numbers that has none, never the other way round.
        assert ties[(rising[:, 1:] == rising[:, :-1]).any(axis=1)].all()


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=70))
def test_any_numbers_rise(row: list[float]) -> None:
    check(np.array([row]))
    check(np.array([row, row[::-1]]))


@pytest.mark.parametrize("n_classes", [1, 2, 3, 10, 64, 65, 1000, 5000])
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_long_rows_with_ties_and_signs_rise(n_classes: int, scale: float) -> None:
    rng = np.random.default_rng(n_classes)
    values = rng.normal(size=(7, n_classes))
    values[1] = values[1].round(1)
    values[2] = 0.25
    values[3] = np.where(rng.random(n_classes) < 0.5, 0.0, -0.0)
    check(values * scale)


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_that_differ_in_their_last_bits_rise(sign: int) -> None:
    """They share the bits that are left beside the place in the row, and are sorted again."""
    rng = np.random.default_rng(0)
    last_bits = np.array([rng.permutation(300) for _ in range(5)])
    close = (np.float64(0.7).view(np.int64) + last_bits).view(np.float64)
    check(sign * close)
    check(np.concatenate([sign * close, rng.random((5, 300))]))


def test_zeros_of_both_signs_beside_other_numbers_rise() -> None:
    rng = np.random.default_rng(3)
    for low in (0.0, -1.0):
        values = rng.uniform(low, 1, (50, 40))
        values[:, 0], values[:, 7] = 0.0, -0.0
        check(values)
        check(values[:, ::-1].copy())


def test_values_are_left_alone() -> None:
    values = np.random.default_rng(1).normal(size=(4, 9))
    before = values.copy()
    values.flags.writeable = False
    rising_order(values)
    assert_array_equal(values, before)


@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.parametrize("n_classes", [1, 3, 40, 300])
def test_ranks_are_counts_compiled_and_not(
    n_classes: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    values = rng.dirichlet(np.ones(n_classes), 1100 // n_classes + 4)
    values[1:3] = values[1:3].round(2)
    values[3] = 1 / n_classes
    if kind == "logits":
        values = 40 * values  # some probabilities are equal where their logits are not
    values.flags.writeable = False
    compile_for(WORTHWHILE)
    compiled = Ranked(values, kind)
    below = (compiled.probs[:, None, :] < compiled.probs[:, :, None]).sum(axis=2)
    above = (compiled.probs[:, None, :] > compiled.probs[:, :, None]).sum(axis=2)
    found = [(compiled.below, compiled.rank, compiled.log_ranks)]
    monkeypatch.setattr("conformix.scores.ranked.loops", lambda name, numbers: None)
    plain = Ranked(values, kind)
    found.append((plain.below, plain.rank, plain.log_ranks))
    for counted, rank, log_ranks in found:
        assert_array_equal(counted, below)
        assert_array_equal(rank, above + 1)
        assert_array_equal(log_ranks, plain.log(above + 1.0))


@pytest.mark.parametrize("temperature", [1.0, 0.01, 3.0])
@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.parametrize("n_classes", [1, 3, 40, 300])
def test_masses_are_sums_from_the_smallest_up_compiled_and_not(
    n_classes: int, kind: str, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of tempered rows, too, whose ties are those of the rows: not those of what underflows."""
    rng = np.random.default_rng(2)
    values = rng.dirichlet(np.ones(n_classes), 1100 // n_classes + 4)
    values[1:3] = values[1:3].round(2)
    values[3] = 1 / n_classes
    values[0] = np.nextafter(0.9 / n_classes, np.arange(n_classes) % 2)  # alike when tempered
    values = values if kind == "probs" else 40 * values
    values.flags.writeable = False
    compile_for(WORTHWHILE)
    untempered = Ranked(values, kind)
    compiled = untempered.at(temperature)
    found = compiled.mass_up_to
    for i, (own, ties) in enumerate(zip(compiled.probs, untempered.probs, strict=True)):
        order = np.argsort(values[i], kind="stable")
        sums = np.cumsum(own[order])
        up_to = np.searchsorted(ties[order], ties, side="right")
        assert_array_equal(found[i], sums[up_to - 1])
    twice = compiled.at(2.0).mass_up_to
    monkeypatch.setattr("conformix.scores.ranked.loops", lambda name, numbers: None)
    again = Ranked(values, kind).at(temperature)
    assert_array_equal(again.mass_up_to, found)
    assert_array_equal(again.at(2.0).mass_up_to, twice)


def test_logits_that_differ_have_one_rank_where_their_probabilities_tie() -> None:
    compile_for(WORTHWHILE)
    logits = np.array([[0.0, -800.0, -900.0, -1.0], [0.0, -2.0, -3.0, -1.0]])
    for numbers in (2**20, 0):
        with mock.patch.object(ranked, "loops", lambda name, _, n=numbers: twins.loops(name, n)):
            rows = Ranked(logits, "logits")
            assert_array_equal(rows.rank, [[1, 3, 3, 2], [1, 3, 4, 2]])
            assert_array_equal(rows.below, [[3, 0, 0, 2], [3, 1, 0, 2]])
