"""What was tried beside ``auto``: fixed by tuning rows alone, and auto where it adds nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize_scalar

from conformix.conformal import conformal_rank, kth_largest
from conformix.experiments.pool import Pool
from studies.frontier.blended import AUTO, Blends
from studies.frontier.cases import Setting
from studies.frontier.ideas import (
    LIKELIHOOD,
    LIKELY,
    WAYS,
    Split,
    confusion_out_of_fold,
    fit_offset,
    ideas_tables,
    run_ideas,
)

SMALL = Setting("mmlu_llama13b", ("llama13b_prompt0", "llama13b_prompt1"), label="two prompts")
WIDE = Setting("cifar100", ("wideresnet_16_4",))
# Two of its six labels are never true: here confusions have a coefficient.
NEVER_TRUE = Setting("vlm_mmbench", ("llava_v1_6_34b",))
N, ALPHA = 500, 0.05


def blends(setting: Setting = WIDE) -> Blends:
    return Blends(Pool(setting.load()))


def cut(some: Blends) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows that tune, that calibrate and that are tested."""
    labelled, test = WIDE.draw(some.pool.outputs.n, run=0)
    n_tune = some.n_tune(AUTO, N, ALPHA)
    return labelled[:n_tune], labelled[n_tune:N], test[:300]


def scores_after(setting: Setting, which: str) -> dict[str, np.ndarray]:
    """Return the scores of calibration and test rows, with other labels of some rows."""
    some = blends(setting)
    tune, calibrate, test = cut(some)
    if which:
        rows = {"tune": tune, "calibrate": calibrate, "test": test}[which]
        n_classes = some.pool.outputs.n_classes
        some.pool.labels = some.pool.labels.copy()
        some.pool.labels[rows] = (some.pool.labels[rows] + 1) % n_classes
    split = Split(some, tune, np.concatenate([calibrate, test]))
    return {name: way(split) for name, way in WAYS.items()}


@pytest.mark.parametrize(
    "setting", [WIDE, NEVER_TRUE], ids=["many classes", "labels that are never true"]
)
def test_labels_of_tuning_rows_alone_make_the_scores(setting: Setting) -> None:
    before = scores_after(setting, "")
    confused = np.abs(before["confusion"] - before[LIKELIHOOD]).max()
    assert (confused > 0.1) == (setting is NEVER_TRUE)
    for which in ("calibrate", "test"):
        after = scores_after(setting, which)
        changed = {name for name in WAYS if not np.array_equal(before[name], after[name])}
        assert changed == {"ceiling"}, which  # which is no method, and says so
    after = scores_after(setting, "tune")
    changed = {name for name in WAYS if not np.array_equal(before[name], after[name])}
    assert changed == set(WAYS) - {"ceiling"}


@pytest.mark.parametrize("setting", [WIDE, SMALL], ids=["one model", "two models"])
def test_an_offset_of_zero_gives_the_sets_of_a_likelihood(setting: Setting) -> None:
    some = blends(setting)
    tune, calibrate, test = cut(some)
    split = Split(some, tune, np.concatenate([calibrate, test]))
    theirs = some.sets_of(LIKELY, np.concatenate([tune, calibrate]), test, ALPHA)
    y = some.pool.labels[calibrate]

    def sets(b: np.ndarray | None) -> np.ndarray:
        scores = split.offset(split.likely, b)
        own = scores[np.arange(len(y)), y]
        return scores[len(y) :] >= kth_largest(own, conformal_rank(len(y), ALPHA))

    np.testing.assert_array_equal(sets(np.zeros(3)), theirs)
    assert (sets(None) != theirs).any()


def test_evidence_of_one_model_gives_the_sets_of_auto() -> None:
    some = blends()
    tune, calibrate, test = cut(some)
    y = some.pool.labels[calibrate]
    scores = WAYS["evidence"](Split(some, tune, np.concatenate([calibrate, test])))
    threshold = kth_largest(scores[np.arange(len(y)), y], conformal_rank(len(y), ALPHA))
    theirs = some.sets_of(AUTO, np.concatenate([tune, calibrate]), test, ALPHA)
    np.testing.assert_array_equal(scores[len(y) :] >= threshold, theirs)


def test_the_loss_of_the_offset_is_smallest_where_it_says() -> None:
    some = blends()
    tune, calibrate, _ = cut(some)
    split = Split(some, tune, calibrate)
    q, (g, _) = np.exp(split.likely.tuning), split.features(split.likely)
    true = q[np.arange(len(tune)), split.y]
    t = np.sort(true)[int(0.05 * (len(true) + 1))]

    def loss(numbers: np.ndarray) -> float:
        b, a = numbers[:3], numbers[3]
        lift = np.exp(g @ b + a)
        rows = np.log(1 + t / (true * lift)) + t * np.log(1 + q * lift[:, None] / t).sum(axis=1)
        return rows.sum() + b @ b

    b = fit_offset(split.likely.tuning, split.y, g)
    a = minimize_scalar(lambda one: loss(np.append(b, one)), tol=1e-9).x
    slope = approx_fprime(np.append(b, a), loss, 1e-5)
    at_zero = approx_fprime(np.zeros(4), loss, 1e-5)
    assert np.abs(slope).max() < 0.01
    assert np.abs(at_zero).max() > 1
    for step in 0.1 * np.vstack([np.eye(4), -np.eye(4)]):
        assert loss(np.append(b, a) + step) > loss(np.append(b, a))


def test_a_row_has_no_part_in_the_confusions_that_it_is_scored_by() -> None:
    rng = np.random.default_rng(0)
    r, y = rng.dirichlet(np.ones(5), 60), rng.integers(5, size=60)
    other = y.copy()
    other[::10] = (other[::10] + 1) % 5  # the rows of the first part
    same = (confusion_out_of_fold(r, y) == confusion_out_of_fold(r, other)).all(axis=1)
    np.testing.assert_array_equal(same, np.arange(60) % 10 == 0)


def test_features_of_a_row_know_tuning_rows_and_this_row() -> None:
    some = blends()
    tune, calibrate, test = cut(some)
    both = Split(some, tune, np.concatenate([calibrate, test]))
    alone = Split(some, tune, test[:7])
    together = both.features(both.likely)[1][len(calibrate) :][:7]
    np.testing.assert_allclose(alone.features(alone.likely)[1], together, rtol=1e-12)


def test_rows_of_ideas_are_kept_and_told(tmp_path) -> None:
    path = tmp_path / "ideas.jsonl"
    tail = Setting("cifar100", ("lenet5",), "long tails", maker="long tail")
    options = {"settings": [SMALL, tail], "runs": 2, "sizes": [None]}
    rows = run_ideas(path, **options)
    assert len(rows) == 2 * 2 * 2 * len(WAYS)
    assert all(row["coverage"] >= 1 - row["alpha"] for row in rows)
    text = path.read_text()
    assert run_ideas(path, **options) == rows
    assert path.read_text() == text
    lines = ideas_tables(rows).splitlines()
    assert sum(line.startswith("| long tails (1) | half") for line in lines) == 2
    assert "| alpha | " + " | ".join(WAYS) + " |" in lines
