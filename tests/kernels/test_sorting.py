"""The sort of a row that compiled loops call is NumPy's, or numba's where NumPy does not say."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conformix.kernels.host import sorting, upper

KIND = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p)
TYPES = [np.dtype(np.float32), np.dtype(np.float64)]


def sort_there(where: int, values: np.ndarray) -> np.ndarray:
    """Return what the function at an address makes of some numbers."""
    KIND(where)(values.ctypes.data, len(values), id(sorting.HOME))
    return values


@pytest.fixture(autouse=True)
def afresh():
    sorting.address.cache_clear()
    yield
    sorting.address.cache_clear()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 17, 256, 257, 3_000])
def test_numbers_of_both_types_rise(dtype, n: int) -> None:
    values = np.random.default_rng(n).normal(size=n).astype(dtype)
    values[: n // 3] = values[: n // 3].round(1)
    for where in (sorting.address(dtype), sorting._own(dtype).address):
        assert_array_equal(sort_there(where, values.copy()), np.sort(values))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_this_numpy_says_where_its_sort_is(dtype) -> None:
    assert sorting.address(dtype) == sorting.of_numpy(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_what_is_no_number_comes_last_as_in_numpy(dtype) -> None:
    values = np.array([1.0, np.nan, -np.inf, 0.5, np.inf, np.nan, -2.0] * 80, dtype=dtype)
    assert_array_equal(sort_there(sorting.address(dtype), values.copy()), np.sort(values))


@pytest.mark.parametrize("release", ["3.0.0", "0.9"])
def test_other_releases_are_not_asked(monkeypatch, release: str) -> None:
    monkeypatch.setattr(np, "__version__", release)
    assert sorting.of_numpy(TYPES[1]) is None
    assert sorting.address(TYPES[1]) == sorting._own(TYPES[1]).address


def test_nor_are_other_interpreters(monkeypatch) -> None:
    monkeypatch.setattr(sorting.sys.implementation, "name", "other")
    assert sorting.of_numpy(TYPES[1]) is None


def test_an_address_whose_function_does_not_sort_is_not_used(monkeypatch) -> None:
    idle = KIND(lambda *_: 0)
    where = ctypes.cast(idle, ctypes.c_void_p).value
    monkeypatch.setattr(sorting, "of_numpy", lambda dtype: where)
    assert sorting.address(TYPES[1]) == sorting._own(TYPES[1]).address


@pytest.mark.parametrize("slowly", [True, False], ids=["packs slowly", "packs quickly"])
def test_long_rows_are_sorted_by_digits_where_numbers_are_packed_slowly(
    monkeypatch, slowly
) -> None:
    monkeypatch.setattr(upper, "BY_DIGITS", slowly)
    short = sorting.SHORT_RUN
    for dtype in TYPES:
        for logits in (True, False):
            assert upper.sorting(dtype, logits, short).digits == 0
            wide = slowly and dtype == np.float64
            # One digit more for numbers of both signs.
            assert upper.sorting(dtype, logits, short + 1).digits == (2 + logits if wide else 0)
