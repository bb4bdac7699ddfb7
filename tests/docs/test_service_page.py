"""The recipe for a service: ids come back, and the framework and the runtime fit around it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import conformix as cx
from conformix.data.inspection import SuspectOutputsWarning
from docs.pages import DOCS, run_page

PAGE = DOCS / "howto" / "service.md"


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The names of the page, executed."""
    monkeypatch.chdir(tmp_path)

    def executed(*libraries: str) -> dict:
        run_page(PAGE, {"conformix", *libraries})
        return sys.modules["__page__"].__dict__

    return executed


def test_ids_come_back_beside_the_sets_that_the_model_gives(recipe) -> None:
    page = recipe()
    service = page["Service"](page["Session"](), "model.json")
    ids = ["b", "a", "c"]
    rows = page["rows"][2100:2103]
    expected = cx.load("model.json").predict_set(rows)
    answered = service.sets(ids, rows.tolist())
    assert [one["id"] for one in answered] == ids
    assert [one["labels"] for one in answered] == [expected.labels(i) for i in range(3)]


def test_what_goes_wrong_in_a_service_is_not_silent(recipe) -> None:
    page = recipe()
    rows, y, model = page["rows"], page["y"], cx.load("model.json")
    softmax = np.exp(rows[2000:2001].astype(float))
    with pytest.warns(SuspectOutputsWarning, match="the model was fitted on logits; give logits"):
        model.predict_set(softmax / softmax.sum())
    with pytest.raises(cx.InvalidInput, match="must have the 10 fitted classes; got 9"):
        model.predict_set(rows[2000:2010, :9])
    assert model.check_drift(rows[2000:2300, ::-1], y[2000:2300]).drifted


def test_the_service_answers_behind_fastapi(recipe) -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed: pip install fastapi httpx")
    testclient = pytest.importorskip("fastapi.testclient", exc_type=Exception)
    page = recipe("fastapi")
    client = testclient.TestClient(page["app"])
    rows = page["rows"][2033:2035].tolist()
    answer = client.post("/sets", json={"ids": ["x", "y"], "rows": rows})
    assert answer.json() == [
        {"id": "x", "labels": ["bird", "deer"]},
        {"id": "y", "labels": ["deer", "cat", "bird", "frog"]},
    ]
    known = client.post("/truth", json={"x": "bird", "y": "cat"}).json()
    assert known == {"labelled": 302}
    assert client.get("/drift").json()["drifted"] is False


def test_the_service_runs_on_an_onnx_model(recipe, tmp_path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    shape = ["n", 10]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name in ("rows", "logits")
    ]
    node = onnx.helper.make_node("Identity", ["rows"], ["logits"])
    graph = onnx.helper.make_graph([node], "classifier", ends[:1], ends[1:])
    made = onnx.helper.make_model(
        graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 18)]
    )
    onnx.save(made, tmp_path / "classifier.onnx")
    page = recipe("onnxruntime")
    answered = page["service"].sets(["x"], page["rows"][2033:2034])
    assert answered == [{"id": "x", "labels": ["bird", "deer"]}]
