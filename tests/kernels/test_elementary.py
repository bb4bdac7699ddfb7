"""Exponential, logarithm and softmax: accurate, monotone, and the same bits everywhere."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix
from conformix.kernels import elementary
from conformix.kernels.elementary import exp, log, log_sum_exp, softmax
from conformix.kernels.host.elementary import exp_into, exp_of, log_into, log_of, softmax_into
from kernels import published_bits

INF, NAN, SMALLEST = np.inf, np.nan, 5e-324
UNITS = 0.51  # in the last place: what is promised; 0.5 would be correct rounding
P = 160  # binary places of the exact arithmetic below


def fast_exp(values: np.ndarray) -> np.ndarray:
    out = np.empty_like(values)
    exp_into(values.reshape(-1), out.reshape(-1))
    return out


def fast_log(values: np.ndarray) -> np.ndarray:
    out = np.empty_like(values)
    log_into(values.reshape(-1), out.reshape(-1))
    return out


# --- exact arithmetic: arrays of whole numbers, in units of 2^-P ---


def ln2() -> int:
    with localcontext(prec=80):
        return int(Decimal(2).ln() * 2**P)


def fixed(values: np.ndarray) -> np.ndarray:
    """Return floats times 2^P, as whole numbers."""
    fractions, exponents = np.frexp(values)
    whole = (fractions * 2.0**53).astype(np.int64).astype(object)
    shifts = P - 53 + exponents.astype(object)
    return np.where(shifts >= 0, whole << np.maximum(shifts, 0), whole >> np.maximum(-shifts, 0))


def exact_exp(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return f in [1, 2), times 2^P, and k, with ``exp(x) = f 2^k`` up to some 2^-140."""
    x = fixed(values)
    k = x // ln2()
    r = (x - k * ln2()) >> 8
    term = total = np.full(len(x), 1 << P, dtype=object)
    for n in range(1, 20):
        term = ((term * r) >> P) // n
        total = total + term
    for _ in range(8):
        total = (total * total) >> P
    return total, k.astype(np.int64)


def units_off_exp(values: np.ndarray, results: np.ndarray) -> float:
    """Return the largest error of exp, in units in the last place of the exact result."""
    f, k = exact_exp(values)
    unit = np.maximum(k - 52, -1074)
    results2 = (2 * np.ldexp(results, -unit)).astype(np.int64).astype(object)
    places = (P + unit - k).astype(object)
    errors = abs((results2 << (places - 1)) - f) / (1 << places)
    return float(errors.max())


def units_off_log(values: np.ndarray, results: np.ndarray) -> float:
    """Return the largest error of log: ``log x = y + log1p(x / exp(y) - 1)``, y the result."""
    f, k = exact_exp(results)
    fractions, exponents = np.frexp(values)
    scaled = (fractions * 2.0**53).astype(np.int64).astype(object) << (2 * P - 53)
    ratio = scaled // f  # in units of 2^-P, times 2^(exponent - k)
    shift = (exponents - k).astype(object)
    d = np.where(shift >= 0, ratio << np.maximum(shift, 0), ratio >> np.maximum(-shift, 0))
    d = d - (1 << P)
    missed = d - ((d * d) >> (P + 1))
    y = np.where(results == 0, 1.0, results)
    units = (np.spacing(np.abs(y)) * 2.0**1000).astype(object)
    errors = [abs(m) / (1 << P) / (unit / 2.0**1000) for m, unit in zip(missed, units, strict=True)]
    return float(max(errors))


RNG = np.random.default_rng(5)
MANY = 2**14


def of_all_sizes(n: int) -> np.ndarray:
    """Return positive floats whose exponents are uniform, subnormal ones included."""
    return RNG.integers(1, 0x7FF << 52, n).view(np.float64)


EXP_RANGES = {
    "all": RNG.uniform(-708, 709.78, 2 * MANY),
    "of logits": RNG.uniform(-40, 0, 2 * MANY),
    "around zero": RNG.uniform(-0.02, 0.02, MANY),
    "tiny": np.ldexp(RNG.uniform(-1, 1, MANY), RNG.integers(-70, -5, MANY)),
    "subnormal results": RNG.uniform(-745.13, -708, MANY),
    "where segments meet": published_bits.exp_inputs()[-MANY:],
}
LOG_RANGES = {
    "of probabilities": RNG.random(2 * MANY) + 2.0**-60,
    "of all sizes": of_all_sizes(2 * MANY),
    "around one": RNG.uniform(0.98, 1.02, MANY),
    "next to one": 1 + np.ldexp(RNG.uniform(-1, 1, MANY), RNG.integers(-50, -7, MANY)),
    "at the end of the first segment": 1 + RNG.uniform(0.9, 1.1, MANY) / 256,
    "where segments meet": published_bits.log_inputs()[-MANY:],
    "of ranks": np.arange(1.0, MANY),
}


@pytest.mark.parametrize("values", EXP_RANGES.values(), ids=EXP_RANGES.keys())
def test_exp_is_within_the_stated_accuracy_of_exact_arithmetic(values: np.ndarray) -> None:
    assert units_off_exp(values, exp(values)) <= UNITS
    assert_array_equal(fast_exp(values), exp(values))


@pytest.mark.parametrize("values", LOG_RANGES.values(), ids=LOG_RANGES.keys())
def test_log_is_within_the_stated_accuracy_of_exact_arithmetic(values: np.ndarray) -> None:
    assert units_off_log(values, log(values)) <= UNITS
    assert_array_equal(fast_log(values), log(values))


def test_the_exact_arithmetic_of_these_tests_is_that_of_decimal_numbers() -> None:
    values = np.array([-745.0, -1.0, -1e-9, 0.1, 2.0, 700.0])
    f, k = exact_exp(values)
    with localcontext(prec=60):
        for x, numerator, power in zip(values, f, k, strict=True):
            exact = Decimal(float(x)).exp()
            computed = Decimal(numerator) / 2**P * Decimal(2) ** int(power)
            assert abs(computed / exact - 1) < Decimal(2) ** -130
    # One unit more or less is seen as such.
    one_off = np.nextafter(math.e, 3)
    assert 0.5 < units_off_exp(np.array([1.0]), np.array([one_off])) < 1.5
    one_off = np.nextafter(math.log(10.0), 3)
    assert 0.5 < units_off_log(np.array([10.0]), np.array([one_off])) < 1.5


# --- order ---


def test_exp_rises_wherever_one_segment_meets_the_next() -> None:
    first = round(elementary.EXP_LOW * elementary.PER_UNIT)
    last = round(elementary.EXP_HIGH * elementary.PER_UNIT)
    meetings = (np.arange(first, last) + 0.5) * 0.0054152123481245725
    for part in np.array_split(meetings, 16):
        # From below to above, whatever the sign: eight neighbours on either side.
        steps = np.arange(-8, 9) * np.where(part < 0, -1, 1)[:, None]
        x = (part.view(np.int64)[:, None] + steps).view(np.float64)
        k = np.rint(x * elementary.PER_UNIT)
        assert ((k[:, -1] - k[:, 0]) == 1).all()  # the place is among them
        y = fast_exp(x)
        assert (y[:, 1:] >= y[:, :-1]).all()


def test_log_rises_wherever_one_segment_meets_the_next() -> None:
    starts = np.arange(1, 0x7FF * 256, dtype=np.int64) << 44  # all that has eight bits
    bits = starts[:, None] + np.arange(-3, 4)
    y = fast_log(bits.view(np.float64))
    assert (y[:, 1:] >= y[:, :-1]).all()


@pytest.mark.parametrize(
    "start",
    [
        lambda: RNG.uniform(-746, 710, 2**16),
        lambda: RNG.uniform(-1, 1, 2**16),
        lambda: RNG.uniform(-0.006, 0.006, 2**16),
        lambda: RNG.uniform(-746, -705, 2**16),
        lambda: of_all_sizes(2**16) * RNG.choice([-1, 1], 2**16),
    ],
    ids=["all", "around zero", "the middle segments", "subnormal", "any bits"],
)
def test_exp_rises_along_neighbouring_floats(start) -> None:
    for _ in range(4):
        bits = start().view(np.int64)[:, None]
        x = (bits + np.arange(16) * np.where(bits < 0, -1, 1)).view(np.float64)
        y = fast_exp(x)
        assert not (y[:, 1:] < y[:, :-1]).any()
        y = fast_exp(np.sort(x[np.isfinite(x)]))
        assert (y[1:] >= y[:-1]).all()


@pytest.mark.parametrize(
    "start",
    [
        lambda: RNG.random(2**16),
        lambda: 1 + RNG.uniform(-0.01, 0.01, 2**16),
        lambda: of_all_sizes(2**16),
        lambda: np.arange(1, 2**16) * SMALLEST,
    ],
    ids=["probabilities", "around one", "any bits", "subnormal"],
)
def test_log_rises_along_neighbouring_floats(start) -> None:
    for _ in range(4):
        x = (start().view(np.int64)[:, None] + np.arange(16)).view(np.float64)
        y = fast_log(x)
        assert (y[:, 1:] >= y[:, :-1]).all()
        y = fast_log(np.sort(x.reshape(-1)))
        assert (y[1:] >= y[:-1]).all()


# --- special values ---

LARGEST = 1.7976931348623157e308
EXP_OF = [
    (0.0, 1.0), (-0.0, 1.0), (SMALLEST, 1.0), (1e-17, 1.0), (-5e-17, 1.0),
    (INF, INF), (-INF, 0.0), (LARGEST, INF), (-LARGEST, 0.0),
    (709.782712893384, 1.7976931348622732e308), (709.7827128933841, INF),
    (-708.3964185322641, 2.2250738585072626e-308),
    # Just above and just below half of the smallest number.
    (-745.1332191019411, SMALLEST), (-745.1332191019412, 0.0),
]  # fmt: skip
LOG_OF = [
    (1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (SMALLEST, -744.4400719213812),
    (LARGEST, 709.782712893384), (2.0, 0.6931471805599453), (0.5, -0.6931471805599453),
    (2.2250738585072014e-308, -708.3964185322641),
]  # fmt: skip


def test_special_values_of_exp() -> None:
    values, expected = np.array(EXP_OF).T
    assert_array_equal(exp(values), expected)
    assert_array_equal(fast_exp(np.ascontiguousarray(values)), expected)
    assert [exp_of(x) for x in values.tolist()] == expected.tolist()


def test_special_values_of_log() -> None:
    values, expected = np.array(LOG_OF).T
    assert_array_equal(log(values), expected)
    assert_array_equal(fast_log(np.ascontiguousarray(values)), expected)
    assert [log_of(x) for x in values.tolist()] == expected.tolist()
    assert not np.signbit(log([1.0])).any()


@pytest.mark.parametrize("form", [exp, fast_exp, log, fast_log])
def test_what_is_not_a_number_stays_so(form) -> None:
    values = np.array([NAN, -NAN, 1.0])
    assert_array_equal(np.isnan(form(values)), [True, True, False])


@pytest.mark.parametrize("form", [log, fast_log])
def test_negative_numbers_have_no_logarithm(form) -> None:
    assert np.isnan(form(np.array([-SMALLEST, -1.0, -LARGEST, -INF]))).all()


def test_special_values_among_many_ordinary_ones_leave_these_alone() -> None:
    values = RNG.uniform(-20, 0, 5000)
    plain = exp(values)
    values[::97], values[5::97] = -INF, -740.0
    expected = plain.copy()
    expected[::97], expected[5::97] = 0.0, exp([-740.0])[0]
    assert_array_equal(exp(values), expected)
    assert_array_equal(fast_exp(values), expected)


@pytest.mark.parametrize("function", [exp, log])
def test_narrow_numbers_are_widened_and_shapes_stay(function) -> None:
    narrow = RNG.uniform(0.1, 5, (7, 3)).astype(np.float32)
    wide = narrow.astype(np.float64)
    assert_array_equal(function(narrow), function(wide))
    assert_array_equal(function(np.asfortranarray(wide)), function(wide))
    assert function(narrow).dtype == np.float64
    assert function(np.zeros((0, 4))).shape == (0, 4)
    assert_array_equal(function(np.array(2)), function([2.0])[0])


# --- softmax ---


def test_softmax_moves_with_the_labels_bit_for_bit() -> None:
    logits = RNG.normal(0, 6, (50, 301))
    order = RNG.permutation(301)
    assert_array_equal(softmax(logits[:, order]), softmax(logits)[:, order])
    assert_array_equal(log_sum_exp(logits[:, order]), log_sum_exp(logits))
    out = np.empty_like(logits)
    softmax_into(logits[:, order], out)
    assert_array_equal(out, softmax(logits)[:, order])


@pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 7, 1000, 70_001])
def test_sums_of_a_row_are_exact_but_for_one_rounding(n_classes: int) -> None:
    powers = exp(RNG.uniform(-60, 0, (4, n_classes)))
    powers[:, 0] = 1.0
    sums = elementary.sums_of(powers)
    left_out = n_classes * 2.0 ** (2 * n_classes.bit_length() - 107)
    for row, total in zip(powers, sums[:, 0], strict=True):
        exact = sum(fixed(row).tolist())
        assert (
            abs(int(fixed(np.array([total]))[0]) - exact)
            <= (np.spacing(total) / 2 + left_out) * 2.0**P
        )
    shuffled = powers[:, RNG.permutation(n_classes)]
    assert_array_equal(elementary.sums_of(shuffled), sums)


@pytest.mark.parametrize("n_classes", [3, 1023, 5000])
def test_pieces_add_up_exactly_one_by_one_or_in_parts(n_classes: int) -> None:
    usual = exp(RNG.uniform(-30, 0, n_classes))
    largest = RNG.uniform(0.9, 1, n_classes)  # as upper pieces, and as lower ones
    powers = np.stack([usual, largest, largest * 2.0 ** (n_classes.bit_length() - 53)])
    for numbers in np.concatenate(elementary.pieces(powers)):
        one_by_one = 0.0
        for number in numbers[::-1].tolist():
            one_by_one += number
        assert int(fixed(np.array([one_by_one]))[0]) == sum(fixed(numbers).tolist())
        assert one_by_one == numbers.sum() == sum(p.sum() for p in np.array_split(numbers, 3))


@pytest.mark.parametrize("place", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_running_sums_never_fall_and_are_the_same_for_tensors(place: str) -> None:
    powers = np.sort(exp(RNG.uniform(-60, 0, (20, 1000))), axis=1)
    sums = elementary.running_sums_of(powers)
    assert (sums[:, 1:] >= sums[:, :-1]).all()
    assert_array_equal(sums[:, -1:], elementary.sums_of(powers))
    assert_array_equal(elementary.running_sums_of(powers[:, ::-1])[:, -1:], sums[:, -1:])
    np.testing.assert_allclose(sums, powers.cumsum(axis=1), rtol=1e-13, atol=1000 * 2.0**-87)
    torch = pytest.importorskip("torch")
    if place == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    tensor = torch.from_numpy(powers).to(place)
    assert_array_equal(elementary.running_sums_of(tensor).cpu().numpy(), sums)
    assert_array_equal(elementary.sums_of(tensor).cpu().numpy(), elementary.sums_of(powers))


def test_the_order_of_logits_is_the_order_of_probabilities() -> None:
    bits = RNG.uniform(-30, 30, (200, 1)).view(np.int64) + np.arange(-20, 20)
    logits = np.sort(bits.view(np.float64), axis=1)
    assert (np.diff(softmax(logits), axis=1) >= 0).all()


def test_softmax_of_extreme_rows() -> None:
    rows = np.array([[1e308, -1e308, 0.0], [-1e4, -1e4, -1e4], [0.0, -745.0, -800.0]])
    expected = [[1.0, 0.0, 0.0], [1 / 3] * 3, [1.0, SMALLEST, 0.0]]
    assert_array_equal(softmax(rows), expected)
    out = rows.copy()
    softmax_into(out, out)
    assert_array_equal(out, expected)
    assert_array_equal(log_sum_exp(rows)[:, 0], [1e308, -1e4 + log(3.0), 0.0])
    assert softmax(np.zeros((0, 3))).shape == (0, 3)


# --- the same bits everywhere ---


def on_this_machine(form: str, **environment: str) -> dict[str, str]:
    folders = [str(Path(conformix.__file__).parents[1]), str(Path(published_bits.__file__).parent)]
    paths = os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, published_bits.__file__, form],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": paths} | environment,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("form", ["numpy", "numba"])
def test_results_have_the_published_checksum(form: str) -> None:
    assert published_bits.checksums(form) == published_bits.PUBLISHED


def test_tensors_have_the_published_checksum() -> None:
    pytest.importorskip("torch")
    assert published_bits.checksums("torch") == published_bits.PUBLISHED


def test_the_checksum_holds_without_the_simd_features_of_numpy() -> None:
    numpy_core = np._core if hasattr(np, "_core") else np.core  # named so since NumPy 2
    umath = numpy_core._multiarray_umath
    dispatched = [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__[name]]
    if not dispatched:
        pytest.skip("NumPy dispatches nothing on this processor")
    disabled = {"NPY_DISABLE_CPU_FEATURES": " ".join(dispatched)}
    assert on_this_machine("numpy", **disabled) == published_bits.PUBLISHED


def test_the_checksum_holds_for_code_compiled_for_any_processor(tmp_path) -> None:
    generic = {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(tmp_path)}
    assert on_this_machine("numba", **generic) == published_bits.PUBLISHED


@pytest.mark.gpu
def test_the_checksum_holds_on_a_cuda_device(monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    from conformix.kernels.device import elementary as on_device

    assert published_bits.checksums("cuda") == published_bits.PUBLISHED
    monkeypatch.setattr(on_device, "fused", lambda name, like: None)  # operation by operation
    assert published_bits.checksums("cuda") == published_bits.PUBLISHED


def test_the_published_checksums_are_those_of_the_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "numerics.md"
    text = page.read_text(encoding="utf-8")
    for name, checksum in published_bits.PUBLISHED.items():
        assert f"| `{name}` | `{checksum}` |" in text
