"""Which split and scores suit how many rows, and splits by plain words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from cli.drawn import draw, write_files
from conformix.cli.app import main
from conformix.experiments.methods import resolve_method
from conformix.experiments.paper import Setup
from conformix.splits import SPLITS

P, Y = draw(21, 150)
NEW = draw(22, 120)[0]
WORDS = {"holdout": "vfcp", "all-rows": "efcp", "batch": "dlcp", "batch+": "dlcp+"}


@pytest.mark.parametrize(("word", "name"), WORDS.items())
def test_a_plain_word_is_the_split_of_the_paper_and_files_hold_one_name(
    word: str, name: str, tmp_path: Path
) -> None:
    test = NEW if name.startswith("dlcp") else None
    one, other = (
        cx.ScoreAverage("paper", alpha=0.2, split=split, random_state=0).fit(P, Y, test=test)
        for split in (word, name)
    )
    assert_array_equal(one.predict_set(NEW).mask, other.predict_set(NEW).mask)
    assert str(one.guarantee_) == str(other.guarantee_)
    one.save(tmp_path / "one.json")
    other.save(tmp_path / "other.json")
    assert (tmp_path / "one.json").read_text() == (tmp_path / "other.json").read_text()
    assert cx.load(tmp_path / "one.json").split == name
    assert resolve_method(f"average:{word}") == resolve_method(f"average:{name}")
    assert Setup("cifar10", splits=(word,)).splits == (name,)
    assert word not in SPLITS  # a file may not say it
    assert SPLITS[word] is SPLITS[name]


def test_a_model_file_with_a_plain_word_among_its_facts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    cx.ScoreAverage("paper", alpha=0.2, random_state=0).fit(P, Y).save(path)
    path.write_text(path.read_text().replace('"split": "vfcp"', '"split": "holdout"'))
    with pytest.raises(cx.InvalidInput, match="holdout"):
        cx.load(path)


def test_compare_takes_plain_words_and_prints_one_name() -> None:
    found = cx.compare(P, Y, methods="all", split="holdout", runs=2, resolution=4)
    assert "average:vfcp" in found.results.methods


@pytest.mark.parametrize(
    ("rows", "alpha", "split", "scores", "n_tune", "n_calibrate"),
    [
        (20, 0.01, "vfcp", "auto", 0, 20),
        (98, 0.01, "vfcp", "auto", 0, 98),
        (99, 0.01, "exact", "paper", 99, 99),
        (34, 0.05, "exact", "paper", 34, 34),
        (60, 0.05, "vfcp", "auto", 21, 39),
        (5000, 0.05, "vfcp", "auto", 1681, 3319),
    ],
)
def test_numbers_of_rows_choose(
    rows: int, alpha: float, split: str, scores: str, n_tune: int, n_calibrate: int
) -> None:
    choice = cx.choose(rows, 10, alpha=alpha)
    assert (choice.split, choice.scores) == (split, scores)
    assert (choice.n_tune, choice.n_calibrate) == (n_tune, n_calibrate)
    assert choice.guarantee == "exact"


def test_the_line_of_python_and_the_command_do_what_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for rows in (150, 15):
        choice = cx.choose(rows, 4, alpha=0.1)
        facts = eval(choice.python, {"cx": cx}).fit(P[:rows], Y[:rows]).guarantee_.facts
        assert facts.split == choice.split
        assert facts.n_cal == choice.n_calibrate
        write_files(tmp_path)
        monkeypatch.chdir(tmp_path)
        assert main([*choice.shell.replace("FILE", "calibration.csv").split()[1:], "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["split"] == choice.split


def test_too_few_rows_say_how_many_are_missing_and_what_they_allow() -> None:
    assert cx.choose(20, 10, alpha=0.01).why == (
        "alpha=0.01 needs at least 99 labelled rows, 79 more than 20: until then every set holds "
        "all labels, whatever the split; 20 rows allow alpha=1/21 and more."
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((0, 3), "rows must be an integer of at least 1; got 0."),
        ((10, 1), "classes must be an integer of at least 2; got 1."),
        ((10.5, 3), "rows must be an integer of at least 1; got 10.5."),
        ((True, 3), "rows must be an integer of at least 1; got True."),
    ],
)
def test_numbers_that_cannot_be_are_refused(given: tuple[int, int], sentence: str) -> None:
    with pytest.raises(cx.InvalidInput) as error:
        cx.choose(*given)
    assert str(error.value) == sentence


def test_the_shell_chooses_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["choose", "--rows", "5000", "--classes", "100", "--alpha", "0.05"]
    assert main([*words, "--table"]) == 0
    assert capsys.readouterr().out == str(cx.choose(5000, 100, alpha=0.05)) + "\n"
    assert main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["split"] == "vfcp"
    assert record["n_tune"] + record["n_calibrate"] == 5000
    assert main(["choose", "--rows", "10", "--classes", "1"]) == 2
    assert "classes must be an integer of at least 2" in capsys.readouterr().err
