"""The study of averaged regression scores: rivals are what their formulas say, rows survive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.conformal import conformal_rank
from conformix.experiments.rows import read_rows
from studies.regression import models, run
from studies.regression.averaged import Averaging, Exactly
from studies.regression.data import Rows, Setting
from studies.regression.models import LEVELS, Predictions
from studies.regression.plus import CrossPlus, JackknifePlus, _ends
from studies.regression.predictions import Draw
from studies.regression.report import write_study
from studies.regression.rivals import Cola, Each, MajorityVote, Singles, Symmetric
from studies.regression.run import EXACT, METHODS, PARTS, PLUS
from studies.regression.tables import hindsight, laws, method_table
from studies.regression.tasks import Task, told

SMALL = Setting("made", 80, chooses=True)


def said(data: Rows, rows: Any, seed: int) -> Predictions:
    """Return what models might say that nobody has trained."""
    rng = np.random.default_rng(seed)
    X = data.X[rows]
    truth = X[:, 0] + np.sin(2 * X[:, 1])
    means = truth[:, None] + rng.normal(scale=0.3, size=(len(X), 6))
    sigmas = np.exp(0.6 * X[:, [2]]) * rng.uniform(0.8, 1.2, size=(len(X), 6))
    steps = np.sort(rng.gamma(2.0, size=1000) - 2)[(1000 * np.array(LEVELS)).astype(int)]
    return Predictions(
        means, sigmas, truth[:, None, None] + sigmas[:, :3, None] * steps, forest=0, boosting=0
    )


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """Return a folder of such predictions, for two trainings."""
    data = SMALL.load()
    for seed in (0, 1):
        _, others = SMALL.training(len(data.y), seed)
        told = said(data, others, seed)
        np.savez(tmp_path / f"made_80_{seed}.npz", **vars(told))
    return tmp_path


def drawn(n_test: int = 40) -> Draw:
    data = SMALL.load()
    train, labelled, test = np.split(np.arange(80 + 300 + n_test), [80, 380])
    return Draw(data, train, labelled, test, said(data, np.arange(80, 380 + n_test), 0), 0)


TASK = Task(drawn(), 300, 0.1)


def test_every_method_gives_a_row_which_the_next_run_keeps(known: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(models, "TREES", 20)
    options: dict[str, Any] = {"known": known, "runs": 1, "workers": 1, "settings": [SMALL],
                               "alphas": [0.1]}  # fmt: skip
    paths = write_study(known / "out", **options)
    rows = read_rows(known / "out" / "rows.jsonl")
    assert {row["method"] for row in rows} == set(METHODS | PARTS | EXACT | PLUS)
    for row in rows:
        assert 0.7 < row["coverage"] <= 1, row
        assert np.isfinite(row["size"]), row
        assert row["n_test"] == 320
    assert {path.name for path in paths} >= {"methods.md", "cases.md", "cases.csv"}
    assert "| auto | " in (known / "out" / "methods.md").read_text()
    assert "outside its law in 0 of 1" in (known / "out" / "cases.md").read_text()
    monkeypatch.setattr(run, "run_job", None)
    assert write_study(known / "out", **options) == paths
    assert read_rows(known / "out" / "rows.jsonl") == rows


def test_labelled_and_test_rows_train_nothing_and_small_sizes_are_parts_of_large_ones() -> None:
    train, others = SMALL.training(700, 0)
    labelled, test = SMALL.draw(others, 0)
    every = np.concatenate([train, others[labelled], others[test]])
    assert len(set(every.tolist())) == len(every) == 700
    assert len(labelled) == 300
    assert SMALL.sizes(700) == [300]
    assert_array_equal(SMALL.draw(others, 0)[1], test)
    assert (SMALL.draw(others, 1)[1] != test).any()


def test_auto_is_what_the_library_does() -> None:
    average = cx.RegressionAverage(alpha=0.1, random_state=0).fit(TASK.labelled(), TASK.y)
    found = average.predict_interval(TASK.test())
    mine = Averaging()(TASK)
    assert_array_equal(mine.widths, found.width)
    assert_array_equal(mine.covered, found.contains(TASK.y_test))
    assert mine.also["n_cal"] == 180


def test_select_has_the_narrowest_score_of_half_of_the_rows() -> None:
    single = Averaging(0.5, (1.0,), search="single")
    average = cx.RegressionAverage(
        alpha=0.1, random_state=0, search=np.eye(30), tune_alpha=0.1,
        split=cx.splits.ValidityFirst(0.5),
    ).fit(TASK.labelled(), TASK.y)  # fmt: skip
    assert sorted(average.weights_.tolist())[-2:] == [0.0, 1.0]
    assert_array_equal(single(TASK).widths, average.predict_interval(TASK.test()).width)


def test_a_majority_holds_what_more_than_half_of_the_intervals_hold() -> None:
    singles = Singles.of(TASK)
    ends = [singles.ends(j, 0.1) for j in range(len(singles.names))]
    found = MajorityVote()(TASK)
    for row in range(5):
        lows, highs = (np.array([pair[side][row] for pair in ends]) for side in (0, 1))
        grid = np.linspace(lows.min() - 0.1, highs.max() + 0.1, 20001)
        votes = ((lows <= grid[:, None]) & (grid[:, None] <= highs)).sum(axis=1)
        measure = (2 * votes > len(ends)).mean() * (grid[-1] - grid[0])
        assert found.widths[row] == pytest.approx(measure, abs=2e-3)
        y = TASK.y_test[row]
        inside = 2 * ((lows <= y) & (y <= highs)).sum() > len(ends)
        assert found.covered[row] == inside


def test_levels_of_an_intersection_add_up_to_alpha_and_narrow_the_tuning_rows() -> None:
    singles = Singles.of(TASK)
    shares = Cola().shares(singles, 0.1, 150)
    assert shares.sum() == 8
    assert (shares >= 0).all()
    tune = singles.here.rows(slice(150))
    best = min(
        np.mean(np.subtract(*singles.ends(j, 0.1, slice(150), tune)[::-1])) for j in range(30)
    )
    lower, upper = -np.inf, np.inf
    for j in np.flatnonzero(shares):
        low, high = singles.ends(j, 0.1 * shares[j] / 8, slice(150), tune)
        lower, upper = np.maximum(lower, low), np.minimum(upper, high)
    assert np.maximum(upper - lower, 0).mean() <= best + 1e-9


def test_a_response_is_in_a_symmetric_set_by_its_share_of_all_sums() -> None:
    task = Task(drawn(), 60, 0.1)
    means = task.draw.known.means
    own = np.abs(task.y[:, None] - means[:60])
    k = conformal_rank(60, 0.1)
    found = Symmetric()(task)
    for row, y in enumerate(task.y_test):
        new = np.abs(y - means[task.draw.rest][row])
        sums = own.sum(axis=0) + new
        cut = np.sort((own / sums).sum(axis=1))[k - 1]
        assert found.covered[row] == ((new / sums).sum() <= cut)


def test_the_ends_of_cv_plus_are_order_statistics() -> None:
    rng = np.random.default_rng(0)
    said, which = rng.normal(size=(3, 4)), rng.integers(4, size=25)
    residuals = rng.exponential(size=25)
    lower, upper = _ends(said, which, residuals, 0.1)
    for row in range(3):
        each = said[row, which]
        # floor(0.1 x 26) = 2 from below, ceil(0.9 x 26) = 24 from below
        assert lower[row] == np.sort(each - residuals)[2 - 1]
        assert upper[row] == np.sort(each + residuals)[24 - 1]


@pytest.mark.parametrize("way", [CrossPlus(), JackknifePlus()])
def test_models_of_folds_cover(way: Any) -> None:
    assert way(TASK).covered.mean() > 0.75


def test_candidates_of_the_exact_split_look_at_no_row() -> None:
    one = Exactly().candidates(TASK.labelled())
    other = Exactly().candidates(Task(drawn(), 100, 0.1).labelled())
    assert_array_equal(one, other)
    np.testing.assert_allclose(one.sum(axis=1), 1.0)


def test_hindsight_takes_the_narrowest_score_of_all_runs() -> None:
    row = {"method": "each score", "setting": "s", "n_labelled": 9, "alpha": 0.1, "run": 0,
           "group": "g", "half": False} | told(Each()(TASK), TASK)  # fmt: skip
    (best,) = hindsight([row])
    assert best["size"] == min(width for width, _ in row["each"].values())


def test_coverage_below_its_law_is_seen_and_coverage_within_it_is_not() -> None:
    rng = np.random.default_rng(0)
    shared = {"method": "auto", "setting": "s", "n_labelled": 300, "alpha": 0.1, "n_cal": 180,
              "n_test": 1000}  # fmt: skip
    k = conformal_rank(180, 0.1)
    within, below = [], []
    for number in range(20):
        share = rng.beta(k, 181 - k)
        row = shared | {"run": number, "coverage": rng.binomial(1000, share) / 1000}
        within.append(row)
        below.append(row | {"coverage": row["coverage"] - 0.04})
    assert abs(laws(within, "auto")[0].deviation) < 3
    assert laws(below, "auto")[0].deviation < -4


def test_widths_are_compared_in_pairs() -> None:
    shared = {"setting": "s", "group": "g", "n_labelled": 9, "half": False, "alpha": 0.1,
              "coverage": 0.9}  # fmt: skip
    rows = [
        shared | {"method": method, "run": number, "size": size * (1 + number)}
        for method, size in (("auto", 1.0), ("select", 2.0))
        for number in range(4)
    ]
    assert "| auto | 4 | 0.500 | 1 of 1 | 0.500 |" in method_table(rows, ["auto"], "select")


def test_residuals_of_models_are_out_of_fold_and_quantiles_rise(monkeypatch: Any) -> None:
    for grid in ("RIDGE", "NETWORK", "FOREST", "BOOSTING", "QUANTILE_BOOSTING"):
        monkeypatch.setattr(models, grid, getattr(models, grid)[:1])
    monkeypatch.setattr(models, "QUANTILE_LEAVES", (5,))
    monkeypatch.setattr(models, "QUANTILE_BOOSTING", ({"max_iter": 5},))
    monkeypatch.setattr(models, "TREES", 20)
    data = SMALL.load()
    found = models.trained(data.X[:120], data.y[:120], data.X[120:300], 0)
    sizes = np.abs(found.means - data.y[120:300, None]).mean(axis=0)
    assert (found.sigmas.mean(axis=0) > 0.5 * sizes).all()
    assert (np.diff(found.quantiles, axis=2) >= 0).all()
    assert found.means.shape == (180, 6)
