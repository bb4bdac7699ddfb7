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
from studies.frontier.averaged import Averaging
from studies.frontier.baseline import planes, run_baseline
from studies.frontier.blended import AUTO, BEFORE, OTHERWISE, PARTS, Blending, Blends
from studies.frontier.cases import SETTINGS, Setting
from studies.frontier.exactly import Exactly
from studies.frontier.made import long_tail, trained
from studies.frontier.run import run_frontier
from studies.frontier.symmetric import Candidates, Symmetric
from studies.frontier.tables import (
    choice_table,
    class_table,
    group_table,
    left_out_table,
    markdown,
    ratios,
    summary,
)

SMALL = Setting("mmlu_llama13b", ("llama13b_prompt0", "llama13b_prompt1"), label="two prompts")
WIDE = Setting("cifar100", ("wideresnet_16_4",))


def neighbours() -> Dataset:
    from sklearn.neighbors import KNeighborsClassifier

    labels, probs = trained(cx.datasets.load("cifar10"), ("lenet5",), KNeighborsClassifier(20))
    return Dataset("neighbours", labels, {"neighbours": probs}, "probs")


@pytest.mark.parametrize(
    ("load", "n", "alpha", "learnt"),
    [(SMALL.load, 400, 0.1, ()), (neighbours, 1000, 0.01, ("likeness",)),
     (lambda: long_tail(cx.datasets.load("cifar100"), ("lenet5",)), 500, 0.05, ("rarity",)),
     (WIDE.load, 500, 0.1, ("kin",)), (SMALL.load, 100, 0.01, ()), (SMALL.load, 99, 0.01, ()),
     (Setting("cifar100").load, 1700, 0.05, ("kin",))],
    ids=["two models", "ties and zeros", "long tail", "correlations", "one row", "no row",
         "evidence of three models"],
)  # fmt: skip
def test_the_study_gives_the_sets_of_the_library(
    load, n: int, alpha: float, learnt: tuple[str, ...]
) -> None:
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
    blends = Blends(pool)
    np.testing.assert_array_equal(blends.sets_of(AUTO, order, test, alpha), theirs)
    columns, coefficients = blends.taught(order[: blends.n_tune(AUTO, n, alpha)]).coefficients(AUTO)
    ours = [(str(c.score), value) for c, value in zip(columns, coefficients, strict=True)]
    listed = zip(cp.blend_.columns, cp.blend_.coefficients, strict=True)
    assert ours == [(str(c.score), value) for c, value in listed if value]
    assert {name for name, _ in ours} >= set(learnt)


def test_parts_leave_out_what_they_name_and_0_1_0_has_five_scores() -> None:
    blends = Blends(Pool(neighbours()))
    taught = blends.taught(np.arange(300))
    every = [str(column.score) for column in taught.columns]
    assert every == [*DICTIONARY, *LEARNT, "logp(floor=0.1)"]
    for way in (BEFORE, *PARTS.values()):
        columns, _ = taught.coefficients(way)
        assert not {str(column.score) for column in columns} & set(way.without)
    assert set(every) - set(BEFORE.without) == set(DICTIONARY)


def test_other_constants_are_what_they_say() -> None:
    for name, rows in (("a quarter tunes", 1251), ("half tunes", 2501)):
        assert OTHERWISE[name].n_tune(5000, 0.1, n_models=1, n_classes=100) == rows
    assert Blending(share=1 / 3).n_tune(5000, 0.01, 1, 100) == AUTO.n_tune(5000, 0.01, 1, 100)
    taught = Blends(Pool(SMALL.load())).taught(np.arange(300))
    for ridge, far in ((1e9, False), (1.0, True)):
        columns, coefficients = taught.coefficients(Blending(ridge=ridge))
        names = {str(column.score) for column in columns}
        assert (names != {"logp(floor=0.01)"}) == far
        assert (np.abs(coefficients - 0.5).max() > 1e-3) == far


def test_a_form_is_chosen_without_the_data_set_that_it_is_reported_for() -> None:
    sizes = {  # form "b" is best by far on x and worst elsewhere; on x the others choose "a"
        "auto": {"x, m": 0.9, "y_trio, m": 0.9, "y, m": 0.9, "z, m": 0.9},
        "a": {"x, m": 0.95, "y_trio, m": 0.8, "y, m": 0.85, "z, m": 0.8},
        "b": {"x, m": 0.1, "y_trio, m": 0.95, "y, m": 0.95, "z, m": 0.95},
        "old": {"x, m": 1.0, "y_trio, m": 1.0, "y, m": 1.0, "z, m": 1.0},
    }
    rows = [
        {"setting": setting, "group": "g", "n_labelled": 300, "half": False, "alpha": 0.01,
         "coverage": 0.99, "method": form, "run": run, "size": size}
        for form, of in sizes.items() for setting, size in of.items()
        for run in range(3 if form in ("auto", "old") else 2)
    ]  # fmt: skip
    lines = choice_table(rows, ["auto", "a", "b"], "old").splitlines()[2:]
    assert lines == [
        "| x | 1 | a | 0.950 | 0.900 |",
        "| y | 2 | b | 0.950 | 0.900 |",  # both of its settings are left out
        "| z | 1 | b | 0.950 | 0.900 |",
    ]
    (told,) = left_out_table(rows, ["auto", "a", "b"], "old").splitlines()[2:]
    assert told == "| g | 0.900 / 0.950 |"


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_symmetric_aggregation_is_the_published_rule(p: float) -> None:
    rng = np.random.default_rng(0)
    for n, m, alpha in ((5, 1, 0.3), (12, 2, 0.1), (25, 3, 0.2), (8, 2, 0.05)):
        own, labels = rng.random((n, m)), rng.random((6, 4, m))
        sets = Symmetric(p).sets(own, Candidates(labels), alpha)
        for i, y in np.ndindex(6, 4):
            sums = own.sum(axis=0) + labels[i, y]
            number = np.linalg.norm(labels[i, y] / sums, ord=p)
            others = np.linalg.norm(own / sums, ord=p, axis=1)
            rank = 1 + int((others >= number).sum())  # from the largest, with itself
            assert sets[i, y] == (rank / (n + 1) > alpha)


def test_symmetric_aggregation_of_one_model_has_the_sets_of_thr() -> None:
    pool = Pool(WIDE.load())
    rows, test = WIDE.draw(pool.outputs.n, run=0)
    (mask,) = Symmetric().all_sets(pool, rows, test[:200], [(300, 0.1)])
    logits = next(iter(pool.outputs.models.values()))
    thr = cx.ScoreAverage("thr", alpha=0.1, kind="logits").fit(
        logits[rows[:300]], pool.labels[rows[:300]]
    )
    np.testing.assert_array_equal(mask, thr.predict_set(logits[test[:200]]).mask)


def test_rivals_of_several_models_and_the_exact_split_are_resumed(tmp_path) -> None:
    methods = {"SACP": Symmetric(), "exact": Exactly(), "paper": Averaging(("thr", "rank"))}
    options = {"settings": [SMALL], "methods": methods, "runs": 1, "sizes": [300], "workers": 1}
    first = run_frontier(tmp_path / "rows.jsonl", alphas=[0.1], **options)
    assert [row["method"] for row in first] == list(methods)
    assert all(0.8 < row["coverage"] < 1 for row in first)
    told: list[str] = []
    both = run_frontier(
        tmp_path / "rows.jsonl", alphas=[0.1, 0.05], progress=told.append, **options
    )
    assert len(both) == 6
    assert [row for row in both if row["alpha"] == 0.1] == first
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 6
    assert len(told) == 3


def test_rows_that_are_there_are_not_computed_again(tmp_path) -> None:
    options = {"settings": [SMALL], "runs": 2, "sizes": [300], "alphas": [0.05, 0.1], "workers": 1}
    rows = run_frontier(tmp_path / "rows.jsonl", **options)
    told: list[str] = []
    again = run_frontier(tmp_path / "rows.jsonl", progress=told.append, **options)
    assert again == rows
    assert not told
    before = ratios(rows, "auto", "auto of 0.1.0")
    assert summary(before).startswith("2 cases")
    assert "two prompts" in markdown(before)
    assert "(1) | 300 |" in group_table(before)
    assert class_table(rows, "auto", "auto of 0.1.0").count("\n") == 3


def test_rows_do_not_depend_on_which_cases_share_a_fit(tmp_path) -> None:
    options = {"settings": [SMALL], "runs": 1, "methods": {"auto": AUTO}, "workers": 1}
    together = run_frontier(tmp_path / "a.jsonl", sizes=[300, 500], alphas=[0.05, 0.1], **options)
    alone = [
        row
        for size in (300, 500)
        for alpha in (0.05, 0.1)
        for row in run_frontier(
            tmp_path / f"{size} {alpha}.jsonl", sizes=[size], alphas=[alpha], **options
        )
    ]
    assert together == alone


def test_the_baseline_holds_every_tuned_score_and_both_ensembles() -> None:
    names = [name for name, _ in planes(Pool(SMALL.load()))]
    assert len(names) == len(set(names)) == 2 * (10 + 16 + 8 + 2) + 2 * 10 + 1
    for part in ("thr(temperature=6.0)", "raps(penalty=0.1", "saps(penalty=0.5)", "uniform",
                 "probs-ensemble", "logits-ensemble"):  # fmt: skip
        assert any(part in name for name in names), part


def test_a_baseline_with_too_few_rows_for_two_halves_tunes_nothing() -> None:
    pool = Pool(SMALL.load())
    few, enough = (0, 100, 0.01), (0, 300, 0.01)
    rows = run_baseline(pool, SMALL, [few, enough])
    assert rows[few]["chosen"] == "logits-ensemble thr(temperature=1.0)"
    assert rows[few]["size"] < pool.outputs.n_classes


def test_a_long_tail_is_long_and_forests_are_scored_on_other_rows() -> None:
    tail = long_tail(cx.datasets.load("cifar100"), ("lenet5",))
    counts = np.bincount(tail.labels)
    assert counts[0] == 100
    assert counts[-1] == 10
    assert (np.diff(counts) <= 0).all()
    data = neighbours()
    assert len(data.labels) == 6000  # of 10,000, of which 4,000 trained
    assert (data.outputs["neighbours"] == 0).mean() > 0.3


def case(method: str, run: int, size: float) -> dict:
    return {"setting": "s", "group": "g", "n_labelled": 1000, "half": False, "alpha": 0.1,
            "coverage": 0.9, "method": method, "run": run, "size": size}  # fmt: skip


@pytest.mark.parametrize(("worse", "broken"), [(1.0, 0), (1.05, 1)])
def test_a_case_that_is_clearly_larger_is_counted(worse: float, broken: int) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.uniform(1, 2, 50)
    rows = [case("old", r, s) for r, s in enumerate(sizes)]
    rows += [case("auto", r, worse * s * rng.normal(1, 0.01)) for r, s in enumerate(sizes)]
    found = ratios(rows, "auto", "old")
    assert found[0].larger == bool(broken)
    assert f"above 1.02 in {broken}" in summary(found)


def test_settings_have_names_of_their_own() -> None:
    assert len({setting.label for setting in SETTINGS}) == len(SETTINGS)
    groups = {setting.group for setting in SETTINGS}
    assert {"several models", "forests and neighbours", "long tails"} < groups
