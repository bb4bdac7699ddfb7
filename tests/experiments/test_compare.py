from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import conformix as cx
from conformix.experiments import Results, compare, judge


def rows_of(sizes: dict[str, float], noise: float, guarantee: str = "exact") -> list[dict]:
    rng = np.random.default_rng(0)
    return [
        {"method": method, "alpha": 0.1, "run": run, "size": size * np.exp(noise * rng.normal()),
         "n_test": 20, "n_calibrate": 80, "guarantee": guarantee}
        for run in range(30)
        for method, size in sizes.items()
    ]  # fmt: skip


def judged(sizes: dict[str, float], noise: float, guarantee: str = "exact") -> str:
    others = [name for name in sizes if name not in ("thr", "aps", "average")]
    results = Results(rows_of(sizes, noise, guarantee))
    found = judge(results, 0.1, singles=["thr", "aps"], average="average", others=others)
    return found.sentence


def test_a_clear_gain_is_recommended_with_its_interval_and_guarantee() -> None:
    assert judged({"thr": 10.0, "aps": 20.0, "average": 7.7}, 0.01) == (
        "use average: sets are 23 % [22, 24] smaller than those of the best single score (thr), "
        "guarantee exact."
    )


def test_the_guarantee_that_is_said_is_that_of_the_method() -> None:
    sentence = judged({"thr": 10.0, "aps": 20.0, "average": 7.7}, 0.01, "approximate")
    assert sentence.endswith("guarantee approximate.")


def test_a_tuned_score_that_beats_the_average_is_recommended() -> None:
    sentence = judged({"thr": 10.0, "aps": 20.0, "average": 9.0, "tuned-thr:vfcp": 7.0}, 0.01)
    assert sentence.startswith("use tuned-thr:vfcp: sets are 30 % [")


def test_a_loss_is_said() -> None:
    sentence = judged({"thr": 10.0, "aps": 20.0, "average": 10.5}, 0.001)
    assert sentence.startswith("averaging does not help here: its sets are 5.0 % [")
    assert sentence.endswith("larger than those of thr alone; use thr, guarantee exact.")


def test_a_gain_within_the_noise_is_not_recommended() -> None:
    sentence = judged({"thr": 10.0, "aps": 20.0, "average": 9.5}, 0.3)
    assert sentence.startswith("averaging does not help here")
    assert sentence.endswith("use thr, guarantee exact.")


def test_a_gain_is_claimed_by_chance_in_few_cases() -> None:
    claims = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        base = rng.normal(size=30)
        rows = [
            {"method": m, "alpha": 0.1, "run": r, "size": float(np.exp(0.1 * (base[r] + extra))),
             "n_test": 0, "n_calibrate": 80, "guarantee": "exact"}
            for r in range(30)
            for m, extra in zip(("thr", "average", "uniform", "x"), rng.normal(size=4), strict=True)
        ]  # fmt: skip
        found = judge(
            Results(rows), 0.1, singles=["thr"], average="average", others=["uniform", "x"]
        )
        claims += found.method != "thr"
    assert claims <= 13  # at most 5 % of 200, plus one standard deviation


def test_comparing_one_model_sets_the_average_beside_tuned_and_single_scores() -> None:
    found = compare(
        "cifar100", models=["wideresnet_16_4"], alpha=0.05, runs=3, rows=1500, resolution=10,
        workers=1,
    )  # fmt: skip
    names = {record["method"] for record in found.summary()}
    assert {"thr", "aps", "rank", "raps", "saps", "average:vfcp", "tuned-thr:vfcp"} <= names
    sizes = [record["size"] for record in found.summary()]
    assert sizes == sorted(sizes)
    assert len(found.table().rows) == len(names)
    assert found.verdict.sentence.endswith(".")


def test_comparing_several_models_adds_the_ensembles(tmp_path: Path) -> None:
    options = {"scores": ["thr"], "runs": 2, "rows": 400, "resolution": 4, "folder": tmp_path}
    found = compare("cifar10_trio", workers=1, **options)
    names = {record["method"] for record in found.summary()}
    assert {"resnet56.thr", "vgg16_bn.thr", "probability-ensemble", "logit-ensemble"} <= names
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert len(lines) == 2 * len(names)
    again = compare("cifar10_trio", workers=1, **options)
    assert again.verdict == found.verdict


def test_two_splits_are_the_least() -> None:
    with pytest.raises(cx.InvalidInput) as caught:
        compare("cifar10", runs=1)
    assert str(caught.value) == "runs must be at least 2, for intervals over splits; got 1."
