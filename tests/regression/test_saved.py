"""Models of responses in files: what is written predicts what was fitted, damage is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.regression import PerBin
from conformix.splits import Exact
from regression.responses import Told, model_and_responses, part, told_rows, two_models

GOLDEN = Path(__file__).parent / "golden"
SETTINGS: dict[str, Any] = {"alpha": 0.2, "random_state": 0, "threads": 1}
STRATA = np.where(np.arange(160) % 3, "a", "b")
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "auto": ({}, {}),
    "one score": ({"scores": "norm"}, {}),
    "own weights": ({"scores": ("abs", "net.norm"), "weights": [0.5, 0.25, 0.25]}, {}),
    "equal weights": ({"scores": ("net.abs", "net.norm"), "weights": "equal"}, {}),
    "grid": ({"scores": ("net.abs", "net.cqr"), "search": "grid", "tune_alpha": [0.1, 0.2]}, {}),
    "efcp": ({"split": "efcp"}, {}),
    "divisors": ({"scores": ("net.abs", "net.cqr_r"), "normalize": [1.0, 2.0]}, {}),
    "range": ({"y_range": (-50.0, np.inf), "allow_empty": False}, {}),
    "pac": ({"guarantee": "pac", "delta": 0.05}, {}),
    "bins": ({"calibration": PerBin(2)}, {}),
    "group": ({"calibration": "group"}, {"strata": STRATA}),
    "weighted": ({"calibration": "weighted"}, {"sample_weight": np.linspace(1, 2, 160)}),
    "exact": ({"split": "exact", "scores": ("abs", "net.norm")}, {}),
    "exact by group": ({"split": "exact", "calibration": "group"}, {"strata": STRATA}),
    "shortlist": ({"split": Exact(shortlist=5), "calibration": "bins"}, {}),
}


def fitted(kind: str) -> tuple[cx.RegressionAverage, dict[str, Any], dict[str, Any]]:
    models, y = two_models(200)
    options, rows = KINDS[kind]
    cp = cx.RegressionAverage(**(SETTINGS | options)).fit(part(models, slice(160)), y[:160], **rows)
    new = {name: values[:40] for name, values in rows.items()}
    return cp, part(models, slice(160, None)), new


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_model_says_what_the_saved_one_said(kind: str, tmp_path: Path) -> None:
    cp, outputs, rows = fitted(kind)
    cp.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json")
    assert isinstance(again, cx.RegressionAverage)
    for level in (None, 0.3):
        made, loaded = (m.predict_interval(outputs, alpha=level, **rows) for m in (cp, again))
        assert_array_equal(np.asarray(loaded), np.asarray(made))
    assert again.guarantee_.table() == cp.guarantee_.table()
    assert again.guarantee_.facts == cp.guarantee_.facts
    assert again.score_names_ == cp.score_names_
    assert_array_equal(again.weights_, cp.weights_)
    assert again.held_out_width_ == cp.held_out_width_
    y = two_models(200)[1][160:]
    assert str(again.evaluate(outputs, y, **rows)) == str(cp.evaluate(outputs, y, **rows))
    again.save(tmp_path / "again.json")
    first, second = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("model", "again"))
    first.pop("npz", None), second.pop("npz", None)
    assert first == second


def test_large_models_have_an_npz_beside_them(tmp_path: Path) -> None:
    model, y = model_and_responses(60_000)
    cp = cx.RegressionAverage("norm").fit(model, y)
    cp.save(tmp_path / "model.json")
    assert len(list(tmp_path.glob("model.json.*.npz"))) == 1
    again = cx.RegressionAverage.load(tmp_path / "model.json")
    assert again.threshold_ == cp.threshold_


def test_functions_of_ones_own_are_not_saved(tmp_path: Path) -> None:
    model, y = model_and_responses(60)
    cp = cx.RegressionAverage((lambda m: (m.mean, 0.0, 1.0, 1.0), "norm"), **SETTINGS).fit(model, y)
    with pytest.raises(cx.InvalidInput, match="a function of your own, which a model file cannot"):
        cp.save(tmp_path / "model.json")
    assert not list(tmp_path.iterdir())


def test_settings_that_were_changed_after_fit_are_not_saved(tmp_path: Path) -> None:
    for change in ({"alpha": 0.3}, {"allow_empty": False}, {"y_range": (0, 1)}, {"split": "efcp"},
                   {"scores": "abs"}, {"calibration": "group"}, {"guarantee": "pac"}):  # fmt: skip
        cp, _, _ = fitted("grid")
        cp.set_params(**change)
        with pytest.raises(cx.InvalidInput, match="changed after fit"):
            cp.save(tmp_path / "model.json")


def test_whoever_reads_the_wrong_kind_of_file_is_told(tmp_path: Path) -> None:
    cp, _, _ = fitted("one score")
    cp.save(tmp_path / "model.json")
    with pytest.raises(cx.InvalidInput, match=r"conformix\.RegressionAverage\.load reads it"):
        cx.load_predictor(tmp_path / "model.json")
    labels = cx.ScoreAverage("thr", alpha=0.5, weights=[1]).fit([[0.2, 0.8], [0.7, 0.3]], [1, 0])
    labels.save(tmp_path / "labels.json")
    with pytest.raises(cx.InvalidInput, match=r"conformix\.load reads it"):
        cx.RegressionAverage.load(tmp_path / "labels.json")


def put(*path: Any, value: Any) -> Callable[[Any], None]:
    """Return what puts another value into a document."""

    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    return change


def numbers(*values: float) -> dict[str, Any]:
    """Return an array as a file has it."""
    return {"dtype": "float64", "shape": [len(values)], "data": list(values)}


RULE = ("predictor", "fitted")
DAMAGE: dict[str, tuple[str, Callable[[Any], None], str]] = {
    "an unknown field": ("auto", put("predictor", "more", value=1), "'more'"),
    "another alpha": ("auto", put("params", "alpha", value=0.1), "params.alpha"),
    "a negative weight": ("auto", put(*RULE, "weights", "data", 0, value=-0.5), "from 0 on"),
    "a scale of zero": (
        "auto", put(*RULE, "transform", "line", "means", "data", 1, value=0.0), "positive"
    ),
    "scores that fall": ("auto", put(*RULE, "calibration", "data", 0, value=9.0), "does not rise"),
    "more rows than there are": ("auto", put(*RULE, "facts", "n_cal", value=500), "n_cal"),
    "classes": ("auto", put(*RULE, "facts", "n_classes", value=3), "n_classes"),
    "a range that is not stated": ("auto", put(*RULE, "facts", "span", value=2.0), "span"),
    "a score that no model has": (
        "auto", put("predictor", "columns", 0, value=["ridge", "norm"]), "scores"
    ),
    "a model that is not there": (
        "auto", put("predictor", "columns", 0, value=["other", "abs"]), "not among"
    ),
    "edges that fall": (
        "bins", put("predictor", "bins", "edges", value=numbers(2.0, 1.0)), "do not rise"
    ),
    "no bins": ("bins", lambda document: document["predictor"].pop("bins"), "bins"),
    "too few responses": (
        "exact", put(*RULE, "y", value=numbers(0.0)), "rows"
    ),
    "a sigma below zero": (
        "exact", put(*RULE, "rows", "net", "sigma", "data", 0, value=-1.0), "positive"
    ),
    "a range upside down": (
        "range", put("params", "y_range", "data", value=[1.0, 0.0]), "y_range"
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_file_is_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    kind, damage, words = DAMAGE[case]
    cp, _, _ = fitted(kind)
    path = tmp_path / "model.json"
    cp.save(path)
    document = json.loads(path.read_text())
    damage(document)
    path.write_text(json.dumps(document))
    with pytest.raises(cx.InvalidInput, match="damaged model file") as caught:
        cx.load(path)
    assert words in str(caught.value)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_files_of_earlier_versions_predict_what_they_did(path: Path) -> None:
    """Written by tests/regression/golden/write.py; a file that loads today loads tomorrow."""
    expected = json.loads((GOLDEN / "expected" / path.name).read_text())
    cp = cx.load(path)
    model, _ = model_and_responses(20, 5)
    made = cp.predict_interval(model)
    assert [[float(a).hex(), float(b).hex()] for a, b in made] == expected["intervals"]
    assert str(cp.guarantee_) == expected["guarantee"]


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("folds/*.json")), ids=lambda path: path.stem)
def test_folds_of_earlier_versions_predict_what_they_did(path: Path) -> None:
    expected = json.loads((GOLDEN / "expected" / path.name).read_text())
    X, _, groups = told_rows(20, 5)
    reg = cx.CrossConformalRegressor.load(path, [Told().fit(X, None)] * 3)
    made = reg.predict_interval(X, strata=groups)
    assert [[float(a).hex(), float(b).hex()] for a, b in made] == expected["intervals"]
    assert str(reg.guarantee_) == expected["guarantee"]


@pytest.mark.parametrize(
    "path", sorted([*GOLDEN.glob("*_3.json"), *GOLDEN.glob("folds/*_3.json")]), ids=lambda p: p.stem
)
def test_what_a_file_of_the_latest_schema_holds_is_frozen(path: Path, tmp_path: Path) -> None:
    """Another field, or another way to write one, is another schema."""
    if path.parent.name == "folds":
        told = Told().fit(told_rows(20, 5)[0], None)
        model: Any = cx.CrossConformalRegressor.load(path, [told] * 3)
    else:
        model = cx.load(path)
    model.save(tmp_path / path.name)
    saved, again = (json.loads((at / path.name).read_text()) for at in (path.parent, tmp_path))
    assert again.pop("version") == cx.__version__
    assert saved.pop("version")
    assert again == saved


def test_there_are_golden_files() -> None:
    assert len(list(GOLDEN.glob("*.json"))) >= 3
    assert len(list(GOLDEN.glob("folds/*.json"))) >= 1
