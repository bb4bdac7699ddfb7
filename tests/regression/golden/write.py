"""Write the golden files of models of responses: ``python tests/regression/golden/write.py``.

Only whoever raises the schema writes new ones, under new names; those that are there stay.
"""

from __future__ import annotations

import json
from pathlib import Path

import conformix as cx
from conformix.fit.saved.migrations import SCHEMA
from regression.responses import Told, model_and_responses, told_rows

HERE = Path(__file__).parent
KINDS = {
    "average": {},
    "bins": {"calibration": "bins", "y_range": (-20.0, 20.0)},
    "exact": {"scores": ("abs", "norm", "cqr_m"), "split": "exact"},
}


def write_folds() -> None:
    """Write folds that rank within groups, and what they predict."""
    target = HERE / "folds" / f"groups_{SCHEMA}.json"
    if target.exists():
        return
    X, y, groups = told_rows(90, 4)
    reg = cx.CrossConformalRegressor(Told(), cv=3, alpha=0.2, calibration="group", random_state=0)
    reg.fit(X, y, strata=groups).save(target)
    new, _, their_groups = told_rows(20, 5)
    write_expected(target, reg.predict_interval(new, strata=their_groups), reg.guarantee_)


def write_expected(target: Path, made: cx.Intervals, guarantee: object) -> None:
    """Write what the model of a file predicts."""
    expected = {
        "intervals": [[float(a).hex(), float(b).hex()] for a, b in made],
        "guarantee": str(guarantee),
    }
    (HERE / "expected" / target.name).write_text(json.dumps(expected, indent=1) + "\n")


def main() -> None:
    """Write a model of every kind, and what it predicts."""
    write_folds()
    model, y = model_and_responses(80, 4)
    for name, options in KINDS.items():
        target = HERE / f"{name}_{SCHEMA}.json"
        if target.exists():
            continue
        cp = cx.RegressionAverage(alpha=0.2, random_state=0, threads=1, **options).fit(model, y)
        cp.save(target)
        made = cp.predict_interval(model_and_responses(20, 5)[0])
        write_expected(target, made, cp.guarantee_)


if __name__ == "__main__":
    main()
