from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import conformix as cx

# Derandomised: the same cases on every machine and in every run, nothing kept between runs.
settings.register_profile(
    "conformix",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("conformix")


@pytest.fixture(scope="session")
def cifar10() -> tuple[np.ndarray, np.ndarray]:
    """Logits of the bundled VGG-16 on the CIFAR-10 test set, and the labels."""
    data = cx.datasets.load("cifar10")
    return data.outputs["vgg16"], data.labels


@pytest.fixture(scope="session")
def cifar100() -> tuple[np.ndarray, np.ndarray]:
    """Logits of the bundled WideResNet on the CIFAR-100 test set, and the labels."""
    data = cx.datasets.load("cifar100")
    return data.outputs["wideresnet_16_4"], data.labels
