"""Exchangeable rows are called broken, or drifted, as rarely as is said: at every door."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformix.cli.app import main
from conformix.report.measured import measure
from conformix.report.rows import Rows
from verdicts.cases import CASES, Case

BY_NAME = {case.name: case for case in CASES}
# The short form of ``python -m verdicts``: 4.5 standard errors, one false alarm in 300,000 tests.
Z = 4.5
DRAWS = 12


def most(share: float, draws: int) -> float:
    """Return how many of so many draws may raise a false alarm."""
    return share * draws + Z * math.sqrt(share * (1 - share) * draws)


def of_case(name: str, draw: int, n: int, m: int) -> tuple[Case, Any, Any]:
    """Return a case with its model and fresh rows."""
    case = BY_NAME[name]
    return case, *case.fitted(np.random.default_rng([5, draw]), n, m, alpha=0.1)


@pytest.mark.filterwarnings("ignore::conformix.TrivialSetsWarning")  # groups of a few rows
@pytest.mark.parametrize("name", ["exact", "group", "weighted"])
def test_the_report_calls_valid_fits_broken_in_one_of_a_hundred_draws(name: str) -> None:
    broken, draws = 0, 40
    for i in range(draws):
        case, model, test = of_case(name, i, 50, 1500)
        rows = Rows.of(model, test.outputs, test.y, alphas=[0.1], **case.more(test))
        broken += measure(rows).verdicts[0] == "broken"
    assert broken <= most(0.01, draws)


def test_the_shell_says_less_than_chance_in_one_of_a_hundred_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_few_shortfalls("efcp, many alike", tmp_path, capsys)


@pytest.mark.long(short="test_the_shell_says_less_than_chance_in_one_of_a_hundred_draws")
def test_the_shell_says_so_of_a_transductive_split_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_few_shortfalls("dlcp, many alike", tmp_path, capsys)


def assert_few_shortfalls(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    below, draws = 0, 100
    model_file, file = tmp_path / "model.json", tmp_path / "test.npz"
    for i in range(draws):
        _, model, test = of_case(name, i, 40, 400)
        model.save(model_file)
        np.savez(file, labels=test.y, **test.outputs)
        assert main(["evaluate", str(model_file), str(file), "--json"]) == 0
        last: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        below += last["shortfall_pvalue"] < 0.01
    assert below <= most(0.01, draws)


@pytest.mark.parametrize("name", ["efcp, many alike", "exact, many alike", "efcp, earlier file"])
def test_the_drift_check_raises_false_alarms_at_its_level(name: str) -> None:
    alarms, draws = 0, 150
    for i in range(draws):
        _, model, test = of_case(name, i, 40, 600)
        alarms += model.check_drift(test.outputs, test.y, level=0.1).drifted
    assert alarms <= most(0.1, draws)


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_fit_is_called_broken_more_often_than_its_law_says(case: Case) -> None:
    found = []
    for i in range(DRAWS):
        rows = case.judged(np.random.default_rng([8, i]), 60, 200, alpha=0.1)
        found.append(rows.verdict(case.alpha))
    assert sum(one.word == "broken" for one in found) <= most(0.01, DRAWS)
    assert {one.pvalue is not None for one in found} == {case.law}
    # Not only the smallest p-values are rare.
    pvalues = np.array([one.pvalue for one in found if one.pvalue is not None])
    assert (pvalues <= 0.3).sum() <= most(0.3, DRAWS)
