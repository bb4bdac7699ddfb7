"""What a fit holds in memory: the scores of the tuning rows once, and of the others a block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.data.outputs import check_outputs
from conformix.fit import rows as budget
from conformix.fit.fit import fit_scores
from conformix.fit.scored import HeldTensor
from conformix.fit.settings import resolve
from conformix.fit.tuning import TuningRows
from conformix.scores import score_columns, score_tensor
from conformix.scores.scale import Ecdf, Interpolated, NaturalScale
from conformix.search import GridSearch
from conformix.splits import resolve_split
from memory import peak_bytes

N, K, D = 800, 4000, 3
SCORES = 8 * N * K * D  # 77 MB


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=N)
    logits = rng.standard_normal((N, K), dtype=np.float32)
    logits[np.arange(N), y] += rng.normal(5, 1.5, N)
    return logits, y


@pytest.fixture
def small_blocks(monkeypatch) -> Iterator[None]:
    """Blocks and samples whose size does not grow with the rows, small beside these few rows."""
    monkeypatch.setattr("conformix.data.outputs.READ_ENTRIES", 2**16)
    monkeypatch.setattr("conformix.scores.scale.MAX_VALUES", 2**16)
    return


def fitted(outputs: np.ndarray, y: np.ndarray, **settings) -> cx.ScoreAverage:
    options = {"kind": "logits", "random_state": 0, "threads": 1, "search": GridSearch(3)}
    return cx.ScoreAverage(("thr", "aps", "rank"), **options | settings).fit(outputs, y)


@pytest.fixture
def mapped(rows, tmp_path) -> np.ndarray:
    np.save(tmp_path / "logits.npy", rows[0])
    return np.load(tmp_path / "logits.npy", mmap_mode="r")


@pytest.mark.parametrize("normalize", ["ecdf", "scale"])
def test_a_fit_on_a_mapped_file_holds_the_scores_of_the_tuning_rows_once(
    normalize, rows, mapped, small_blocks, monkeypatch
) -> None:
    monkeypatch.setattr(budget, "MAPPED_BYTES", 0)
    settings = {"normalize": normalize}
    fitted(rows[0][:50], rows[1][:50], **settings)  # what is loaded once
    # Half of the rows tune; beside their scores there are their outputs, a sixth of that.
    assert peak_bytes(lambda: fitted(mapped, rows[1], **settings)) < 1.45 * SCORES / 2


def test_batches_hold_no_more(rows, mapped, small_blocks) -> None:
    def fit() -> None:
        source = cx.stream.from_arrays(mapped, rows[1], rows=50)
        options = {"kind": "logits", "random_state": 0, "threads": 1, "search": GridSearch(3)}
        cx.ScoreAverage(("thr", "aps", "rank"), **options).fit_batches(source)

    fitted(rows[0][:50], rows[1][:50])
    assert peak_bytes(fit) < 1.45 * SCORES / 2


def test_automatic_scores_hold_little_beside_those_of_the_tuning_rows() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(100, size=5000)
    probs = score_tensor(rng.normal(0, 2, (5000, 100)) + 3 * np.eye(100)[y], "thr", kind="logits")

    def fit() -> None:
        cx.ScoreAverage("auto", random_state=0, threads=2).fit(probs[..., 0], y)

    fit()
    # Eight scores of a third of the rows, and a quarter more with all the rest.
    assert peak_bytes(fit) < 1.27 * 8 * 8 * 1667 * 100


def test_a_fit_in_memory_copies_the_tuning_rows_alone(rows, small_blocks) -> None:
    fitted(rows[0][:50], rows[1][:50])
    assert peak_bytes(lambda: fitted(*rows)) < 1.9 * SCORES


@pytest.mark.parametrize("how", ["rows first", "columns first", "every second column"])
def test_some_rows_are_read_without_a_copy_of_all(how: str) -> None:
    values = np.random.default_rng(0).dirichlet(np.ones(50), 20_000)
    if how == "columns first":
        values = np.asfortranarray(values)
    elif how == "every second column":
        values = np.repeat(values, 2, axis=1)[:, ::2]
    outputs, rows = check_outputs(values), np.array([3, 9_000, 19_999])
    assert peak_bytes(lambda: outputs.rows(rows)) < values.nbytes / 100
    assert np.array_equal(outputs.rows(rows).models[""], values[rows])


def test_prediction_in_batches_holds_a_batch(rows, mapped, small_blocks) -> None:
    cp = fitted(rows[0][:100], rows[1][:100])
    source = cx.stream.from_arrays(mapped, rows=50)
    assert peak_bytes(lambda: sum(len(sets) for sets in cp.predict_batches(source))) < SCORES / 10


def test_scores_of_a_mapped_file_are_gathered_sooner_than_those_of_an_array(tmp_path) -> None:
    shape = (1_500, 20_000)  # 0.72 GB of scores
    np.lib.format.open_memmap(tmp_path / "p.npy", mode="w+", dtype=np.float16, shape=shape)
    for outputs, gathered in [
        (np.load(tmp_path / "p.npy", mmap_mode="r"), True),
        (np.load(tmp_path / "p.npy", mmap_mode="r")[:1_000], False),
        (np.broadcast_to(np.float16(0), shape), False),
        (np.broadcast_to(np.float16(0), (2_300, 20_000)), True),
    ]:
        checked = check_outputs(outputs, "logits", later=True)
        assert budget.are_too_many(checked, D) is gathered


def test_the_default_number_of_tuning_rows_fits_its_budget() -> None:
    for n_classes, most in [(100, 223_696), (1_000, 22_369), (20_000, 1_118)]:
        assert budget.rows_held(n_classes, D) == most
        assert budget.score_bytes(most, n_classes, D) <= budget.HELD_BYTES
        assert budget.score_bytes(most + 1, n_classes, D) > budget.HELD_BYTES


@pytest.mark.parametrize("split", ["vfcp", "efcp"])
@pytest.mark.parametrize("normalize", ["ecdf", "scale"])
def test_a_fit_leaves_the_tensor_that_it_was_given_as_it_was(split, normalize, cifar10) -> None:
    y = cifar10[1][:300]
    scores = score_tensor(cifar10[0][:300], kind="logits")
    before = scores.copy()
    columns = score_columns(("",), ("thr", "aps", "rank"))
    settings = resolve(split=resolve_split(split), search=GridSearch(4), normalize=normalize)
    fit_scores(scores, y, columns, settings, np.random.default_rng(0))
    assert_array_equal(scores, before)


@pytest.mark.parametrize("normalizer", [Ecdf(), NaturalScale((2.0, 3.0))])
def test_tuning_rows_are_normalised_in_place_or_not_to_the_same_bits(normalizer) -> None:
    raw = np.random.default_rng(0).normal(size=(70, 5, 2)).round(1)
    y = np.arange(70) % 5
    wanted = normalizer.fit(raw, ())(raw)
    copied = TuningRows(HeldTensor(raw), y, normalizer, ())
    assert_array_equal(copied.scores, wanted)
    assert not np.shares_memory(copied.scores, raw)
    in_place = TuningRows(HeldTensor(raw.copy(), spare=True), y, normalizer, ())
    assert_array_equal(in_place.true_scores, wanted[np.arange(70), y])
    assert_array_equal(in_place.scores, wanted)
    assert in_place.scores is in_place.scores


def test_scores_in_single_precision_are_not_rounded_to_it_in_place() -> None:
    raw = np.random.default_rng(0).normal(size=(70, 5, 2)).astype(np.float32)
    wanted = Ecdf().fit(raw, ())(raw)
    rows = TuningRows(HeldTensor(raw.copy(), spare=True), np.arange(70) % 5, Ecdf(), ())
    assert_array_equal(rows.scores, wanted)


class HoldsOn:
    """A user's normaliser, whose transform looks at the rows that it was fitted on each time."""

    name, learns = "holds on", True

    def fit(self, scores, columns):
        def late(values):
            return Ecdf().fit(scores, columns)(values)

        return late


def test_a_normaliser_of_the_users_may_hold_on_to_its_rows(cifar10) -> None:
    logits, y = cifar10[0][:300], cifar10[1][:300]
    found = [
        cx.ScoreAverage(kind="logits", normalize=normalize, random_state=0).fit(logits, y)
        for normalize in ("ecdf", HoldsOn())
    ]
    assert isinstance(found[0].predictor_.fitted.rule.transform, Interpolated)
    assert_array_equal(found[0].weights_, found[1].weights_)
    assert_array_equal(*(cp.predictor_.fitted.calibration for cp in found))
