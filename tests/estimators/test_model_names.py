"""A model may be called anything: it is fitted, saved, compared and predicted by that name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import conformix as cx
from conformix.cli import main
from conformix.cli.options import listed
from conformix.experiments import compare, resolve_method
from conformix.scores import score_columns
from conformix.search import GridSearch

NAMES = [
    "a(b)", "a.b", "a b", 'say "hi"', "it's", "a,b", "a:b", "average", "average:vfcp", "thr",
    "raps(penalty=0", "a=b", "-a", "Zürich", "日本", "a)b", "(", "0", "a.thr", "[red]", "a\\b",
]  # fmt: skip
RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), size=80)
Q = RNG.dirichlet(np.ones(3), size=80)
Y = (P.cumsum(axis=1) > RNG.random((80, 1))).argmax(axis=1)


@pytest.mark.parametrize("name", NAMES)
def test_every_score_of_a_model_is_found_by_its_text(name: str) -> None:
    models = ("other", name, "a")
    columns = score_columns(models, ("thr", "raps(penalty=0.2)", "-entropy"))
    texts = [str(column) for column in columns]
    assert score_columns(models, texts) == columns
    for text in texts:
        assert resolve_method(text).scores == (text,)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_any_name_is_fitted_saved_and_predicted(name: str, tmp_path: Path) -> None:
    outputs = {name: P, "other": Q}
    cp = cx.ScoreAverage(
        (f"{name}.thr", "other.rank", f"{name}.raps(penalty=0.5)"), alpha=0.2,
        search=GridSearch(2), random_state=0, threads=1,
    ).fit(outputs, Y)  # fmt: skip
    cp.save(tmp_path / "m.json")
    again = cx.load(tmp_path / "m.json")
    assert again.score_names_ == cp.score_names_
    cx.testing.assert_same_sets(again.predict_set(outputs), cp.predict_set(outputs))
    assert again.fit(outputs, Y).score_names_ == cp.score_names_


@pytest.mark.parametrize("name", ["a(b)", "a.b", 'say "hi", x', "average", "raps(penalty=0"])
def test_models_of_any_name_are_compared(name: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", labels=Y, **{name: P, "other": Q})
    found = compare(
        str(tmp_path / "two.npz"), alpha=0.3, scores=("thr",), runs=2, resolution=2, workers=1
    )
    assert {f"{name}.thr", "other.thr"} <= set(found.results.methods)


@pytest.mark.parametrize("name", ["a(b)", "a.b", "a,b", "a b", "日本"])
def test_models_of_any_name_go_through_the_shell(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("three.npz", labels=Y, **{name: P, "other": Q, "third": Q})
    chosen = f'"{name}",other'
    few = ("--models", chosen, "--resolution", "2", "--alpha", "0.3")
    scores = f'"{name}.thr",other.rank'
    assert main(["fit", "three.npz", "-o", "m.json", "--scores", scores, "--json", *few]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["scores"] == [f"{name}.thr", "other.rank"]
    assert main(["predict", "m.json", "three.npz", "--models", chosen, "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(Y)
    compared = ["compare", "three.npz", *few, "--scores", "thr", "--runs", "2", "--workers", "1"]
    assert main([*compared, "--json"]) == 0
    methods = [json.loads(line).get("method") for line in capsys.readouterr().out.splitlines()]
    assert f"{name}.thr" in methods
    assert "third.thr" not in methods


def test_lists_keep_brackets_quotes_and_options_together() -> None:
    assert listed("thr, raps(penalty=0.1, k_reg=2)") == ("thr", "raps(penalty=0.1, k_reg=2)")
    assert listed('rank(tie_break="prob"),thr') == ('rank(tie_break="prob")', "thr")
    assert listed('"a, b","c(",d)') == ("a, b", "c(", "d)")
    assert listed("a)b,c") == ("a)b", "c")


def test_a_name_that_is_no_score_still_gets_help() -> None:
    with pytest.raises(cx.InvalidInput, match=r"^unknown score 'trh'; did you mean 'thr'\?"):
        score_columns(("a", "b"), ("a.trh",))
    with pytest.raises(cx.InvalidInput, match="unknown method 'avrage'; did you mean 'average'"):
        resolve_method("avrage")
