"""The page on guarantees says what the code says: its kinds, their meaning, and where each holds.

``python -m docs.test_guarantees_page`` (from ``tests``) prints the tables as they should stand.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import conformix as cx
from conformix.calibration import Clustered, LabelShift, PerClass, PerGroup, Weighted
from conformix.calibration.merge import MERGES, VOTES, merge_guarantee
from conformix.errors import InvalidInput
from conformix.estimators.cross import Fold
from conformix.guarantees import KINDS, Guarantee

PAGE = (Path(__file__).parents[2] / "docs" / "guarantees.md").read_text(encoding="utf-8")
FITS = ("vfcp", "fixed weights", "after recalibrate", "efcp", "dlcp", "dlcp+", "exact")
REFUSED = "-"

# Settings by how the page writes them. Class 3 and group "c" are rare.
SETTINGS: dict[str, dict[str, Any]] = {
    '`calibration="marginal"`': {},
    '`guarantee="pac"`': {"guarantee": "pac"},
    '`normalize="ecdf"`': {"normalize": "ecdf"},
    '`calibration="class"`': {"calibration": "class"},
    '`PerClass("pooled")`': {"calibration": PerClass("pooled", min_rows=20)},
    '`PerClass("marginal")`': {"calibration": PerClass("marginal", min_rows=20)},
    '`calibration="rc3p"`': {"calibration": "rc3p"},
    "`Clustered(clusters=...)`": {"calibration": Clustered(clusters=[0, 0, 1, 1])},
    '`calibration="group"`': {"calibration": "group"},
    '`PerGroup("pooled")`': {"calibration": PerGroup("pooled", min_rows=20)},
    '`PerGroup("marginal")`': {"calibration": PerGroup("marginal", min_rows=20)},
    "`Weighted(known=True)`": {"calibration": Weighted(known=True)},
    '`calibration="weighted"`': {"calibration": "weighted"},
    "`LabelShift(ratios, known=True)`": {"calibration": LabelShift((1, 1, 2, 2), known=True)},
    "`LabelShift(ratios)`": {"calibration": LabelShift((1, 1, 2, 2))},
}


@cache
def guarantee(told: str, fit: str) -> Any:
    """What holds for a fit with these settings; None where it is refused."""
    settings = SETTINGS[told]
    rng = np.random.default_rng(0)
    n = 400
    y = rng.choice(4, size=n, p=[0.4, 0.38, 0.2, 0.02])
    logits = rng.normal(size=(n, 4))
    logits[np.arange(n), y] += 2
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rows: dict[str, Any] = {}
    name = getattr(settings.get("calibration"), "name", settings.get("calibration"))
    if name == "group":
        rows["strata"] = rng.choice(["a", "b", "c"], size=n, p=[0.5, 0.48, 0.02])
    if name == "weighted":
        rows["sample_weight"] = np.ones(n)
    where: dict[str, Any] = {"split": fit}
    if fit == "fixed weights":
        where = {"weights": [0.5, 0.25, 0.25]}
    if fit == "after recalibrate":
        where = {"split": "vfcp" if name == "rc3p" else "efcp"}
    cp = cx.ScoreAverage(search=cx.search.GridSearch(4), random_state=0, **where, **settings)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cp.fit(probs, y, test=probs, **rows)
            if fit == "after recalibrate":
                cp.recalibrate(probs, y, **rows)
    except InvalidInput:
        return None
    return cp.guarantee_


def kind(told: str, fit: str) -> str:
    found = guarantee(told, fit)
    return REFUSED if found is None else str(found.kind)


def definitions() -> list[str]:
    return [f"| `{name}` | {meaning} |" for name, meaning in KINDS.items()]


def where_each_holds() -> Iterator[str]:
    yield "| settings | " + " | ".join(FITS) + " |"
    yield "|---" * (len(FITS) + 1) + "|"
    for told in SETTINGS:
        yield f"| {told} | " + " | ".join(kind(told, fit) for fit in FITS) + " |"


def test_the_page_defines_every_kind_as_the_code_does() -> None:
    for line in definitions():
        assert line in PAGE.splitlines()


def test_there_are_no_other_kinds() -> None:
    assert set(get_args(get_type_hints(Guarantee)["kind"])) == set(KINDS)
    doc = " ".join(str(Guarantee.__doc__).split())
    for name, meaning in KINDS.items():
        said = doc.partition(f"``{name}``: ")[2].replace("``", "")
        assert said.startswith(meaning)


def test_the_page_shows_where_each_kind_holds() -> None:
    assert "\n".join(where_each_holds()) in PAGE


def test_every_kind_is_somewhere_in_that_table() -> None:
    cells = {cell.strip() for line in where_each_holds() for cell in line.split("|")}
    assert set(KINDS) | {REFUSED} <= cells


@pytest.mark.parametrize("told", SETTINGS)
def test_an_approximate_statement_names_what_is_lost_or_for_whom(told: str) -> None:
    losses = ("minus a selection term", "less the error of the ratios")
    nobody = ("no conditional statement for", "only together", "none for groups")
    for fit in FITS:
        if kind(told, fit) == "approximate":
            statement = guarantee(told, fit).statement
            assert any(named in statement for named in (*losses, *nobody)), statement


def test_what_stands_beside_score_average_is_exact_as_stated_or_none() -> None:
    rng = np.random.default_rng(1)
    probs, y = rng.dirichlet(np.ones(3), size=80), rng.integers(3, size=80)
    folds = [Fold(probs[i::4], y[i::4]) for i in range(4)]
    cross = cx.CrossAverage("thr", alpha=0.1, weights=[1.0]).fit(folds)
    online = cx.OnlineAverage(window=20)
    assert online.guarantee_.kind == "none"
    online.run(probs, y)
    assert (cross.guarantee_.kind, online.guarantee_.kind) == ("exact", "exact")
    vacuous = cx.CrossAverage("thr", alpha=0.6, weights=[1.0]).fit(folds)
    assert vacuous.guarantee_.kind == "none"
    assert {merge_guarantee(name).kind for name in (*MERGES, *VOTES)} == {"exact"}
    for named in ("`CrossAverage`", "`OnlineAverage`", "`conformix.calibration.merge`"):
        assert named in PAGE


if __name__ == "__main__":
    sys.stdout.write("\n".join([*definitions(), "", *where_each_holds(), ""]))
