"""What ``auto`` adds to the labels of a row: by definition, through every door, to the bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import logsumexp

import conformix as cx
from conformix.data.outputs import check_outputs
from conformix.data.passes import BatchOutputs, Passes
from conformix.errors import InvalidInput
from conformix.kernels import elementary, twins
from conformix.kernels.patterns import spreads
from conformix.scores import Column, Logp, evidence, score_columns
from conformix.scores.blend import Blend, _added_up, fit_blend
from conformix.scores.blending import Blending
from conformix.scores.evidence import Evidence, fit_evidence, log_spreads, totals_of
from conformix.scores.ranked import Ranked

K = 40


def drawn(n: int, seed: int = 0, n_classes: int = K) -> tuple[np.ndarray, np.ndarray]:
    """Logits (n, K) that say less of some rows than they seem to, and labels."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, n_classes)) * rng.uniform(0.5, 3.0, size=(n, 1))
    y = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return truth * rng.uniform(0.5, 3.0, size=(n, 1)) + rng.normal(size=truth.shape), y


def drawn_of_three(n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Logits of three models, two of them with noise of their own, and labels."""
    logits, y = drawn(n, seed=3)
    noise = np.random.default_rng(4).normal(size=(2, *logits.shape))
    return {"b": logits, "c": 0.7 * logits + noise[0], "a": logits + 2 * noise[1]}, y


def fitted(n: int = 300, seed: int = 0, **options: Any) -> tuple[cx.ScoreAverage, np.ndarray]:
    logits, y = drawn(n + 50, seed)
    settings = {"alpha": 0.1, "kind": "logits", "random_state": 0, "threads": 1} | options
    return cx.ScoreAverage("auto", **settings).fit(logits[:n], y[:n]), logits[n:]


def test_the_score_is_what_the_formula_says() -> None:
    cp, rows = fitted()
    blend = cp.blend_
    log_p = rows - logsumexp(rows, axis=1, keepdims=True)
    z = blend.added_up({"": Ranked(rows, "logits")})
    log_q = z - logsumexp(z, axis=1, keepdims=True)
    sd = np.maximum(log_p, -60).std(axis=1, keepdims=True)
    a, b = blend.evidence.spread, blend.evidence.top
    known = np.clip(np.log(sd + 0.001), blend.evidence.narrowest, blend.evidence.widest)
    expected = log_q + a * known + b * log_q.max(axis=1, keepdims=True)
    found = cp.predictor_.scores(cp.predictor_.check(rows))[..., 0]
    assert_allclose(found, expected, rtol=1e-3, atol=1e-3)  # a spread has twelve bits
    assert cp.score_names_ == ("blend.logit",)
    assert a != 0 != b


@pytest.mark.parametrize("columns", [("logp(floor=0.01)", "thr"), ("thr", "logp")])
def test_spreads_are_the_same_whether_a_score_is_the_log_probability_or_not(columns: Any) -> None:
    values, y = drawn_of_three(520)
    outputs = check_outputs(values, "logits")
    found = fit_blend(outputs, y, score_columns(tuple(values), columns)).blend.evidence
    spread = log_spreads(*(Ranked(model, "logits") for model in values.values()))
    assert (found.narrowest, found.widest) == (spread.min(), spread.max())


def test_the_spread_of_several_models_is_the_mean_of_theirs() -> None:
    outputs, y = drawn_of_three(560)
    blend = fit_blend(
        check_outputs({m: v[:520] for m, v in outputs.items()}, "logits"), y[:520],
        score_columns(tuple(outputs), ("logp(floor=0.01)", "thr")),
    ).blend  # fmt: skip
    ranked = {m: Ranked(v[520:], "logits") for m, v in outputs.items()}
    logs = [np.log(np.maximum(some.log_probs, -60).std(axis=1) + 0.001) for some in ranked.values()]
    assert_allclose(log_spreads(*ranked.values())[:, 0], np.mean(logs, axis=0), atol=1e-3)
    z = blend.added_up(ranked)
    log_q = z - logsumexp(z, axis=1, keepdims=True)
    found = blend.evidence
    known = np.clip(np.mean(logs, axis=0)[:, None], found.narrowest, found.widest)
    expected = log_q + found.spread * known + found.top * log_q.max(axis=1, keepdims=True)
    later = check_outputs({m: v[520:] for m, v in outputs.items()}, "logits")
    assert_allclose(blend.of_rows(later), expected, rtol=1e-3, atol=1e-3)
    assert abs(found.spread) > 0.05


def test_scores_of_a_row_add_up_to_its_evidence_and_keep_the_probabilities() -> None:
    z, spread = drawn(6)[0], np.linspace(-1, 2, 6)[:, None]
    logits = Evidence(0.5, -0.25, -9.0, 9.0).logits(z, spread)
    top = (z - logsumexp(z, axis=1, keepdims=True)).max(axis=1)
    assert_allclose(logsumexp(logits, axis=1), 0.5 * spread[:, 0] - 0.25 * top, rtol=1e-12)
    probs = [Ranked(values, "logits").probs for values in (z, logits)]
    assert_allclose(probs[1], probs[0], rtol=1e-12)


def test_logits_in_single_precision_are_widened_by_the_loop_as_without_it() -> None:
    twins.compile_for(twins.WORTHWHILE)
    z, spread = drawn(60)[0].astype(np.float32), np.linspace(-1, 2, 60)[:, None]
    found = Evidence(0.5, -0.25, -9.0, 9.0).logits(z, spread)
    assert found.dtype == np.float64
    wide = Evidence(0.5, -0.25, -9.0, 9.0).logits(z.astype(np.float64), spread)
    assert_allclose(found, wide, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n", [20, 90, 700])
def test_the_coefficients_minimise_the_loss(n: int) -> None:
    logits, y = drawn(n, seed=n)
    model = Ranked(logits, "logits")
    z = 0.7 * model.log_probs
    log_q = z - logsumexp(z, axis=1, keepdims=True)
    features = np.column_stack([log_spreads(model), log_q.max(axis=1)])
    own = log_q[np.arange(n), y]
    log_t = np.sort(own)[int(0.05 * (n + 1))]

    def loss(c: np.ndarray) -> float:
        scaled = c[:2] / features.std(axis=0)
        v = log_q + ((features - features.mean(axis=0)) @ scaled + c[2] - log_t)[:, None]
        true = v[np.arange(n), y]
        return (
            np.logaddexp(0, -true).sum()
            + np.exp(log_t) * np.logaddexp(0, v).sum()
            + (c[:2] ** 2).sum()
        )

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-7})
    found = fit_evidence(z, y, log_spreads(model))
    expected = best.x[:2] / features.std(axis=0)
    assert_allclose([found.spread, found.top], expected, rtol=2e-4, atol=2e-4)


def test_beyond_the_rows_that_taught_it_a_spread_counts_no_more() -> None:
    """A row whose labels are all alike has no spread at all."""
    cp, rows = fitted()
    found = cp.blend_.evidence
    alike = np.zeros((1, K))
    spread = log_spreads(Ranked(alike, "logits"))
    assert spread < found.narrowest < found.widest
    edge = found.logits(alike, np.array([[found.narrowest]]))
    assert_array_equal(found.logits(alike, spread), edge)
    assert_array_equal(found.logits(alike, spread + 99), found.logits(alike, spread + 98))
    model = Ranked(rows, "logits")
    again = fit_evidence(model.log_probs, np.zeros(len(rows), int), log_spreads(model))
    assert (again.narrowest, again.widest) == (
        log_spreads(model).min(), log_spreads(model).max()
    )  # fmt: skip


def test_tuning_rows_that_hardly_differ_do_not_lift_a_row_that_does_beyond_all_measure() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=400)
    sure = 12 * np.eye(K)[(y + (rng.random(400) < 0.05)) % K] + 1e-3 * rng.normal(size=(400, K))
    model = Ranked(sure, "logits")
    found = fit_evidence(model.log_probs, y, log_spreads(model))
    unsure = Ranked(rng.normal(size=(1, K)), "logits")
    logits = found.logits(unsure.log_probs, log_spreads(unsure))
    assert np.abs(logsumexp(logits)) < 3


@pytest.mark.parametrize("scale", [30.0, 100.0, 1000.0])
@pytest.mark.filterwarnings("error")
def test_log_probabilities_that_nothing_has_shrunk_are_no_reason_to_overflow(scale: float) -> None:
    rng = np.random.default_rng(0)
    model = Ranked(rng.normal(size=(100, K)) * scale, "logits")
    y = rng.integers(0, K, 100)
    found = fit_evidence(model.log_probs, y, log_spreads(model))
    assert np.isfinite([found.spread, found.top]).all()


def test_steps_that_lead_too_far_are_made_shorter() -> None:
    """A slope that turns by its whole length would go on for ever."""

    class Steep(evidence.Odds):
        def slopes(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return np.tanh(r - 3), 1e-3 + np.cosh(r - 3) ** -2  # hardly bent far from its minimum

    logits, y = drawn(20)
    features = np.column_stack([np.zeros(20), np.zeros(20), np.ones(20)])
    assert_allclose(evidence._minimum(Steep(logits, y), features), [0, 0, 3], atol=1e-5)


def test_sets_are_smaller_where_narrow_rows_promise_too_much_and_wide_ones_too_little(
    monkeypatch,
) -> None:
    rng = np.random.default_rng(1)
    wide = rng.random((9000, 1)) < 0.5
    truth = rng.normal(size=(9000, K)) * np.where(wide, 4.0, 1.0)
    y = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    logits, sizes = truth * np.where(wide, 0.5, 3.0), []
    for most in (2**5, 2**30):
        monkeypatch.setattr("conformix.scores.blend.MANY_CLASSES", most)
        cp = cx.ScoreAverage("auto", alpha=0.05, kind="logits", random_state=0)
        sets = cp.fit(logits[:3000], y[:3000]).predict_set(logits[3000:])
        sizes.append(sets.sizes.mean())
        assert np.asarray(sets)[np.arange(6000), y[3000:]].mean() > 0.935
    assert sizes[0] < 0.9 * sizes[1]


@pytest.mark.parametrize(
    ("n_classes", "n", "n_models", "has"),
    [
        (32, 64, 1, True),
        (31, 64, 1, False),
        (32, 63, 1, False),
        (32, 511, 2, False),
        (32, 512, 2, True),
        (31, 512, 2, False),
        (2048, 64, 1, True),
        (2049, 64, 1, False),
    ],
)
def test_models_of_many_labels_have_evidence_from_enough_rows(
    n_classes: int, n: int, n_models: int, has: bool
) -> None:
    logits, y = drawn(n, n_classes=n_classes)
    outputs = check_outputs({f"model {i}": logits + i for i in range(n_models)}, "logits")
    columns = score_columns(tuple(outputs.models), ("logp(floor=0.01)", "rank"))
    assert (fit_blend(outputs, y, columns).blend.evidence is not None) == has


def test_outputs_in_blocks_are_what_the_blend_makes_of_them() -> None:
    """Evidence makes logits of probabilities, and whoever reads a block must be told."""
    probs = np.full((4, 3), 1 / 3)
    source = BatchOutputs(Passes([(probs, np.zeros(4, dtype=int))], "probs"))
    blend = Blend(score_columns(("",), ("logp",)), np.ones(1))
    evident = replace(blend, evidence=Evidence(0.5, -0.5, -1.0, 1.0))
    for one, kind in ((blend, "probs"), (evident, "logits")):
        assert one.in_blocks(source).kind == kind
        (block,) = one.in_blocks(source).blocks()
        assert block.outputs.kind == kind


@pytest.mark.parametrize("loop", [False, True], ids=["passes", "loop"])
def test_at_most_a_thousand_rows_teach_it(loop: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    twins.compile_for(twins.WORTHWHILE)
    if not loop:
        monkeypatch.setattr("conformix.scores.blend.loops", lambda *_: None)
    logits, y = drawn(2050)
    outputs = check_outputs(logits, "logits")
    columns = score_columns(("",), ("logp(floor=0.01)", "rank"))
    found = fit_blend(outputs, y, columns).blend
    some = np.arange(0, 2050, 3)
    model = Ranked(logits[some], "logits")
    z = Blend(found.columns, found.coefficients).added_up({"": model})
    assert found.evidence == fit_evidence(z, y[some], log_spreads(model))


def test_rows_alone_threads_blocks_and_permuted_labels_give_the_same_bits(monkeypatch) -> None:
    cp, rows = fitted(kind="logits")
    predictor, blend = cp.predictor_, cp.blend_
    whole = predictor.scores(predictor.check(rows))
    alone = [predictor.scores(predictor.check(row[None])) for row in rows]
    assert_array_equal(np.concatenate(alone), whole)
    many = predictor.check(np.tile(rows, (80, 1)))
    twins.compile_for(twins.WORTHWHILE)
    monkeypatch.setattr("conformix.scores.blending.PIECE_ENTRIES", 7 * K)
    for threads in (1, 3, 6):  # more than a few take no pieces
        blending, out = Blending(blend, many, threads), np.empty((many.n, K))
        blending.fill(out)
        assert_array_equal(np.concatenate(blending.map(lambda _, values: values.copy())), out)
        assert_array_equal(out, np.tile(whole[..., 0], (80, 1)))
    order = np.random.default_rng(0).permutation(K)
    fixed = Blend(
        (Column("", Logp(floor=0.01)), Column("", Logp())), np.array([0.6, 0.2]),
        evidence=blend.evidence,
    )  # fmt: skip
    straight, turned = (
        fixed.of_rows(check_outputs(values, "logits")) for values in (rows, rows[:, order])
    )
    assert_array_equal(turned, straight[:, order])


@pytest.mark.parametrize("n_classes", [3, 40, 1000, 2**14])
def test_spreads_are_exact_sums_in_any_order(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    log_probs = -rng.exponential(20, size=(2**17 // n_classes + 1, n_classes))
    log_probs[0] = -3.0  # all alike
    twins.compile_for(twins.WORTHWHILE)
    plain = _without_loops(spreads, log_probs)
    assert_array_equal(spreads(log_probs), plain)
    assert_array_equal(_without_loops(spreads, log_probs[:, ::-1]), plain)
    sd = np.maximum(log_probs, -60).std(axis=1, keepdims=True)
    assert_allclose(plain, sd, rtol=1e-3, atol=1e-3)
    assert plain[0] == 0


def _without_loops(function: Any, values: np.ndarray) -> np.ndarray:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("conformix.kernels.patterns.loops", lambda *_: None)
        patch.setattr("conformix.kernels.elementary.loops", lambda *_: None)
        return np.asarray(function(values))


def test_log_sums_have_the_same_bits_compiled_and_not() -> None:
    twins.compile_for(twins.WORTHWHILE)
    rng = np.random.default_rng(0)
    for scale in (0.1, 5.0, 400.0, 1e300):
        logits = rng.normal(size=(60, 33)) * scale
        found = elementary.log_sum_exp(logits)
        assert_array_equal(found, _without_loops(elementary.log_sum_exp, logits))
        probs, sums = elementary.softmax_and_log_sums(logits)
        assert_array_equal(sums, found)
        assert_array_equal(probs, elementary.softmax(logits))
        both = _without_loops(lambda z: np.hstack(elementary.softmax_and_log_sums(z)), logits)
        assert_array_equal(np.hstack([probs, sums]), both)
        if scale < 1e300:
            assert_allclose(found[:, 0], logsumexp(logits, axis=1), rtol=1e-14)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n_classes", [40, 5000])
def test_what_logits_come_to_is_had_while_they_are_added_up(threads: int, n_classes: int) -> None:
    """By threads, with the bits of whoever computes it from the logits."""
    twins.compile_for(twins.WORTHWHILE)
    n = 2**17 // n_classes + 1
    planes = np.random.default_rng(0).normal(size=(3, n, n_classes)) * 30
    expected = 0.5 * planes[0] + 2.0 * planes[2]
    z, totals = _added_up(planes, np.array([0.5, 0.0, 2.0]), threads, evident=True)
    assert z is not None
    assert np.shares_memory(z, planes)
    assert_array_equal(z, expected)
    assert totals is not None
    for one, other in zip(totals, totals_of(expected), strict=True):
        assert_array_equal(one, other)
    spread, own = np.linspace(-1, 2, n)[:, None], Evidence(0.5, -0.25, -0.5, 1.5)
    assert_array_equal(own.logits(z, spread, z.copy(), totals), own.logits(z, spread))
    assert _added_up(planes, np.ones(3), threads, evident=False)[1] is None


@pytest.mark.parametrize("threads", [1, 3])
def test_odds_are_those_of_passes_whoever_shares_their_rows(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins.compile_for(twins.WORTHWHILE)
    z, y = drawn(2000)
    shared = evidence.Odds(z, y, threads)
    known = evidence.Odds(z, y, threads, totals_of(z))
    monkeypatch.setattr(evidence, "loops", lambda *_: None)
    plain = evidence.Odds(z, y)
    for one in (shared, known):
        assert_array_equal(one._of_labels, plain._of_labels)
        assert_array_equal(one.log_tops, plain.log_tops)


def test_sums_of_odds_are_those_of_the_definition() -> None:
    twins.compile_for(twins.WORTHWHILE)
    logits, y = drawn(60)
    log_q = logits - logsumexp(logits, axis=1, keepdims=True)
    r = np.linspace(-2, 2, 60)
    compiled = evidence.Odds(log_q, y)
    plain = evidence.Odds(log_q, y)
    plain._loop = None
    assert compiled._loop is not None
    for one, other in zip(compiled.slopes(r), plain.slopes(r), strict=True):
        assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("split", ["holdout", "exact"])
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_all_doors_give_the_same_sets(split: str, kind: str, tmp_path: Path) -> None:
    logits, y = drawn(360, seed=5)
    values = logits if kind == "logits" else Ranked(logits, "logits").probs
    rows, labels, later = values[:300], y[:300], values[300:]
    options = {"alpha": 0.1, "kind": kind, "random_state": 0, "split": split}
    cp = cx.ScoreAverage("auto", **options).fit(rows, labels)
    mask = cp.predict_set(later).mask
    assert cp.blend_.evidence is not None
    doors = {"loaded": _loaded(cp, tmp_path)}
    if split == "holdout":
        batches = [(rows[i : i + 70], labels[i : i + 70]) for i in range(0, 300, 70)]
        doors["batches"] = cx.ScoreAverage("auto", **options).fit_batches(batches)
        pvalues = cp.predict_pvalues(later)
        assert_array_equal(pvalues > 0.1, mask)
        assert_array_equal(doors["loaded"].predict_pvalues(later), pvalues)
        nested = cp.predict_set(later, alpha=[0.05, 0.1])
        assert_array_equal(nested.at(0.1).mask, mask)
        cp.recalibrate(rows[:100], labels[:100]).predict_set(later)
    for name, door in doors.items():
        assert_array_equal(door.predict_set(later).mask, mask, err_msg=name)
        assert door.blend_.evidence == cp.blend_.evidence or split == "holdout"


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_chunks_on_workers_give_the_same_sets(kind: str) -> None:
    da = pytest.importorskip("dask.array")
    logits, y = drawn(360, seed=5)
    logits = logits if kind == "logits" else Ranked(logits, "logits").probs
    cp = cx.ScoreAverage("auto", alpha=0.1, kind=kind, random_state=0)
    mask = cp.fit(logits[:300], y[:300]).predict_set(logits[300:]).mask
    evidence_here = cp.blend_.evidence
    cp.fit(da.from_array(logits[:300], chunks=(90, -1)), da.from_array(y[:300], chunks=90))
    assert cp.blend_.evidence == evidence_here
    there = cp.predict_set(da.from_array(logits[300:], chunks=(25, -1)))
    assert_array_equal(there.compute(), mask)


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_several_models_give_the_same_sets_through_every_door(kind: str, tmp_path: Path) -> None:
    """Rows alone, threads, blocks, workers, files, and models named in another order."""
    da = pytest.importorskip("dask.array")
    outputs, y = drawn_of_three(1660)
    if kind == "probs":
        outputs = {m: Ranked(v, "logits").probs for m, v in outputs.items()}
    rows, later = (
        {m: v[some] for m, v in outputs.items()} for some in (slice(1600), slice(1600, None))
    )
    options = {"alpha": 0.1, "kind": kind, "random_state": 0}
    cp = cx.ScoreAverage("auto", threads=1, **options).fit(rows, y[:1600])
    assert cp.blend_.evidence is not None
    mask, predictor = cp.predict_set(later).mask, cp.predictor_
    scores = predictor.scores(predictor.check(later))
    for i in range(0, 60, 7):
        alone = predictor.check({m: later[m][i : i + 1] for m in ("a", "b", "c")})
        assert_array_equal(predictor.scores(alone)[0], scores[i])
    doors = {
        "three threads": cx.ScoreAverage("auto", threads=3, **options).fit(rows, y[:1600]),
        "loaded": _loaded(cp, tmp_path),
        "workers": cx.ScoreAverage("auto", **options).fit(
            {m: da.from_array(v, chunks=(450, -1)) for m, v in rows.items()},
            da.from_array(y[:1600], chunks=450),
        ),
    }
    for name, door in doors.items():
        assert door.blend_.evidence == cp.blend_.evidence, name
        assert_array_equal(door.predict_set(later).mask, mask, err_msg=name)
    assert_array_equal(cp.predict_pvalues(later) > 0.1, mask)
    by_model = cx.contributions(cp, rows, y[:1600], by="model")
    assert {one.name for one in by_model} == {"a", "b", "c"}


def test_what_a_score_contributes_is_measured_beside_the_evidence() -> None:
    cp, _ = fitted()
    logits, y = drawn(400, seed=9)
    blend = cp.blend_
    first = next(c for c, number in zip(blend.columns, blend.coefficients, strict=True) if number)

    def size(some: Blend) -> float:
        scores = some.of_rows(check_outputs(logits, "logits"))
        true = np.sort(scores[np.arange(400), y])[::-1]
        return np.count_nonzero(scores >= true[cx.conformal_rank(400, 0.1) - 1]) / 400

    found = {one.name: one for one in cx.contributions(cp, logits, y)}[str(first)]
    expected = size(blend.without([first])) / size(blend) - 1
    assert found.larger_without == pytest.approx(expected, abs=1e-9)


def test_evidence_is_finite_and_its_bounds_rise() -> None:
    for numbers in ((np.nan, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 0.0)):
        with pytest.raises(InvalidInput, match="two coefficients and two bounds"):
            Evidence(*numbers)


def _loaded(cp: cx.ScoreAverage, folder: Path) -> Any:
    cp.save(folder / "model.cfx")
    return cx.ScoreAverage.load(folder / "model.cfx")


@pytest.mark.parametrize("loop", [False, True], ids=["passes", "loop"])
def test_odds_beyond_all_measure_are_alike(loop: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their products with factors of rows stay finite, and labels that are level count for one."""
    twins.compile_for(twins.WORTHWHILE)
    if not loop:
        monkeypatch.setattr(evidence, "loops", lambda *_: None)
    z = np.tile([0.0, -500.0, -250.0, -800.0], (300, 1))
    odds = evidence.Odds(z, np.ones(300, dtype=int))._of_labels  # the level is that of labels 1
    expected = elementary.exp(np.array([evidence.FARTHEST, 0.0, 250.0, -300.0]))
    assert_array_equal(odds, np.tile(expected, (300, 1)))
