"""Sets leave as tables: best first, by name, whole files or none."""

import csv

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.errors import InvalidInput
from conformix.kernels.order import falling_within_rows
from conformix.search import GridSearch

MASK = np.array([[True, False, True], [False, False, False], [True, True, True]])
ORDER = np.array([2, 0, 1, 2, 0], dtype=np.uint8)
NAMED = cx.PredictionSets(MASK, ["cat", "dog", "eel"], ORDER)
BEST_FIRST = [["eel", "cat"], [], ["dog", "eel", "cat"]]

DATA = cx.datasets.load("cifar10")
LOGITS, LABELS = DATA.outputs["vgg16"][:900], DATA.labels[:900]


def fitted(**options):
    usual = {"alpha": 0.02, "kind": "logits", "random_state": 0, "search": GridSearch(10)}
    return cx.ScoreAverage(**{"scores": "paper"} | usual | options).fit(LOGITS[:500], LABELS[:500])


def test_labels_come_best_first():
    assert [NAMED.labels(i) for i in range(3)] == BEST_FIRST
    assert NAMED.labels(-1) == BEST_FIRST[2]
    assert NAMED.members() == BEST_FIRST
    assert cx.PredictionSets(MASK).members() == [[0, 2], [], [0, 1, 2]]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize": "ecdf"},
        {"normalize": "scale", "scores": ("logp", "margin", "rank")},
        {"allow_empty": False},
        {"weights": [0.2, 0.3, 0.5]},
    ],
)
def test_best_is_the_highest_combined_score(options):
    cp = fitted(**options)
    sets = cp.predict_set(LOGITS[500:])
    predictor = cp.predictor_
    values = predictor.fitted.rule.combined(predictor.scores(predictor.check(LOGITS[500:])))
    for i in range(len(sets)):
        own = sets.labels(i)
        assert sorted(own) == np.flatnonzero(sets.mask[i]).tolist()
        assert (np.diff(values[i, own]) <= 0).all() or np.isinf(values[i, own]).any()


def test_the_exact_split_lists_best_first_too():
    sets = fitted(split="exact", scores=("thr",), alpha=0.05).predict_set(LOGITS[500:])
    for i in range(len(sets)):
        assert (np.diff(LOGITS[500 + i][sets.labels(i)]) <= 0).all()


def test_a_batch_lists_as_its_rows_do_one_by_one():
    cp = fitted()
    sets = cp.predict_set(LOGITS[500:520])
    assert sets.members() == [cp.predict_set(row[None]).labels(0) for row in LOGITS[500:520]]


def test_nested_levels_list_as_each_level_does_alone():
    cp = fitted()
    levels = [0.01, 0.05, 0.2]
    nested = cp.predict_set(LOGITS[500:], alpha=levels)
    for alpha in levels:
        alone = cp.predict_set(LOGITS[500:], alpha=alpha)
        assert nested.at(alpha).members() == alone.members()


def test_the_order_costs_two_bytes_a_label_up_to_65536_classes():
    rng = np.random.default_rng(0)
    outputs = rng.dirichlet(np.full(1000, 0.1), size=60)
    sets = cx.ScoreAverage("thr", weights=[1.0], alpha=0.2).fit(
        outputs[:40], rng.integers(1000, size=40)
    ).predict_set(outputs[40:])  # fmt: skip
    assert sets.order.dtype == np.uint16
    assert len(sets.order) == sets.sizes.sum()


def test_an_order_that_does_not_fit_is_refused():
    with pytest.raises(InvalidInput, match=r"^order must hold every label of every set, 5 in all"):
        cx.PredictionSets(MASK, order=ORDER[:4])


def test_frames_in_three_layouts():
    pytest.importorskip("pandas")
    sets = NAMED.to_frame()
    assert list(sets.columns) == ["size", "labels"]
    assert sets["labels"].tolist() == BEST_FIRST
    long = NAMED.to_frame("long")
    assert long["row"].tolist() == [0, 0, 2, 2, 2]
    assert long["rank"].tolist() == [1, 2, 1, 2, 3]
    assert long["label"].tolist() == ["eel", "cat", "dog", "eel", "cat"]
    wide = NAMED.to_frame("wide")
    assert list(wide.columns) == ["cat", "dog", "eel"]
    assert_array_equal(wide.to_numpy(), MASK)
    assert NAMED.to_frame(ids=["a", "b", "c"])["id"].tolist() == ["a", "b", "c"]
    assert NAMED.to_frame("long", ids="abc")["id"].tolist() == ["a", "a", "c", "c", "c"]


def test_nested_sets_become_a_frame_by_level():
    pytest.importorskip("pandas")
    nested = cx.NestedSets(np.array([[2, 1, 0]], np.uint8), [0.05, 0.1], "abc", np.array([1, 0]))
    frame = nested.to_frame()
    assert frame["alpha"].tolist() == [0.05, 0.1]
    assert frame["labels"].tolist() == [["b", "a"], ["a"]]


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_csv_in_three_layouts(tmp_path):
    path = tmp_path / "sets.csv"
    NAMED.to_csv(path)
    assert read_csv(path) == [["size", "labels"], ["2", "eel|cat"], ["0", ""], ["3", "dog|eel|cat"]]
    NAMED.to_csv(path, "wide", ids=["x", "y", "z"])
    assert read_csv(path)[:2] == [["id", "cat", "dog", "eel"], ["x", "1", "0", "1"]]
    NAMED.to_csv(path, "long")
    assert read_csv(path)[:3] == [["row", "rank", "label"], ["0", "1", "eel"], ["0", "2", "cat"]]


def test_names_with_commas_quotes_and_newlines_survive_a_csv(tmp_path):
    names = ['say "a, b"', "two\nlines", "grün"]
    cx.PredictionSets(MASK, names).to_csv(tmp_path / "sets.csv", "long")
    assert read_csv(tmp_path / "sets.csv")[1][2] == names[0]
    assert {row[2] for row in read_csv(tmp_path / "sets.csv")[1:]} == set(names)


def test_names_are_written_as_they_are_unless_formulas_are_to_be_escaped(tmp_path):
    sets = cx.PredictionSets(MASK[:1], ["=1+1", "-", "@x"])
    sets.to_csv(tmp_path / "plain.csv", "long")
    sets.to_csv(tmp_path / "safe.csv", "long", escape_formulas=True)
    sets.to_csv(tmp_path / "wide.csv", "wide", escape_formulas=True)
    assert [row[2] for row in read_csv(tmp_path / "plain.csv")[1:]] == ["=1+1", "@x"]
    assert [row[2] for row in read_csv(tmp_path / "safe.csv")[1:]] == ["'=1+1", "'@x"]
    assert read_csv(tmp_path / "wide.csv")[0] == ["'=1+1", "'-", "'@x"]


def test_parquet_keeps_labels_as_lists(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    NAMED.to_parquet(tmp_path / "sets.parquet")
    assert pq.read_table(tmp_path / "sets.parquet").to_pydict() == {
        "size": [2, 0, 3],
        "labels": BEST_FIRST,
    }
    NAMED.to_parquet(tmp_path / "wide.parquet", "wide")
    assert pq.read_table(tmp_path / "wide.parquet")["cat"].to_pylist() == [True, False, True]
    NAMED.to_parquet(tmp_path / "long.parquet", "long", ids=[7, 8, 9])
    assert pq.read_table(tmp_path / "long.parquet")["id"].to_pylist() == [7, 7, 9, 9, 9]


def test_what_is_written_in_the_wrong_way_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "sets.csv"
    path.write_text("old")
    with pytest.raises(InvalidInput, match=r"^label 'a\|b' holds the separator '\|'; give another"):
        cx.PredictionSets(MASK, ["a|b", "c", "d"]).to_csv(path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("sets.csv", "old")]


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: NAMED.to_csv("x", "broad"), r"^unknown layout 'broad'; .*known: sets, long, wide"),
        (lambda: NAMED.to_csv("x", ids=[1]), r"^ids must hold one value per set; got 1 for 3 sets"),
        (lambda: cx.PredictionSets(MASK, "aab").to_csv("x", "wide"), r'^layout "wide" needs'),
    ],
)  # fmt: skip
def test_bad_requests_are_refused(act, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=sentence):
        act()
    assert list(tmp_path.iterdir()) == []


def test_rows_of_any_length_sort_downwards_and_ties_keep_their_order():
    rng = np.random.default_rng(1)
    sizes = np.concatenate([[0, 1, 2, 3, 4, 5, 8, 9, 130], rng.integers(0, 40, size=50)])
    values = rng.integers(0, 6, size=sizes.sum()).astype(float)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    assert_array_equal(falling_within_rows(values, sizes), np.lexsort((-values, rows)))


def test_metrics_take_labels_by_name_where_the_sets_have_names():
    rng = np.random.default_rng(2)
    mask, y = rng.random((60, 3)) > 0.4, rng.integers(3, size=60)
    names = np.array(["cat", "dog", "eel"])
    named = cx.PredictionSets(mask, names)
    by_name = cx.metrics.evaluate(named, names[y], alpha=0.1)
    assert by_name == cx.metrics.evaluate(mask, y, alpha=0.1)
    table = cx.metrics.class_table(named, names[y])
    assert table.index.tolist() == ["cat", "dog", "eel"]
    assert table["rows"].tolist() == np.bincount(y, minlength=3).tolist()


def test_names_from_an_array_come_out_as_plain_values():
    label = cx.PredictionSets(MASK, np.array(["cat", "dog", "eel"])).labels(0)[0]
    assert type(label) is str


@pytest.mark.parametrize("write", ["to_parquet", "write_sets"])
def test_class_names_of_several_types_do_not_fit_in_a_parquet_column(write, tmp_path) -> None:
    pytest.importorskip("pyarrow")
    sets = cx.PredictionSets(np.ones((2, 2), dtype=bool), [1, "a"])
    path = tmp_path / "sets.parquet"
    with pytest.raises(InvalidInput, match="one type"):
        sets.to_parquet(path) if write == "to_parquet" else cx.sets.write_sets([sets], path)
    assert not list(tmp_path.iterdir())
