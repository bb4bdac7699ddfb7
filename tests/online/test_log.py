"""A stream outlives its process: killed at any moment, it goes on with the same bits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import conformix as cx
from conformix.online import ACI, DtACI
from conformix.online.log import ROWS, START, STATE, Log, LogShape, recorded_steps

posix = pytest.mark.skipif(os.name != "posix", reason="needs fork and signals, absent here")

LIFE = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
import conformix as cx
from conformix.online import DtACI

rng = np.random.default_rng(5)
n = int(sys.argv[3])
y = rng.integers(4, size=n)
raw = np.exp(rng.normal(size=(n, 4)) + 2 * np.eye(4)[y])
probs = (raw / raw.sum(axis=1, keepdims=True)).astype(np.float32)

kind = {"sets": cx.OnlineAverage, "intervals": cx.OnlineRegression}[sys.argv[5]]
if kind is cx.OnlineRegression:
    spread = rng.uniform(0.5, 2, size=n)
    y = rng.normal(size=n) * spread
    model = cx.Regressed(mean=np.zeros(n), sigma=spread)

def begin(folder):
    if (folder / "state.json").exists():
        return kind.resume(folder, every=17)
    for left in folder.glob("*"):
        left.unlink()  # killed before the first row was whole
    options = dict(
        alpha=[0.1, 0.3], control=DtACI(memory=50), window=40, candidates=3, adapt="fading",
        max_pending=5,
    )
    if kind is cx.OnlineRegression:
        return kind(**options).record(folder, every=17)
    online = kind(("thr", "aps", "rarity"), random_state=7, **options)
    return online.record(folder, every=17)

def issue(online, i, ticket):
    if kind is cx.OnlineRegression:
        return online.predict_interval(model[i], ticket=ticket)
    return online.predict_set(probs[i], ticket=ticket)

def live(folder):
    # Labels come three rows late; every seventh never does.
    online = begin(folder)
    for i in range(n):
        if i >= online.rows_:
            issue(online, i, i)
        if i >= 3 and (i - 3) % 7 and i - 3 in online.pending_:
            online.update(y[i - 3], ticket=i - 3)
    return online

folder, kills = Path(sys.argv[1]), int(sys.argv[2])
whole, cut = folder / "whole", folder / "cut"
live(whole)
size = (whole / "rows.log").stat().st_size
cut.mkdir()
rng, at = random.Random(int(sys.argv[4])), []
while len(at) < kills:
    target = rng.uniform(0, 0.999) * size
    if (cut / "rows.log").exists() and (cut / "rows.log").stat().st_size > target:
        target = rng.uniform((cut / "rows.log").stat().st_size / size, 0.999) * size
    child = os.fork()
    if child == 0:
        live(cut)
        os._exit(0)
    while True:
        there = (cut / "rows.log").stat().st_size if (cut / "rows.log").exists() else -1
        if there >= target or os.waitpid(child, os.WNOHANG)[0]:
            break
        time.sleep(rng.uniform(0, 0.0005))
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
    at.append(there)
live(cut)
assert (whole / "rows.log").read_bytes() == (cut / "rows.log").read_bytes()
one, other = (kind.replay(f) for f in (whole, cut))
third = kind.resume(cut)
for online in (one, other, third):
    issue(online, 0, "next")
    online.update(y[0], ticket="next")
def told(o):
    return repr((o.level_.tolist(), o.weights_.tolist(), str(o.guarantee_), o.pending_))
states = [told(o) for o in (one, other, third)]
assert len(set(states)) == 1, states
print(len(at), "kills at", at, "of", size)
"""


def killed(folder: Path, kills: int, rows: int, seed: int = 0, kind: str = "sets") -> str:
    """Kill a stream that often, each time at another place of its log, and compare with a whole."""
    done = subprocess.run(
        [sys.executable, "-c", LIFE, str(folder), str(kills), str(rows), str(seed), kind],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@posix
def test_a_stream_killed_twice_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    assert killed(tmp_path, kills=2, rows=120).startswith("2 kills")


@posix
def test_a_stream_of_responses_killed_twice_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    assert killed(tmp_path, kills=2, rows=80, kind="intervals").startswith("2 kills")


@posix
@pytest.mark.long(short="test_a_stream_killed_twice_goes_on_with_the_same_bits")
def test_a_stream_killed_ten_times_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    assert killed(tmp_path, kills=10, rows=1500, seed=1).startswith("10 kills")


@posix
@pytest.mark.long(short="test_a_stream_of_responses_killed_twice_goes_on_with_the_same_bits")
def test_a_stream_of_responses_killed_ten_times_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    killed_often = killed(tmp_path, kills=10, rows=900, seed=1, kind="intervals")
    assert killed_often.startswith("10 kills")


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    y = rng.integers(3, size=n)
    raw = np.exp(rng.normal(size=(n, 3)) + np.eye(3)[y])
    return raw / raw.sum(axis=1, keepdims=True), y


def recorded(folder: Path, n: int = 30, **options) -> cx.OnlineAverage:
    probs, y = rows(n)
    settings = {"scores": ("thr", "kin"), "alpha": 0.2, "window": 12, "candidates": 2} | options
    online = cx.OnlineAverage(**settings).record(folder, every=1000)
    online.run(probs, y)
    return online


def test_every_cut_of_a_log_resumes_to_the_stream_that_wrote_it(tmp_path: Path) -> None:
    """As if killed in the middle of every write: what is not whole is left out, nothing else."""
    online = recorded(tmp_path / "log", 6, control=DtACI())
    online._log.close()
    content = (tmp_path / "log" / ROWS).read_bytes()
    shape = online._log_shape()
    ends = [end for _, end in recorded_steps(tmp_path / "log", shape)]
    assert ends[-1] == len(content)
    for size in range(len(content) - 130, len(content) + 1, 3):
        (tmp_path / "log" / ROWS).write_bytes(content[:size])
        again = cx.OnlineAverage.resume(tmp_path / "log")
        whole = max(end for end in ends if end <= size)
        assert (tmp_path / "log" / ROWS).stat().st_size == whole
        assert again._issued + again._steps == ends.index(whole) + 1
        again._log.close()


@pytest.mark.parametrize(
    "options",
    [
        {}, {"control": "betting"}, {"adapt": "fading"}, {"alpha": (0.2, 0.5)},
        {"control": DtACI(room=float("inf"))},
    ],
    ids=str,
)  # fmt: skip
def test_saved_resumed_and_replayed_streams_are_the_same(options, tmp_path: Path) -> None:
    online = recorded(tmp_path / "log", **options)
    probs, y = rows(50)
    online.predict_set(probs[0], ticket="late")
    online.predict_set(probs[1], ticket=17)
    online.save(tmp_path / "stream.json")
    online._log.close()
    again = [
        cx.OnlineAverage.load(tmp_path / "stream.json"),
        cx.OnlineAverage.replay(tmp_path / "log"),
        cx.OnlineAverage.resume(tmp_path / "log"),
    ]
    told = []
    for one in again:
        one.update(y[1], ticket=17)
        trace = one.run(probs[30:], y[30:])
        told.append((trace.levels.tobytes(), trace.weights.tobytes(), str(one.guarantee_)))
        assert one.pending_ == ["late"]
    assert len(set(told)) == 1


def test_a_closed_log_says_so_and_can_be_resumed(tmp_path: Path) -> None:
    online = recorded(tmp_path / "log")
    online.close()
    assert online.rows_ == 30
    online.run(*rows(3))  # goes on, unrecorded
    again = cx.OnlineAverage.resume(tmp_path / "log")
    assert again.rows_ == 30
    again.run(*rows(3))
    again.close()
    assert cx.OnlineAverage.resume(tmp_path / "log").rows_ == 33


def test_a_log_whose_process_ended_before_its_first_state_was_whole_resumes(tmp_path: Path) -> None:
    recorded(tmp_path / "log", 6).close()
    (tmp_path / "log" / STATE).unlink()
    assert cx.OnlineAverage.resume(tmp_path / "log").rows_ == 6
    (tmp_path / "log" / STATE).unlink(missing_ok=True)
    (tmp_path / "log" / START).unlink()
    with pytest.raises(cx.InvalidInput, match="holds no row: its process ended before the first"):
        cx.OnlineAverage.resume(tmp_path / "log")


def test_copies_of_a_recorded_stream_write_nothing(tmp_path: Path) -> None:
    online = recorded(tmp_path / "log")
    before = (tmp_path / "log" / ROWS).read_bytes()
    online.evaluate(*rows(5))
    assert (tmp_path / "log" / ROWS).read_bytes() == before
    waiting = cx.OnlineAverage("thr").record(tmp_path / "other")
    waiting.evaluate(*rows(5))
    assert list((tmp_path / "other").iterdir()) == []


@posix
def test_two_writers_of_one_log_are_refused(tmp_path: Path) -> None:
    online = recorded(tmp_path / "log")
    with pytest.raises(cx.InvalidInput, match="being written by another process"):
        cx.OnlineAverage.resume(tmp_path / "log")
    online.close()


def test_folders_that_are_no_place_for_a_log_are_refused(tmp_path: Path) -> None:
    online = cx.OnlineAverage("thr")
    (tmp_path / "file").touch()
    with pytest.raises(cx.InvalidInput, match="is not empty; name a new folder"):
        online.record(tmp_path)
    with pytest.raises(cx.InvalidInput, match="is a file; name a folder"):
        online.record(tmp_path / "file")
    with pytest.raises(cx.InvalidInput, match="is no folder; create it first"):
        online.record(tmp_path / "no" / "log")
    with pytest.raises(cx.InvalidInput, match="is no log of a stream"):
        cx.OnlineAverage.resume(tmp_path)
    with pytest.raises(cx.InvalidInput, match="recorded already"):
        online.record(tmp_path / "log").record(tmp_path / "log")

    class Own(ACI):
        pass

    with pytest.raises(cx.InvalidInput, match="of your own, which no file can hold"):
        cx.OnlineAverage("thr", control=type("Mine", (), {"start": lambda s, a: Own(),
            "update": print})()).record(tmp_path / "own")  # fmt: skip


def turned(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x40
    path.write_bytes(bytes(content))


def test_a_damaged_log_is_refused_and_never_cut(tmp_path: Path) -> None:
    """A turned bit anywhere before the last record: in lengths, sums, kinds and numbers."""
    online = recorded(tmp_path / "log", 4)
    online._log.close()
    shape, path = online._log_shape(), tmp_path / "log" / ROWS
    content, ends = path.read_bytes(), [end for _, end in recorded_steps(path.parent, shape)]
    for place in range(0, ends[-3], 11):
        path.write_bytes(content)
        turned(path, place)
        with pytest.raises(cx.InvalidInput, match=r"is damaged|no log"):
            cx.OnlineAverage.replay(path.parent)
        with pytest.raises(cx.InvalidInput, match=r"is damaged|no log"):
            cx.OnlineAverage.resume(path.parent)
        assert path.stat().st_size == len(content)


def test_records_that_do_not_follow_from_those_before_are_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    online = recorded(tmp_path / "log", 4)
    online._log.close()
    shape = online._log_shape()
    steps = [step for step, _ in recorded_steps(tmp_path / "log", shape)]
    changes = {
        "another set": {0: {"sizes": steps[0].sizes + 1}},
        "another level": {2: {"levels": steps[2].levels + 1e-16}},
        "another row": {2: {"number": 7}},
        "a label of nobody": {1: {"number": 3}},
    }
    for change in changes.values():
        (tmp_path / "log" / ROWS).unlink()
        log = Log(tmp_path / "log")
        for place, step in enumerate(steps):
            log.append(replace(step, **change.get(place, {})))
            log.settle()
        log.close()
        with pytest.raises(cx.InvalidInput, match="does not follow from those before"):
            cx.OnlineAverage.replay(tmp_path / "log")


def test_a_log_that_is_shorter_than_its_state_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path / "log").close()
    os.truncate(tmp_path / "log" / ROWS, 100)
    with pytest.raises(cx.InvalidInput, match=r"shorter than its state\.json says"):
        cx.OnlineAverage.resume(tmp_path / "log")


def test_a_write_that_fails_closes_the_log_which_resumes(tmp_path: Path, monkeypatch) -> None:
    online = recorded(tmp_path / "log")
    real, probs = online._log._file, rows(1)[0]

    class Full:
        close = real.close

        def write(self, content: bytes) -> int:
            if len(content) <= 20:  # the rest
                raise OSError(28, "no room on the disk")
            return real.write(content[:-20])

    with monkeypatch.context() as patch:
        patch.setattr(online._log, "_file", Full())
        with pytest.raises(OSError, match="no room"):
            online.predict_set(probs[0])
        patch.setattr(online._log, "_file", None)
    online._log._file = None
    with pytest.raises(cx.InvalidInput, match="is closed; resume it"):
        online.predict_set(probs[0])
    assert cx.OnlineAverage.resume(tmp_path / "log").rows_ == 30


def test_a_step_that_is_interrupted_closes_the_log_which_has_it(
    tmp_path: Path, monkeypatch
) -> None:
    """The record is there, the stream in memory has not followed: only the log can go on."""
    online, (probs, y) = recorded(tmp_path / "log"), rows(2)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    online.predict_set(probs[0])
    with monkeypatch.context() as patch:
        patch.setattr(online, "_charge", stop)
        with pytest.raises(KeyboardInterrupt):
            online.update(y[0])
    with pytest.raises(cx.InvalidInput, match="left in the middle of a step"):
        online.predict_set(probs[1])
    again = cx.OnlineAverage.resume(tmp_path / "log")
    assert (again.rows_, again.pending_, again._steps) == (31, [], 31)


@pytest.mark.parametrize("every", [0, -1, True, 2.5])
def test_states_are_written_every_so_many_records(every, tmp_path: Path) -> None:
    with pytest.raises(cx.InvalidInput, match="every must be a positive number of records"):
        cx.OnlineAverage("thr").record(tmp_path / "log", every=every).predict_set([0.5, 0.5])


@pytest.mark.parametrize(
    "change",
    [
        {"issued": 5}, {"late": -1}, {"max_pending": 0}, {"errors": [1, 2]}, {"tickets": [1]},
        {"place": -1}, {"sums": []}, {"due": "soon"}, {"alpha": []},
        {"state": [{}, {}]}, {"control": "dtaci"},
    ],
    ids=str,
)  # fmt: skip
def test_a_state_that_contradicts_itself_is_refused(change, tmp_path: Path) -> None:
    import json

    recorded(tmp_path / "log").close()
    document = json.loads((tmp_path / "log" / STATE).read_text())
    document["online"] |= change
    (tmp_path / "log" / STATE).write_text(json.dumps(document))
    with pytest.raises(cx.InvalidInput, match="damaged"):
        cx.OnlineAverage.resume(tmp_path / "log")


def test_outputs_are_logged_as_they_came() -> None:
    from conformix.online.log import Issued, as_record, step_of

    shape = LogShape(1, 2, ("a", "b"), 3)
    for dtype in ("float64", "float32", "float16", "int64", "uint8", ">f4"):
        outputs = {name: np.arange(3).astype(dtype)[None, :] for name in ("a", "b")}
        for ticket in (None, -4, "Zürich"):
            step = Issued(4, ticket, np.array([0.1]), np.array([0.5, 0.5]), [2], outputs)
            record = as_record(step)
            found = step_of(record[13:], record[8], shape)
            assert found.ticket == ticket
            assert found.outputs["b"].tolist() == [[0, 1, 2]]
            assert as_record(found) == record
    assert START != STATE


def watched_disk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note in order what is written to a log, what waits for the disk, and what gets a name."""
    told: list[str] = []
    fsync, replace, write = os.fsync, Path.replace, Log._write

    def waits(handle: int) -> None:
        name = Path(f"/proc/self/fd/{handle}").readlink().name
        told.append("disk " + re.sub(r"^\.(.+)\.[0-9a-f]{8}-\d+-[0-9a-f]{8}\.part$", r"\1", name))
        fsync(handle)

    def named(part: Path, target: Path) -> Path:
        told.append(f"name {target.name}")
        return replace(part, target)

    def written(log: Log, content: bytes) -> None:
        write(log, content)
        told.append("record")

    monkeypatch.setattr(os, "fsync", waits)
    monkeypatch.setattr(Path, "replace", named)
    monkeypatch.setattr(Log, "_write", written)
    return told


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, absent here")


@linux
@pytest.mark.parametrize("durable", [False, True, 3], ids=["as it comes", "each", "every third"])
def test_a_durable_log_waits_for_the_disk_before_a_set_is_returned(
    durable, tmp_path: Path, monkeypatch
) -> None:
    probs, y = rows(6)
    online = cx.OnlineAverage("thr", alpha=0.2, window=5)
    online.record(tmp_path / "log", durable=durable)
    told = watched_disk(monkeypatch)
    online.predict_set(probs[0])
    assert told[0] == "record"  # that it is a log
    names = [one for one in told if one.startswith("name")]
    assert names == ["name start.json", "name state.json"]
    if durable:  # the folder's name in its own, too
        assert told[1:4] == ["disk rows.log", "disk log", f"disk {tmp_path.name}"]
    unsafe = told[told.index("name state.json") :].count("record")
    assert unsafe == 1
    for t in range(5):
        told.clear()
        online.update(y[t])
        online.predict_set(probs[t + 1])
        waits = [place for place, one in enumerate(told) if one == "disk rows.log"]
        assert told.count("record") == 2
        if durable is True:
            assert told == ["record", "disk rows.log"] * 2
        else:
            expected = {False: 0, 3: (2 * t + 3) // 3 - (2 * t + 1) // 3}[durable]
            assert len(waits) == expected
    online.close()


@linux
def test_a_state_has_its_name_after_the_disk_has_it_and_all_records_before_it(
    tmp_path: Path, monkeypatch
) -> None:
    """Whatever the power does, no state is ahead of its log: durable or not."""
    probs, y = rows(3)
    online = cx.OnlineAverage("thr", alpha=0.2, window=5).record(tmp_path / "log", every=2)
    online.predict_set(probs[0])
    told = watched_disk(monkeypatch)
    online.update(y[0])
    assert told == [
        "record", "disk rows.log", "disk state.json", "name state.json", "disk log",
    ]  # fmt: skip
    told.clear()
    online.close()
    assert told[:4] == ["record", "disk rows.log", "disk state.json", "name state.json"]


def test_a_disk_that_fails_closes_the_log(tmp_path: Path, monkeypatch) -> None:
    online = cx.OnlineAverage("thr", alpha=0.2, window=5).record(tmp_path / "log", durable=True)
    online.predict_set([0.5, 0.5])

    def fails(handle: int) -> None:
        raise OSError(5, "the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="the disk is gone"):
            online.update(0)
    with pytest.raises(cx.InvalidInput, match="resume it to go on"):
        online.update(0)


@pytest.mark.parametrize("durable", [-1, 2.5, "yes", None])
def test_what_a_log_waits_for_is_a_number_of_records(durable, tmp_path: Path) -> None:
    with pytest.raises(cx.InvalidInput, match="durable must be True, False or a number"):
        cx.OnlineAverage("thr").record(tmp_path / "log", durable=durable)
