"""Sets and p-values of Dask arrays are those of the same rows in memory, levels and all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import conformix as cx
from conformix.calibration import PerGroup, Weighted

da = pytest.importorskip("dask.array")

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.full(4, 0.6), size=160)
Y = (P.cumsum(axis=1) > RNG.random((160, 1))).argmax(axis=1)
GROUPS = np.where(P[:, 0] > 0.2, "high", "low")
WEIGHTS = P[:, 1] + 0.2
LEVELS = (0.1, 0.25, 0.5)
BY: dict[str, tuple[Any, dict[str, np.ndarray]]] = {
    "one threshold": ("marginal", {}),
    "classes": ("class", {}),
    "groups": (PerGroup(), {"strata": GROUPS}),
    "weights": (Weighted(known=True), {"sample_weight": WEIGHTS}),
}


@pytest.mark.parametrize("name", BY)
def test_several_levels_at_once_are_each_of_their_own_level(name: str) -> None:
    calibration, rows = BY[name]
    cp = cx.ScoreAverage("thr", alpha=0.2, calibration=calibration, weights=[1.0])
    cp.fit(P[:100], Y[:100], **{key: values[:100] for key, values in rows.items()})
    new = {key: values[100:] for key, values in rows.items()}
    nested = cp.predict_set(P[100:], alpha=LEVELS, **new)
    chunks = da.from_array(P[100:], chunks=(25, -1))
    there = cp.predict_set(chunks, alpha=LEVELS, **new)
    sizes = []
    for level in LEVELS:
        mask = there[level].compute()
        np.testing.assert_array_equal(mask, nested.at(level).mask)
        sizes.append(mask.sum())
    assert sizes[0] > sizes[1] > sizes[2]
    pvalues = cp.predict_pvalues(chunks, **new).compute()
    np.testing.assert_array_equal(pvalues, cp.predict_pvalues(P[100:], **new))
