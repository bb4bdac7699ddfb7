"""Write the golden files of models of responses: ``python tests/regression/golden/write.py``.

Only whoever raises the schema writes new ones, under new names; those that are there stay.
"""

from __future__ import annotations

import json
from pathlib import Path

import conformix as cx
from conformix.fit.saved.migrations import SCHEMA
from regression.responses import model_and_responses

HERE = Path(__file__).parent
KINDS = {
    "average": {},
    "bins": {"calibration": "bins", "y_range": (-20.0, 20.0)},
    "exact": {"scores": ("abs", "norm", "cqr_m"), "split": "exact"},
}


def main() -> None:
    """Write a model of every kind, and what it predicts."""
    model, y = model_and_responses(80, 4)
    for name, options in KINDS.items():
        target = HERE / f"{name}_{SCHEMA}.json"
        if target.exists():
            continue
        cp = cx.RegressionAverage(alpha=0.2, random_state=0, threads=1, **options).fit(model, y)
        cp.save(target)
        made = cp.predict_interval(model_and_responses(20, 5)[0])
        expected = {
            "intervals": [[float(a).hex(), float(b).hex()] for a, b in made],
            "guarantee": str(cp.guarantee_),
        }
        (HERE / "expected" / target.name).write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
