"""The page of a model of responses: its numbers are the library's own, and a browser opens it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix import metrics
from conformix.errors import InvalidInput
from conformix.regression import PerBin
from conformix.regression.bands import bands
from conformix.report import build_report
from conformix.report.page import fixed
from regression.responses import model_and_responses, part, two_models
from report.pages import assert_accessible, reading, shown, unfold

MEASURED = (
    "coverage", "coverage_low", "coverage_high", "mean_width", "median_width", "interval_score",
    "bin_coverage_gap", "empty_interval_rate",
)  # fmt: skip


class Case(NamedTuple):
    """A fitted model of three scores, rows it has not seen, and its report."""

    model: cx.RegressionAverage
    outputs: cx.Regressed
    y: np.ndarray
    report: Any


@pytest.fixture(scope="module")
def case() -> Case:
    model, y = model_and_responses(900)
    cp = cx.RegressionAverage(("abs", "norm", "cqr(low=0.05)"), alpha=0.1, random_state=0)
    cp.fit(model[:400], y[:400])
    made = cp.report(model[400:], y[400:], alphas=[0.05, 0.2], title="A <b>bold</b> title")
    return Case(cp, model[400:], y[400:], made)


@pytest.fixture(scope="module")
def page_file(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return case.report.save(tmp_path_factory.mktemp("intervals") / "report.html")


def test_the_measures_are_those_of_the_librarys_own_calls(case) -> None:
    columns = case.report.measured.columns
    for a, alpha in enumerate(case.report.rows.alphas):
        made = case.model.predict_interval(case.outputs, alpha=alpha)
        told = metrics.evaluate(made, case.y, alpha=alpha)
        for name in MEASURED:
            assert columns[name][a, 0] == told[name]
        verdict = case.model.verdict(case.outputs, case.y, alpha=alpha)
        assert case.report.measured.judged[a].coverage == verdict.coverage
        assert case.report.measured.judged[a].law.chance == verdict.law.chance
    assert case.report.rows.alphas == (0.05, 0.1, 0.2)
    assert case.report.drift.startswith("No sign of drift")
    again = case.model.check_drift(case.outputs, case.y).verdict
    assert case.report.drift.lower() == f"{again}.".lower()


def by_halves(case: Case, weights: np.ndarray, alpha: float) -> tuple[np.ndarray, int]:
    """Widths and hits of one weighting, calibrated on one half and measured on the other."""
    order = np.random.default_rng(0).permutation(len(case.y))
    cut = len(order) // 2
    first, second = np.sort(order[:cut]), np.sort(order[cut:])
    planes = case.model.predictor_.fitted.rule.transform(case.model.predictor_.check(case.outputs))
    widths, hits = np.empty(len(case.y)), 0
    for calibrate, test in ((first, second), (second, first)):
        values = np.sort(planes.rows(calibrate).combined(weights, case.y[calibrate]))
        threshold = values[cx.conformal_rank(len(calibrate), alpha) - 1]
        lower, upper = bands(planes.rows(test), weights, threshold)
        widths[test] = upper - lower
        hits += int(((lower <= case.y[test]) & (case.y[test] <= upper)).sum())
    return widths, hits


def test_other_methods_are_calibrated_on_one_half_and_measured_on_the_other(case) -> None:
    table = case.report.methods
    scores = ("abs", "norm", "cqr(low=0.05)")
    assert table.names == ("this model", "its scores, recalibrated", *scores, "uniform weights")
    tried = [case.model.weights_, *np.eye(3), np.full(3, 1 / 3)]
    for a, alpha in enumerate(case.report.rows.alphas):
        found = [by_halves(case, weights, alpha) for weights in tried]
        singles = [widths.mean() for widths, _ in found[1:4]]
        assert table.baselines[a] == scores[int(np.argmin(singles))]
        base = found[1 + int(np.argmin(singles))][0]
        for place, (widths, hits) in enumerate(found, 1):
            assert_allclose(table.columns["size"][a, place], widths.mean(), rtol=1e-12)
            assert table.columns["coverage"][a, place] == hits / len(case.y)
            gain = (base - widths).mean() / base.mean()
            assert_allclose(table.columns["gain"][a, place], gain, rtol=1e-9, atol=1e-12)
            ordered = np.sort(widths)
            for name, q in (("q10", 0.1), ("q50", 0.5), ("q90", 0.9)):
                told = case.report.widths.columns[name][a, place]
                assert_allclose(told, ordered[int(q * len(ordered))], rtol=1e-12)
    assert table.relative


def test_the_weight_map_has_the_widths_and_hits_of_every_weighting(case) -> None:
    found = case.report.weights
    assert found.resolution == 50
    for place in (0, 17, 400, 1325):
        for a, alpha in enumerate(case.report.rows.alphas):
            widths, hits = by_halves(case, found.grid[place] / 50, alpha)
            assert_allclose(found.totals[a, place], widths.sum(), rtol=1e-9)
            assert found.hits[a, place] == hits


def test_bins_are_those_of_the_width_at_the_fitted_level(case) -> None:
    made = case.model.predict_interval(case.outputs)
    for a, alpha in enumerate(case.report.rows.alphas):
        own = case.model.predict_interval(case.outputs, alpha=alpha)
        bins = metrics.coverage_by_bins(own, case.y, by=made.width, n_bins=5)
        assert_array_equal(case.report.bins.columns["coverage"][a], [one.coverage for one in bins])
        assert_array_equal(case.report.bins.columns["size"][a], [one.mean_width for one in bins])
        for b, one in enumerate(bins):
            ends = metrics.share_interval(round(one.coverage * one.rows), one.rows)
            told = [case.report.bins.columns[end][a, b] for end in ("low", "high")]
            assert tuple(told) == ends
    sentence = case.report.bins.sentences[1]
    hard = case.report.bins.columns["coverage"][1, -1]
    assert f"{100 * hard:.1f} % of the hardest are covered" in sentence
    assert 'calibration="bins"' in sentence


def test_the_histogram_counts_every_row_once(case) -> None:
    found = case.report.widths
    for a, alpha in enumerate(case.report.rows.alphas):
        widths = case.model.predict_interval(case.outputs, alpha=alpha).width
        assert found.counts[a].sum() == len(case.y)
        inner = ((widths >= found.edges[3]) & (widths < found.edges[4])).sum()
        assert found.counts[a, 3] == inner
        assert found.counts[a, -1] == (widths >= found.edges[-2]).sum()


def test_rows_of_the_picture_are_spread_and_misses_are_the_largest(case) -> None:
    made = case.model.predict_interval(case.outputs)
    shown_rows = case.report.picture.rows
    middles = ((made.lower + made.upper) / 2)[shown_rows]
    assert (np.diff(middles) >= 0).all()
    assert len(set(shown_rows.tolist())) == 90
    assert_array_equal(case.report.picture.columns["lower"][1], made.lower[shown_rows])
    explained = case.report.explained
    outside = np.maximum(np.maximum(made.lower - case.y, case.y - made.upper), 0)
    misses = [row for row, kind in zip(explained.picture.rows, explained.kinds, strict=True)
              if kind == "missed"]  # fmt: skip
    assert_array_equal(misses, np.argsort(-outside, kind="stable")[: len(misses)])
    assert len(misses) == 12
    assert_array_equal(explained.outside[1], outside[explained.picture.rows])
    for row, sentence, kind in zip(
        explained.picture.rows, explained.sentences, explained.kinds, strict=True
    ):
        whole = case.model.explain(case.outputs, int(row)).sentence
        assert whole.endswith(f"{sentence}.")
        assert (outside[row] > 0) == (kind == "missed")
    widths = {kind: made.width[row] for row, kind in zip(explained.picture.rows, explained.kinds,
                                                         strict=True)}  # fmt: skip
    assert widths["narrow"] < widths["middling"] < widths["wide"]


def test_the_opening_tells_of_a_row_of_middling_width_that_holds_its_response(case) -> None:
    made = case.model.predict_interval(case.outputs)
    row = case.report.opening.row
    digits = case.report.rows.digits
    assert made.contains(case.y)[row]
    off = np.abs(made.width - np.median(made.width))
    assert off[row] == off[made.contains(case.y)].min()
    text = case.report.opening.sentences[1].replace("\u2212", "-")
    ends = f"from {made.lower[row]:.{digits}f} to {made.upper[row]:.{digits}f}"
    assert ends in text
    assert text.endswith(f"which holds its response, {case.y[row]:.{digits}f}.")
    compared = case.report.methods.sentences[1]
    plain, ours = (case.report.methods.columns["size"][1, i] for i in (2, 1))
    assert f"{100 * (1 - ours / plain):.1f} % (95 % interval" in compared
    assert f"narrower than those of the plain method (abs, {'absolute residuals'}" in compared


STRATA = np.where(np.arange(400) % 2, "odd", "even")
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one score": ({"scores": "abs"}, {}),
    "one score that is not plain": ({"scores": "net.norm"}, {}),
    "two scores": ({"scores": ("net.abs", "net.norm")}, {}),
    "all": ({}, {}),
    "a number per row": ({"scores": ("net.abs", "net.log_sigma")}, {}),
    "exact": ({"scores": ("net.abs", "net.norm"), "split": "exact"}, {}),
    "bins": ({"calibration": PerBin(2)}, {}),
    "groups": ({"calibration": "group", "scores": "norm"}, {"strata": STRATA}),
    "weighted": ({"calibration": "weighted", "scores": "norm"},
                 {"sample_weight": np.linspace(1, 2, 400)}),
    "not promised": ({"split": "efcp"}, {}),
    "pac": ({"guarantee": "pac"}, {}),
    "range": ({"y_range": (-60.0, 60.0), "allow_empty": False}, {}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_models_of_every_kind_have_a_page(kind: str) -> None:
    models, y = two_models(400)
    if kind == "one score":
        models = {"net": models["net"]}
    options, rows = KINDS[kind]
    cp = cx.RegressionAverage(**({"alpha": 0.2, "random_state": 0} | options))
    old, new = ({name: values[some] for name, values in rows.items()}
                for some in (slice(200), slice(200, None)))  # fmt: skip
    cp.fit(part(models, slice(200)), y[:200], **old)
    found = build_report(cp, part(models, slice(200, None)), y[200:], alphas=[0.1], **new)
    for a, alpha in enumerate(found.rows.alphas):
        made = cp.predict_interval(part(models, slice(200, None)), alpha=alpha, **new)
        assert found.measured.columns["mean_width"][a, 0] == made.width.mean()
    page = found.html()
    assert "<!doctype html>" in page
    assert ("Promised" in page) == found.measured.promised
    assert found.measured.promised == (kind not in ("not promised", "weighted"))
    assert (found.weights is None) == (len(cp.score_names_) == 1)
    if kind == "one score":
        assert found.methods.sentences[1].startswith("This model is the plain method itself")
    if kind == "one score that is not plain":
        assert found.methods.names == ("this model", "net.norm", "net.abs", "ridge.abs")


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_a_handful_of_rows_has_a_page_too(case, n: int) -> None:
    """Halves of so few rows leave intervals unbounded: they are told as such."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = build_report(case.model, case.outputs[:n], case.y[:n])
    assert "<!doctype html>" in made.html()
    if n == 5:
        assert np.isinf(made.methods.columns["size"][:, 1]).any()
        assert "∞" in made.html()


def test_what_only_labels_have_is_refused(case) -> None:
    with pytest.raises(InvalidInput, match="class_names are those of labels, and responses have"):
        build_report(case.model, case.outputs, case.y, class_names=["a"])
    with pytest.raises(cx.NotFitted):
        build_report(cx.RegressionAverage(), case.outputs, case.y)
    message = "a fitted ScoreAverage or RegressionAverage; got 3"
    with pytest.raises(InvalidInput, match=message):
        build_report(3, case.outputs, case.y)


def test_the_slider_moves_every_number_to_what_the_library_gives(
    open_page, case, page_file
) -> None:
    page = open_page(page_file)
    for a, alpha in enumerate(case.report.rows.alphas):
        page.locator("#level").fill(str(a))
        made = case.model.predict_interval(case.outputs, alpha=alpha)
        told = metrics.evaluate(made, case.y, alpha=alpha)
        numbers = shown(page)
        wanted = [name for name in MEASURED if f"measured.{name}" in {key for key, _ in numbers}]
        assert len(wanted) == 8
        for name in wanted:
            assert numbers[f"measured.{name}", 0][0] == told[name]
        for section, columns in case.report.own_columns.items():
            for name, column in columns.items():
                for i in range(0, column.shape[1], 7):
                    if (f"{section}.{name}", i) in numbers:
                        assert numbers[f"{section}.{name}", i][0] == column[a, i]
        for value, text, digits, scale in numbers.values():
            assert text == fixed(value, int(digits), scale)
        outside = page.locator("#intervals g.outside").count()
        picture = case.report.picture
        inside = (picture.columns["lower"][a] <= picture.y) & (
            picture.y <= picture.columns["upper"][a]
        )
        assert outside == (~inside).sum()
        bars = page.locator("#histogram rect.bar-rows")
        assert bars.count() == (case.report.widths.counts[a] > 0).sum()
        assert page.locator("#difficulty .intro").inner_text().replace("\u202f", " ").endswith(
            case.report.bins.sentences[a]
        )  # fmt: skip
    assert page.locator("h1").inner_text() == "A <b>bold</b> title"


def test_the_triangle_reads_widths(open_page, case, page_file) -> None:
    page = open_page(page_file)
    unfold(page)
    page.locator("#weight-0").focus()
    page.keyboard.press("Home")
    page.locator("#weight-1").focus()
    page.keyboard.press("Home")
    weights, values = reading(page, "chosen")
    assert weights == ["0.00", "0.00", "1.00"]
    widths, hits = by_halves(case, np.array([0.0, 0.0, 1.0]), 0.1)
    assert_allclose(values, [widths.mean(), hits / len(case.y)], rtol=1e-9)
    text = page.locator("#weight-1").get_attribute("aria-valuetext")
    assert text.startswith("abs 0.00, norm 0.00, cqr(low=0.05) 1.00: mean width ")


@pytest.mark.parametrize("scores", [("abs", "log_sigma"), ("abs", "norm", "cqr", "log_gap")])
def test_unbounded_intervals_leave_the_charts_standing(open_page, tmp_path, scores) -> None:
    model, y = model_and_responses(300)
    cp = cx.RegressionAverage(scores, alpha=0.2, random_state=0).fit(model[:200], y[:200])
    made = cp.report(model[200:], y[200:], alphas=[0.1])
    assert np.isinf(made.weights.totals).any()
    page = open_page(made.save(tmp_path / "report.html"))
    unfold(page)
    drawn = page.locator("#map svg").inner_html() + page.locator("#curve svg").inner_html()
    assert "NaN" not in drawn
    assert "Infinity" not in drawn


def test_axe_finds_no_violation(open_page, page_file) -> None:
    assert_accessible(open_page, page_file, "dark", 360)


@pytest.mark.long(short="test_axe_finds_no_violation")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_axe_finds_no_violation_whatever_the_colours_and_the_width(
    open_page, page_file, scheme: str, width: int
) -> None:
    assert_accessible(open_page, page_file, scheme, width)


def test_a_narrow_screen_needs_no_sideways_scrolling(open_page, page_file) -> None:
    page = open_page(page_file, width=360)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
