"""The same task handed to a peer: probabilities in, a boolean array (n, K) out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import conformix as cx

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def synthetic(n: int = 400, n_classes: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities without ties, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    probs = softmax(2 * rng.standard_normal((n, n_classes)))
    return probs, (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def real(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    data = cx.datasets.load("cifar100")
    rows = np.random.default_rng(seed).permutation(len(data.labels))[:n]
    return softmax(data.outputs["densenet_bc_100"][rows].astype(np.float64)), data.labels[rows]


CASES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "synthetic": synthetic,
    "cifar100": real,
}


class GivenState(np.random.RandomState):
    """A random state whose uniforms are all the same number."""

    def __init__(self, number: float) -> None:
        super().__init__(0)
        self.number = number

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = None) -> np.ndarray:
        return np.full(size, self.number)


def mapie_sets(
    score: Any, cal: np.ndarray, y: np.ndarray, test: np.ndarray, alpha: float, **options: Any
) -> np.ndarray:
    """Sets of MAPIE's split classifier around a model whose features are its probabilities."""
    from mapie.classification import SplitConformalClassifier

    model = stubs().probabilities_as_features(cal.shape[1])
    state = options.pop("random_state", 0)
    mapie = SplitConformalClassifier(
        model, confidence_level=1 - alpha, conformity_score=score, prefit=True,
        random_state=state,
    )  # fmt: skip
    mapie.conformalize(cal, y)
    return mapie.predict_set(test, conformity_score_params=options or None)[1][..., 0]


def torchcp() -> Any:
    """TorchCP's classification scores, with empty stand-ins for what its import needs."""
    stubs().import_torchcp()
    from torchcp.classification import score

    return score


def stubs() -> Any:
    """What the benchmarks give the peers."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return import_module("peer_stubs")
    finally:
        sys.path.remove(str(BENCHMARKS))


def torchcp_sets(
    score: Any, cal: np.ndarray, y: np.ndarray, test: np.ndarray, alpha: float
) -> np.ndarray:
    import torch
    from torchcp.classification.predictor import SplitPredictor

    model = torch.nn.Identity()
    model.register_parameter("place", torch.nn.Parameter(torch.zeros(1)))
    predictor = SplitPredictor(score, model, alpha=alpha)
    predictor.calculate_threshold(torch.tensor(cal), torch.tensor(y), alpha)
    return predictor.predict_with_logits(torch.tensor(test)).numpy().astype(bool)


def our_sets(
    score: Any, cal: np.ndarray, y: np.ndarray, test: np.ndarray, alpha: float
) -> np.ndarray:
    return np.asarray(
        cx.ScoreAverage(score, weights=[1.0], alpha=alpha).fit(cal, y).predict_set(test)
    )


def at_the_threshold(
    score: Any, cal: np.ndarray, y: np.ndarray, test: np.ndarray, alpha: float
) -> np.ndarray:
    """Where a label's score is the threshold up to rounding, or its probability is tied."""
    cp = cx.ScoreAverage(score, weights=[1.0], alpha=alpha).fit(cal, y)
    near = np.abs(cx.score_tensor(test, score)[..., 0] - cp.threshold_) < 1e-12
    tied = [np.isin(row, values[counts > 1]) for row in test
            for values, counts in [np.unique(row, return_counts=True)]]  # fmt: skip
    return near | np.array(tied)
