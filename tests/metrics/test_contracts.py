"""Every built-in normaliser and metric keeps the public contract."""

import numpy as np
import pytest

from conformix.metrics import METRICS
from conformix.scores.scale import NORMALIZERS, NaturalScale
from conformix.testing import MetricContract, NormalizerContract


def checks(contract):
    return [name for name in dir(contract) if name.startswith("test_")]


@pytest.mark.parametrize("check", checks(NormalizerContract))
@pytest.mark.parametrize("normalizer", [*NORMALIZERS.values(), NaturalScale((2.0, 0.1))], ids=str)
def test_built_in_normalizer(normalizer, check):
    getattr(type("Case", (NormalizerContract,), {"normalizer": normalizer})(), check)()


NEED_ALPHA = {"class_coverage_gap", "size_stratified_violation"}


@pytest.mark.parametrize("check", checks(MetricContract))
@pytest.mark.parametrize("name", list(METRICS))
def test_built_in_metric(name, check):
    options = {"alpha": 0.1} if name in NEED_ALPHA else {}
    case = {"metric": staticmethod(METRICS[name]), "options": options}
    getattr(type("Case", (MetricContract,), case)(), check)()


def test_the_contract_catches_a_step_function():
    class Steps:
        name, learns = "steps", False

        def fit(self, scores, columns):
            return lambda values: -np.round(values)

    class Bad(NormalizerContract):
        normalizer = Steps()

    with pytest.raises(AssertionError):
        Bad().test_never_turns_an_order_round()
