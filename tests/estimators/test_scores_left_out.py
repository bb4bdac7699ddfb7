"""Scores that nobody names are ``"auto"``; ``"paper"`` is the three of the paper, everywhere."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.naive_bayes import GaussianNB

import conformix as cx
from cli.drawn import draw
from conformix.cli.app import main
from conformix.estimators import notice
from conformix.estimators.cross import Fold
from conformix.experiments import demo
from conformix.experiments.methods import Choices
from conformix.experiments.paper import Setup
from conformix.experiments.spec import Spec
from conformix.splits import EfficiencyFirst

PAPER = ("thr", "aps", "rank")
P, Y = draw(11, 160)
NEW = draw(12, 60)[0]
USUAL: dict[str, Any] = {"alpha": 0.2, "random_state": 0}


def fitted(*scores: Any, **options: Any) -> cx.ScoreAverage:
    return cx.ScoreAverage(*scores, **(USUAL | options)).fit(P, Y)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"split": "exact"},
        {"calibration": "class"},
        {"guarantee": "pac"},
        {"allow_empty": False},
    ],
    ids=str,
)
def test_scores_left_out_are_auto(options: dict[str, Any]) -> None:
    left_out, auto = fitted(**options), fitted("auto", **options)
    assert left_out.blend_ is not None
    assert_array_equal(left_out.predict_set(NEW).mask, auto.predict_set(NEW).mask)


@pytest.mark.parametrize(
    "options",
    [
        {"weights": [0.5, 0.3, 0.2]},
        {"weights": "equal"},
        {"search": "grid"},
        {"search": np.eye(3)},
        {"normalize": "scale"},
        {"objective": "singletons"},
        {"tune_alpha": 0.3},
        {"calibration": "vote"},
        {"split": "efcp"},
        {"split": EfficiencyFirst()},
    ],
    ids=str,
)
def test_whoever_asks_for_what_named_scores_have_gets_those_of_the_paper(
    options: dict[str, Any],
) -> None:
    left_out, paper = fitted(**options), fitted(PAPER, **options)
    assert left_out.score_names_ == PAPER
    assert_array_equal(left_out.predict_set(NEW).mask, paper.predict_set(NEW).mask)


def test_whoever_averages_models_first_gets_the_scores_of_the_paper() -> None:
    two = {"a": P, "b": P[:, ::-1]}
    left_out, paper = (
        cx.ScoreAverage(*scores, **USUAL, ensemble="probs").fit(two, Y) for scores in ((), (PAPER,))
    )
    assert_array_equal(left_out.predict_set(two).mask, paper.predict_set(two).mask)


def test_paper_is_a_name_for_three_scores_wherever_scores_are_named(tmp_path: Path) -> None:
    by_name = fitted("paper")
    assert by_name.score_names_ == PAPER
    assert_array_equal(by_name.predict_set(NEW).mask, fitted(PAPER).predict_set(NEW).mask)
    assert_array_equal(cx.score_tensor(P, "paper"), cx.score_tensor(P, PAPER))
    assert cx.score_tensor(P, ("paper", "margin")).shape[2] == 4
    folds = [Fold(P[:50], Y[:50], P[100:], Y[100:]), Fold(P[50:100], Y[50:100], P[100:], Y[100:])]
    one, other = (cx.CrossAverage(s, **USUAL).fit(folds) for s in ("paper", PAPER))
    assert_array_equal(one.predict_set([NEW] * 2).mask, other.predict_set([NEW] * 2).mask)
    assert (
        cx.OnlineAverage("paper").run(P, Y).coverage == cx.OnlineAverage(PAPER).run(P, Y).coverage
    )
    assert Choices(("paper",)).scores == Setup("cifar10", scores=("paper",)).scores == PAPER
    for scores in ("paper", ["paper"]):
        spec = Spec.from_dict({"data": "cifar10", "methods": ["thr"], "scores": scores})
        assert spec.scores == PAPER
    by_name.save(tmp_path / "model.json")
    assert json.loads((tmp_path / "model.json").read_text())["params"]["scores"] == list(PAPER)


def test_auto_beside_names_or_in_folds_is_refused_in_words() -> None:
    sentence = '^scores="auto" stands alone, and goes with ScoreAverage and ConformalClassifier'
    for call in (
        lambda: fitted(("auto", "thr")),
        lambda: cx.CrossAverage("auto").fit([Fold(P, Y)] * 2),
        lambda: cx.OnlineAverage("auto").run(P, Y),
        lambda: cx.score_tensor(P, "auto"),
    ):
        with pytest.raises(cx.InvalidInput, match=sentence):
            call()


def test_a_model_of_scores_left_out_is_saved_and_loaded_as_auto(tmp_path: Path) -> None:
    cp = fitted()
    cp.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json")
    assert again.scores == "auto"
    assert_array_equal(again.predict_set(NEW).mask, cp.predict_set(NEW).mask)


def test_the_classifier_leaves_them_to_the_library_as_well() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) + rng.integers(3, size=(200, 1))
    y = (X.sum(axis=1) > 1).astype(int)
    left_out, auto, paper = (
        cx.ConformalClassifier(GaussianNB(), **USUAL, **scores).fit(X, y)
        for scores in ({}, {"scores": "auto"}, {"scores": "paper"})
    )
    assert left_out.conformal_.blend_ is not None
    assert_array_equal(left_out.predict_set(X).mask, auto.predict_set(X).mask)
    assert paper.conformal_.score_names_ == PAPER


def test_the_change_is_said_once_in_one_line_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    listener = logging.Handler()
    monkeypatch.setattr(listener, "emit", lambda record: said.append(record.getMessage()))
    monkeypatch.setattr(logging.getLogger("conformix"), "handlers", [listener])
    monkeypatch.setattr("conformix.estimators.average.NOTICE", notice.Notice())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted("auto")
        fitted("paper")
        fitted(weights=[0.5, 0.3, 0.2])
        assert not said  # whoever names scores, or gets what they were, has no news
        fitted()
        fitted()
    assert said == [
        'conformix: scores that are left out are "auto" since 0.2.0, which makes smaller sets; '
        '"paper" is thr, aps and rank, as before, and to name either ends this line.'
    ]


def test_the_shell_fits_auto_and_the_paper_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cli.drawn import write_files

    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = []
    for more in ([], ["--scores", "auto"], ["--scores", "paper"], ["--split", "efcp"]):
        assert main(["fit", "calibration.csv", "-o", "model.json", "--json", *more]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert "blend" in found[0]
    assert found[2]["scores"] == found[3]["scores"] == list(PAPER)


def test_the_demo_shows_the_four_splits_of_the_paper_and_auto_side_by_side() -> None:
    names = [name for name, _ in demo.methods(demo.Choices())]
    assert names[4:] == [
        "average, vfcp", "average, efcp", "average, dlcp", "average, dlcp+", "auto, vfcp",
    ]  # fmt: skip
    data = demo.Demo.load()
    rows = np.arange(300)
    small = demo.Demo(data.logits, data.y, rows, rows + 300, demo.Choices(splits=("vfcp",)))
    last = list(small.rows(0.1))[-1]
    assert last.method == "auto, vfcp"
    assert last.guarantee == "exact"
    assert "by likelihood" in demo.table("", [last]).rows[0]
