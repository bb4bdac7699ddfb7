"""Sets in a notebook, in slices, in arrays and in tensors."""

import html
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx

RNG = np.random.default_rng(0)
MASK = RNG.random((40, 15)) < 0.3
ORDER = np.concatenate([RNG.permutation(np.flatnonzero(row)) for row in MASK])
NAMES = [f"<{k}>" for k in range(15)]
SETS = cx.PredictionSets(MASK, NAMES, ORDER, ids=[f"r{i}" for i in range(40)])

KEYS = {
    "a slice": slice(3, 30, 4),
    "a slice backwards": slice(None, None, -1),
    "numbers": np.array([5, 0, -1, 5]),
    "a list of numbers": [2, 7],
    "a mask": MASK.sum(axis=1) > 4,
    "a list of flags": (MASK.sum(axis=1) > 4).tolist(),
    "no rows": [],
    "an empty slice": slice(0, 0),
}


@pytest.mark.parametrize("key", KEYS)
def test_some_rows_of_sets_are_sets(key):
    rows = np.arange(40)[slice(0) if key == "no rows" else KEYS[key]]
    some = SETS[KEYS[key]]
    assert isinstance(some, cx.PredictionSets)
    assert_array_equal(some.mask, MASK[rows])
    assert some.members() == [SETS.labels(i) for i in rows]
    assert some.ids == [f"r{i % 40}" for i in rows]
    assert some.classes == NAMES


def test_one_row_and_entries_are_what_the_array_has():
    assert_array_equal(SETS[3], MASK[3])
    assert type(SETS[3]) is np.ndarray
    assert SETS[3, 2] == MASK[3, 2]
    assert_array_equal(SETS[:, 2], MASK[:, 2])
    assert_array_equal(SETS[MASK], MASK[MASK])
    assert_array_equal(SETS[..., 0], MASK[..., 0])
    with pytest.raises(IndexError):
        SETS[[True, False]]


def test_slices_of_slices_keep_the_order_of_labels():
    assert SETS[10:30][::2][[3, 1]].members() == [SETS.labels(16), SETS.labels(12)]


def test_a_notebook_shows_the_first_sets_best_first_and_escaped():
    styled = SETS._repr_html_()
    page = re.sub(r' style="[^"]*"', "", styled)
    assert styled.count("<tr>") == 10
    first = ", ".join(html.escape(name) for name in SETS.labels(0)[:10])
    assert f"<th>r0</th><td>{SETS.sizes[0]}</td>" in page
    assert first in page
    assert "30 more rows" in page
    assert "labels, best first" in page
    assert "<0>" not in page
    assert "color:inherit" in styled
    assert "currentColor" in styled
    styled = styled.replace("white-space", "")
    assert not any(colour in styled for colour in ("#", "white", "black", "rgb"))


def test_a_notebook_shows_empty_and_long_sets_in_words():
    page = cx.PredictionSets(np.array([[False] * 12, [True] * 12]))._repr_html_()
    assert "<i>empty</i>" in page
    assert "9, … 2 more" in page
    assert "best first" not in page
    assert "more rows" not in page


def test_sets_become_tensors():
    torch = pytest.importorskip("torch")
    tensor = torch.as_tensor(SETS)
    assert tensor.dtype is torch.bool
    assert_array_equal(tensor.numpy(), MASK)
    tensor[:] = True
    assert_array_equal(SETS.mask, MASK)
    assert_array_equal(torch.from_dlpack(SETS).numpy(), MASK)
    of_tensor = cx.PredictionSets(torch.as_tensor(MASK.copy()), order=ORDER)
    assert_array_equal(torch.as_tensor(of_tensor).numpy(), MASK)
    assert of_tensor[4:6].members() == [ORDER[MASK[:i].sum():MASK[:i + 1].sum()].tolist()
                                        for i in (4, 5)]  # fmt: skip


def test_nested_sets_become_an_array_of_all_levels():
    depth = RNG.integers(0, 4, size=(6, 5)).astype(np.uint8)
    nested = cx.NestedSets(depth, [0.05, 0.1, 0.2])
    array = np.asarray(nested)
    assert array.shape == (3, 6, 5)
    assert array.dtype == bool
    for masks, alpha in zip(array, nested.alphas, strict=True):
        assert_array_equal(masks, nested.at(alpha))
    assert_array_equal(array.sum(axis=2), nested.sizes)
    assert np.asarray(nested, dtype=int).sum() == depth.sum()


@pytest.mark.parametrize("options", [{}, {"split": "exact"}, {"scores": "auto"}])
def test_predictors_have_a_short_repr(options):
    data = cx.datasets.load("cifar10")
    P, y = data.outputs["vgg16"][:300], data.labels[:300]
    cp = cx.ScoreAverage(**({"kind": "logits", "random_state": 0} | options)).fit(P, y)
    text = repr(cp.predictor_)
    assert len(text) < 120
    assert "10 classes, alpha 0.1, guarantee exact" in text
    cross = cx.CrossAverage("thr", weights=[1.0], kind="logits").fit([(P[:9], y[:9])] * 2)
    assert repr(cross.predictor_).startswith("CrossPredictor(thr over 10 classes, 2 folds, alpha")


def test_names_of_rows_that_do_not_fit_are_refused():
    with pytest.raises(cx.InvalidInput, match=r"^ids must hold one value per set; got 1 for 40"):
        cx.PredictionSets(MASK, ids=["a"])


def test_a_notebook_breaks_no_short_name_and_lines_up_its_columns():
    sets = cx.PredictionSets(np.ones((1, 2), dtype=bool), ["sea lion", "x " * 20], ids=["a-1"])
    page = sets._repr_html_()
    assert '<span style="white-space:nowrap">sea lion</span>, x x' in page
    assert re.search(r'<th style="[^"]*white-space:nowrap">a-1</th>', page)
    assert page.count("text-align:right") == 2  # sizes, and their heading
