"""Rows tune where there is something to choose or to learn; where there is not, all calibrate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conformix as cx
from conformix.calibration import (
    Clustered,
    LabelShift,
    PerClass,
    PerGroup,
    RankedPerClass,
    Weighted,
)
from conformix.data.batches import from_arrays
from conformix.fit import rows as budget
from conformix.search import GradientSearch, GridSearch, LineSearch, OneStandardError
from conformix.splits import Exact, ValidityFirst

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")

N = 120


def drawn(seed: int, n: int = N, n_classes: int = 4) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    logits = rng.normal(size=(n, n_classes))
    logits[np.arange(n), y] += 1.5
    powers = np.exp(logits)
    return powers / powers.sum(axis=1, keepdims=True), y


PROBS, Y = drawn(0)
NEW, Y_NEW = drawn(1, 60)


def roles(**options: Any) -> tuple[int, int]:
    """Return how many rows tuned and how many calibrated."""
    scheme = options.get("calibration")
    more: dict[str, Any] = {}
    if isinstance(scheme, PerGroup):
        more = {"strata": np.arange(N) % 2}
    if isinstance(scheme, Weighted):
        more = {"sample_weight": np.ones(N)}
    outputs = options.pop("outputs", PROBS)
    cp = cx.ScoreAverage(**({"scores": "thr", "alpha": 0.1, "random_state": 0} | options))
    facts = cp.fit(outputs, Y, **more).guarantee_.facts
    assert cp.guarantee_.kind in ("exact", "pac", "approximate")
    return facts.n_tune, facts.n_cal


NOTHING_TO_LEARN: dict[str, dict[str, Any]] = {
    "one score": {},
    "one randomised score": {"scores": "aps(randomized=True)"},
    "on a grid": {"search": "grid"},
    "on another grid": {"search": GridSearch(7)},
    "on lines": {"search": LineSearch()},
    "by gradients": {"search": GradientSearch()},
    "with a simple choice": {"search": OneStandardError()},
    "as it is": {"normalize": "none"},
    "divided by a number": {"normalize": [2.0]},
    "never empty": {"allow_empty": False},
    "pac": {"guarantee": "pac", "delta": 0.2},
    "another level of a search that does not happen": {"tune_alpha": 0.3},
    "another objective of a search that does not happen": {"objective": "singletons"},
    "one candidate of two scores": {
        "scores": ("thr", "rank"), "search": [[0.3, 0.7]], "normalize": "scale",
    },
    "one candidate outside the simplex": {
        "scores": ("thr", "rank"), "search": [[1.0, -0.1]], "normalize": "none",
    },
    "by class": {"calibration": PerClass()},
    "by group": {"calibration": PerGroup()},
    "weighted": {"calibration": Weighted()},
    "label shift": {"calibration": LabelShift((1.0, 1.0, 1.0, 1.0))},
    "clusters of one's own": {"calibration": Clustered(clusters=[0, 0, 1, 1])},
}  # fmt: skip

SOMETHING_TO_LEARN: dict[str, dict[str, Any]] = {
    "two scores": {"scores": ("thr", "rank")},
    "one score of two models": {"outputs": {"a": PROBS, "b": PROBS[:, ::-1]}},
    "two candidates of one score": {"search": [[1.0], [-1.0]]},
    "a search of one's own": {"search": LineSearch().__call__},
    "a scale that is learnt": {"normalize": "ecdf"},
    "a scale that matters": {"scores": ("thr", "rank"), "search": [[0.3, 0.7]]},
    "which classes are rare": {"calibration": PerClass("pooled")},
    "which groups are rare": {"calibration": PerGroup("marginal")},
    "clusters": {"calibration": Clustered(2)},
    "largest ranks": {"calibration": RankedPerClass()},
    "a share that was asked for": {"split": ValidityFirst()},
    "a number of rows that was asked for": {"split": ValidityFirst(0.5, max_rows=60)},
}


@pytest.mark.parametrize("what", NOTHING_TO_LEARN)
def test_all_rows_calibrate_where_there_is_nothing_to_learn(what: str) -> None:
    assert roles(**NOTHING_TO_LEARN[what]) == (0, N)


@pytest.mark.parametrize("what", SOMETHING_TO_LEARN)
def test_half_of_the_rows_stay_apart_where_there_is_something_to_learn(what: str) -> None:
    assert roles(**SOMETHING_TO_LEARN[what]) == (N // 2, N // 2)


def test_one_candidate_has_the_sets_of_weights_given_by_hand() -> None:
    one = cx.ScoreAverage("thr", alpha=0.1).fit(PROBS, Y)
    by_hand = cx.ScoreAverage("thr", alpha=0.1, weights=[1.0]).fit(PROBS, Y)
    assert one.threshold_ == by_hand.threshold_ == np.sort(PROBS[np.arange(N), Y])[11]
    assert (one.predict_set(NEW).mask == by_hand.predict_set(NEW).mask).all()
    assert one.guarantee_.table() == by_hand.guarantee_.table()
    assert one.guarantee_.kind == "exact"


def test_who_calibrates_does_not_depend_on_the_labels_or_the_seed() -> None:
    for seed in (0, 1):
        other = np.random.default_rng(seed).integers(4, size=N)
        cp = cx.ScoreAverage("thr", random_state=seed).fit(PROBS, other)
        assert (cp.guarantee_.facts.n_tune, cp.guarantee_.facts.n_cal) == (0, N)


def test_an_exact_split_sets_no_rows_aside_for_a_shortlist_of_one() -> None:
    listed = cx.ScoreAverage("thr", split=Exact(shortlist=3), random_state=0).fit(PROBS, Y)
    plain = cx.ScoreAverage("thr", split="exact").fit(PROBS, Y)
    assert listed.predictor_.fitted.n == plain.predictor_.fitted.n == N
    assert (listed.predict_set(NEW).mask == plain.predict_set(NEW).mask).all()
    several = cx.ScoreAverage("paper", split=Exact(shortlist=3), random_state=0).fit(PROBS, Y)
    assert several.predictor_.fitted.n == 96


def test_of_any_bag_of_rows_enough_are_covered_by_the_others() -> None:
    """The leave-one-out identity: the sets of one score are exact on all rows."""
    for seed in range(3):
        probs, y = drawn(seed, 40)

        def calibrate(outputs: Any, labels: Any) -> Any:
            return cx.ScoreAverage("aps", alpha=0.15).fit(outputs, labels)

        report = cx.testing.leave_one_out(calibrate, probs, y, alpha=0.15)
        assert report.covered >= report.needed


@pytest.mark.parametrize("scheme", ["marginal", PerClass()])
def test_memory_batches_and_dask_agree_to_the_bit(
    scheme: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    da = pytest.importorskip("dask.array")
    options: dict[str, Any] = {"scores": "saps", "alpha": 0.1, "calibration": scheme}
    whole = cx.ScoreAverage(**{"scores": "paper", **options}, random_state=3).fit(PROBS, Y)
    others = [
        cx.ScoreAverage(**{"scores": "paper", **options}, random_state=3).fit_batches(
            from_arrays(PROBS, Y)
        ),
        cx.ScoreAverage(**{"scores": "paper", **options}, random_state=3).fit_batches(
            (PROBS[a : a + 50], Y[a : a + 50]) for a in range(0, N, 50)
        ),
        cx.ScoreAverage(**{"scores": "paper", **options}, random_state=3).fit(
            da.from_array(PROBS, chunks=(50, 4)), da.from_array(Y, chunks=50)
        ),
    ]
    monkeypatch.setattr(budget, "TENSOR_BYTES", 1)  # scores are gathered, and not kept
    others.append(cx.ScoreAverage(**{"scores": "paper", **options}, random_state=3).fit(PROBS, Y))
    for other in others:
        assert (other.predict_set(NEW).mask == whole.predict_set(NEW).mask).all()
        assert np.array_equal(other.threshold_, whole.threshold_)
        assert other.guarantee_.facts == whole.guarantee_.facts
        assert other.held_out_size_ in (whole.held_out_size_, None)


def test_what_a_fit_says_of_itself_survives_a_file(tmp_path: Path) -> None:
    cp = cx.ScoreAverage("thr", alpha=0.1).fit(PROBS, Y)
    assert cp.search_ is None
    assert cp.held_out_size_ == (cp.threshold_ <= PROBS).sum() / N
    cp.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json")
    assert again.guarantee_.table() == cp.guarantee_.table()
    assert "chose the weights" not in cp.guarantee_.table()
    assert again.held_out_size_ == cp.held_out_size_
    assert again.get_params()["weights"] is None
    assert (again.fit(PROBS, Y).predict_set(NEW).mask == cp.predict_set(NEW).mask).all()


def test_one_row_is_enough_to_calibrate_one_score() -> None:
    with pytest.warns(cx.TrivialSetsWarning, match="got 1, 8 too few: every set holds all labels"):
        cp = cx.ScoreAverage("thr").fit(PROBS[:1], Y[:1])
    assert cp.predict_set(NEW).sizes.tolist() == [4] * len(NEW)


def test_all_rows_give_smaller_sets_than_half_of_them() -> None:
    """CIFAR-100, 100 rows, alpha = .05: 3.3 labels with half of the rows, 2.7 with all."""
    data = cx.datasets.load("cifar100")
    logits, y = data.outputs["wideresnet_16_4"], data.labels
    sizes: dict[Any, list[float]] = {"vfcp": [], ValidityFirst(): []}
    for seed in range(60):
        rows = np.random.default_rng(seed).permutation(len(y))
        for split, found in sizes.items():
            cp = cx.ScoreAverage("thr", alpha=0.05, kind="logits", split=split, random_state=seed)
            cp.fit(logits[rows[:100]], y[rows[:100]])
            found.append(cp.predict_set(logits[rows[100:1100]]).sizes.mean())
    whole, half = (np.mean(found) for found in sizes.values())
    assert whole < 0.92 * half


def test_cross_conformal_folds_need_no_rows_to_tune_one_score() -> None:
    folds = [cx.cross.Fold(PROBS[a : a + 40], Y[a : a + 40]) for a in (0, 40, 80)]
    one = cx.CrossAverage("thr", alpha=0.1).fit(folds).predict_set([NEW] * 3)
    by_hand = cx.CrossAverage("thr", alpha=0.1, weights=[1.0]).fit(folds).predict_set([NEW] * 3)
    assert (one.mask == by_hand.mask).all()
    with pytest.raises(cx.InvalidInput, match="fold 0 has no rows to choose weights on"):
        cx.CrossAverage(("thr", "rank"), alpha=0.1).fit(folds)


def test_the_split_does_not_depend_on_whether_a_score_is_randomised(cifar10):
    logits, labels = cifar10
    rows = [
        cx.ScoreAverage((score,), alpha=0.1, kind="logits", split=ValidityFirst(), random_state=5)
        .fit(logits[:300], labels[:300])
        .predictor_.fitted.n
        for score in ("aps", "aps(randomized=True)")
    ]
    assert rows == [150, 150]


@pytest.mark.parametrize(
    "settings",
    [{}, {"calibration": PerClass(tune=True)}, {"objective": "class_gap"}],
    ids=["mean size", "thresholds per class", "another goal"],
)
def test_weights_are_searched_at_the_level_that_tunes(settings) -> None:
    """Whatever is searched for: as if the sets had that level."""
    data = cx.datasets.load("cifar10")
    rows, y = data.outputs["lenet5"][:1500], data.labels[:1500]

    def weights(**levels: float) -> list[float]:
        cp = cx.ScoreAverage("paper", kind="logits", random_state=0, **levels, **settings)
        return cp.fit(rows, y).weights_.tolist()

    found = weights(alpha=0.1, tune_alpha=0.3)
    assert found == weights(alpha=0.3) != weights(alpha=0.1)


def test_rows_that_do_not_calibrate_are_searched_without_the_pac_rank() -> None:
    """A PAC statement is about the threshold, which other rows make."""
    data = cx.datasets.load("cifar10")
    rows, y = data.outputs["lenet5"][:400], data.labels[:400]
    found = [
        cx.ScoreAverage("paper", kind="logits", alpha=0.1, random_state=0, guarantee=guarantee)
        .fit(rows, y)
        .search_
        for guarantee in ("marginal", "pac")
    ]
    assert found[0].count == found[1].count
    assert found[0].weights.tolist() == found[1].weights.tolist()
