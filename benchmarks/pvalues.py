"""p-values of every label: conformix, crepes and TorchCP on the same scores.

    make bench WHAT=peers

Every library runs in a process of its own (so that peak memory is its own) on 1,000 calibration
rows and 1,000 test rows of 1,000 classes; one JSON line each, and the ratio to conformix. Times are
the best of three; memory is what the call added to the peak of the process.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np

N_CAL, N_TEST, K = 1_000, 1_000, 1_000


def case():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(K, 0.1), size=N_CAL + N_TEST)
    y = np.array([rng.choice(K, p=row) for row in probs[:N_CAL]])
    return probs[:N_CAL], y, probs[N_CAL:]


def conformix_pvalues(cal, y, test):
    import conformix as cx

    cp = cx.ScoreAverage("thr", weights=[1.0], alpha=0.1).fit(cal, y)
    return lambda: cp.predict_pvalues(test)


def crepes_pvalues(cal, y, test):
    from crepes import ConformalClassifier

    cc = ConformalClassifier().fit(1 - cal[np.arange(len(y)), y])
    return lambda: cc.predict_p(1 - test, smoothing=False)


def torchcp_pvalues(cal, y, test):
    import torch
    from peer_stubs import import_torchcp

    import_torchcp()
    from torchcp.classification.predictor import SplitPredictor
    from torchcp.classification.score import LAC

    # The predictor asks its model for a parameter to learn the device.
    model = torch.nn.Identity()
    model.register_parameter("place", torch.nn.Parameter(torch.zeros(1)))
    predictor = SplitPredictor(LAC(score_type="identity"), model, alpha=0.1)
    logits = torch.tensor(cal, dtype=torch.float64)
    predictor.calculate_threshold(logits, torch.tensor(y), 0.1)
    inputs = torch.tensor(test, dtype=torch.float64)
    return lambda: predictor.predict_p(inputs).numpy()


PEERS = {"conformix": conformix_pvalues, "crepes": crepes_pvalues, "torchcp": torchcp_pvalues}


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str) -> dict[str, object]:
    call = PEERS[name](*case())
    before, times = peak_mib(), []
    for _ in range(1 if name == "crepes" else 3):
        start = time.perf_counter()
        pvalues = call()
        times.append(time.perf_counter() - start)
    return {
        "library": name,
        "n_cal": N_CAL,
        "n_test": N_TEST,
        "K": K,
        "seconds": round(min(times), 4),
        "peak_mib": round(peak_mib() - before, 1),
        "mean_pvalue": float(np.mean(pvalues)),
    }


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return
    rows = []
    for name in PEERS:
        found = subprocess.run(
            [sys.executable, __file__, name], capture_output=True, text=True, check=False
        )
        if found.returncode:
            print(json.dumps({"library": name, "error": found.stderr.strip().splitlines()[-1]}))
            continue
        rows.append(json.loads(found.stdout.splitlines()[-1]))
        rows[-1]["times_conformix"] = round(rows[-1]["seconds"] / rows[0]["seconds"], 1)
        print(json.dumps(rows[-1]), flush=True)


if __name__ == "__main__":
    main()
