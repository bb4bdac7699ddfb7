"""Sets against the peers: calibrate on n rows and predict n others, with one score.

Run by ``make bench WHAT=peers``. All get the same float64 probabilities, and take turns in one
process, best of three (crepes once: it loops over rows and labels). One JSON line each, with the
mean set size, which differs where a peer's rule does (MAPIE and TorchCP count the last label of APS
in; ours is the paper's form).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

N, K, ALPHA = 2_000, 500, 0.1


def case():
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=2 * N)
    logits = 3 * rng.standard_normal((2 * N, K))
    logits[np.arange(2 * N), y] += 9
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = powers / powers.sum(axis=1, keepdims=True)
    return probs[:N], y[:N], probs[N:]


def conformix_sets(score):
    def make(cal, y, test):
        import conformix as cx

        def call():
            cp = cx.ScoreAverage(score, weights=[1.0], alpha=ALPHA).fit(cal, y)
            return cp.predict_set(test).sizes.mean()

        return call

    return make


def mapie_sets(score):
    def make(cal, y, test):
        from mapie.classification import SplitConformalClassifier
        from peer_stubs import probabilities_as_features

        given = probabilities_as_features(K)

        def call():
            options = {"conformity_score": score, "prefit": True, "random_state": 0}
            mapie = SplitConformalClassifier(given, confidence_level=1 - ALPHA, **options)
            mapie.conformalize(cal, y)
            return mapie.predict_set(test)[1].sum(axis=1).mean()

        return call

    return make


def torchcp_sets(score):
    def make(cal, y, test):
        import torch

        sys.path.insert(0, str(Path(__file__).parent))
        from peer_stubs import import_torchcp

        import_torchcp()
        from torchcp.classification import score as scores
        from torchcp.classification.predictor import SplitPredictor

        options = {"score_type": "identity"} | ({"randomized": False} if score == "APS" else {})
        model = torch.nn.Identity()
        model.register_parameter("place", torch.nn.Parameter(torch.zeros(1)))
        predictor = SplitPredictor(getattr(scores, score)(**options), model, alpha=ALPHA)
        inputs, labels, fresh = torch.tensor(cal), torch.tensor(y), torch.tensor(test)

        def call():
            predictor.calculate_threshold(inputs, labels, ALPHA)
            return float(predictor.predict_with_logits(fresh).sum(dim=1).double().mean())

        return call

    return make


def crepes_sets(cal, y, test):
    from crepes import ConformalClassifier

    def call():
        conformal = ConformalClassifier().fit(1 - cal[np.arange(N), y])
        found = conformal.predict_set(1 - test[:200], confidence=1 - ALPHA, smoothing=False)
        return np.mean([np.sum(row) if isinstance(row, np.ndarray) else len(row) for row in found])

    return call


PEERS = {
    "conformix thr": conformix_sets("thr"),
    "mapie lac": mapie_sets("lac"),
    "torchcp lac": torchcp_sets("LAC"),
    "crepes hinge, 200 test rows only": crepes_sets,
    "conformix aps": conformix_sets("aps"),
    "mapie aps": mapie_sets("aps"),
    "torchcp aps": torchcp_sets("APS"),
}


def main() -> None:
    data, ours = case(), 0.0
    for name, make in PEERS.items():
        try:
            call = make(*data)
            times = []
            for _ in range(1 if name.startswith("crepes") else 3):
                start = time.perf_counter()
                size = call()
                times.append(time.perf_counter() - start)
        except (ImportError, TypeError) as error:
            print(json.dumps({"library": name, "left_out": str(error)}), flush=True)
            continue
        ours = min(times) if name.startswith("conformix") else ours
        row = {"library": name, "n": N, "K": K, "seconds": round(min(times), 4)}
        row |= {"times_ours": round(min(times) / ours, 1), "mean_size": round(float(size), 3)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
