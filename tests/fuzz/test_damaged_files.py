"""Damaged files are read or refused in one sentence; `make assurance WHAT=fuzz` looks for more.

What the fuzzer once broke lies in ``regressions``, one file each, named after the target.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from importlib.util import find_spec
from pathlib import Path

import pytest

from fuzz.mutate import damaged
from fuzz.targets import MEMORY, TARGETS

# Of archives that the test writes itself.
pytestmark = pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*"))
NEEDS = {"parquet": "pyarrow", "pt": "torch"}


def usable(name: str) -> None:
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        pytest.skip(f"{name} files need {NEEDS[name]}, absent here")


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_are_fine(name: str, tmp_path: Path) -> None:
    usable(name)
    target = TARGETS[name]
    said = [target.judge(seed, tmp_path) for seed in target.seeds()]
    assert any(sentence is None for sentence in said)


def refused_share(name: str, count: int, folder: Path) -> float:
    """Damage so many files; anything but a good answer or a good refusal raises."""
    usable(name)
    target, rng, refused = TARGETS[name], random.Random(0), 0
    seeds = target.seeds()
    for _ in range(count):
        refused += target.judge(damaged(rng.choice(seeds), rng), folder) is not None
    return refused / count


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_read_or_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    # A parquet file takes a process.
    assert refused_share(name, 6 if name == "parquet" else 80, tmp_path) > 0.1


@pytest.mark.long(short="test_damaged_files_are_read_or_refused_in_one_sentence")
@pytest.mark.parametrize("name", TARGETS)
def test_many_damaged_files_are_read_or_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    assert refused_share(name, 120 if name == "parquet" else 1200, tmp_path) > 0.1


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.name)
def test_what_once_broke_is_refused_within_bounds(path: Path, tmp_path: Path) -> None:
    name = path.name.partition("-")[0]
    usable(name)
    content, begun = path.read_bytes(), time.perf_counter()
    TARGETS[name].judge(content, tmp_path)  # whatever loads late loads now
    tracemalloc.start()
    try:
        TARGETS[name].judge(content, tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MEMORY
    assert time.perf_counter() - begun < 20
