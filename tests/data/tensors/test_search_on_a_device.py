"""The engine of tensors counts what brute force counts, ties included."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import conformix as cx
from conformix.kernels.device import cells as weight_cells
from conformix.kernels.device import engine as device
from conformix.kernels.device import thresholds as torch_thresholds
from search.problems import KINDS, LAYOUTS, RESOLUTIONS, brute_counts, compositions, problem

torch = pytest.importorskip("torch")
same = np.testing.assert_array_equal


def tensors_of(parts, put, layout):
    if layout == "planes":
        return [put(np.ascontiguousarray(np.moveaxis(p, 2, 0))).movedim(0, -1) for p in parts]
    return [put(p) for p in parts]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_counts_and_thresholds_are_those_of_brute_force(on_device, kind, seed) -> None:
    rng = np.random.default_rng(seed)
    d = 1 + int(rng.integers(len(RESOLUTIONS)))
    n, n_labels = int(rng.integers(3, 60)), int(rng.integers(2, 12))
    dtype = np.float32 if seed == 1 else np.float64
    layout = LAYOUTS[seed % 2]
    true, parts = problem(seed, kind, n, n_labels, d, n_parts=1 + seed % 2, dtype=dtype)
    k = int(rng.integers(1, n + 1))
    weights = compositions(d, RESOLUTIONS[d]) / RESOLUTIONS[d]
    if seed == 3:
        weights = rng.normal(size=weights.shape)  # of any sign, off the simplex
    size_parts = tensors_of(parts, on_device, layout)
    counts, thresholds = device.counts_and_thresholds(true, size_parts, k, weights)
    same(counts, brute_counts(true, parts, k, weights))
    lower = brute_counts(true, [true[:, None, :]], k, weights)
    for w, t, reached in zip(weights, thresholds, lower, strict=True):
        values = cx.search.objective.combine(true, w)
        assert t in values
        assert (values >= t).sum() == reached


def test_scores_too_large_for_bounds_are_counted_all_the_same(on_device) -> None:
    true, parts = problem(0, "signed", 20, 5, 2)
    weights = compositions(2, 10) / 10
    huge = [1e300 * part for part in parts]
    counts = device.candidate_counts(1e300 * true, tensors_of(huge, on_device, "rows"), 15, weights)
    same(counts, brute_counts(1e300 * true, huge, 15, weights))


def test_little_memory_changes_nothing(on_device, monkeypatch) -> None:
    true, parts = problem(5, "ties", 50, 9, 3)
    weights = compositions(3, 12) / 12
    monkeypatch.setattr(torch_thresholds, "ENTRIES", 200)
    monkeypatch.setattr(device, "ENTRIES", 200)
    monkeypatch.setattr(device, "PAIRS_AT_ONCE", 40)
    counts = device.candidate_counts(true, tensors_of(parts, on_device, "rows"), 40, weights)
    same(counts, brute_counts(true, parts, 40, weights))


def test_landscape_and_winner_are_those_of_arrays(put, tied) -> None:
    scores, y = cx.score_tensor(tied[0]), tied[1]
    weights, sizes = cx.search.landscape(put(scores), y, alpha=0.1, resolution=20)
    want = cx.search.landscape(scores, y, alpha=0.1, resolution=20)
    assert isinstance(sizes, torch.Tensor)
    same(np.asarray(weights.cpu()), want[0])
    same(np.asarray(sizes.cpu()), want[1])
    found = cx.search.search_weights(put(scores), y, alpha=0.1, resolution=20)
    wanted = cx.search.search_weights(scores, y, alpha=0.1, resolution=20)
    same(found.weights, wanted.weights)
    assert found.count == wanted.count


@pytest.mark.parametrize("search", ["line", "gradient"])
def test_searches_of_the_host_take_tensors_too(on_device, tied, search) -> None:
    scores, y = cx.score_tensor(tied[0]), tied[1]
    options = {"alpha": 0.1, "search": search, "random_state": 0}
    found = cx.search.search_weights(on_device(scores), y, **options)
    same(found.weights, cx.search.search_weights(scores, y, **options).weights)


def test_measured_coverage_is_that_of_arrays(on_device, tied) -> None:
    probs, y = tied
    search = cx.search.GridSearch(6)
    found = []
    for outputs in (probs, on_device(probs)):
        cp = cx.ScoreAverage(alpha=0.2, split="efcp", search=search).fit(outputs, y)
        found.append(cp.measured_coverage(outputs, y))
    assert found[0] == found[1]


def test_every_box_holds_its_weights_and_lies_in_its_parent() -> None:
    weights = compositions(3, 17) / 17
    levels = weight_cells.weight_cells(weights, 8, 32)
    owned = []
    for cells, at_most in zip(levels, (8, 32), strict=True):
        assert len(cells.counts) <= at_most
        own = [set(m[:c]) for m, c in zip(cells.members, cells.counts, strict=True)]
        assert sorted(i for one in own for i in one) == list(range(len(weights)))
        for members, centre, half in zip(cells.members, cells.centre, cells.half, strict=True):
            assert (np.abs(weights[members] - centre) <= half + 1e-15).all()
        owned.append(own)
    assert (np.diff(levels[1].parents) >= 0).all()
    for inside, parent in zip(owned[1], levels[1].parents, strict=True):
        assert inside <= owned[0][parent]


NUMPY_AND_TORCH = """
import sys
for name in ("numba", "scipy", "sklearn", "pandas", "matplotlib", "joblib", "rich", "triton"):
    sys.modules[name] = None
import numpy as np, torch
import conformix as cx
from conformix.kernels import arrays
rng = np.random.default_rng(0)
counts = rng.multinomial(8, [0.4, 0.3, 0.2, 0.1], size=90)
probs, y = torch.from_numpy(counts / 8), torch.from_numpy(counts.argmax(axis=1))
for devices in ({"cuda"}, {"cuda", "cpu"}):
    arrays.COMPUTING_DEVICES.clear()
    arrays.COMPUTING_DEVICES.update(devices)
    sizes = []
    for split in ("vfcp", "efcp", "exact"):
        cp = cx.ScoreAverage(split=split, search=cx.search.GridSearch(5), random_state=0)
        sizes.append(int(cp.fit(probs, y).predict_set(probs).mask.sum()))
        cp.predict_pvalues(probs)
    cp = cx.ScoreAverage(allow_empty=False, search=cx.search.GridSearch(3), random_state=0)
    sizes.append(int(cp.fit(probs, y).predict_set(probs).mask.sum()))
    cx.search.landscape(cx.score_tensor(probs), y, alpha=0.1, resolution=5)
    print(sizes)
"""


def test_tensors_need_numpy_and_torch_alone(tied) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NUMPY_AND_TORCH],
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
