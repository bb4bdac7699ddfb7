"""`RegressionAverage`: intervals from averaged scores, what they hold and what is promised."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix.calibration import PerGroup, Weighted
from conformix.regression import PerBin
from conformix.regression.bands import bands
from regression.responses import model_and_responses, part, two_models

SETTINGS: dict[str, Any] = {"alpha": 0.2, "random_state": 0, "threads": 1}


def kth_smallest(scores: np.ndarray, alpha: float) -> float:
    """The threshold as every library has it, from the rank of the literature."""
    return float(np.sort(scores)[int(np.ceil((len(scores) + 1) * (1 - alpha) - 1e-9)) - 1])


# Half widths below and above, or the two ends, as MAPIE and crepes write them.
PEERS = {
    "abs": lambda m, q: (m.mean - q, m.mean + q),
    "norm": lambda m, q: (m.mean - q * m.sigma, m.mean + q * m.sigma),
    "cqr": lambda m, q: (m.quantiles[:, 0] - q, m.quantiles[:, -1] + q),
    "cqr_r": lambda m, q: (
        m.quantiles[:, 0] - q * (m.quantiles[:, -1] - m.quantiles[:, 0]),
        m.quantiles[:, -1] + q * (m.quantiles[:, -1] - m.quantiles[:, 0]),
    ),
    "cqr_m": lambda m, q: (
        m.quantiles[:, 0] - q * (m.quantiles[:, 2] - m.quantiles[:, 0]),
        m.quantiles[:, -1] + q * (m.quantiles[:, -1] - m.quantiles[:, 2]),
    ),
}
RESIDUALS = {
    "abs": lambda m, y: np.abs(y - m.mean),
    "norm": lambda m, y: np.abs(y - m.mean) / m.sigma,
    "cqr": lambda m, y: np.maximum(m.quantiles[:, 0] - y, y - m.quantiles[:, -1]),
    "cqr_r": lambda m, y: RESIDUALS["cqr"](m, y) / (m.quantiles[:, -1] - m.quantiles[:, 0]),
    "cqr_m": lambda m, y: np.maximum(
        (m.quantiles[:, 0] - y) / (m.quantiles[:, 2] - m.quantiles[:, 0]),
        (y - m.quantiles[:, -1]) / (m.quantiles[:, -1] - m.quantiles[:, 2]),
    ),
}


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("score", PEERS)
def test_a_single_score_has_the_intervals_of_other_libraries(score: str, alpha: float) -> None:
    model, y = model_and_responses(250)
    cp = cx.RegressionAverage(score, alpha=alpha).fit(model[:150], y[:150])
    made = cp.predict_interval(model[150:])
    threshold = kth_smallest(RESIDUALS[score](model[:150], y[:150]), alpha)
    lower, upper = PEERS[score](model[150:], threshold)
    some = lower <= upper  # quantiles that are much too wide leave nothing
    assert_array_equal(made.is_empty, ~some)
    assert_allclose(made.lower[some], lower[some], rtol=1e-13, atol=1e-13)
    assert_allclose(made.upper[some], upper[some], rtol=1e-13, atol=1e-13)
    assert cp.threshold_ == pytest.approx(threshold, rel=1e-12)


def test_one_score_spends_no_rows_on_tuning() -> None:
    model, y = model_and_responses(100)
    assert cx.RegressionAverage("norm").fit(model, y).guarantee_.facts.n_cal == 100
    several = cx.RegressionAverage(("abs", "norm"), **SETTINGS).fit(model, y)
    assert several.guarantee_.facts.n_cal == 60
    kept = cx.RegressionAverage("norm", split=cx.splits.ValidityFirst(0.25), random_state=0)
    assert kept.fit(model, y).guarantee_.facts.n_cal == 75


def test_contains_is_the_comparison_with_the_two_ends() -> None:
    model, y = model_and_responses(300)
    made = cx.RegressionAverage(**SETTINGS).fit(model[:200], y[:200]).predict_interval(model[200:])
    assert_array_equal(made.contains(y[200:]), (made.lower <= y[200:]) & (y[200:] <= made.upper))


@pytest.mark.parametrize("scores", ["auto", ("abs", "norm"), ("laplace", "cqr_m", "log_sigma")])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("allow_empty", [True, False])
def test_a_response_is_in_wherever_its_score_is_at_most_the_threshold(
    scores: Any, ties: bool, allow_empty: bool
) -> None:
    """Without tolerance, the calibration row at the threshold among them."""
    model, y = model_and_responses(240, ties=ties)
    cp = cx.RegressionAverage(scores, allow_empty=allow_empty, **SETTINGS).fit(model, y)
    fitted = cp.predictor_.fitted
    planes = fitted.rule.transform(cp.predictor_.check(model))
    fits = fitted.rule.of_planes(planes, y) >= fitted.at(0.2)
    assert fits.any()
    assert cp.predict_interval(model).contains(y)[fits].all()


def test_several_levels_are_nested_and_each_is_what_it_is_alone() -> None:
    models, y = two_models(300)
    cp = cx.RegressionAverage(**SETTINGS).fit(part(models, slice(200)), y[:200])
    new = part(models, slice(200, None))
    nested = cp.predict_interval(new, alpha=[0.3, 0.1, 0.2])
    assert nested.alphas == (0.1, 0.2, 0.3)
    assert_array_equal(nested.at(0.2), cp.predict_interval(new))
    assert_array_equal(nested.at(0.3), cp.predict_interval(new, alpha=0.3))
    ends = np.asarray(nested)
    assert (np.diff(ends[..., 0], axis=0) >= 0).all()
    assert (np.diff(ends[..., 1], axis=0) <= 0).all()
    assert np.asarray(nested).shape == (3, 100, 2)


def test_levels_whose_ends_are_rounded_apart_are_nested_all_the_same(monkeypatch) -> None:
    model, y = model_and_responses(60, 5)
    cp = cx.RegressionAverage("abs", random_state=0).fit(model, y)
    ends = {0.1: (0.0, 1.0), 0.2: (-1e-16, 1 + 2.0**-52), 0.3: (0.25, 0.75)}
    monkeypatch.setattr(
        type(cp.predictor_), "_ends", lambda self, outputs, alpha, data: np.array([ends[alpha]]).T
    )
    nested = np.asarray(cp.predict_interval(model[:1], alpha=[0.1, 0.2, 0.3]))[:, 0]
    assert nested.tolist() == [[-1e-16, 1 + 2.0**-52], [-1e-16, 1 + 2.0**-52], [0.25, 0.75]]


def test_averages_of_several_kinds_of_scores_are_narrower_than_each() -> None:
    """The reason why this is here; on rows that are neither tuned nor calibrated on."""
    models, y = two_models(6000, seed=3)
    seen, new = part(models, slice(3000)), part(models, slice(3000, None))
    settings = {"alpha": 0.1, "random_state": 0, "threads": 1}
    averaged = cx.RegressionAverage(**settings).fit(seen, y[:3000]).predict_interval(new)
    for score in ("ridge.abs", "net.norm", "net.cqr", "net.cqr_r"):
        alone = cx.RegressionAverage(score, **settings).fit(seen, y[:3000]).predict_interval(new)
        assert averaged.width.mean() < alone.width.mean()
    assert 0.885 < averaged.contains(y[3000:]).mean() < 0.915


@pytest.mark.parametrize(
    ("split", "kind", "words"),
    [
        ("vfcp", "exact", "weights chosen without these rows"),
        ("holdout", "exact", "weights chosen without these rows"),
        ("exact", "exact", "every candidate response takes part in the selection"),
        ("efcp", "approximate", "the calibration rows also chose the weights"),
        ("all-rows", "approximate", "the calibration rows also chose the weights"),
        ("dlcp", "approximate", "the features of this test batch chose the weights"),
        ("batch+", "approximate", "the features of this test batch chose the weights"),
    ],
)
def test_every_split_states_what_it_promises(split: str, kind: str, words: str) -> None:
    models, y = two_models(300)
    test = {"test": part(models, slice(200, None))} if split.startswith(("dlcp", "batch")) else {}
    cp = cx.RegressionAverage(split=split, **SETTINGS)
    cp.fit(part(models, slice(200)), y[:200], **test)
    assert cp.guarantee_.kind == kind
    assert words in cp.guarantee_.assumption
    assert "class" not in cp.guarantee_.table()
    made = cp.predict_interval(part(models, slice(200, None)))
    assert 0.6 < made.contains(y[200:]).mean() < 0.97


def test_weights_of_dlcp_look_at_the_widths_of_the_test_rows() -> None:
    """With hard test rows the weights differ from those of easy ones."""
    model, y = model_and_responses(600)
    hard = np.argsort(model.sigma)[400:]
    easy = np.argsort(model.sigma)[:200]
    cp = cx.RegressionAverage(("abs", "norm"), split="dlcp", search="grid", **SETTINGS)
    found = [cp.fit(model, y, test=model[rows]).weights_[0] for rows in (easy, hard)]
    assert found[0] != found[1]


def test_the_range_of_the_responses_is_a_stated_assumption() -> None:
    model, y = model_and_responses(300)
    capped = np.clip(y, -1.5, 1.5)
    cp = cx.RegressionAverage(y_range=(-1.5, 1.5), **SETTINGS).fit(model[:200], capped[:200])
    made = cp.predict_interval(model[200:])
    assert "every response within [-1.5, 1.5]" in cp.guarantee_.assumption
    full = made[~made.is_empty]
    assert full.lower.min() >= -1.5
    assert full.upper.max() <= 1.5
    assert made.contains(capped[200:]).mean() > 0.6
    assert cp.guarantee_.facts.largest == 3.0
    cp.set_params(split="efcp").fit(model[:200], capped[:200])
    assert "size: vacuous (range of length 3)" in cp.guarantee_.table()


def test_a_range_is_never_taken_from_the_responses() -> None:
    model, y = model_and_responses(300)
    plain = cx.RegressionAverage(**SETTINGS).fit(model[:200], y[:200])
    with pytest.warns(cx.TrivialSetsWarning, match="every interval is unbounded"):
        made = plain.predict_interval(model[200:], alpha=0.004)
    assert_array_equal(np.asarray(made), np.broadcast_to([-np.inf, np.inf], (100, 2)))
    assert "inf" in plain.guarantee_.table()
    with pytest.raises(cx.InvalidInput, match=r"y_range says .* \[0, 1\], and row 0 of y"):
        cx.RegressionAverage(y_range=(0, 1)).fit(model, np.full(300, 2.0))


@pytest.mark.filterwarnings("ignore::conformix.TrivialSetsWarning")
def test_too_few_rows_leave_the_whole_range() -> None:
    model, y = model_and_responses(5)
    cp = cx.RegressionAverage("abs", y_range=(-100, 100)).fit(model, y)
    assert_array_equal(np.asarray(cp.predict_interval(model)), np.broadcast_to([-100, 100], (5, 2)))


@pytest.mark.filterwarnings("ignore:alpha=0.02 needs at least 49 cal")
@pytest.mark.parametrize("scores", [("abs", "norm"), "auto"])
def test_too_few_tuning_rows_warn_and_take_equal_weights(scores: Any) -> None:
    model, y = model_and_responses(40)
    cp = cx.RegressionAverage(scores, alpha=0.02, random_state=0, threads=1)
    with pytest.warns(cx.TrivialSetsWarning, match="tuning rows .* all weights tie"):
        cp.fit(model, y)
    assert_allclose(cp.weights_, 1 / len(cp.weights_))


def test_rows_without_any_spread_have_a_score_all_the_same() -> None:
    model, y = model_and_responses(120)
    flat = cx.Regressed(model.mean, np.zeros(120), model.quantiles * 0, model.levels)
    for split in ("vfcp", "exact"):
        cp = cx.RegressionAverage(split=split, **SETTINGS).fit(flat[:80], y[:80])
        assert cp.predict_interval(flat[80:]).contains(y[80:]).mean() > 0.5


def test_too_few_rows_warn_that_intervals_are_unbounded() -> None:
    model, y = model_and_responses(5)
    with pytest.warns(cx.TrivialSetsWarning, match="4 too few: every interval is unbounded"):
        cx.RegressionAverage("abs").fit(model, y)


def empty_prone(n: int, seed: int = 0) -> tuple[cx.Regressed, np.ndarray]:
    """Quantiles that are much too wide in one half of the rows."""
    rng = np.random.default_rng(seed)
    half = np.where(np.arange(n) % 2, 0.1, 5.0)
    quantiles = np.column_stack([-half, 0 * half, half])
    return cx.Regressed(quantiles=quantiles, levels=[0.1, 0.5, 0.9]), rng.uniform(-1, 1, size=n)


def test_where_none_may_be_empty_the_best_response_stays_in() -> None:
    model, y = empty_prone(400)
    may = cx.RegressionAverage("cqr", alpha=0.6).fit(model, y)
    must = cx.RegressionAverage("cqr", alpha=0.6, allow_empty=False).fit(model, y)
    with_empty, without = may.predict_interval(model), must.predict_interval(model)
    assert with_empty.is_empty.any()
    assert not without.is_empty.any()
    assert without.contains(0.0).all()  # the centre of every row
    assert_array_equal(with_empty.width[with_empty.is_empty], 0)
    inside = cx.RegressionAverage("cqr", alpha=0.6, allow_empty=False, y_range=(0.5, 1.0))
    clipped = inside.fit(model, np.full(400, 0.75)).predict_interval(model)
    assert not clipped.is_empty.any()
    assert clipped.lower.min() >= 0.5


def test_rows_whose_best_response_is_the_truth_are_covered_in_calibration_too() -> None:
    """By one rule: where most rows are, no other response is needed."""
    model, y = model_and_responses(40)
    sure = np.where(np.arange(40) % 3 > 0, model.mean, y)
    cp = cx.RegressionAverage("laplace", alpha=0.5, allow_empty=False).fit(model, sure)
    assert cp.threshold_ == -np.inf
    assert_allclose(cp.predict_interval(model).width, 0, atol=1e-9)


def test_a_threshold_per_group() -> None:
    model, y = model_and_responses(900)
    group = np.where(model.sigma > 1, "hard", "easy")
    cp = cx.RegressionAverage("abs", calibration="group", alpha=0.2)
    cp.fit(model[:600], y[:600], strata=group[:600])
    made = cp.predict_interval(model[600:], strata=group[600:])
    for name in ("hard", "easy"):
        own = group[:600] == name
        alone = cx.RegressionAverage("abs", alpha=0.2).fit(model[:600][own], y[:600][own])
        rows = group[600:] == name
        expected = alone.predict_interval(model[600:][rows])
        assert_array_equal(np.asarray(made[rows]), np.asarray(expected))
        assert cp.threshold_[name] == alone.threshold_
    assert cp.guarantee_.statement == "P(y in set | group of the row) >= 1 - alpha"


def test_a_threshold_per_bin_of_difficulty_evens_out_the_coverage() -> None:
    model, y = model_and_responses(9000, seed=4)
    settings = {"alpha": 0.1, "random_state": 0, "threads": 1}
    gaps = []
    for calibration in ("marginal", "bins"):
        cp = cx.RegressionAverage(("abs", "cqr"), calibration=calibration, **settings)
        made = cp.fit(model[:5000], y[:5000]).predict_interval(model[5000:])
        gaps.append(cx.metrics.bin_coverage_gap(made, y[5000:], alpha=0.1, by=model.sigma[5000:]))
        if calibration == "bins":
            bins = cp.predictor_.bins.of(cp.predictor_.check(model[5000:]))
            for one in range(3):
                assert 0.87 < made.contains(y[5000:])[bins == one].mean() < 0.93
    assert gaps[1] < gaps[0]
    assert cp.guarantee_.kind == "exact"


@pytest.mark.filterwarnings("ignore::conformix.TrivialSetsWarning")
def test_edges_of_bins_come_from_tuning_rows() -> None:
    """Other responses and other features of calibration rows leave the edges as they are."""
    model, y = model_and_responses(400)
    cp = cx.RegressionAverage(("abs", "norm"), calibration=PerBin(4), **SETTINGS).fit(model, y)
    before = cp.predictor_.bins.edges
    assert len(before) == 3
    roles = cp.guarantee_.facts
    assert roles.n_tune == 160
    tuning = _tuning_rows(400)
    sigma = model.sigma.copy()
    sigma[~tuning] *= 7
    changed = cx.Regressed(model.mean, sigma)
    moved = np.where(tuning, y, y + 3)
    again = cx.RegressionAverage(("abs", "norm"), calibration=PerBin(4), **SETTINGS)
    assert_array_equal(again.fit(changed, moved).predictor_.bins.edges, before)


def _tuning_rows(n: int) -> np.ndarray:
    from conformix.scores.tensor import draw_key

    rng = np.random.default_rng(0)
    draw_key(rng)
    tune = cx.splits.ValidityFirst(0.4).roles(n, 0, rng).tune
    return np.isin(np.arange(n), tune)


def test_bins_of_equal_difficulty_are_one_bin() -> None:
    model, y = model_and_responses(200)
    cp = cx.RegressionAverage("abs", calibration="bins", **SETTINGS).fit(model, y)
    assert len(cp.predictor_.bins.edges) == 0
    assert cp.threshold_.keys() == {0}


def test_equal_importance_weights_change_nothing_and_heavy_rows_count() -> None:
    model, y = model_and_responses(200)
    plain = cx.RegressionAverage("norm", alpha=0.2).fit(model, y)
    cp = cx.RegressionAverage("norm", alpha=0.2, calibration=Weighted(known=True))
    same = cp.fit(model, y, sample_weight=np.ones(200))
    made = same.predict_interval(model, sample_weight=np.ones(200))
    assert_array_equal(np.asarray(made), np.asarray(plain.predict_interval(model)))
    misses = ~made.contains(y)
    heavy = cp.fit(model, y, sample_weight=np.where(misses, 5.0, 1.0))
    wider = heavy.predict_interval(model, sample_weight=np.ones(200))
    assert (wider.width > made.width).all()


def test_a_pac_statement_widens_and_says_so() -> None:
    model, y = model_and_responses(400)
    plain = cx.RegressionAverage(**SETTINGS).fit(model, y)
    sure = cx.RegressionAverage(guarantee="pac", delta=0.05, **SETTINGS).fit(model, y)
    assert sure.guarantee_.kind == "pac"
    assert "probability >= 0.95" in sure.guarantee_.statement
    assert (sure.predict_interval(model).width > plain.predict_interval(model).width).all()


def test_a_pac_statement_of_all_rows_needs_weights_that_are_counted() -> None:
    model, y = model_and_responses(400)
    cp = cx.RegressionAverage(("abs", "norm"), split="efcp", guarantee="pac", **SETTINGS)
    with pytest.raises(cx.InvalidInput, match="counts the weights beforehand"):
        cp.fit(model, y)
    cp.set_params(normalize="none", search=cx.search.GridSearch(10)).fit(model, y)
    assert cp.guarantee_.kind == "pac"
    assert "chosen among 11 candidates" in cp.guarantee_.assumption


def test_the_ledger_does_not_count_weights_that_a_scale_multiplied() -> None:
    model, y = model_and_responses(300)
    for normalize, counted in (("auto", 0), ("none", 101)):
        cp = cx.RegressionAverage(
            ("abs", "norm"), split="efcp", search="grid", normalize=normalize, **SETTINGS
        ).fit(model, y)
        assert cp.guarantee_.facts.n_weights == counted


def test_recalibrated_weights_are_exact_on_fresh_rows() -> None:
    models, y = two_models(500)
    cp = cx.RegressionAverage(split="efcp", **SETTINGS).fit(part(models, slice(200)), y[:200])
    weights = cp.weights_
    cp.recalibrate(part(models, slice(200, 400)), y[200:400])
    assert_array_equal(cp.weights_, weights)
    assert cp.guarantee_.kind == "exact"
    assert cp.guarantee_.facts.n_cal == 200
    fitted = cp.predictor_.fitted
    rows = cp.predictor_.check(part(models, slice(200, 400)))
    scores = fitted.rule.transform(rows).combined(weights, y[200:400])
    assert cp.threshold_ == np.sort(scores)[cx.conformal_rank(200, 0.2) - 1]


def test_groups_stay_on_one_side_of_the_split() -> None:
    model, y = model_and_responses(200)
    groups = np.arange(200) // 10
    cp = cx.RegressionAverage(("abs", "norm"), **SETTINGS).fit(model, y, groups=groups)
    assert cp.guarantee_.facts.grouped
    assert cp.guarantee_.facts.n_cal % 10 == 0


def test_weights_by_hand_are_of_scores_as_they_are() -> None:
    model, y = model_and_responses(100)
    cp = cx.RegressionAverage(("abs", "norm"), weights=[0.25, 0.75], alpha=0.2).fit(model, y)
    scores = 0.25 * np.abs(y - model.mean) + 0.75 * (np.abs(y - model.mean) * (1 / model.sigma))
    assert cp.threshold_ == pytest.approx(kth_smallest(scores, 0.2), rel=1e-12)
    equal = cx.RegressionAverage(("abs", "norm"), weights="equal", alpha=0.2).fit(model, y)
    assert_array_equal(equal.weights_, [0.5, 0.5])


def test_candidates_and_own_searches_choose_among_weights() -> None:
    model, y = model_and_responses(200)
    listed = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    cp = cx.RegressionAverage(("abs", "norm"), search=listed, **SETTINGS).fit(model, y)
    assert cp.weights_.tolist() in listed

    def own(objective: Any, rng: Any) -> Any:
        tried = rng.dirichlet(np.ones(objective.d), size=20)
        best = int(np.argmin(objective(tried)))
        return cx.regression.WidthResult(tried[best], 0.0, 20, "dirichlet")

    found = cx.RegressionAverage(("abs", "norm"), search=own, **SETTINGS).fit(model, y)
    assert found.search_.strategy == "dirichlet"
    with pytest.raises(cx.InvalidInput, match="must return a result with weights"):
        cx.RegressionAverage(("abs", "norm"), search=lambda o, r: None, **SETTINGS).fit(model, y)


def test_searched_weights_are_the_narrowest_of_the_grid() -> None:
    """A loop over the grid, with the rank and the widths by hand."""
    model, y = model_and_responses(120)
    cp = cx.RegressionAverage(
        ("abs", "norm"), search=cx.search.GridSearch(20), tune_alpha=0.2, **SETTINGS
    ).fit(model, y)
    tune = _tuning_rows(120)
    planes = cp.predictor_.fitted.rule.transform(cp.predictor_.check(model[tune]))
    k = cx.conformal_rank(int(tune.sum()), 0.2)
    found = {}
    for step in range(21):
        w = np.array([step / 20, 1 - step / 20])
        threshold = np.sort(planes.combined(w, y[tune]))[k - 1]
        lower, upper = bands(planes, w, threshold)
        found[step] = (upper - lower).mean()
    best = min(found.values())
    assert found[round(20 * cp.weights_[0])] == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"calibration": "class"}, "did you mean 'group'"),
        ({"calibration": "mondrian"}, "did you mean 'bins'"),
        ({"calibration": cx.calibration.PerClass()}, "is about classes"),
        ({"calibration": PerGroup(by_class=True)}, "is about classes"),
        ({"calibration": "bins", "weights": [0.5, 0.5]}, "fixed weights leave none"),
        ({"calibration": "bins", "split": "efcp"}, 'split "efcp" has none'),
        ({"calibration": "bins", "split": "exact"}, r"Exact\(shortlist=\.\.\.\)"),
        ({"search": "line"}, "responses have widths"),
        ({"split": "exact", "tune_alpha": 0.1}, "selects at alpha alone"),
        ({"split": "exact", "guarantee": "pac"}, "no such law is known"),
        ({"tune_alpha": []}, "at least one level"),
        ({"tune_alpha": 2.0}, "tune_alpha must be a number"),
        ({"y_range": (1, 0)}, "the first below the second"),
        ({"y_range": "wide"}, "two numbers"),
        ({"guarantee": "sure"}, "guarantee must be"),
        ({"weights": [0.5, 0.6]}, "sum to 1"),
        ({"alpha": 10}, "alpha must be"),
        ({"allow_empty": "no"}, "allow_empty must be True or False"),
        ({"split": "dlcp"}, "pass them"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused_in_one_sentence(
    options: dict[str, Any], sentence: str
) -> None:
    model, y = model_and_responses(60)
    with pytest.raises(cx.InvalidInput, match=sentence) as caught:
        cx.RegressionAverage(("abs", "norm"), **({"random_state": 0} | options)).fit(model, y)
    assert "\n" not in str(caught.value)


def test_parameters_are_scikit_learns() -> None:
    from sklearn.base import clone

    cp = cx.RegressionAverage(("abs",), alpha=0.2, y_range=(0, 1))
    assert clone(cp).get_params() == cp.get_params()
    assert repr(cp) == "RegressionAverage(scores=('abs',), alpha=0.2, y_range=(0, 1))"
    with pytest.raises(TypeError, match="say alpha"):
        cx.RegressionAverage(confidence_level=0.9)
    with pytest.raises(cx.NotFitted, match="call fit"):
        cp.predict_interval([0.0])


def test_rows_of_one_call_are_what_they_are_one_by_one() -> None:
    models, y = two_models(150)
    for options in ({}, {"split": "exact"}, {"calibration": "bins"}, {"allow_empty": False}):
        cp = cx.RegressionAverage(("abs", "norm", "cqr"), **(SETTINGS | options))
        cp.fit(part(models, slice(100)), y[:100])
        together = np.asarray(cp.predict_interval(part(models, slice(100, 112))))
        alone = [cp.predict_interval(part(models, slice(i, i + 1))) for i in range(100, 112)]
        assert_array_equal(np.vstack([np.asarray(one) for one in alone]), together)


@pytest.mark.parametrize("split", ["vfcp", "exact"])
def test_fitted_averages_are_copied_and_pickled(split: str) -> None:
    models, y = two_models(120)
    cp = cx.RegressionAverage(("abs", "norm"), split=split, **SETTINGS).fit(models, y)
    expected = np.asarray(cp.predict_interval(models))
    for again in (copy.deepcopy(cp), pickle.loads(pickle.dumps(cp))):
        assert_array_equal(np.asarray(again.predict_interval(models)), expected)


def test_the_same_seed_gives_the_same_intervals() -> None:
    models, y = two_models(200)
    made = [
        np.asarray(cx.RegressionAverage(**SETTINGS).fit(models, y).predict_interval(models))
        for _ in range(2)
    ]
    assert_array_equal(made[0], made[1])
