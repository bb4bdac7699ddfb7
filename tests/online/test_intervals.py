"""Intervals on a stream: the loop of sets, with widths for sizes and the line for all labels."""

from __future__ import annotations

import copy
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix.cli import main
from conformix.online import ACI, DtACI, Monitor
from conformix.online.controllers import bound_of
from conformix.online.log import Issued, Labelled, recorded_steps


def rows(n: int, seed: int = 0, worse_from: int | None = None):
    """Return what a model predicts and the responses; it is over-confident from some row on."""
    rng = np.random.default_rng(seed)
    mean, sigma = rng.normal(size=n), rng.uniform(0.3, 2, size=n)
    true = np.where(np.arange(n) < (n if worse_from is None else worse_from), sigma, 3 * sigma)
    model = cx.Regressed(
        mean=mean, sigma=sigma, quantiles=np.column_stack([mean - 1.6 * sigma, mean + 1.7 * sigma]),
        levels=[0.05, 0.95],
    )  # fmt: skip
    return model, mean + true * rng.normal(size=n)


@pytest.mark.parametrize("control", ["aci", "betting", "dtaci"])
def test_coverage_holds_under_drift_where_a_fixed_rule_fails(control: str) -> None:
    model, y = rows(600, worse_from=300)
    online = cx.OnlineRegression(alpha=0.1, control=control, window=100)
    trace = online.run(model, y)
    assert_array_equal(trace.errors, ~trace.sets.contains(y))
    assert abs(trace.errors.mean() - 0.1) <= online.control_.bound(600)
    assert abs(trace.errors[300:].mean() - 0.1) < 0.05
    fixed = cx.RegressionAverage(alpha=0.1, random_state=0).fit(model[:300], y[:300])
    assert fixed.predict_interval(model[300:]).contains(y[300:]).mean() < 0.6


@pytest.mark.parametrize("score", ["abs", "norm"])
def test_the_interval_is_the_rank_statement_at_the_present_level(score: str) -> None:
    """Of n residuals of the window, the ceil((n + 1)(1 - level))-th smallest is the half-width."""
    model, y = rows(80)
    online = cx.OnlineRegression(score, alpha=0.2, window=25, control=ACI(0.1))
    units = np.ones(80) if score == "abs" else model.sigma
    past: list[float] = []
    for t in range(80):
        level, recent = online.level_, np.sort(past[-25:])
        low, high = online.predict_interval(model[t])[0]
        k = math.ceil((len(recent) + 1) * (1 - level) - 1e-12)
        half = math.inf if level <= 0 or k > len(recent) else -math.inf if k < 1 else recent[k - 1]
        if math.isinf(half):
            assert (low, high) == (-half, half)
        else:
            assert_allclose([low, high], model.mean[t] + [-half * units[t], half * units[t]])
        assert online.update(y[t]) == (not low <= y[t] <= high)
        past.append(abs(y[t] - model.mean[t]) / units[t])


def test_levels_outside_the_unit_interval_mean_the_line_and_nothing() -> None:
    online = cx.OnlineRegression("abs", alpha=0.5, control=ACI(gamma=2.0))
    assert online.predict_interval(1.0)[0] == (-math.inf, math.inf)
    assert not online.update(1e9)  # the line cannot miss: the level rises by 1 to 1.5
    assert online.level_ == 1.5
    assert online.predict_interval(1.0).is_empty.all()
    assert online.update(1.0)
    assert online.level_ == 0.5


@settings(max_examples=25)
@given(
    control=st.sampled_from([ACI(0.5), ACI(0.05), DtACI(room=0.5), DtACI(memory=20)]),
    alphas=st.sampled_from([[0.2], [0.1, 0.4], [0.3, 0.31, 0.6]]),
    moves=st.lists(st.tuples(st.floats(-50, 50), st.integers(-1, 4)), max_size=60),
)
def test_no_sequence_of_responses_breaks_a_bound(control, alphas, moves) -> None:
    """Responses of any size, late, out of order or never."""
    online = cx.OnlineRegression("abs", alpha=alphas, control=control, window=7, candidates=1)
    m = len(alphas)
    for t, (y, which) in enumerate(moves):
        online.predict_interval(0.0, ticket=t)
        if which >= 0:
            waiting = online.pending_
            online.update(y, ticket=waiting[which % len(waiting)])
            for j, (one, alpha) in enumerate(zip(online._controls(), alphas, strict=True)):
                bound = bound_of(one, online._steps, online._late, m, above=m - 1 - j)
                assert abs(online._errors[j] / online._steps - alpha) <= bound + 1e-12


def test_several_levels_give_nested_intervals() -> None:
    model, y = rows(300)
    online = cx.OnlineRegression(alpha=[0.3, 0.1, 0.2], control="dtaci", window=80)
    trace = online.run(model, y)
    ends = np.asarray(trace.sets)
    assert (ends[:-1, :, 0] <= ends[1:, :, 0]).all()
    assert (ends[:-1, :, 1] >= ends[1:, :, 1]).all()
    assert np.abs(trace.coverage - [0.9, 0.8, 0.7]).max() < 0.08
    assert online.guarantee_.kind == "exact"
    assert 0.7 < online.evaluate(*rows(100, 1), alpha=0.2)["coverage"] < 0.95


OPTIONS = [
    {}, {"control": "betting", "adapt": "fading"}, {"control": DtACI(memory=30)},
    {"alpha": (0.2, 0.4), "control": "dtaci", "y_range": (-40.0, 40.0), "adapt": "hedge"},
    {"normalize": (1.0, 2.0, 1.0, 3.0, 1.5), "adapt": None}, {"scores": ("norm", "cqr(low=0.05)")},
    {"y_range": (-math.inf, 40.0), "candidates": [[1, 0, 0, 0, 0], [0, 0, 0.5, 0, 0.5]]},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_saved_resumed_and_replayed_streams_of_responses_are_the_same(
    options, tmp_path: Path
) -> None:
    model, y = rows(70)
    online = cx.OnlineRegression(**{"alpha": 0.2, "window": 15} | options)
    online.record(tmp_path / "log", every=1000)
    online.run(model[:40], y[:40])
    online.predict_interval(model[40], ticket="late")
    online.predict_interval(model[41], ticket=17)
    online.save(tmp_path / "stream.json")
    online._log.close()
    told = []
    for one in (
        online,
        cx.OnlineRegression.load(tmp_path / "stream.json"),
        cx.OnlineRegression.replay(tmp_path / "log"),
        cx.OnlineRegression.resume(tmp_path / "log"),
    ):
        one._log = None
        one.update(y[41], ticket=17)
        trace = one.run(model[42:], y[42:])
        told.append((
            trace.levels.tobytes(), trace.weights.tobytes(), np.asarray(trace.sets).tobytes(),
            str(one.guarantee_), one._weights is None or one._weights.remembered.tobytes(),
        ))  # fmt: skip
        assert one.pending_ == ["late"]
    assert len(set(told)) == 1


def test_a_log_of_responses_holds_rows_ends_and_truths(tmp_path: Path) -> None:
    model, y = rows(12)
    online = cx.OnlineRegression(alpha=[0.2, 0.4], window=5).record(tmp_path / "log")
    trace = online.run({"a": model, "b": model.mean}, y)
    online.close()
    steps = [step for step, _ in recorded_steps(tmp_path / "log", online._log_shape())]
    issued = [step for step in steps if isinstance(step, Issued)]
    assert [step.label for step in steps if isinstance(step, Labelled)] == y.tolist()
    for t, step in enumerate(issued):
        assert_array_equal(step.sizes.reshape(2, 2).T, np.asarray(trace.sets)[:, t])
        assert_array_equal(step.outputs["a"][0, :2], [model.mean[t], model.sigma[t]])
        assert_array_equal(step.outputs["b"], [[model.mean[t]]])
        assert_allclose(step.extent, trace.sets.widths[:, t])


def test_intervals_follow_the_units_of_the_response_to_the_last_bit() -> None:
    """A thousand and twenty-four times the response is as many times the interval."""
    model, y = rows(250)
    large = cx.Regressed(
        mean=1024 * model.mean, sigma=1024 * model.sigma, quantiles=1024 * model.quantiles,
        levels=model.levels,
    )  # fmt: skip
    one, other = (
        cx.OnlineRegression(alpha=0.1, control="dtaci", window=60).run(*given)
        for given in ((model, y), (large, 1024 * y))
    )
    assert_array_equal(1024 * np.asarray(one.sets), np.asarray(other.sets))
    assert_array_equal(one.weights, other.weights)


def test_the_scale_is_the_power_of_two_next_to_the_mean_spread_and_fades() -> None:
    model, y = rows(300)
    online = cx.OnlineRegression(("abs", "norm"), alpha=0.1, window=5)
    online.run(model[:80], y[:80])
    mean = model.sigma[:80].mean()
    assert online._scale.factors.tolist() == [1.0, 2.0 ** round(math.log2(mean))]
    later = cx.Regressed(
        mean=model.mean, sigma=64 * model.sigma, quantiles=model.quantiles, levels=model.levels
    )
    for t in range(300):
        online.predict_interval(later[t])
        online.update(y[t])
    assert online._scale.n <= 100
    assert online._scale.factors[1] == 2.0 ** round(math.log2(64 * mean))


@pytest.mark.parametrize("unit", [1.0, 8.0, 0.3])
def test_no_spread_counts_for_less_than_a_hundredth_of_the_scale(unit: float) -> None:
    """A row that a model is all too sure of has a score that others can be compared with."""
    online = cx.OnlineRegression("norm", alpha=0.1, window=9)
    for _ in range(20):
        online.predict_interval(cx.Regressed(mean=[0.0], sigma=[unit]))
        online.update(0.0)
    online.predict_interval(cx.Regressed(mean=[0.0], sigma=[1e-9 * unit]))
    slopes = online._pending[None].answer.planes[2:]
    assert_allclose(slopes, 100 / online._scale.factors[0])


def test_weights_follow_the_model_whose_intervals_are_narrow() -> None:
    rng = np.random.default_rng(1)
    y = rng.normal(size=600)
    first = np.arange(600) < 300
    outputs = {
        "a": y + np.where(first, 0.1, 2.0) * rng.normal(size=600),
        "b": y + np.where(first, 2.0, 0.1) * rng.normal(size=600),
    }
    for adapt in ("leader", "fading"):
        online = cx.OnlineRegression("abs", alpha=0.1, window=60, adapt=adapt)
        trace = online.run(outputs, y)
        assert trace.weights[200:300, 0].mean() > 0.7
        assert trace.weights[500:, 1].mean() > 0.7
    still = cx.OnlineRegression("abs", alpha=0.1, window=60, adapt=None).run(outputs, y)
    bounded = np.isfinite(trace.sets.width) & np.isfinite(still.sets.width)
    assert trace.sets.width[bounded].mean() < 0.8 * still.sets.width[bounded].mean()


def test_candidates_are_charged_the_widths_that_they_would_have_had() -> None:
    model, y = rows(60)
    online = cx.OnlineRegression(("abs", "norm"), alpha=0.2, window=40, normalize="none")
    online.run(model[:50], y[:50])
    online.predict_interval(model[50])
    answer = online._pending[None].answer
    candidates = online._weights.candidates
    n = len(online._window)
    k = math.ceil((n + 1) * 0.8)
    past = np.sort(-online._window.scores @ candidates.T, axis=0)[k - 1]
    half = past / (candidates[:, 0] + candidates[:, 1] / model.sigma[50])
    charged = online._sizes(answer, -past) * online._unit
    assert_allclose(charged, 2 * half, rtol=1e-5)


class Told:
    """ACI that notes the p-values it is told."""

    reads_pvalues = True

    def __init__(self) -> None:
        self.level, self.pvalues = 0.2, []

    def start(self, alpha: float) -> Told:
        return self

    def update(self, error: bool, pvalue: float) -> None:
        self.pvalues.append(pvalue)

    def bound(self, steps: int) -> float:
        return math.inf


def test_the_p_value_of_a_late_response_is_that_of_the_time_of_its_interval() -> None:
    model, y = rows(30)
    control = Told()
    online = cx.OnlineRegression("abs", alpha=0.2, control=control, window=12)
    expected, past = [], []
    for t in range(30):
        online.predict_interval(model[t], ticket=t)
        recent = np.array(past[-12:])
        residual = abs(y[t] - model.mean[t])
        expected.append((1 + (recent >= residual).sum()) / (1 + len(recent)))
        if t >= 3:
            online.update(y[t - 3], ticket=t - 3)
            past.append(abs(y[t - 3] - model.mean[t - 3]))
    assert control.pvalues == expected[:27]


def test_a_monitor_says_of_intervals_what_the_stream_says_of_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, y = rows(200, worse_from=150)
    online = cx.OnlineRegression(alpha=0.1, window=40).record(tmp_path / "log")
    trace = online.run(model, y)
    online.close()
    watched = Monitor(tmp_path / "log")
    watched.read()
    assert watched.guarantee == online.guarantee_
    told = watched.summary()
    width = trace.sets.width
    assert 0 < np.isinf(width).sum() == told["unbounded"][0]
    assert_allclose(told["mean_size"][0], width[np.isfinite(width)].mean())
    curves = watched.curves()
    assert_allclose(curves.size[:, 0], np.where(np.isinf(width), np.nan, width))
    assert_allclose(curves.weights, trace.weights)
    assert main(["monitor", str(tmp_path / "log"), "--once", "--table"]) == 0
    table = capsys.readouterr().out
    for words in ("width", "unbounded", "weight abs", "evidence of drift", "Guarantee exact"):
        assert words in table
    assert "set size" not in table
    assert main(["monitor", str(tmp_path / "log")]) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "interval"


def test_the_alarm_reads_scores_whose_scale_stays_the_same(tmp_path: Path) -> None:
    """Those that are divided by a spread have a floor that learns."""
    model, y = rows(40)
    for scores, kept in ((("abs", "norm"), [1.0, 0.0]), ("norm", None)):
        online = cx.OnlineRegression(scores, window=9)
        online.run(model, y)
        assert kept is None or online._plain.tolist() == kept
        assert (online._plain is None) == (kept is None)
    fixed = cx.OnlineRegression("norm", window=9, normalize="none")
    fixed.run(model, y)
    assert fixed._plain.tolist() == [1.0]


def test_nothing_that_a_stream_of_responses_holds_grows() -> None:
    model, y = rows(420)
    online = cx.OnlineRegression(alpha=0.1, control="dtaci", window=5, candidates=2, max_pending=9)
    held = []
    for t in range(420):
        online.predict_interval(model[t], ticket=t)
        if t % 3:
            online.update(y[t], ticket=t)
        if t in (130, 262, 391):
            held.append(len(pickle.dumps(online)))
    assert max(held) - min(held) < 300


def test_evaluate_leaves_the_stream_where_it_is() -> None:
    model, y = rows(160)
    online = cx.OnlineRegression(alpha=0.1, window=50)
    online.run(model[:100], y[:100])
    before = online.level_
    found = online.evaluate(model[100:], y[100:])
    assert (online.level_, online.rows_) == (before, 100)
    trace = copy.deepcopy(online).run(model[100:], y[100:])
    assert found["coverage"] == pytest.approx(trace.coverage)


def test_rows_and_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    model, _ = rows(3)
    online = cx.OnlineRegression(alpha=0.2, y_range=(-5, 5))
    with pytest.raises(cx.NotFitted, match="there is no interval to judge; call predict_interval"):
        online.update(0.0)
    online.predict_interval(model[0])
    with pytest.raises(cx.InvalidInput, match="the last interval has no label yet"):
        online.predict_interval(model[1])
    with pytest.raises(cx.InvalidInput, match=r"y_range says that every response lies within"):
        online.update(7.0)
    with pytest.raises(cx.InvalidInput, match="y must be finite"):
        online.update(float("nan"))
    online.update(4.0)
    with pytest.raises(cx.InvalidInput, match="must hold sigma, quantiles, as in fit"):
        online.predict_interval(1.0)
    with pytest.raises(cx.InvalidInput, match="takes one row of a stream; got 3"):
        online.predict_interval(model)
    with pytest.raises(cx.InvalidInput, match="has to know the largest width beforehand"):
        cx.OnlineRegression(adapt="hedge")
    own = cx.OnlineRegression(lambda m: (m.mean, 0 * m.mean, 1 + 0 * m.mean, 1 + 0 * m.mean))
    own.predict_interval(1.0)
    with pytest.raises(cx.InvalidInput, match="function of your own"):
        own.save(tmp_path / "own.json")
    online.save(tmp_path / "stream.json")
    with pytest.raises(cx.InvalidInput, match=r"online regression; conformix.OnlineRegression"):
        cx.OnlineAverage.load(tmp_path / "stream.json")


@pytest.mark.parametrize(
    "change",
    [
        {"unit": -1.0}, {"counted": -2}, {"models": []}, {"state": {}}, {"tickets": [1]},
        {"models": [{"name": "", "has": ["sigma", "height"], "levels": []}]}, {"max_pending": 0},
        {"scores": ["norm", "thr"]}, {"place": -1}, {"y_range": [3, 1]}, {"extra": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_state_of_responses_that_contradicts_itself_is_refused(change, tmp_path: Path) -> None:
    model, y = rows(20)
    online = cx.OnlineRegression(alpha=0.2, window=9)
    online.run(model, y)
    online.save(tmp_path / "stream.json")
    document = json.loads((tmp_path / "stream.json").read_text())
    document["online"] |= change
    (tmp_path / "stream.json").write_text(json.dumps(document))
    with pytest.raises(cx.InvalidInput):
        cx.OnlineRegression.load(tmp_path / "stream.json")
