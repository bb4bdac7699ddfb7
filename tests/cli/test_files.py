"""From files to a model, to sets, to an evaluation; and what is refused on the way."""

from __future__ import annotations

import csv
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conformix as cx
from cli.drawn import NAMES, draw, write_csv
from conformix.cli import main


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command that succeeds and return what it wrote, as JSON lines."""

    def run(*arguments: str) -> list[dict[str, Any]]:
        assert main(list(arguments)) == 0, capsys.readouterr().err
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command that is refused and return its sentence."""

    def run(*arguments: str) -> str:
        assert main(list(arguments)) == 2
        found = capsys.readouterr()
        assert found.out == ""
        assert found.err.count("\n") == 1
        return found.err.removeprefix("conformix: ").rstrip("\n")

    return run


FIT = ("fit", "calibration.csv", "-o", "model.json", "--resolution", "10")


def test_three_commands_give_what_the_library_gives(folder: Path, said: Any) -> None:
    (fitted,) = said(*FIT, "--alpha", "0.2", "--seed", "7")
    (told,) = said("predict", "model.json", "new.csv", "-o", "sets.csv")
    *measured, last = said("evaluate", "model.json", "test.csv")

    probs, labels = draw(0, 300)
    own = cx.ScoreAverage(alpha=0.2, search=cx.search.GridSearch(10), random_state=7)
    own.fit(probs, labels, classes=NAMES)
    assert fitted["weights"] == own.weights_.tolist()
    assert fitted["guarantee"] == "exact"
    sets = own.predict_set(draw(2, 50)[0])
    with (folder / "sets.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["labels"].split("|") if row["labels"] else [] for row in rows] == sets.members()
    assert told == {
        "sets": "sets.csv", "rows": 50, "classes": 4, "mean_size": sets.sizes.mean(),
    }  # fmt: skip
    test, y = draw(1, 200)
    usual = cx.metrics.evaluate(own.predict_set(test), y, alpha=0.2)
    by_name = {one["metric"]: one for one in measured}
    for name, one in by_name.items():
        assert one["value"] == usual[name]
    assert by_name["coverage"]["low"] == usual["coverage_low"]
    assert last["rows"] == 200
    assert last["drift"].startswith("no sign of drift")


def test_sets_are_the_same_in_every_form(folder: Path, said: Any) -> None:
    pd = pytest.importorskip("pandas")
    said(*FIT)
    lines = said("predict", "model.json", "new.csv", "-o", "-")
    assert lines == said("predict", "model.json", "new.csv")
    wanted = [line["labels"] for line in lines]
    assert [line["row"] for line in lines] == list(range(50))
    said("predict", "model.json", "new.csv", "-o", "sets.parquet")
    assert [list(own) for own in pd.read_parquet("sets.parquet")["labels"]] == wanted
    said("predict", "model.json", "new.csv", "-o", "sets.npz")
    with np.load("sets.npz") as file:
        assert file["class_names"].tolist() == list(NAMES)
        assert file["sizes"].tolist() == [len(own) for own in wanted]
        mask = file["mask"]
    assert [{NAMES[k] for k in np.flatnonzero(row)} for row in mask] == [set(own) for own in wanted]
    said("predict", "model.json", "new.csv", "-o", "wide.csv", "--layout", "wide")
    np.testing.assert_array_equal(pd.read_csv("wide.csv").to_numpy(bool), mask)


def test_another_level_at_prediction(folder: Path, said: Any) -> None:
    said(*FIT)
    sizes = [
        sum(line["size"] for line in said("predict", "model.json", "new.csv", "--alpha", alpha))
        for alpha in ("0.3", "0.1", "0.02")
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]


@pytest.mark.parametrize("alpha", [0.02, 0.3])
def test_another_level_at_evaluation_is_measured_and_judged_at_that_level(
    alpha: float, folder: Path, said: Any
) -> None:
    said(*FIT)
    *lines, last = said("evaluate", "model.json", "test.csv", "--alpha", str(alpha))
    model, (probs, y) = cx.load("model.json"), draw(1, 200)
    expected = model.verdict(probs, y, alpha=alpha)
    assert last["alpha"] == alpha
    assert last["promised"] == pytest.approx(1 - alpha)
    assert last["verdict"] == expected.sentence
    assert last["shortfall_pvalue"] == expected.pvalue
    sets = model.predict_set(probs, alpha=alpha)
    measured = cx.metrics.evaluate(sets, y, alpha=alpha)
    for line in lines:
        assert line["value"] == pytest.approx(measured[line["metric"]])


def test_classes_of_arrays_may_come_in_any_order(folder: Path, said: Any) -> None:
    said(*FIT)
    straight = said("predict", "model.json", "new.csv")
    probs = np.genfromtxt("new.csv", delimiter=",", skip_header=1)[:, : len(NAMES)]
    for order in ([1, 2, 3, 0], [2, 0, 1, 3], [3, 2, 1, 0]):
        np.savez("turned.npz", p=probs[:, order], class_names=np.array(NAMES)[order])
        assert said("predict", "model.json", "turned.npz") == straight


def test_columns_may_come_in_any_order_with_others_between(folder: Path, said: Any) -> None:
    said(*FIT)
    straight = said("predict", "model.json", "new.csv")
    with (folder / "new.csv").open() as file:
        rows = list(csv.DictReader(file))
    turned = ["fox,id,dog,cat,emu"]
    turned += [f"{r['fox']},x{i},{r['dog']},{r['cat']},{r['emu']}" for i, r in enumerate(rows)]
    (folder / "turned.csv").write_text("\n".join(turned))
    assert said("predict", "model.json", "turned.csv") == straight


def test_several_models_as_keys_or_as_files(folder: Path, said: Any, refusal: Any) -> None:
    (keys,) = said("fit", "outputs.npz", "-o", "keys.json", "--resolution", "5", "--scores", "thr")
    assert keys["scores"] == ["forest.thr", "network.thr"]
    with np.load("outputs.npz") as held:
        for name in ("forest", "network"):
            np.save(f"{name}.npy", held[name])
        np.save("y.npy", held["labels"])
    files = ("--model", "forest=forest.npy", "--model", "network=network.npy")
    (parts,) = said(
        "fit", *files, "--labels", "y.npy", "-o", "files.json", "--resolution", "5", "--scores",
        "thr",
    )  # fmt: skip
    assert parts["weights"] == keys["weights"]
    assert said("predict", "files.json", "outputs.npz") == said("predict", "keys.json", *files)
    assert refusal("predict", "keys.json", "forest.npy") == (
        "outputs must come from the fitted models ['forest', 'network']; got one array."
    )
    (one,) = said("fit", "outputs.npz", "--models", "forest", "-o", "one.json", "--scores", "paper")
    assert one["scores"] == ["thr", "aps", "rank"]
    assert len(said("predict", "one.json", "forest.npy")) == 240


@pytest.mark.parametrize("split", ["efcp", "dlcp", "dlcp+", "exact"])
def test_every_split_fits_predicts_and_evaluates(split: str, folder: Path, said: Any) -> None:
    (fitted,) = said(*FIT, "--split", split, "--test", "test.csv", "--normalize", "auto")
    assert fitted["split"] == split
    *_, last = said("evaluate", "model.json", "test.csv")
    assert last["guarantee"] == fitted["guarantee"]
    # A level is promised only where the ledger promises it.
    assert last["promised"] == (0.9 if split == "exact" else None)
    assert ("promise" in last["verdict"].replace("does not promise", "")) == (split == "exact")
    (seen,) = said("info", "model.json")
    assert seen["guarantee"] == fitted["guarantee"]


def test_a_threshold_per_class(folder: Path, said: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (fitted,) = said(*FIT, "--calibration", "class", "--alpha", "0.2")
    assert fitted["statement"].startswith("exact: P(y in set | class of y) >= 1 - alpha")
    (seen,) = said("info", "model.json")
    assert len(seen["threshold"]) == 4
    *_, last = said("evaluate", "model.json", "test.csv")
    assert 0 <= last["shortfall_pvalue"] <= 1
    assert last["promised"] == 0.8
    assert "beta-binomial laws of 4 thresholds" in last["law"]
    assert main(["info", "model.json", "--table"]) == 0
    assert "4, by class" in capsys.readouterr().out


def test_a_transductive_split_asks_for_its_test_rows(folder: Path, refusal: Any) -> None:
    assert "test" in refusal(*FIT, "--split", "dlcp")
    assert not (folder / "model.json").exists()


def test_probabilities_and_logits_are_told_apart(folder: Path, said: Any) -> None:
    probs, labels = draw(0, 300)
    write_csv(folder / "logits.csv", np.log(probs) + 3, labels)
    assert said("fit", "logits.csv", "-o", "a.json")[0]["kind"] == "logits"
    assert said("fit", "logits.csv", "-o", "a.json", "--kind", "logits")[0]["kind"] == "logits"
    assert said("info", "a.json")[0]["kind"] == "logits"


def test_parts_of_one_file_fit_and_evaluate(folder: Path, said: Any) -> None:
    (fitted,) = said("fit", "test.csv", "--part", ":120", "-o", "model.json", "--resolution", "4")
    assert fitted["rows"] == 120
    assert said("evaluate", "model.json", "test.csv", "--part", "120:")[-1]["rows"] == 80


def test_info_says_what_is_in_a_file(folder: Path, said: Any) -> None:
    said(*FIT)
    (model,) = said("info", "model.json")
    assert (model["type"], model["classes"]) == ("model", list(NAMES))
    assert model["ledger"][0]["source"] == "exact"
    (data,) = said("info", "test.csv")
    assert data["arrays"][0]["shape"] == [200, 4]
    assert data["arrays"][0]["kind"] == "probs"
    assert data["labels"]["different"] == 4
    (data,) = said("info", "outputs.npz")
    assert [one["name"] for one in data["arrays"]] == ["forest", "network"]
    (data,) = said("info", "cifar10")
    assert data["arrays"][0]["kind"] == "logits"


def test_tables_are_for_people(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = {}
    for arguments in (
        FIT,
        ("predict", "model.json", "new.csv"),
        ("evaluate", "model.json", "test.csv"),
        ("info", "model.json"),
        ("info", "new.csv"),
        ("predict", "model.json", "new.csv", "-o", "sets.csv"),
    ):
        assert main([*arguments, "--table"]) == 0
        seen[" ".join(arguments[:2])] = capsys.readouterr().out
    assert "Guarantee exact: P(y in set) >= 1 - alpha" in seen["fit calibration.csv"]
    assert "mean size" in seen["evaluate model.json"]
    assert "What is promised" in seen["info model.json"]
    assert "No labels: fit and evaluate need them" in seen["info new.csv"]
    assert seen["predict model.json"].startswith("sets.csv: 50 sets over 4 classes, mean size ")


def test_compare_takes_what_fit_takes(folder: Path, said: Any) -> None:
    quick = ("--runs", "2", "--resolution", "4", "--workers", "1", "--scores", "thr,rank")
    *records, last = said("compare", "test.csv", *quick)
    assert last["verdict"].endswith(".")
    assert "thr" in {record["method"] for record in records}
    before = sorted(folder.iterdir())
    said("compare", "test.csv", *quick, "--out", "rows", "--part", ":150")
    assert sorted(set(folder.iterdir()) - set(before)) == [folder / "rows"]
    assert sorted(path.name for path in (folder / "rows").iterdir()) == ["rows.jsonl", "test.npz"]


def test_a_level_that_gives_all_labels_is_warned_of_in_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FIT, "--alpha", "0.001", "--json"]) == 0
    found = capsys.readouterr()
    assert len(found.out.splitlines()) == 1
    assert all(line.startswith("conformix: warning: ") for line in found.err.splitlines())
    assert "every set holds all labels." in found.err


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("fit", "absent.csv", "-o", "m.json"), "absent.csv does not exist or is no file."),
        (("fit", "cifar", "-o", "m.json"), "unknown data set or file 'cifar'; did you mean "),
        (("fit", "new.csv", "-o", "m.json"), "new.csv has no labels: none of 'labels', 'label',"),
        (
            ("fit", "test.csv", "-o", "m.json", "--label-column", "lable"),
            "test.csv has no label column 'lable'; did you mean 'label'? it has 'cat', 'dog',",
        ),
        (
            ("fit", "test.csv", "-o", "m.json", "--drop", "id"),
            "test.csv has no column to drop 'id'; it has 'cat', 'dog', 'emu', 'fox', 'label'.",
        ),
        (
            ("fit", "outputs.npz", "-o", "m.json", "--models", "forst"),
            "outputs.npz has no model 'forst'; did you mean 'forest'? it has 'forest', 'network'.",
        ),
        (("fit", "-o", "m.json"), "give one file of outputs, or one --model NAME=FILE for each"),
        (("fit", "--model", "a", "-o", "m.json"), "--model takes NAME=FILE, such as vgg=vgg.csv;"),
        (("fit", "test.csv", "-o", "m.json", "--alpha", "2"), "alpha must be a number strictly"),
        (("fit", "test.csv", "-o", "m.json", "--scores", "th"), "unknown score 'th'; did you mean"),
        (("fit", "test.csv", "-o", "m.json", "--split", "x"), "unknown split 'x'; "),
        (("fit", "test.csv", "-o", "no/m.json"), "no is no folder; create it first."),
        (("fit", "test.csv", "-o", "."), ". is a folder; name a file in it."),
        (("fit", "test.csv", "-o", "m.json", "--max-memory", "1K"), "test.csv asks for "),
        (("fit", "test.csv", "-o", "m.json", "--max-memory", "x"), "a size must be a number of "),
        (("predict", "absent.json", "new.csv"), "absent.json does not exist or is no file."),
        (("predict", "new.csv", "new.csv"), "new.csv is no JSON; expected a model written by"),
        (("predict", "model.json", "test.csv", "-o", "a.txt"), "a.txt has the ending '.txt'; res"),
        (("evaluate", "model.json", "new.csv"), "new.csv has no labels: none of 'labels',"),
        (("evaluate", "model.json", "cifar10"), "cifar10 names 4 classes, and its outputs have"),
        (("info", "absent.json"), "absent.json does not exist or is no file."),
        (("info", "a.pkl"), "a.pkl has the ending '.pkl'; files end in .csv, "),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "",
)
def test_what_cannot_be_done_is_one_sentence_and_leaves_no_file(
    arguments: tuple[str, ...], sentence: str, folder: Path, refusal: Any, said: Any
) -> None:
    if "model.json" in arguments:
        said(*FIT)
    before = sorted(folder.iterdir())
    assert refusal(*arguments).startswith(sentence)
    assert sorted(folder.iterdir()) == before


def test_an_input_is_never_overwritten(folder: Path, said: Any, refusal: Any) -> None:
    said(*FIT)
    (folder / "link.csv").symlink_to("test.csv")
    os.link("test.csv", "hard.csv")
    before = (folder / "test.csv").read_bytes()
    for target in ("test.csv", "./test.csv", "link.csv", "hard.csv"):
        assert refusal("predict", "model.json", "test.csv", "-o", target) == (
            f"{Path(target)} is also an input; name another file for the result."
        )
    assert "is also an input" in refusal("fit", "test.csv", "-o", "test.csv")
    assert (folder / "test.csv").read_bytes() == before


def test_a_result_replaces_a_link_and_does_not_write_through_it(folder: Path, said: Any) -> None:
    said(*FIT)
    outside = folder / "outside"
    outside.mkdir()
    (outside / "precious.csv").write_text("mine")
    (folder / "sets.csv").symlink_to(outside / "precious.csv")
    said("predict", "model.json", "new.csv", "-o", "sets.csv")
    assert (outside / "precious.csv").read_text() == "mine"
    assert not (folder / "sets.csv").is_symlink()


def test_a_result_never_replaces_a_pipe_or_a_device(folder: Path, said: Any, refusal: Any) -> None:
    said(*FIT)
    os.mkfifo(folder / "pipe.csv")
    (folder / "nothing.csv").symlink_to(os.devnull)
    for name in ("pipe.csv", "nothing.csv"):
        sentence = f"{name} is no regular file (a pipe or a device?); name a file."
        assert refusal("predict", "model.json", "new.csv", "-o", name) == sentence
    assert refusal(*FIT[:2], "-o", os.devnull).startswith("/dev/null is no regular file")
    assert stat.S_ISFIFO((folder / "pipe.csv").stat().st_mode)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_formulas_are_escaped_where_asked(folder: Path, said: Any, refusal: Any) -> None:
    probs, labels = draw(0, 300)
    names = ["=1+1", "+cmd", "-2", "@x"]
    rows = [",".join([*names, "label"])]
    rows += [
        ",".join([*map(str, p), names[y]]) for p, y in zip(probs.tolist(), labels, strict=True)
    ]
    (folder / "formulas.csv").write_text("\n".join(rows))
    said("fit", "formulas.csv", "-o", "formulas.json", "--resolution", "4")
    command = ("predict", "formulas.json", "formulas.csv", "--layout", "long", "-o")
    said(*command, "plain.csv")
    said(*command, "safe.csv", "--escape-formulas")

    def cells(name: str) -> set[str]:
        with (folder / name).open(newline="") as file:
            return {row["label"] for row in csv.DictReader(file)}

    assert cells("plain.csv") == set(names)
    assert cells("safe.csv") == {f"'{name}" for name in names}
    sentence = "--escape-formulas is for csv files: -o sets.csv."
    assert refusal(*command, "sets.npz", "--escape-formulas") == sentence


def test_the_memory_limit_holds_for_the_model_too(folder: Path, said: Any, refusal: Any) -> None:
    said(*FIT)
    told = refusal("predict", "model.json", "new.csv", "-o", "sets.csv", "--max-memory", "10K")
    assert told.startswith("model.json asks for ")
    assert "and 10.0 KiB are allowed; if the file is to be trusted, say --max-memory." in told


@pytest.mark.parametrize("name", ["sets.csv", "sets.npz", "sets.parquet"])
def test_a_write_that_fails_leaves_no_partial_file(
    name: str, folder: Path, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(*FIT)
    before = sorted(folder.iterdir())

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert main(["predict", "model.json", "new.csv", "-o", name]) == 2
    assert sorted(folder.iterdir()) == before


def test_predicting_loads_no_scikit_learn(folder: Path, said: Any) -> None:
    import subprocess
    import sys

    said(*FIT)
    code = (
        "import sys; from conformix.cli import main\n"
        "main(['predict', 'model.json', 'new.csv', '-o', 'sets.csv'])\n"
        "heavy = {'sklearn', 'torch', 'pandas', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
        "raise SystemExit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("names", [("3", "2", "1", "0"), ("10", "9", "8", "7")])
def test_classes_named_by_numbers_in_any_order(
    names: tuple[str, ...], folder: Path, said: Any
) -> None:
    """A label is matched with the column of its name once, not once more as if it were a place."""
    for file in ("calibration.csv", "test.csv", "new.csv"):
        text = (folder / file).read_text()
        for word, number in zip(NAMES, names, strict=True):
            text = text.replace(word, f"#{number}")
        (folder / f"numbered_{file}").write_text(text.replace("#", ""))
    (words,) = said(*FIT)
    (numbers,) = said("fit", "numbered_calibration.csv", "-o", "n.json", "--resolution", "10")
    assert numbers["weights"] == words["weights"]
    assert numbers["held_out_size"] == words["held_out_size"]
    assert said("evaluate", "n.json", "numbered_test.csv") == said(
        "evaluate", "model.json", "test.csv"
    )
    (told,) = said("report", "n.json", "numbered_test.csv", "-o", "n.html")
    (other,) = said("report", "model.json", "test.csv", "-o", "w.html")
    assert told["coverage"] == other["coverage"]


def test_a_class_may_be_called_y(folder: Path, said: Any, refusal: Any) -> None:
    """A column of outputs that is called like labels usually are is still a column of outputs."""
    for file in ("calibration.csv", "new.csv"):
        (folder / f"y_{file}").write_text((folder / file).read_text().replace("dog", "y"))
    said("fit", "y_calibration.csv", "-o", "y.json", "--resolution", "10")
    said(*FIT)
    (told,) = said("predict", "y.json", "y_new.csv", "-o", "y_sets.csv")
    (other,) = said("predict", "model.json", "new.csv", "-o", "sets.csv")
    assert told["mean_size"] == other["mean_size"]
    sets = (folder / "sets.csv").read_text().replace("dog", "y")
    assert (folder / "y_sets.csv").read_text() == sets
    told = refusal("predict", "y.json", "y_new.csv", "--label-column", "y")
    assert "cannot be the label column" in told


def test_labels_that_are_numbers_beside_a_class_that_is_none(
    folder: Path, said: Any, refusal: Any
) -> None:
    """Headers 1, 2, 3, other: a label 1 is the class called 1, not the second one."""
    text = (folder / "calibration.csv").read_text()
    header, *lines = text.splitlines()
    known = [line for line in lines if not line.endswith("fox")]
    for word, name in zip(NAMES, ("1", "2", "3", "other"), strict=True):
        header = header.replace(word, name)
        known = [line.replace(word, name) for line in known]
    (folder / "words.csv").write_text(
        "\n".join([text.splitlines()[0], *(x for x in lines if not x.endswith("fox"))]) + "\n"
    )
    (folder / "rated.csv").write_text("\n".join([header, *known]) + "\n")
    (words,) = said("fit", "words.csv", "-o", "words.json", "--resolution", "10")
    (rated,) = said("fit", "rated.csv", "-o", "rated.json", "--resolution", "10")
    assert rated["held_out_size"] == words["held_out_size"]
    odd = known[0].rpartition(",")[0] + ",0"
    (folder / "odd.csv").write_text("\n".join([header, *known, odd]) + "\n")
    told = refusal("fit", "odd.csv", "-o", "odd.json")
    assert "some are names of classes and some are not" in told


def test_a_reader_that_goes_early_is_no_failure(folder: Path, said: Any) -> None:
    """As in ``conformix predict ... | head -1`` under ``set -o pipefail``."""
    said(*FIT)
    command = [
        sys.executable,
        "-m",
        "conformix.cli",
        "predict",
        "model.json",
        "test.csv",
        "-o",
        "-",
    ]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        p.stdout.close()  # type: ignore[union-attr]
        told = p.stderr.read()  # type: ignore[union-attr]
    assert (p.returncode, told) == (0, b"")


def test_names_from_files_steer_no_terminal(folder: Path, capsys: Any) -> None:
    text = (folder / "calibration.csv").read_text()
    (folder / "red.csv").write_text(text.replace("cat", "cat\x1b[31m"))
    for command in (("info", "red.csv"), ("fit", "red.csv", "-o", "m.json"), ("info", "m.json")):
        assert main([*command, "--table"]) == 0
        assert "\x1b" not in capsys.readouterr().out
