"""For the tests of those who extend conformix.

Contracts as test classes, the audit of exactness, and comparisons of sets.
"""

from conformix.testing.audit import AuditReport, leave_one_out
from conformix.testing.comparison import assert_same_sets
from conformix.testing.contracts import (
    MetricContract,
    NormalizerContract,
    ScoreContract,
    awkward_rows,
)

__all__ = [
    "AuditReport",
    "MetricContract",
    "NormalizerContract",
    "ScoreContract",
    "assert_same_sets",
    "awkward_rows",
    "leave_one_out",
]
