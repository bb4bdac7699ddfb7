"""Fits and sets that rest on sorted rows are those of NumPy, to the last bit, on a device too."""

from __future__ import annotations

import numpy as np
import pytest

import conformix as cx
from conformix.fit import upper_ends
from conformix.kernels.device.sums import running_sums
from conformix.search import GridSearch
from conformix.testing import assert_same_sets
from data.tensors.conftest import softmax

torch = pytest.importorskip("torch")

THREE = ("thr", "aps", "rank")
SETTINGS = {
    "three scores": {"scores": THREE},
    "one score": {"scores": "aps"},
    "no order": {"scores": "thr"},
    "temperatures": {"scores": ("thr(temperature=0.5)", "aps(temperature=2.0)", "rank")},
    "logarithms": {"scores": ("logp", "logrank", "-entropy")},
    "penalties": {"scores": ("raps", "saps", "margin")},
    "randomised": {"scores": ("saps(randomized=True)", "rank")},
    "not rising": {"scores": ("aps(randomized=True)", "rank")},
    "never empty": {"scores": THREE, "allow_empty": False, "alpha": 0.6},
    "labels that score alike": {"scores": "saps(penalty=0.0)", "alpha": 0.05},
    "natural scale": {"scores": THREE, "normalize": "scale"},
    "automatic": {"scores": "auto"},
    "automatic, exact": {"scores": "auto", "split": "exact"},
    "learnt": {"scores": ("thr", "likeness", "kin"), "normalize": "scale"},
    "learnt from all rows": {"scores": ("rarity", "kin"), "split": "efcp"},
    "by class": {"scores": THREE, "calibration": "class", "alpha": 0.4},
}


@pytest.mark.filterwarnings("ignore::conformix.TrivialSetsWarning")
@pytest.mark.parametrize("case", ["tied", "probs", "logits"])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_sets_and_p_values_are_those_of_numpy(
    on_device, case, settings, request, monkeypatch
) -> None:
    monkeypatch.setattr(upper_ends, "WORTHWHILE", 0)
    outputs, y = request.getfixturevalue("tied" if case == "tied" else "smooth")
    # Eighths are the same numbers in single precision.
    outputs = softmax(outputs) if case == "probs" else outputs.astype(np.float32)
    half = len(y) // 2
    kind = "logits" if case == "logits" else "probs"
    found = []
    for place in (np.asarray, on_device):
        search = {} if settings["scores"] == "auto" else {"search": GridSearch(6)}
        cp = cx.ScoreAverage(
            **{"scores": "paper", **({"alpha": 0.2} | search | settings)}, kind=kind, random_state=0
        )
        cp.fit(place(outputs[:half]), y[:half])
        found.append((cp, cp.predict_set(place(outputs[half:]))))
        if settings.get("split") != "exact":
            nested = cp.predict_set(place(outputs[half:]), alpha=[0.1, 0.3])
            found[-1] += (nested.depth, cp.predict_pvalues(place(outputs[half:])))
    (one, want, *rest), (other, got, *same) = found
    assert_same_sets(want, got)
    assert [want.labels(i) for i in range(20)] == [got.labels(i) for i in range(20)]
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert one.predictor_.fitted.held_out_size == other.predictor_.fitted.held_out_size
    for expected, tensor in zip(rest, same, strict=True):
        np.testing.assert_array_equal(expected, np.asarray(tensor.cpu()))


def test_several_models_blend_on_the_device(on_device, smooth, tied) -> None:
    logits, y = smooth
    models = {"a": logits, "b": logits[:, ::-1] / 2}
    cp = cx.ScoreAverage("auto", alpha=0.1, kind="logits", random_state=0)
    want = cp.fit(models, y).predict_set(models)
    tensors = {name: on_device(values.copy()) for name, values in models.items()}
    assert_same_sets(want, cp.fit(tensors, y).predict_set(tensors))


@pytest.mark.parametrize("source", ["unlabelled", "test"])
def test_what_other_rows_teach_is_the_same_on_a_device(on_device, smooth, source) -> None:
    logits, y = smooth
    third = len(y) // 3
    rows, others, new = logits[:third], logits[third : 2 * third], logits[2 * third :]
    if source == "test":
        others = new
    cp = cx.ScoreAverage("auto", alpha=0.1, kind="logits", random_state=0)
    want = cp.fit(rows, y[:third], **{source: others}).predict_set(new)
    cp.fit(on_device(rows), y[:third], **{source: on_device(others)})
    assert_same_sets(want, cp.predict_set(on_device(new)))


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 7), (130, 33)])
def test_running_sums_are_numpys(on_device, shape) -> None:
    values = np.random.default_rng(0).random(shape) ** 30
    np.testing.assert_array_equal(
        np.asarray(running_sums(on_device(values)).cpu()), np.cumsum(values, axis=1)
    )
