"""On which scale scores are averaged, and what that does to the guarantee."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix.conformal import conformal_rank
from conformix.errors import InvalidInput
from conformix.fit.fit import fit_scores
from conformix.fit.settings import resolve
from conformix.kernels import blocks, combine
from conformix.kernels.twins import WORTHWHILE, compile_for
from conformix.scores import score_columns
from conformix.scores.scale import (
    FEWEST_SORTED,
    Ecdf,
    NaturalScale,
    _curve,
    _sorted,
    rising_line,
)
from conformix.search import GridSearch
from conformix.splits import ValidityFirst

DATA = cx.datasets.load("cifar10")
LOGITS, LABELS = DATA.outputs["vgg16"][:1200], DATA.labels[:1200]


def fitted(**options):
    options = {"alpha": 0.1, "kind": "logits", "random_state": 0, "search": "grid"} | options
    return cx.ScoreAverage(**{"scores": "paper", **options}).fit(
        LOGITS[:800], LABELS[:800], test=LOGITS[800:]
    )


def test_ecdf_is_the_share_of_label_scores_no_larger():
    scores = np.array([[[0.0], [1.0]], [[1.0], [5.0]]])
    # values 0, 1, 1, 5: levels 1/4, 3/4, 3/4, 1; halfway between 1 and 5: 7/8; clipped outside
    transform = Ecdf().fit(scores, ())
    found = transform(np.array([[-1.0], [0.0], [1.0], [3.0], [5.0], [9.0]])).ravel()
    assert_array_equal(found, [0.25, 0.25, 0.75, 0.875, 1.0, 1.0])


def test_ecdf_with_many_values_thins_its_knots_and_stays_close():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3000, 20, 1))
    transform = Ecdf().fit(values, ())
    points = np.linspace(-3, 3, 101)
    exact = np.searchsorted(np.sort(values.ravel()), points, side="right") / values.size
    assert_allclose(transform(points[:, None]).ravel(), exact, atol=2e-4)


def test_interpolation_never_overshoots_the_next_level():
    rng = np.random.default_rng(1)
    knots, levels = np.sort(rng.random(50)), np.sort(rng.random(50))
    points = np.sort(np.concatenate([knots, np.nextafter(knots, 0), rng.random(5000)]))
    assert (np.diff(rising_line(points, knots, levels)) >= 0).all()


def test_scale_divides_by_the_natural_width():
    # raps: mass 1 plus penalty 0.5 times (K - k_reg) = 3 ranks; margin spans 2; logp log K
    columns = cx.scores.score_columns(("",), ("raps(penalty=0.5, k_reg=2)", "margin", "logp"))
    transform = NaturalScale().fit(np.zeros((1, 5, 3)), columns)
    assert_allclose(transform(np.ones(3)), [1 / 2.5, 1 / 2, 1 / np.log(5)], rtol=1e-15)


def test_widths_by_hand():
    by_hand = fitted(normalize=[1.0, 2.0, 4.0], split="efcp", search=np.eye(3))
    assert by_hand.normalizer_ == "scale"
    with pytest.raises(
        InvalidInput, match=r"^normalize must hold 3 positive widths, one per score"
    ):
        fitted(normalize=[1.0, 2.0])
    with pytest.raises(
        InvalidInput, match=r"^normalize must hold 3 positive widths, one per score"
    ):
        fitted(normalize=[1.0, 2.0, 0.0])


def test_unknown_normalisation():
    with pytest.raises(InvalidInput, match=r"^unknown normalize 'ecfd'; did you mean 'ecdf'\?"):
        fitted(normalize="ecfd")
    with pytest.raises(InvalidInput, match=r"^normalize must be a name, one positive width"):
        fitted(normalize=3)


@pytest.mark.parametrize("normalize", ["none", "scale", "ecdf", "auto"])
def test_vfcp_stays_exact_under_every_normalisation(normalize):
    assert fitted(normalize=normalize).guarantee_.kind == "exact"


@pytest.mark.parametrize("split", ["efcp", "dlcp", "dlcp+"])
def test_ecdf_on_the_calibration_rows_says_that_no_bound_is_known(split):
    assert fitted(normalize="ecdf", split=split).guarantee_.kind == "none"


@pytest.mark.parametrize("split", ["efcp", "dlcp", "dlcp+"])
def test_auto_never_voids_a_guarantee(split):
    chosen = fitted(normalize="auto", split=split)
    assert chosen.guarantee_.kind == "approximate"
    assert chosen.normalizer_ == "scale"


def test_auto_is_ecdf_where_the_tuning_rows_do_not_calibrate():
    assert fitted(normalize="auto").normalizer_ == "ecdf"
    assert fitted(normalize="auto", weights=[1.0, 0.0, 0.0]).normalizer_ == "scale"
    assert fitted(normalize="auto", split="exact").normalizer_ == "none"


def test_fixed_weights_leave_no_rows_to_learn_an_ecdf_from():
    with pytest.raises(InvalidInput, match=r'^normalize="ecdf" learns from tuning rows, and fixed'):
        fitted(normalize="ecdf", weights=[1.0, 0.0, 0.0])


def test_a_monotone_scale_leaves_a_single_score_alone():
    sets = [fitted(scores="aps", normalize=name).predict_set(LOGITS) for name in ("none", "ecdf")]
    cx.testing.assert_same_sets(*sets)


def test_under_vfcp_the_calibration_rows_have_no_part_in_the_scale():
    y = LABELS[:200]
    scores = cx.score_tensor(LOGITS[:200], kind="logits")
    calibrate = ValidityFirst().roles(200, 0, np.random.default_rng(0)).calibrate
    other = scores.copy()
    other[calibrate] = other[calibrate] ** 3
    knots = []
    for given in (scores, other):
        columns = score_columns(("",), ("thr", "aps", "rank"))
        settings = resolve(split=ValidityFirst(), search=GridSearch(3), normalize="ecdf")
        fitted = fit_scores(given, y, columns, settings, np.random.default_rng(0))
        knots.append(fitted.rule.transform.knots)
    for one, two in zip(*knots, strict=True):
        assert_array_equal(one, two)


@pytest.mark.filterwarnings("ignore")  # that an ecdf of the calibration rows voids the guarantee
@pytest.mark.parametrize("normalize", ["scale", "ecdf"])
def test_rows_that_tune_and_calibrate_are_normalised_once(normalize):
    """Under EFCP all rows do both; the threshold is one of their scores, normalised once."""
    scores = ("logp", "logrank", "thr")  # on different scales
    cp = fitted(scores=scores, split="efcp", normalize=normalize, search=[[0.5, 0.3, 0.2]])
    raw = cx.score_tensor(LOGITS[:800], scores, kind="logits")[np.arange(800), LABELS[:800]]
    own = combine(cp.predictor_.fitted.rule.transform(raw), cp.weights_)
    assert cp.threshold_ == np.sort(own)[800 - conformal_rank(800, 0.1)]


@pytest.mark.parametrize("normalize", ["scale", "ecdf"])
def test_scores_in_single_precision_are_fitted_as_the_numbers_that_they_are(normalize):
    names = ("logp", "logrank", "thr")
    columns = score_columns(("",), names)
    single = cx.score_tensor(LOGITS[:300], names, kind="logits").astype(np.float32)
    fits = [
        fit_scores(
            scores,
            LABELS[:300],
            columns,
            resolve(split=ValidityFirst(), search=GridSearch(12), normalize=normalize),
            np.random.default_rng(0),
        )
        for scores in (single, single.astype(np.float64))
    ]
    assert fits[0].search.size == fits[1].search.size
    assert_array_equal(fits[0].rule.weights, fits[1].rule.weights)
    assert_array_equal(fits[0].calibration, fits[1].calibration)


@pytest.mark.filterwarnings("ignore")  # that an ecdf of the calibration rows voids the guarantee
def test_a_pac_rank_does_not_save_a_scale_learnt_on_the_calibration_rows():
    for options in ({"guarantee": "pac"}, {"guarantee": "marginal"}):
        cp = fitted(split="efcp", normalize="ecdf", search="grid", **options)
        assert cp.guarantee_.kind == "none"


def test_an_ecdf_is_the_share_of_scores_that_are_no_larger_with_ties():
    rng = np.random.default_rng(4)
    scores = rng.integers(0, 6, size=(50, 4, 2)) / 5.0
    transform = Ecdf().fit(scores, ())
    for j in range(2):
        values = np.unique(scores[..., j])
        expected = [(scores[..., j] <= value).mean() for value in values]
        points = np.repeat(values[:, None], 2, axis=1)
        assert_allclose(transform(points)[:, j], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("n", "n_classes", "looked_at"),
    [
        (650, 100, 650),
        (5_000, 100, 625),
        (5_000, 1_000, 500),
        (400, 1_000, 400),
        (10**6, 10**5, 42),
    ],
)
def test_knots_come_from_all_rows_or_from_an_even_sample(n, n_classes, looked_at) -> None:
    rows = np.arange(n)[Ecdf().rows(n, n_classes)]
    assert len(rows) == looked_at
    assert len(np.unique(np.diff(rows))) == 1
    assert len(rows) * n_classes <= max(2**16, min(512 * n_classes, 2**22)) + n_classes


@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("name", ["drawn", "ties", "crowd", "masses"])
def test_rows_that_rise_have_the_curve_of_their_numbers(name: str, threads: int) -> None:
    # Crowds leave parts without a number, and more numbers than there are knots others.
    rng, shape = np.random.default_rng(0), (4 * FEWEST_SORTED // 64, 64)
    values = {
        "drawn": rng.normal(size=shape), "ties": rng.random(shape).round(2),
        "crowd": np.where(rng.random(shape) < 0.01, rng.random(shape), 0.5),
        "masses": rng.dirichlet(np.full(64, 0.05), size=shape[0]).cumsum(axis=1),
    }[name]  # fmt: skip
    compile_for(WORTHWHILE)
    rows = np.sort(values, axis=1)
    for found, expected in zip(_curve(rows, threads, rises=True), _curve(rows), strict=True):
        assert_array_equal(found, expected)


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_numbers_that_threads_share_are_sorted(threads: int) -> None:
    rng, n = np.random.default_rng(0), 3 * FEWEST_SORTED
    crowd = np.full(n, 0.5)
    crowd[:9] = [-np.inf, -1.0, -0.0, 0.0, 0.25, 0.75, 1.0, 2.0, np.inf]
    several = {
        "drawn": rng.normal(size=(n // 100, 100)), "ties": rng.random(n).round(2), "crowd": crowd,
        "one number": np.zeros(n), "infinite": np.append(rng.random(n), [np.inf] * n),
        "no number": np.append(rng.random(n), np.nan), "few": rng.random(FEWEST_SORTED + 1),
    }  # fmt: skip
    for name, values in several.items():
        parts = _sorted(values, threads).parts
        rising = np.concatenate([part.rising for part in parts])
        assert_array_equal(rising, np.sort(values, axis=None), err_msg=name)
        assert len(parts) == 1 or name in ("drawn", "ties", "infinite", "crowd")
        if name != "no number":
            rows = values.reshape(len(values), -1)
            for one, shared in zip(_curve(rows), _curve(rows, threads), strict=True):
                assert_array_equal(one, shared, err_msg=name)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_of_either_sign_are_one_knot_without_a_sign(zero: float) -> None:
    knots, _ = _curve(np.array([[zero, 1.0], [-zero, 2.0], [zero, 3.0], [-zero, -1.0]]))
    assert_array_equal(knots, [-1.0, 0.0, 1.0, 2.0, 3.0])
    assert not np.signbit(knots[1])


@pytest.mark.parametrize("n_tied", [0, 1, 30, 60])
def test_an_ecdf_of_rows_that_repeat_is_that_of_all_their_values(n_tied: int) -> None:
    scores = np.tile(np.arange(40.0), (60, 1))
    scores[:n_tied, 3:9] = 6.0
    scores[: n_tied // 2, 30] = 0.5  # a value that the other rows do not have
    knots, levels = _curve(scores)
    assert_array_equal(knots, np.unique(scores))
    assert_array_equal(levels, [(scores <= knot).sum() / scores.size for knot in knots])


def test_raw_floors_are_the_last_knots_that_do_not_exceed_the_numbers() -> None:
    rng = np.random.default_rng(0)
    transform = Ecdf().fit(rng.random((60, 30, 2)).round(2), ())
    for least in [-1.0, 0.0, 1e-9, 0.3, 0.5, np.nextafter(1.0, 0.0), 1.0, 2.0]:
        bounds = [least, least / 2]
        for j, floor in enumerate(transform.raw_floors(bounds)):
            values = transform(np.repeat(transform.knots[j][:, None], 2, axis=1))[:, j]
            assert (values[transform.knots[j] <= floor] <= bounds[j]).all()
            assert (values[transform.knots[j] > floor] > bounds[j]).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_learn_the_same_scale(monkeypatch, threads: int) -> None:
    monkeypatch.setattr(blocks, "OUTPUTS_PER_WAIT", 1)
    scores = np.random.default_rng(1).random((50, 20, 3))
    one, other = Ecdf().fit(scores, ()), Ecdf().fit(scores, (), threads)
    for name in ("knots", "levels"):
        for j in range(3):
            assert_array_equal(getattr(one, name)[j], getattr(other, name)[j])


@pytest.mark.parametrize("kind", ["distinct", "alike", "few values", "one value"])
def test_a_device_finds_the_knots_of_the_host(kind: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    values = {
        "distinct": rng.random((500, 300)),
        "alike": np.tile(np.arange(100.0) / 100, (50, 1)),
        "few values": rng.integers(0, 5, (40, 7)) / 5,
        "one value": np.zeros((3, 4)),
    }[kind][:, :, None]
    here, there = Ecdf().fit(values, ()), Ecdf().fit(torch.from_numpy(values), ())
    for ours, theirs in zip(here.knots + here.levels, there.knots + there.levels, strict=True):
        assert isinstance(theirs, np.ndarray)
        assert np.array_equal(ours, theirs)
