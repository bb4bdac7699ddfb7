"""The landscape, the argmin and brute force agree on the bundled CIFAR-100."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.search import first_best, landscape, search_weights, simplex_grid
from search.problems import brute_counts

TRIO = ("wideresnet_16_4", "densenet_bc_100", "lenet5")
N = 3000


def tensor(names: tuple[str, ...], models: tuple[str, ...] = TRIO[:1], scale: str = "none"):
    data = cx.datasets.load("cifar100")
    outputs = {model: data.outputs[model][:N] for model in models}
    scores = cx.score_tensor(outputs, names, kind="logits")
    if scale == "ecdf":
        scores = cx.normalize.Ecdf().fit(scores, ())(scores)
    return scores, data.labels[:N]


CASES = {
    "thr, aps, rank": (("thr", "aps", "rank"), TRIO[:1], "none", 100),
    "thr, aps, rank on the ecdf scale": (("thr", "aps", "rank"), TRIO[:1], "ecdf", 100),
    "thr of three models": (("thr",), TRIO, "none", 100),
    "aps of three models": (("aps",), TRIO, "none", 100),
    "four scores": (("thr", "aps", "rank", "invrank"), TRIO[:1], "none", 30),
    "five scores": (("thr", "aps", "rank", "invrank", "margin"), TRIO[:1], "none", 15),
}


@pytest.mark.parametrize("alpha", [0.01, 0.1])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("sampled")
def test_the_argmin_is_the_smallest_of_the_landscape(case: str, alpha: float) -> None:
    names, models, scale, m = CASES[case]
    scores, y = tensor(names, models, scale)
    weights, sizes = landscape(scores, y, alpha=alpha, resolution=m)
    found = search_weights(scores, y, alpha=alpha, resolution=m)
    counts = np.rint(sizes * N).astype(np.int64)
    best = first_best(counts, simplex_grid(len(weights[0]), m))
    assert_array_equal(found.weights, weights[best])
    assert found.count == counts[best]
    k = N + 1 - int((N + 1) * alpha)
    some = np.append(np.random.default_rng(0).integers(len(weights), size=8), best)
    true = scores[np.arange(N), y]
    assert_array_equal(counts[some], brute_counts(true, [scores], k, weights[some]))
