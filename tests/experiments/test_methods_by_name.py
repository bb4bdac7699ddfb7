"""Every method that is compared can be fitted by its name, saved, served and reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from cli.drawn import draw
from conformix.cli import main
from conformix.data.bundled import Dataset
from conformix.experiments import Choices, compare, estimator_of, method_names, resolve_method
from conformix.experiments.methods import TUNED, Task
from conformix.experiments.pool import Pool
from conformix.report import build_report
from conformix.splits import SPLITS

CHOICES = Choices(("thr", "aps"), "auto", 5)
SEED = 3


def with_splits(names: list[str]) -> list[str]:
    """Return all names that methods have; a blend learns on rows that do not calibrate."""
    listed = []
    for name in names:
        splits = ("vfcp", "exact") if name == "auto" else SPLITS.names()
        listed += [f"{name}:{split}" for split in splits] if name in TUNED else [name]
    return [*listed, "thr", "raps(penalty=0.2)", "forest.aps"]


EVERY = [name for name in with_splits(method_names()) if name != "oracle"]


def is_transductive(name: str) -> bool:
    return ":dlcp" in name


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Two models of one set of rows: a good one, and one that knows nothing."""
    probs, labels = draw(3, 240)
    return Dataset("outputs", labels, {"forest": probs, "network": draw(4, 240)[0]}, kind="probs")


def rows_of(data: Dataset, rows: slice) -> dict[str, Any]:
    return {model: values[rows] for model, values in data.outputs.items()}


@pytest.mark.filterwarnings("ignore::conformix.SmallBatchWarning")
@pytest.mark.parametrize("name", EVERY)
def test_the_estimator_of_a_name_gives_the_sets_that_were_compared(
    name: str, data: Dataset, tmp_path: Path
) -> None:
    task = Task(Pool(data), np.arange(140), np.arange(140, 240), 0.2, SEED, threads=1)
    compared = resolve_method(name, CHOICES)(task)
    cp = estimator_of(name, CHOICES, alpha=0.2, kind="probs", random_state=SEED)
    new = rows_of(data, slice(140, 240))
    test = new if is_transductive(name) else None
    cp.fit(rows_of(data, slice(0, 140)), data.labels[:140], test=test)
    assert_array_equal(np.asarray(cp.predict_set(new)), compared.mask)
    cp.save(tmp_path / "model.json")
    assert_array_equal(np.asarray(cx.load(tmp_path / "model.json").predict_set(new)), compared.mask)


def test_the_oracle_is_no_predictor_and_says_why() -> None:
    with pytest.raises(cx.InvalidInput) as caught:
        estimator_of("oracle")
    assert str(caught.value) == (
        "oracle chooses its weights with the labels of the test rows: it is a measure, and nothing "
        "that could predict; fit average:vfcp, which it is the limit of."
    )


def test_a_setting_that_the_method_fixes_is_refused() -> None:
    with pytest.raises(cx.InvalidInput, match="method 'majority-vote' fixes calibration itself; "):
        estimator_of("majority-vote", calibration="class")


@pytest.fixture
def folder(data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    np.savez(tmp_path / "outputs.npz", labels=data.labels, **data.outputs)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names_that_compare_prints(folder: Path) -> list[str]:
    found = compare("outputs.npz", scores=("thr", "aps"), runs=2, resolution=3, workers=1)
    return [record["method"] for record in found.summary()]


def test_every_name_that_compare_prints_goes_through_the_shell(
    folder: Path, data: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    """Name printed, fitted, saved, served, judged and reported."""
    names = names_that_compare_prints(folder)
    assert {"majority-vote", "probability-ensemble", "tuned-saps:vfcp", "network.thr"} <= {*names}
    fitting = ["--scores", "thr,aps", "--resolution", "5", "--part", ":140", "--seed", str(SEED)]
    for name in names:
        assert main(["fit", "outputs.npz", "-o", "m.json", "--method", name, *fitting]) == 0
        record = json.loads(capsys.readouterr().out)
        assert record["method"] == name
        new = ["outputs.npz", "--part", "140:"]
        assert main(["predict", "m.json", *new, "-o", "sets.npz"]) == 0
        cp = estimator_of(name, CHOICES, kind="probs", random_state=SEED)
        cp.fit(rows_of(data, slice(0, 140)), data.labels[:140])
        expected = np.asarray(cp.predict_set(rows_of(data, slice(140, 240))))
        with np.load("sets.npz") as stored:
            assert_array_equal(stored["mask"], expected)
        made = build_report(
            cx.load("m.json"), rows_of(data, slice(140, 240)), data.labels[140:], alphas=[0.2]
        )
        assert_array_equal(made.rows.sets(0.1), expected)
        capsys.readouterr()


@pytest.mark.parametrize("name", ["majority-vote", "probability-ensemble"])
def test_a_vote_and_an_ensemble_are_judged_and_reported_by_the_shell(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = ["--part", ":140"]
    assert main(["fit", "outputs.npz", "-o", "m.json", "--method", name, *part, "--table"]) == 0
    assert f"split fixed, method {name}\n" in capsys.readouterr().out
    new = ["outputs.npz", "--part", "140:"]
    for command in (["evaluate"], ["report", "-o", "report.html"]):
        assert main([command[0], "m.json", *new, *command[1:]]) == 0
    voted = "In a vote every score has a threshold of its own"
    page = Path("report.html").read_text(encoding="utf-8")
    assert (voted in page) == (name == "majority-vote")
    assert main(["info", "m.json"]) == 0


def test_a_transductive_method_needs_its_test_rows_and_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fitting = ["fit", "outputs.npz", "-o", "m.json", "--method", "average:dlcp"]
    assert main(fitting) == 2
    assert 'split "dlcp" counts sizes on the test rows' in capsys.readouterr().err
    assert main([*fitting, "--test", "outputs.npz"]) == 0


def test_a_method_and_a_split_are_refused_together(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--method", "average:efcp", "--split", "vfcp"]
    assert main(["fit", "outputs.npz", "-o", "m.json", *asked]) == 2
    assert capsys.readouterr().err == (
        "conformix: --method names its own split, as in average:efcp; leave --split out, or "
        "--method.\n"
    )
