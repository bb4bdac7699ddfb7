"""The doctor: the right finding on messy files, nothing on clean ones, and fits that refuse."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import conformix as cx
from conformix.cli import main
from conformix.data.batches import from_arrays
from data.messy import CLEAN, LOGITS, MESSY, P, Y


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def doctor(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict], str]:
    """Return the exit code, the findings and the command of a visit."""
    code = main(["doctor", *arguments, "--json"])
    *findings, last = map(json.loads, capsys.readouterr().out.splitlines())
    return code, findings, last["command"]


def test_the_corpus_is_large_enough() -> None:
    assert len(MESSY) >= 40
    assert len(CLEAN) >= 10


@pytest.mark.parametrize("what", MESSY)
def test_a_messy_file_has_its_finding_and_its_cure(
    what: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The corrected command then has nothing serious left to find."""
    messy = MESSY[what]
    file = messy.write(folder)
    _, findings, command = doctor([file], capsys)
    codes = [one["finding"] for one in findings]
    assert codes == [*{"id and text": ["text column"]}.get(what, []), messy.code]
    assert all(one["sentence"].endswith(".") for one in findings)
    typed = shlex.split(command)
    for option, value in messy.options.items():
        assert option in typed
        assert not value or value in typed
    if messy.options:
        assert main(typed[1:]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("what", CLEAN)
def test_nothing_is_found_in_a_clean_file(
    what: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = CLEAN[what](folder)
    assert doctor([file], capsys) == (0, [], f"conformix fit {file} -o model.json")
    assert main(["fit", file, "-o", "model.json", "--scores", "thr"]) == 0


NONSENSE = {
    "id from 1": "column 'id' numbers the rows (1, 2, 3, ...) and is no output; leave it out: "
    "--drop id",
    "per cents": "rows sum to 100: these are per cents and no logits; say --kind shares (conformix",
    "features": "no model answers so, features do; give the outputs of a model",
    "age": "unlike the others, and no row has it as its label; leave it out: --drop age",
    "votes of seven trees": "these are votes or counts and no logits",
}


@pytest.mark.parametrize("what", NONSENSE)
@pytest.mark.parametrize("command", ["fit", "compare"])
def test_a_fit_on_nonsense_is_refused_in_one_sentence(
    command: str, what: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = MESSY[what].write(folder)
    out = ["-o", "model.json"] if command == "fit" else ["--runs", "2", "--workers", "1"]
    assert main([command, file, *out]) == 2
    said = capsys.readouterr().err
    assert NONSENSE[what] in said
    assert said.endswith(
        "(conformix doctor shows all that is found, --as-is takes the file as it is).\n"
    )
    assert said.count("\n") == 1
    assert not Path("model.json").exists()


def test_a_file_can_be_taken_as_it_is(folder: Path) -> None:
    file = MESSY["id from 1"].write(folder)
    assert main(["fit", file, "-o", "model.json", "--as-is", "--scores", "thr"]) == 0


def test_what_is_worth_a_look_is_a_warning(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = MESSY["every row twice"].write(folder)
    assert main(["fit", file, "-o", "model.json", "--scores", "thr"]) == 0
    assert "warning: rows: 120 of 240 rows come more than once" in capsys.readouterr().err


def test_rows_that_stand_in_both_files_are_found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("fit.npz", probs=P[:160], labels=Y[:160])
    np.savez("test.npz", probs=P[100:], labels=Y[100:])
    np.savez("fresh.npz", probs=P[160:], labels=Y[160:])
    code, findings, _ = doctor(["fit.npz", "--test", "test.npz"], capsys)
    assert code == 1
    assert findings[0]["finding"] == "leak between files"
    assert findings[0]["sentence"].startswith("60 of 140 rows stand in both files")
    assert doctor(["fit.npz", "--test", "fresh.npz"], capsys)[:2] == (0, [])


def test_it_reads_well_on_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = MESSY["id and text"].write(folder)
    assert main(["doctor", file, "--table"]) == 1
    assert capsys.readouterr().out == (
        "! text column: column 'note' holds text such as 'ok' and is no output; leave it out.\n"
        "! counter: column 'id' numbers the rows (0, 1, 2, ...) and is no output; leave it out.\n"
        "the right command: conformix fit rows.csv --drop note,id -o model.json\n"
    )


def test_python_finds_the_same_without_raising() -> None:
    assert cx.inspect(P, Y).findings == ()
    assert repr(cx.inspect(P, Y)) == "nothing suspicious was found."
    found = cx.inspect(100 * P, Y)
    assert found.codes == ("per cent",)
    assert found.options == {"--kind": "shares"}
    assert found.serious == found.findings
    assert cx.inspect(P, Y + 1).codes == ("labels from 1",)
    assert cx.inspect(P, kind="logits").codes == ("probabilities",)
    assert cx.inspect(LOGITS, Y, kind="probs").codes == ("logits",)
    assert cx.inspect(P[:160], test=P[100:]).codes == ("leak between files",)
    assert cx.inspect("no outputs").codes == ("unreadable",)
    counted = np.column_stack([np.arange(240), LOGITS])
    assert cx.inspect(counted, Y + 1).codes == ("counter",)


@pytest.mark.parametrize(
    "outputs",
    [None, 3, [], {}, "text", np.zeros((0, 3)), np.zeros((3, 0)), [["a", "b"]], [[1j, 2]],
     (row for row in P), {"a": P, "b": P[:-1]}, {"a": P, "b": P[:, :3]}, np.full((30, 3), np.inf)],
    ids=range(13),
)  # fmt: skip
def test_whatever_comes_is_a_finding_and_no_error(outputs: object) -> None:
    (finding,) = cx.inspect(outputs).findings
    assert finding.serious
    assert cx.inspect(P, Y, test=outputs).codes in (("unreadable",), ())


def test_the_label_as_a_column_is_called_what_it_is() -> None:
    outputs = np.column_stack([LOGITS, Y])
    assert cx.inspect(outputs, Y).codes == ("label",)


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        (100 * P, "outputs: rows sum to 100: these are per cents and no logits; say kind="),
        (np.column_stack([LOGITS, np.arange(240)]), "outputs: column '4' numbers the rows (0, 1"),
        (P, "outputs: numbers lie between 0 and 1 and rows sum to 1, and they are taken for log"),
    ],
    ids=["per cents", "counter", "probabilities"],
)
def test_a_fit_in_python_warns_of_nonsense(outputs: np.ndarray, sentence: str) -> None:
    with pytest.warns(cx.SuspectOutputsWarning) as caught:
        cx.ScoreAverage("thr", kind="logits").fit(outputs, Y)
    assert str(caught[0].message).startswith(sentence)


def test_looking_does_not_depend_on_the_order_of_rows_or_their_number() -> None:
    many = np.tile(np.arange(6000)[:, None] * 1.0, (1, 3)) + np.random.default_rng(0).normal(
        size=(6000, 3)
    )
    assert cx.inspect(np.column_stack([many, np.arange(6000)])).codes == ("counter",)


def test_batches_and_dask_arrays_are_looked_at_by_their_first_rows() -> None:
    counted = np.column_stack([LOGITS, np.arange(len(Y))])
    known = cx.inspect(counted, Y).codes
    assert known == ("counter",)
    batches = [(counted[i : i + 50], Y[i : i + 50]) for i in range(0, len(Y), 50)]
    assert cx.inspect(lambda: iter(batches)).codes == known
    assert cx.inspect(iter(batches)).codes == known
    assert cx.inspect(from_arrays(counted, Y, rows=50)).codes == known
    several = [({"a": LOGITS[:120], "b": 100 * P[:120]}, Y[:120])]
    assert cx.inspect(iter(several)).codes == cx.inspect(several[0][0], Y[:120]).codes != ()
    da = pytest.importorskip("dask.array")
    rows, labels = da.from_array(counted, chunks=(64, 5)), da.from_array(Y, chunks=64)
    assert cx.inspect(rows, labels).codes == known
    assert cx.inspect(rows, Y).codes == known
    assert cx.inspect({"a": rows}, labels).codes == known
    assert cx.inspect(da.from_array(LOGITS, chunks=(64, 4)), Y).codes == ()


def test_batches_that_never_end_are_looked_at_and_left() -> None:
    read = []

    def endless():
        while True:
            read.append(1)
            yield P, Y

    assert cx.inspect(endless, kind="logits").codes[0] == "probabilities"
    assert len(read) == -(-4000 // len(Y))
    (finding,) = cx.inspect(iter([])).findings
    assert "at least one (outputs, y); got none" in finding.sentence
    (finding,) = cx.inspect(endless, Y).findings
    ragged = [(P, Y), (P[:, :3], Y)]
    assert cx.inspect(iter(ragged)).codes == ("unreadable",)
    assert "leave y out" in finding.sentence


def test_after_decimal_commas_the_next_look_is_at_the_mended_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = MESSY["decimal commas"].write(folder)
    assert main(["doctor", file, "--label-column", "y"]) == 1
    *_, last = capsys.readouterr().out.splitlines()
    assert json.loads(last)["command"] == "conformix doctor points.csv --label-column y"


def test_the_doctor_says_it_in_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", MESSY["per cents"].write(folder), "--table"]) == 1
    assert "these are per cents and no logits; say --kind shares." in capsys.readouterr().out


def test_probabilities_for_a_model_of_logits_are_suspect() -> None:
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(100, 4)), rng.integers(4, size=100)
    cp = cx.ScoreAverage("thr", kind="logits", weights=[1.0]).fit(logits, y)
    with pytest.warns(cx.SuspectOutputsWarning, match="was fitted on logits; give logits"):
        cp.predict_set(rng.dirichlet(np.ones(4), 20))
