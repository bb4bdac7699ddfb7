"""What a message advises can be typed in the shell that shows it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import conformix as cx
from conformix.calibration import Clustered, PerClass
from conformix.cli import main
from conformix.cli.wording import in_options

NAMES = ("ant", "bee", "cat", "dog")


def write_csv(path: Path, n: int, *, labelled: bool = True, seed: int = 0) -> tuple:
    """Write outputs on classes of which the last has few rows; return outputs and labels."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 40 == 0, 3, rng.integers(0, 3, size=n))
    logits = rng.normal(size=(n, 4))
    logits[np.arange(n), y] += 2
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    head = ",".join(NAMES) + ",label" * labelled
    rows = [",".join(map(repr, row.tolist())) for row in probs]
    if labelled:
        rows = [f"{row},{NAMES[label]}" for row, label in zip(rows, y, strict=True)]
    path.write_text("\n".join([head, *rows]) + "\n")
    return probs, y


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    monkeypatch.chdir(tmp_path)
    return write_csv(tmp_path / "rows.csv", 200)


def test_the_advised_fallback_is_typed_as_it_is_shown(rows, capsys) -> None:
    command = "fit rows.csv -o model.json --scores thr --calibration class"
    assert main(shlex.split(command)) == 0
    said = capsys.readouterr().err
    advice = re.search(r"say (--calibration class --fallback pooled), or --calibration cl", said)
    assert main(shlex.split(f"fit rows.csv -o model.json --scores thr {advice[1]}")) == 0
    assert cx.load("model.json").calibration == PerClass(fallback="pooled")


@pytest.mark.parametrize(
    ("options", "scheme"),
    [
        ("--calibration class --fallback marginal", PerClass(fallback="marginal")),
        ("--calibration class --fallback pooled --min-rows 7", PerClass("pooled", min_rows=7)),
        ("--calibration cluster --fallback all", Clustered(fallback="all")),
    ],
)
def test_fallbacks_reach_the_model(rows, options: str, scheme: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        seen = []
        patch.setattr(cx.ScoreAverage, "save", lambda self, path: seen.append(self.calibration))
        main(shlex.split(f"fit rows.csv -o model.json --scores thr --json {options}"))
    assert seen == [scheme]


def test_a_fallback_without_classes_is_refused_in_one_sentence(rows, capsys) -> None:
    assert main(shlex.split("fit rows.csv -o model.json --fallback pooled")) == 2
    assert capsys.readouterr().err == (
        "conformix: --fallback is about classes with few rows, which --calibration marginal does "
        "not single out; say --calibration class or cluster, or leave it out.\n"
    )
    command = "fit rows.csv -o model.json --calibration class --fallback pooledd"
    assert main(shlex.split(command)) == 2
    assert "did you mean 'pooled'" in capsys.readouterr().err


def test_rows_without_labels_teach_scores_as_in_python(rows, tmp_path, capsys) -> None:
    probs, y = rows
    further, _ = write_csv(tmp_path / "further.csv", 300, labelled=False, seed=1)
    command = "fit rows.csv -o model.json --scores thr,likeness --unlabelled further.csv --json"
    assert main(shlex.split(command)) == 0
    told = json.loads(capsys.readouterr().out)
    assert "the 300 unlabelled rows neither calibrate nor are predicted" in told["statement"]
    again = cx.ScoreAverage(("thr", "likeness"), random_state=0)
    again.fit(probs, y, classes=NAMES, unlabelled=further)
    new, _ = write_csv(tmp_path / "new.csv", 50, seed=2)
    served = cx.load_predictor("model.json").predict_set(new)
    np.testing.assert_array_equal(np.asarray(served), np.asarray(again.predict_set(new)))
    without = cx.ScoreAverage(("thr", "likeness"), random_state=0).fit(probs, y, classes=NAMES)
    assert (without.predict_pvalues(new) != again.predict_pvalues(new)).any()


def test_what_no_file_can_hold_is_said_before_the_work(rows, capsys) -> None:
    assert main(shlex.split("fit rows.csv -o model.json --test each")) == 2
    assert "which no model file holds: fit and predict in one Python process" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ('say split="exact" (all rows).', "say --split exact (all rows)."),
        ('say kind="shares", or renormalize=True.', "say --kind shares, or --renormalize."),
        ('PerGroup(fallback="pooled")', 'PerGroup(fallback="pooled")'),
        ('calibration=PerGroup(fallback="all").', 'calibration=PerGroup(fallback="all").'),
        ('(search="grid" does)', '(search="grid" does)'),
        ("for alpha=0.1 (the smallest)", "for alpha=0.1 (the smallest)"),
    ],
)  # fmt: skip
def test_advice_in_python_is_said_in_options_where_there_are_any(said: str, typed: str) -> None:
    assert in_options(said) == typed
