"""The study: its fast path is the library's, its rows survive, its tables can say no."""

from __future__ import annotations

import numpy as np
import pytest

import conformix as cx
from conformix.experiments.pool import Pool
from conformix.fit.blend import blend_split
from conformix.fit.settings import resolve
from conformix.scores.blend import DICTIONARY
from studies.frontier import frontier_tables, run_frontier
from studies.frontier.baseline import planes
from studies.frontier.blended import AUTO
from studies.frontier.cases import HELD_OUT, STUDIED, Setting
from studies.frontier.tables import ratios

SMALL = Setting("mmlu_llama13b", ("llama13b_prompt0", "llama13b_prompt1"), "two prompts")


def test_the_study_gives_the_sets_of_the_library() -> None:
    data = cx.datasets.load(SMALL.data)
    pool = Pool(data, SMALL.models)
    cal, test = SMALL.draw(len(data.labels), run=0)
    cal, test = cal[:400], test[:200]
    split = blend_split(resolve("auto", alpha=0.1), 400, 2 * len(DICTIONARY), 4)
    rng = np.random.default_rng(7)
    rng.spawn(1)
    roles = split.roles(400, 0, rng)
    cp = cx.ScoreAverage("auto", alpha=0.1, kind="logits", random_state=7)
    cp.fit({m: data.outputs[m][cal] for m in SMALL.models}, data.labels[cal])
    theirs = cp.predict_set({m: data.outputs[m][test] for m in SMALL.models}).mask
    order = cal[np.concatenate([roles.tune, roles.calibrate])]
    ours, _ = AUTO.sets_of(pool, order, AUTO.test_scores(pool, test), 0.1)
    np.testing.assert_array_equal(ours, theirs)


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
