"""A fresh threshold makes any weights exact, but not for the batch whose features chose them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")

ALPHA, K, Z = 0.1, 5, 4.5
MODELS = tuple("abcdefgh")
WHOLE = "P(y in set) >= 1 - alpha"
FRESH = (
    "calibration and test rows exchangeable; weights chosen without these rows; every label among "
    "the classes"
)


def rows(rng: np.random.Generator, n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Eight models that err independently: a small set of one of them says little of the truth."""
    y = rng.integers(K, size=n)
    outputs = {}
    for name in MODELS:
        logits = 1.5 * rng.normal(size=(n, K))
        logits[np.arange(n), y] += 1
        powers = np.exp(logits)
        outputs[name] = powers / powers.sum(axis=1, keepdims=True)
    return outputs, y


def fitted(
    split: str, rng: np.random.Generator, **options: object
) -> tuple[cx.ScoreAverage, tuple]:
    """One of the models is chosen on 40 rows, and where the split says so by a batch of one."""
    (outputs, y), batch = rows(rng, 40), rows(rng, 1)
    usual = {"alpha": ALPHA, "search": np.eye(len(MODELS)), "normalize": "none", "threads": 1}
    cp = cx.ScoreAverage("thr", split=split, random_state=0, **(usual | options))
    return cp.fit(outputs, y, test=batch[0]), batch


def hits(cp: cx.ScoreAverage, new: tuple[dict[str, np.ndarray], np.ndarray]) -> int:
    return int(cx.metrics.covered(cp.predict_set(new[0]), new[1]).sum())


@pytest.mark.parametrize("split", ["dlcp", "dlcp+"])
def test_recalibrated_sets_cover_fresh_rows_but_not_the_batch_that_chose_the_weights(
    split: str,
) -> None:
    # DLCP+ counts the 40 labelled rows too, so that one row in 41 hardly moves its choice.
    draws, of_batch, of_fresh = 250, 0, 0
    for draw in range(draws):
        rng = np.random.default_rng([draw, 19])
        cp, batch = fitted(split, rng)
        cp.recalibrate(*rows(rng, 79))
        of_batch += hits(cp, batch)
        of_fresh += hits(cp, rows(rng, 10))
    promised = 1 - ALPHA  # k / (n + 1) = 72 / 80
    # Ten fresh rows of a draw share a threshold: the s.e. of one row a draw is more than theirs.
    spread = np.sqrt(promised * ALPHA / draws)
    assert of_fresh / (10 * draws) > promised - Z * spread
    if split == "dlcp":
        assert of_batch / draws < promised - Z * spread


@pytest.mark.parametrize("split", ["dlcp", "dlcp+"])
def test_the_ledger_leaves_out_the_batch_and_says_so_again_after_loading(
    split: str, tmp_path
) -> None:
    rng = np.random.default_rng(0)
    cp, _ = fitted(split, rng)
    cp.recalibrate(*rows(rng, 79))
    told = f"{FRESH}; not for the 1 row whose features chose the weights"
    assert (cp.guarantee_.kind, cp.guarantee_.statement) == ("exact", WHOLE)
    assert cp.guarantee_.assumption == told
    cp.recalibrate(*rows(rng, 79))  # and again
    assert cp.guarantee_.assumption == told
    cp.save(tmp_path / "model.json")
    for again in (
        cx.load(tmp_path / "model.json").guarantee_,
        cx.load_predictor(tmp_path / "model.json").fitted.ledger,
    ):
        assert again == cp.guarantee_
        assert again.table() == cp.guarantee_.table()
    # The sentence follows from the numbers of the fit: a file cannot word it.
    document = json.loads((tmp_path / "model.json").read_text())
    document["predictor"]["fitted"]["guarantee"]["assumption"] = "nothing"
    (tmp_path / "model.json").write_text(json.dumps(document))
    assert cx.load(tmp_path / "model.json").guarantee_ == cp.guarantee_


def test_no_line_of_a_recalibrated_ledger_speaks_of_the_old_batch() -> None:
    rng = np.random.default_rng(0)
    cp, _ = fitted("dlcp", rng)
    assert any("this batch" in entry.says for entry in cp.guarantee_.entries())
    cp.recalibrate(*rows(rng, 79))
    entries = cp.guarantee_.entries()
    assert not any("batch" in entry.says for entry in entries)
    assert [entry.says for entry in entries if entry.source == "rank, marginal"] == [
        "coverage of a fresh row >= 0.9000 on average over calibration draws"
    ]


@pytest.mark.parametrize("calibration", ["class", "group", cx.calibration.Weighted(known=True)])
def test_other_calibrations_leave_out_the_batch_as_well(calibration: object) -> None:
    rng = np.random.default_rng(1)
    outputs, y = rows(rng, 200)
    more = {
        "group": {"strata": np.arange(200) % 2},
        "class": {},
    }.get(str(calibration), {"sample_weight": np.ones(200)})
    cp = cx.ScoreAverage(
        "thr", split="dlcp", calibration=calibration, search=np.eye(len(MODELS)), normalize="none"
    ).fit(outputs, y, test=rows(rng, 150)[0], **more)
    cp.recalibrate(outputs, y, **more)
    assert cp.guarantee_.kind == "exact"
    assert cp.guarantee_.assumption.endswith(
        "; not for the 150 rows whose features chose the weights"
    )


def test_a_pac_statement_leaves_out_the_batch_as_well() -> None:
    rng = np.random.default_rng(2)
    cp, _ = fitted("dlcp", rng, guarantee="pac", delta=0.2)
    assert "coverage of the fitted batch of 1 rows" in cp.guarantee_.statement
    cp.recalibrate(*rows(rng, 79))
    assert cp.guarantee_.kind == "pac"
    assert "batch" not in cp.guarantee_.statement
    assert cp.guarantee_.assumption == (
        "i.i.d. rows; weights chosen without these rows; every label among the classes; not for "
        "the 1 row whose features chose the weights"
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"scores": "thr", "split": "vfcp"},
        {"scores": "thr", "split": "efcp"},
        {"scores": "thr", "split": "efcp", "normalize": "ecdf"},  # none before, exact after
        {"scores": "auto"},
        {"scores": "thr", "weights": np.full(8, 1 / 8)},
    ],
    ids=str,
)
def test_weights_chosen_without_a_test_batch_need_no_exception(settings: dict) -> None:
    rng = np.random.default_rng(3)
    cp = cx.ScoreAverage(alpha=ALPHA, random_state=0, **{"scores": "paper", **settings}).fit(
        *rows(rng, 120)
    )
    cp.recalibrate(*rows(rng, 79))
    assert (cp.guarantee_.kind, cp.guarantee_.assumption) == ("exact", FRESH)


def test_recalibration_keeps_the_weights_and_reads_only_the_fresh_rows() -> None:
    rng = np.random.default_rng(4)
    cp, _ = fitted("efcp", rng)
    weights = cp.weights_.copy()
    outputs, y = rows(rng, 79)
    cp.recalibrate(outputs, y)
    assert_array_equal(cp.weights_, weights)
    fixed = cx.ScoreAverage("thr", alpha=ALPHA, weights=weights, normalize="none").fit(outputs, y)
    assert cp.threshold_ == fixed.threshold_
