"""Mutants that change nothing a caller can see, each with its proof."""

from __future__ import annotations

# By the name of the mutant; the comment holds the changed line.
PROOFS: dict[str, str] = {
    # conformal.py: if values.shape[1] <= 1:
    "82612a156f3c47a2": (
        "A table of p-values has at least one column (`check_matrix` refuses none)"
        ", so `<= 1` is `== 1`."
    ),
    # conformal.py, in _snapped: `0 != simple < 1`
    "413dfe003efa00d9": (
        "`exact` lies strictly between 0 and 1 (checked by the caller), so its nearest simple"
        " fraction is never negative: `0 != simple` is `0 < simple`."
    ),
}
