"""A model saved by any earlier version loads today and gives the sets that it gave then."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import conformix as cx
from conformix.fit.saved.migrations import SCHEMA, STEPS
from conformix.kernels.elementary import softmax
from conformix.scores import Ranked
from fit.golden.write import RECIPES, inputs, outputs_of, ranks_out, sets_out

HERE = Path(__file__).parent
GIVEN = inputs()
SAVED = sorted(HERE.glob("schema*/*.json"))
MODELS = [path for path in SAVED if path.name != "expected.json"]
FOLDS = [path for path in sorted(HERE.glob("folds*/*.json")) if path.name != "expected.json"]
FROZEN = [p for p in sorted(HERE.glob(f"*{SCHEMA}/*.json")) if p.name != "expected.json"]


def test_every_schema_has_golden_files_and_a_step_to_the_next() -> None:
    assert {path.parent.name for path in MODELS} == {f"schema{i}" for i in range(1, SCHEMA + 1)}
    assert set(STEPS) == set(range(1, SCHEMA))


@pytest.mark.parametrize("load", [cx.load, cx.load_predictor], ids=["load", "load_predictor"])
@pytest.mark.parametrize("path", MODELS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_todays_code_gives_the_sets_and_p_values_of_the_day_it_was_saved(path, load) -> None:
    expected = json.loads((path.parent / "expected.json").read_text())[path.stem]
    model = load(path)
    new = outputs_of(RECIPES[path.stem], GIVEN, "test")
    predictor = getattr(model, "predictor_", model)
    assert sets_out(model.predict_set(new)) == expected["sets"]
    assert ranks_out(model.predict_pvalues(new), predictor.fitted.n) == expected["ranks"]
    assert predictor.fitted.ledger.kind == expected["guarantee"]


@pytest.mark.parametrize("path", MODELS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_an_old_model_saved_today_is_a_model_of_today(path, tmp_path) -> None:
    again = tmp_path / "again.json"
    shutil.copy(path, again)
    cx.load(again).save(again)
    assert json.loads(again.read_text())["schema"] == SCHEMA
    new = outputs_of(RECIPES[path.stem], GIVEN, "test")
    cx.testing.assert_same_sets(cx.load(again).predict_set(new), cx.load(path).predict_set(new))


@pytest.mark.parametrize("path", FROZEN, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_what_a_file_of_the_latest_schema_holds_is_frozen(path, tmp_path) -> None:
    """Another field, or another way to write one, is another schema."""
    load = cx.CrossAverage.load if path in FOLDS else cx.load
    load(path).save(tmp_path / path.name)
    saved, again = (
        json.loads((folder / path.name).read_text()) for folder in (path.parent, tmp_path)
    )
    assert again.pop("version") == cx.__version__
    assert saved.pop("version")
    assert again == saved


def test_class_names_survive() -> None:
    names = cx.load(HERE / f"schema{SCHEMA}" / "class_names.json").predictor_.classes
    assert names == tuple(RECIPES["class_names"]["classes"])
    assert cx.load(HERE / "schema1" / "vfcp.json").predictor_.classes is None


@pytest.mark.parametrize(("schema", "arithmetic"), [(1, "numpy"), (2, "numpy"), (SCHEMA, "exact")])
def test_models_of_0_1_keep_the_exponential_of_their_day(schema: int, arithmetic: str) -> None:
    for name in ("logits", "temperatures"):
        predictor = cx.load_predictor(HERE / f"schema{schema}" / f"{name}.json")
        assert predictor.arithmetic == arithmetic
        assert predictor.check(outputs_of(RECIPES[name], GIVEN, "test")).arithmetic == arithmetic


def test_the_exponential_of_a_model_decides_its_probabilities() -> None:
    rows = np.random.default_rng(0).normal(size=(2000, 7)) * 4
    ours, numpys = (Ranked(rows, "logits", arithmetic=a) for a in ("exact", "numpy"))  # type: ignore[arg-type]
    assert (ours.probs != numpys.probs).any()
    np.testing.assert_allclose(ours.probs, numpys.probs, rtol=1e-14)
    np.testing.assert_array_equal(ours.probs, softmax(rows))
    halved = Ranked(rows / 2, "logits", arithmetic="numpy")
    np.testing.assert_array_equal(numpys.at(2.0).probs, halved.probs)


@pytest.mark.parametrize("path", FOLDS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_rules_of_folds_give_the_sets_and_p_values_of_the_day_they_were_saved(path) -> None:
    expected = json.loads((path.parent / "expected.json").read_text())[path.stem]
    cross = cx.CrossAverage.load(path)
    new = [GIVEN["first_test"]] * 3
    assert sets_out(cross.predict_set(new)) == expected["sets"]
    assert cross.predict_pvalues(new).tolist() == expected["pvalues"]
    assert cross.guarantee_.kind == expected["guarantee"]


def rows_with_evidence(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits in eighths, the same on every machine, and labels."""
    rng = np.random.default_rng(0)
    logits = rng.integers(-40, 41, size=(n, 40)) * rng.integers(1, 4, size=(n, 1)) / 8
    return logits, logits.argmax(axis=1) - (rng.random(n) < 0.2)


def test_a_model_with_the_evidence_of_rows_gives_the_sets_of_the_day_it_was_saved() -> None:
    """Written by ``ScoreAverage("auto", alpha=0.1, kind="logits", random_state=0)`` on 240 rows."""
    folder = HERE / "evidence3"
    model = cx.load(folder / "evidence.json")
    logits, _ = rows_with_evidence(300)
    expected = json.loads((folder / "expected.json").read_text())
    assert sets_out(model.predict_set(logits[240:])) == expected["sets"]
    ranks = ranks_out(model.predict_pvalues(logits[240:]), model.predictor_.fitted.n)
    assert ranks == expected["ranks"]
    assert model.blend_.evidence is not None


def test_the_same_fit_finds_the_same_evidence_today() -> None:
    logits, y = rows_with_evidence(300)
    model = cx.ScoreAverage("auto", alpha=0.1, kind="logits", random_state=0)
    model.fit(logits[:240], np.maximum(y[:240], 0))
    assert model.blend_.evidence == cx.load(HERE / "evidence3" / "evidence.json").blend_.evidence
