"""Every two options that may stand together, fitted together, and every promise kept."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import conformix as cx
from conformix.errors import InvalidInput
from conformix.scores.uniforms import row_uniforms
from crossings.axes import AXES, REFUSED, Combination, Refusal, may_stand_together
from crossings.fits import DELTA, Case
from crossings.objectives import Selected, cost, listed, size_rows, tried
from crossings.pairs import allowed_pairs, covering_array
from crossings.plain import ALWAYS, EVERY, Fit, beta_binomial, combined, level

pytestmark = [
    pytest.mark.filterwarnings("ignore::conformix.errors.TrivialSetsWarning"),
    pytest.mark.filterwarnings("ignore::conformix.errors.SmallBatchWarning"),
]
ARRAY = covering_array()
NUMBERS = range(len(ARRAY))
LEVELS = (0.05, 0.2, 0.5)  # beside that of the fit
KEPT = ("alpha", "tune_alpha", "split", "kind", "allow_empty", "guarantee", "delta", "objective")


def name_of(number: int) -> str:
    c = ARRAY[number]
    return f"{number}: {c['split']}; {c['calibration']}; {c['search']}; {c['input']}"


every_combination = pytest.mark.parametrize("number", NUMBERS, ids=name_of)


@cache
def fitted(number: int) -> Fit:
    """The fit of a combination, with its plain twin."""
    case = Case(ARRAY[number], number)
    model = case.fit()
    return Fit(case, model, case.roles[-1] if case.roles else None)


def predicted(fit: Fit, model: Any, name: str = "new", **options: Any) -> Any:
    case, rows = fit.case, fit.case.rows[name]
    return model.predict_set(case.outputs(rows), **options, **case.row_data(rows))


@cache
def own_sets(fit: Fit, alpha: float | None = None) -> Any:
    """What the fitted model predicts for the new rows."""
    return predicted(fit, fit.model, alpha=alpha)


@cache
def plain_sets(fit: Fit, alpha: float) -> np.ndarray:
    if fit.case.exact:
        return selected(fit, alpha).sets()
    return fit.calibrated.sets("new", alpha)


@cache
def selected(fit: Fit, alpha: float) -> Selected:
    """The labels of the new rows under the weights that they select."""
    return Selected(fit, "new", alpha, exact_candidates(fit))


def exact_candidates(fit: Fit) -> np.ndarray:
    """The candidates of the exact split: all, or those that a shortlist keeps."""
    fitted: Any = fit.model.predictor_.fitted
    return fitted.weights


# The array itself.


def test_every_two_values_that_may_stand_together_do() -> None:
    met = {pair for c in ARRAY for pair in itertools.combinations(c.items(), 2)}
    assert set(allowed_pairs()) <= met
    assert all(may_stand_together(combination) for combination in ARRAY)
    assert all(set(combination) == set(AXES) for combination in ARRAY)


def refused_values() -> Iterator[tuple[Refusal, Combination]]:
    for refusal in (one for one in REFUSED if one.sentence is not None):
        for values in itertools.product(*refusal.values.values()):
            yield refusal, dict(zip(refusal.values, values, strict=True))


@pytest.mark.parametrize(
    ("refusal", "values"),
    list(refused_values()),
    ids=lambda x: str(x) if isinstance(x, dict) else "",
)
def test_values_that_are_refused_together_are_refused_in_their_own_words(
    refusal: Refusal, values: Combination
) -> None:
    """The other options are such that nothing else is refused."""
    only = {axis: v for axis, v in (refusal.only or {}).items() if axis not in values}
    others = [one for one in REFUSED if one is not refusal]

    start = {"scores": "three", "classes": 3} | only | values
    free = [axis for axis in AXES if axis not in start]
    whole = dict(start)
    for axis in free:  # the first value, unless it is refused too
        allowed = [v for v in AXES[axis] if not any(r.matches(whole | {axis: v}) for r in others)]
        whole[axis] = (allowed or AXES[axis])[0]
    case = Case(whole, 0)
    with pytest.raises(InvalidInput) as error:
        case.fit_by_door()
    assert refusal.sentence in str(error.value)


# Who does what.


@every_combination
def test_rows_have_the_role_that_the_split_says(number: int) -> None:
    fit = fitted(number)
    case, facts, n = fit.case, fit.model.guarantee_.facts, len(fit.case.rows["fit"])
    drawn = not fit.settled and (str(case["split"]).startswith("vfcp") or (
        case["split"] == "exact, shortlist"
        and (case["calibration"] == "cluster" or not only_one_candidate(fit))
    ))  # fmt: skip
    assert (fit.roles is not None) == drawn
    assert len(fit.calibrate) == facts.n_cal
    assert facts.n_tune == (facts.n_cal if case.exact else len(fit.tune))
    assert facts.n_test == fit.n_test
    assert facts.grouped == case["groups"]
    if drawn:
        assert_array_equal(np.sort(np.concatenate([fit.tune, fit.calibrate])), np.arange(n))
        assert_array_equal(fit.roles.calibrate, fit.calibrate)
        share = {"vfcp": 0.5, "vfcp, few rows tune": 0.4}.get(case["split"], 0.3)
        units = case.rows["fit"].groups if case["groups"] else np.arange(n)
        assert not set(units[fit.tune]) & set(units[fit.calibrate])
        n_units = round(share * len(set(units)))
        if case["split"] != "vfcp, few rows tune":
            assert len(set(units[fit.tune])) == n_units
        else:
            assert len(fit.tune) <= 31
            assert case["groups"] or len(fit.tune) == min(31, n_units)


def only_one_candidate(fit: Fit) -> bool:
    case = fit.case
    return case.d == 1 and case["search"] != "candidates" and case["normalize"] != "ecdf"


# Sets and p-values.


@every_combination
def test_sets_are_where_the_p_value_exceeds_alpha_at_every_level(number: int) -> None:
    fit = fitted(number)
    assert_array_equal(own_sets(fit), plain_sets(fit, fit.case["alpha"]))
    for alpha in LEVELS:
        assert_array_equal(own_sets(fit, alpha), plain_sets(fit, alpha))


@every_combination
def test_p_values_are_ranks_among_the_rows_of_the_same_cell(number: int) -> None:
    fit = fitted(number)
    case, rows = fit.case, fit.case.rows["new"]
    found = np.asarray(fit.model.predict_pvalues(case.outputs(rows), **case.row_data(rows)))
    if case.exact:
        expected = selected(fit, case["alpha"]).pvalues().astype(float)
    else:
        expected = fit.calibrated.pvalues("new")
    assert_array_equal(found, expected)


@every_combination
def test_smoothed_p_values_break_ties_by_one_number_per_row(number: int) -> None:
    """One number of a row explains all of its p-values, and rows have different ones."""
    fit = fitted(number)
    case, rows = fit.case, fit.case.rows["new"]
    if case.exact:
        pytest.skip("every label of a row is compared with calibration scores of its own")
    given = case.outputs(rows)
    found = np.asarray(fit.model.predict_pvalues(given, smoothed=True, **case.row_data(rows)))
    values = fit.rule(fit.scaled["new"])
    uniforms = []
    for i, row in enumerate(values.tolist()):
        ends = np.array([[fit.calibrated.pvalue(v, i, y, rows, tau) for tau in (0.0, 1.0)]
                         for y, v in enumerate(row)], dtype=float)  # fmt: skip
        always = np.array([fit.cell(rows.strata[i], y) == ALWAYS for y in range(case.n_classes)])
        assert (found[i, always] == 1).all()
        width = np.where(always, 0.0, ends[:, 1] - ends[:, 0])
        if not width.any():
            continue  # a row of weight zero among scores that do not tie
        widest = int(np.argmax(width))
        tau = (found[i, widest] - ends[widest, 0]) / width[widest]
        uniforms.append(tau)
        assert_allclose(found[i, ~always], (ends[:, 0] + tau * width)[~always], atol=1e-9)
    assert min(uniforms) >= -1e-9
    assert max(uniforms) < 1
    assert len(np.unique(np.round(uniforms, 9))) > 1
    if case["scores"] == "randomised":  # by other numbers than those of the scores
        predictor = fit.model.predictor_
        drawn = row_uniforms(predictor.check(given), slice(0, len(rows)), predictor.key)
        assert not np.isclose(uniforms[0], drawn).any()


@every_combination
def test_levels_predicted_at_once_are_the_sets_of_each(number: int) -> None:
    fit = fitted(number)
    alphas = [0.5, fit.case["alpha"], 0.05]
    if fit.case.exact:
        with pytest.raises(InvalidInput, match="need not be nested"):
            predicted(fit, fit.model, alpha=alphas)
        return
    nested = predicted(fit, fit.model, alpha=alphas)
    for alpha in alphas:
        one, other = own_sets(fit, alpha), nested.at(alpha)
        assert_array_equal(one, other)
        assert one.members() == other.members()
    by_level = [np.asarray(nested.at(alpha)) for alpha in sorted(alphas)]
    assert all((small <= large).all() for large, small in itertools.pairwise(by_level))


@every_combination
def test_labels_come_best_first_under_their_names(number: int) -> None:
    fit = fitted(number)
    sets = own_sets(fit)
    values = combined(fit.scaled["new"], fit.weights)
    names = fit.case.classes or list(range(fit.case.n_classes))
    for i, (row, member) in enumerate(zip(values, np.asarray(sets), strict=True)):
        expected = sorted(np.flatnonzero(member), key=lambda y, row=row: (-row[y], y))
        assert sets.labels(i) == [names[y] for y in expected]
    assert sets.order.dtype == np.min_scalar_type(fit.case.n_classes - 1)
    if not fit.case["allow_empty"]:
        assert sets.sizes.min() >= 1


@every_combination
def test_thresholds_are_order_statistics_of_the_calibration_rows(number: int) -> None:
    fit = fitted(number)
    case, alpha = fit.case, fit.case["alpha"]
    name = str(case["calibration"])
    if case.exact or name.startswith("weighted"):
        with pytest.raises(InvalidInput, match="no single threshold"):
            _ = fit.model.threshold_
        return
    found = fit.model.threshold_
    if fit.limits is not None:
        assert_array_equal(fit.model.predictor_.fitted.rule.limits.ranks, fit.limits[0])
    assert_array_equal(fit.model.predictor_.fitted.calibration, np.sort(fit.calibrated.true))
    if name == "marginal":
        assert found == fit.calibrated.threshold(EVERY, alpha)
    elif name.startswith("label shift"):
        for label, cut in enumerate(found):
            tried = [-math.inf, *sorted(fit.calibrated.true.tolist())]
            enough = (
                v for v in tried if fit.calibrated.contains(v, 0, label, case.rows["fit"], alpha)
            )
            assert cut == next(enough)  # the smallest score that is in
    elif name.startswith("group"):
        for group, cut in found.items():
            cuts = np.broadcast_to(cut, case.n_classes)
            expected = [fit.calibrated.threshold(fit.cell(group, y), alpha)
                        for y in range(case.n_classes)]  # fmt: skip
            assert_array_equal(cuts, expected)
        assert set(found) == set(case.rows["fit"].strata)
    else:
        expected = [fit.calibrated.threshold(fit.cell("", y), alpha) for y in range(case.n_classes)]
        assert_array_equal(found, expected)


@every_combination
def test_the_held_out_size_is_of_rows_that_had_no_part_in_the_search(number: int) -> None:
    fit = fitted(number)
    case = fit.case
    if case.by_hand or case.exact or not fit.apart:
        assert fit.model.held_out_size_ is None
        return
    rows, values = case.rows["fit"], fit.rule(fit.scaled["fit"])
    sizes = [
        sum(fit.calibrated.contains(v, i, y, rows, case["alpha"])
            for y, v in enumerate(values[i].tolist()))
        for i in fit.calibrate.tolist()
    ]  # fmt: skip
    assert fit.model.held_out_size_ == sum(sizes) / len(sizes)


# The weights.


@every_combination
def test_the_weights_are_the_first_of_the_best_candidates(number: int) -> None:
    fit = fitted(number)
    case, found = fit.case, fit.model.search_
    if fit.settled:
        assert found is None
        assert_array_equal(fit.model.weights_, fit.weights)
        return
    if case.exact:
        check_exact_candidates(fit)
        return
    labels, value = cost(fit, fit.weights)
    assert found.count == labels
    assert found.n_size == len(size_rows(fit))
    assert_array_equal(found.weights, fit.weights)
    assert (found.value is None) == (case["objective"] == "size")
    assert value == pytest.approx(found.size if found.value is None else found.value, abs=1e-5)
    if case["search"] == "few":
        used = np.count_nonzero(fit.weights)
        assert used < case.d or case.d == 1 or labels == min(cost(fit, w)[0] for w in tried(fit))
        return
    if case["search"] in ("line", "gradient"):
        assert fit.weights.min() >= 0
        assert fit.weights.sum() == pytest.approx(1)
        # Neither ends above the corners that it starts from.
        assert value <= min(cost(fit, w)[1] for w in np.eye(case.d)) + 1e-9
        return
    every = tried(fit)
    values = [cost(fit, w)[1] for w in every]
    assert value <= min(values) + 1e-6
    if case["search"] == "uniform":
        return  # among equals those nearest to equal weights
    first = next(w for w, v in zip(every, values, strict=True) if v <= min(values) + 1e-6)
    if len(every) == len(listed(fit)):
        assert_array_equal(fit.weights, first)


def check_exact_candidates(fit: Fit) -> None:
    """All take part, or the best ones on the rows set aside; the winner is for reading."""
    case, kept = fit.case, exact_candidates(fit)
    alpha = case["alpha"]
    cal, y = fit.scaled["fit"][fit.calibrate], case.rows["fit"].y[fit.calibrate]

    def cut(true: np.ndarray) -> float:
        n, k = len(true), fit.rank(len(true), alpha)
        return np.sort(true)[n - k] if k <= n else -math.inf

    def labels(scaled: np.ndarray, y: np.ndarray, w: np.ndarray, *, tuned: bool = False) -> int:
        values = combined(scaled, w)
        true = values[np.arange(len(y)), y]
        cuts = [cut(true[y == c]) for c in range(case.n_classes)] if tuned else cut(true)
        return int((values >= cuts).sum())

    tuned = case["calibration"] == "class, tuned"
    counts = [labels(cal, y, w, tuned=tuned) for w in kept] if len(kept) < 200 else None
    if counts is not None:
        assert_array_equal(fit.weights, kept[counts.index(min(counts))])
        assert fit.model.search_.count == min(counts)
    if case["search"] in ("line", "gradient"):
        assert len(kept) <= 6
        return
    every = listed(fit)
    if fit.roles is None:
        assert_array_equal(kept, every)
        return
    aside, own = fit.scaled["fit"][fit.tune], case.rows["fit"].y[fit.tune]
    sizes = [labels(aside, own, w) for w in every]
    best = sorted(range(len(every)), key=lambda i: (sizes[i], i))[:6]
    assert_array_equal(kept, every[sorted(best)])


# What is promised.


@every_combination
def test_the_ledger_says_what_the_combination_is_worth(number: int) -> None:
    fit = fitted(number)
    case, ledger = fit.case, fit.model.guarantee_
    facts, n = ledger.facts, len(fit.calibrate)
    assert ledger.kind == fit.kind()
    assert facts.split == ("fixed" if fit.settled else str(case["split"]).split(",")[0])
    assert facts.learnt_scale == fit.learnt_scale
    assert facts.separate == (fit.apart and not case.exact)
    assert fit.model.normalizer_ == fit.normalizer
    if not case.exact:
        assert facts.n_weights == fit.n_weights
        assert facts.rank(n, case["alpha"]) == fit.rank(n, case["alpha"])
        assert facts.rank(n, 0.2) == fit.rank(n, 0.2)
    entries = {entry.source: entry for entry in ledger.entries(0.15)}
    if case["calibration"] != "marginal" or fit.learnt_scale:
        assert entries["order statistic"].vacuous
        return
    m, k = (1 if fit.apart or case.exact else fit.n_weights), fit.rank(n, case["alpha"])
    if m == 0:
        assert "does not say" in entries["order statistic"].says
        return
    u = np.linspace(0, 1, 20001)
    law = stats.beta.cdf(u, k, n + 1 - k) if k <= n else np.zeros_like(u)
    bound = float(np.trapezoid(np.maximum(0, 1 - m * law), u))
    told = entries["rank, marginal" if m == 1 else "selection, marginal"].says
    assert float(told.split(">= ")[1].split()[0]) == pytest.approx(bound, abs=2e-4)
    if not case.exact:
        worst = stats.beta.ppf(0.15 / m, k, n + 1 - k) if k <= n else 1.0
        told = entries["order statistic"].says
        assert float(told.split(">= ")[1].split()[0]) == pytest.approx(worst, abs=2e-4)
    assert ("order statistic, batch" in entries) == bool(fit.n_test)
    if fit.n_test:
        law = beta_binomial(n, k, fit.n_test) if k <= n else [0.0] * (fit.n_test + 1)
        share = max(h for h in range(fit.n_test + 1) if m * sum(law[:h]) <= 0.15) / fit.n_test
        told = entries["order statistic, batch"].says
        assert float(told.split(">= ")[1].split()[0]) == pytest.approx(share, abs=2e-4)
    if ledger.kind == "pac":
        assert f"{1 - DELTA:g}" in ledger.statement
        batch = f"fitted batch of {fit.n_test} rows"
        assert (batch in ledger.statement) == bool(fit.n_test)


@every_combination
def test_a_verdict_follows_the_law_of_the_sets_at_its_level(number: int) -> None:
    fit = fitted(number)
    case, rows = fit.case, fit.case.rows["new"]
    given = case.outputs(rows), case.labels(rows)
    for alpha in (None, 0.5, 0.2):
        asked = case["alpha"] if alpha is None else alpha
        found = fit.model.verdict(*given, alpha=alpha, **case.row_data(rows))
        sets = plain_sets(fit, asked)
        hits = sets[np.arange(len(rows)), rows.y]
        assert found.coverage == hits.mean()
        assert found.asked == float(1 - level(asked))
        promised = fit.kind() in ("exact", "pac")
        assert found.promised == (found.asked if promised else None)
        tail = pooled_tail(fit, asked) if case.exact else fit.calibrated.tail("new", asked)
        assert found.pvalue == (None if tail is None else pytest.approx(tail, abs=1e-9))
        if lets_all_in(fit, asked):
            assert sets.all()
            assert found.word == "trivial"
        elif found.coverage >= found.asked:
            assert found.word == ("kept" if promised else "reached")
        elif tail is None:
            assert found.word == "unknown"
        else:
            assert found.word == ("broken" if tail < 0.01 else "chance")


def lets_all_in(fit: Fit, alpha: float) -> bool:
    """Whether a score however low would be let in, of every label of the new rows."""
    rows = fit.case.rows["new"]
    cells = itertools.product(range(len(rows)), range(fit.case.n_classes))
    return all(fit.calibrated.contains(-math.inf, i, y, rows, alpha) for i, y in cells)


def pooled(fit: Fit, alpha: float) -> tuple[np.ndarray, int]:
    """True-label scores of calibration and new rows in one bag, and n."""
    rows = fit.case.rows
    scaled = np.concatenate([fit.scaled["fit"][fit.calibrate], fit.scaled["new"]])
    y = np.concatenate([rows["fit"].y[fit.calibrate], rows["new"].y])
    k = min(fit.rank(len(y), alpha), len(y))
    best: Any = None
    for w in exact_candidates(fit):
        values = combined(scaled, w)
        true = values[np.arange(len(y)), y]
        cut = np.sort(true)[len(y) - k]
        labels = int((values >= cut).sum())
        if best is None or labels < best[0]:
            best = labels, true
    return best[1], len(fit.calibrate)


def pooled_tail(fit: Fit, alpha: float) -> float | None:
    """The hypergeometric tail of the exact split: of every class, cluster or group by itself."""
    name = str(fit.case["calibration"]).split(",", maxsplit=1)[0]
    if fit.case["groups"] or name in ("weighted", "label shift"):
        return None
    true, n = pooled(fit, alpha)
    rows = [fit.case.rows["fit"].take(fit.calibrate), fit.case.rows["new"]]
    units = [unit_of(fit, name, s, int(y)) for part in rows
             for s, y in zip(part.strata, part.y, strict=True)]  # fmt: skip
    law, missed_of_new = np.ones(1), 0
    for unit in set(units):
        own = np.array([i for i, other in enumerate(units) if other == unit])
        k = min(fit.rank(len(own), alpha), len(own))
        missed, m = true[own] < np.sort(true[own])[len(own) - k], int((own >= n).sum())
        law = np.convolve(law, stats.hypergeom(len(own), int(missed.sum()), m).pmf(range(m + 1)))
        missed_of_new += int(missed[own >= n].sum())
    return min(1.0, float(law[missed_of_new:].sum()))


def unit_of(fit: Fit, name: str, stratum: str, label: int) -> Any:
    """What a row is exchangeable with, rare or not."""
    units = {"marginal": 0, "class": label, "group": stratum, "group and class": (stratum, label)}
    return units[name] if name in units else fit.cell(stratum, label)


@every_combination
def test_drift_compares_scores_that_no_row_chose(number: int) -> None:
    fit = fitted(number)
    case, rows = fit.case, fit.case.rows["new"]
    given = case.outputs(rows), case.labels(rows)
    if case["groups"] or fit.learnt_scale:
        with pytest.raises(InvalidInput, match="no false-alarm level"):
            fit.model.check_drift(*given)
        return
    own = np.arange(len(rows)), rows.y
    if case.exact:
        true, n = pooled(fit, case["alpha"])
        old, new = true[:n], true[n:]
    elif fit.apart or fit.n_weights == 1:
        old, new = fit.calibrated.true, fit.rule(fit.scaled["new"])[own]
    else:
        equal = np.full(case.d, 1 / case.d)
        old = fit.rule(fit.scaled["fit"], equal)
        old = old[np.arange(len(old)), case.rows["fit"].y]
        new = fit.rule(fit.scaled["new"], equal)[own]
    found = fit.model.check_drift(*given, level=0.2)
    assert found.pvalue == pytest.approx(stats.ks_2samp(new, old).pvalue, abs=1e-12)
    assert found.drifted == (found.pvalue <= 0.2)
    expected = [Fraction(1 + int((old <= value).sum()), len(old) + 1) for value in new]
    assert_array_equal(found.pvalues, np.array(sorted(expected), dtype=float))


# The same by every door.


def observed(fit: Fit, model: Any) -> dict[str, Any]:
    """Everything that can be seen of a fitted model."""
    case, rows = fit.case, fit.case.rows["new"]
    outputs, labels, brought = case.outputs(rows), case.labels(rows), case.row_data(rows)
    seen: dict[str, Any] = {
        "weights": model.weights_.tolist(),
        "names": model.score_names_,
        "classes": np.asarray(model.classes_).tolist(),
        "scale": model.normalizer_,
        "size": model.held_out_size_,
        "search": repr(model.search_),
        "ledger": (model.guarantee_.table(), model.guarantee_.facts),
        "p-values": np.asarray(model.predict_pvalues(outputs, **brought)).tolist(),
        "smoothed": np.asarray(
            model.predict_pvalues(outputs, smoothed=True, **brought)
        ).tolist(),
    }  # fmt: skip
    for alpha in (None, LEVELS[0]):  # beside the p-values, which are the sets of all levels
        sets = model.predict_set(outputs, alpha=alpha, **brought)
        seen[f"sets at {alpha}"] = sets.members()
    for alpha in (None, 0.5):
        found = model.verdict(outputs, labels, alpha=alpha, **brought)
        seen[f"verdict at {alpha}"] = (str(found), found)
    if not fit.learnt_scale and not case["groups"]:
        seen["drift"] = repr(model.check_drift(outputs, labels))
    return seen


@cache
def expected(number: int) -> dict[str, Any]:
    return observed(fitted(number), fitted(number).model)


@every_combination
def test_a_saved_model_is_the_same_in_all_that_can_be_seen(number: int, tmp_path) -> None:
    fit = fitted(number)
    fit.model.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json")
    assert observed(fit, again) == expected(number)
    for name in KEPT:
        assert getattr(again, name) == getattr(fit.model, name)
    served = cx.load_predictor(tmp_path / "model.json")
    for alpha in (None, 0.5):
        one, other = own_sets(fit, alpha), predicted(fit, served, alpha=alpha)
        assert one.members() == other.members()
    # What was read is written again to the letter.
    again.save(tmp_path / "again.json")
    texts = [(tmp_path / f"{name}.json").read_text() for name in ("model", "again")]
    assert texts[0].replace("model", "") == texts[1].replace("again", "").replace("model", "")


@every_combination
def test_recalibration_keeps_the_rule_and_takes_fresh_thresholds(number: int, tmp_path) -> None:
    fit = fitted(number)
    case, fresh = fit.case, fit.case.rows["fresh"]
    fit.model.save(tmp_path / "model.json")
    given = case.outputs(fresh), case.labels(fresh)
    again = cx.load(tmp_path / "model.json")
    if case.exact:
        with pytest.raises(InvalidInput, match="no single weights to keep"):
            again.recalibrate(*given, **case.row_data(fresh))
        return
    again.recalibrate(*given, **case.row_data(fresh))
    assert_array_equal(again.weights_, fit.weights)
    for alpha in (case["alpha"], 0.5):
        expected = fit.recalibrated.sets("new", alpha)
        assert_array_equal(predicted(fit, again, alpha=alpha), expected)
    ledger = again.guarantee_
    assert ledger.kind == fit.kind(fresh=True)
    assert (ledger.facts.split, ledger.facts.n_cal) == ("fixed", len(fresh))
    assert ledger.facts.grouped == case["groups"]
    assert ledger.facts.n_test == fit.n_test
    assert ("whose features chose the weights" in str(ledger)) == bool(fit.n_test)
    assert not any("batch" in entry.source for entry in ledger.entries())
    rows = case.rows["new"]
    for alpha in (None, 0.2):
        tail = fit.recalibrated.tail("new", case["alpha"] if alpha is None else alpha)
        found = again.verdict(
            case.outputs(rows), case.labels(rows), alpha=alpha, **case.row_data(rows)
        )
        assert found.pvalue == (None if tail is None else pytest.approx(tail, abs=1e-9))
    # And the recalibrated model is saved as it is.
    again.save(tmp_path / "fresh.json")
    read = cx.load(tmp_path / "fresh.json")
    assert read.guarantee_.table() == ledger.table()
    assert predicted(fit, read).members() == predicted(fit, again).members()


@every_combination
def test_rows_that_come_by_another_door_fit_and_predict_the_same(number: int) -> None:
    """From mapped files, in other precisions or tensors, in batches, in chunks of Dask."""
    import dask

    fit = fitted(number)
    case, new = fit.case, fit.case.rows["new"]
    other = case.fit_by_door()
    assert observed(fit, other) == expected(number)
    for alpha in (None, 0.5):
        at_once = own_sets(fit, alpha)
        if case["door"] == "other precision":
            shape = "float64" if case["input"] in ("top-k", "logits", "tensor") else "tensor"
            given = case.outputs(new, shape)
            sets = fit.model.predict_set(given, alpha=alpha, **case.row_data(new))
            assert sets.members() == at_once.members()
        if case["door"] == "batches":
            sets = list(fit.model.predict_batches(case.batches(new, 5), alpha=alpha))
            assert_array_equal(np.concatenate(sets), at_once)
        if case["door"] == "dask":
            given, brought = case.chunked(new, 5), case.row_data(new)
            with dask.config.set(scheduler="synchronous"):
                sets = fit.model.predict_set(given, alpha=alpha, **brought).compute()
            assert_array_equal(sets, at_once)
