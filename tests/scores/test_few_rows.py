"""``scores="auto"`` leaves enough rows to calibrate, whenever there are enough."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import conformix as cx
from conformix.calibration import PerClass
from conformix.conformal import conformal_rank, last_rank_out, rows_needed
from conformix.data.outputs import check_outputs
from conformix.data.row_data import NO_DATA
from conformix.fit.learning import learn_from
from conformix.fit.rows import ArrayRows
from conformix.scores.blend import Blend, dictionary_columns, fit_blend, plan_rows, prior_of
from conformix.scores.ranked import Ranked
from conformix.splits import Exact, ValidityFirst
from scores.few_rows import measure


@pytest.fixture(scope="module")
def rows() -> tuple[Any, Any]:
    data = cx.datasets.load("cifar100")
    return data.outputs["wideresnet_16_4"][:1000], data.labels[:1000]


def fitted(rows: tuple[Any, Any], n: int, **options: Any) -> cx.ScoreAverage:
    fit = {name: options.pop(name) for name in ("groups",) if name in options}
    given = {"alpha": 0.01, "kind": "logits", "random_state": 0} | options
    return cx.ScoreAverage("auto", **given).fit(rows[0][:n], rows[1][:n], **fit)


@pytest.mark.parametrize("n_scores", [5, 15, 50])
def test_ninety_nine_rows_calibrate_at_one_per_cent_whenever_there_are_so_many(n_scores) -> None:
    for n in range(99, 201):
        aside = plan_rows(n, 0.01, n_scores, 100)
        assert n - aside >= 99
        assert aside == n - 99  # 100 * alpha is whole: more would waste a part of alpha


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.1, 0.3, 1 / np.pi, 1e-9, 1 - 1e-9])
def test_no_plan_makes_a_threshold_infinite_that_all_rows_would_make_finite(alpha) -> None:
    for n in [*range(1, 400), 999, 1000, 2500]:
        aside = plan_rows(n, alpha, 5, 10)
        assert 0 <= aside < n
        if conformal_rank(n, alpha) <= n:
            assert conformal_rank(n - aside, alpha) <= n - aside
        else:
            assert aside == 0  # nothing would be gained


@pytest.mark.parametrize("split", ["vfcp", "exact"])
@pytest.mark.parametrize("n", [99, 100, 101, 104, 120, 148, 150, 200])
def test_sets_are_finite_wherever_ninety_nine_rows_can_calibrate(rows, n, split) -> None:
    cp = fitted(rows, n, split=split)
    assert cp.predictor_.fitted.n >= 99
    assert cp.predict_set(rows[0][500:700]).sizes.mean() < 60
    assert cp.guarantee_.kind == "exact"


@pytest.mark.parametrize("split", ["vfcp", "exact"])
def test_with_too_few_rows_one_sentence_says_how_many_are_missing(rows, split) -> None:
    with pytest.warns(cx.TrivialSetsWarning, match="at least 99 calibration rows .* got 98"):
        fitted(rows, 98, split=split)


def test_where_no_row_tunes_the_sets_are_those_of_thr_on_all_rows(rows) -> None:
    cp = fitted(rows, 99)
    assert (cp.guarantee_.facts.n_tune, cp.guarantee_.facts.n_cal) == (0, 99)
    thr = cx.ScoreAverage("thr", alpha=0.01, kind="logits").fit(rows[0][:99], rows[1][:99])
    assert np.mean(cp.predict_set(rows[0]).mask != thr.predict_set(rows[0]).mask) < 1e-4
    assert cp.search_ is None
    assert cp.held_out_size_ == pytest.approx(cp.predict_set(rows[0][:99]).sizes.mean())


def bent(rows: tuple[Any, Any], n: int) -> tuple[Any, Any]:
    """The same rows with other labels where they tune, under random state 0."""
    cp = fitted(rows, n)
    share = cp.guarantee_.facts.n_tune / n
    tune = ValidityFirst(share).roles(n, 0, np.random.default_rng(0)).tune
    y = rows[1].copy()
    y[tune] = (y[tune] + 1) % 100
    return rows[0], y


def test_fewer_than_sixteen_planned_rows_teach_a_network_nothing(rows) -> None:
    """Coefficients of one row were worth sets 4 to 11 % larger than those of ``thr``."""
    for n, learns in ((100, False), (114, False), (115, True)):
        cp, other = fitted(rows, n), fitted(bent(rows, n), n)
        assert (cp.guarantee_.facts.n_tune, cp.guarantee_.facts.n_cal) == (n - 99, 99)
        same = np.array_equal(cp.blend_.coefficients, other.blend_.coefficients)
        assert same is not learns  # the labels of these rows are of use, or are not looked at
        prior = prior_of(cp.blend_.columns)
        assert np.array_equal(cp.blend_.coefficients, prior) is not learns
    assert fitted(rows, 100).search_.strategy == "mean of the log-probabilities"
    assert fitted(rows, 115).search_.strategy == "blend by the likelihood of 16 rows"


def test_a_single_planned_row_teaches_a_model_that_gives_zeros(rows) -> None:
    """Its labels tie under the prior, and any order of them is worth more."""
    probs = np.exp(rows[0] - rows[0].max(axis=1, keepdims=True))
    coarse = np.round(20 * probs / probs.sum(axis=1, keepdims=True)) + 0.0
    coarse[:, 0] += coarse.sum(axis=1) == 0
    coarse /= coarse.sum(axis=1, keepdims=True)
    cp = fitted((coarse, rows[1]), 100, kind="probs")
    assert cp.guarantee_.facts.n_tune == 1
    assert not np.array_equal(cp.blend_.coefficients, prior_of(cp.blend_.columns))


def test_a_split_object_that_asks_for_few_rows_learns_from_them(rows) -> None:
    cp = fitted(rows, 105, split=ValidityFirst(0.05))
    assert cp.guarantee_.facts.n_tune == 5
    assert not np.array_equal(cp.blend_.coefficients, prior_of(cp.blend_.columns))


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1])
def test_no_plan_wastes_a_part_of_alpha_by_rounding(alpha) -> None:
    """With 280 rows, 186 that calibrate at alpha = .01 would leave out one in 187."""
    for n in range(rows_needed(alpha) + 1, 1000):
        rest = n - plan_rows(n, alpha, 8, 100)
        assert last_rank_out(rest, alpha) == pytest.approx((rest + 1) * alpha)
        if n > 30 / alpha:
            assert rest < 0.81 * n


def test_who_tunes_does_not_depend_on_the_labels(rows) -> None:
    logits, y = rows
    for n in (99, 103, 130):
        other = np.random.default_rng(n).integers(100, size=len(y))
        one, two = (fitted((logits, labels), n).guarantee_.facts for labels in (y, other))
        assert (one.n_tune, one.n_cal) == (two.n_tune, two.n_cal)


def test_a_pac_threshold_is_finite_wherever_all_rows_make_it_so(rows) -> None:
    """230 rows are the fewest with .99^n <= .1."""
    for n, finite in ((229, False), (230, True), (250, True), (400, True)):
        if finite:
            cp = fitted(rows, n, guarantee="pac", delta=0.1)
        else:
            with pytest.warns(cx.TrivialSetsWarning):
                cp = fitted(rows, n, guarantee="pac", delta=0.1)
        assert (cp.threshold_ > -np.inf) == finite
        assert cp.guarantee_.facts.n_cal >= min(n, 230)


def test_whole_groups_tune_and_leave_enough_rows(rows) -> None:
    sizes = np.array([30, 1, 1, 1, 1, 1, 1, 1, *[5] * 20])
    groups = np.repeat(np.arange(len(sizes)), sizes)
    n = len(groups)
    for seed in range(5):
        cp = fitted(rows, n, groups=groups, random_state=seed)
        assert cp.guarantee_.facts.n_cal >= 99
    one = fitted(rows, 120, groups=np.zeros(120, dtype=int))
    assert (one.guarantee_.facts.n_tune, one.guarantee_.facts.n_cal) == (0, 120)


def test_what_learns_beside_the_blend_keeps_rows_apart(rows) -> None:
    with pytest.warns(cx.TrivialSetsWarning):
        cp = fitted(rows, 99, calibration=PerClass("pooled"))
    assert cp.guarantee_.facts.n_tune == 1
    with pytest.warns(cx.TrivialSetsWarning):
        cp = fitted(rows, 99, normalize="ecdf")
    assert cp.guarantee_.facts.n_tune == 1


@pytest.mark.parametrize("split", [ValidityFirst(0.4), Exact(shortlist=3, share=0.4)])
def test_a_split_object_keeps_the_share_that_it_asks_for(rows, split) -> None:
    with pytest.warns(cx.TrivialSetsWarning, match="got 72"):
        assert fitted(rows, 120, split=split).predictor_.fitted.n == 72


def test_a_blend_of_few_rows_is_not_much_worse_than_one_of_none() -> None:
    """Shrinkage holds it: after one, two or five rows sets of .99 coverage are hardly larger."""
    data = cx.datasets.load("cifar100")
    logits, y = data.outputs["wideresnet_16_4"], data.labels
    sizes: dict[int, list[float]] = {0: [], 1: [], 2: [], 5: []}
    for seed in range(12):
        order = np.random.default_rng(seed).permutation(len(y))
        test = order[10:1010]
        for n_tune, found in sizes.items():
            own = order[:n_tune]
            outputs = check_outputs(logits, "logits", later=True).rows(own)
            columns = dictionary_columns(outputs)
            if n_tune:
                rows = ArrayRows(outputs, y[own], NO_DATA)
                learnt = learn_from(rows, rows, columns)
                left_out = learnt.left_out
                blend = fit_blend(outputs, y[own], learnt.columns, left_out=left_out).blend
            else:
                columns = tuple(column for column in columns if not column.score.learns)
                blend = Blend(columns, prior_of(columns))
            probs = Ranked(blend.logits(check_outputs(logits[test], "logits")), "logits").probs
            found.append(cx.metrics.size_at_coverage(probs, y[test], coverage=0.99))
    none, *few = (np.mean(found) for found in sizes.values())
    assert max(few) < 1.1 * none


@pytest.mark.parametrize(("n", "split"), [(99, "vfcp"), (120, "vfcp"), (120, "exact")])
def test_coverage_is_kept_with_few_rows(n, split) -> None:
    found = measure("cifar100, one network", n, split=split, draws=25, n_test=400)
    assert found.coverage >= 0.99 - 3 * found.error
    assert found.all_labels == 0


def test_rows_needed_of_a_level_are_the_fewest_with_a_finite_threshold() -> None:
    for alpha in (0.3, 0.1, 0.05, 0.01):
        n = rows_needed(alpha)
        assert conformal_rank(n, alpha) <= n
        assert conformal_rank(n - 1, alpha) > n - 1
