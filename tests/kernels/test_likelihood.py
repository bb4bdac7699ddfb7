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
def powers(z: np.ndarray, top: float, out: np.ndarray) -> None:
    _powers(z, top, out)


def test_its_exponential_is_right_to_some_units_in_the_last_place() -> None:
    away = np.concatenate([[0.0], np.geomspace(1e-12, 690, 20_001)])
    out = np.empty(len(away))
    powers(3.0 - away, 3.0, out)
    expected = np.exp((3.0 - away).astype(np.longdouble) - 3.0)
    assert np.abs(out / expected - 1).max() < 2.0**-50
    assert out[0] == 1.0


def test_its_exponential_of_numbers_far_below_is_next_to_nothing() -> None:
    out = np.empty(3)
    powers(np.array([0.0, -800.0, -1e300]), 0.0, out)
    assert out[0] == 1.0
    assert (out[1:] > 0).all()
    assert (out[1:] < 1e-300).all()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("p", [1, 3, 4, 6, 8])
def test_value_and_derivatives_are_those_of_numpy(p: int, threads: int, monkeypatch) -> None:
    """Of numbers of scores that are no multiples of four, with and without coefficients of zero."""
    compile_for(WORTHWHILE)
    rng, n, n_classes = np.random.default_rng(p), 300, 17
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
