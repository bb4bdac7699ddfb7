"""Tensors on a device give the intervals, widths and weights of the host, bit for bit.

``device path`` runs the code of CUDA tensors on tensors of the host, which NumPy may not read there
by itself, as it may not on a device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.conformal import conformal_rank
from conformix.errors import InvalidInput
from conformix.kernels import arrays
from conformix.kernels.arrays import to_host
from conformix.kernels.simplex import simplex_grid
from conformix.regression.bands import bands, lowest
from conformix.regression.hull import Hull
from conformix.regression.planes import Planes
from conformix.regression.search import exact_grid, row_widths, search_widths, total_widths
from conformix.search.grid import GridSearch
from regression.cases import smooth, tied

torch = pytest.importorskip("torch")


def refuse(*_: Any, **__: Any) -> None:
    raise TypeError("NumPy reads no tensor of a device")


@pytest.fixture(params=["device path", pytest.param("cuda", marks=pytest.mark.gpu)])
def there(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[np.ndarray], Any]:
    """Return what moves arrays to a device."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    if request.param == "device path":
        monkeypatch.setattr(arrays, "COMPUTING_DEVICES", {"cuda", "cpu"})
        monkeypatch.setattr(torch.Tensor, "__array__", refuse)
    place = "cuda" if request.param == "cuda" else "cpu"
    return lambda values: torch.from_numpy(np.array(values)).to(place)


@pytest.fixture
def put(there: Callable[[np.ndarray], Any]) -> Callable[[Planes], Planes]:
    """Return what moves planes to a device."""
    return lambda planes: Planes(*(there(part) for part in planes.parts))


def case(seed: int) -> tuple[Planes, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    d = 1 + seed % 4
    planes, y = smooth(rng, 50, d)
    if seed % 2:
        planes = tied(rng, 50, d, 7.0)
    return planes, y, rng.dirichlet(np.ones(d), 40)


def same(mine: Any, theirs: Any) -> None:
    assert_array_equal(to_host(mine), theirs)


@pytest.mark.parametrize("seed", range(8))
def test_tensors_give_the_bits_of_arrays(seed: int, put: Callable[[Planes], Planes]) -> None:
    planes, y, weights = case(seed)
    there = put(planes)
    same(there.scores(y), planes.scores(y))
    same(there.combined(weights[0], y), planes.combined(weights[0], y))
    cuts = np.vstack([planes.combined(weights[0], y), np.full(50, 0.4), np.full(50, np.inf)])
    for mine, theirs in zip(
        bands(there, weights[0], cuts), bands(planes, weights[0], cuts), strict=True
    ):
        same(mine, theirs)
    for mine, theirs in zip(lowest(there, weights[0]), lowest(planes, weights[0]), strict=True):
        same(mine, theirs)
    cuts = np.sort(np.random.default_rng(seed).normal(size=(3, 40)), axis=0)
    same(total_widths(there, weights, cuts), total_widths(planes, weights, cuts))
    same(row_widths(there, weights, cuts, (-1, 1)), row_widths(planes, weights, cuts, (-1.0, 1.0)))


def test_searches_and_hulls_find_on_a_device_what_they_find_on_the_host(
    put: Callable[[Planes], Planes],
) -> None:
    planes, y = smooth(np.random.default_rng(1), 60, 6)
    there = put(planes)
    same(
        search_widths(there, y, (0.1, 0.2), random_state=0).weights,
        search_widths(planes, y, (0.1, 0.2), random_state=0).weights,
    )
    three = planes.columns(slice(3))
    assert exact_grid(put(three), y, [0.1], 10).width == exact_grid(three, y, [0.1], 10).width
    weights, k = simplex_grid(3, 4) / 4, conformal_rank(40, 0.1)
    mine = Hull.of(weights, put(three.rows(slice(40))), y[:40], k)(put(three.rows(slice(40, 60))))
    theirs = Hull.of(weights, three.rows(slice(40)), y[:40], k)(three.rows(slice(40, 60)))
    for one, other in zip(mine, theirs, strict=True):
        same(one, other)
    assert isinstance(bands(there, np.full(6, 1 / 6), 1.0)[0], torch.Tensor)


def test_tensors_of_the_host_become_arrays() -> None:
    planes = smooth(np.random.default_rng(2), 5, 2)[0]
    there = Planes(*(torch.from_numpy(part) for part in planes.parts))
    assert isinstance(there.centre, np.ndarray)


RNG = np.random.default_rng(7)
MEAN, SIGMA = RNG.normal(size=260), RNG.uniform(0.2, 2.0, size=260)
SIGMA[::40] = 0.0
QUANTILES = MEAN[:, None] + (0.1 + SIGMA[:, None]) * np.sort(RNG.normal(size=(260, 5)), axis=1)
QUANTILES[::9, 1:4] = QUANTILES[::9, :1]  # gaps of zero
Y = np.round(MEAN + SIGMA * RNG.normal(size=260), 1).clip(-4, 4)
LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]
FITTED, NEW = slice(0, 160), slice(160, 260)
Put = Callable[[np.ndarray], Any]


def outputs(rows: slice, put: Put = np.array) -> dict[str, cx.Regressed]:
    """Return what two models predict of some rows, as arrays or on a device."""
    return {
        "one": cx.Regressed(mean=put(MEAN[rows]), sigma=put(SIGMA[rows])),
        "two": cx.Regressed(mean=put(MEAN[rows]), quantiles=put(QUANTILES[rows]), levels=LEVELS),
        "three": cx.Regressed(
            quantiles={0.1: put(QUANTILES[rows, 0]), 0.9: put(QUANTILES[rows, 4])}
        ),
    }


def pair(put: Put, **options: Any) -> tuple[cx.RegressionAverage, cx.RegressionAverage]:
    """Return a model that is fitted on a device, and the same on the host."""
    made = []
    for where in (put, np.array):
        model = cx.RegressionAverage(random_state=0, **{"search": GridSearch(3)} | options)
        extra: dict[str, Any] = {}
        if options.get("split", "").startswith("dlcp"):
            extra["test"] = outputs(NEW, where)
        if options.get("calibration") == "group":
            extra["strata"] = np.arange(160) % 2
        if options.get("calibration") == "weighted":
            extra["sample_weight"] = 1.0 + np.arange(160) % 3
        made.append(model.fit(outputs(FITTED, where), where(Y[FITTED]), **extra))
    return made[0], made[1]


def agree(mine: cx.RegressionAverage, theirs: cx.RegressionAverage, put: Put, **rows: Any) -> None:
    """Compare weights, thresholds and intervals bit for bit, at several levels."""
    assert_array_equal(mine.weights_, theirs.weights_)
    assert mine.held_out_width_ == theirs.held_out_width_
    for alpha in (None, 0.05, 0.31):
        found = mine.predict_interval(outputs(NEW, put), alpha=alpha, **rows)
        known = theirs.predict_interval(outputs(NEW), alpha=alpha, **rows)
        assert isinstance(found.lower, torch.Tensor)
        assert found.upper.device == put(MEAN).device
        same(found.lower, known.lower)
        same(found.upper, known.upper)
    if mine.predictor_.fitted.nested:
        several = mine.predict_interval(outputs(NEW, put), alpha=[0.05, 0.1, 0.4], **rows)
        known = theirs.predict_interval(outputs(NEW), alpha=[0.05, 0.1, 0.4], **rows)
        assert isinstance(several.at(0.1).lower, torch.Tensor)
        assert_array_equal(np.asarray(several), np.asarray(known))
        same(several.widths, known.widths)
        assert isinstance(several.mean_widths, torch.Tensor)


SPLITS = ("vfcp", "efcp", "dlcp", "dlcp+", "exact")


@pytest.mark.parametrize("split", SPLITS)
def test_every_split_has_the_intervals_of_the_host(split: str, there: Put) -> None:
    mine, theirs = pair(there, split=split, search="auto" if split != "exact" else GridSearch(1))
    agree(mine, theirs, there)


@pytest.mark.parametrize("split", SPLITS)
def test_three_scores_on_a_grid_have_the_intervals_of_the_host(split: str, there: Put) -> None:
    scores = ("one.abs", "one.norm", "two.cqr(low=0.25)")
    mine, theirs = pair(there, split=split, scores=scores, search=GridSearch(9))
    agree(mine, theirs, there)


SCORES = (
    "abs",
    "norm",
    "laplace",
    "cqr",
    "cqr(low=0.25)",
    "cqr_r",
    "cqr_m",
    "log_sigma",
    "log_gap",
)


def own(model: cx.Regressed) -> Any:
    return np.sqrt(model.mean**2), 0.0, 1.0, 2.0


@pytest.mark.parametrize("score", [*SCORES, own])
def test_every_score_has_the_intervals_of_the_host(score: Any, there: Put) -> None:
    first = "two.abs" if score != "abs" else "norm"
    only = ("two",) if score == "cqr(low=0.25)" else ()
    named = f"two.{score}" if only else score
    if score is own:
        named = lambda model: own(model) if model.mean is not None else 0 * model.quantiles[:, 0]  # noqa: E731
    for scores in ((named,), (named, first)):
        for split in ("vfcp", "exact"):
            mine, theirs = pair(there, scores=scores, split=split)
            agree(mine, theirs, there)


@pytest.mark.parametrize(
    "options",
    [
        {"allow_empty": False},
        {"y_range": (-4.0, 4.0)},
        {"y_range": (-4.0, 4.0), "allow_empty": False},
        {"calibration": "bins"},
        {"calibration": "group"},
        {"calibration": "weighted"},
        {"guarantee": "pac", "delta": 0.2},
        {"normalize": "none"},
        {"weights": "equal"},
        {"split": "exact", "calibration": "group"},
        {"split": "exact", "allow_empty": False},
    ],
    ids=str,
)
def test_every_option_has_the_intervals_of_the_host(options: dict[str, Any], there: Put) -> None:
    mine, theirs = pair(there, scores=("abs", "norm", "cqr"), **options)
    rows: dict[str, Any] = {}
    if options.get("calibration") == "group":
        rows["strata"] = np.arange(100) % 2
    if options.get("calibration") == "weighted":
        rows["sample_weight"] = 1.0 + np.arange(100) % 2
    agree(mine, theirs, there, **rows)


def test_a_model_of_a_device_lives_as_one_of_the_host(there: Put, tmp_path: Any) -> None:
    for split in ("vfcp", "exact"):
        mine, theirs = pair(there, split=split, scores=("abs", "cqr"))
        device, host = outputs(NEW, there), outputs(NEW)
        y = there(Y[NEW])
        assert dict(mine.evaluate(device, y)) == dict(theirs.evaluate(host, Y[NEW]))
        assert mine.verdict(device, y) == theirs.verdict(host, Y[NEW])
        assert mine.check_drift(device, y).pvalue == theirs.check_drift(host, Y[NEW]).pvalue
        assert mine.verdict(outputs(FITTED, there), Y[FITTED]).word == "used"
        # One place is as good as another, also across files.
        mine.save(tmp_path / "model.json")
        again = cx.load(tmp_path / "model.json")
        for model in (mine, again):
            same(model.predict_interval(host).lower, theirs.predict_interval(host).lower)
            assert isinstance(model.predict_interval(host).lower, np.ndarray)
        same(theirs.predict_interval(device).upper, theirs.predict_interval(host).upper)
    mine, theirs = pair(there)
    mine.recalibrate(outputs(NEW, there), there(Y[NEW]))
    theirs.recalibrate(outputs(NEW), Y[NEW])
    agree(mine, theirs, there)


def test_tensors_of_a_device_do_not_leave_it_to_be_predicted(
    there: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    for options in (
        {},
        {"scores": "one.norm"},
        {"split": "exact", "scores": ("one.abs", "one.norm")},
    ):
        mine, _ = pair(there, **options)
        new = outputs(NEW, there)
        with monkeypatch.context() as patch:
            patch.setattr("conformix.regression.bands.host_kernels", refuse)
            patch.setattr("conformix.regression.bands.fill_single", refuse)
            mine.predict_interval(new)


def test_intervals_on_a_device_answer_there(there: Put) -> None:
    mine, theirs = pair(there, scores="two.cqr")
    found = mine.predict_interval(outputs(NEW, there), alpha=0.97)
    known = theirs.predict_interval(outputs(NEW), alpha=0.97)
    assert 0 < known.is_empty.mean() < 1
    for name in ("lower", "upper", "width", "is_empty"):
        answer = getattr(found, name)
        assert answer.device == there(MEAN).device
        same(answer, getattr(known, name))
    for y in (there(Y[NEW]), Y[NEW], 0.1):
        same(found.contains(y), known.contains(to_host(y)))
    assert found.to_frame().equals(known.to_frame())
    assert repr(found) == repr(known)
    assert list(found) == list(known)
    assert found[3] == known[3]
    same(found[[1, 5]].upper, known[[1, 5]].upper)
    assert cx.metrics.coverage(found, there(Y[NEW])) == cx.metrics.coverage(known, Y[NEW])
    assert cx.metrics.mean_width(found) == cx.metrics.mean_width(known)


def test_answers_to_tensors_of_the_host_are_tensors_of_the_host() -> None:
    model = cx.RegressionAverage("norm", random_state=0)
    mean, sigma, y = (torch.from_numpy(part) for part in (MEAN, SIGMA, Y))
    model.fit(cx.Regressed(mean[FITTED], sigma[FITTED]), y[FITTED])
    found = model.predict_interval(cx.Regressed(mean[NEW], sigma[NEW]))
    known = model.predict_interval(cx.Regressed(MEAN[NEW], SIGMA[NEW]))
    assert isinstance(known.lower, np.ndarray)
    assert isinstance(found.lower, torch.Tensor)
    same(found.lower, known.lower)


def test_predictions_in_several_places_are_refused(there: Put) -> None:
    with pytest.raises(InvalidInput, match=r"mean of outputs on .*, sigma of outputs in a NumPy"):
        cx.Regressed(there(MEAN), SIGMA)
    with pytest.raises(InvalidInput, match=r"outputs\['b'\] in a NumPy array \(move"):
        cx.RegressionAverage().fit({"a": there(MEAN), "b": MEAN}, Y)
    with pytest.raises(InvalidInput, match="test must be where outputs are"):
        cx.RegressionAverage(split="dlcp").fit(there(MEAN), Y, test=MEAN)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda t: cx.Regressed(t(np.array([1.0, np.nan]))), "row 1 holds nan"),
        (lambda t: cx.Regressed(t(MEAN), t(-SIGMA - 1)), "must be positive; row 0"),
        (lambda t: cx.Regressed(t(np.ones((2, 3)))), r"shape \(2, 3\)"),
        (lambda t: cx.Regressed(quantiles=t(np.ones((2, 3))), levels=[0.1, 0.9]), "got shapes"),
    ],
)
def test_bad_numbers_on_a_device_are_refused(made: Any, said: str, there: Put) -> None:
    with pytest.raises(InvalidInput, match=said):
        made(there)
