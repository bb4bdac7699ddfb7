"""A model file whose parts contradict each other is refused in one sentence that names the part.

Every case takes a model that was fitted and saved, and edits one part of its JSON (or two parts
that then agree with each other and contradict a third).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import conformix as cx
from conformix.calibration import LabelShift
from conformix.errors import InvalidInput
from conformix.fit.saved.migrations import SCHEMA
from fit.models import RECIPES, answers, document, fitted, put

F = ("predictor", "fitted")
FACTS = (*F, "facts")
CUTS = (*F, "cuts")
MATRIX = ("predictor", "columns", 1, 2)
HUGE = 10**9
BLEND = ("predictor", "blend")


def without_evidence(blend: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in blend.items() if key != "evidence"}


def with_evidence(blend: dict[str, Any]) -> dict[str, Any]:
    numbers = {"spread": 0.1, "top": 0.1, "narrowest": 0.0, "widest": 1.0}
    return blend | {"evidence": numbers}


def array(data: list[Any], dtype: str = "float64", shape: list[int] | None = None) -> Any:
    return {"dtype": dtype, "shape": [len(data)] if shape is None else shape, "data": data}


# Model, place, new value (or a function of the old one), what the sentence says.
CASES: list[tuple[str, tuple[Any, ...], Any, str]] = [
    # the level
    ("vfcp", (*FACTS, "alpha"), 0.01, r"facts\.alpha is 0\.01, but predictor\.alpha is 0\.2"),
    ("vfcp", ("predictor", "alpha"), 0.01, r"facts\.alpha is 0\.2, but predictor\.alpha is 0\.01"),
    ("vfcp", ("params", "alpha"), 0.01, r"params\.alpha is 0\.01, but that of the fit is 0\.2"),
    ("exact", (*F, "alpha"), 0.01, r"fitted\.alpha is 0\.01, but predictor\.alpha is 0\.2"),
    ("exact", ("params", "alpha"), 0.01, r"params\.alpha is 0\.01, but that of the fit is 0\.2"),
    ("tune_alpha", ("params", "tune_alpha"), 0.3, r"params\.tune_alpha is 0\.3, but that of the"),
    ("fixed", (*FACTS, "tune_alpha"), 0.3, r"facts\.tune_alpha is 0\.3, but alpha is 0\.2"),
    ("vfcp", ("params", "delta"), 1.5, r"params\.delta must be a number strictly between 0 and 1"),
    # rows
    ("vfcp", (*FACTS, "n_cal"), HUGE, r"facts\.n_cal is 1000000000, but the number of calibration"),
    ("vfcp", (*FACTS, "n_cal"), True, r"facts\.n_cal must be a whole number; got True"),
    ("vfcp", (*FACTS, "n_tune"), HUGE, r"search\.n_size is 60, but the split counts sizes on"),
    ("vfcp", (*FACTS, "n_tune"), -1, r"facts\.n_tune cannot be -1"),
    ("vfcp", (*FACTS, "n_test"), 50, r"facts\.n_test does not go with the split"),
    ("efcp", (*FACTS, "n_tune"), HUGE, r"facts\.n_tune is 1000000000, but the same rows calibrate"),
    ("fixed", (*FACTS, "n_tune"), 500, r"facts\.n_tune is 500, but under fixed weights it is 0"),
    ("dlcp", (*FACTS, "n_test"), 0, r"facts\.n_test does not go with the split"),
    ("dlcp", (*FACTS, "n_test"), HUGE, r"search\.n_size is 120, but the split counts sizes on"),
    ("dlcp+", (*FACTS, "n_test"), HUGE, r"search\.n_size is 240, but the split counts sizes on"),
    ("exact", (*F, "y"), array([0, 1], "int64"), r"fitted\.scores are not \(n, K, d\)"),
    ("exact", (*F, "y", "data", 0), 4, r"fitted\.y holds labels out of range"),
    ("exact", (*F, "y", "data", 0), 0.5, r"holds whole numbers of 64 bits in its arrays; got 0\.5"),
    # classes and scores
    ("vfcp", (*FACTS, "n_classes"), 40, r"facts\.n_classes is 40, but predictor\.n_classes is 4"),
    ("vfcp", ("predictor", "n_classes"), 40, r"facts\.n_classes is 4, but predictor\.n_classes"),
    ("vfcp", ("predictor", "n_classes"), "4", r"predictor\.n_classes must be a whole number; got"),
    ("exact", ("predictor", "n_classes"), 5, r"fitted\.scores are not \(n, K, d\)"),
    ("names", ("predictor", "classes"), ["cat", "dog"], r"classes must name all 4 columns; got 2"),
    ("names", ("predictor", "classes", 0), None, r"classes must be text or numbers; got None"),
    ("vfcp", (*FACTS, "d"), 2, r"facts\.d is 2, but the number of predictor\.columns is 3"),
    ("vfcp", ("predictor", "columns", 1), ["", "thr"], r"predictor\.columns name a score twice"),
    ("vfcp", ("predictor", "columns", 1), ["", "margin"], r"params\.scores are not its predictor"),
    ("vfcp", ("params", "scores", 1), "margin", r"params\.scores are not its predictor\.columns"),
    ("two models", ("predictor", "columns", 0, 0), "c", r"a model that is not among predictor\.mo"),
    ("two models", ("predictor", "models"), ["a", "a"], r"predictor\.models are not distinct"),
    ("two models", ("predictor", "models", 0), 3, r"predictor\.models must be text; got 3"),
    ("vfcp", ("predictor", "kind"), "logits", r"params\.kind is 'probs', but that of the fit is"),
    ("vfcp", ("predictor", "kind"), "odds", r"predictor\.kind is none of probs, logits, "),
    ("vfcp", ("predictor", "key"), -1, r"predictor\.key is out of range"),
    # split, rank and what may be promised
    ("efcp", (*FACTS, "split"), "vfcp", r"facts\.separate is False, but the split says True"),
    ("efcp", (*FACTS, "separate"), True, r"facts\.separate is True, but the split says False"),
    ("vfcp", (*FACTS, "split"), "exact", r"facts\.split cannot be 'exact' for one rule"),
    ("vfcp", (*FACTS, "split"), "fixed", r"facts\.n_tune is 60, but under fixed weights it is 0"),
    ("vfcp", ("params", "split"), "efcp", r"params\.split is efcp, but that of the fit is vfcp"),
    ("learnt", (*FACTS, "learnt_scale"), False, r"learnt_scale is False, but normalizer and split"),
    ("vfcp", (*FACTS, "learnt_scale"), True, r"learnt_scale is True, but normalizer and split say"),
    ("learnt", (*F, "normalizer"), "scale", r"transform bends, though normalizer is scale"),
    ("pac", (*FACTS, "rank", "n_weights"), 1, r"rank\.n_weights is 1, but the rank has to pay for"),
    ("pac", (*FACTS, "n_weights"), 1, r"rank\.n_weights is 15, but the rank has to pay for 1"),
    ("pac", (*FACTS, "rank", "delta"), 0.001, r"params\.guarantee at delta is 0\.2, but that of"),
    ("pac", (*FACTS, "rank", "delta"), None, r"rank\.n_weights is 15, but the rank has to pay for"),
    ("pac apart", (*FACTS, "rank", "delta"), None, r"params\.guarantee at delta is 0\.2, but that"),
    ("pac batch", (*FACTS, "rank", "batch"), 7, r"rank\.batch is 7, but the test rows of the fit"),
    ("vfcp", (*FACTS, "rank", "batch"), 7, r"rank\.batch is 7, but the test rows of the fit are"),
    ("vfcp", ("params", "guarantee"), "pac", r"params\.guarantee at delta is 0\.1, but that of th"),
    ("efcp", (*FACTS, "n_weights"), 1, r"facts\.n_weights is not the number of weights that the"),
    ("line", (*FACTS, "n_weights"), 1, r"facts\.n_weights is not the number of weights that the"),
    # rows that taught scores
    ("scores that learn", (*FACTS, "n_batch"), -1, r"facts\.n_batch cannot be -1"),
    ("scores that learn", (*FACTS, "n_batch"), HUGE, r"more rows taught its scores than sums can"),
    ("scores that learn", (*FACTS, "n_unlabelled"), HUGE, r"more rows taught its scores than sums"),
    ("scores that learn", (*FACTS, "n_test"), 20, r"facts\.n_test does not go with the split"),
    ("vfcp", (*FACTS, "n_batch"), 20, r"n_batch is of scores that learn, and it has none"),
    ("vfcp", (*FACTS, "n_unlabelled"), 20, r"n_unlabelled is of scores that learn, and it has"),
    ("exact", (*F, "n_unlabelled"), 20, r"n_unlabelled is of scores that learn, and it has none"),
    ("learnt by exact", (*F, "n_unlabelled"), -1, r"fitted\.n_unlabelled cannot be -1"),
    ("learnt by exact", (*F, "n_unlabelled"), "x", r"n_unlabelled must be a whole number; got 'x'"),
    ("learnt from all rows", (*FACTS, "n_batch"), 20, r"facts\.n_batch does not go with the split"),
    ("learnt from all rows", (*FACTS, "learnt_scale"), False, r"learnt_scale is False, but norma"),
    ("learnt, recalibrated", (*FACTS, "n_test"), 20, r"n_batch and facts\.n_test cannot be both"),
    ("learnt, recalibrated", (*FACTS, "rank", "batch"), 20, r"rank\.batch is 20, but the test row"),
    ("pac for a batch", (*FACTS, "n_batch"), 0, r"rank\.batch is 20, but the test rows of the fit"),
    ("pac for a batch", (*FACTS, "rank", "batch"), None, r"rank\.batch is None, but the test rows"),
    ("scores that learn", ("predictor", "columns", 1), [], r"columns are not pairs of a model"),
    ("scores that learn", ("predictor", "columns", 1), ["", "kin"], r"are not pairs of a model"),
    ("scores that learn", ("predictor", "columns", 0), lambda old: [*old, 1], r"are not pairs"),
    ("scores that learn", (*MATRIX, "data", 0), 0.3, r"rows of norm at most one, in multiples of"),
    ("scores that learn", (*MATRIX, "data", 0), 2.0, r"rows of norm at most one, in multiples of"),
    ("scores that learn", (*MATRIX, "shape"), [2, 8], r"must have 4 rows of norm at most one"),
    # weights
    ("fixed", (*F, "weights", "data"), [0.5, 0.5, -0.0001], r"weights are not its params\.weights"),
    ("recalibrated", (*F, "weights", "data"), [1.5, -0.5, 0.0], r"not from 0 on and of sum 1"),
    ("recalibrated", (*F, "weights", "data"), [0.0, 0.0, 0.0], r"not from 0 on and of sum 1"),
    ("vfcp", (*F, "weights", "data"), [0.0, 0.0, 0.0], r"search\.weights are not its fitted\.weig"),
    ("vfcp", (*F, "weights"), array([1.0]), r"fitted\.weights are not one finite number per score"),
    ("exact", (*F, "weights", "data", 0), -3.0, r"fitted\.weights are not from 0 on and of sum 1"),
    ("exact", (*F, "weights"), array([1.0, 0, 0] * 2, shape=[2, 3]), r"hold a candidate twice"),
    ("exact candidates", (*F, "weights", "data", 0), 0.0, r"not among the candidates of params\.s"),
    ("candidates", ("params", "search", "candidates", "data"), [7.0] * 6, r"not among the candida"),
    ("auto", ("predictor", "blend", "coefficients", "data", 0), -1.0, r"finite and not negative"),
    ("auto", ("predictor", "blend", "name"), "a", r"blend\.name is also that of a model"),
    ("auto", ("params", "scores"), ["thr"], r"params\.scores auto is False, but a blend in the fi"),
    ("auto", ("predictor", "blend", "columns", 0, 0), "c", r"a model that is not among predictor"),
    ("evidence", BLEND, without_evidence, r"evidence and the score that reads it are not both th"),
    ("evidence by exact", BLEND, without_evidence, r"the score that reads it are not both there"),
    ("auto", BLEND, with_evidence, r"the score that reads it are not both there"),
    ("evidence", (*BLEND, "evidence"), {"spread": 0.1}, r"blend\.evidence has no 'top'"),
    ("evidence", (*BLEND, "evidence", "more"), 1, r"blend\.evidence"),
    ("evidence", (*BLEND, "evidence", "widest"), -9.0, r"two coefficients and two bounds"),
    ("evidence", (*BLEND, "evidence", "top"), "0", r"blend\.evidence\.top must be a finite number"),
    # the search
    ("vfcp", (*F, "search"), None, r"search does not go with the split"),
    ("vfcp", (*F, "search", "count"), HUGE, r"search\.count cannot be"),
    ("vfcp", (*F, "search", "n_size"), 7, r"search\.n_size is 7, but the split counts sizes on 60"),
    ("vfcp", (*F, "search", "strategy"), 7, r"search\.strategy must be text; got 7"),
    ("vfcp", (*F, "held_out_size"), 5, r"fitted\.held_out_size cannot be 5"),
    ("efcp", (*F, "held_out_size"), 1.5, r"fitted\.held_out_size cannot be 1\.5"),
    # scales
    ("widths", (*F, "transform", "factors", 0), -1.0, r"factors are not one positive number per"),
    ("widths", (*F, "transform", "factors", 0), 0, r"factors are not one positive number per scor"),
    ("widths", (*F, "transform", "factors", 0), 2.0, r"factors are not those of params\.normalize"),
    ("efcp", (*F, "transform", "factors", 0), 2.0, r"factors are not those of params\.normalize"),
    ("efcp", (*F, "transform", "factors"), [1.0], r"factors are not one positive number per score"),
    ("dlcp", (*F, "transform", "factors", 0), 2.0, r"transform scales, though normalizer is none"),
    ("vfcp", (*F, "transform", "curves", 0, 1, "data", -1), 2.0, r"does not end at 1, as an ecdf"),
    ("vfcp", (*F, "transform", "curves", 0, 0, "data", 0), 9.0, r"a curve .* does not rise"),
    ("vfcp", (*F, "transform", "curves"), lambda old: old[:2], r"curves do not fit the scores"),
    ("vfcp", ("params", "normalize"), "none", r"params\.normalize is 'none', but that of the fit"),
    # calibration scores
    ("vfcp", (*F, "calibration", "data"), lambda old: old[::-1], r"calibration does not rise"),
    ("vfcp", (*F, "calibration", "data", -1), "inf", r"is infinite, which only allow_empty=false"),
    ("vfcp", (*F, "calibration", "data", 0), "-inf", r"calibration holds minus infinity"),
    ("vfcp", (*F, "calibration", "data", -1), 1.5, r"calibration leaves the range of its scale"),
    ("vfcp", (*F, "calibration", "data", 0), -1, r"calibration leaves the range of its scale"),
    ("vfcp", (*F, "calibration", "shape"), [-1], r"calibration\.shape is no shape; got \[-1\]"),
    ("vfcp", (*F, "calibration", "shape"), [7], r"calibration holds 60 numbers, but its shape is"),
    ("non-empty", (*F, "allow_empty"), True, r"is infinite, which only allow_empty=false gives"),
    ("non-empty", ("params", "allow_empty"), True, r"params\.allow_empty is True, but that of the"),
    ("exact", ("params", "allow_empty"), False, r"params\.allow_empty is False, but that"),
    ("exact, non-empty", (*F, "allow_empty"), True, r"params\.allow_empty is False, but that"),
    ("exact, non-empty", (*F, "allow_empty"), 1, r"fitted\.allow_empty must be true or false; got"),
    ("vfcp", (*F, "allow_empty"), "no", r"fitted\.allow_empty must be true or false; got 'no'"),
    # thresholds by class, group, cluster, weight
    ("class", (*CUTS, "cells", "data", 0), 1, r"cells are not those of one stratum per class"),
    ("class", (*CUTS, "cells", "data", 0), HUGE, r"cells are not those of one stratum per class"),
    ("class", (*CUTS, "n_rare"), 4, r"cuts\.n_rare is 4, but the number of cells without a stratu"),
    ("class", (*CUTS, "stratum", "data", 0), HUGE, r"cuts\.stratum names strata that no cell has"),
    ("class", (*CUTS, "fixed"), False, r"cuts\.fixed is False, but facts\.separate is True"),
    ("class, marginal", (*CUTS, "fixed"), True, r"cuts\.fixed is True, but facts\.separate is Fal"),
    ("class", (*CUTS, "fallback"), "all", r"cells are not those of one stratum per class"),
    ("class", (*CUTS, "what"), "cluster", r"cuts\.cells are no clusters of classes"),
    ("class", (*CUTS, "what"), "patient", r"cuts\.what cannot be 'patient'"),
    ("class", (*FACTS, "calibration"), "marginal", r"facts\.calibration is 'marginal', but its cu"),
    ("class", ("params", "calibration"), "marginal", r"params\.calibration is 'marginal', but tha"),
    ("group", (*CUTS, "names"), ["north", "south"], r"cells are not one stratum per group and cl"),
    ("group", (*CUTS, "names", 0), "zenith", r"cuts\.names are not different texts or integers"),
    ("group", (*CUTS, "cells", "data", 0), 2, r"cells are not those of one stratum per group"),
    ("group and class", (*CUTS, "cells", "data", 5), 4, r"cells are not those of one stratum per"),
    ("cluster", (*CUTS, "cells", "data", 0), 7, r"cuts\.cells are no clusters of classes"),
    ("cluster", (*CUTS, "cells", "data", 0), 2**62, r"cuts\.cells are no clusters of classes"),
    ("clusters given", (*CUTS, "n_rare"), 2, r"cuts\.cells are no clusters of classes"),
    ("weighted", (*CUTS, "weight", "data", 0), -1.0, r"weight are not one finite number from 0 on"),
    ("weighted", (*CUTS, "weight", "data"), lambda old: [0.0] * len(old), r"some above 0"),
    ("weighted", (*CUTS, "weight"), array([1.0]), r"weight are not one finite number from 0 on pe"),
    ("weighted", (*CUTS, "known"), True, r"params\.calibration\.known is False, but that of the"),
    ("label shift", (*CUTS, "ratios", "data", 0), 3.0, r"calibration\.ratios is .*, but that of t"),
    ("label shift", (*CUTS, "weight", "data", 0), 7.0, r"cuts\.weight are not among its cuts\.rat"),
    ("rc3p", (*F, "limits", "ranks", "data", 0), 9, r"ranks are not one rank from 1 to K per clas"),
    ("rc3p", (*F, "limits", "drop"), 0, r"limits\.drop is no finite number from 1 on"),
    ("rc3p", (*F, "limits"), None, r"params\.calibration rc3p is True, but limits of ranks are"),
    # the file as such
    ("vfcp", ("version",), 7, r"contents\.version must be text; got 7"),
    ("vfcp", ("params", "random_state"), -1, r"params\.random_state cannot be -1"),
    ("vfcp", ("params", "search"), {"guess": {}}, r"params\.search cannot be 'guess'"),
    ("line", ("params", "search", "line", "budget"), "x", r"search\.budget must be a whole number"),
    ("class", ("params", "calibration", "options", "min_rows"), "x", r"min_rows must be a whole"),
    ("vfcp", (*F, "guarantee"), "exact", r"fitted\.guarantee must be an object; got 'exact'"),
    ("vfcp", ("predictor", "key"), 10**400, r"key must be a whole number; got an integer beyond"),
]  # fmt: skip


def refused(path: Path, text: str) -> str:
    """Return the sentence with which both loaders refuse a file."""
    path.write_text(text)
    said = []
    for load in (cx.load, cx.load_predictor):
        with pytest.raises(InvalidInput) as caught:
            load(path)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "\n" not in said[0]
    assert said[0].endswith(".")
    assert len(said[0]) < 300 + len(str(path))
    return said[0]


@pytest.mark.parametrize(
    ("name", "place", "value", "sentence"),
    CASES,
    ids=[f"{case[0]}-{'.'.join(map(str, case[1]))}-{i}" for i, case in enumerate(CASES)],
)
def test_a_model_file_that_contradicts_itself_is_refused(
    name: str, place: tuple[Any, ...], value: Any, sentence: str, tmp_path: Path
) -> None:
    edited = document(name)
    put(edited, place, value)
    assert re.search(sentence, refused(tmp_path / "m.json", json.dumps(edited)))


def test_there_are_more_than_sixty_such_files() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", RECIPES)
def test_what_fit_leaves_behind_contradicts_nothing(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(document(name)))
    again = cx.load(path)
    assert answers(again, name) == answers(fitted(name), name)
    assert again.guarantee_ == fitted(name).guarantee_
    again.save(path)
    assert answers(cx.load_predictor(path), name) == answers(fitted(name), name)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (f'"schema": {SCHEMA}', f'"schema": {SCHEMA}, "schema": 1',
         r"damaged model file \(it holds 'schema' twice\)\.$"),
        ('"n_cal": 60', '"n_cal": 60, "n_cal": 10', r"\(it holds 'n_cal' twice\)\.$"),
        ('"n_cal": 60', '"n_cal": NaN', r"is no JSON"),
        ('"n_cal": 60', '"n_cal": Infinity', r"is no JSON"),
        ('"n_cal": 60', '"n_cal": 1e999', r"is no JSON"),
        ('"n_cal": 60', f'"n_cal": {"9" * 5000}', r"is no JSON"),
        ('"n_cal": 60', f'"n_cal": {"[" * 3000}{"]" * 3000}', r"is no JSON|damaged model file"),
        ('"n_cal": 60', f'"n_cal": {{"a": {"7" * 4000}}}', r"facts\.n_cal must be a whole number"),
    ],
)  # fmt: skip
def test_json_that_is_no_plain_json_is_refused(
    old: str, new: str, sentence: str, tmp_path: Path
) -> None:
    text = json.dumps(document("vfcp"))
    assert text.count(old) == 1
    assert re.search(sentence, refused(tmp_path / "m.json", text.replace(old, new)))


def test_settings_changed_after_fit_are_not_saved_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(document("vfcp")))
    model = cx.load(path).set_params(alpha=0.01)
    with pytest.raises(
        InvalidInput,
        match=r"^a setting was changed after fit and cannot be saved with it: params\.alpha is "
        r"0\.01, but that of the fit is 0\.2; fit again, or set it back\.$",
    ):
        model.save(path)
    model.set_params(alpha=0.2, random_state=None, threads=1).save(path)  # no part of the promise
    assert cx.load(path).predictor_.alpha == 0.2


@pytest.mark.parametrize(
    ("field", "value"),
    [("what", "P(y in set) = 1"), ("fallback", "none"), ("n_rare", -5), ("n_rare", 10**9)],
)
def test_a_file_does_not_word_what_holds(field, value, tmp_path, cifar10) -> None:
    logits, labels = cifar10[0][:900], cifar10[1][:900]
    cp = cx.ScoreAverage("paper", kind="logits", calibration="class", random_state=0).fit(
        logits, labels
    )
    cp.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    document["predictor"]["fitted"]["cuts"][field] = value
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match=rf"damaged model file \(its cuts.{field} "):
        cx.load(tmp_path / "model.json")


@pytest.mark.parametrize("ratio", [-1.0, 1e400])
def test_a_file_with_weights_that_are_none_is_refused(ratio, tmp_path, cifar10) -> None:
    logits, labels = cifar10[0][:900], cifar10[1][:900]
    shift = LabelShift((1.0,) * 10)
    cp = cx.ScoreAverage("paper", kind="logits", calibration=shift, random_state=0).fit(
        logits, labels
    )
    cp.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    document["predictor"]["fitted"]["cuts"]["ratios"]["data"][3] = ratio
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInput):
        cx.load(tmp_path / "model.json")
