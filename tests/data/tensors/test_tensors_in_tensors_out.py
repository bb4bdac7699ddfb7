"""Tensors in, tensors out, and the same sets as NumPy, to the last bit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import conformix as cx
from conformix.errors import InvalidInput
from conformix.testing import assert_same_sets
from data.tensors.conftest import softmax

torch = pytest.importorskip("torch")
same = np.testing.assert_array_equal

SCORES = (
    "thr", "aps", "rank", "raps", "saps", "margin", "invrank", "maxprob", "logp", "logrank",
    "-entropy", "aps(randomized=True)", "thr(temperature=2.0)", "rank(tie_break='prob')",
)  # fmt: skip


def host(values):
    return np.asarray(values.cpu())


@pytest.mark.parametrize("case", ["tied", "smooth"])
def test_scores_of_a_tensor_are_those_of_the_array(put, case, request) -> None:
    outputs, _ = request.getfixturevalue(case)
    probs = outputs if case == "tied" else softmax(outputs)
    got = cx.score_tensor(put(probs), SCORES, random_state=3)
    assert isinstance(got, torch.Tensor)
    assert got.device == put(probs).device
    same(host(got), cx.score_tensor(probs, SCORES, random_state=3))


def test_scores_of_logits_are_those_of_the_array(put, smooth) -> None:
    names = ("thr", "aps", "rank", "logit", "energy", "margin")
    got = cx.score_tensor(put(smooth[0]), names, kind="logits")
    same(host(got), cx.score_tensor(smooth[0], names, kind="logits"))


@pytest.mark.parametrize("split", ["vfcp", "efcp", "dlcp", "dlcp+", "exact"])
@pytest.mark.parametrize("case", ["tied", "smooth"])
def test_every_split_gives_the_sets_of_numpy(put, case, split, request) -> None:
    outputs, y = request.getfixturevalue(case)
    kind = "probs" if case == "tied" else "logits"
    cal, new = outputs[:120], outputs[120:160]
    search = cx.search.GridSearch(10)
    models = [
        cx.ScoreAverage(alpha=0.2, split=split, kind=kind, search=search, random_state=0)
        for _ in range(2)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cx.SmallBatchWarning)
        want = models[0].fit(cal, y[:120], test=new).predict_set(new)
        labels = torch.from_numpy(y[:120]).to(put(cal).device)
        got = models[1].fit(put(cal), labels, test=put(new)).predict_set(put(new))
    assert isinstance(got.mask, torch.Tensor)
    assert got.mask.dtype == torch.bool
    assert got.mask.device == put(new).device
    assert_same_sets(np.asarray(got), np.asarray(want))
    assert got.members() == want.members()
    same(host(got.sizes), want.sizes)
    assert repr(got) == repr(want)
    same(models[1].weights_, models[0].weights_)
    for smoothed in (False, True):
        pvalues = models[1].predict_pvalues(put(new), smoothed=smoothed)
        assert isinstance(pvalues, torch.Tensor)
        same(host(pvalues), models[0].predict_pvalues(new, smoothed=smoothed))
    # A fit on one side predicts on the other.
    assert_same_sets(np.asarray(models[0].predict_set(put(new))), np.asarray(want))
    assert_same_sets(np.asarray(models[1].predict_set(new)), np.asarray(want))


@pytest.mark.parametrize("normalize", ["none", "scale", "ecdf"])
@pytest.mark.parametrize("allow_empty", [True, False])
def test_every_scale_and_no_empty_sets(put, tied, normalize, allow_empty) -> None:
    probs, y = tied
    options = {"normalize": normalize, "allow_empty": allow_empty, "random_state": 1}
    found = []
    for outputs in (probs, put(probs)):
        cp = cx.ScoreAverage(alpha=0.1, search=cx.search.GridSearch(6), **options)
        cp.fit(outputs, y).recalibrate(outputs[:80], y[:80])
        found.append((cp.threshold_, np.asarray(cp.predict_set(outputs)), cp.weights_))
    for got, want in zip(found[1], found[0], strict=True):
        same(got, want)


def test_several_models_several_levels_and_calibration_by_class(put, tied) -> None:
    probs, y = tied
    arrays = {"a": probs, "b": probs[:, ::-1].copy()}
    tensors = {name: put(part) for name, part in arrays.items()}
    found = []
    for outputs in (arrays, tensors):
        cp = cx.ScoreAverage(("thr", "rank"), alpha=0.3, calibration="class", random_state=0)
        cp.fit(outputs, y)
        nested = cp.predict_set(outputs, alpha=[0.2, 0.4])
        pvalues = cp.predict_pvalues(outputs)
        sizes = nested.sizes
        found.append([np.asarray(torch.as_tensor(v).cpu()) for v in (nested.depth, sizes, pvalues)])
        same(np.asarray(nested.at(0.4)).sum(axis=1), found[-1][1][1])
        same(nested.mean_sizes, found[-1][1].mean(axis=1))
    for got, want in zip(found[1], found[0], strict=True):
        same(got, want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_every_precision_and_tensors_with_gradients(put, smooth, dtype, kind) -> None:
    logits, y = smooth
    numbers = softmax(logits) if kind == "probs" else logits
    tensor = put(numbers).to(getattr(torch, dtype)).requires_grad_()
    as_array = tensor.detach().float().cpu().numpy()
    if dtype == "float64":
        as_array = numbers
    if kind == "probs" and dtype in ("float16", "bfloat16"):
        as_array = tensor.detach().cpu().half().numpy() if dtype == "float16" else None
    got = cx.ScoreAverage("paper", kind=kind, random_state=0).fit(tensor[:400], y[:400])
    sets = got.predict_set(tensor[400:])
    assert tensor.requires_grad
    if as_array is not None:
        want = cx.ScoreAverage("paper", kind=kind, random_state=0).fit(as_array[:400], y[:400])
        assert_same_sets(np.asarray(sets), np.asarray(want.predict_set(as_array[400:])))


def test_metrics_and_saving_work_on_what_tensors_gave(put, tied, tmp_path) -> None:
    probs, y = tied
    cp = cx.ScoreAverage(alpha=0.2, split="exact", search=cx.search.GridSearch(4))
    sets = cp.fit(put(probs[:100]), y[:100]).predict_set(put(probs[100:]))
    labels = torch.from_numpy(y[100:]).to(put(probs).device)
    assert cx.metrics.evaluate(sets, labels) == cx.metrics.evaluate(np.asarray(sets), y[100:])
    cp.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json").predict_set(probs[100:])
    assert_same_sets(np.asarray(again), np.asarray(sets))


def test_outputs_of_transformers_are_read_by_their_logits(put, smooth) -> None:
    class Output(dict):  # a mapping with attributes, as transformers return
        logits = put(smooth[0])

    got = cx.score_tensor(Output(logits=Output.logits), "thr", kind="logits")
    same(host(got), cx.score_tensor(smooth[0], "thr", kind="logits"))


def test_sets_behave_as_a_boolean_array(put, tied) -> None:
    sets = cx.ScoreAverage(weights=[1, 0, 0]).fit(put(tied[0]), tied[1]).predict_set(put(tied[0]))
    mask = np.asarray(sets)
    assert mask.dtype == bool
    same(~sets, ~mask)
    same(sets & mask, mask)
    assert sets.labels(0) == [
        int(y) for y in np.argsort(-tied[0][0], kind="stable")[: mask[0].sum()]
    ]
    assert len(sets) == len(mask)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t * 2, "rows sum to 1; row 0 sums to 2"),
        (lambda t: t.log(), "must be finite; row"),
        (lambda t: t[:, :, None], r"must be a \(n, K\) matrix; got shape \(160, 5, 1\)"),
        (lambda t: t[:0], r"must not be empty; got shape \(0, 5\)"),
        (lambda t: t.to_sparse(), "must be a dense tensor; call .to_dense"),
        (lambda t: t > 0, "must hold real numbers; got dtype torch.bool"),
        (lambda t: t * 1j, "must hold real numbers; got dtype torch.complex128"),
    ],
)
def test_wrong_tensors_are_refused_in_one_sentence(put, tied, change, sentence) -> None:
    with pytest.raises(cx.InvalidInput, match=sentence):
        cx.score_tensor(change(put(tied[0])))


def test_two_places_in_one_call_are_refused_in_one_sentence(tied) -> None:
    probs = tied[0]
    elsewhere = torch.from_numpy(probs).to("meta")
    with pytest.raises(
        cx.InvalidInput, match="must be in one place; got 'a' in a NumPy array, 'b' on"
    ):
        cx.score_tensor({"a": probs, "b": elsewhere})
    with pytest.raises(cx.InvalidInput, match="must be in one place; got 'a' on cpu, 'b' on meta"):
        cx.score_tensor({"a": torch.from_numpy(probs), "b": elsewhere})


def test_test_rows_elsewhere_are_refused_in_one_sentence(tied, monkeypatch) -> None:
    from conformix.kernels import arrays

    monkeypatch.setattr(arrays, "COMPUTING_DEVICES", {"cuda", "cpu"})
    probs, y = tied
    cp = cx.ScoreAverage(split="dlcp")
    with pytest.raises(cx.InvalidInput, match="test must be where outputs are"):
        cp.fit(probs, y, test=torch.from_numpy(probs))


def test_streams_and_folds_read_tensors_as_arrays(put, tied) -> None:
    probs, y = tied
    runs = [cx.OnlineAverage(alpha=0.2).run(part, y) for part in (probs, put(probs))]
    assert_same_sets(np.asarray(runs[1].sets), np.asarray(runs[0].sets))
    found = []
    for part in (probs, put(probs)):
        folds = [cx.cross.Fold(part[rows], y[rows]) for rows in (slice(0, 50), slice(50, 100))]
        cp = cx.CrossAverage(alpha=0.2, weights=[0.5, 0.25, 0.25], random_state=0).fit(folds)
        found.append(np.asarray(cp.predict_set([part[100:], part[100:]])))
    assert_same_sets(found[1], found[0])


def test_a_tensor_without_numbers_is_refused_in_one_sentence() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidInput, match="meta tensor"):
        cx.ScoreAverage("paper", kind="logits").fit(
            torch.empty((10, 3), device="meta"), np.zeros(10, int)
        )
