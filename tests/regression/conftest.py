"""By which kernels tests compute."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformix.kernels import twins


@pytest.fixture
def by(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what computes with NumPy for even numbers, with compiled kernels for odd ones."""

    def choose(number: int) -> None:
        monkeypatch.setattr(twins, "_spent", dict.fromkeys(twins.FAMILIES, 0))
        monkeypatch.setattr(twins, "PATIENCE", -1 if number % 2 else 2**62)

    return choose


@pytest.fixture(params=(0, 1), ids=("plain", "host"))
def room(request: pytest.FixtureRequest, by: Callable[[int], None]) -> None:
    """Compute everything with NumPy, then everything with compiled kernels."""
    by(request.param)
