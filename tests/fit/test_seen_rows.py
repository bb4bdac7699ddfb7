"""Rows of the fit are recognised when somebody evaluates on them, and others are not."""

import json
import pickle
import threading
from functools import cache
from unittest import mock

import numpy as np
import pytest

import conformix as cx
from conformix.data.outputs import check_outputs
from conformix.errors import InvalidInput
from conformix.fit.seen import (
    ENTRIES,
    MOST,
    SeenRows,
    digests_of,
    spread,
    sums_of,
)
from conformix.kernels.twins import compile_for
from conformix.scores.scale import Scaled
from memory import peak_bytes

DATA = cx.datasets.load("cifar10")
LOGITS, Y = DATA.outputs["vgg16"].astype(np.float64), DATA.labels
USED = "these rows were used in the fit"


def fitted(n=600, **options):
    usual = {"scores": ("thr", "rank"), "kind": "logits", "random_state": 0}
    return cx.ScoreAverage(**(usual | options)).fit(LOGITS[:n], Y[:n])


@cache
def once_fitted():
    return fitted()


@pytest.mark.parametrize("options", [{}, {"split": "efcp"}, {"split": "exact"}, {"scores": "auto"}])
def test_rows_of_the_fit_are_called_so_and_fresh_ones_are_not(options):
    cp = fitted(**options)
    verdict = cp.verdict(LOGITS[:600], Y[:600])
    assert verdict.word == "used"
    assert USED in verdict.sentence
    assert "600 of 600 looked up" in verdict.sentence
    assert "says nothing of new rows" in verdict.sentence
    fresh = cp.verdict(LOGITS[1000:1600], Y[1000:1600])
    assert fresh.used is None
    assert fresh.word != "used"


def test_evaluate_report_and_drift_say_so():
    rows, y = LOGITS[:600], Y[:600]
    result = once_fitted().evaluate(rows, y)
    assert USED in str(result)
    assert result.drift.verdict.startswith(f"no drift check: {USED}")
    assert USED in repr(once_fitted().check_drift(rows, y))
    report = once_fitted().report(rows, y, alphas=[0.05])
    assert set(report.measured.verdicts) == {"used"}
    assert USED in report.source
    assert "fresh rows" in once_fitted().check_drift(LOGITS[1000:1600], Y[1000:1600]).verdict
    assert USED not in once_fitted().report(LOGITS[1000:1600], Y[1000:1600], alphas=[0.05]).source


def test_a_part_of_the_rows_is_enough_and_a_few_are_no_proof():
    mixed = np.concatenate([LOGITS[:60], LOGITS[1000:1540]])
    labels = np.concatenate([Y[:60], Y[1000:1540]])
    assert "60 of 600 looked up" in once_fitted().verdict(mixed, labels).sentence
    some = np.concatenate([LOGITS[:2], LOGITS[1000:1009]])
    assert once_fitted().verdict(some, np.concatenate([Y[:2], Y[1000:1009]])).used is None
    assert once_fitted().verdict(LOGITS[:2], Y[:2]).used is not None
    few = np.concatenate([LOGITS[:12], LOGITS[1000:1588]])
    assert once_fitted().verdict(few, np.concatenate([Y[:12], Y[1000:1588]])).used is None


def test_equal_numbers_are_equal_rows_whatever_their_type():
    single = LOGITS[:600].astype(np.float32)
    cp = cx.ScoreAverage("thr", kind="logits", random_state=0).fit(single, Y[:600])
    assert cp.verdict(single.astype(np.float64), Y[:600]).word == "used"
    assert cp.verdict(single.astype(np.float64) * (1 + 1e-12), Y[:600]).used is None
    zeros = np.where(np.abs(single) < 0.5, 0.0, single)
    cp = cx.ScoreAverage("thr", kind="logits", random_state=0).fit(zeros, Y[:600])
    assert cp.verdict(np.where(zeros == 0, -0.0, zeros), Y[:600]).word == "used"


def test_tensors_are_recognised_as_arrays_are():
    torch = pytest.importorskip("torch")
    assert once_fitted().verdict(torch.as_tensor(LOGITS[:600]), Y[:600]).word == "used"


def test_models_in_another_order_are_the_same_rows():
    several = {name: values[:400] for name, values in list(DATA.outputs.items())[:2]}
    cp = cx.ScoreAverage("thr", kind="logits", random_state=0).fit(several, Y[:400])
    turned = dict(reversed(several.items()))
    assert cp.verdict(turned, Y[:400]).word == "used"


def test_rows_that_repeat_each_other_prove_nothing():
    P = np.array([[0.75, 0.25], [0.25, 0.75]])[np.arange(400) % 2]
    y = np.random.default_rng(0).integers(2, size=400)
    cp = cx.ScoreAverage("thr", alpha=0.2, random_state=0).fit(P[:200], y[:200])
    assert cp.verdict(P[200:], y[200:]).used is None


def votes(rng, n):
    """Shares of 50 trees over ten classes, as forests give them: many agree, few are alike."""
    y = rng.integers(10, size=n)
    strength = rng.gamma(1.2, 6.0, size=(n, 1))
    P = rng.dirichlet(np.full(10, 0.15), size=n) + strength * np.eye(10)[y]
    return rng.multinomial(50, P / P.sum(axis=1, keepdims=True)) / 50, y


def test_fresh_rows_of_a_forest_are_fresh_and_used_ones_are_not():
    called, repeated = 0, 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        P, y = votes(rng, 900)
        cp = cx.ScoreAverage("thr", random_state=0).fit(P[:400], y[:400])
        called += cp.verdict(P[400:], y[400:]).used is not None
        digests = cp.predictor_.seen.digests
        asked = digests_of(cp.predictor_.check(P[400:]), np.arange(500), cp.predictor_.key)
        repeated += np.isin(asked, digests).sum() >= 25
        assert cp.verdict(P[:400], y[:400]).word == "used"
    assert repeated >= 3  # the shares alone would have been called used
    assert called == 0


def test_rows_are_hashed_when_somebody_asks():
    rng = np.random.default_rng(0)
    mean = rng.normal(size=3000)
    y = mean + rng.normal(size=3000)
    with mock.patch("conformix.fit.seen.blake2b") as digest:
        cp = cx.RegressionAverage("abs", random_state=0).fit(mean[:2000], y[:2000])
        cp.predict_interval(mean[2000:])
        fitted(200).predict_set(LOGITS[200:300])
        assert not digest.called
    mean[0] = 7.0  # what is remembered is what was there
    copied = pickle.loads(pickle.dumps(cp))
    assert vars(copied.predictor_.seen)["_digests"].dtype == np.int64
    for one in (cp, copied):
        assert len(one.predictor_.seen.digests) == MOST
        assert one.verdict(mean[1:2000], y[1:2000]).word == "used"
        assert one.verdict(mean[2000:], y[2000:]).used is None


def test_of_many_rows_some_are_remembered():
    cp = fitted(5000)
    assert len(cp.predictor_.seen.digests) == MOST
    sentence = cp.verdict(LOGITS[:5000], Y[:5000]).sentence
    assert "1,000 of 5,000 looked up are among the 1,000 of its 5,000 rows" in sentence
    assert cp.verdict(LOGITS[2000:2500], Y[2000:2500]).word == "used"
    assert cp.verdict(LOGITS[5000:], Y[5000:]).used is None


def test_rows_that_recalibrate_are_remembered_too():
    cp = fitted().recalibrate(LOGITS[1000:1300], Y[1000:1300])
    assert cp.verdict(LOGITS[1000:1300], Y[1000:1300]).word == "used"
    assert cp.verdict(LOGITS[:600], Y[:600]).word == "used"
    assert cp.verdict(LOGITS[2000:2300], Y[2000:2300]).used is None


def test_a_model_file_remembers_unless_it_is_not_to(tmp_path):
    once_fitted().save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json")
    assert again.verdict(LOGITS[:600], Y[:600]).word == "used"
    once_fitted().save(tmp_path / "silent.json", remember=False)
    assert "seen" not in json.loads((tmp_path / "silent.json").read_text())["predictor"]
    assert cx.load(tmp_path / "silent.json").verdict(LOGITS[:600], Y[:600]).used is None


def test_the_salt_is_that_of_the_model():
    other = fitted(random_state=1)
    assert not np.isin(other.predictor_.seen.digests, once_fitted().predictor_.seen.digests).any()
    rows = once_fitted().predictor_.check(LOGITS[:3])
    assert len(set(digests_of(rows, np.arange(3), 5)) | set(digests_of(rows, np.arange(3), 6))) == 6


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda seen: seen.update(n=10), "seen.digests are not one int64 each"),
        (lambda seen: seen["digests"]["data"].reverse(), "seen.digests do not rise"),
        (lambda seen: seen.update(more=1), "does not know"),
        (lambda seen: seen["digests"].update(data=[0.5] * 600, dtype="float64"), "int64"),
    ],
)
def test_a_memory_that_cannot_be_is_refused(change, sentence, tmp_path):
    path = tmp_path / "model.json"
    once_fitted().save(path)
    document = json.loads(path.read_text())
    change(document["predictor"]["seen"])
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match=sentence):
        cx.load(path)


def test_samples_are_spread_over_all_rows_and_stay_small():
    assert spread(7, 10).tolist() == list(range(7))
    places = spread(10_007, 1000)
    assert len(np.unique(places)) == 1000
    assert places[-1] < 10_007
    assert set(np.diff(places)) == {10, 11}
    many = SeenRows(np.arange(900), 900).plus(SeenRows(np.arange(900) + 5000, 9000))
    assert (len(many.digests), many.n) == (1000, 9900)
    assert (np.diff(many.digests) > 0).all()


def test_digests_of_any_width_rise(tmp_path):
    path = tmp_path / "model.json"
    once_fitted().save(path)
    document = json.loads(path.read_text())
    ends = [-(2**63), *range(598), 2**63 - 1]  # their differences do not fit into an int64
    document["predictor"]["seen"]["digests"]["data"] = ends
    path.write_text(json.dumps(document))
    assert cx.load(path).predictor_.seen.digests.tolist() == ends


def test_rows_are_digested_a_block_at_a_time():
    rows = check_outputs(np.full((4000, 500), 1 / 500, dtype=np.float32))
    peak = peak_bytes(lambda: digests_of(rows, np.arange(4000), 5))
    assert peak < 4000 * 500 * 8 / 2  # all of them as float64 would be twice as much


def test_pages_of_a_mapped_file_are_given_back_while_its_rows_are_digested(tmp_path):
    np.save(tmp_path / "rows.npy", np.full((4000, 500), 1 / 500, dtype=np.float32))
    rows = check_outputs(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    with mock.patch("conformix.data.outputs.release_pages") as released:
        digests_of(rows, np.arange(4000), 5)
    assert released.call_count >= 4000 * 500 // ENTRIES


def test_rows_of_powers_of_two_have_digests_of_their_own():
    # Their last bits are all zero: sums of products would have few values.
    rng = np.random.default_rng(0)
    rows = np.unique(2.0 ** rng.integers(-9, 0, size=(4000, 6)), axis=0)
    checked = check_outputs(rows, "logits")
    assert len(set(digests_of(checked, np.arange(len(rows)), 5))) == len(rows) > 3000


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_compiled_loops_digest_rows_as_numpy_does(monkeypatch, dtype, threads: int) -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(500, 30)).astype(dtype), rng.normal(size=(500, 30))
    one[7, 3], one[8, 3], two[9] = 0.0, -0.0, two[7]
    one[8], two[8] = np.where(np.arange(30) == 3, -0.0, one[7]), two[7]  # of two zeros one
    outputs = check_outputs({"one": one, "two": two}, "logits")
    rows = np.arange(7, 500, 2)
    rows[0:2] = 7, 8
    monkeypatch.setattr("conformix.fit.seen.loops", lambda name, numbers: None)
    expected = sums_of(outputs, rows)
    monkeypatch.undo()
    monkeypatch.setattr("conformix.kernels.blocks.PART_OUTPUTS", 64)
    compile_for(2**17)
    found = sums_of(outputs, rows, threads)
    assert found.tobytes() == expected.tobytes()
    assert found[0] == found[1]
    assert len(set(found.tolist())) == len(rows) - 1


def test_what_the_user_wrote_is_called_by_the_thread_that_fits() -> None:
    called = []

    class Noted:
        name, learns = "noted", False

        def fit(self, scores, columns):
            called.append(threading.get_ident())
            return Scaled((1.0,) * scores.shape[-1])

    probs = np.random.default_rng(0).dirichlet(np.ones(100), 1000)
    for _ in range(5):
        cx.ScoreAverage(("thr", "aps"), normalize=Noted(), threads=2, random_state=0).fit(
            probs, np.arange(1000) % 100
        )
    assert set(called) == {threading.get_ident()}
