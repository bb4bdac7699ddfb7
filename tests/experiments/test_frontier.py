"""The study: its fast path is the library's, its rows survive, its tables can say no."""

from __future__ import annotations

import numpy as np
import pytest

import conformix as cx
from conformix.data.bundled import Dataset
from conformix.experiments.pool import Pool
from conformix.fit.blend import blend_split
from conformix.fit.settings import resolve
from conformix.scores.blend import DICTIONARY, LEARNT
from studies.frontier.baseline import planes, run_baseline
from studies.frontier.blended import AUTO, BEFORE, PARTS, Blends
from studies.frontier.cases import SETTINGS, Setting
from studies.frontier.made import long_tail, trained
from studies.frontier.run import run_frontier
from studies.frontier.tables import class_table, group_table, markdown, ratios, summary

SMALL = Setting("mmlu_llama13b", ("llama13b_prompt0", "llama13b_prompt1"), label="two prompts")


def neighbours() -> Dataset:
    from sklearn.neighbors import KNeighborsClassifier

    labels, probs = trained(cx.datasets.load("cifar10"), ("lenet5",), KNeighborsClassifier(20))
    return Dataset("neighbours", labels, {"neighbours": probs}, "probs")


@pytest.mark.parametrize(
    ("load", "n", "alpha"),
    [(SMALL.load, 400, 0.1), (neighbours, 1000, 0.01), (neighbours, 300, 0.05),
     (lambda: long_tail(cx.datasets.load("cifar100"), ("lenet5",)), 500, 0.05),
     (SMALL.load, 100, 0.01), (SMALL.load, 99, 0.01)],
    ids=["logits of two models", "ties and zeros", "few rows", "long tail", "one row", "no row"],
)  # fmt: skip
def test_the_study_gives_the_sets_of_the_library(load, n: int, alpha: float) -> None:
    data = load()
    pool = Pool(data)
    labelled, test = SMALL.draw(len(data.labels), run=0)
    labelled, test = labelled[:n], test[:300]
    settings = resolve("auto", alpha=alpha)
    most = len(data.outputs) * (len(DICTIONARY) + len(LEARNT) + 1)
    split = blend_split(settings, n, most, pool.outputs.n_classes)
    order = labelled
    if split is not None:
        rng = np.random.default_rng(7)
        rng.spawn(1)
        roles = split.roles(n, 0, rng)
        order = labelled[np.concatenate([roles.tune, roles.calibrate])]
    cp = cx.ScoreAverage("auto", alpha=alpha, kind=data.kind, random_state=7)
    cp.fit({m: v[labelled] for m, v in data.outputs.items()}, data.labels[labelled])
    theirs = cp.predict_set({m: v[test] for m, v in data.outputs.items()}).mask
    ours = Blends(pool).sets_of(AUTO, order, test, alpha)
    np.testing.assert_array_equal(ours, theirs)
    if split is not None:
        used = {str(column.score) for column in cp.blend_.columns}
        assert used & set(LEARNT) or n == 100


def test_rows_that_are_there_are_not_computed_again(tmp_path) -> None:
    options = {"settings": [SMALL], "runs": 2, "sizes": [300], "alphas": [0.1], "workers": 1}
    rows = run_frontier(tmp_path / "rows.jsonl", **options)
    told: list[str] = []
    again = run_frontier(tmp_path / "rows.jsonl", progress=told.append, **options)
    assert again == rows
    assert not told
    text = frontier_tables(rows)
    assert text.startswith("1 cases")
    assert "two prompts" in text


def test_the_baseline_holds_every_tuned_score_and_both_ensembles() -> None:
    names = [name for name, _ in planes(Pool(cx.datasets.load(SMALL.data), SMALL.models))]
    assert len(names) == len(set(names)) == 2 * (10 + 16 + 8 + 2) + 2 * 10 + 1
    for part in ("thr(temperature=6.0)", "raps(penalty=0.1", "saps(penalty=0.5)", "uniform",
                 "probs-ensemble", "logits-ensemble"):  # fmt: skip
        assert any(part in name for name in names), part


def case(method: str, run: int, size: float) -> dict:
    return {"setting": "s", "n_calibrate": 1000, "half": False, "alpha": 0.1, "coverage": 0.9,
            "method": method, "run": run, "size": size}  # fmt: skip


@pytest.mark.parametrize(("worse", "broken"), [(1.0, 0), (1.05, 1)])
def test_a_case_that_is_clearly_larger_is_counted(worse: float, broken: int) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.uniform(1, 2, 50)
    rows = [case("baseline", r, s) for r, s in enumerate(sizes)]
    rows += [case("auto", r, worse * s * rng.normal(1, 0.01)) for r, s in enumerate(sizes)]
    found = ratios(rows, "auto")[0]
    assert (found.ratio.low > found.bound) == bool(broken)
    assert f"above the bound in {broken}" in frontier_tables(rows)


def test_what_is_held_out_is_in_no_setting_of_the_study() -> None:
    studied = {s.data for s in STUDIED}
    assert "banking77" not in studied
    tiny = [s for s in STUDIED if s.data == "tinyimagenet_trio"]
    assert all(s.models and "vgg16_bn" not in s.models for s in tiny)
    assert {"banking77", "tinyimagenet_trio"} == {s.data for s in HELD_OUT}
