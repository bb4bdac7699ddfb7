"""``conformix report`` and ``conformix compare --report``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import conformix as cx
from conformix import metrics
from conformix.cli import main


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, cifar10) -> Path:
    """A folder with calibration rows, other rows, and a model."""
    folder = tmp_path_factory.mktemp("shell")
    logits, y = cifar10
    names = np.array([f"kind {i}" for i in range(10)])
    np.savez(folder / "cal.npz", labels=y[:600], vgg=logits[:600], class_names=names)
    np.savez(folder / "new.npz", labels=y[600:1100], vgg=logits[600:1100], class_names=names)
    fitted = main(["fit", str(folder / "cal.npz"), "-o", str(folder / "model.json"), "--json"])
    assert fitted == 0
    return folder


def test_a_model_and_rows_become_a_page(files: Path, cifar10, capsys, tmp_path) -> None:
    out = tmp_path / "page.html"
    arguments = [str(files / "model.json"), str(files / "new.npz"), "-o", str(out)]
    assert main(["report", *arguments, "--levels", "0.05,0.2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    logits, y = cifar10
    sets = cx.load(files / "model.json").predict_set(logits[600:1100])
    assert told["coverage"] == metrics.coverage(sets, y[600:1100])
    assert told["bytes"] == out.stat().st_size
    text = out.read_text(encoding="utf-8")
    assert "kind 7" in text
    assert "conformix report" in text
    assert "model on new" in text
    assert "new.npz, sha256" in text


def test_on_a_terminal_it_says_what_came_out(files: Path, capsys, tmp_path) -> None:
    out = tmp_path / "page.html"
    arguments = [str(files / "model.json"), str(files / "new.npz"), "-o", str(out)]
    assert main(["report", *arguments, "--table"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "of 500 rows are covered" in first
    assert second == f"report: {out} ({out.stat().st_size / 1e6:.1f} MB)"


def test_a_comparison_becomes_a_page(capsys, tmp_path) -> None:
    out = tmp_path / "compared.html"
    arguments = ["mmlu_llama13b", "--models", "llama13b_prompt0", "--alpha", "0.2", "--runs", "2",
                 "--rows", "400", "--resolution", "10", "--workers", "1"]  # fmt: skip
    assert main(["compare", *arguments, "--json"]) == 0
    plain = capsys.readouterr().out
    assert main(["compare", *arguments, "--report", str(out), "--json"]) == 0
    assert capsys.readouterr().out == plain  # the report changes nothing that is said
    text = out.read_text(encoding="utf-8")
    assert "average:vfcp" in text
    assert "conformix compare mmlu_llama13b --alpha 0.2" in text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-o", "page.txt"], "page.txt has the ending '.txt'; results end in .html, .htm."),
        (["-o", "absent/page.html"], "absent is no folder; create it first."),
        (["-o", "page.html", "--levels", "many"], "--levels takes numbers by commas"),
        (["-o", "page.html", "--levels", "2"], "alpha must be a number strictly between 0 and 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_one_sentence(
    files: Path, options: list[str], sentence: str, capsys, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [str(files / "model.json"), str(files / "new.npz"), *options]
    assert main(["report", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"conformix: {sentence}")
    assert list(tmp_path.iterdir()) == []
