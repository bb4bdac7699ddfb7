"""A fit leaves values behind: nobody changes them, and those with arrays are told apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.calibration import LabelShift, Marginal
from conformix.calibration.cuts import Seen
from conformix.calibration.shift import density_ratio
from conformix.data.outputs import check_outputs
from conformix.data.row_data import NO_DATA
from conformix.guarantees.oracle import find_oracle
from conformix.guarantees.order import RankRule
from conformix.guarantees.vc import theorem2
from conformix.kernels import combine
from conformix.search import GridSearch

pytestmark = pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
RNG = np.random.default_rng(0)
Y = RNG.integers(3, size=90)
PROBS = 0.5 * RNG.dirichlet(np.ones(3), size=90) + 0.5 * np.eye(3)[Y]
# Two of these are the same only where they are one object: arrays have no single answer.
TOLD_APART = {
    "AtLevel", "Blend", "Blended", "DensityRatio", "FullFitted", "Gaps", "Oracle", "Partition",
    "Reweighted", "Single", "Stratified", "Tables",
}  # fmt: skip
CHANGING = {"Tables"}  # learns gaps when they are asked for


def fitted(**options: Any) -> Any:
    """Return a model with few weights to choose among."""
    rows = options.pop("rows", {})
    options = {"scores": ("thr", "aps"), "search": GridSearch(4)} | options
    cp = cx.ScoreAverage(alpha=0.2, random_state=0, **{"scores": "paper", **options}).fit(
        PROBS, Y, **rows
    )
    cp.predictor_.predict_set(PROBS[:3], **{name: values[:3] for name, values in rows.items()})
    return cp


def values_of(thing: Any) -> Iterator[Any]:
    """Yield a value and all that it is made of."""
    if is_dataclass(thing) and type(thing).__module__.startswith("conformix."):
        yield thing
        for field in fields(thing):
            yield from values_of(getattr(thing, field.name))
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from values_of(value)


def assert_values(*things: Any, names: set[str]) -> None:
    """Check all values that some things are made of, among them those of some names."""
    values = [value for thing in things for value in values_of(thing)]
    assert names <= {type(value).__name__ for value in values}
    for value in values:
        name, field = type(value).__name__, fields(value)[0].name if fields(value) else "name"
        if name not in CHANGING:
            with pytest.raises(FrozenInstanceError):
                setattr(value, field, None)
        if name in TOLD_APART:
            assert hash(value) == object.__hash__(value)


@pytest.mark.parametrize(
    ("calibration", "rows", "names"),
    [
        ("marginal", {}, {"Single"}),
        ("class", {}, {"Stratified", "Partition"}),
        ("group", {"strata": Y % 2}, {"Stratified", "Partition"}),
        ("cluster", {}, {"Stratified", "Partition"}),
        ("rc3p", {}, {"Stratified", "Partition"}),
        ("weighted", {"sample_weight": np.ones(90)}, {"Reweighted", "Weighted"}),
        (LabelShift((1.0, 1.0, 2.0)), {}, {"Reweighted", "LabelShift"}),
    ],
    ids=["marginal", "class", "group", "cluster", "rc3p", "weighted", "label shift"],
)
def test_a_fit_by_any_calibration_leaves_values(calibration, rows, names) -> None:
    cp = fitted(calibration=calibration, rows=rows)
    found = cp.predictor_.fitted
    level = [] if rows else [found.at_level(0.2)]
    scheme = cx.ScoreAverage("paper", calibration=calibration).calibration
    plans = [found.cuts.plan, Marginal(), scheme]
    names = names | {"Predictor", "Calibrated", "Rule", "Ledger", "Facts", "Guarantee"}
    assert_values(cp.predictor_, found, *level, *plans, names=names)


def test_the_exact_split_leaves_values_and_tables_that_are_told_apart() -> None:
    cp = fitted(split="exact")
    found = cp.predictor_.fitted
    names = {"FullFitted", "Tables", "Gaps", "Ledger", "Rule"}
    assert_values(cp.predictor_, found.ledger, found.rule, found.tables(0.2), names=names)


def test_a_blend_and_what_it_stands_for_are_values() -> None:
    cp = cx.ScoreAverage("auto", alpha=0.2, random_state=0).fit({"a": PROBS, "b": PROBS[::-1]}, Y)
    outputs = check_outputs({"a": PROBS, "b": PROBS}, "probs")
    blended = next(iter(cp.predictor_.blend.over(outputs).models.values()))
    assert_values(cp.predictor_, blended, names={"Blend", "Blended"})


def test_what_is_said_of_samples_ranks_and_theorems_are_values() -> None:
    assert_values(
        theorem2(1000, alpha=0.1, n_classes=10, d=3, delta=0.1),
        RankRule(),
        density_ratio(PROBS[:40], PROBS[40:], folds=1),
        Seen(Y, Y, NO_DATA, (), 3, 9, 0.1, True, RNG),
        names={"TheoremValues", "RankRule", "DensityRatio", "Seen", "RowData"},
    )


def test_true_scores_of_the_exact_split_are_those_of_its_weights_for_reading() -> None:
    found = fitted(split="exact").predictor_.fitted
    own = found.scores[np.arange(len(found.y)), found.y]
    assert_array_equal(found.calibration, np.sort(combine(own, found.rule.weights)))


def test_the_best_weights_of_a_pool_are_a_value() -> None:
    scores = np.stack([PROBS, PROBS**2], axis=-1)
    assert_values(find_oracle(scores, Y, alpha=0.2, resolution=4), names={"Oracle"})
