"""Every value of a model file, changed; ``cd tests && python -m fit.leaves [KIND]`` tries all.

Whatever one value of a model file is changed to: refused in one sentence, or harmless.

Harmless means that the model predicts the same sets and p-values as before, bit for bit, and that
its ledger promises no more. A few values are data that nothing else in the file determines; they
are listed with the reason why a change of them can break no promise that the file could keep.
"""

from __future__ import annotations

import copy
import fnmatch
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import conformix as cx
from conformix.errors import InvalidInput
from fit.models import RECIPES, answers, document, fitted, leaves

MISSING = object()
VALUES = (-1, 0, 0.5, 10**9, "NaN", "x", None, [], {}, True, False)
# Data of the fit that nothing else in the file determines, and why a change does no harm beyond
# that of other data: places as patterns.
DATA = {
    "predictor.key": (
        "the key of the uniform numbers of randomised scores; any key gives uniform numbers"
    ),
    "predictor.classes.*": "what a class is called is the word of whoever fitted the model",
    "predictor.fitted.cuts.n_rare": (
        "how many classes share the last cluster: a stratum like any other, so that what is said "
        "of a cluster holds for it; of other schemes the number is checked against the cells"
    ),
    "predictor.fitted.cuts.names.*": "what a group is called, in the same order",
    "predictor.fitted.calibration.data.*": (
        "one calibration score, still sorted and in range: a threshold moves by one rank at most, "
        "coverage by 1 / (n + 1)"
    ),
    "predictor.fitted.scores.data.*": "one score of one calibration row, finite and in range",
    "predictor.fitted.y.data.*": "the label of one calibration row, in range",
    "predictor.fitted.transform.curves.*.data.*": (
        "one knot or level of a curve that still rises to 1: another increasing scale"
    ),
    "predictor.blend.coefficients.data.*": "a coefficient, finite, not negative: another blend",
    "predictor.blend.evidence.*": "a coefficient of the evidence, finite: another blend",
    "predictor.fitted.cuts.stratum.data.*": "the stratum of one calibration row, one that exists",
    "predictor.fitted.cuts.weight.data.*": "the importance of one calibration row, a finite number",
    "predictor.fitted.limits.ranks.data.*": "the largest rank of one class, from 1 to K",
    "predictor.fitted.limits.drop": "how far a label falls: more than scores can differ",
    "predictor.fitted.weights.data.*": "a candidate of the exact split, still on the simplex",
    "predictor.fitted.cuts.cells.data.*": "which cluster a class is in, one that exists",
    "predictor.columns.*.2.data.*": (
        "an entry of the matrix of a score, in the multiples and of the norm of such matrices: "
        "another score"
    ),
    "predictor.fitted.facts.n_batch": (
        "which rows taught scores is the word of whoever fitted the model: no file shows its rows"
    ),
    "predictor.fitted*.n_unlabelled": "the same of rows without labels",
    "predictor.columns.*": "another score of the same name, in params as well",
}


def dotted(place: tuple[Any, ...]) -> str:
    return ".".join(map(str, place))


def is_data(place: tuple[Any, ...]) -> bool:
    return any(fnmatch.fnmatch(dotted(place), pattern) for pattern in DATA)


def promises(model: cx.ScoreAverage) -> set[Any]:
    """Return what the ledger says that is not empty."""
    return {(e.source, e.says, e.needs) for e in model.guarantee_.entries() if not e.vacuous}


STRENGTH = {"none": 0, "approximate": 1, "pac": 2, "exact": 3}


@cache
def _answers_before(name: str) -> tuple[Any, ...]:
    return answers(fitted(name), name)


def judge(name: str, place: tuple[Any, ...], edited: dict[str, Any], path: Path) -> str | None:
    """Return what is wrong with how an edited file is met; None where nothing is."""
    path.write_text(json.dumps(edited))
    try:
        model = cx.load(path)
    except InvalidInput as error:
        said = str(error)
        fine = "\n" not in said and len(said) < 400 + len(str(path))
        return None if fine else f"not one short sentence: {said}"
    except Exception as error:
        return f"raised {error!r}"
    before = fitted(name)
    faults = {f"promises more: {model.guarantee_}": STRENGTH[model.guarantee_.kind]
              > STRENGTH[before.guarantee_.kind]}  # fmt: skip
    try:
        same = answers(model, name) == _answers_before(name)
    except Exception as error:
        return f"loads, and predicts with {error!r}"
    if not is_data(place):
        new = promises(model) - promises(before)
        faults |= {"predicts something else": not same, f"promises more: {new}": bool(new)}
    return next((fault for fault, there in faults.items() if there), None)


def changes(name: str) -> list[tuple[tuple[Any, ...], Any]]:
    """Return every place of a model file with every value that is put there; MISSING removes it."""
    whole = document(name)
    return [(place, value) for place in leaves(whole) for value in (*VALUES, MISSING)]


def faults(name: str, some: Iterable[tuple[tuple[Any, ...], Any]], path: Path) -> list[str]:
    """Return what is wrong with how changed files are met."""
    whole, wrong = document(name), []
    for place, value in some:
        edited = document(name)
        node = edited
        for key in place[:-1]:
            node = node[key]
        if value is MISSING:
            if isinstance(node, list):
                continue
            del node[place[-1]]
        else:
            node[place[-1]] = copy.deepcopy(value)
        if edited == whole:
            continue
        said = judge(name, place, edited, path)
        if said is not None:
            wrong.append(f"{name}: {dotted(place)} = {value!r}: {said}")
    return wrong


def main() -> int:
    bad = 0
    for name in sys.argv[1:] or RECIPES:
        begun, tried = time.perf_counter(), changes(name)
        with tempfile.TemporaryDirectory() as folder:
            found = faults(name, tried, Path(folder) / "m.json")
        bad += len(found)
        sys.stdout.write(
            f"{name}: {len(tried):,} changes, {len(found)} neither refused nor harmless, "
            f"{time.perf_counter() - begun:.0f} s\n"
        )
        sys.stdout.writelines(f"  {line}\n" for line in found[:40])
        sys.stdout.flush()
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
