"""Most ranks are had from one product of floats; they are those of exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformix.conformal import CLEAR, FEW_ROWS, last_rank_out, simple_fraction


@given(
    n=st.integers(0, FEW_ROWS + 10),
    whole=st.floats(0, 1),
    off=st.sampled_from([0.0, CLEAR, -CLEAR, 2 * CLEAR, -2 * CLEAR, 1e-7, -1e-7, 0.5]),
)
def test_the_rank_is_the_floor_of_the_exact_product(n: int, whole: float, off: float) -> None:
    """Also where the product is next to a whole number, on either side."""
    alpha = (round(whole * (n + 1)) + off) / (n + 1)
    if 0 < alpha < 1:
        exact = simple_fraction(alpha)
        floor = (n + 1) * exact.numerator // exact.denominator
        assert last_rank_out(n, alpha) == floor == last_rank_out(n, np.float64(alpha))


@pytest.mark.parametrize(("n", "alpha", "out"), [(99, 0.1, 10), (9, 0.3, 3), (199, 0.29, 58)])
def test_products_that_are_whole_numbers_are_not_left_to_floats(n, alpha, out) -> None:
    assert last_rank_out(n, alpha) == out  # 200 * 0.29 is 57.99999999999999 in floats


def test_many_rows_are_not_left_to_floats() -> None:
    """A level next to a simple fraction is meant as that, and many rows make much of it."""
    below = 99_991
    alpha = 1 / below + 9e-13
    assert simple_fraction(alpha) == Fraction(1, below)
    for times in (600, 10_000):
        n = times * below - 4
        assert int((n + 1) * alpha) == times, "floats would do"
        assert last_rank_out(n, alpha) == times - 1
