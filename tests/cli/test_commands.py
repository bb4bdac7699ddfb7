from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import conformix as cx
from conformix.cli import main
from conformix.cli.options import listed

COMMANDS = ("demo", "fit", "predict", "evaluate", "info", "compare", "reproduce")
QUICK = ["--runs", "2", "--rows", "300", "--resolution", "4", "--workers", "1"]


@pytest.fixture
def outputs(tmp_path: Path) -> str:
    """A file in the form that users bring: labels, and probabilities of two models."""
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=240)
    models = {}
    for name in ("forest", "network"):
        logits = rng.normal(size=(240, 4))
        logits[np.arange(240), labels] += 1.5
        powers = np.exp(logits)
        models[name] = powers / powers.sum(axis=1, keepdims=True)
    np.savez(tmp_path / "outputs.npz", labels=labels, **models)
    return str(tmp_path / "outputs.npz")


def test_help_lists_the_commands_and_every_command_shows_an_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in COMMANDS)
    for command in COMMANDS:
        assert main([command, "--help"]) == 0
        assert f"Example: conformix {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["compare", "absent.npz"], "absent.npz does not exist or is no file."),
        (["compare", "cifar1O", *QUICK], "unknown data set or file 'cifar1O'; did you mean"),
        (["compare", "cifar10", "--alpha", "2", *QUICK], "alpha must be a number strictly betw"),
        (["compare", "cifar10", "--runs", "1"], "runs must be at least 2, for intervals over"),
        (["compare", "cifar10", "--split", "vcfp", *QUICK], "unknown split 'vcfp'; did you mean"),
        (["compare", "cifar10", "--kind", "odds", *QUICK], 'kind must be "auto", "probs", "lo'),
        (["compare", "cifar10", "--normalize", "no", *QUICK], "unknown normalize 'no'; did you"),
        (["reproduce", "table2"], "unknown experiment 'table2'; did you mean 'table1'? known: "),
        (["reproduce", "absent.toml"], "absent.toml does not exist or is no file."),
        (["reproduce", "fig2", "--model", "vgg", *QUICK], "unknown model of cifar100 'vgg'; "),
    ],
    ids=lambda part: " ".join(part[:3]) if isinstance(part, list) else "",
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = ["--out", str(tmp_path)]
    assert main([*arguments, *folder]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"conformix: {sentence}")
    assert said.err.count("\n") == 1
    assert said.err.endswith(".\n")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["fit", "test.csv"], "--out"),
        (["cmpare"], "cmpare"),
        (["compare", "cifar10", "--alpa", "0.1"], "--alpa"),
        (["compare", "cifar10", "--alpha", "many"], "--alpha"),
    ],
    ids=" ".join,
)
def test_bad_usage_is_one_sentence_and_exit_code_2(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert word in said
    assert said.count("\n") == 1
    command = next((one for one in arguments[:1] if one in COMMANDS), "")
    assert said.endswith(f"see {' '.join(filter(None, ['conformix', command]))} --help.\n")


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    from conformix import InvalidInput

    with pytest.raises(InvalidInput):
        main(["compare", "absent.npz", "--debug"])


def test_a_folder_that_cannot_be_written_is_named(
    outputs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(Path(outputs) / "below_a_file")
    assert main(["compare", outputs, "--runs", "2", "--workers", "1", "--out", folder]) == 2
    assert str(Path(outputs)) in capsys.readouterr().err


def test_what_fails_inside_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(choices: object) -> None:
        raise RuntimeError("a wire came loose")

    monkeypatch.setattr("conformix.experiments.demo.Demo.load", broken)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == (
        "conformix: RuntimeError: a wire came loose (--debug shows where).\n"
    )


def test_a_stopped_run_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(choices: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("conformix.experiments.demo.Demo.load", stopped)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "conformix: stopped; the same command goes on where it was.\n"


def test_comparing_a_file_writes_json_lines_in_a_pipe_and_ends_in_the_verdict(
    outputs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", outputs, "--runs", "3", "--scores", "thr,rank", "--workers", "1"]) == 0
    *records, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    names = {record["method"] for record in records}
    assert {"forest.thr", "network.rank", "average:vfcp", "probability-ensemble"} <= names
    assert last["verdict"].startswith(("use ", "averaging does not help here"))
    assert last["saved"]["low"] <= last["saved"]["mean"] <= last["saved"]["high"]


def test_comparing_a_file_as_a_table_ends_in_the_verdict(
    outputs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compare", outputs, "--runs", "3", "--models", "forest", "--workers", "1"]
    assert main([*arguments, "--table"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "alpha = 0.1"
    assert lines[-1].startswith(("use ", "averaging does not help here"))
    assert lines[-1].endswith("guarantee exact.")


def test_reproducing_an_experiment_writes_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["reproduce", "fig3", "--data", "cifar10", *QUICK, "--out", str(tmp_path)]
    assert main(arguments) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["experiment"] == "fig3"
    assert [Path(file).name for file in record["files"]] == [
        "fig3.md", "fig3.pdf", "fig3.png", "fig3.tex", "fig3.txt",
    ]  # fmt: skip
    assert main([*arguments, "--table"]) == 0
    assert "VFCP" in capsys.readouterr().out


def test_a_toml_file_of_specs_is_run_and_summed_up(
    tmp_path: Path, outputs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "mine.toml"
    spec.write_text(f'data = "{outputs}"\nmethods = ["forest.thr", "uniform"]\nruns = 2\n')
    arguments = ["reproduce", str(spec), "--out", str(tmp_path / "out"), "--workers", "1"]
    assert main([*arguments, "--table"]) == 0
    assert "forest.thr" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["method"] for row in rows] == ["forest.thr", "uniform"] * 2


def test_the_demo_prints_its_table_and_draws_its_picture(
    tmp_path: Path, small_demo: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--table", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.count("average, batch+ (dlcp+)") == 2
    assert "promised" not in text  # half of its methods promise no such level
    assert text.count("asked for: coverage") == 2
    arguments = ["--alpha", "0.2", "--split", "vfcp", "--scores", "thr,aps,margin", "--seed", "1"]
    assert main(["demo", *arguments, "--out", str(tmp_path)]) == 0
    *rows_seen, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert [row["method"] for row in rows_seen] == [
        "thr", "aps", "margin", "uniform", "average, vfcp", "auto, vfcp",
    ]  # fmt: skip
    assert {row["alpha"] for row in rows_seen} == {0.2}
    assert last == {"picture": str(tmp_path / "triangle.png")}
    assert main(["demo", "--scores", "thr"]) == 2
    assert "the demo averages three scores" in capsys.readouterr().err
    assert (tmp_path / "triangle.png").is_file()


def test_the_command_needs_its_extra_and_says_so() -> None:
    code = (
        "import sys; sys.modules['typer'] = None\n"
        "from conformix.cli import main\nraise SystemExit(main(['demo']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr == (
        "conformix: the command needs typer; install it with: pip install '.[cli,plots]' in a "
        "clone of conformix.\n"
    )


def test_the_package_itself_is_the_command() -> None:
    words = [sys.executable, "-m", "conformix", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"conformix {cx.__version__}\n")


def test_importing_conformix_imports_neither_typer_nor_rich() -> None:
    code = "import sys, conformix.cli; raise SystemExit(bool({'typer', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_lists_are_cut_at_commas_outside_brackets() -> None:
    assert listed("") == ()
    assert listed("a,raps(penalty=0.1, k_reg=2), b") == ("a", "raps(penalty=0.1, k_reg=2)", "b")


def test_what_is_averaged_by_default_is_told_by_the_names_of_scores(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "calibration.csv", "-o", "model.json", "--scores", "auto", "--table"]) == 0
    fitted = capsys.readouterr().out
    assert main(["info", "model.json", "--table"]) == 0
    described = capsys.readouterr().out
    (line,) = [one for one in described.splitlines() if one.startswith("weights ")]
    for text in (fitted, line):
        assert "blend" not in text
        assert "logp(floor=0.01)" in text
    assert main(["info", "model.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"] == ["blend.thr"]


def test_the_evidence_of_rows_is_told_beside_the_scores(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformix.scores.blend.MANY_CLASSES", 1)
    monkeypatch.setattr("conformix.scores.blend.EVIDENT_ROWS", 1)
    assert main(["fit", "calibration.csv", "-o", "model.json", "--scores", "auto", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["scores"] == ["blend.logit"]
    assert main(["info", "model.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["evidence"] == told["evidence"]
    assert set(told["evidence"]) == {"spread", "top", "narrowest", "widest"}
    assert main(["info", "model.json", "--table"]) == 0
    assert "evidence.spread" in capsys.readouterr().out
