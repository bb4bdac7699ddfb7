"""A model saved by any earlier version loads today and gives the sets that it gave then."""

import json
import shutil
from pathlib import Path

import pytest

import conformix as cx
from conformix.fit.saved.migrations import SCHEMA, STEPS
from fit.golden.write import RECIPES, inputs, outputs_of, ranks_out, sets_out

HERE = Path(__file__).parent
GIVEN = inputs()
SAVED = sorted(HERE.glob("schema*/*.json"))
MODELS = [path for path in SAVED if path.name != "expected.json"]


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


def test_class_names_survive() -> None:
    names = cx.load(HERE / f"schema{SCHEMA}" / "class_names.json").predictor_.classes
    assert names == tuple(RECIPES["class_names"]["classes"])
    assert cx.load(HERE / "schema1" / "vfcp.json").predictor_.classes is None
