"""For the tests of those who extend conformix.

Contracts as test classes, the audits of exactness and of roles, and comparisons of sets.
"""

from conformix.testing.audit import AuditReport, leave_one_out
from conformix.testing.contracts import (
    MetricContract,
    NormalizerContract,
    RegressionScoreContract,
    ScoreContract,
    assert_same_sets,
    awkward_responses,
    awkward_rows,
)
from conformix.testing.roles import (
    FittedNumbers,
    RoleReport,
    audit_roles,
    fitted_numbers,
    fold_numbers,
    moved_numbers,
)

__all__ = [
    "AuditReport",
    "FittedNumbers",
    "MetricContract",
    "NormalizerContract",
    "RegressionScoreContract",
    "RoleReport",
    "ScoreContract",
    "assert_same_sets",
    "audit_roles",
    "awkward_responses",
    "awkward_rows",
    "fitted_numbers",
    "fold_numbers",
    "leave_one_out",
    "moved_numbers",
]
