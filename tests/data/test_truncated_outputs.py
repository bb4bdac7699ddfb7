"""Top-k outputs: the rule for labels outside the list, and its checks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix.errors import InvalidInput


def test_missing_mass_is_shared_evenly():
    # listed 1/2 + 1/4, missing 1/4 over 4 labels: 1/16 each
    assert_array_equal(
        cx.TopK([[5, 0]], [[0.5, 0.25]], 6)[0:1], [[0.25, 1 / 16, 1 / 16, 1 / 16, 1 / 16, 0.5]]
    )


def test_no_unlisted_label_is_likelier_than_a_listed_one():
    # missing 1/2 over one label would be 1/2; it is cut at the smallest listed 1/8
    assert_array_equal(cx.TopK([[0, 1]], [[0.375, 0.125]], 3)[0:1], [[0.375, 0.125, 0.125]])


def test_log_probabilities_and_empty_places():
    top = cx.TopK([[1, 0], [2, -1]], np.log([[0.5, 0.25], [0.5, 0.9]]), 4, kind="logprobs")
    expected = [[0.25, 0.5, 0.125, 0.125], [1 / 6, 1 / 6, 0.5, 1 / 6]]
    assert_allclose(top[0:2], expected, rtol=1e-15)


def test_all_labels_listed_is_the_dense_matrix():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(5), size=30)
    order = np.argsort(-probs, axis=1)
    top = cx.TopK(order, np.take_along_axis(probs, order, axis=1), 5)
    assert_array_equal(top[0:30], probs)
    names = ("thr", "aps", "rank")
    assert_array_equal(cx.score_tensor(top, names), cx.score_tensor(probs, names))


def test_fit_and_predict_with_truncated_outputs():
    data = cx.datasets.load("cifar10")
    probs = np.exp(data.outputs["vgg16"].astype(float))
    probs /= probs.sum(axis=1, keepdims=True)
    order = np.argsort(-probs, axis=1)[:, :3]
    top = cx.TopK(order, np.take_along_axis(probs, order, axis=1), 10)
    cp = cx.ScoreAverage("paper", alpha=0.1, random_state=0).fit(
        top.subset(slice(0, 4000)), data.labels[:4000]
    )
    sets = cp.predict_set(top.subset(slice(4000, None)))
    # 6,000 test rows, 2,000 calibration rows: s.d. of the coverage is about .0077
    assert abs(cx.metrics.coverage(sets, data.labels[4000:]) - 0.9) < 4.5 * 0.0077
    assert "first 3 of 10 classes" in repr(top)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([[0, 0]], [[0.5, 0.2]], 3), "^labels of TopK must differ within a row; row 0 repeats"),
        (([[0, 3]], [[0.5, 0.2]], 3), r"^labels of TopK must lie in 0\.\.2, or be -1 .*got 0\.\.3"),
        (([[0.0, 1.0]], [[0.5, 0.2]], 3), "^labels of TopK must be an integer array of shape"),
        (([[0, 1]], [[0.5]], 3), r"^values of TopK must match labels, shape \(1, 2\); got shape"),
        (([[0, 1]], [[0.9, 0.2]], 3), r"sum to at most 1 in a row; row 0 does not \(sum 1\.1\)"),
        (([[0, 1]], [[0.5, -0.1]], 3), "row 0 does not"),
        (([[0, 1]], [[0.5, np.nan]], 3), "row 0 does not"),
    ],
)
def test_bad_lists_are_refused(arguments, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        cx.TopK(*arguments)


def test_truncated_probabilities_are_no_logits():
    top = cx.TopK([[0, 1]], [[0.5, 0.25]], 3)
    with pytest.raises(
        InvalidInput, match=r'^outputs is a TopK of probabilities; say kind="probs"'
    ):
        cx.score_tensor(top, kind="logits")


def test_labels_that_are_not_listed_never_outrank_a_listed_zero():
    """What is not listed is no likelier than the least of what is."""
    top = cx.TopK([[2, 0, 1]], [[0.5, 0.0, 0.0]], n_classes=5)
    assert_array_equal(top[0:1], [[0.0, 0.0, 0.5, 0.0, 0.0]])
