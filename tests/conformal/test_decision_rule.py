"""The decision rule, to the last bit, for numbers of every width and size (docs/numerics.md)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from cases import NEEDS_LOGITS
from conformix.conformal import conformal_rank
from conformix.scores import SCORES
from conformix.search import GridSearch

# Batches of few test rows warn, and are not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.SmallBatchWarning")

NAMES = ("thr", "aps", "rank")
SPLITS = ("vfcp", "efcp", "dlcp", "dlcp+", "exact")
N, K = 200, 5
RNG = np.random.default_rng(11)
# Multiples of 1/1024 have eleven bits: half precision holds them exactly.
FEW_BITS = RNG.multinomial(1024, RNG.dirichlet(np.full(K, 0.7), size=N)) / 1024
Y = (FEW_BITS.cumsum(axis=1) > RNG.random((N, 1))).argmax(axis=1)


def fitted(outputs: np.ndarray, split: str = "efcp", **options: object) -> cx.ScoreAverage:
    settings = {"alpha": 0.1, "search": GridSearch(5), "random_state": 3, "split": split}
    test = outputs[:50] if split.startswith("dlcp") else None
    return cx.ScoreAverage(NAMES, **(settings | options)).fit(outputs, Y[: len(outputs)], test=test)


def answers(cp: cx.ScoreAverage, outputs: np.ndarray) -> list[np.ndarray]:
    cut = [] if cp.split == "exact" else [cp.threshold_]
    return [
        cp.weights_,
        np.array(cut),
        np.asarray(cp.predict_set(outputs)),
        np.asarray(cp.predict_set(outputs, alpha=0.3)),
        cp.predict_pvalues(outputs),
        cp.predict_pvalues(outputs, smoothed=True),
    ]


def assert_same(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    for first, second in zip(one, other, strict=True):
        assert_array_equal(first, second)


# -- the rule ------------------------------------------------------------------------------------


def test_a_label_at_the_threshold_is_in_and_one_bit_below_it_is_out() -> None:
    probs = RNG.dirichlet(np.ones(2), size=99)
    cp = cx.ScoreAverage("thr", alpha=0.1, weights=[1.0]).fit(probs, np.zeros(99, int))
    t = cp.threshold_
    assert t == np.sort(probs[:, 0])[-conformal_rank(99, 0.1)]
    below, above = np.nextafter(t, 0), np.nextafter(t, 1)
    rows = np.array([[below, 1 - below], [t, 1 - t], [above, 1 - above]])
    assert cp.predict_set(rows).mask[:, 0].tolist() == [False, True, True]
    pvalues = cp.predict_pvalues(rows)[:, 0]
    assert (pvalues > 0.1).tolist() == [False, True, True]


@pytest.mark.parametrize("normalize", ["none", "scale"])
def test_membership_is_the_ordered_sum_of_python_floats(normalize: str) -> None:
    cp = fitted(FEW_BITS, normalize=normalize)
    scores = cx.score_tensor(FEW_BITS, NAMES)
    assert normalize == "none" or cp.predictor_.fitted.normalizer == "scale"
    weights, mask = cp.weights_.tolist(), cp.predict_set(FEW_BITS).mask
    scaled = np.asarray(cp.predictor_.fitted.rule.transform(scores))
    combined = np.empty((N, K))
    for i in range(N):
        for y in range(K):
            total = weights[0] * float(scaled[i, y, 0])
            for j in range(1, len(NAMES)):
                total = total + weights[j] * float(scaled[i, y, j])
            combined[i, y] = total
    own = np.sort(combined[np.arange(N), Y])
    assert cp.threshold_ == own[-conformal_rank(N, 0.1)]
    assert_array_equal(mask, combined >= cp.threshold_)


def test_sets_are_the_labels_whose_pvalue_is_above_alpha() -> None:
    for split in SPLITS:
        cp = fitted(FEW_BITS, split)
        # Under the exact split p-values, like weights, belong to the fitted level.
        for alpha in (0.1,) if split == "exact" else (0.1, 0.3):
            mask = cp.predict_set(FEW_BITS, alpha=alpha).mask
            assert_array_equal(mask, cp.predict_pvalues(FEW_BITS) > alpha)


# -- widths --------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("width", [np.float16, np.float32, ">f8", np.longdouble])
def test_narrow_numbers_are_widened_first_and_then_all_is_the_same(
    width: object, split: str
) -> None:
    expected = answers(fitted(FEW_BITS, split), FEW_BITS)
    narrow = FEW_BITS.astype(width)
    assert_same(answers(fitted(narrow, split), narrow), expected)


@pytest.mark.parametrize("width", [np.float16, np.float32])
def test_logits_of_any_width_are_taken_as_the_numbers_that_they_are(width: type) -> None:
    narrow = (RNG.standard_normal((N, K)) * 5).astype(width)
    for scores in (NAMES, ("logp", "logit", "-entropy", "energy")):
        cp = cx.ScoreAverage(scores, kind="logits", split="efcp", search=GridSearch(3))
        one = cp.fit(narrow, Y).predict_pvalues(narrow)
        assert_array_equal(cp.fit(narrow.astype(float), Y).predict_pvalues(narrow), one)


@pytest.mark.parametrize(
    ("width", "off", "fine"),
    [
        (np.float64, 1e-7, True),
        (np.float64, 0.9e-4, True),
        (np.float64, 1.1e-4, False),
        (np.float32, 0.9e-4, True),
        (np.float32, 1.2e-4, False),
        (np.float16, 4e-3, True),
        (np.float16, 7e-3, False),
    ],
)
def test_how_far_a_row_may_sum_from_one(width: type, off: float, fine: bool) -> None:
    row = np.array([[0.5, 0.25, 0.25 - off]]).astype(width)
    if not fine:
        with pytest.raises(cx.InvalidInput, match="rows sum to 1"):
            cx.score_tensor(row, "thr")
        return
    # Taken as it is: nothing is renormalised behind the user's back.
    assert_array_equal(cx.score_tensor(row, "thr")[0, :, 0], row[0].astype(np.float64))


# -- extremes ------------------------------------------------------------------------------------

TINY = np.finfo(float).tiny
EXTREME = {
    "zeros and ones": np.eye(K)[Y],
    "denormals": np.where(np.eye(K)[Y] == 1, 1.0, 5e-324),
    "smallest normal numbers": np.where(np.eye(K)[Y] == 1, 1.0, TINY),
    "all equal": np.full((N, K), 1 / K),
    "sums off by 1e-7": FEW_BITS * (1 - 1e-7),
}
LOGITS = {
    "plus and minus 1e4": np.where(np.eye(K)[Y] == 1, 1e4, -1e4),
    "all 1e4": np.full((N, K), 1e4),
    "beyond the range of exp": np.where(np.eye(K)[Y] == 1, 1e308, -1e308),
    "denormals": np.full((N, K), 5e-324),
}
CASES = [
    *((name, "probs", rows) for name, rows in EXTREME.items()),
    *((name, "logits", rows) for name, rows in LOGITS.items()),
]


@pytest.mark.parametrize(("kind", "rows"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_every_score_of_extreme_rows_is_finite(kind: str, rows: np.ndarray) -> None:
    for name in sorted(name for name in SCORES if not SCORES[name].learns):
        if kind == "logits" or name not in NEEDS_LOGITS:
            assert np.isfinite(cx.score_tensor(rows, name, kind=kind)).all(), name


@pytest.mark.parametrize(("kind", "rows"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
@pytest.mark.parametrize("split", SPLITS)
def test_extreme_rows_are_covered_as_promised_on_their_own_rows(
    split: str, kind: str, rows: np.ndarray
) -> None:
    """At least k of the n calibration rows reach the threshold; ties can only add to them."""
    cp = fitted(rows, split, kind=kind)
    covered = cp.predict_set(rows).mask[np.arange(N), Y].sum()
    assert covered >= (conformal_rank(N, 0.1) if split != "vfcp" else 0)
    pvalues = cp.predict_pvalues(rows)
    assert ((pvalues > 0) & (pvalues <= 1)).all()


def test_rows_that_are_all_equal_give_full_sets() -> None:
    for split in SPLITS:
        cp = fitted(EXTREME["all equal"], split)
        assert cp.predict_set(EXTREME["all equal"]).mask.all()


def test_a_denormal_probability_is_more_than_zero_and_its_logarithm_is_not() -> None:
    row = np.array([[1.0, 5e-324, 0.0]])
    thr, rank, logp = (cx.score_tensor(row, name)[0, :, 0] for name in ("thr", "rank", "logp"))
    assert thr[1] > thr[2]
    assert rank.tolist() == [1.0, 0.5, 0.0]
    assert logp[1] == logp[2] == np.log(TINY)


def test_logits_may_be_moved_by_any_whole_number_without_a_change() -> None:
    whole = RNG.integers(-30, 30, size=(N, K)).astype(float)
    # All but the smoothed p-values, whose uniform number is a hash of the numbers given.
    expected = answers(fitted(whole, kind="logits"), whole)[:-1]
    for shift in (1e4, -1e4, 2.0**40):
        moved = whole + shift
        assert_same(answers(fitted(moved, kind="logits"), moved)[:-1], expected)


# -- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS)
def test_one_two_and_three_threads_agree_to_the_last_bit(
    split: str, cifar10: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformix.data.outputs.READ_ENTRIES", 2000)  # many blocks of few rows
    logits, y = cifar10[0], cifar10[1]
    n = 400 if split == "exact" else 3000
    test = logits[n : n + 500]
    found = []
    for threads in (1, 2, 3):
        cp = cx.ScoreAverage(
            (*NAMES, "aps(randomized=True)")[: 3 if split == "exact" else 4],
            alpha=0.02, split=split, kind="logits", search=GridSearch(5), threads=threads,
            random_state=1,
        )  # fmt: skip
        cp.fit(logits[:n], y[:n], test=test if split.startswith("dlcp") else None)
        found.append(answers(cp, test))
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])
