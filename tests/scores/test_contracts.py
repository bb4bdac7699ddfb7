"""Every built-in score and scale keeps its public contract."""

import numpy as np
import pytest

from conformix.scores import SCORES, Custom, Score
from conformix.scores.scale import NORMALIZERS, NaturalScale
from conformix.testing import NormalizerContract, ScoreContract

NEED_LOGITS = ("logit", "energy")


def variants(name: str) -> list[Score]:
    plain = SCORES[name]()
    fields = plain.__dataclass_fields__
    options = [{}]
    options += [{"temperature": t} for t in (0.5, 3.0) if "temperature" in fields]
    options += [{"randomized": True}] if "randomized" in fields else []
    options += [{"negative": True}] if "negative" in fields else []
    options += [{"tie_break": "prob"}] if "tie_break" in fields else []
    return [SCORES[name](**option) for option in options]


def contract(score: Score, kind: str) -> type:
    named = f"Test_{score}_{kind}"
    return type(named, (ScoreContract,), {"score": score, "kind": kind})


CASES = [
    (score, kind)
    for name in SCORES
    for score in variants(name)
    for kind in ("probs", "logits")
    if kind == "logits" or name not in NEED_LOGITS
]
CHECKS = [name for name in dir(ScoreContract) if name.startswith("test_")]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("score", "kind"), CASES, ids=str)
def test_built_in_score(score, kind, check):
    getattr(contract(score, kind)(), check)()


class TestCustomScore(ScoreContract):
    score = Custom(np.sqrt)


def test_the_contract_catches_a_score_that_looks_at_other_rows():
    class Bad(ScoreContract):
        score = Custom(lambda probs: probs - probs.mean(axis=0))

    with pytest.raises(AssertionError):
        Bad().test_treats_rows_one_by_one()


def test_the_contract_catches_a_score_that_turns_the_order_round():
    class Bad(ScoreContract):
        score = Custom(lambda probs: -probs)

    with pytest.raises(AssertionError):
        Bad().test_never_scores_a_likelier_label_lower()


def test_the_contract_catches_a_score_that_prefers_a_label():
    class Bad(ScoreContract):
        score = Custom(lambda probs: probs + np.arange(probs.shape[1]))

    with pytest.raises(AssertionError):
        Bad().test_moves_with_the_labels()


@pytest.mark.parametrize(
    "check", [name for name in dir(NormalizerContract) if name.startswith("test_")]
)
@pytest.mark.parametrize("normalizer", [*NORMALIZERS.values(), NaturalScale((2.0, 0.1))], ids=str)
def test_built_in_normalizer(normalizer, check):
    getattr(type("Case", (NormalizerContract,), {"normalizer": normalizer})(), check)()


def test_the_contract_catches_a_step_function():
    class Steps:
        name, learns = "steps", False

        def fit(self, scores, columns):
            return lambda values: -np.round(values)

    class Bad(NormalizerContract):
        normalizer = Steps()

    with pytest.raises(AssertionError):
        Bad().test_never_turns_an_order_round()
