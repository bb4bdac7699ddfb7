from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import conformix as cx
from conformix.experiments import RowLog, Spec, read_rows, read_specs, run

SPEC = Spec(
    "mmlu_llama13b",
    ("thr", "aps", "average", "average:dlcp", "tuned-thr"),
    alphas=(0.1, 0.2),
    models=("llama13b_prompt0",),
    runs=3,
    rows=600,
    resolution=10,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "rows.jsonl"
    run(SPEC, path, workers=1)
    return path.read_bytes()


def test_a_row_carries_every_setting_the_seed_the_version_and_the_result(whole: bytes) -> None:
    row = json.loads(whole.splitlines()[2])
    assert {key: row[key] for key in ("data", "method", "alpha", "run", "seed", "share")} == {
        "data": "mmlu_llama13b", "method": "average", "alpha": 0.1, "run": 0, "seed": 0,
        "share": 0.8,
    }  # fmt: skip
    assert row["version"] == cx.__version__
    assert row["options"] == {
        "type": "Average", "scores": ["thr", "aps", "rank"], "split": "vfcp",
        "normalize": "scale", "resolution": 10,
    }  # fmt: skip
    assert (row["n_calibrate"], row["n_test"], row["guarantee"]) == (480, 120, "exact")
    assert 0 < row["coverage"] <= 1
    assert row["size"] > 0
    assert row["size_at_matched_coverage"] > 0


@pytest.mark.parametrize("workers", [2, 3])
def test_the_file_is_the_same_for_any_number_of_workers(
    tmp_path: Path, whole: bytes, workers: int
) -> None:
    run(SPEC, tmp_path / "rows.jsonl", workers=workers)
    assert (tmp_path / "rows.jsonl").read_bytes() == whole


def test_the_file_is_the_same_under_another_backend(tmp_path: Path, whole: bytes) -> None:
    import joblib

    with joblib.parallel_config(backend="threading"):
        run(SPEC, tmp_path / "rows.jsonl", workers=3)
    assert (tmp_path / "rows.jsonl").read_bytes() == whole


def test_too_few_rows_for_the_level_show_in_the_rows(tmp_path: Path) -> None:
    few = replace(SPEC, rows=20, alphas=(0.01,), runs=1)
    assert {row["full_rate"] for row in run(few, tmp_path / "rows.jsonl", workers=1)} == {1.0}


def test_a_row_does_not_depend_on_the_cases_beside_it(tmp_path: Path, whole: bytes) -> None:
    alone = replace(SPEC, methods=("tuned-thr", "average"), alphas=(0.2,))
    rows = run(alone, tmp_path / "rows.jsonl", workers=1)
    by_key = {json.loads(line)["key"]: json.loads(line) for line in whole.splitlines()}
    assert rows == [by_key[row["key"]] for row in rows]


def test_a_finished_run_computes_nothing(
    tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(whole)
    monkeypatch.setattr("conformix.experiments.runner.run_cases", None)
    assert [row["key"] for row in run(SPEC, path, workers=1)] == [
        json.loads(line)["key"] for line in whole.splitlines()
    ]
    assert path.read_bytes() == whole


@pytest.mark.parametrize("share", [0.0, 0.31, 0.5, 0.77, 0.999])
def test_a_file_torn_anywhere_is_completed_to_the_same_bytes(
    tmp_path: Path, whole: bytes, share: float
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(whole[: int(share * len(whole))])
    run(SPEC, path, workers=1)
    assert path.read_bytes() == whole


def test_more_runs_and_methods_are_added_to_what_is_there(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(whole)
    run([SPEC, replace(SPEC, runs=4), replace(SPEC, methods=("rank",))], path, workers=1)
    assert path.read_bytes().startswith(whole)
    keys = [row["key"] for row in read_rows(path)]
    assert len(keys) == len(set(keys)) == 3 * 10 + 10 + 3 * 2


def test_progress_counts_what_is_done_and_all(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:25]))
    seen: list[tuple[int, int]] = []
    run(SPEC, path, workers=1, progress=lambda *numbers: seen.append(numbers))
    assert seen == [(done, 30) for done in range(25, 31)]


def test_two_runs_cannot_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with RowLog(path), pytest.raises(cx.InvalidInput) as caught, RowLog(path):
        pass
    assert str(caught.value) == (
        f"{path} is being written by another run; wait for it, or name another folder."
    )


def test_a_file_that_is_no_log_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"key": "a"}\nmy notes\n')
    with pytest.raises(cx.InvalidInput) as caught:
        run(SPEC, path, workers=1)
    assert str(caught.value) == (
        f"{path} line 2 is no row of results; move the file away, or name another folder."
    )
    assert path.read_text() == '{"key": "a"}\nmy notes\n'


def test_data_that_changes_gets_new_keys_and_a_change_on_the_way_is_refused(
    tmp_path: Path,
) -> None:
    import numpy as np

    from conformix.experiments.runner import run_cases

    def save(shift: float) -> None:
        probs = np.random.default_rng(0).dirichlet([1, 1 + shift], size=50)
        np.savez(tmp_path / "mine.npz", labels=np.arange(50) % 2, model=probs)

    spec = Spec(str(tmp_path / "mine.npz"), ("thr",), runs=1)
    save(0)
    before = list(spec.cases())
    save(1)
    assert before[0].key != next(spec.cases()).key
    with pytest.raises(cx.InvalidInput, match="has changed since the experiment began"):
        run_cases(before)


def test_bad_workers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(cx.InvalidInput) as caught:
        run(SPEC, tmp_path / "rows.jsonl", workers=0)
    assert str(caught.value) == "workers must be a positive integer or None; got 0."


def assert_same_bytes_after_kills(tmp_path: Path, runs: int, kills: int) -> None:
    spec = tmp_path / "spec.toml"
    settings = [
        'data = "mmlu_llama13b"',
        'methods = ["thr", "average", "tuned-raps"]',
        'models = ["llama13b_prompt0"]',
        "alphas = [0.05, 0.1, 0.2]",
        f"runs = {runs}",
        "resolution = 20",
    ]
    spec.write_text("\n".join(settings))
    run(read_specs(spec), tmp_path / "whole.jsonl", workers=1)
    whole = (tmp_path / "whole.jsonl").read_bytes()
    killed = tmp_path / "killed" / "rows.jsonl"
    command = [sys.executable, "-m", "conformix.cli", "reproduce", str(spec)]
    command += ["--workers", "2", "--out", str(killed.parent)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for moment in sorted(random.Random(3).randrange(1, len(whole)) for _ in range(kills)):
        child = subprocess.Popen(command, start_new_session=True, **quiet)
        end = time.monotonic() + 200  # a busy machine starts slowly
        while child.poll() is None and time.monotonic() < end:
            if killed.exists() and killed.stat().st_size >= moment:
                break
            time.sleep(0.001)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        assert whole.startswith(killed.read_bytes())
        assert moment <= killed.stat().st_size
    run(read_specs(spec), killed, workers=1)
    assert killed.read_bytes() == whole


def test_a_run_killed_at_random_moments_ends_with_the_same_bytes(tmp_path: Path) -> None:
    assert_same_bytes_after_kills(tmp_path, runs=16, kills=3)


@pytest.mark.long(short="test_a_run_killed_at_random_moments_ends_with_the_same_bytes")
def test_a_run_killed_many_times_ends_with_the_same_bytes(tmp_path: Path) -> None:
    assert_same_bytes_after_kills(tmp_path, runs=40, kills=10)


FIELDS = {
    "size": ["x", -1.0, None, True, [1]],
    "coverage": [1.5, "0.9", None],
    "n_test": [0, 2.5, "3"],
    "guarantee": [7, None],
    "method": ["other", 3],
    "alpha": [0.3, "0.1"],
    "run": [7],
    "weights": [[1.0], {"thr": "x"}],
    "normalizer": [3],
    "size_at_matched_coverage": ["x"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in FIELDS.items() for value in values]
)
def test_a_row_that_its_case_could_not_give_is_refused_by_its_line(
    tmp_path: Path, whole: bytes, name: str, value: object
) -> None:
    path = tmp_path / "rows.jsonl"
    lines = whole.decode().splitlines()
    lines[1] = json.dumps(json.loads(lines[1]) | {name: value})
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(cx.InvalidInput) as caught:
        run(SPEC, path, workers=1)
    assert f"{path} line 2 cannot have {name} = {value!r}; move the file away" in str(caught.value)


def test_rows_with_missing_or_foreign_fields_are_refused_by_their_line(
    tmp_path: Path, whole: bytes
) -> None:
    path = tmp_path / "rows.jsonl"
    lines = whole.decode().splitlines()
    row = json.loads(lines[0])
    changes = {
        "line 1 has no 'size'": {k: v for k, v in row.items() if k != "size"},
        "line 1 has 'later', which no row has": row | {"later": 1},
    }
    for sentence, changed in changes.items():
        path.write_text("\n".join([json.dumps(changed), *lines[1:]]) + "\n")
        with pytest.raises(cx.InvalidInput, match=sentence):
            run(SPEC, path, workers=1)
    for text in ('{"key": "a", "key": "b"}', '{"key": "a", "size": NaN}', "[" * 9000, "[1]"):
        path.write_text(text + "\n")
        with pytest.raises(cx.InvalidInput, match=r"line 1 is no row of results; move the file"):
            run(SPEC, path, workers=1)


def test_rows_of_other_experiments_in_the_file_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"key": "of another experiment", "anything": 1}\n')
    few = replace(SPEC, methods=("thr",), runs=1)
    assert len(run(few, path, workers=1)) == len(list(few.cases()))
