"""Slips that a reader of the whole tree found once; each stays caught."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix import guarantees as gs
from conformix import metrics
from conformix.errors import InvalidInput
from conformix.splits import ValidityFirst

DATA = cx.datasets.load("cifar10")
LOGITS, LABELS = DATA.outputs["vgg16"], DATA.labels


def test_smoothed_p_values_are_uniform_over_fits_even_with_three_distinct_rows():
    rng = np.random.default_rng(0)
    kinds = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.6, 0.25, 0.15]])
    seen = []
    for seed in range(1500):
        rows = kinds[rng.integers(0, 3, 50)]
        y = np.array([rng.choice(3, p=row) for row in rows])
        cp = cx.ScoreAverage("rank", alpha=0.1, weights=[1.0], random_state=seed)
        cp.fit(rows[:49], y[:49])
        seen.append(cp.predict_pvalues(rows[49:], smoothed=True)[0, y[49]])
    shares = [(np.array(seen) <= level).mean() for level in (0.2, 0.5, 0.8)]
    # z = 4.5 with 1,500 draws
    assert (np.abs(np.subtract(shares, (0.2, 0.5, 0.8))) < 4.5 * np.sqrt(0.25 / 1500)).all(), shares


def test_the_split_does_not_depend_on_whether_a_score_is_randomised():
    rows = [
        cx.ScoreAverage((score,), alpha=0.1, kind="logits", split=ValidityFirst(), random_state=5)
        .fit(LOGITS[:300], LABELS[:300])
        .predictor_.fitted.n
        for score in ("aps", "aps(randomized=True)")
    ]
    assert rows == [150, 150]


@pytest.mark.parametrize("split", ["dlcp", "dlcp+"])
def test_the_ledger_keeps_a_fresh_row_and_the_fitted_batch_apart(split):
    cp = cx.ScoreAverage(alpha=0.1, kind="logits", split=split, search=np.eye(3))
    cp.fit(LOGITS[:500], LABELS[:500], test=LOGITS[500:700])
    entries = {entry.source: entry.says for entry in cp.guarantee_.entries()}
    assert "of a fresh row" in entries["selection, marginal"]
    share = gs.batch_bound(500, 200, 451, 0.1, n_weights=3)
    assert entries["order statistic, batch"].startswith(f"coverage of this batch >= {share:.4f}")


def test_the_batch_bound_is_the_largest_share_that_the_law_allows():
    from scipy.stats import betabinom

    share = gs.batch_bound(300, 40, 271, 0.1, n_weights=5)
    h = round(share * 40)
    assert 5 * betabinom.cdf(h - 1, 40, 271, 30) <= 0.1 < 5 * betabinom.cdf(h, 40, 271, 30)


def test_a_search_that_counts_nothing_gets_no_union_bound():
    def mine(objective, rng):
        return cx.search.Candidates(np.eye(3))(objective, rng)

    cp = cx.ScoreAverage(alpha=0.1, kind="logits", split="efcp", search=mine)
    cp.fit(LOGITS[:300], LABELS[:300])
    (entry,) = [e for e in cp.guarantee_.entries() if e.source == "order statistic"]
    assert entry.vacuous
    assert "does not say how many" in entry.says


def test_the_floor_of_log_probabilities_does_not_depend_on_the_precision():
    row = [[0.5, 0.5, 0.0]]
    floors = [
        cx.score_tensor(np.array(row, dtype=dtype), "logp")[0, 2, 0]
        for dtype in (np.float16, np.float32, np.float64)
    ]
    assert floors[0] == floors[1] == floors[2] == np.log(np.finfo(float).tiny)


def test_sets_can_be_changed_in_place_and_be_the_output_of_a_ufunc():
    sets = cx.PredictionSets(np.array([[True, True, False]]))
    sets &= np.array([[True, False, True]])
    assert_array_equal(sets, [[True, False, False]])
    room = cx.PredictionSets(np.zeros((1, 3), dtype=bool))
    np.logical_not(sets, out=room)
    assert_array_equal(room.mask, [[False, True, True]])


def test_the_exact_split_takes_widths_as_an_array():
    cp = cx.ScoreAverage(
        alpha=0.2, kind="logits", split="exact", normalize=np.array([1.0, 2.0, 1.0]),
        search=np.eye(3),
    )  # fmt: skip
    assert cp.fit(LOGITS[:50], LABELS[:50]).normalizer_ == "scale"


def test_scores_may_come_from_a_generator():
    tensor = cx.score_tensor([[0.2, 0.8]], (name for name in ("thr", "rank")))
    assert tensor.shape == (1, 2, 2)


def test_a_fitted_repr_says_what_is_promised():
    cp = cx.ScoreAverage(alpha=0.2, kind="logits", split="efcp", search=np.eye(3))
    assert "guarantee" not in repr(cp)
    assert repr(cp.fit(LOGITS[:50], LABELS[:50])).endswith("[fitted, guarantee approximate]")


def test_huge_logits_raise_no_warning():
    assert np.isfinite(
        cx.score_tensor([[1e308, -1e308, 0.0]], ("thr", "logp"), kind="logits")
    ).all()


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: cx.scores.parse_score("raps(penalty='a')"), "^penalty must be a non-negative"),
        (lambda: cx.scores.parse_score("raps(penalty=-1)"), "^penalty must be a non-negative"),
        (lambda: cx.scores.parse_score("raps(penalty=1e400)"), "^penalty must be a non-negative"),
        (
            lambda: cx.scores.parse_score("raps(k_reg=None)"),
            "^k_reg must be a non-negative integer",
        ),
        (lambda: cx.scores.parse_score("thr(temperature=[1])"), "^temperature must be a positive"),
        (lambda: gs.pac_rank(10.5, 0.1, 0.1), "^n must be an integer from 1 on; got 10.5"),
        (lambda: gs.pac_rank(100, 0.1, 0.1, n_weights=0), "^n_weights must be an integer from 1"),
        (lambda: gs.batch_pac_rank(100, 0, 0.1, 0.1), "^m must be an integer from 1 on; got 0"),
        (lambda: gs.marginal_bound(10, 0), "^k must be an integer from 1 on; got 0"),
        (lambda: gs.vc_eta(0, 3, 0.1), "^n must be an integer from 1 on; got 0"),
        (lambda: metrics.size_quantile([[True]], q=2), "^sets must be|^q must be a number"),
        (lambda: metrics.size_quantile(np.array([[True]]), q=2), "^q must be a number strictly"),
        (lambda: metrics.size_at_coverage(np.array([[0.5]]), [0], coverage=2), "^coverage must be"),
        (lambda: metrics.size_at_coverage(np.array([[np.nan]]), [0], coverage=0.5), "^scores must"),
        (lambda: metrics.share_interval(1, 2, level=2), "^level must be a number strictly"),
        (
            lambda: metrics.class_table(np.array([[True]]), [0], classes=[]),
            "^classes must name all",
        ),
        (lambda: cx.TopK([[0]], [["a"]], 3), "^values of TopK must be a rectangular array"),
        (lambda: cx.TopK([[0]], [[0.5]], 2.5), "^n_classes of TopK must be a positive integer"),
        (lambda: cx.datasets.load(["a"]), "^unknown data set"),
        (
            lambda: cx.ScoreAverage(weights=[1, 0, 0]).fit([[0.5, 0.5]], [0], groups=[1, 2]),
            "^groups",
        ),
        (
            lambda: cx.ScoreAverage().fit([[0.5, 0.5]] * 9, [0] * 9, test="x"),
            "^test must hold real",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::conformix.errors.TrivialSetsWarning")
def test_bad_options_are_refused_in_our_words(act, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        act()
