"""Rows of tables that the bits of numbers ask for."""

import numba
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conformix.kernels.host.tables import AT_ONCE, reader


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("shift", [0, 5, 44])
def test_entries_are_those_of_the_rows_that_bits_say(width: int, shift: int) -> None:
    rng = np.random.default_rng(width)
    table = rng.normal(size=(16, width))
    read = reader(table, shift)

    @numba.njit
    def fill(numbers: np.ndarray, room: np.ndarray) -> None:
        for at in range(0, numbers.size, AT_ONCE):
            read(numbers, at, room)

    bits = rng.integers(-(2**63), 2**63 - 1, size=40)
    room = np.full((width + 1, 40), np.nan)
    fill(bits.view(np.float64), room)
    assert_array_equal(room[:width], table[(bits >> shift) & 15].T)
    assert np.isnan(room[width]).all()
