"""Which scores set the ends of an interval: sums, shares, and the sentence."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix.errors import InvalidInput
from conformix.regression import PerBin
from conformix.regression.bands import bands
from conformix.regression.explanation import end_shares
from regression.cases import smooth
from regression.responses import model_and_responses, part, two_models

STRATA = np.where(np.arange(160) % 3, "a", "b")
KINDS = {
    "auto": ({}, {}),
    "one score": ({"scores": "norm"}, {}),
    "row numbers": ({"scores": ("abs", "log_sigma", "cqr_m")}, {}),
    "range": ({"y_range": (-2.0, 2.0)}, {}),
    "bins": ({"calibration": PerBin(2)}, {}),
    "group": ({"calibration": "group"}, {"strata": STRATA}),
    "exact": ({"split": "exact", "scores": ("abs", "net.norm")}, {}),
    "exact by group": (
        {"split": "exact", "calibration": "group", "scores": ("abs", "net.norm")},
        {"strata": STRATA},
    ),
    "never empty": (
        {"scores": "net.cqr(low=0.05)", "alpha": 0.95, "allow_empty": False},
        {},
    ),
}


def fitted(kind):
    models, y = two_models(200)
    options, rows = KINDS[kind]
    y = np.clip(y, -2.0, 2.0) if kind == "range" else y
    cp = cx.RegressionAverage(**({"alpha": 0.2, "random_state": 0} | options))
    cp.fit(part(models, slice(160)), y[:160], **rows)
    new = {name: values[:40] for name, values in rows.items()}
    return cp, part(models, slice(160, None)), y[160:], new


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_parts_add_up_to_the_threshold_and_shares_to_one(kind):
    cp, outputs, y, rows = fitted(kind)
    made = cp.predict_interval(outputs, **rows)
    cut = 0
    for i in range(len(made)):
        told = cp.explain(outputs, i, y=y, **rows)
        assert (told.lower, told.upper) == made[i]
        assert told.score_names == cp.score_names_
        for end in (0, 1):
            if told.why[end]:
                cut += 1
                assert np.isnan(told.shares[end]).all()
                continue
            assert_allclose(told.parts[end].sum(), told.thresholds[end], rtol=1e-9, atol=1e-9)
            assert_allclose(told.shares[end].sum(), 1.0)
        assert told.y == y[i]
        inside = bool(made[i : i + 1].contains(y[i : i + 1])[0])
        assert ("lies inside" in told.sentence) == inside
    assert (cut > 0) == (kind in ("range", "never empty"))


def test_a_share_is_how_much_of_its_own_move_a_score_passes_on_to_the_end():
    """Lift one score by a little: the end moves by its share of what it would move by alone."""
    rng = np.random.default_rng(0)
    planes, _ = smooth(rng, 200, 4)
    weights, step = rng.dirichlet(np.ones(4)), 1e-6
    ends = bands(planes, weights, 3.0)
    for side in (0, 1):
        shares = end_shares(planes, weights, ends[side], side)
        for j in range(4):
            lift = np.zeros((200, 4))
            lift[:, j] = step
            moved = bands(type(planes)(planes.centre, planes.offset + lift, planes.below,
                                       planes.above), weights, 3.0)[side]  # fmt: skip
            inwards = (moved - ends[side]) * (1, -1)[side]
            slope = (planes.below, planes.above)[side][:, j]
            same = ((planes.centre[:, j] <= ends[side]) if side else
                    (planes.centre[:, j] >= ends[side]))  # fmt: skip
            near = same & (np.abs(planes.centre - ends[side][:, None]).min(axis=1) > 1e-3)
            assert near.sum() > 100
            assert_allclose((inwards * slope / step)[near], shares[near, j], rtol=1e-4, atol=1e-6)


def test_a_score_whose_centre_lies_beyond_the_end_pulls_it_there():
    model = {"low": cx.Regressed(mean=[0.0] * 9), "high": cx.Regressed(mean=[5.0] * 9)}
    y = np.linspace(0.0, 5.0, 9)
    cp = cx.RegressionAverage("abs", weights=[0.75, 0.25], alpha=0.5).fit(model, y)
    told = cp.explain(model, 0)
    assert told.upper < 5.0
    assert_array_equal(told.shares[1], [1.5, -0.5])
    assert "the upper end is set by low.abs (150 %) and high.abs (-50 %)" in told.sentence


def test_the_sentence_says_what_sets_an_end_where_scores_do_not():
    model = cx.Regressed(mean=np.zeros(9), sigma=np.ones(9))
    y = np.linspace(-1, 1, 9)
    told = cx.RegressionAverage("abs", alpha=0.2, y_range=(-0.5, 4.0))
    told.fit(model, np.clip(y, -0.5, 4.0))
    sentence = told.explain(model, 2).sentence
    assert sentence.startswith("Row 2: from -0.5 to 0.75 at alpha = 0.2; the lower end is that ")
    assert sentence.endswith("of y_range, the upper end is set by abs (100 %).")
    with pytest.warns(cx.TrivialSetsWarning):
        wide = cx.RegressionAverage("abs", alpha=0.01).fit(model, y)
    assert "the lower end is none, the upper end is none" in wide.explain(model).sentence
    both = cx.RegressionAverage("abs", alpha=0.2).fit(model, y).explain(model, y=3.0)
    assert both.sentence == (
        "Row 0: from -1 to 1 at alpha = 0.2; abs (100 %) sets both ends. The response, 3, lies 2 "
        "above the upper end."
    )


def test_an_empty_interval_says_so():
    quantiles = cx.Regressed(quantiles=np.tile([-9.0, 9.0], (20, 1)), levels=[0.1, 0.9])
    quantiles = cx.Regressed(
        quantiles=quantiles.quantiles * np.linspace(0.1, 1, 20)[:, None], levels=[0.1, 0.9]
    )
    cp = cx.RegressionAverage("cqr", alpha=0.5).fit(quantiles, np.zeros(20))
    assert cp.predict_interval(quantiles).is_empty[0]
    told = cp.explain(quantiles, 0, y=0.0)
    assert told.sentence == (
        "Row 0: empty at alpha = 0.5, since the averaged score is nowhere as low as its threshold. "
        "The response, 0, lies outside, as every number does."
    )


def test_the_table_has_both_ends_of_every_score():
    cp, outputs, _, _ = fitted("auto")
    table = cp.explain(outputs, 3).table()
    assert table.title.startswith("Row 3: from ")
    assert [row[0] for row in table.rows] == [*cp.score_names_, "sum"]
    assert all(len(row) == len(table.header) == 7 for row in table.rows)
    assert repr(cp.explain(outputs, 3)) == table.text()


def test_rows_that_are_not_there_are_refused():
    cp, outputs, _, _ = fitted("one score")
    for i in (40, -1, True, 1.0):
        with pytest.raises(InvalidInput, match=r"^i must be a row from 0 to 39; got "):
            cp.explain(outputs, i)
    with pytest.raises(cx.NotFitted):
        cx.RegressionAverage().explain(outputs)


def test_contributions_are_the_widths_without_a_score_and_the_mean_share_in_the_ends():
    models, y = two_models(500)
    old, new = part(models, slice(250)), part(models, slice(250, None))
    cp = cx.RegressionAverage(("abs", "net.norm"), alpha=0.1, random_state=0).fit(old, y[:250])
    told = {one.name: one for one in cp.contributions(new, y[250:])}
    assert set(told) == set(cp.score_names_)
    assert_allclose(sum(one.share for one in told.values()), 1.0)
    rule = cp.predictor_.fitted.rule
    planes = rule.transform(cp.predictor_.check(new))

    def width(weights):
        k = cx.conformal_rank(250, 0.1)
        cut = np.sort(planes.combined(weights, y[250:]))[k - 1]
        lower, upper = bands(planes, weights, cut)
        return (upper - lower).mean()

    for j, name in enumerate(cp.score_names_):
        without = np.where(np.arange(3) == j, 0.0, rule.weights)
        expected = width(without) / width(rule.weights) - 1
        assert_allclose(told[name].larger_without, expected, rtol=1e-9, atol=1e-12)
        assert told[name].weight == rule.weights[j]
    wider = "wider" if told["net.norm"].larger_without >= 0 else "narrower"
    assert repr(told["net.norm"]).endswith(f"% {wider} without it")
    assert "intervals" in repr(told["net.norm"])
    by_model = cx.contributions(cp, new, y[250:], by="model")
    assert {one.name for one in by_model} == {"net", "ridge"}
    assert sum(one.weight for one in by_model) == pytest.approx(1.0)


def test_without_its_only_score_an_average_has_no_ends():
    model, y = model_and_responses(100)
    cp = cx.RegressionAverage("norm", alpha=0.1).fit(model[:50], y[:50])
    (only,) = cp.contributions(model[50:], y[50:])
    assert repr(only) == "norm: weight 1, share 100.0 %, intervals unbounded without it"


def test_tensors_are_explained_as_arrays_are():
    torch = pytest.importorskip("torch")
    cp, outputs, y, _ = fitted("one score")
    net = outputs["net"]
    there = cx.Regressed(
        torch.tensor(net.mean), torch.tensor(net.sigma), torch.tensor(net.quantiles), net.levels
    )
    tensors = {"net": there, "ridge": torch.tensor(outputs["ridge"].mean)}
    truth = torch.tensor(y)
    assert cp.explain(tensors, 4, y=truth).sentence == cp.explain(outputs, 4, y=y).sentence
    assert cp.contributions(tensors, truth) == cp.contributions(outputs, y)
    pages = [cp.report(*rows, alphas=[]).html() for rows in ((tensors, truth), (outputs, y))]
    assert pages[0] == pages[1]
