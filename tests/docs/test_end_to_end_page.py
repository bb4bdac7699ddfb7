"""The page of the whole call: its tables are what the rows say; time falls where it is spent."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import end_to_end, end_to_end_page, stages

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "end_to_end.md").read_text(encoding="utf-8")
AROUND = {"cpu": "some", "commit": "abc", "python": "3.11", "load": 0.1, "place": "host, 2 cores"}
MOST = {"n": 10_000, "K": 100, "threads": 2, "interval": [1.0, 2.0]}


def row(case: str, rounds: list[float], **facts: Any) -> dict[str, Any]:
    times = {"seconds": float(np.median(rounds)), "rounds_s": rounds}
    return {"part": "times", "case": case, **MOST, **times, **AROUND, **facts}


def the_goal(rows: list[dict[str, Any]]) -> end_to_end_page.Goal:
    (goal,) = end_to_end_page.goals(rows)
    return goal


def test_the_tables_are_those_of_the_committed_rows() -> None:
    rows = [json.loads(line) for line in end_to_end.RESULTS.read_text("utf-8").splitlines()]
    texts = end_to_end_page.tables(rows)
    files = {path.stem: path.read_text("utf-8") for path in end_to_end_page.TABLES.glob("*.md")}
    assert files == texts


def test_the_page_includes_every_table_that_is_written() -> None:
    included = set(re.findall(r"\{include\} results/end_to_end/(\w+)\.md", PAGE))
    assert included == {"goals", *end_to_end_page.PARTS}


def test_rounds_of_several_processes_count_alike() -> None:
    def child(times: list[float]) -> list[dict[str, Any]]:
        facts = {"case": "conformix thr", "n": 10, "K": 3, "threads": 1, "mean_size": 1.5}
        return [facts | end_to_end.timed(np.array([[t / 2, t / 2, 2 * t, 8.0] for t in times]))]

    (found,) = end_to_end.pooled([child([1.0, 1.2]), child([3.0, 9.0]), child([2.0, 2.0])])
    assert found["rounds_s"] == [1.0, 1.2, 3.0, 9.0, 2.0, 2.0]
    assert (found["seconds"], found["processes_s"]) == (2.0, [1.1, 6.0, 2.0])
    assert (found["fit_s"], found["cpu_s"], found["pages"]) == (1.0, 4.0, 8.0)
    assert (found["case"], found["mean_size"]) == ("conformix thr", 1.5)


def test_a_ratio_is_taken_within_a_round() -> None:
    ours, peer = [1.0, 10.0, 2.0], [2.0, 20.0, 4.0]
    goal = the_goal([row("conformix thr", ours), row("MAPIE LAC", peer)])
    assert goal.values.tolist() == [0.5, 0.5, 0.5]
    assert (goal.limit, goal.reached) == (1.0, "yes")


@pytest.mark.parametrize(
    ("ours", "reached"),
    [
        ([1.0] * 9, "yes"),
        ([1.1] * 9, "no"),
        ([0.9] * 4 + [1.1] * 5, "unclear"),
        ([0.9] * 5 + [1.1] * 4, "unclear"),
    ],
)
def test_a_goal_is_reached_where_the_whole_interval_is_below(ours: list, reached: str) -> None:
    rows = [row("conformix thr", ours), row("MAPIE LAC", [1.0] * 9)]
    assert the_goal(rows).reached == reached


def test_ratios_are_held_to_the_most_threads_alone() -> None:
    fast = [row("conformix thr", [1.0] * 3), row("MAPIE LAC", [2.0] * 3)]
    slow = [row("conformix thr", [9.0] * 3, threads=1), row("MAPIE LAC", [2.0] * 3, threads=1)]
    assert the_goal([*fast, *slow]).median == 0.5


def test_sixteen_threads_are_held_to_a_fifth_of_the_time_of_one() -> None:
    points = [
        row("", [seconds] * 3, part="growth", axis="threads", threads=threads, d=3)
        for threads, seconds in ((1, 1.0), (4, 0.5), (16, 0.25))
    ]
    goal = the_goal(points)
    assert (goal.median, goal.limit, goal.reached) == (0.25, 0.2, "no")
    assert end_to_end_page.goals(points[:2]) == []


def test_a_device_is_held_to_seconds() -> None:
    device = row("conformix auto", [0.1] * 3, place="a device", n=50_000, K=1_000)
    del device["threads"]
    goal = the_goal([device])
    assert (goal.median, goal.limit, goal.reached) == (0.1, 0.15, "yes")
    assert end_to_end_page.goals([device | {"n": 2_000}]) == []


@pytest.mark.parametrize(("same", "reached"), [([True, True], "yes"), ([True, False], "no")])
def test_every_set_of_a_device_is_to_be_that_of_the_host(same: list[bool], reached: str) -> None:
    rows = [row(f"case {i}", [1.0], sets_of_the_host=one) for i, one in enumerate(same)]
    for each in rows:
        del each["threads"]
    assert the_goal(rows).reached == reached


def test_labels_are_drawn_from_outputs_that_are_probabilities_of_their_logits() -> None:
    case = end_to_end.make_case(20_000, 10)
    powers = np.exp(case.logits)
    np.testing.assert_allclose(case.probs, powers / powers.sum(axis=1, keepdims=True), rtol=1e-12)
    right = case.probs.argmax(axis=1) == case.y
    spread = np.sqrt((case.probs.max(axis=1) * (1 - case.probs.max(axis=1))).sum())
    assert abs(right.sum() - case.probs.max(axis=1).sum()) < 4 * spread


@pytest.mark.parametrize("place", [p for some in stages.STAGES.values() for p in some])
def test_every_place_of_a_stage_is_in_the_house(place: str) -> None:
    file, _, function = place.partition(".py/")
    path = stages.PACKAGE / (f"{file}.py" if function else file)
    assert path.exists()
    assert not function or f"def {function}(" in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("file", "function", "stage"),
    [
        ("scores/aps.py", "__call__", "sort and scores"),
        ("scores/scale.py", "_curve", "scale"),
        ("scores/ranked.py", "rising_order", "sort and scores"),
        ("scores/ranked.py", "probs", "exp and log"),
        ("kernels/host/engine/walk.py", "walk", "search"),
        ("kernels/blocks.py", "run_blocks", None),
        ("fit/fit.py", "fit", "rows"),
        ("fit/rule.py", "reaches", "sets"),
    ],
)
def test_the_longest_place_that_holds_a_function_decides(
    file: str, function: str, stage: str | None
) -> None:
    assert stages.stage_of(str(stages.PACKAGE / file), function) == stage


def in_the_house(file: str, body: str) -> Any:
    """A function whose code says that it is from a file of the house."""
    names: dict[str, Any] = {"sleep": time.sleep}
    path = stages.PACKAGE / file
    exec(compile(f"def work(inner=None):\n    {body}\n", str(path), "exec"), names)
    return names["work"]


def test_time_counts_for_the_innermost_stage() -> None:
    watch = stages.Watch()
    outer, scale = in_the_house("fit/fit.py", "inner()"), in_the_house("scores/scale.py", "inner()")
    with watch.watched():
        outer(lambda: scale(lambda: time.sleep(0.15)))  # the nap belongs to nobody
        in_the_house("search/grid.py", "sleep(0.05)")()
    shares = watch.shares()
    assert 0.5 < shares["scale"] < 0.95
    assert 0.05 < shares["search"] < 0.5
    assert shares["rows"] < 0.1


def test_threads_that_work_count_and_the_one_that_waits_for_them_does_not() -> None:
    watch = stages.Watch()
    wait, nap = in_the_house("fit/fit.py", "inner()"), in_the_house("scores/aps.py", "sleep(0.1)")

    def run() -> None:
        thread = threading.Thread(target=nap)
        thread.start()
        thread.join()

    with watch.watched():
        wait(run)
    shares = watch.shares()
    assert shares["sort and scores"] > 0.8
    assert shares["rows"] < 0.1
