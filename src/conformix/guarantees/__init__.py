"""What is promised, in words and numbers: statements, order statistics, the paper's theory."""

from conformix.guarantees.ledger import Entry, Facts, Ledger, batch_bound, conditional_bound
from conformix.guarantees.order import (
    batch_pac_rank,
    marginal_bound,
    n_needed,
    pac_rank,
    restoring_rank,
)
from conformix.guarantees.ranks import RankRule
from conformix.guarantees.statement import (
    EXACT,
    EXACT_FULL,
    KINDS,
    LABELS,
    SELECTED,
    TRANSDUCTIVE,
    UNBOUNDED,
    Guarantee,
    pac_guarantee,
)
from conformix.guarantees.vc import (
    TheoremValues,
    grid_eta,
    kappa,
    largest_tune_alpha,
    relative_bound,
    theorem1,
    theorem2,
    theorem3,
    theorem4,
    vc_eta,
)

__all__ = [
    "EXACT",
    "EXACT_FULL",
    "KINDS",
    "LABELS",
    "SELECTED",
    "TRANSDUCTIVE",
    "UNBOUNDED",
    "Entry",
    "Facts",
    "Guarantee",
    "Ledger",
    "RankRule",
    "TheoremValues",
    "batch_bound",
    "batch_pac_rank",
    "conditional_bound",
    "grid_eta",
    "kappa",
    "largest_tune_alpha",
    "marginal_bound",
    "n_needed",
    "pac_guarantee",
    "pac_rank",
    "relative_bound",
    "restoring_rank",
    "theorem1",
    "theorem2",
    "theorem3",
    "theorem4",
    "vc_eta",
]
