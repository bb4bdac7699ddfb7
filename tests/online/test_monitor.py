"""What a log says while it grows: the monitor agrees with its stream, the alarm keeps its rate."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix.cli import main
from conformix.cli import monitor as command
from conformix.cli.monitor import bars
from conformix.online import Alarm, Monitor
from conformix.online import monitor as monitor_module
from conformix.online.alarm import share_ends


def rows(n: int, worse_from: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    y = rng.integers(4, size=n)
    good = np.where(np.arange(n) < (n if worse_from is None else worse_from), 2.5, 0.0)
    raw = np.exp(rng.normal(size=(n, 4)) + good[:, None] * np.eye(4)[y])
    return raw / raw.sum(axis=1, keepdims=True), y


def recorded(folder: Path, n: int = 150, worse_from: int | None = None, **options):
    settings = {"scores": ("thr", "rank"), "alpha": 0.2, "window": 40, "candidates": 2} | options
    online = cx.OnlineAverage(**settings).record(folder)
    probs, y = rows(n, worse_from)
    return online, online.run(probs, y)


@pytest.mark.parametrize("alpha", [0.2, (0.1, 0.3)], ids=str)
def test_a_monitor_says_of_a_stream_what_the_stream_says_of_itself(alpha, tmp_path: Path) -> None:
    online, trace = recorded(tmp_path / "log", alpha=alpha)
    watched = Monitor(tmp_path / "log")
    assert watched.read() == 300
    assert watched.read() == 0
    probs, y = rows(150)
    online.predict_set(probs[0], ticket="waits")
    online.predict_set(probs[1], ticket="comes")
    online.update(y[1], ticket="comes")
    assert watched.read() == 3
    assert (watched.rows, watched.labels, watched.unlabelled) == (152, 151, 1)
    assert watched.guarantee == online.guarantee_
    assert not watched.ended
    online.close()
    watched.read()
    assert watched.ended
    errors = trace.errors.reshape(150, -1)
    told = watched.summary()
    sizes = trace.sets.sizes.reshape(-1, 150).T
    assert_allclose(told["coverage"][0], 1 - (watched.errors[0] / 151))
    assert watched.errors[0] - errors.sum(axis=0)[0] in (0, 1)
    curves = watched.curves()
    assert_allclose(curves.coverage[:150], 1 - errors, rtol=1e-12)  # a stretch is one label here
    assert_allclose(curves.size[:150], sizes)
    assert_allclose(curves.weights[:150], trace.weights)
    assert_array_equal(curves.level[:150], trace.levels.reshape(150, -1))
    running = 1 - np.cumsum(errors, axis=0) / np.arange(1, 151)[:, None]
    assert_allclose(curves.running[:150], running)
    assert (
        np.abs(curves.running[:150] - (1 - np.array(watched.alphas))) <= curves.bound[:150]
    ).all()
    assert (curves.running >= 1 - np.array(watched.alphas) - curves.ceiling).all()
    assert (curves.ceiling <= curves.bound).all()


def test_stretches_are_put_together_and_lose_nothing(tmp_path: Path, monkeypatch) -> None:
    online, trace = recorded(tmp_path / "log")
    online.close()
    monkeypatch.setattr(monitor_module, "STRETCHES", 8)
    watched = Monitor(tmp_path / "log")
    while watched.read(7):
        pass
    curves = watched.curves()
    assert len(curves.labels) < 8
    assert curves.labels[-1] == 150
    lengths = np.diff([0, *curves.labels])
    assert set(lengths[:-1]) == {32}
    assert_allclose(lengths @ curves.coverage[:, 0], 150 - trace.errors.sum())
    assert_allclose(lengths @ curves.size[:, 0], trace.sets.sizes.sum())
    assert len(watched._waiting) == 0


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_shares_beyond_a_cut_of_the_reference_lie_within_their_ends(share: float) -> None:
    """Uniform scores: the share below a cut is the cut. Ties are the same law, rounded."""
    rng, n, error = np.random.default_rng(0), 60, 0.1
    rank = int(share * (n + 1))
    high, low = share_ends([rank], n, error)
    cuts = np.sort(rng.uniform(size=(4000, n)), axis=1)[:, rank - 1]
    for beyond in (cuts > high[0], cuts < low[0]):
        assert abs(beyond.mean() - error) < 4 * np.sqrt(error * (1 - error) / 4000)
    coarse = np.ceil(5 * cuts) / 5  # scores 1/5, ..., 1
    assert (coarse - 0.2 > high[0]).mean() <= (cuts > high[0]).mean()  # P(score < cut)
    assert (coarse < low[0]).mean() <= (cuts < low[0]).mean()  # P(score <= cut)


def test_every_bet_is_unfair_as_long_as_shares_lie_within_the_ends() -> None:
    """What Ville's inequality needs, for every share that the reference allows."""
    alarm = Alarm(alpha=0.1, delta=0.05, reference=100)
    rng = np.random.default_rng(1)
    for score in rng.normal(size=100):
        alarm.update(score)
    assert alarm.threshold == 2 / 0.05
    ranks = [10, 50]
    high, low = share_ends(ranks, 100, 0.05 / 8)
    hit, miss = alarm._hit.reshape(4, -1), alarm._miss.reshape(4, -1)
    for j in range(2):
        for p in np.linspace(0, high[j], 20):
            assert (p * hit[j] + (1 - p) * miss[j] <= 1 + 1e-12).all()
        for p in np.linspace(low[j], 1, 20):
            assert (p * hit[2 + j] + (1 - p) * miss[2 + j] <= 1 + 1e-12).all()


def raised(delta: float, reference: int, scores: np.ndarray) -> int | None:
    alarm = Alarm(alpha=0.2, delta=delta, reference=reference)
    for score in scores:
        alarm.update(score)
    return alarm.raised_at_


def false_alarms(streams: int, length: int, delta: float, *, ties: bool) -> int:
    rng = np.random.default_rng(7)
    count = 0
    for _ in range(streams):
        scores = rng.uniform(size=length)
        count += raised(delta, 30, np.ceil(4 * scores) if ties else scores) is not None
    return count


def test_false_alarms_are_no_more_than_stated() -> None:
    """At a rate of one half, so that forty streams say something."""
    assert false_alarms(40, 150, 0.5, ties=False) <= 20


def test_scores_that_tie_with_the_reference_are_no_drift() -> None:
    """Two values, both common: half of all rows lie at the cut, and none beyond it."""
    assert raised(0.01, 100, np.random.default_rng(3).integers(2, size=500)) is None


@pytest.mark.long(short="test_false_alarms_are_no_more_than_stated")
@pytest.mark.parametrize("ties", [False, True])
def test_false_alarms_over_many_long_streams(ties: bool) -> None:
    assert false_alarms(400, 2000, 0.2, ties=ties) <= 0.2 * 400


@pytest.mark.parametrize("shift", [-1.0, 1.0], ids=["worse rows", "easier rows"])
def test_drift_raises_the_alarm_soon_also_after_a_long_quiet_time(shift: float) -> None:
    rng = np.random.default_rng(2)
    quiet, then = rng.normal(size=5000), rng.normal(shift, size=400)
    at = raised(0.01, 300, np.concatenate([quiet, then]))
    assert at is not None
    assert 5000 < at < 5300


def test_the_alarm_refuses_what_makes_no_sense() -> None:
    for wrong in ({"delta": 0}, {"alpha": 2}, {"reference": 1}):
        with pytest.raises(cx.InvalidInput, match=next(iter(wrong))):
            Alarm(**wrong)
    with pytest.raises(cx.InvalidInput, match="score must be a finite number"):
        Alarm().update(float("nan"))


def test_a_stream_whose_scores_all_learn_has_no_alarm(tmp_path: Path) -> None:
    online, _ = recorded(tmp_path / "log", 30, scores="likeness")
    online.close()
    watched = Monitor(tmp_path / "log")
    watched.read()
    assert watched.alarm is None
    assert watched.summary()["evidence"] is None
    assert main(["monitor", str(tmp_path / "log"), "--once", "--table"]) == 0


def test_the_command_tells_numbers_in_a_pipe_and_a_table_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    online, trace = recorded(tmp_path / "log", 400, worse_from=250)
    online.close()
    assert main(["monitor", str(tmp_path / "log")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["labels"] == 400
    assert_allclose(told["coverage"][0], trace.coverage)
    assert 250 < told["alarm_after"] < 400
    assert main(["monitor", str(tmp_path / "log"), "--once", "--table"]) == 0
    table = capsys.readouterr().out
    for words in ("coverage", "set size", "weight thr", "evidence of drift", "Drift: alarm after",
                  "probability of at most 0.01", "Guarantee exact", "closed"):  # fmt: skip
        assert words in table
    assert main(["monitor", str(tmp_path)]) == 2
    assert "is no log of a stream" in capsys.readouterr().err
    assert main(["monitor", str(tmp_path / "log"), "--every", "0"]) == 2


def test_bars_rise_with_the_numbers() -> None:
    assert bars([], 5) == ""
    assert bars([3.0, 3.0], 5) == "▁▁"
    assert bars(np.arange(16), 8) == "▁▂▃▄▅▆▇█"


def on_a_terminal(folder: Path, then: signal.Signals | None) -> tuple[int, str]:
    """Follow a log on a pseudo-terminal, perhaps until a signal; return its end and its words."""
    pty = pytest.importorskip("pty")
    lead, follow = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "conformix.cli", "monitor", str(folder), "--every", "0.05"],
        env=os.environ | {"TERM": "xterm", "COLUMNS": "90"}, stdout=follow, stderr=follow,
        stdin=follow,
        # What runs in the background may be deaf to Ctrl-C, and its children with it.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip
    os.close(follow)
    seen = b""
    while select.select([lead], [], [], 60)[0]:
        try:
            piece = os.read(lead, 65536)
        except OSError:
            break
        seen += piece
        if then is not None and b"Guarantee" in seen:
            time.sleep(0.1)
            process.send_signal(then)
            then = None
        if not piece:
            break
    os.close(lead)
    return process.wait(timeout=60), seen.decode()


def test_following_a_stream_ends_by_itself_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    online, _ = recorded(tmp_path / "log", 60)
    naps = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        online.close()

    monkeypatch.setattr(command.time, "sleep", nap)
    command._follow(Monitor(tmp_path / "log"), every=0.25)
    assert naps == [0.25]
    assert "60 labels; closed" in capsys.readouterr().out


def test_leaving_an_open_stream_is_no_failure(tmp_path: Path) -> None:
    _online, _ = recorded(tmp_path / "log", 60)  # open, as long as it lives
    code, words = on_a_terminal(tmp_path / "log", signal.SIGINT)
    assert code == 0
    assert "60 labels; open" in words
    assert "Traceback" not in words
    assert words.rstrip().endswith("\x1b[?25h")  # the cursor is back


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.tags = "", []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_page_of_a_stream_holds_its_numbers_and_no_script(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    evil = '<script>alert("x")</script>'
    probs, y = rows(120, worse_from=80)
    online = cx.OnlineAverage("thr", alpha=(0.1, 0.2), window=30).record(tmp_path / "log & <b>")
    online.run({evil: probs, "other": probs[:, ::-1]}, y)
    online.close()
    target = tmp_path / "page.html"
    assert main(["monitor", str(tmp_path / "log & <b>"), "-o", str(target)]) == 0
    page = Page()
    page.feed(target.read_text(encoding="utf-8"))
    tags = [tag for tag, _ in page.tags]
    assert "script" not in tags
    assert "b" not in tags
    assert tags.count("svg") >= 5
    assert online.guarantee_.statement in page.words
    assert f"{1 - online._errors[0] / 120:.4f}"[:5] in page.words
    assert "on streams without drift an alarm is raised" in page.words
    assert not [a for _, a in page.tags if any(str(v).startswith("http") for v in a.values())]
    assert main(["monitor", str(tmp_path / "log & <b>"), "-o", str(tmp_path / "page.txt")]) == 2


def test_a_page_without_labels_says_so(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    from conformix.report.stream import stream_report

    online = cx.OnlineAverage("thr").record(tmp_path / "log")
    online.predict_set([0.5, 0.5], ticket=1)
    watched = Monitor(tmp_path / "log")
    watched.read()
    assert "No label has come yet" in stream_report(watched).html()
    online.close()
