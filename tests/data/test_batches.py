"""Batches of files and iterators: one pass, the same sets, one sentence where it cannot be."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.data import batches as stream
from conformix.data.checks import release_pages
from conformix.errors import InvalidInput
from conformix.splits import ValidityFirst

N = 1500


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    data = cx.datasets.load("cifar10")
    logits = data.outputs["vgg16"][: N + 500].astype(np.float64)
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (probs / probs.sum(axis=1, keepdims=True)).astype(np.float32), data.labels[: N + 500]


@pytest.fixture(scope="module")
def settings() -> dict:
    return {"split": ValidityFirst(max_rows=300), "random_state": 5, "threads": 1}


@pytest.fixture(scope="module")
def whole(rows, settings) -> cx.ScoreAverage:
    return cx.ScoreAverage(**{"scores": "paper", **settings}).fit(rows[0][:N], rows[1][:N])


@pytest.fixture
def files(rows, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    probs, y = rows[0][:N], rows[1][:N]
    np.save(tmp_path / "probs.npy", probs)
    np.save(tmp_path / "labels.npy", y)
    for part, cut in enumerate([slice(0, 700), slice(700, N)]):
        table = {f"p{k}": probs[cut, k] for k in range(10)}
        lists = pa.FixedSizeListArray.from_arrays(pa.array(probs[cut].ravel()), 10)
        table |= {"true": y[cut], "lists": lists}
        pq.write_table(pa.table(table), tmp_path / f"{part}.parquet", row_group_size=256)
    return tmp_path


def sources(files) -> dict[str, stream.Batches]:
    parquet = [files / "0.parquet", files / "1.parquet"]
    return {
        "npy": stream.from_npy(files / "probs.npy", files / "labels.npy", rows=97),
        "columns": stream.from_parquet(parquet, [f"p{k}" for k in range(10)], "true", rows=311),
        "lists": stream.from_parquet(parquet, "lists", "true"),
    }


@pytest.mark.parametrize("kind", ["npy", "columns", "lists"])
def test_a_fit_on_files_is_the_fit_in_memory_bit_for_bit(
    kind, files, rows, whole, settings
) -> None:
    cp = cx.ScoreAverage(**{"scores": "paper", **settings}).fit_batches(sources(files)[kind])
    one, other = cp.predictor_.fitted, whole.predictor_.fitted
    np.testing.assert_array_equal(one.rule.weights, other.rule.weights)
    np.testing.assert_array_equal(one.calibration, other.calibration)
    assert one.held_out_size == other.held_out_size
    assert one.ledger.facts == other.ledger.facts
    sets = list(cp.predict_batches(sources(files)[kind]))
    np.testing.assert_array_equal(np.concatenate(sets), whole.predict_set(rows[0][:N]))


def test_fit_takes_memory_mapped_arrays_as_they_are(files, rows, whole, settings) -> None:
    mapped = np.load(files / "probs.npy", mmap_mode="r")
    cp = cx.ScoreAverage(**{"scores": "paper", **settings}).fit(
        mapped, np.load(files / "labels.npy", mmap_mode="r")
    )
    assert cp.threshold_ == whole.threshold_
    np.testing.assert_array_equal(cp.predict_set(mapped), whole.predict_set(rows[0][:N]))


def test_pages_are_let_go_but_not_those_that_were_written_to(tmp_path) -> None:
    np.save(tmp_path / "a.npy", np.ones(3))
    for mode in ("r", "r+", "c"):
        array = np.load(tmp_path / "a.npy", mmap_mode=mode)
        if mode != "r":
            array[0] = 5.0
        release_pages(np.asarray(array)[1:])
        assert array[0] == (1.0 if mode == "r" else 5.0)


def cut(probs, y, size):
    for start in range(0, len(y), size):
        yield probs[start : start + size], y[start : start + size]


def test_an_iterator_is_read_once_and_its_batches_do_not_matter(rows, settings) -> None:
    probs, y = rows[0][:N], rows[1][:N]
    fits = [
        cx.ScoreAverage(**{"scores": "paper", **settings}).fit_batches(cut(probs, y, size))
        for size in (1, 64, 5000)
    ]
    for cp in fits[1:]:
        np.testing.assert_array_equal(cp.weights_, fits[0].weights_)
        assert cp.threshold_ == fits[0].threshold_
    facts = fits[0].guarantee_.facts
    assert (facts.n_tune, facts.n_cal, fits[0].guarantee_.kind) == (300, 1200, "exact")
    assert fits[0].held_out_size_ is None, "an iterator cannot be read again"
    again = cx.ScoreAverage(**{"scores": "paper", **settings}).fit_batches(
        lambda: cut(probs, y, 100)
    )
    assert again.threshold_ == fits[0].threshold_
    assert again.held_out_size_ == pytest.approx(1.0, abs=0.5)


@pytest.mark.parametrize("returned", [iter, list, tuple], ids=lambda kind: kind.__name__)
def test_a_function_may_return_anything_that_can_be_iterated_over(rows, returned) -> None:
    parts = [(rows[0][:500], rows[1][:500]), (rows[0][500:900], rows[1][500:900])]
    model = cx.ScoreAverage(
        "paper", random_state=0, threads=1, allow_empty=False
    )  # reads them twice
    sets = [
        model.fit_batches(batches).predict_set(rows[0][N:])
        for batches in (parts, lambda: returned(parts))
    ]
    assert (sets[0] == sets[1]).all()
    by_function = model.predict_batches(lambda: returned([rows[0][N:]]))
    assert (next(by_function) == sets[0]).all()


def test_the_sample_of_an_iterator_is_uniform_over_rows() -> None:
    from conformix.data.batches import RowSample
    from conformix.data.outputs import Outputs

    hits, runs, size = np.zeros(40), 3000, 10
    rng = np.random.default_rng(0)
    for _ in range(runs):
        sample = RowSample(size, rng)
        for first in (0, 7, 30):
            stop = {0: 7, 7: 30, 30: 40}[first]
            sample.offer(Outputs({"": np.arange(first, stop)[:, None]}, "logits"), first)
        rows, models = sample.smallest(size)
        np.testing.assert_array_equal(models[""][:, 0], rows)
        hits[rows] += 1
    expected = runs * size / 40
    # Counts are binomial; a deviation of 4.5 standard errors among 40 is a one in 4,000 event.
    assert np.abs(hits - expected).max() < 4.5 * np.sqrt(expected * (1 - size / 40))


def test_a_sample_rounds_no_row_whatever_types_the_batches_have() -> None:
    from conformix.data.batches import RowSample
    from conformix.data.outputs import Outputs

    values = np.random.default_rng(0).random((60, 3))
    sample = RowSample(40, np.random.default_rng(1))
    exact = values.copy()
    exact[:20] = values[:20].astype(np.float16)
    exact[20:30] = values[20:30].astype(np.float32)
    for first, last, kind in ((0, 20, np.float16), (20, 30, np.float32), (30, 60, np.float64)):
        sample.offer(Outputs({"": values[first:last].astype(kind)}, "probs"), first)
    rows, models = sample.smallest(40)
    np.testing.assert_array_equal(models[""], exact[rows])


def test_rows_bring_strata_along(rows, settings) -> None:
    probs, y = rows[0][:N], rows[1][:N]
    strata = np.where(np.arange(N) % 3 == 0, "a", "b")
    options = settings | {"calibration": "group"}
    whole = cx.ScoreAverage(**{"scores": "paper", **options}).fit(probs, y, strata=strata)
    batches = [(probs[s], y[s], {"strata": strata[s]}) for s in (slice(0, 400), slice(400, N))]
    source = stream.Batches(lambda: iter(batches), n=N)
    cp = cx.ScoreAverage(**{"scores": "paper", **options}).fit_batches(source)
    assert cp.threshold_ == whole.threshold_
    sets = np.concatenate(list(cp.predict_batches(source)))
    np.testing.assert_array_equal(sets, whole.predict_set(probs, strata=strata))


def test_several_models_and_class_names(rows, settings) -> None:
    probs, y = rows[0][:N], rows[1][:N]
    names = [f"class {k}" for k in range(10)]
    both = {"a": probs, "b": np.roll(probs, 1, axis=0)}
    options = settings | {"scores": ("thr", "rank"), "search": "grid"}
    whole = cx.ScoreAverage(**{"scores": "paper", **options}).fit(both, y, classes=names)
    source = stream.from_arrays(both, np.array(names)[y], rows=130)
    cp = cx.ScoreAverage(**{"scores": "paper", **options}).fit_batches(source, classes=names)
    np.testing.assert_array_equal(cp.weights_, whole.weights_)
    assert next(cp.predict_batches([both])).labels(0) == whole.predict_set(both).labels(0)


def test_sets_are_written_batch_by_batch(rows, whole, tmp_path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    batches = [rows[0][:40], rows[0][40:100]]
    assert cx.sets.write_sets(whole.predict_batches(batches), tmp_path / "sets.parquet") == 100
    written = pq.read_table(tmp_path / "sets.parquet").to_pydict()
    assert written["row"] == list(range(100))
    assert written["labels"] == whole.predict_set(rows[0][:100]).members()
    named = cx.PredictionSets(np.zeros((2, 2), dtype=bool), classes=["a", "b"])
    cx.sets.write_sets([named], tmp_path / "empty.parquet")
    assert pq.read_table(tmp_path / "empty.parquet").to_pydict()["labels"] == [[], []]
    with pytest.raises(cx.InvalidInput, match="there are no sets to write"):
        cx.sets.write_sets([], tmp_path / "none.parquet")
    assert not (tmp_path / "none.parquet").exists()


def late_error():
    probs = np.full((4, 2), 0.5)
    bad = probs.copy()
    bad[1, 0] = np.nan
    return [(probs, [0, 1, 0, 1]), (bad, [0, 1, 0, 1])]


def late_label(label, other):
    probs = np.full((4, 2), 0.5)
    return [(probs, [label] * 4), (probs, [label, label, other, label])]


REFUSED = {
    "no batches": ([], {}, "there are no rows to fit"),
    "no iterable": (3, {}, "batches must be an iterable of"),
    "a function of no iterable": (
        lambda: 3,
        {},
        r"a function of batches must return an iterable of \(outputs, y\); got int",
    ),
    "a function with arguments": (
        lambda rows: iter([]),
        {},
        "a function of batches is called without arguments, and this one needs some; got <function",
    ),
    "a bare array": ([np.full((2, 2), 0.5)], {}, "a batch must be a tuple"),
    "labels missing": ([(np.full((2, 2), 0.5), None)], {}, "must hold 2 labels; got none"),
    "a late row": (late_error(), {}, "must be finite; row 5, label 0 is nan"),
    "a late label": (late_label(0, 7), {}, "row 6 holds 7"),
    "one row": ([([[0.5, 0.5]], [0])], {}, "needs at least 2 rows"),
    "announced": (
        stream.Batches(lambda: iter([(np.full((3, 2), 0.5), [0, 1, 0])]), n=4),
        {},
        "the batches hold 3 rows, and 4 were announced",
    ),
    "other classes": (
        [(np.full((2, 2), 0.5), [0, 1]), (np.full((2, 4), 0.25), [0, 1])],
        {},
        "must have the 2 fitted classes; got 4",
    ),
    "groups of some": (
        [
            (np.full((4, 2), 0.5), [0] * 4),
            (np.full((4, 2), 0.5), [0] * 4, {"groups": [1] * 4}),
        ],
        {},
        "groups must hold one",
    ),
    "more": ([(np.full((4, 2), 0.5), [0] * 4, {"colour": [1] * 4})], {}, "got 'colour'"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
@pytest.mark.filterwarnings("ignore::conformix.TrivialSetsWarning")
def test_what_cannot_be_is_said_in_one_sentence(case) -> None:
    batches, settings, sentence = case
    with pytest.raises(cx.InvalidInput, match=sentence):
        cx.ScoreAverage(random_state=0, **{"scores": "paper", **settings}).fit_batches(batches)


def test_groups_of_every_source_stay_whole_as_in_memory(rows, tmp_path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    probs, y, groups = rows[0][:300], rows[1][:300], np.arange(300) // 4
    strata = np.arange(300) % 2
    for name, values in {"probs": probs, "y": y, "groups": groups, "strata": strata}.items():
        np.save(tmp_path / f"{name}.npy", values)
    table = {"y": y, "groups": groups, "strata": strata}
    lists = pa.FixedSizeListArray.from_arrays(pa.array(probs.ravel()), 10)
    pq.write_table(pa.table(table | {"probs": lists}), tmp_path / "rows.parquet")
    files = {name: tmp_path / f"{name}.npy" for name in ("groups", "strata")}
    sources = [
        stream.from_arrays(probs, y, rows=70, groups=groups, strata=strata),
        stream.from_npy(tmp_path / "probs.npy", tmp_path / "y.npy", rows=31, **files),
        stream.from_parquet(
            tmp_path / "rows.parquet", "probs", "y", groups="groups", strata="strata", rows=99
        ),
    ]
    options = {"calibration": "group", "random_state": 3, "threads": 1}
    whole = cx.ScoreAverage(**{"scores": "paper", **options}).fit(
        probs, y, groups=groups, strata=strata
    )
    assert whole.guarantee_.facts.grouped
    for source in sources:
        cp = cx.ScoreAverage(**{"scores": "paper", **options}).fit_batches(source)
        assert cp.guarantee_.facts == whole.guarantee_.facts
        assert_array_equal(cp.predictor_.fitted.calibration, whole.predictor_.fitted.calibration)
        sets = np.concatenate(list(cp.predict_batches(source)))
        assert_array_equal(sets, whole.predict_set(probs, strata=strata))


def test_files_that_are_not_there_or_lack_a_column(tmp_path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"p": [0.5, None]}), tmp_path / "a.parquet")
    with pytest.raises(cx.InvalidInput, match="has no column 'q'"):
        stream.from_parquet(tmp_path / "a.parquet", ["p", "q"])
    with pytest.raises(cx.InvalidInput, match="does not exist or is no file"):
        stream.from_parquet(tmp_path / "b.parquet", ["p"])
    with pytest.raises(cx.InvalidInput, match="must have a value in every row"):
        list(stream.from_parquet(tmp_path / "a.parquet", ["p"]))
    with pytest.raises(cx.InvalidInput, match=r"is no \.npy file that can be mapped"):
        stream.from_npy(tmp_path / "a.parquet")


def in_order(rows, order: np.ndarray):
    for places in np.array_split(order, 7):
        yield rows[0][places], rows[1][places]


@pytest.mark.parametrize("allow_empty", [True, False])
def test_batches_in_another_order_the_second_time_are_refused(allow_empty, rows) -> None:
    """Sets that are never empty calibrate on a second pass: its rows would get others' labels."""
    rng = np.random.default_rng(0)
    cp = cx.ScoreAverage("paper", allow_empty=allow_empty, random_state=0)
    with pytest.raises(InvalidInput, match="same rows in the same order"):
        cp.fit_batches(lambda: in_order(rows, rng.permutation(N)))


def test_a_function_that_returns_an_iterator_which_has_ended_is_refused(rows) -> None:
    once = in_order(rows, np.arange(N))
    cp = cx.ScoreAverage("paper", allow_empty=False, random_state=0)
    with pytest.raises(InvalidInput, match="fresh iterator"):
        cp.fit_batches(lambda: once)


def test_shuffled_batches_from_an_iterator_are_read_once_and_fit(rows) -> None:
    order = np.random.default_rng(0).permutation(N)
    fitted = cx.ScoreAverage("paper", random_state=0).fit_batches(in_order(rows, order))
    assert fitted.held_out_size_ is None


def test_labels_of_a_second_pass_are_compared_by_name_too(rows) -> None:
    probs, y = rows
    names = [f"c{k}" for k in range(10)]
    text = np.array(names)[y]

    def again():
        for places in np.array_split(np.arange(N), 5):
            yield probs[places], text[places]

    settings = {"allow_empty": False, "random_state": 0}
    streamed = cx.ScoreAverage(**{"scores": "paper", **settings}).fit_batches(
        cx.stream.Batches(again, N), classes=names
    )
    whole = cx.ScoreAverage(**{"scores": "paper", **settings}).fit(probs[:N], y[:N], classes=names)
    assert_array_equal(streamed.predict_set(probs), whole.predict_set(probs))
