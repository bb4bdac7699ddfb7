"""Sets found as the upper ends of sorted rows are those of the scores of all labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import conformix as cx
from cases import probability_rows
from conformix.data.outputs import check_outputs
from conformix.fit import scored as scoring
from conformix.fit import upper_ends as module
from conformix.fit.predictor import best_first
from conformix.fit.rule import Rule
from conformix.kernels.blocks import run_blocks
from conformix.kernels.twins import compile_for
from conformix.scores import SCORES, parse_score, score_columns, score_tensor
from conformix.scores import sorted_rows as sorting
from conformix.scores import upper_rows as uppers
from conformix.scores.scale import Interpolated, Scaled
from conformix.search import GridSearch

NEED_LOGITS = {"logit", "energy"}
VARIANTS = [
    *(name for name in SCORES if not SCORES[name].learns),
    "thr(temperature=0.3)", "aps(temperature=0.5)", "aps(u=0.5)", "aps(randomized=True)",
    "raps(penalty=0.3, k_reg=1)", "raps(u=1.0)", "saps(randomized=True)", "saps(u=1.0)",
    "saps(temperature=3.0)", "rank(tie_break='prob')", "logp(temperature=2.0)", "logp(floor=0.1)",
    "-entropy", "-maxprob", "margin(temperature=0.2)",
]  # fmt: skip
THREE = ("thr", "aps", "rank")


def rows_and_labels(n: int = 300, n_classes: int = 12, *, digits: int | None = None):
    rng = np.random.default_rng(n_classes)
    y = rng.integers(n_classes, size=n)
    logits = rng.normal(0, 2, (n, n_classes)) + 3 * np.eye(n_classes)[y]
    return (logits if digits is None else logits.round(digits)), y


def both_ways(monkeypatch, **settings):
    """Return the sets of a fit that sorts rows, and of one that scores all labels."""
    outputs, y = settings.pop("rows")
    new = settings.pop("new", outputs)
    found = []
    for least in (0, 2**62):
        monkeypatch.setattr(module, "WORTHWHILE", least)
        monkeypatch.setattr(scoring, "SORTED_TOGETHER", 2**25 if least == 0 else -1)
        monkeypatch.setattr(scoring, "with_order", (lambda held: held) if least else ORDER)
        cp = cx.ScoreAverage(random_state=0, **{"scores": "paper", **settings}).fit(outputs, y)
        found.append((cp, cp.predict_set(new)))
    return found


ORDER = scoring.with_order


def assert_same(found) -> None:
    (one, these), (other, those) = found
    assert_array_equal(these.mask, those.mask)
    assert these.sizes.sum() > 0
    for i in range(len(these.sizes)):
        assert these.labels(i) == those.labels(i)  # best first, ties too
    assert_array_equal(one.weights_, other.weights_)
    assert_array_equal(one.predictor_.fitted.calibration, other.predictor_.fitted.calibration)
    assert one.predictor_.fitted.held_out_size == other.predictor_.fitted.held_out_size
    results = one.predictor_.fitted.search, other.predictor_.fitted.search
    assert repr(results[0]) == repr(results[1])


@pytest.mark.parametrize(("kind", "digits"), [("logits", None), ("probs", 0)])
@pytest.mark.parametrize("score", VARIANTS)
def test_every_score_beside_two_others(monkeypatch, score, kind, digits) -> None:
    if kind == "probs" and parse_score(score).name in NEED_LOGITS:
        pytest.skip("needs logits")
    logits, y = rows_and_labels(digits=digits)
    outputs = (
        logits if kind == "logits" else cx.scores.score_tensor(logits, "thr", kind="logits")[..., 0]
    )
    scores = tuple(dict.fromkeys(("aps", score, "rank")))
    assert_same(both_ways(monkeypatch, rows=(outputs, y), scores=scores, kind=kind, alpha=0.15))


SETTINGS = {
    "never empty": {"allow_empty": False, "alpha": 0.6},
    "labels that score alike": {"scores": "saps(penalty=0.0)", "alpha": 0.05},
    "no scale": {"normalize": "none"},
    "natural scale": {"normalize": "scale"},
    "one score": {"scores": "aps"},
    "given weights": {"weights": [0.2, 0.5, 0.3], "normalize": "scale"},
    "nearly all labels": {"alpha": 0.01},
    "few labels": {"alpha": 0.9},
    "by class": {"calibration": "class", "alpha": 0.3},
    "efcp": {"split": "efcp"},
    "automatic": {"scores": "auto"},
    "automatic, many labels": {"scores": "auto", "alpha": 0.01},
    "candidates": {"search": [[1.0, 0.0, 0.0], [0.0, 1.0, -0.5]]},
    "lines": {"scores": ("thr", "aps", "rank", "margin", "logp")},
    "wide steps": {"search": GridSearch(7)},
    "pac": {"guarantee": "pac", "delta": 0.2},
}


@pytest.mark.parametrize("digits", [None, 0], ids=["no ties", "ties"])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_every_kind_of_fit(monkeypatch, settings, digits) -> None:
    settings = {"scores": THREE, "alpha": 0.15} | settings
    rows = rows_and_labels(digits=digits)
    assert_same(both_ways(monkeypatch, rows=rows, kind="logits", **settings))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_single_and_half_precision(monkeypatch, dtype) -> None:
    logits, y = rows_and_labels()
    assert_same(both_ways(monkeypatch, rows=(logits.astype(dtype), y), scores=THREE, kind="logits"))


def test_strata_with_a_threshold_each(monkeypatch) -> None:
    logits, y = rows_and_labels()
    strata = np.arange(len(y)) % 3
    found = []
    for least in (0, 2**62):
        monkeypatch.setattr(module, "WORTHWHILE", least)
        cp = cx.ScoreAverage(THREE, kind="logits", calibration="group", random_state=0)
        cp.fit(logits, y, strata=strata)
        found.append((cp, cp.predict_set(logits, strata=strata)))
    assert_same(found)


def test_blocks_and_threads_do_not_matter(monkeypatch) -> None:
    logits, y = rows_and_labels(n=500)
    monkeypatch.setattr(module, "WORTHWHILE", 0)
    monkeypatch.setattr("conformix.kernels.blocks.OUTPUTS_PER_WAIT", 1)
    found = []
    # More threads than a few sort together, and have blocks in common.
    for entries, threads in [(2**18, 1), (37, 3), (500, 2), (37, 7), (2**18, 7)]:
        monkeypatch.setattr(uppers, "BLOCK_OUTPUTS", entries)
        monkeypatch.setattr(sorting.SortedRows, "at_once", 3 * threads)
        monkeypatch.setattr(module, "MEMBERS", 5 * threads)
        cp = cx.ScoreAverage(THREE, kind="logits", random_state=0, threads=threads).fit(logits, y)
        found.append((cp, cp.predict_set(logits)))
    for other in found[1:]:
        assert_same([found[0], other])


@pytest.mark.parametrize("threads", [3, 7])
@pytest.mark.parametrize("rows", [[401, 77, 430], [432, 401]])
def test_the_first_bad_row_is_named_whoever_finds_one(threads: int, rows, monkeypatch) -> None:
    logits, y = rows_and_labels(n=500)
    monkeypatch.setattr(module, "WORTHWHILE", 0)
    monkeypatch.setattr("conformix.kernels.blocks.OUTPUTS_PER_WAIT", 1)
    cp = cx.ScoreAverage(THREE, kind="logits", random_state=0, threads=threads).fit(logits, y)
    bad = logits.copy()
    bad[rows, 3] = np.nan
    for call in (lambda: cp.predict_set(bad), lambda: cp.fit(bad, y)):
        with pytest.raises(cx.errors.InvalidInput, match=f"row {min(rows)}, label 3"):
            call()


@pytest.mark.parametrize(
    ("calibration", "needs", "shape"),
    [
        ("marginal", None, ()),
        ("weighted", "sample_weight", (5, 1)),
        ("group", "strata", None),
        ("class", None, None),
    ],
)
def test_rows_are_cut_where_their_labels_share_a_threshold(calibration, needs, shape) -> None:
    logits, y = rows_and_labels()
    data = {} if needs is None else {needs: np.arange(len(y)) % 2 + 1}
    cp = cx.ScoreAverage(THREE, alpha=0.4, kind="logits", calibration=calibration, random_state=0)
    predictor = cp.fit(logits, y, **data).predictor_
    rows = predictor.row_data(5, **{name: values[:5] for name, values in data.items()})
    found = predictor.fitted.row_thresholds(0.4, rows)
    assert (None if found is None else np.shape(found)) == shape


@pytest.mark.parametrize(("n_classes", "dtype"), [(256, np.uint8), (257, np.uint16)])
def test_a_label_of_a_set_takes_a_byte_where_it_can(n_classes: int, dtype: type) -> None:
    scores = np.zeros((2, n_classes, 1))
    rule = Rule(Scaled((1.0,)), np.ones(1))
    order = best_first(np.ones((2, n_classes), dtype=bool), scores, rule)
    assert order.dtype == dtype
    assert_array_equal(order, np.tile(np.arange(n_classes), 2))


class Turned:
    """A scale of the user's own, whose factors mean something else."""

    def __init__(self, factors) -> None:
        self.factors = factors

    def __call__(self, scores):
        return -scores


@pytest.mark.parametrize("factors", [(1.0,), np.arange(4.0)], ids=["one", "of every class"])
def test_labels_are_ordered_by_what_a_scale_of_the_user_makes_of_their_scores(factors) -> None:
    scores = np.array([[[0.1], [0.3], [0.2], [0.4]]])
    rule = Rule(Turned(factors), np.ones(1))
    assert_array_equal(best_first(np.ones((1, 4), dtype=bool), scores, rule), [0, 2, 1, 3])


def test_a_few_blocks_per_thread_are_in_memory_at_once(monkeypatch) -> None:
    compile_for(2**17)
    logits, y = rows_and_labels(n=500)
    monkeypatch.setattr(module, "WORTHWHILE", 0)
    cp = cx.ScoreAverage(THREE, kind="logits", random_state=0, threads=3).fit(logits, y)
    monkeypatch.setattr("conformix.kernels.blocks.OUTPUTS_PER_WAIT", 1)
    monkeypatch.setattr(uppers, "BLOCK_OUTPUTS", logits[:8].size)
    sizes, entries = [], []

    def spied(work, blocks, threads):
        sizes.append((len(blocks), threads))
        return run_blocks(work, blocks, threads)

    monkeypatch.setattr(uppers, "run_blocks", spied)
    monkeypatch.setattr("conformix.fit.predictor.compile_for", entries.append)
    cp.predict_set(logits)
    assert entries == [logits.size]
    assert sizes == [(1, 3)] * 21  # blocks of 24 rows, one after the other, that all threads share
    sizes.clear()
    monkeypatch.setattr(uppers, "are_compiled", lambda outputs: False)
    cp.predict_set(logits)
    assert sizes == [(8 * 3, 3), (8 * 3, 3), (15, 3)]  # of 63 blocks, one for each thread


@given(data=st.data(), n_classes=st.integers(1, 9))
def test_scores_said_to_rise_rise(data, n_classes) -> None:
    probs = data.draw(probability_rows(n_classes, 7))
    order = np.argsort(probs, axis=1, kind="stable")
    for name in VARIANTS:
        score = parse_score(name)
        if not score.rises or score.name in NEED_LOGITS:
            continue
        values = score_tensor(probs, score, random_state=0)[..., 0]
        rising = np.take_along_axis(values, order, axis=1)
        assert (np.diff(rising, axis=1) >= 0).all(), name


def test_scores_said_to_rise_rise_in_long_rows_and_others_do_not() -> None:
    probs = np.random.default_rng(0).dirichlet(np.full(300, 0.05), 200)
    order = np.argsort(probs, axis=1, kind="stable")

    def falls(name: str) -> bool:
        values = score_tensor(probs, name, random_state=0)[..., 0]
        return bool((np.diff(np.take_along_axis(values, order, axis=1), axis=1) < 0).any())

    named = [name for name in VARIANTS if parse_score(name).name not in NEED_LOGITS]
    assert not [name for name in named if parse_score(name).rises and falls(name)]
    fall = ["aps(u=1.0)", "raps(penalty=0.0, u=1.0)"]
    assert all(map(falls, fall))
    assert not [name for name in fall if parse_score(name).rises]


def test_only_rules_that_rise_say_so() -> None:
    knots = np.array([0.0, 1.0])
    for transform, rises in [
        (Scaled((1.0, 0.0)), True), (Scaled((1.0, -1.0)), False),
        (Interpolated((knots,), (knots,)), True), (lambda scores: -scores, False),
    ]:  # fmt: skip
        assert module.Rule(transform, np.ones(2)).rises is rises
    assert not module.Rule(Scaled((1.0, 1.0)), np.array([1.0, -0.1])).rises


def test_user_scores_and_several_models_are_scored_label_by_label() -> None:
    logits, _ = rows_and_labels()
    one = check_outputs(logits, "logits")
    two = check_outputs({"a": logits, "b": logits}, "logits")
    assert sorting.rise(score_columns(("",), THREE), one)
    assert not sorting.rise(score_columns(("",), ("thr", np.sqrt)), one)
    assert not sorting.rise(score_columns(("a", "b"), THREE), two)
    assert not sorting.rise(score_columns(("",), ("aps(randomized=True)",)), one)


@pytest.mark.parametrize("window", [1, 2, 5, 100])
def test_windows_of_any_width_end_where_labels_are_out(monkeypatch, window) -> None:
    monkeypatch.setattr(sorting, "WINDOWS", (window, 2 * window))
    rows = sorting.SortedRows(np.sort(np.random.default_rng(0).random((40, 23)), axis=1))
    cuts = np.linspace(-0.1, 1.1, 40)
    columns = score_columns(("",), "thr")
    first = sorting.first_reaching(rows, columns, lambda s, which: s[..., 0] >= cuts[which, None])
    assert_array_equal(23 - first, (rows.block >= cuts[:, None]).sum(axis=1))
    some = np.array([3, 9, 30])
    part = sorting.first_reaching(
        rows, columns, lambda s, which: s[..., 0] >= cuts[some[which], None], some
    )
    assert_array_equal(part, first[some])


@pytest.mark.parametrize("scores", [THREE, "auto", ("thr", "rank")])
def test_several_levels_in_one_pass_are_those_of_all_labels(monkeypatch, scores) -> None:
    logits, y = rows_and_labels(digits=0)
    cp = cx.ScoreAverage(scores, kind="logits", random_state=0).fit(logits, y)
    found = []
    for least in (0, 2**62):
        monkeypatch.setattr(module, "WORTHWHILE", least)
        found.append(cp.predict_set(logits, alpha=[0.05, 0.2, 0.6]))
    assert_array_equal(found[0].depth, found[1].depth)
    assert found[0].depth.dtype == found[1].depth.dtype
    assert_array_equal(found[0].order, found[1].order)


@pytest.mark.parametrize("digits", [None, 0], ids=["all differ", "tied"])
@pytest.mark.parametrize(
    "settings",
    [
        {"scores": THREE},
        {"scores": ("aps(randomized=True)", "raps"), "normalize": "ecdf"},
        {"scores": "auto"},
        {"scores": THREE, "calibration": "class"},
        {"scores": THREE, "allow_empty": False},
    ],
    ids=lambda settings: " ".join(map(str, settings.values())),
)
def test_sizes_of_rows_that_are_read_again_are_counted_without_their_scores(
    settings, digits, monkeypatch, tmp_path
) -> None:
    logits, y = rows_and_labels(digits=digits)
    np.save(tmp_path / "rows.npy", logits)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    monkeypatch.setattr("conformix.fit.rows.MAPPED_BYTES", 0)  # as if the file were large
    monkeypatch.setattr(scoring, "SORTED_TOGETHER", -1)
    monkeypatch.setattr(scoring, "with_order", lambda held: held)
    options = {"kind": "logits", "alpha": 0.2, "random_state": 0, **settings}
    sizes = []
    for least in (0, 2**62):
        monkeypatch.setattr(module, "WORTHWHILE", least)
        sizes.append(cx.ScoreAverage(**options).fit(mapped, y).held_out_size_)
    assert sizes[0] == sizes[1] > 0


@pytest.mark.parametrize(
    "dtype", ["i1", "u1", "<i4", ">i4", "i8", "f2", "<f4", ">f4", ">f8", "longdouble"]
)
@pytest.mark.parametrize("scores", ["paper", "thr", ("thr", "raps"), "auto"])
@pytest.mark.parametrize("alpha", [0.05, 0.6])
def test_logits_of_every_type_have_the_sets_of_these_numbers(dtype, scores, alpha) -> None:
    """Whole numbers have no infinity, which is where the sets of no label begin."""
    logits, y = rows_and_labels(2_400, 30, digits=0)
    logits -= logits.min()
    found = []
    for values in (logits, logits.astype(dtype)):
        cp = cx.ScoreAverage(scores, alpha=alpha, kind="logits", random_state=0)
        found.append(cp.fit(values[:1_200], y[:1_200]).predict_set(values[1_200:]))
    assert_array_equal(found[0].mask, found[1].mask)
    assert_array_equal(found[0].order, found[1].order)
    assert (found[0].sizes == 0).any() == (alpha > 0.5)
