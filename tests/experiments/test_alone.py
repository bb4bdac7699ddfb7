"""Rows that teach one at a time, beside tuning rows alone: the same rows, and a whole table."""

from __future__ import annotations

import numpy as np

import conformix as cx
from conformix.experiments.pool import Pool
from studies.frontier.alone import (
    EACH,
    LABELLED,
    LABELS,
    SETTINGS,
    TESTED,
    TUNING,
    alone_table,
    run_alone,
    run_split,
)

WIDE = SETTINGS[0]


def test_every_setting_of_the_page_is_among_those_of_the_study() -> None:
    assert {setting.label for setting in SETTINGS} == set(LABELS)


def test_sets_are_those_of_the_library_for_the_same_rows() -> None:
    pool = Pool(WIDE.load())
    labelled, others = WIDE.draw(pool.outputs.n, 1)
    (logits,) = (values[:] for values in pool.outputs.models.values())
    rows, test = labelled[:LABELLED], others[:TESTED]
    found = {row["method"]: row for row in run_split(pool, WIDE, run=1, alpha=0.05)}
    for way, source in ((EACH, "each"), (TUNING, None)):
        cp = cx.ScoreAverage("auto", alpha=0.05, kind="logits", random_state=1)
        sets = cp.fit(logits[rows], pool.labels[rows], test=source).predict_set(logits[test])
        assert found[way]["size"] == sets.sizes.mean()
        assert found[way]["coverage"] == sets.mask[np.arange(TESTED), pool.labels[test]].mean()
    assert found[EACH]["size"] != found[TUNING]["size"]


def test_the_table_divides_by_tuning_rows_alone_and_a_killed_run_goes_on(tmp_path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = run_alone(path, settings=[WIDE], runs=2)
    written = path.read_bytes()
    assert run_alone(path, settings=[WIDE], runs=2) == rows
    assert path.read_bytes() == written
    table = alone_table(rows).splitlines()
    assert len(table) == 2 + 2 + 1 + 1
    own = [cell.split(" +- ")[0].strip() for cell in table[4].split("|")[2:5]]
    for cell, alpha in zip(own, (0.01, 0.05, 0.1), strict=True):
        sizes = {
            way: [row["size"] for row in rows if (row["method"], row["alpha"]) == (way, alpha)]
            for way in (EACH, TUNING)
        }
        logs = np.log(sizes[EACH]) - np.log(sizes[TUNING])
        assert cell == f"{np.exp(logs.mean()):.3f}"
