from __future__ import annotations

import pytest

from conformix.kernels.host.engine import argmin, landscape, walk


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, leaves and samples, so that small problems take every path."""
    monkeypatch.setattr(walk, "BLOCK_PAIRS", 64)
    monkeypatch.setattr(walk, "SMALL_BLOCK_PAIRS", 16)
    monkeypatch.setattr(landscape, "LEAF_SIZE", 2)
    monkeypatch.setattr(argmin, "FEW_COMPARISONS", 0)
    monkeypatch.setattr(argmin, "SAMPLE_ROWS", 8)


@pytest.fixture(params=["usual", "small"])
def sizes(request: pytest.FixtureRequest) -> None:
    """As it is, and in small pieces."""
    if request.param == "small":
        request.getfixturevalue("small")


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the argmin bound cells by a sample, however small the problem."""
    monkeypatch.setattr(argmin, "FEW_COMPARISONS", 0)
