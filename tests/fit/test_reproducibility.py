"""Results depend on the numbers alone: not on layout, batching, threads or earlier calls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import conformix as cx
from cases import UNEVEN, Bag, bags, choices, frozen_copy, levels, tensors
from conformix.kernels import combine
from conformix.kernels.host.engine import counts_and_thresholds
from conformix.kernels.host.engine.lists import RUN, count_in
from conformix.search import GridSearch, landscape, search_weights
from conformix.splits import ValidityFirst

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")

NAMES = ("thr", "aps", "rank")
SPLITS = ("vfcp", "efcp", "dlcp", "dlcp+")


def fitted(bag: Bag, alpha: float = 0.2, split: str = "vfcp", **options: object) -> cx.ScoreAverage:
    cp = cx.ScoreAverage(
        NAMES, alpha=alpha, split=split, search=GridSearch(4), random_state=7, **options
    )
    return cp.fit(bag.outputs, bag.y, test=bag.test)


def one_by_one(cp: cx.ScoreAverage, outputs: dict[str, np.ndarray]) -> np.ndarray:
    n = len(next(iter(outputs.values())))
    rows = [{name: model[i : i + 1] for name, model in outputs.items()} for i in range(n)]
    return np.concatenate([np.asarray(cp.predict_set(row)) for row in rows])


@settings(max_examples=100)
@given(bag=bags(), level=levels())
def test_sets_are_the_same_for_a_batch_and_row_by_row(bag: Bag, level: tuple) -> None:
    cp = fitted(bag, alpha=level[0])
    assert_array_equal(cp.predict_set(bag.test), one_by_one(cp, bag.test))


@pytest.mark.parametrize("model", ["vgg16", "wideresnet_16_4"])
def test_sets_of_real_logits_are_the_same_for_a_batch_and_row_by_row(model: str) -> None:
    data = cx.datasets.load("cifar10")
    logits, y = data.outputs[model], data.labels
    cp = cx.ScoreAverage(NAMES, alpha=0.01, kind="logits", search=GridSearch(10), random_state=0)
    cp.fit(logits[:1000], y[:1000])
    batch = np.asarray(cp.predict_set(logits[1000:1400]))
    assert_array_equal(batch, one_by_one(cp, {"": logits[1000:1400]}))
    assert_array_equal(batch, cp.predict_set(np.asfortranarray(logits[1000:1400])))


@settings(max_examples=60)
@pytest.mark.parametrize("split", SPLITS)
@given(bag=bags())
def test_inputs_are_never_modified(split: str, bag: Bag) -> None:
    given_in = {"outputs": bag.outputs, "y": bag.y, "test": bag.test}
    before = frozen_copy(given_in)
    fitted(bag, split=split).recalibrate(bag.outputs, bag.y).predict_set(bag.test)
    for name in ("outputs", "test"):
        for model, values in given_in[name].items():
            assert_array_equal(values, before[name][model])
    assert_array_equal(bag.y, before["y"])


@settings(max_examples=60)
@given(case=tensors())
def test_searches_never_modify_their_arrays_and_accept_read_only_ones(case: tuple) -> None:
    scores, y, size_rows = (np.array(part) for part in case)
    expected = search_weights(scores, y, alpha=0.2, resolution=3, size_scores=size_rows)
    before = frozen_copy({"scores": scores, "y": y, "size": size_rows})
    for part in (scores, y, size_rows):
        part.flags.writeable = False
    found = search_weights(scores, y, alpha=0.2, resolution=3, size_scores=size_rows)
    assert_array_equal(found.weights, expected.weights)
    assert found.count == expected.count
    assert_array_equal(scores, before["scores"])
    assert_array_equal(y, before["y"])
    assert_array_equal(size_rows, before["size"])


@settings(max_examples=60)
@given(bag=bags(max_models=1))
def test_layout_and_width_of_the_numbers_do_not_matter(bag: Bag) -> None:
    outputs, test = bag.outputs["a"], bag.test["a"]
    cp = cx.ScoreAverage(NAMES, alpha=0.2, split="efcp", search=GridSearch(4))
    expected = cp.fit(outputs, bag.y).predict_set(test)
    weights, t = cp.weights_, cp.threshold_
    read_only = outputs.copy()
    read_only.flags.writeable = False
    labels = bag.y.copy()
    labels.flags.writeable = False
    # Eighths are exact in half precision too, so every width must give the very same sets.
    for same in (
        read_only,
        np.asfortranarray(outputs),
        np.repeat(outputs, 2, axis=0)[::2],
        np.repeat(outputs, 2, axis=1)[:, ::2],
        outputs[::-1][::-1],
        outputs.astype(np.float16),
        outputs.astype(np.float32),
        outputs.astype(">f8"),
        outputs.tolist(),
    ):
        again = cp.fit(same, labels)
        assert_array_equal(again.weights_, weights)
        assert again.threshold_ == t
        assert_array_equal(again.predict_set(test), expected)
        assert_array_equal(again.predict_set(test.astype(np.float16)), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_labels_of_any_integer_type_give_the_same_sets(dtype: type, cifar10: tuple) -> None:
    logits, y = cifar10[0][:300], cifar10[1][:300]
    cp = cx.ScoreAverage(NAMES, kind="logits", search=GridSearch(4), random_state=0)
    expected = np.asarray(cp.fit(logits, y).predict_set(logits))
    assert_array_equal(cp.fit(logits, y.astype(dtype)).predict_set(logits), expected)


@settings(max_examples=40)
@pytest.mark.parametrize("split", SPLITS)
@given(bag=bags(), seed=st.integers(0, 2**32 - 1))
def test_the_same_random_state_gives_the_same_result(split: str, bag: Bag, seed: int) -> None:
    cp = cx.ScoreAverage(NAMES, alpha=0.2, split=split, search=GridSearch(4), random_state=seed)
    first = cp.fit(bag.outputs, bag.y, test=bag.test)
    weights, t, sets = first.weights_, first.threshold_, first.predict_set(bag.test)
    np.random.default_rng().random(3)
    again = cp.fit(bag.outputs, bag.y, test=bag.test)
    assert_array_equal(again.weights_, weights)
    assert again.threshold_ == t
    assert_array_equal(again.predict_set(bag.test), sets)


def test_different_random_states_draw_different_splits(cifar10: tuple) -> None:
    logits, y = cifar10[0][:400], cifar10[1][:400]
    cp = cx.ScoreAverage("thr", kind="logits", split=ValidityFirst())
    thresholds = {cp.set_params(random_state=seed).fit(logits, y).threshold_ for seed in range(10)}
    assert len(thresholds) > 1


def test_global_randomness_is_neither_read_nor_moved(cifar10: tuple) -> None:
    logits, y = cifar10[0][:300], cifar10[1][:300]
    before = np.random.get_state()[1].copy()  # noqa: NPY002  the global state is what is tested
    cp = cx.ScoreAverage(NAMES, kind="logits", search=GridSearch(4), random_state=1).fit(logits, y)
    after = np.random.get_state()[1]  # noqa: NPY002
    assert_array_equal(after, before)
    assert cp.search_ is not None


def test_results_are_identical_for_one_two_and_three_threads(cifar10: tuple) -> None:
    logits, y = cifar10[0][:5000], cifar10[1][:5000]
    scores = cx.score_tensor(logits, NAMES, kind="logits")  # five blocks of work
    expected = landscape(scores, y, alpha=0.05, resolution=20, threads=1)
    for threads in (2, 3, None):
        weights, sizes = landscape(scores, y, alpha=0.05, resolution=20, threads=threads)
        assert_array_equal(weights, expected[0])
        assert_array_equal(sizes, expected[1])
    found = [search_weights(scores, y, alpha=0.05, resolution=20, threads=t) for t in (1, 2, 3)]
    assert len({(tuple(one.weights), one.count) for one in found}) == 1


def test_single_precision_scores_are_combined_in_double_precision(cifar10: tuple) -> None:
    logits, y = cifar10[0][:500], cifar10[1][:500]
    narrow = cx.score_tensor(logits, NAMES, kind="logits").astype(np.float32)
    expected = landscape(narrow.astype(np.float64), y, alpha=0.05, resolution=10)
    assert_array_equal(landscape(narrow, y, alpha=0.05, resolution=10)[1], expected[1])


weight = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.33, 0.5, 0.7, 1.0, -0.3, 1 / 3])


def pinned_counts(planes: np.ndarray, weights: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Entries that reach each threshold, counted by the kernel that decides in the engine."""
    counts = np.zeros(len(thresholds), dtype=np.int64)
    same = np.tile(weights, (len(thresholds), 1))
    count_in(planes, 0, planes.shape[1], same, thresholds, counts, 0, len(same), np.empty(RUN))
    return counts


@settings(max_examples=200)
@given(data=st.data(), d=st.integers(1, 4))
def test_the_engine_and_numpy_combine_bit_for_bit(data: st.DataObject, d: int) -> None:
    entries = data.draw(st.integers(1, 40))
    places = data.draw(choices(d * entries, len(UNEVEN)))
    planes = np.array(UNEVEN)[places].reshape(d, entries)
    weights = np.array(data.draw(st.lists(weight, min_size=d, max_size=d)))
    combined = combine(planes.T, weights)
    # The count at a value and just above it pins the value down to its last bit.
    thresholds = np.concatenate([combined, np.nextafter(combined, np.inf), [-np.inf, np.inf]])
    counts = pinned_counts(planes, weights, thresholds)
    assert_array_equal(counts, (combined >= thresholds[:, None]).sum(axis=1))
    # From end to end: every entry in turn is the one true score, and so the threshold.
    for entry in range(min(entries, 4)):
        found, cut = counts_and_thresholds(planes.T[[entry]], [planes.T[None]], 1, weights[None])
        assert cut[0] == combined[entry]
        assert found[0] == (combined >= combined[entry]).sum()


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_the_engine_and_numpy_combine_bit_for_bit_on_long_generic_rows(d: int) -> None:
    rng = np.random.default_rng(d)
    planes, weights = rng.random((d, 3001)), rng.random(d)
    combined = combine(planes.T, weights)
    thresholds = np.concatenate([combined, np.nextafter(combined, np.inf)])
    rising = np.sort(combined)
    reached = len(rising) - np.searchsorted(rising, thresholds)
    assert_array_equal(pinned_counts(planes, weights, thresholds), reached)
    for k in (1, 2, 1500, 3001):
        found, cut = counts_and_thresholds(planes.T, [planes.T[None]], k, weights[None])
        assert cut[0] == rising[-k]
        assert found[0] == (combined >= rising[-k]).sum()
