"""Tables of buckets give the line that bisection among all knots gives, to the last bit."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from conformix.kernels.host.lookup import lookup
from conformix.scores import scale
from conformix.scores.scale import Interpolated, rising_line

RNG = np.random.default_rng(7)
DRAWN = {
    "even": RNG.random(20_000),
    "crowded at zero": RNG.random(20_000) ** 40,
    "on both sides of zero": np.sinh(RNG.normal(size=20_000) * 40),
    "ranks with a fraction": RNG.random(20_000) - RNG.integers(0, 90, 20_000),
    "from the smallest to the largest": np.exp(RNG.normal(size=20_000) * 150),
    "far from zero": 1e9 + RNG.random(20_000),
    "two clouds": np.concatenate([RNG.random(10_000) * 1e-300, 1 + RNG.random(10_000)]),
}  # fmt: skip


def curve(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    knots = np.unique(np.sort(values)[:: max(1, len(values) // 4000)])
    return knots, np.sort(RNG.random(len(knots)))


def around(knots: np.ndarray) -> np.ndarray:
    steps = [np.nextafter(knots, np.inf), np.nextafter(knots, -np.inf)]
    return np.concatenate([knots, *steps, [np.inf, -np.inf, 0.0, -0.0]])


@pytest.mark.parametrize("values", DRAWN.values(), ids=DRAWN)
def test_every_number_and_the_neighbours_of_every_knot_get_the_same_bits(values) -> None:
    knots, levels = curve(values)
    table, numbers = lookup(knots, levels), np.concatenate([values, around(knots)])
    assert table is not None
    assert table(numbers).tobytes() == rising_line(numbers, knots, levels).tobytes()


def test_what_is_no_number_stays_none_and_reads_no_other_memory() -> None:
    """In a process of its own, which such a read would end."""
    source = str(Path(scale.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", "from tests.scores.test_lookup import no_numbers; no_numbers()"],
        cwd=Path(__file__).parents[2], env=os.environ | {"PYTHONPATH": source},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def no_numbers() -> None:
    for values in DRAWN.values():
        knots, levels = curve(values)
        table = lookup(knots, levels)
        numbers = np.array([np.nan, knots[3], -np.nan])
        for some in (numbers, np.tile(numbers, 1000)):
            assert np.array_equal(table(some), rising_line(some, knots, levels), equal_nan=True)
            assert np.isnan(table(some)[0])


@given(arrays(float, st.integers(16, 60), elements=st.floats(-1e300, 1e300), unique=True))
def test_any_knots(knots) -> None:
    knots = np.unique(knots)
    levels = 0.3 ** np.arange(len(knots))[::-1]  # steps that round
    table, numbers = lookup(knots, levels), around(knots)
    if table is not None:
        assert table(numbers).tobytes() == rising_line(numbers, knots, levels).tobytes()


@pytest.mark.parametrize("n_knots", [2, 3, 5, 15])
@pytest.mark.parametrize("name", ["even", "both signs", "tiny"])
def test_few_knots_have_a_table_too(n_knots: int, name: str) -> None:
    rng = np.random.default_rng(n_knots)
    drawn = rng.random(n_knots) if name == "even" else np.sinh(30 * rng.normal(size=n_knots))
    knots = np.sort(drawn if name != "tiny" else np.abs(drawn) * 1e-300)
    levels = np.sort(rng.random(n_knots))
    between = rng.uniform(knots[0], knots[-1], 500)
    numbers = np.concatenate([knots, np.nextafter(knots, -np.inf), [0.0, -0.0, 1e9], between])
    table = lookup(knots, levels)
    assert table is not None
    assert table(numbers).tobytes() == rising_line(numbers, knots, levels).tobytes()


def test_one_knot_and_knots_without_end_have_no_table() -> None:
    assert lookup(np.ones(1), np.ones(1)) is None
    assert lookup(np.ones(3), np.arange(3.0)) is None
    assert lookup(np.append(np.arange(50.0), np.inf), np.arange(51.0)) is None
    assert lookup(np.arange(-20.0, 20.0) * 8.5e306, np.arange(40.0)) is None  # too wide


def test_many_scores_are_looked_up_in_tables_and_few_are_not(monkeypatch) -> None:
    """The same function either way; a small problem compiles nothing."""
    knots, levels = curve(DRAWN["even"])
    line = Interpolated((knots, knots), (levels, levels))
    scores = RNG.random((40, 30, 2))
    plain = line(scores)
    assert "_lookups" not in vars(line)
    monkeypatch.setattr(scale, "WORTHWHILE_THEN", scores.size)  # numba is loaded by these tests
    assert line(scores).tobytes() == plain.tobytes()
    assert "_lookups" in vars(line)
    again = pickle.loads(pickle.dumps(line))
    assert "_lookups" not in vars(again)  # workers are sent knots and levels alone
    assert again(scores).tobytes() == plain.tobytes()
