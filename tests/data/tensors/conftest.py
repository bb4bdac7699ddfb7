"""Where tensors are: on the host, on the host as if it were a device, and on a CUDA device."""

from __future__ import annotations

import numpy as np
import pytest

import conformix as cx
from conformix.kernels import arrays

try:
    import torch
except ImportError:  # the tests themselves skip
    torch = None


def to_place(place: str):
    """Return a function that puts an array into a place, as a tensor."""

    def put(values):
        return torch.from_numpy(np.array(values)).to("cuda" if place == "cuda" else "cpu")

    return put


DEVICES = ["device path", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=["cpu", *DEVICES])
def put(request, monkeypatch):
    """Arrays to tensors. ``device path``: the code of CUDA tensors, run on tensors of the host."""
    return prepared(request.param, monkeypatch)


@pytest.fixture(params=DEVICES)
def on_device(request, monkeypatch):
    """As `put`, only where the code of CUDA tensors runs."""
    return prepared(request.param, monkeypatch)


def prepared(place: str, monkeypatch):
    if place == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    if place == "device path":
        monkeypatch.setattr(arrays, "COMPUTING_DEVICES", {"cuda", "cpu"})
    return to_place(place)


@pytest.fixture(scope="session")
def tied() -> tuple[np.ndarray, np.ndarray]:
    """Probabilities in eighths, so that scores tie in masses, and labels."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(8, [0.4, 0.25, 0.15, 0.1, 0.1], size=160)
    y = np.array([rng.choice(5, p=row / 8) for row in counts])
    return counts / 8, y


@pytest.fixture(scope="session")
def smooth() -> tuple[np.ndarray, np.ndarray]:
    """Logits without ties, and labels."""
    data = cx.datasets.load("cifar10")
    return data.outputs["vgg16"][:600].astype(np.float64), data.labels[:600]


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
