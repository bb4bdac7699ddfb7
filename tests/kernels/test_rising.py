"""Numbers sorted by the digits of their bits rise as those of NumPy's sort do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from conformix.kernels.host import rising as module
from conformix.kernels.host.rising import DIGIT, DIGITS, by_digits, merged, rising

RNG = np.random.default_rng(3)
DRAWN = {
    "even": RNG.random(5_000),
    "both signs": np.sinh(RNG.normal(size=5_000) * 40),
    "ties": RNG.integers(-3, 4, 5_000) / 7,
    "masses": np.cumsum(np.sort(RNG.dirichlet(np.full(50, 0.1), 100), axis=1), axis=1).ravel(),
    "one number": np.full(5_000, 0.1),
    "infinite": np.concatenate([RNG.normal(size=50), [np.inf, -np.inf, 0.0, -0.0]]),
    "smallest and largest": np.exp(RNG.normal(size=5_000) * 150),
    "none": np.empty(0),
}


def sorted_by_digits(values: np.ndarray, digits: int = DIGITS, n_bits: int = DIGIT) -> bool:
    """Whether digits sort some values; then they must have sorted them."""
    room = np.zeros((2, len(values)), dtype=np.uint64)
    counts = np.full((digits, 1 << n_bits), -7)  # what others left there
    done = by_digits(values.view(np.int64), room[0], room[1], counts)
    if done:
        assert_array_equal(room[0].view(np.float64), np.sort(values))
    return done


@pytest.fixture(autouse=True)
def by_whom(monkeypatch) -> None:
    monkeypatch.setattr(module, "SORTS_WIDE", False)


@pytest.mark.parametrize("values", DRAWN.values(), ids=DRAWN)
def test_numbers_rise(values) -> None:
    before = values.copy()
    assert_array_equal(rising(values), np.sort(values))
    assert sorted_by_digits(values)
    assert values.tobytes() == before.tobytes()


@pytest.mark.parametrize("values", DRAWN.values(), ids=DRAWN)
@pytest.mark.parametrize(("digits", "n_bits"), [(1, 4), (2, 8), (3, 5), (4, 11)])
def test_digits_may_be_any(values, digits, n_bits) -> None:
    done = sorted_by_digits(values, digits, n_bits)
    assert done or digits * n_bits < 16


@pytest.mark.parametrize("values", DRAWN.values(), ids=DRAWN)
def test_where_numpy_is_faster_it_sorts(monkeypatch, values) -> None:
    monkeypatch.setattr(module, "SORTS_WIDE", True)
    monkeypatch.setattr(module, "by_digits", None)
    assert_array_equal(rising(values), np.sort(values))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrays(float, st.integers(0, 60), elements=st.floats(allow_nan=False)))
def test_any_numbers_rise(values) -> None:
    assert_array_equal(rising(values), np.sort(values))


def test_numbers_that_crowd_and_what_is_no_number_are_left_to_others() -> None:
    crowd = np.append(0.0, 1 + RNG.integers(0, 10**6, 5_000) * 2.0**-52)
    for values in (crowd, np.array([1.0, np.nan, 0.5]), np.array([1.0, -np.nan, 0.5])):
        assert not sorted_by_digits(values)
        assert_array_equal(rising(values), np.sort(values))


def test_insertion_puts_right_what_the_digits_leave() -> None:
    few = np.append(0.0, 1 + RNG.permutation(8) * 2.0**-52)  # alike in their first bits
    assert sorted_by_digits(few)
    assert_array_equal(rising(few), np.sort(few))


@pytest.mark.parametrize("wide", [False, True], ids=["digits", "NumPy"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n_edges", [0, 1, 4])
@pytest.mark.parametrize("name", ["even", "both signs", "ties", "masses", "one number"])
def test_rising_rows_are_put_together(monkeypatch, name, n_edges, threads, wide) -> None:
    monkeypatch.setattr(module, "SORTS_WIDE", wide)
    rows = np.sort(DRAWN[name].reshape(100, 50), axis=1)
    edges = np.sort(np.random.default_rng(n_edges).choice(DRAWN[name], n_edges))
    found = merged(rows, edges, threads)
    assert_array_equal(found.out, np.sort(rows, axis=None))
    values, counts = [], []
    for part, (begin, size, distinct) in enumerate(found.sizes.tolist()):
        own, starts = found.out[begin : begin + size], found.starts[begin + part :][: distinct + 1]
        assert part == 0 or (own >= edges[part - 1]).all()
        assert part == n_edges or (own < edges[part]).all()
        values.append(own[starts[:-1]])
        counts.append(np.diff(starts))
    expected = np.unique(rows, return_counts=True)
    assert_array_equal(np.concatenate(values), expected[0])
    assert_array_equal(np.concatenate(counts), expected[1])
