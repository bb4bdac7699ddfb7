"""The loop of the likelihood: its exponential, its value and its derivatives, against NumPy's."""

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose

from conformix.kernels.host.likelihood import _powers
from conformix.kernels.twins import WORTHWHILE, compile_for
from conformix.scores import likelihood as module
from conformix.scores.likelihood import Likelihood


@numba.njit
def powers(z: np.ndarray, out: np.ndarray) -> None:
    _powers(z, out)


def test_its_exponential_is_right_to_some_units_in_the_last_place() -> None:
    away = np.concatenate([[0.0], np.geomspace(1e-12, 690, 20_001)])
    out = np.empty(len(away))
    powers(-away, out)
    expected = np.exp(-away.astype(np.longdouble))
    assert np.abs(out / expected - 1).max() < 2.0**-50
    assert out[0] == 1.0


def test_its_exponential_of_numbers_far_below_is_next_to_nothing() -> None:
    out = np.empty(3)
    powers(np.array([0.0, -800.0, -1e300]), out)
    assert out[0] == 1.0
    assert (out[1:] > 0).all()
    assert (out[1:] < 1e-300).all()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("p", [1, 3, 4, 6, 8, 9])
@pytest.mark.parametrize(("n", "n_classes"), [(300, 17), (70, 100), (30, 1100)])
def test_value_and_derivatives_are_those_of_numpy(
    n: int, n_classes: int, p: int, threads: int, monkeypatch
) -> None:
    """Of numbers of scores that are no multiples of four, with and without coefficients of zero.

    Of rows that are walked together, the last ones fewer than the others, and of long ones alone.
    """
    compile_for(WORTHWHILE)
    rng = np.random.default_rng(p)
    planes, y = rng.normal(size=(p, n, n_classes)), rng.integers(n_classes, size=n)
    c, ridge = rng.random(p) * (np.arange(p) != 1), np.eye(p)
    found = {}
    for name, fewest in (("loop", 0), ("NumPy", planes.size + 1)):
        monkeypatch.setattr(module, "COMPILED_NUMBERS", fewest)
        problem = Likelihood(np.moveaxis(planes, 0, -1), y, np.zeros(p), ridge, threads)
        assert problem.by_columns == (name == "loop")
        found[name] = problem(c), problem.of_every(8)(c)
    for loop, plain in zip(*found.values(), strict=True):
        for one, other in zip(loop, plain, strict=True):
            assert_allclose(one, other, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("columns", [[], [0], [1, 4], [0, 2, 3, 5, 6], [0, 1, 2, 3, 4, 5]])
def test_second_derivatives_of_some_scores_are_those_among_all(columns, monkeypatch) -> None:
    compile_for(WORTHWHILE)
    monkeypatch.setattr(module, "COMPILED_NUMBERS", 0)
    rng = np.random.default_rng(0)
    planes, y = rng.normal(size=(7, 90, 30)), rng.integers(30, size=90)
    problem = Likelihood(np.moveaxis(planes, 0, -1), y, np.zeros(7), np.eye(7), 2)
    c = rng.random(7)
    value, first, second = problem(c)
    some = problem(c, np.array(columns, dtype=np.intp))
    assert_allclose(some[0], value, rtol=1e-12)
    assert_allclose(some[1], first, rtol=1e-12, atol=1e-10)
    assert_allclose(some[2][np.ix_(columns, columns)], second[np.ix_(columns, columns)], rtol=1e-11)
