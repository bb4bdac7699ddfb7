"""Every built-in metric keeps the public contract."""

import pytest

from conformix.metrics import METRICS
from conformix.testing import MetricContract

NEED_ALPHA = {"class_coverage_gap", "size_stratified_violation"}
CHECKS = [name for name in dir(MetricContract) if name.startswith("test_")]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", list(METRICS))
def test_built_in_metric(name, check):
    options = {"alpha": 0.1} if name in NEED_ALPHA else {}
    case = {"metric": staticmethod(METRICS[name]), "options": options}
    getattr(type("Case", (MetricContract,), case)(), check)()
