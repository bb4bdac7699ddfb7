"""What is promised, in words and numbers: statements, order statistics, the paper's theory."""

from conformix.guarantees.order import (
    batch_pac_rank,
    marginal_bound,
    n_needed,
    pac_rank,
    restoring_rank,
)
from conformix.guarantees.statement import (
    EXACT,
    EXACT_FULL,
    SELECTED,
    TRANSDUCTIVE,
    UNBOUNDED,
    Guarantee,
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
    "SELECTED",
    "TRANSDUCTIVE",
    "UNBOUNDED",
    "Guarantee",
    "TheoremValues",
    "batch_pac_rank",
    "grid_eta",
    "kappa",
    "largest_tune_alpha",
    "marginal_bound",
    "n_needed",
    "pac_rank",
    "relative_bound",
    "restoring_rank",
    "theorem1",
    "theorem2",
    "theorem3",
    "theorem4",
    "vc_eta",
]
