from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
from collections.abc import Generator
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import conformix as cx
from conformix.data import bundled
from conformix.kernels import twins

# Small problems of these tests stand for large ones: compiled kernels compute them, in whatever
# order tests run. `kernels/test_twins.py` shows that NumPy computes the same.
twins.PATIENCE = -1
# Where kernels are compiled for the first time, the line about it is in nobody's standard error.
logging.getLogger("conformix").addHandler(logging.NullHandler())

unpacked = cache(bundled._read)


@wraps(bundled._read)
def copied(path: Path) -> dict[str, np.ndarray]:
    return {name: array.copy("K") for name, array in unpacked(path).items()}


# Bundled data are unpacked once in a process; whoever loads them has a copy of their own.
# `data/test_bundled.py` reads them as everybody does.
bundled._read = copied

# Derandomised: the same cases on every machine and in every run, nothing kept between runs.
settings.register_profile(
    "conformix",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# `make assurance WHAT=fuzz` runs the same properties on fresh cases, and more of them.
settings.register_profile(
    "fuzz", parent=settings.get_profile("conformix"), derandomize=False, max_examples=1000
)
settings.load_profile(os.environ.get("CONFORMIX_HYPOTHESIS", "conformix"))


@pytest.fixture(autouse=True)
def loops_are_loaded_by_none_before(monkeypatch) -> None:
    """Whoever wants compiled loops has many outputs, or asks, whatever test ran before."""
    monkeypatch.setattr(twins, "_loaded", {})
    monkeypatch.setattr(twins, "_compiled", set())


class CompiledOnce:
    """Kernels are compiled in one process while workers collect, and kept for all of them."""

    def __init__(self) -> None:
        code = "from conformix.estimators.warmup import warm_up; warm_up()"
        self.compiler = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """Wait: no test is sent to a worker before; what failed to compile fails in its test."""
        self.compiler.wait()

    def pytest_unconfigure(self) -> None:
        """Leave nothing behind where tests were never sent."""
        self.compiler.terminate()
        self.compiler.wait()


# Most of what collecting imports. Bytecode of a fresh environment is written by whoever imports a
# module first, so every worker begins with another library and finds the others' written.
LIBRARIES = (("torch",), ("sklearn.linear_model", "pandas"), ("distributed", "matplotlib.pyplot"))


def pytest_configure(config: pytest.Config) -> None:
    """Let the workers of a whole run share what only the first run in a fresh clone compiles."""
    if sorted(config.args) != sorted(config.getini("testpaths")):
        return
    if getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(CompiledOnce())
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        first = int(worker.removeprefix("gw")) % len(LIBRARIES)
        for names in LIBRARIES[first:] + LIBRARIES[:first]:
            for name in names:
                if find_spec(name.partition(".")[0]) is not None:
                    import_module(name)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Pass over helpers and the entries of long suites: nothing in them is a doctest."""
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if helper else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Keep what is collected, which stays to the end, out of every later search for garbage."""
    gc.disable()
    done = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return done


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
