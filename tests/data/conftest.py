"""Tests with processes that die must end, whatever those leave behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

SECONDS = 240


@pytest.fixture(autouse=True)
def _patience() -> Iterator[None]:
    """Fail a test that waits for ever, instead of waiting with it."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def enough(*_: Any) -> None:
        raise TimeoutError(f"not done after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, enough)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
