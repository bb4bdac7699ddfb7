"""The paper's tables and figures at other levels, splits and scores, from the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import conformix as cx
from conformix.cli import main
from conformix.experiments import Setup
from conformix.experiments.paper import (
    SINGLES,
    fig2_specs,
    fig3_specs,
    models_specs,
    ratios_specs,
    table1_specs,
)
from conformix.experiments.spec import Spec

QUICK = ["--data", "mmlu_llama13b", "--runs", "2", "--rows", "200", "--resolution", "3",
         "--workers", "1"]  # fmt: skip
OTHER = Setup("cifar100", alphas=(0.2, 0.1), splits=("efcp", "exact"), scores=("thr", "margin"))
ONE = Setup("cifar10_trio", alphas=(0.1,), splits=("efcp",), scores=("thr", "margin"))


def test_table_1_takes_levels_splits_and_scores() -> None:
    (spec,) = table1_specs(OTHER)
    assert spec.alphas == (0.1, 0.2)
    assert spec.methods[:2] == ("average:efcp", "average:exact")
    assert spec.methods[2 : 3 + len(SINGLES)] == (*SINGLES, "margin")
    assert spec.scores == ("thr", "margin")


@pytest.mark.parametrize("specs", [fig2_specs, fig3_specs, ratios_specs, models_specs])
def test_every_other_experiment_does_so_too(specs: object) -> None:
    made: list[Spec] = specs(ONE)  # type: ignore[operator]
    assert {spec.alphas for spec in made} == {(0.1,)}
    assert {spec.methods[0] for spec in made} == {"average:efcp"}
    scores = [("thr",), ("margin",)] if specs is models_specs else [("thr", "margin")]
    assert sorted({spec.scores for spec in made}) == sorted(scores)


def test_by_default_all_is_as_in_the_paper_and_auto_beside_it() -> None:
    (spec,) = fig3_specs(Setup("cifar100"))
    assert spec.alphas == (0.01, 0.02, 0.03, 0.04, 0.05)
    assert spec.methods == ("average:vfcp", *SINGLES, "tuned-thr", "tuned-raps", "auto:vfcp")
    assert spec.scores == ("thr", "aps", "rank")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fig2", "--alpha", "0.1,0.2"], "fig2 is drawn at one level; got 0.1, 0.2."),
        (["ratios", "--alpha", "0.1,0.2"], "ratios is drawn at one level; got 0.1, 0.2."),
        (["fig2", "--split", "vfcp,efcp"], "fig2 shows one split of the average; got vfcp, efcp."),
        (["fig3", "--split", "vfcp,efcp"], "fig3 shows one split of the average; got vfcp, efcp."),
        (["fig3", "--split", "vcfp"], "unknown split 'vcfp'; did you mean 'vfcp'?"),
        (["fig3", "--scores", "th"], "unknown score 'th'; did you mean 'thr'?"),
        (["fig3", "--scores", "auto"], 'scores that are averaged have names, and "auto" finds '),
        (["fig3", "--alpha", "2"], "alpha must be a number strictly between 0 and 1"),
        (["fig3", "--alpha", "ten"], "--alpha takes numbers by commas, such as 0.05,0.1; got 'te"),
        (["mine.toml", "--scores", "thr"], "mine.toml says of every experiment what it is; set "),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else "",
)
def test_what_a_table_has_no_room_for_is_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *arguments, *QUICK, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"conformix: {sentence}")
    assert said.count("\n") == 1


def test_a_table_at_other_settings_has_no_numbers_of_the_paper(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--alpha", "0.2", "--split", "efcp", "--scores", "thr,rank", "--normalize", "none"]
    assert main(["reproduce", "table1", *asked, *QUICK, "--out", str(tmp_path)]) == 0
    text = (tmp_path / "table1.txt").read_text(encoding="utf-8")
    assert "paper" not in text
    assert "EFCP" in text
    assert "VFCP " not in text
    (findings,) = [json.loads(line)["findings"] for line in capsys.readouterr().out.splitlines()]
    assert all(line.startswith("alpha = 0.2: ") for line in findings)
    assert findings[0].startswith("alpha = 0.2: sets of EFCP are ")


def test_levels_of_a_setup_are_checked() -> None:
    with pytest.raises(cx.InvalidInput, match="alpha must be a number"):
        Setup("cifar100", alphas=(1.5,))
