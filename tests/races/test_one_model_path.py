"""Readers and writers of one model path always see a whole model, old or new.

``cd tests && python -m races`` is the long form: ten thousand rounds.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

import pytest

from conformix.errors import InvalidInput
from conformix.fit.saved import codec, folder, load_predictor
from conformix.fit.saved.files import write
from races.rounds import answers, run_kills, run_rounds, save_in_turn, two_models

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")


def test_two_writers_and_a_reader_never_see_a_broken_model(tmp_path: Path) -> None:
    found = run_rounds(tmp_path, 100)
    assert found.broken == []
    assert found.loads > 20
    assert found.left == 1


def test_a_kill_between_any_two_steps_leaves_a_whole_model(tmp_path: Path) -> None:
    found = run_kills(tmp_path, 6)
    assert found.broken == []
    assert found.left == 1  # what the killed ones left behind, the next save has removed


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(codec, "INLINE", 0)
    save_in_turn(tmp_path / "model.json", two_models()[:1], 1, 0)
    return tmp_path / "model.json"


def test_arrays_of_a_save_that_is_going_on_are_not_removed_by_another(saved: Path) -> None:
    going_on = saved.with_name("model.json.0123456789ab.npz")
    with folder.saving(saved):
        going_on.write_bytes(b"about to be named")
        save_in_turn(saved, two_models()[1:], 1, 0)
        assert going_on.exists()
    assert not going_on.exists()  # nobody named them


def test_only_files_that_a_save_has_written_are_ever_removed(saved: Path) -> None:
    others = ["model.json.npz", "model.json.notes.npz", "other.json.0123456789ab.npz"]
    for name in others:
        saved.with_name(name).write_bytes(b"mine")
    save_in_turn(saved, two_models()[1:], 1, 0)
    assert {path.name for path in saved.parent.iterdir()} >= {*others}


def test_where_a_folder_cannot_be_locked_nothing_is_removed(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name for path in saved.parent.iterdir()}
    monkeypatch.setattr(folder, "fcntl", None)
    second = two_models()[1]
    second.save(saved)
    assert {path.name for path in saved.parent.iterdir()} > before
    assert answers(load_predictor(saved)) == answers(second.predictor_)


def test_a_reader_begins_again_as_long_as_others_save(saved: Path) -> None:
    looks = iter(range(60))

    def too_late() -> str:
        if next(looks) < 50:
            write(saved, saved.read_bytes() + b" ")  # saved again between the JSON and its arrays
            raise folder.MissingArrays("its arrays are gone")
        return "whole"

    assert folder.read_whole(saved, too_late) == "whole"


def test_arrays_that_are_missing_for_good_are_said_to_be_missing_soon(saved: Path) -> None:
    saved.with_name(json.loads(saved.read_text())["npz"]).unlink()
    begun = time.perf_counter()
    with pytest.raises(InvalidInput, match=r"\.npz, which holds the arrays of the model, is miss"):
        load_predictor(saved)
    assert time.perf_counter() - begun < 5


def test_a_folder_that_is_copied_or_may_not_be_written_still_loads(
    saved: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(saved.parent, copy, ignore=shutil.ignore_patterns("copy"))
    copy.chmod(0o555)
    try:
        assert answers(load_predictor(copy / "model.json")) == answers(load_predictor(saved))
    finally:
        copy.chmod(0o755)
