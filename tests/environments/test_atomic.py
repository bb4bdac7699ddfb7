"""Files are written whole or not at all, and nothing else in the folder or the process changes."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import pytest

import conformix as cx
from conformix import atomic
from conformix.atomic import check_writable, write_whole

posix = pytest.mark.skipif(os.name != "posix", reason="modes, pipes and signals of POSIX")


def write(path: Path, content: bytes = b"whole") -> None:
    write_whole(path, lambda file: file.write(content))


def gone() -> int:
    """The number of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def part(folder: Path, name: str, process: int, host: str = atomic.HOST) -> Path:
    path = folder / f".{name}.{host}-{process}-0123abcd.part"
    path.write_bytes(b"half")
    return path


@posix
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_file_gets_the_mode_of_the_mask_which_is_never_touched(
    mask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(mask)
    try:
        monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the mask is of all threads"))
        write(tmp_path / "a.txt")
        monkeypatch.undo()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o666 & ~mask


@posix
def test_pipes_devices_and_folders_are_refused_and_stay(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(cx.InvalidInput, match=r"pipe is no regular file .a pipe or a device"):
        write(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    (tmp_path / "device").symlink_to("/dev/null")
    with pytest.raises(cx.InvalidInput, match=r"device is no regular file .a pipe or a device"):
        write(tmp_path / "device")
    for path in ("/dev/null", "/dev/stdout", "/proc/self/fd/1"):
        with pytest.raises(cx.InvalidInput, match="name a file"):
            check_writable(Path(path))
    with pytest.raises(cx.InvalidInput, match=r" is a folder; name a file in it\."):
        write(tmp_path)
    with pytest.raises(cx.InvalidInput, match=r"nowhere is no folder; create it first\."):
        write(tmp_path / "nowhere" / "a.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["device", "pipe"]


@posix
def test_saving_a_model_onto_a_pipe_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.json")
    cp = cx.ScoreAverage("thr", alpha=0.5, weights=[1]).fit([[0.2, 0.8], [0.7, 0.3]], [1, 0])
    with pytest.raises(cx.InvalidInput, match=r"is no regular file"):
        cp.save(tmp_path / "model.json")


@posix
def test_what_a_killed_writer_leaves_is_cleared_by_the_next_one(tmp_path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from conformix.atomic import write_whole
def fill(file):
    file.write(b"half")
    file.flush()
    print("begun", flush=True)
    time.sleep(60)
write_whole(Path(sys.argv[1]), fill)
"""
    target = tmp_path / "a.txt"
    target.write_bytes(b"old")
    command = [sys.executable, "-c", code, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"begun\n"
        write(target, b"new")  # beside a writer that lives: its part stays
        assert len(list(tmp_path.glob(".a.txt.*.part"))) == 1
        child.send_signal(signal.SIGKILL)
    assert target.read_bytes() == b"new"
    assert len(list(tmp_path.glob(".a.txt.*.part"))) == 1
    write(target, b"newer")
    assert list(tmp_path.iterdir()) == [target]


@posix
def test_only_stale_parts_of_the_same_file_are_cleared(tmp_path: Path) -> None:
    ended = gone()
    stale = part(tmp_path, "a.txt", ended)
    other = part(tmp_path, "b.txt", ended)
    living = part(tmp_path, "a.txt", os.getppid())
    elsewhere = part(tmp_path, "a.txt", ended, host="00000000")
    old = part(tmp_path, "a.txt", ended, host="00000001")
    os.utime(old, (time.time() - 2 * atomic.STALE,) * 2)
    user = tmp_path / ".a.txt.part"
    user.touch()
    write(tmp_path / "a.txt")
    left = {tmp_path / "a.txt", other, living, elsewhere, user}
    assert set(tmp_path.iterdir()) == left
    assert not stale.exists()


def test_a_failure_leaves_the_old_file_and_no_part(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_bytes(b"old")

    def fill(file: IO[bytes]) -> None:
        file.write(b"half")
        raise RuntimeError("full")

    with pytest.raises(RuntimeError, match="full"):
        write_whole(target, fill)
    assert list(tmp_path.iterdir()) == [target]
    assert target.read_bytes() == b"old"


def test_many_threads_may_write_one_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    contents = [bytes([i]) * 10_000 for i in range(8)]
    threads = [threading.Thread(target=write, args=(target, content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [target]


def test_a_long_name_leaves_room_for_its_part(tmp_path: Path) -> None:
    target = tmp_path / ("é" * 125)
    write(target)
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(cx.InvalidInput, match=r"too long|cannot be written"):
        write(tmp_path / ("é" * 200))
