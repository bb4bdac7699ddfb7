"""Products in 16-bit numbers: those of whole-number arithmetic, and of any other machine."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import types

import conformix as cx
from conformix.kernels import patterns
from conformix.kernels.host import products
from conformix.kernels.twins import MANY, WORTHWHILE, compile_for

QUICK = pytest.mark.skipif(not products.are_quick(), reason="no quick step on this machine")


@pytest.fixture(autouse=True)
def compiled_loops() -> None:
    compile_for(WORTHWHILE)


def as_integers(values: Any, bits: int) -> Any:
    """Return multiples of 2^-bits as Python's whole numbers, which have no end."""
    scaled = np.asarray(values, dtype=np.float64) * 2.0**bits
    assert (scaled == np.round(scaled)).all()
    return scaled.astype(np.int64).astype(object)


def drawn(n: int, n_classes: int) -> np.ndarray:
    rng = np.random.default_rng(n * n_classes)
    return patterns.patterns(4 * rng.normal(size=(n, n_classes)) - 6)


@QUICK
@pytest.mark.parametrize(
    ("n", "n_classes", "n_rows"),
    [(1, 1100, 3), (2, 515, 515), (3, 400, 7), (70, 17, 17), (130, 16, 49), (97, 48, 50)],
)
def test_any_number_of_rows_and_labels_has_its_own_products(
    n: int, n_classes: int, n_rows: int
) -> None:
    f, rng = drawn(n, n_classes), np.random.default_rng(0)
    assert f.size >= MANY
    factors = patterns.unit_rows(rng.normal(size=(n_rows, n_classes)))[0]
    for one, bits in (
        (patterns.multiplier(factors, 8.0), 11),
        (patterns.fine_multiplier(factors), 26),
    ):
        out = np.full((n, n_rows), 0.5)
        one.add(f, out)
        matrix = as_integers(patterns.in_multiples(factors, bits), bits)
        exact = (as_integers(f, 12) @ matrix.T).astype(np.float64) * 2.0 ** -(12 + bits)
        assert np.array_equal(out, 0.5 + (8.0 if bits == 11 else 1.0) * exact)
        assert np.array_equal(one(f), (8.0 if bits == 11 else 1.0) * exact)


@QUICK
def test_the_compiler_finds_the_step() -> None:
    """Without it the same loop takes three times as long as float32."""
    whole, numbers = types.Array(types.int16, 2, "C"), types.Array(types.float64, 2, "C")
    afresh = numba.njit(products.add_products.py_func)  # what was kept on disk cannot be looked at
    afresh.compile((whole, whole, types.float64, types.boolean, numbers))
    (code,) = afresh.inspect_asm().values()
    assert "pmaddwd" in code or "pdpwssd" in code
    assert "pmulld" not in code


@QUICK
@pytest.mark.parametrize("n_classes", [3, 1000, 2**13])
def test_the_largest_sums_have_room(n_classes: int) -> None:
    """Rows that rounding makes longest, along one direction, and the most that pieces leave."""
    one = np.zeros(n_classes)
    one[0] = 1.0
    n = -(-MANY // n_classes)
    for row in (np.full(n_classes, n_classes**-0.5), one):
        f = np.tile(np.float32(patterns.in_multiples(row, 12)), (n, 1))
        longest = np.tile(patterns.in_multiples(1.01 * row, 26), (2, 1))
        left = 2.0**-14 - 2.0**-26  # of multiples of 2^-13, what is farthest from the next
        remainders = np.where(row > 0, left, 0.0)[None]
        for made, factors, bits in (
            (patterns.multiplier, longest, 11), (patterns.fine_multiplier, longest, 26),
            (patterns.fine_multiplier, remainders, 26),
        ):  # fmt: skip
            matrix = as_integers(patterns.in_multiples(factors, bits), bits)
            exact = (as_integers(f[:1], 12) @ matrix.T).astype(np.float64) * 2.0 ** -(12 + bits)
            assert np.array_equal(made(factors)(f), np.tile(exact, (n, 1)))


@QUICK
@pytest.mark.parametrize("n", [40, 127, 128, 300])
def test_sums_over_rows_that_are_all_alike_have_room(n: int) -> None:
    """One label has all of every pattern: squares of 2^24 each add up beyond 32 bits."""
    f = np.zeros((n, 37), dtype=np.float32)
    f[:, 0], f[: n // 2, 1], f[n // 2 :, 1] = 1.0, 1.0, -1.0
    exact = as_integers(f, 12).T @ as_integers(f, 12) * 2**16
    columns = patterns.Columns(f)
    assert np.array_equal(columns.products(), exact.astype(np.int64))
    assert np.array_equal(columns.products(slice(1, 4)), exact[1:4].astype(np.int64))
    assert np.array_equal(columns.totals, (as_integers(f, 20).sum(axis=0)).astype(np.int64))


@pytest.mark.parametrize("n", [30, 170])
def test_sums_over_rows_of_patterns_are_exact(n: int) -> None:
    f = drawn(n, 53)
    exact = as_integers(f, 12).T @ as_integers(f, 12) * 2**16
    assert np.array_equal(patterns.Columns(f).products(), exact.astype(np.int64))
    assert np.array_equal(patterns.summed_products(f, f), exact.astype(np.int64))


@pytest.mark.parametrize("threads", [1, 3])
def test_sums_of_rows_are_exact_whoever_adds_them_up(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformix.kernels.blocks.OUTPUTS_PER_WAIT", 1)
    values = np.random.default_rng(0).random((200, 11))
    rounded = as_integers(np.round(values * 2**20) / 2**20, 20).sum(axis=0)
    assert np.array_equal(patterns.summed(values, threads), rounded.astype(np.int64))


def test_rows_of_more_labels_than_pieces_have_room_for_are_multiplied_by_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f, factors = drawn(30, 40), np.eye(40)
    monkeypatch.setattr(patterns, "MOST_IN_PIECES", 39)
    monkeypatch.setattr(products, "add_products", None)
    assert np.array_equal(patterns.multiplier(factors)(f), f)


@QUICK
def test_a_pickled_model_has_the_same_sets_on_a_machine_with_other_vectors(
    cifar100: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of whole numbers are as long as vectors are here: no such row may travel."""
    logits, y = cifar100
    cp = cx.ScoreAverage("auto", alpha=0.05, kind="logits", random_state=0)
    before = len(pickle.dumps(cp.fit(logits[:1500], y[:1500])))
    here = cp.predict_set(logits[1500:2500]).mask
    (multiplier,) = cp.blend_.of_patterns.values()
    f = drawn(30, 100)
    products_here, travels = multiplier(f), (pickle.dumps(cp), pickle.dumps(multiplier))
    assert len(travels[0]) == before
    assert "of_patterns" not in vars(pickle.loads(travels[0]).blend_)  # it is made again
    longer = products.width_of(100) + products.LANES
    monkeypatch.setattr(products, "width_of", lambda n_classes: longer)
    there, other = (pickle.loads(bits) for bits in travels)
    assert np.array_equal(there.predict_set(logits[1500:2500]).mask, here)
    assert np.array_equal(other(f), products_here)


@QUICK
@pytest.mark.parametrize("scores", ["auto", ("kin", "likeness", "thr")])
def test_a_machine_without_the_step_has_the_same_model_and_sets(
    scores: Any, cifar100: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits, y = cifar100

    def fitted() -> tuple[Any, Any]:
        cp = cx.ScoreAverage(scores, alpha=0.05, kind="logits", random_state=0)
        cp.fit(logits[:1500], y[:1500])
        return cp.predictor_.scores(cp.predictor_.check(logits[1500:2500])), cp.predict_set(
            logits[1500:2500]
        ).mask

    quick = fitted()
    monkeypatch.setattr(products, "are_quick", lambda: False)
    monkeypatch.setattr(products, "add_products", None)
    for ours, others in zip(quick, fitted(), strict=True):
        assert np.array_equal(ours, others)


# Two machines that share the code that numba has kept for any processor.
MACHINE = """
import numpy as np
from llvmlite import binding
features = binding.get_host_cpu_features()
features["avx512bw"] = {long}
binding.get_host_cpu_features = lambda: features
binding.get_host_cpu_name = lambda: "any"
from conformix.kernels import patterns
from conformix.kernels.twins import WORTHWHILE, compile_for
compile_for(WORTHWHILE)
rng = np.random.default_rng(0)
f = patterns.patterns(4 * rng.normal(size=(400, 10)) - 6)
factors = patterns.unit_rows(rng.normal(size=(10, 10)))[0]
exact = f.astype(float) @ patterns.in_multiples(factors, 11).T
print(int((patterns.multiplier(factors)(f) != exact).sum()))
"""


@QUICK
def test_code_that_is_kept_for_any_processor_is_right_on_all_of_them(tmp_path: Path) -> None:
    """One has vectors twice as long as the next, and rows are filled up to whole vectors."""
    environment = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(tmp_path)}
    for long in (True, False):
        command = [sys.executable, "-c", MACHINE.format(long=long)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["0"], done.stderr


LENGTH = """
from llvmlite import binding
features = binding.get_host_cpu_features()
features["avx512bw"] = True
binding.get_host_cpu_features = lambda: features
binding.get_host_cpu_name = lambda: "skylake-avx512"
from conformix.kernels.host import products
print(products.LANES)
"""


@pytest.mark.parametrize(
    ("named", "lanes"),
    [
        ({}, 32),
        ({"NUMBA_CPU_NAME": "skylake-avx512"}, 32),  # under the same key as without
        ({"NUMBA_CPU_NAME": "generic"}, 16),
        ({"NUMBA_CPU_NAME": "znver4"}, 16),
        ({"NUMBA_CPU_FEATURES": "+avx2,-avx512bw"}, 16),
        ({"NUMBA_CPU_FEATURES": "+avx2,+avx512bw"}, 32),
    ],
)
def test_rows_are_as_long_as_the_code_that_reads_them_says(
    named: dict[str, str], lanes: int
) -> None:
    """What numba keeps is kept by the name and the features of the processor that is asked for."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_CPU_")}
    command = [sys.executable, "-c", LENGTH]
    done = subprocess.run(command, env=plain | named, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(lanes)], done.stderr


def test_the_processor_is_the_one_that_numba_keeps_code_for() -> None:
    from numba.core.registry import cpu_target

    _, name, features = cpu_target.target_context.codegen().magic_tuple()
    assert products.target() == (name, features)
