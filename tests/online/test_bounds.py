"""No sequence breaks a bound: late labels, missing ones, several levels; without any tolerance."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import conformix as cx
from conformix.conformal import simple_fraction
from conformix.online import ACI, Betting, DtACI, Ladder
from conformix.online.controllers import bound_of, ceiling_of, pooled, tell

PROMPT = [ACI(0.02), ACI(0.5), ACI(3.0), ACI(0.1, decay=0.5), Betting(), DtACI(), DtACI(room=0.4)]
LATE = [ACI(0.02), ACI(0.5), ACI(0.1, decay=0.5), DtACI(), DtACI((0.1, 1.0), memory=20, room=0.5)]
NEVER, ALWAYS = (
    1.0,
    2.0**-40,
)  # p-values by which the adversary misses as seldom, as often, as it may


class Waiting(NamedTuple):
    levels: list[float]
    pvalue: float
    labels: int


class Game:
    """A controller against an adversary, who picks p-values and the order in which labels come."""

    def __init__(self, control, alphas) -> None:
        self.ladder, self.alphas = Ladder(control, alphas), alphas
        self.waiting: list[Waiting] = []
        self.errors, self.labels, self.late = [0] * len(alphas), 0, 0

    def issue(self, pvalue: float) -> None:
        several = len(self.alphas) > 1
        levels = self.ladder.levels if several else [self.ladder.controls[0].level]
        assert levels == sorted(levels)
        self.waiting.append(Waiting(levels, pvalue, self.labels))

    def label(self, which: int) -> None:
        one = self.waiting.pop(which % len(self.waiting))
        # A full set never misses, an empty one always does.
        missed = [lv >= 1 or (lv > 0 and lv >= one.pvalue) for lv in one.levels]
        self.late = max(self.late, self.labels - one.labels)
        self.labels += 1
        self.errors = [n + miss for n, miss in zip(self.errors, missed, strict=True)]
        if len(self.alphas) > 1:
            self.ladder.update(missed, one.pvalue)
        else:
            tell(self.ladder.controls[0], missed[0], one.pvalue)
        self.check()

    def check(self) -> None:
        m = len(self.alphas)
        for j, (control, alpha, errors) in enumerate(
            zip(self.ladder.controls, self.alphas, self.errors, strict=True)
        ):
            excess = Fraction(errors, self.labels) - simple_fraction(alpha)
            bounds = [
                bound_of(control, self.labels, self.late, m),
                bound_of(control, self.labels, self.late, m, above=m - 1 - j),
            ]
            ceiling = ceiling_of(control, self.labels, self.late)
            for bound in bounds:
                assert math.isinf(bound) or abs(excess) <= Fraction(bound)
            assert bounds[1] <= bounds[0]
            assert math.isinf(ceiling) or excess <= Fraction(ceiling)


PVALUES = st.sampled_from([ALWAYS, ALWAYS, NEVER, NEVER, 0.05, 0.3, 0.7])


@settings(max_examples=60)
@given(st.sampled_from(PROMPT), st.sampled_from([0.05, 0.3, 0.9]), st.lists(PVALUES, max_size=150))
def test_no_sequence_breaks_the_bound_exactly(control, alpha: float, pvalues) -> None:
    game = Game(control, [alpha])
    for pvalue in pvalues:
        game.issue(pvalue)
        game.label(0)


@settings(max_examples=80)
@given(
    control=st.sampled_from(LATE),
    alphas=st.sampled_from([[0.1], [0.7], [0.1, 0.2], [0.05, 0.5, 0.51]]),
    moves=st.lists(st.tuples(PVALUES, st.integers(-1, 6)), max_size=120),
)
def test_no_order_of_labels_and_no_number_of_levels_breaks_it(control, alphas, moves) -> None:
    """Labels come late, out of order or never; where no bound is known, none is stated."""
    game = Game(control, alphas)
    for pvalue, which in moves:
        game.issue(pvalue)
        if which >= 0:
            game.label(which)
    stated = [ceiling_of if isinstance(c, DtACI) else bound_of for c in game.ladder.controls]
    assert all(
        math.isfinite(known(c, 9, 2)) for known, c in zip(stated, game.ladder.controls, strict=True)
    )


@pytest.mark.parametrize("control", LATE, ids=repr)
@pytest.mark.parametrize("alphas", [[0.1], [0.1, 0.4]], ids=["one level", "two"])
@pytest.mark.parametrize("delay", [0, 7])
@pytest.mark.parametrize("burst", [1, 40, 10**6], ids=["turns", "bursts", "one way"])
def test_an_adversary_who_pushes_one_way_and_back_breaks_nothing(
    control, alphas, delay: int, burst: int
) -> None:
    """Pushed as far as it goes, then back: levels reach both ends, where a bound is tight."""
    for first in (ALWAYS, NEVER):
        game = Game(control, alphas)
        for t in range(200):
            turned = (t // burst) % 2
            game.issue(first if not turned else ALWAYS + NEVER - first)
            if len(game.waiting) > delay:
                game.label(-1 if t % 3 else 0)


@pytest.mark.parametrize("errs", [False, True])
def test_an_adversary_beside_the_level_breaks_dtaci_as_published_and_not_ours(errs: bool) -> None:
    """P-values just above the level, or at it: sets never miss, or always, while experts differ."""
    shares, alpha = {}, 0.7 if errs else 0.3
    for room in (2.0, math.inf):
        game = Game(DtACI(room=room), [alpha])
        for _ in range(600):
            level = game.ladder.controls[0].level
            game.issue(level if errs else level + 1e-9)
            game.label(0)  # checks the bound
        shares[room] = game.errors[0] / 600
    assert abs(shares[2.0] - alpha) < 0.09
    assert abs(shares[math.inf] - alpha) > 0.25


@pytest.mark.parametrize("control", LATE, ids=repr)
@pytest.mark.parametrize("delay", [0, 3])
def test_an_adversary_between_two_levels_breaks_nothing(control, delay: int) -> None:
    """Only the last level misses, which makes levels cross; where they meet, all of them miss."""
    for alphas in ([0.1, 0.2], [0.05, 0.5, 0.51]):
        game = Game(control, alphas)
        for _ in range(150):
            levels = game.ladder.levels
            last = levels[-1] if levels[0] < levels[-1] else levels[0]
            game.issue(last if 0 < last < 1 else NEVER)
            if len(game.waiting) > delay:
                game.label(0)


@pytest.mark.parametrize("alphas", [[0.1, 0.2], [0.3, 0.31], [0.29, 0.3, 0.31]], ids=str)
@pytest.mark.parametrize("delay", [0, 3])
def test_dtaci_among_several_levels_is_bounded_from_below_but_not_as_one_alone(
    alphas, delay: int
) -> None:
    """The level above is made to err as often as it may, and then no set misses any more.

    The lowest level has had too few errors by then and asks for empty sets, but it gets those of
    the level above, which is full. Nothing but its floor holds then.
    """
    game, broken = Game(DtACI(room=1.0), alphas), 0
    for t in range(1500):
        levels = game.ladder.levels
        many = game.errors[-1] - alphas[-1] * game.labels > 0.99 * math.sqrt(max(game.labels, 1))
        pushes = t < 900 or not (many or broken)
        between = pushes and levels[0] < levels[-1] and 0 < levels[-1] < 1
        game.issue(levels[-1] if between else NEVER)
        if len(game.waiting) > delay:
            game.label(0)  # checks the bounds of all levels
            control = game.ladder.controls[0]
            share = game.errors[0] / game.labels - alphas[0]
            broken += share < -control.ceiling(game.labels, game.late)
    assert broken > 10


def test_the_floor_of_a_level_counts_the_levels_above_it() -> None:
    """(1 + 2 above) room sqrt(T), and as often what one step can do, late ones counted."""
    control = DtACI(room=2.0).start(0.1)
    assert control.floor(100) == control.ceiling(100) == control.bound(100)
    assert control.floor(100, above=1) == pytest.approx((3 * 2 * 10 + 3) / 100)
    assert control.floor(100, late=4, above=2) == pytest.approx((5 * 2 * 10 + 5 * 5) / 100)
    assert control.late_bound(100, 4, levels=3) == control.floor(100, 4, 2)
    assert DtACI(room=math.inf).start(0.1).floor(100, above=1) == math.inf


def test_the_bound_of_late_labels_is_nearly_reached() -> None:
    """An adversary who sits on labels gets within a step of what ACI's bound allows."""
    game = Game(ACI(0.5), [0.1])
    for _ in range(9):
        game.issue(ALWAYS)
    for _ in range(9):
        game.label(0)
    excess = Fraction(game.errors[0], game.labels) - Fraction(1, 10)
    assert game.late == 8
    bound = bound_of(game.ladder.controls[0], 9, 8)
    assert bound * 0.7 < excess <= Fraction(bound)
    assert excess > Fraction(bound_of(game.ladder.controls[0], 9))  # so it is that of prompt labels


def test_betting_with_late_labels_or_several_levels_has_no_bound() -> None:
    assert bound_of(Betting().start(0.1), 100, late=1) == math.inf
    assert bound_of(Betting().start(0.1), 100, levels=2) == math.inf
    assert bound_of(DtACI(room=math.inf).start(0.1), 100) == math.inf


def test_experts_move_pay_and_are_weighed_as_published() -> None:
    """The formulas of Gibbs & Candes (2022), written once more with arrays."""
    rng = np.random.default_rng(0)
    gammas, alpha, memory = np.array([0.01, 0.1]), 0.2, 50
    control = DtACI(tuple(gammas), memory=memory, room=math.inf).start(alpha)
    levels, weights = np.full(2, alpha), np.full(2, 0.5)
    spread = (1 - alpha) ** 2 * alpha**3 + alpha**2 * (1 - alpha) ** 3
    eta = np.sqrt(3 / memory * (np.log(2 * memory) + 2) / spread)
    for p in rng.uniform(size=60):
        control.update(bool(control.level >= p), p)
        loss = alpha * (p - levels) - np.minimum(0, p - levels)
        weights = weights * np.exp(-eta * loss)
        weights = (1 - 1 / (2 * memory)) * weights / weights.sum() + 1 / (2 * memory) / 2
        levels = levels + gammas * (alpha - (levels >= p))
        assert_allclose(control.level, (weights * levels).sum(), rtol=1e-9, atol=1e-12)


def test_the_budget_fills_and_empties_sets_only_beyond_it() -> None:
    control = DtACI(room=1.0).start(0.5)
    while not abs(control._errors - 0.5 * control._steps) > math.sqrt(control._steps):
        control.update(error=True, pvalue=0.4999)
    assert control.level == 0.0
    control.update(error=False, pvalue=0.4999)
    control.update(error=False, pvalue=0.4999)
    assert control.level > 0


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=12))
def test_pooled_levels_never_fall_and_keep_the_sum(values: list[float]) -> None:
    found = pooled(values)
    assert found == sorted(found)
    assert_allclose(sum(found), sum(values), atol=1e-9)
    if values == sorted(values):
        assert found == values


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(5, size=n)
    raw = np.exp(rng.normal(size=(n, 5)) + 2 * np.eye(5)[y])
    return raw / raw.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("control", ["aci", "dtaci"])
def test_several_levels_give_nested_sets_with_a_bound_each(control: str) -> None:
    probs, y = rows(200)
    online = cx.OnlineAverage("thr", alpha=[0.3, 0.1, 0.2], control=control, window=80)
    trace = online.run(probs, y)
    masks = np.asarray(trace.sets)
    assert (masks[0] >= masks[1]).all()
    assert (masks[1] >= masks[2]).all()
    missed = ~masks[:, np.arange(200), y].T
    assert (missed == trace.errors).all()
    assert np.abs(trace.coverage - [0.9, 0.8, 0.7]).max() < 0.08
    told = online.guarantee_
    assert told.kind == "exact"
    assert told.statement.count("after 200 steps") == 3
    two_sided = told.statement.count("|share of errors")
    assert two_sided == (3 if control == "aci" else 1)  # the last has no level above it
    both_ends = re.findall(
        r"-([0-9.]+) <= share of errors - [0-9.]+ <= ([0-9.]+) after", told.statement
    )
    assert len(both_ends) == 3 - two_sided
    if control == "dtaci":
        each = online.control_.controls
        assert [float(low) for low, _ in both_ends] == [
            pytest.approx(each[j].floor(200, above=2 - j), abs=1e-4) for j in (0, 1)
        ]
    assert 0.7 < online.evaluate(probs, y, alpha=0.2)["coverage"] < 0.9
    with pytest.raises(cx.InvalidInput, match="measured at one: give alpha"):
        online.evaluate(probs, y)


@pytest.mark.parametrize("control", ["aci", "dtaci", "betting"])
def test_one_level_in_a_list_is_one_level(control: str) -> None:
    probs, y = rows(120)
    one = cx.OnlineAverage("thr", alpha=0.2, control=control, window=40).run(probs, y)
    listed = cx.OnlineAverage("thr", alpha=[0.2], control=control, window=40).run(probs, y)
    assert (np.asarray(one.sets) == np.asarray(listed.sets)[0]).all()
    assert (one.levels == listed.levels[:, 0]).all()


@settings(max_examples=15)
@given(st.permutations(range(12)), st.sets(st.integers(0, 11), max_size=5))
def test_labels_come_by_ticket_in_any_order_or_never(order, missing) -> None:
    probs, y = rows(12)
    online = cx.OnlineAverage("thr", alpha=0.3, control=ACI(0.3), window=6)
    sets = [np.asarray(online.predict_set(p, ticket=i))[0] for i, p in enumerate(probs)]
    for i in order:
        if i not in missing:
            assert online.update(y[i], ticket=i) == (not sets[i][y[i]])
    labelled = 12 - len(missing)
    assert online.pending_ == sorted(missing)
    told = online.guarantee_
    if labelled:
        wrong = sum(not sets[i][y[i]] for i in range(12) if i not in missing)
        bound = online.control_.late_bound(labelled, labelled - 1)
        assert abs(wrong / labelled - 0.3) <= bound
        assert f"after {labelled:,} " in told.statement
        ends = f"between {wrong / 12:.4f} and {(wrong + len(missing)) / 12:.4f} missed"
        assert (ends in told.statement) == bool(missing)
    for ticket in missing:
        online.forget(ticket)
    assert online.pending_ == []
    assert online.guarantee_ == told  # to know that they never come is to know no more


def test_prompt_labels_by_ticket_are_prompt_labels() -> None:
    probs, y = rows(100)
    plain, named = (cx.OnlineAverage("thr", alpha=0.2, window=30) for _ in range(2))
    for i, (p, label) in enumerate(zip(probs, y, strict=True)):
        one = np.asarray(plain.predict_set(p))
        other = np.asarray(named.predict_set(p, ticket=f"row {i}"))
        assert (one == other).all()
        assert plain.update(label) == named.update(label, ticket=f"row {i}")
    assert plain.guarantee_ == named.guarantee_
    assert plain.level_ == named.level_


def test_the_statement_holds_after_every_step_and_says_when_none_does() -> None:
    probs, y = rows(60)
    online = cx.OnlineAverage("thr", alpha=0.2, control="betting", window=30)
    assert online.guarantee_.kind == "none"
    wrong = 0
    for t, (p, label) in enumerate(zip(probs[:50], y[:50], strict=True), start=1):
        online.predict_set(p)
        wrong += online.update(label)
        told = online.guarantee_
        assert told.kind == "exact"
        assert told.statement.endswith(f"after {t:,} steps; it is {wrong / t:.4f}")
    for i in (50, 51):
        online.predict_set(probs[i], ticket=i)
    online.update(y[51], ticket=51)
    assert online.guarantee_.kind == "exact"  # row 50 has no label: nothing came late
    online.update(y[50], ticket=50)
    assert online.guarantee_.kind == "none"
    assert "no bound" in online.guarantee_.statement


def test_rows_beyond_the_limit_are_forgotten_oldest_first() -> None:
    probs, _ = rows(8)
    online = cx.OnlineAverage("thr", max_pending=3)
    for i, p in enumerate(probs):
        online.predict_set(p, ticket=i)
    assert online.pending_ == [5, 6, 7]
    with pytest.raises(cx.NotFitted, match="no set of ticket 2 waits"):
        online.update(0, ticket=2)
    with pytest.raises(cx.InvalidInput, match="ticket 6 has no label yet"):
        online.predict_set(probs[0], ticket=6)
    with pytest.raises(cx.InvalidInput, match="ticket must be a whole number or a text"):
        online.predict_set(probs[0], ticket=2.5)


@pytest.mark.parametrize(
    "control",
    [DtACI(gammas=()), DtACI(gammas=(0.1, -1)), DtACI(room=0), DtACI(memory=0)],
    ids=repr,
)
def test_experts_without_steps_and_budgets_of_nothing_are_refused(control) -> None:
    with pytest.raises(cx.InvalidInput, match="must be positive"):
        cx.OnlineAverage(control=control)


def test_a_score_that_learns_from_every_row_is_that_of_all_rows_so_far() -> None:
    from conformix.scores import Likeness  # the sums are exact, so the order is of no account
    from conformix.scores.ranked import Ranked

    probs, y = rows(50)
    online = cx.OnlineAverage(("thr", "likeness"), alpha=0.2, window=30, candidates=2)
    online.run(probs, y)
    whole = Likeness().learnt(Likeness().sums(Ranked(probs)))
    assert (online._learners.columns[1].score.factors == whole.factors).all()
    assert online.guarantee_.kind == "exact"


def test_sums_of_scores_that_learn_fade_and_never_grow() -> None:
    probs, y = rows(90)
    online = cx.OnlineAverage("rarity", alpha=0.2, window=1)
    seen = []
    for p, label in zip(probs, y, strict=True):
        online.predict_set(p)
        online.update(label)
        seen.append(online._learners.n)
    assert max(seen) == 20
    assert min(seen[30:]) >= 10


def test_fading_weights_follow_the_good_model_with_one_number_per_candidate() -> None:
    rng = np.random.default_rng(1)
    n, y = 600, np.random.default_rng(2).integers(6, size=600)
    outputs = {}
    for name, good in (("a", np.arange(n) < n // 2), ("b", np.arange(n) >= n // 2)):
        raw = np.exp(rng.normal(size=(n, 6)) + 3 * np.eye(6)[y] * good[:, None])
        outputs[name] = raw / raw.sum(axis=1, keepdims=True)
    online = cx.OnlineAverage("thr", alpha=0.1, window=60, candidates=4, adapt="fading")
    trace = online.run(outputs, y)
    assert trace.weights[200:300, 0].mean() > 0.6
    assert trace.weights[500:, 1].mean() > 0.6
    assert online._weights.remembered.shape == (1, 5)
    assert online._weights._sizes.size == 0
