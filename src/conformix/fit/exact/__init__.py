"""Exact coverage without splitting: the candidate point takes part in the selection.

Full-conformal selection in the spirit of ModSel-CP (Liang, Zhu & Barber, arXiv 2408.07066),
specialised to score weights. Give the choice of weights the hypothetical point (x, y) too, and the
rule treats the n + 1 points alike: coverage is at least ``1 - alpha`` by exchangeability, with all
rows used for everything. Per weight vector the n rows enter through two thresholds, two counts and
the few scores between; only weights with ``min(count(c_{k-1}) + 1, count(c_k))`` at most
``min count(c_k) + K`` can ever win, since one more point moves a count by at most K plus that gap.
"""

from conformix.fit.exact.shortfall import leave_one_out_efcp

__all__ = ["leave_one_out_efcp"]
