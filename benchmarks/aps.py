"""Scores against the peers: `thr, aps, rank` of all labels, beside APS alone elsewhere.

Run by ``make bench WHAT=peers``. All take the same float64 probabilities, n = 20,000, K = 1,000,
timed in turns in one process; puncc holds numpy back, so it has an environment and a process of
its own, between two runs of ours. MAPIE and puncc score the true labels only, which is less work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

N, K = 20_000, 1_000
ROUNDS = 3
RESULTS = Path(__file__).resolve().parent / "results" / "peers.jsonl"


def case():
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=N)
    probs = 3 * rng.standard_normal((N, K))
    probs[np.arange(N), y] += 9
    probs -= probs.max(axis=1, keepdims=True)
    np.exp(probs, out=probs)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs, y


def conformix_tensor(probs, y):
    import conformix as cx

    return lambda: cx.score_tensor(probs, ("thr", "aps", "rank"))


def mapie_aps(probs, y):
    from mapie.conformity_scores import APSConformityScore

    score = APSConformityScore()
    score.classes, score.random_state = np.arange(K), 0
    return lambda: score.get_conformity_scores(y, probs, y_enc=y)


def torchcp_score(probs):
    import torch

    sys.path.insert(0, str(Path(__file__).parent))
    from peer_stubs import import_torchcp

    import_torchcp()
    from torchcp.classification.score import APS

    return APS(score_type="identity", randomized=False), torch.tensor(probs)


def torchcp_all(probs, y):
    score, inputs = torchcp_score(probs)
    return lambda: score(inputs)


def torchcp_true(probs, y):
    import torch

    score, inputs = torchcp_score(probs)
    labels = torch.tensor(y)
    return lambda: score(inputs, labels)


def puncc_aps(probs, y):
    from deel.puncc.api import nonconformity_scores

    return lambda: nonconformity_scores.raps_score(probs, y, lambd=0, k_reg=1, rand=False)


OURS = "conformix: thr, aps, rank of all labels"
PEERS = {
    OURS: conformix_tensor,
    "mapie: aps of the true labels": mapie_aps,
    "torchcp: aps of the true labels": torchcp_true,
    "torchcp: aps of all labels": torchcp_all,
}


def seconds(call) -> tuple[float, float]:
    """Return wall and processor seconds; the latter add up over threads."""
    start, busy = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - busy


def smallest(times: list[tuple[float, float]]) -> tuple[float, float]:
    walls, busy = zip(*times, strict=True)
    return min(walls), min(busy)


def importable(make, probs, y):
    try:
        return make(probs, y)
    except ImportError as error:
        print(f"left out, {error}")
        return None


def puncc_seconds() -> tuple[float, float] | None:
    """Return the seconds of puncc, from the environment named by PUNCC_PYTHON, if there is one."""
    python = os.environ.get("PUNCC_PYTHON", "")
    if not Path(python).is_file():
        print("left out, puncc: PUNCC_PYTHON names no interpreter")
        return None
    command = [python, __file__, "puncc"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"left out, puncc: {done.stderr.strip().splitlines()[-1]}")
        return None
    wall, busy = json.loads(done.stdout)
    return wall, busy


def main() -> None:
    probs, y = case()
    if sys.argv[1:] == ["puncc"]:
        call = puncc_aps(probs, y)
        print(json.dumps(smallest([seconds(call) for _ in range(ROUNDS)])))
        return
    calls = {name: importable(make, probs, y) for name, make in PEERS.items()}
    times = {name: [] for name, call in calls.items() if call}
    for _ in range(ROUNDS):
        for name, taken in times.items():
            taken.append(seconds(calls[name]))
    puncc = puncc_seconds()
    times[OURS] += [seconds(calls[OURS]) for _ in range(ROUNDS)]
    found = {name: smallest(taken) for name, taken in times.items()}
    if puncc is not None:
        found["puncc: aps of the true labels"] = puncc
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", encoding="utf-8") as file:
        for name, (wall, busy) in sorted(found.items(), key=lambda item: item[1]):
            row = {"case": name, "n": N, "K": K, "seconds": round(wall, 4), "cpu_s": round(busy, 4)}
            row["times_ours"] = round(wall / found[OURS][0], 2)
            row["load"] = round(os.getloadavg()[0], 1)
            file.write(json.dumps(row) + "\n")
            times_ours = f"{row['times_ours']:>8.2f}"
            print(f"{name:<44}{wall:>8.3f} s{busy:>8.3f} s cpu{times_ours}", flush=True)


if __name__ == "__main__":
    main()
