"""On a stream the share of errors obeys a bound that needs no law: it holds for every sequence."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from calibration.rows import softmax
from conformix.online import ACI, AdaptiveWeights, Betting

CONTROLS = [ACI(0.02), ACI(0.5), ACI(0.1, decay=0.5), Betting()]
SLACK = 1e-9  # rounding of a few thousand additions


def shares_stay_in_bounds(control, errors: np.ndarray, alpha: float) -> bool:
    steps = np.arange(1, len(errors) + 1)
    distance = np.abs(np.cumsum(errors) / steps - alpha)
    return bool((distance <= [control.bound(int(t)) + SLACK for t in steps]).all())


@settings(max_examples=80)
@given(
    control=st.sampled_from(CONTROLS),
    alpha=st.sampled_from([0.05, 0.1, 0.3, 0.5, 0.9]),
    whims=st.lists(st.booleans(), min_size=1, max_size=300),
)
def test_no_sequence_of_errors_breaks_the_bound(control, alpha: float, whims: list[bool]) -> None:
    """The adversary errs at will, save that full sets never miss and empty ones always do."""
    running = control.start(alpha)
    errors = []
    for whim in whims:
        error = True if running.level >= 1 else False if running.level <= 0 else whim
        errors.append(error)
        running.update(error)
    assert shares_stay_in_bounds(running, np.array(errors), alpha)


@pytest.mark.parametrize("control", CONTROLS, ids=repr)
@pytest.mark.parametrize("greedy", [True, False], ids=["always errs", "never errs"])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_a_greedy_adversary_does_not_break_it_either(control, greedy: bool, alpha: float) -> None:
    running, errors = control.start(alpha), []
    for _ in range(3000):
        error = True if running.level >= 1 else False if running.level <= 0 else greedy
        errors.append(error)
        running.update(error)
    assert shares_stay_in_bounds(running, np.array(errors), alpha)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_the_bound_of_a_constant_step_is_the_theorem_s(alpha: float) -> None:
    control = ACI(gamma=0.05).start(alpha)
    assert control.bound(1000) == pytest.approx((max(alpha, 1 - alpha) + 0.05) / (0.05 * 1000))


def test_the_stake_is_the_mean_coin_over_one_step_more_times_the_wealth() -> None:
    alpha, wealth, coins = Fraction(1, 4), Fraction(1), []
    control = Betting().start(0.25)
    for error in (True, False, False, True, False):
        stake = wealth * sum(coins) / (len(coins) + 1)
        assert control.level == pytest.approx(float(alpha + stake))
        coins.append(alpha - error)
        wealth += coins[-1] * stake
        control.update(error)


def drifting(rng: np.random.Generator, n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Two models; at half time the good one goes bad and the bad one good."""
    y = rng.integers(6, size=n)
    outputs = {}
    for name, good in (("a", np.arange(n) < n // 2), ("b", np.arange(n) >= n // 2)):
        logits = rng.normal(size=(n, 6))
        logits[np.arange(n), y] += np.where(good, 3.0, 0.0)
        outputs[name] = softmax(logits)
    return outputs, y


@pytest.mark.parametrize("control", ["aci", "betting"])
def test_coverage_holds_on_a_stream_with_drift_where_a_fixed_model_fails(control: str) -> None:
    outputs, y = drifting(np.random.default_rng(0), 1200)
    online = cx.OnlineAverage(
        "thr", alpha=0.1, control=control, window=150, candidates=2, adapt=None
    )
    trace = online.run(outputs, y)
    assert abs(trace.errors.mean() - 0.1) <= online.control_.bound(1200)
    assert abs(trace.errors[600:].mean() - 0.1) < 0.05
    half = {name: values[:600] for name, values in outputs.items()}
    rest = {name: values[600:] for name, values in outputs.items()}
    fixed = cx.ScoreAverage("thr", weights=[1, 0], alpha=0.1).fit(half, y[:600])
    assert cx.metrics.coverage(fixed.predict_set(rest), y[600:]) < 0.8


@pytest.mark.parametrize("rule", ["leader", "hedge"])
def test_weights_follow_the_good_model_through_the_drift(rule: str) -> None:
    outputs, y = drifting(np.random.default_rng(1), 1200)
    options = {"alpha": 0.1, "window": 100, "candidates": 4}
    trace = cx.OnlineAverage("thr", adapt=rule, **options).run(outputs, y)
    assert trace.weights[450:600, 0].mean() > 0.6
    assert trace.weights[1050:, 1].mean() > 0.6
    still = cx.OnlineAverage("thr", adapt=None, **options).run(outputs, y)
    assert trace.sets.sizes.mean() < still.sets.sizes.mean()


@pytest.mark.parametrize("rule", ["leader", "hedge", None])
def test_a_trace_holds_levels_and_weights_that_were_in_use_when_its_sets_were_issued(
    rule: str | None,
) -> None:
    outputs, y = drifting(np.random.default_rng(3), 120)
    options = {"alpha": 0.2, "window": 30, "candidates": 4, "adapt": rule}
    trace = cx.OnlineAverage("thr", **options).run(outputs, y)
    online = cx.OnlineAverage("thr", **options)
    for t, label in enumerate(y):
        issued = online.predict_set({name: values[t] for name, values in outputs.items()})
        assert_array_equal(trace.sets.mask[t], issued.mask[0])
        assert trace.levels[t] == online.level_
        assert_array_equal(trace.weights[t], online.weights_)
        assert trace.errors[t] == online.update(label)


def test_the_set_is_the_rank_statement_at_the_present_level() -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(3, size=60)
    probs = softmax(rng.normal(size=(60, 3)) + 2 * np.eye(3)[y])
    online = cx.OnlineAverage("thr", alpha=0.2, window=20, candidates=[[1.0]])
    past: list[float] = []
    for p, label in zip(probs, y, strict=True):
        level = online.level_
        issued = np.asarray(online.predict_set(p))[0]
        recent = np.array(past[-20:])
        if not len(recent) or level <= 0:
            expected = np.ones(3, dtype=bool)
        elif level >= 1:
            expected = np.zeros(3, dtype=bool)
        else:
            # p-value rule: one plus those that are no larger, more than (n + 1) level of them
            ranks = 1 + (recent[:, None] <= p).sum(axis=0)
            expected = ranks > (len(recent) + 1) * level
        assert_array_equal(issued, expected)
        assert online.update(label) == (not issued[label])
        past.append(float(p[label]))


def test_levels_outside_the_unit_interval_mean_full_and_empty_sets() -> None:
    probs = np.array([[0.6, 0.4]])
    online = cx.OnlineAverage("thr", alpha=0.5, control=ACI(gamma=2.0), candidates=[[1.0]])
    online.predict_set(probs)
    online.update(0)  # a full set cannot miss: the level rises by 1 to 1.5
    assert online.level_ == 1.5
    assert not np.asarray(online.predict_set(probs)).any()
    assert online.update(0)
    assert online.level_ == 0.5


def test_forgotten_steps_no_longer_count() -> None:
    weights = AdaptiveWeights(np.array([[1.0, 0.0], [0.0, 1.0]]), window=2)
    first = weights.candidates[0].copy()
    for sizes in ([1, 5], [1, 5], [5, 1], [5, 1]):
        weights.charge(np.array(sizes), n_classes=6)
    assert not np.array_equal(weights.current, first)
    assert_array_equal(weights.current, weights.candidates[1])


def test_a_label_must_follow_its_set() -> None:
    online = cx.OnlineAverage("thr", candidates=[[1.0]])
    with pytest.raises(cx.NotFitted, match="there is no set to judge"):
        online.update(0)
    online.predict_set([0.5, 0.5])
    with pytest.raises(cx.InvalidInput, match="the last set has no label yet"):
        online.predict_set([0.5, 0.5])
    with pytest.raises(cx.InvalidInput, match="did you mean 'betting'"):
        cx.OnlineAverage(control="beting")


def test_hedge_weighs_candidates_by_the_labels_they_would_have_cost() -> None:
    candidates = np.array([[1.0, 0.0], [0.0, 1.0]])
    weights = AdaptiveWeights(candidates, window=3, rule="hedge")
    sizes = np.array([[9, 1], [2, 7], [4, 3], [6, 5]])
    for step, one in enumerate(sizes, start=1):
        weights.charge(one, n_classes=10)
        lost = sizes[max(step - 3, 0) : step].sum(axis=0)
        eta = np.sqrt(8 * np.log(2) / min(step, 3)) / 10
        chances = np.exp(-eta * lost)
        assert_allclose(weights.current, chances @ weights.candidates / chances.sum(), rtol=1e-12)


def test_pvalues_of_the_first_row_are_one_and_issue_nothing() -> None:
    online = cx.OnlineAverage("thr")
    assert_array_equal(online.predict_pvalues([0.7, 0.3]), [[1.0, 1.0]])
    assert (online.rows_, online.pending_) == (0, [])
    learns = cx.OnlineAverage("likeness")
    with pytest.raises(cx.NotFitted, match="no row was seen yet"):
        learns.predict_pvalues([0.7, 0.3])
    learns.predict_set([0.7, 0.3])
    assert learns.predict_pvalues([0.7, 0.3]).shape == (1, 2)


@pytest.mark.parametrize(
    ("kind", "row", "said"),
    [
        ("probs", [0.5, 0.6, 0.2], "rows sum to 1"),
        ("probs", [-0.5, 1.2, 0.3], "between 0 and 1"),
        ("probs", [np.nan, 0.5, 0.5], "must be finite"),
        ("probs", [0.5, 0.5], "models and classes of the first row"),
        ("probs", [0.0, 0.0, 0.0, 1.0], "models and classes of the first row"),
        ("logits", [np.inf, 0.0, 1.0], "must be finite"),
        ("logits", [-np.inf, -np.inf, -np.inf], "must leave a class"),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", [np.float64, np.float32, list])
def test_rows_that_look_like_those_before_are_looked_at_all_the_same(kind, row, said, form) -> None:
    online = cx.OnlineAverage("thr", kind=kind)
    fine = [0.2, 0.3, 0.5]
    for _ in range(3):
        online.predict_set(np.array(fine))
        online.update(1)
    wrong = row if form is list else np.array(row, dtype=form)
    for shape in (lambda x: x, lambda x: [x] if form is list else x[None]):
        with pytest.raises(cx.InvalidInput, match=said):
            online.predict_set(shape(wrong))
    for label in (3, -1, True, 1.0, "1"):
        online.predict_set(np.array(fine), ticket=str(label))
        with pytest.raises(cx.InvalidInput):
            online.update(label, ticket=str(label))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64])
def test_rows_of_any_number_type_get_the_sets_of_their_numbers(dtype) -> None:
    """By the short look at rows like those before, and by the long one at a mapping."""
    rng = np.random.default_rng(0)
    probs = np.eye(3)[rng.integers(3, size=30)] if dtype is np.int64 else rng.dirichlet([1] * 3, 30)
    rows = probs.astype(dtype)
    one, other = (cx.OnlineAverage(("thr", "rank"), window=9, alpha=0.3) for _ in range(2))
    for row, label in zip(rows, rng.integers(3, size=30).tolist(), strict=True):
        assert_array_equal(one.predict_set(row).mask, other.predict_set({"": row}).mask)
        assert one.update(label) == other.update(np.array(label))


def test_a_blend_on_a_stream_is_refused_for_its_memory() -> None:
    with pytest.raises(
        cx.InvalidInput, match=r'^scores="auto" stands alone.*K times the memory; name the scores'
    ):
        cx.OnlineAverage("auto").predict_set([0.5, 0.5])
