"""Tensors on a device give the intervals, widths and weights of the host, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conformix.conformal import conformal_rank
from conformix.kernels import arrays
from conformix.kernels.arrays import to_host
from conformix.kernels.simplex import simplex_grid
from conformix.regression.bands import bands, lowest
from conformix.regression.hull import Hull
from conformix.regression.planes import Planes
from conformix.regression.search import exact_grid, row_widths, search_widths, total_widths
from regression.cases import smooth, tied

torch = pytest.importorskip("torch")


@pytest.fixture(params=["device path", pytest.param("cuda", marks=pytest.mark.gpu)])
def put(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Planes], Planes]:
    """Return what moves planes to a device; ``device path`` runs its code on the host."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    if request.param == "device path":
        monkeypatch.setattr(arrays, "COMPUTING_DEVICES", {"cuda", "cpu"})
    place = "cuda" if request.param == "cuda" else "cpu"

    def moved(planes: Planes) -> Planes:
        return Planes(*(torch.from_numpy(part.copy()).to(place) for part in planes.parts))

    return moved


def case(seed: int) -> tuple[Planes, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    d = 1 + seed % 4
    planes, y = smooth(rng, 50, d)
    if seed % 2:
        planes = tied(rng, 50, d, 7.0)
    return planes, y, rng.dirichlet(np.ones(d), 40)


def same(mine: Any, theirs: Any) -> None:
    assert_array_equal(to_host(mine), theirs)


@pytest.mark.parametrize("seed", range(8))
def test_tensors_give_the_bits_of_arrays(seed: int, put: Callable[[Planes], Planes]) -> None:
    planes, y, weights = case(seed)
    there = put(planes)
    same(there.scores(y), planes.scores(y))
    same(there.combined(weights[0], y), planes.combined(weights[0], y))
    cuts = np.vstack([planes.combined(weights[0], y), np.full(50, 0.4), np.full(50, np.inf)])
    for mine, theirs in zip(
        bands(there, weights[0], cuts), bands(planes, weights[0], cuts), strict=True
    ):
        same(mine, theirs)
    for mine, theirs in zip(lowest(there, weights[0]), lowest(planes, weights[0]), strict=True):
        same(mine, theirs)
    cuts = np.sort(np.random.default_rng(seed).normal(size=(3, 40)), axis=0)
    same(total_widths(there, weights, cuts), total_widths(planes, weights, cuts))
    same(row_widths(there, weights, cuts, (-1, 1)), row_widths(planes, weights, cuts, (-1.0, 1.0)))


def test_searches_and_hulls_find_on_a_device_what_they_find_on_the_host(
    put: Callable[[Planes], Planes],
) -> None:
    planes, y = smooth(np.random.default_rng(1), 60, 6)
    there = put(planes)
    same(
        search_widths(there, y, (0.1, 0.2), random_state=0).weights,
        search_widths(planes, y, (0.1, 0.2), random_state=0).weights,
    )
    three = planes.columns(slice(3))
    assert exact_grid(put(three), y, [0.1], 10).width == exact_grid(three, y, [0.1], 10).width
    weights, k = simplex_grid(3, 4) / 4, conformal_rank(40, 0.1)
    mine = Hull.of(weights, put(three.rows(slice(40))), y[:40], k)(put(three.rows(slice(40, 60))))
    theirs = Hull.of(weights, three.rows(slice(40)), y[:40], k)(three.rows(slice(40, 60)))
    same(mine, theirs)
    assert isinstance(bands(there, np.full(6, 1 / 6), 1.0)[0], torch.Tensor)


def test_tensors_of_the_host_become_arrays() -> None:
    planes = smooth(np.random.default_rng(2), 5, 2)[0]
    there = Planes(*(torch.from_numpy(part) for part in planes.parts))
    assert isinstance(there.centre, np.ndarray)
