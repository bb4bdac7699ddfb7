"""Responses from the shell: a table of predictions in, intervals out."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.cli import main
from regression.responses import part, two_models

HEADER = ["id", "net.mean", "net.sigma", "net.q05", "net.q0.95", "ridge.mean", "y"]


def columns(rows: slice) -> list[Any]:
    models, y = two_models(300)
    net, ridge = part(models, rows).values()
    names = [f"row {i}" for i in range(*rows.indices(300))]
    ends = net.quantiles[:, 0], net.quantiles[:, 4]
    return [names, net.mean, net.sigma, *ends, ridge.mean, y[rows]]


def outputs(rows: slice) -> dict[str, cx.Regressed]:
    _, mean, sigma, low, high, ridge, _ = columns(rows)
    net = cx.Regressed(mean, sigma, {0.05: low, 0.95: high})
    return {"net": net, "ridge": cx.Regressed(ridge)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, rows in (("calibration.csv", slice(200)), ("test.csv", slice(200, None))):
        with (tmp_path / name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(HEADER)
            writer.writerows(zip(*columns(rows), strict=True))
    monkeypatch.chdir(tmp_path)
    return tmp_path


FIT = ["fit", "calibration.csv", "-o", "model.json", "--task", "regression", "--drop", "id"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main([*arguments])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_the_shell_fits_and_predicts_what_python_does(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, *FIT, "--alpha", "0.2", "--json")[0] == 0
    y = columns(slice(200))[-1]
    cp = cx.RegressionAverage(alpha=0.2, random_state=0).fit(outputs(slice(200)), y)
    expected = cp.predict_interval(outputs(slice(200, None)))
    code, said = run(capsys, "predict", "model.json", "test.csv", "-o", "made.csv", "--id", "id")
    assert code == 0, said
    with (folder / "made.csv").open() as file:
        read = list(csv.DictReader(file))
    assert [row["id"] for row in read] == columns(slice(200, None))[0]
    ends = [(float(row["lower"]), float(row["upper"])) for row in read]
    assert_array_equal(np.array(ends), np.asarray(expected))


def test_evaluate_measures_responses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *FIT, "--alpha", "0.2", "--scores", "net.norm", "--json")
    code, said = run(capsys, "evaluate", "model.json", "test.csv", "--drop", "id", "--json")
    assert code == 0, said
    found = [json.loads(line) for line in said.splitlines()]
    cp = cx.RegressionAverage.load(folder / "model.json")
    expected = cp.evaluate(outputs(slice(200, None)), columns(slice(200, None))[-1])
    assert {one["metric"]: one["value"] for one in found if "metric" in one} == dict(expected)
    assert found[-1]["verdict"] == expected.verdict.sentence


def test_lines_of_json_and_tables_show_the_ends(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, *FIT, "--y-range", "-60,60", "--scores", "net.norm,ridge.abs", "--json")
    predict = ["predict", "model.json", "test.csv", "--drop", "id", "--part", ":3"]
    _, said = run(capsys, *predict, "-o", "-")
    rows = [json.loads(line) for line in said.splitlines()]
    assert len(rows) == 3
    assert all(row["lower"] < row["upper"] for row in rows)
    assert "3 intervals, mean width" in run(capsys, *predict, "--table")[1]
    cp = cx.RegressionAverage.load(folder / "model.json")
    assert cp.y_range == (-60.0, 60.0)
    assert set(cp.score_names_) == {"net.norm", "ridge.abs"}


def test_info_tells_of_a_model_of_responses(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, *FIT, "--scores", "net.norm", "--json")
    record = json.loads(run(capsys, "info", "model.json", "--json")[1])
    assert record["scores"] == ["net.norm"]
    assert record["kind"] == "responses"
    table = run(capsys, "info", "model.json", "--table")[1]
    assert "responses of net, ridge" in table
    assert "classes" not in table


def test_a_model_of_responses_has_its_page(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, *FIT, "--scores", "net.norm,ridge.abs", "--json")
    arguments = ["report", "model.json", "test.csv", "--drop", "id", "-o", "page.html"]
    code, said = run(capsys, *arguments, "--levels", "0.2", "--json")
    assert code == 0, said
    told = json.loads(said)
    cp = cx.RegressionAverage.load(folder / "model.json")
    made = cp.predict_interval(outputs(slice(200, None)))
    assert told["coverage"] == made.contains(columns(slice(200, None))[-1]).mean()
    text = (folder / "page.html").read_text(encoding="utf-8")
    assert told["bytes"] == len(text.encode())
    title, command = "model on test", "conformix report model.json test.csv"
    for part_of_page in (title, command, "test.csv, sha256", "net.norm", "ridge.abs"):
        assert part_of_page in text


def test_test_rows_of_a_batch_come_from_a_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = ["--split", "batch", "--test", "test.csv", "--label-column", "y", "--json"]
    code, said = run(capsys, *FIT, "--alpha", "0.2", *batch)
    assert code == 0, said
    y = columns(slice(200))[-1]
    cp = cx.RegressionAverage(alpha=0.2, split="dlcp", random_state=0)
    cp.fit(outputs(slice(200)), y, test=outputs(slice(200, None)))
    assert_array_equal(json.loads(said)["weights"], cp.weights_)


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (FIT, ["--models", "net"]),
        (FIT, ["--method", "average:efcp"]),
        (FIT, ["--fallback", "pooled"]),
        (["predict", "model.json", "test.csv"], ["--models", "net"]),
        (["evaluate", "model.json", "test.csv"], ["--labels", "test.csv"]),
        (["report", "model.json", "test.csv", "-o", "page.html"], ["--labels-from", "1"]),
    ],
    ids=lambda words: words[0],
)
def test_options_about_labels_are_refused_not_passed_over(
    folder: Path, capsys: pytest.CaptureFixture[str], command: list[str], option: list[str]
) -> None:
    run(capsys, *FIT, "--scores", "net.norm", "--json")
    code, said = run(capsys, *command, *option)
    assert code == 2
    told = " ".join(said.split())
    assert f"{option[0]} is about outputs over labels, and this model is of responses" in told


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--task", "regresion"], "did you mean 'regression'"),
        (["--label-column", "z"], "no label column 'z'"),
        (["--drop", "y,id"], "no column of responses"),
        (["--drop", ""], "'row 0'"),
        (["--y-range", "wide"], "--y-range takes numbers"),
        (["--scores", "density"], "not convex"),
        (["--calibration", "class"], "did you mean 'group'"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    code, said = run(capsys, *FIT, *arguments)
    assert code != 0
    assert sentence in " ".join(said.split())
