"""The commands under options that are crossed: what they write is what the library says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conformix as cx

pytest.importorskip("typer")
from cli.drawn import NAMES, draw, write_files
from conformix.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.SmallBatchWarning")

# split, calibration, guarantee, normalize, scores, alpha of the fit, and another one.
CROSSED = [
    ("vfcp", "class", "pac", "auto", ("thr", "aps", "rank"), 0.2, 0.35),
    ("vfcp", "cluster", "marginal", "ecdf", ("aps", "margin"), 0.1, 0.25),
    ("vfcp", "rc3p", "pac", "none", ("raps(penalty=0.1, k_reg=2)", "thr"), 0.25, 0.1),
    ("efcp", "marginal", "pac", "scale", ("thr", "aps"), 0.3, 0.15),
    ("efcp", "class", "marginal", "auto", ("thr",), 0.15, 0.4),
    ("dlcp", "marginal", "pac", "auto", ("thr", "rank"), 0.3, 0.2),
    ("dlcp+", "class", "marginal", "none", ("thr", "margin"), 0.2, 0.1),
    ("exact", "marginal", "marginal", "scale", ("thr", "aps"), 0.1, 0.3),
]


@pytest.mark.parametrize("crossed", CROSSED, ids=lambda c: f"{c[0]}, {c[1]}, {c[2]}")
def test_commands_say_what_the_library_says_at_every_level(
    crossed: tuple[Any, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    split, calibration, guarantee, normalize, scores, alpha, other = crossed
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)

    def said(*arguments: str) -> list[dict[str, Any]]:
        assert main([*arguments, "--json"]) == 0, capsys.readouterr().err
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    transductive = split.startswith("dlcp")
    (record,) = said(
        "fit", "calibration.csv", "-o", "model.json", "--alpha", str(alpha), "--split", split,
        "--calibration", calibration, "--guarantee", guarantee, "--delta", "0.2", "--seed", "5",
        "--normalize", normalize, "--scores", ",".join(scores), "--resolution", "6",
        *(("--test", "new.csv") if transductive else ()),
    )  # fmt: skip
    (probs, y), (held_out, true), (new, _) = draw(0, 300), draw(1, 200), draw(2, 50)
    options = {"split": split, "calibration": calibration, "guarantee": guarantee, "delta": 0.2}
    twin = cx.ScoreAverage(
        scores, alpha=alpha, normalize=normalize, random_state=5, search=cx.search.GridSearch(6),
        **options,
    ).fit(probs, np.array(NAMES)[y], classes=NAMES, test=new if transductive else None)  # fmt: skip
    facts = twin.guarantee_.facts
    assert record["weights"] == twin.weights_.tolist()
    assert record["statement"] == str(twin.guarantee_)
    assert (record["n_tune"], record["n_calibrate"]) == (facts.n_tune, facts.n_cal)
    assert record["held_out_size"] == twin.held_out_size_
    for level in (alpha, other):
        asked = () if level == alpha else ("--alpha", str(level))
        rows = said("predict", "model.json", "new.csv", *asked)
        expected = twin.predict_set(new, alpha=level)
        assert [row["labels"] for row in rows] == expected.members()
        *measures, last = said("evaluate", "model.json", "test.csv", *asked)
        sets = np.asarray(twin.predict_set(held_out, alpha=level))
        found = {line["metric"]: line["value"] for line in measures}
        assert found["coverage"] == pytest.approx(sets[np.arange(200), true].mean())
        assert found["mean_size"] == pytest.approx(sets.sum() / 200)
        assert found["empty_rate"] == pytest.approx((sets.sum(axis=1) == 0).mean())
        hits = sets[np.arange(200), true]
        gaps = [abs(hits[true == label].mean() - (1 - level)) for label in range(4)]
        assert found["class_coverage_gap"] == pytest.approx(np.mean(gaps))
        verdict = twin.verdict(held_out, np.array(NAMES)[true], alpha=level)
        assert last["alpha"] == level
        assert last["verdict"] == verdict.sentence
        assert last["shortfall_pvalue"] == verdict.pvalue
        assert last["promised"] == verdict.promised
