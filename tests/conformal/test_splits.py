from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.splits import SPLITS, Exact, Roles, ValidityFirst, bounded, resolve_split

RNG = np.random.default_rng


def roles(split: object, n: int = 10, m: int = 4, seed: int = 0, groups: object = None) -> Roles:
    return resolve_split(split).roles(n, m, RNG(seed), groups)


def test_vfcp_tunes_and_sizes_on_one_part_and_calibrates_on_the_rest() -> None:
    drawn = roles("vfcp")
    assert_array_equal(drawn.tune, drawn.size)
    together = np.concatenate([drawn.tune, drawn.calibrate])
    assert_array_equal(np.sort(together), np.arange(10))
    assert len(drawn.tune) == 5


def test_efcp_uses_all_labelled_rows_for_everything_and_no_test_rows() -> None:
    for part in roles("efcp"):
        assert_array_equal(part, np.arange(10))


def test_dlcp_counts_sizes_on_the_test_rows_alone() -> None:
    drawn = roles("dlcp")
    assert_array_equal(drawn.size, [10, 11, 12, 13])
    assert_array_equal(drawn.tune, np.arange(10))
    assert_array_equal(drawn.calibrate, np.arange(10))


def test_dlcp_plus_counts_sizes_on_labelled_and_test_rows() -> None:
    drawn = roles("dlcp+")
    assert_array_equal(drawn.size, np.arange(14))
    assert_array_equal(drawn.tune, np.arange(10))
    assert_array_equal(drawn.calibrate, np.arange(10))


@pytest.mark.parametrize("name", SPLITS)
def test_labels_of_test_rows_are_never_asked_for(name: str) -> None:
    drawn = roles(name)
    assert max(*drawn.tune, *drawn.calibrate) < 10


@pytest.mark.parametrize(
    ("name", "kind", "needs_test"),
    [
        ("vfcp", "exact", False),
        ("efcp", "approximate", False),
        ("dlcp", "approximate", True),
        ("dlcp+", "approximate", True),
    ],
)
def test_every_split_declares_its_guarantee_and_whether_it_needs_test_rows(
    name: str, kind: str, needs_test: bool
) -> None:
    split = resolve_split(name)
    assert split.name == name
    assert split.guarantee.kind == kind
    assert split.needs_test is needs_test


@pytest.mark.parametrize("name", SPLITS)
def test_a_split_is_a_value_that_nobody_can_change(name: str) -> None:
    split = SPLITS[name]
    assert split == type(split)()
    assert hash(split) == hash(type(split)())
    assert_array_equal(roles(split).calibrate, roles(type(split)()).calibrate)
    with pytest.raises(FrozenInstanceError):
        split.name = "mine"


@pytest.mark.parametrize(("share", "n_tune"), [(0.25, 10), (0.5, 20), (0.001, 1), (0.999, 39)])
def test_the_share_of_the_tuning_rows_is_an_option(share: float, n_tune: int) -> None:
    drawn = roles(ValidityFirst(share=share), n=40)
    assert (len(drawn.tune), len(drawn.calibrate)) == (n_tune, 40 - n_tune)


@pytest.mark.parametrize("share", [-0.2, 0, 1, 1.2, float("nan")])
def test_a_share_outside_zero_and_one_is_refused(share: float) -> None:
    with pytest.raises(cx.InvalidInput, match=r"^share must lie strictly between 0 and 1; got"):
        roles(ValidityFirst(share=share))


@pytest.mark.parametrize("most", [0, -1, True, 2.0, "3"])
def test_a_number_of_tuning_rows_that_cannot_be_is_refused(most: object) -> None:
    with pytest.raises(cx.InvalidInput, match=r"^max_rows must be a positive integer or None; got"):
        roles(ValidityFirst(max_rows=most))


@pytest.mark.parametrize("shortlist", [0, -1, 2.0, "3"])
def test_a_shortlist_that_cannot_be_is_refused(shortlist: object) -> None:
    with pytest.raises(cx.InvalidInput, match=r"^shortlist must be a positive integer; got"):
        roles(Exact(shortlist=shortlist))


def test_a_shortlist_of_the_exact_split_sets_a_fifth_of_the_rows_aside() -> None:
    drawn = roles(Exact(shortlist=1), n=40)
    assert len(drawn.tune) == 8
    assert_array_equal(drawn.size, drawn.calibrate)
    assert_array_equal(np.sort([*drawn.tune, *drawn.calibrate]), np.arange(40))
    assert len(roles(Exact(), n=40).tune) == 0


def test_a_class_or_anything_without_roles_is_no_split() -> None:
    for split in (ValidityFirst, 3, object()):
        with pytest.raises(cx.InvalidInput, match=r"^split must be one of batch \(dlcp\), .* got"):
            resolve_split(split)


def test_a_bound_on_the_tuning_rows_is_at_least_one_and_gives_way_to_that_of_the_user() -> None:
    assert bounded(ValidityFirst(0.3), 7) == ValidityFirst(0.3, max_rows=7)
    assert bounded(ValidityFirst(), 0) == ValidityFirst(max_rows=1)
    assert bounded(ValidityFirst(max_rows=9), 7) == ValidityFirst(max_rows=9)
    assert bounded(Exact(), 7) == Exact()


@pytest.mark.parametrize("groups", [None, [0, 0, 0]])
def test_one_row_or_one_group_cannot_be_split_in_two(groups: object) -> None:
    what, n = ("rows", 1) if groups is None else ("groups", 3)
    with pytest.raises(cx.InvalidInput, match=rf"at least 2 {what}, one to tune .* got 1\.$"):
        roles("vfcp", n=n, groups=None if groups is None else np.array(groups))
    assert len(roles("vfcp", n=2).tune) == 1


def test_the_split_depends_on_the_seed_alone() -> None:
    assert_array_equal(roles("vfcp", seed=3).tune, roles("vfcp", seed=3).tune)
    assert len({tuple(roles("vfcp", seed=seed).tune) for seed in range(10)}) > 5


def test_every_row_is_as_likely_to_tune_as_any_other() -> None:
    tuned = np.zeros(6)
    for seed in range(3000):
        tuned[roles("vfcp", n=6, seed=seed).tune] += 1
    # Binomial(3000, 1/2) has standard deviation 27; |z| < 5 in six counts: below 4e-6 together.
    assert np.abs(tuned - 1500).max() < 5 * np.sqrt(3000) / 2


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_one_group_stay_on_one_side(seed: int) -> None:
    groups = RNG(100).integers(0, 7, size=50)
    drawn = roles("vfcp", n=50, seed=seed, groups=groups)
    assert not set(groups[drawn.tune]) & set(groups[drawn.calibrate])
    assert_array_equal(np.sort([*drawn.tune, *drawn.calibrate]), np.arange(50))


def test_groups_may_have_any_names(cifar10: tuple) -> None:
    logits, y = cifar10[0][:300], cifar10[1][:300]
    numbers = RNG(1).integers(0, 12, size=300)
    names = np.array([f"patient {number:02d}" for number in numbers])
    cp = cx.ScoreAverage("thr", kind="logits", split=ValidityFirst(), random_state=0)
    by_number = cp.fit(logits, y, groups=numbers).threshold_
    assert cp.fit(logits, y, groups=names).threshold_ == by_number
    assert cp.fit(logits, y, groups=names.tolist()).threshold_ == by_number
    assert cp.fit(logits, y).threshold_ != by_number


def test_a_users_own_split_is_taken_as_it_is(cifar10: tuple) -> None:
    class FirstTen:
        name = "first ten"
        guarantee = resolve_split("vfcp").guarantee
        needs_test = False

        def roles(self, n: int, n_test: int, rng: object, groups: object = None) -> Roles:
            return Roles(np.arange(10), np.arange(10), np.arange(10, n))

    logits, y = cifar10[0][:200], cifar10[1][:200]
    own = cx.ScoreAverage("thr", kind="logits", split=FirstTen(), normalize="none").fit(logits, y)
    fixed = cx.ScoreAverage("thr", kind="logits", weights=[1]).fit(logits[10:], y[10:])
    assert own.threshold_ == fixed.threshold_


@pytest.mark.parametrize("seed", range(8))
def test_roles_know_whether_they_are_apart_and_who_is_unseen(seed: int) -> None:
    rng = RNG(seed)
    tune, size, calibrate = (np.flatnonzero(rng.random(12) < share) for share in (0.2, 0.5, 0.6))
    drawn = Roles(tune, np.append(size, [14, 15]), calibrate)  # two test rows among the sizes
    assert drawn.separate == set(tune).isdisjoint(calibrate)
    assert_array_equal(drawn.unseen, sorted(set(calibrate) - set(tune) - set(size)))


def test_roles_may_be_empty() -> None:
    none, some = np.arange(0), np.arange(3)
    assert Roles(none, none, none).separate
    assert_array_equal(Roles(none, none, some).unseen, some)
    assert_array_equal(Roles(some, some, none).unseen, none)


def test_at_most_max_rows_tune_and_groups_stay_whole() -> None:
    sizes = np.array([1, 2, 3, 4, 5, 6, 7, 8])
    groups = np.repeat(np.arange(8), sizes)
    for seed in range(20):
        for most in (1, 5, 12, 30):
            split = ValidityFirst(share=0.7, max_rows=most)
            roles = split.roles(len(groups), 0, np.random.default_rng(seed), groups)
            drawn = np.unique(groups[roles.tune])
            assert len(roles.tune) == sizes[drawn].sum()
            assert 0 < len(roles.tune) <= most or len(drawn) == 1  # one group there must be
            assert_array_equal(np.union1d(roles.tune, roles.calibrate), np.arange(len(groups)))
