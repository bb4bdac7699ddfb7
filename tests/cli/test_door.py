"""Nothing from outside steers a terminal: what cannot be seen is written out, in every command.

Names of files, classes and models, versions, rows of results and specs are all somebody else's. A
terminal takes some of their characters as orders, and others hide what is there.
"""

from __future__ import annotations

import ast
import io
import json
import re
import unicodedata
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conformix
import conformix as cx
from cli.drawn import draw
from conformix.cli import main
from conformix.cli.output import record_table, reporting, working, write_table, write_verdict
from conformix.data.files import Sources
from conformix.errors import visible

PACKAGE = Path(conformix.__file__).parent
STYLE = re.compile(r"\x1b\[[0-9;]*m")
# A window title, a cleared screen, the same in one byte of C1, a bell, writing turned around, a
# deleted character, line breaks, a name that hides in another.
HOSTILE = [
    "a\x1b]0;owned\x07b", "a\x1b[2Jb", "a\x9b2Jb", "a\x07b", "a\u202eb", "a\x7fb", "a\nb",
    "a\rb", "a\u2028b", "a\u2066b\u2069", "a\ufeffb", "a\x85b", "a\tb", "\x1b[31ma",
]  # fmt: skip

# All of them in a few names, where a command takes its time.
TOGETHER = ["".join(HOSTILE[:5]), "".join(HOSTILE[5:10]), "".join(HOSTILE[10:])]


def unseen(text: str) -> list[str]:
    """Return the characters of an output that steer a terminal, line breaks between lines apart."""
    bad = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return sorted({c for c in text if c != "\n" and unicodedata.category(c) in bad})


def class_name(evil: str) -> str:
    """Return a name that a csv may have for a column: without line breaks, which end its header."""
    return evil.replace("\n", "\x1b").replace("\r", "\x1b")


def write_rows(path: Path, names: list[str], seed: int = 0) -> None:
    """Write a csv of outputs and labels whose classes have these names."""
    probs, labels = draw(seed, 120)

    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    lines = [",".join([*map(quoted, names), "label"])]
    for row, values in enumerate(probs.tolist()):
        lines.append(",".join([*map(repr, values), quoted(names[labels[row]])]))
    path.write_text("\n".join(lines) + "\n", newline="")


@pytest.fixture
def said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Run a command in a folder of its own; return its code and all that it wrote, as it came."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        code = main(list(arguments))
        out, err = capsys.readouterr()
        assert unseen(out + err) == [], arguments
        assert err.count("\n") <= err.count("conformix:"), err  # one line each
        return code, out + err

    return run


@pytest.mark.parametrize("evil", TOGETHER, ids=ascii)
def test_every_command_writes_hostile_names_out(evil: str, said: Any, tmp_path: Path) -> None:
    names = [class_name(evil), "dog", "emu", "fox"]
    rows, model = f"rows {evil}.csv", f"model {evil}.json"
    write_rows(tmp_path / rows, names)
    fit = ("fit", rows, "-o", model, "--resolution", "2", "--alpha", "0.2")
    assert said(*fit, "--table")[0] == 0
    shown = visible(evil)
    for form in ("--table", "--json"):
        assert said(*fit, form)[0] == 0
        for command in (("info", model), ("info", rows), ("predict", model, rows),
                        ("evaluate", model, rows),
                        ("predict", model, rows, "-o", f"sets {evil}.csv")):  # fmt: skip
            code, text = said(*command, form)
            assert code == 0, text
            if form == "--table" and command[0] == "info":
                assert shown in text  # the name of the file
            if form == "--json":
                assert all(json.loads(line) for line in text.splitlines())


@pytest.mark.parametrize("evil", TOGETHER, ids=ascii)
def test_every_refusal_writes_hostile_texts_out(evil: str, said: Any, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.csv", ["cat", "dog", "emu", "fox"])
    assert said("fit", "rows.csv", "-o", "m.json", "--resolution", "2", "--table")[0] == 0
    document = json.loads((tmp_path / "m.json").read_text())
    files = {
        "newer.json": document | {"schema": 99, "version": evil},
        "part.json": document | {evil: 1},
        "kind.json": document | {"predictor": document["predictor"] | {"kind": evil}},
        "split.json": document | {"params": document["params"] | {"split": evil}},
    }
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
        assert said("info", name)[0] == 2
    spec = 'data = "mmlu_llama13b"\nmethods = ["thr"]\nruns = 1\nrows = 50\n'
    broken = {
        "setting.toml": f"{spec}{json.dumps(evil)} = 1\n",
        "method.toml": f'data = "mmlu_llama13b"\nmethods = [{json.dumps(evil)}]\n',
        "data.toml": f'data = {json.dumps(evil)}\nmethods = ["thr"]\n',
    }
    for name, text in broken.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert said("reproduce", name, "--workers", "1")[0] == 2
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rows.jsonl").write_text(evil + "\n", encoding="utf-8", newline="")
    (tmp_path / "fine.toml").write_text(spec)
    said("reproduce", "fine.toml", "--out", "out", "--workers", "1")
    for arguments in (
        ("info", f"{evil}.json"), ("info", f"{evil}.csv"), (evil,), ("info", f"--{evil}"),
        ("fit", "rows.csv", "-o", "x.json", "--scores", evil),
        ("fit", "rows.csv", "-o", "x.json", "--split", evil),
        ("fit", "rows.csv", "-o", "x.json", "--alpha", evil),
        ("fit", "rows.csv", "-o", f"no folder {evil}/x.json"),
        ("fit", "--model", evil, "-o", "x.json"),
        ("predict", "m.json", "rows.csv", "--models", evil),
        ("compare", "rows.csv", "--label-column", evil),
    ):  # fmt: skip
        assert said(*arguments)[0] != 0, arguments


@pytest.mark.parametrize("evil", TOGETHER[:2], ids=ascii)
def test_comparisons_reports_and_specs_write_hostile_names_out(
    evil: str, said: Any, tmp_path: Path
) -> None:
    probs, labels = draw(3, 120)
    np.savez(tmp_path / "two.npz", labels=labels, **{evil: probs, "plain": draw(4, 120)[0]})
    few = ("--runs", "2", "--resolution", "2", "--scores", "thr", "--workers", "1")
    for form in ("--table", "--json"):
        code, text = said("compare", "two.npz", *few, "--alpha", "0.3", form, "--out", "rows")
        assert code == 0, text
    # The rows of that comparison, edited: the file is refused, and the line is named.
    path = tmp_path / "rows" / "rows.jsonl"
    lines = path.read_text().splitlines()
    lines[0] = json.dumps(json.loads(lines[0]) | {"guarantee": evil})
    path.write_text("\n".join(lines) + "\n")
    assert said("compare", "two.npz", *few, "--alpha", "0.3", "--table", "--out", "rows")[0] == 0
    lines[0] = json.dumps(json.loads(lines[0]) | {evil: 1})
    path.write_text("\n".join(lines) + "\n")
    assert said("compare", "two.npz", *few, "--alpha", "0.3", "--table", "--out", "rows")[0] == 2
    write_rows(tmp_path / "rows.csv", [class_name(evil), "dog", "emu", "fox"])
    assert said("fit", "rows.csv", "-o", f"{evil}.json", "--resolution", "2", "--json")[0] == 0
    code, text = said("report", f"{evil}.json", "rows.csv", "-o", f"{evil}.html", "--table")
    assert code == 0, text
    spec = f'data = "two.npz"\nmethods = ["thr"]\nruns = 1\nmodels = {json.dumps([evil])}\n'
    (tmp_path / f"{evil}.toml").write_text(spec, encoding="utf-8")
    for form in ("--table", "--json"):
        code, text = said("reproduce", f"{evil}.toml", "--workers", "1", form, "--out", f"o{evil}")
        assert code == 0, text


class Terminal(io.StringIO):
    """A stream that says that somebody looks at it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("evil", HOSTILE, ids=ascii)
def test_on_a_terminal_only_styles_of_our_own_steer_it(
    evil: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = Terminal(), Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setenv("TERM", "xterm")
    write_table(record_table(f"[red]{evil}", ("a", evil), [(evil, "1"), ()], [evil]))
    write_verdict(evil)
    assert unseen(STYLE.sub("", out.getvalue())) == []
    assert "[red]" in out.getvalue()  # names are no markup
    with working(evil), reporting(evil):
        pass
    wanted = unseen(err.getvalue())
    err.truncate(0)
    with working("a"), reporting("a"):
        pass
    assert set(wanted) <= {*unseen(err.getvalue()), "\r", "\x1b"}  # those that rich moves with
    assert visible(evil) in STYLE.sub("", out.getvalue())


def test_a_warning_is_one_line_that_steers_nothing(said: Any, tmp_path: Path) -> None:
    with pytest.warns(cx.TrivialSetsWarning, match=r"^a\\x1b\[2Jb\\n$"):
        conformix.errors.warn("a\x1b[2Jb\n", cx.TrivialSetsWarning)
    write_rows(tmp_path / "rows.csv", ["cat", "dog", "emu", "fox"])
    code, text = said("fit", "rows.csv", "-o", "m.json", "--alpha", "0.001", "--table")
    assert code == 0
    assert "conformix: warning: " in text


def test_warnings_of_other_libraries_go_through_the_door(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from conformix.cli import app

    with app._warnings_as_sentences():
        warnings.simplefilter("always")
        warnings.warn("a\x1b[2Jb", UserWarning, stacklevel=1)
    err = capsys.readouterr().err
    assert "a\\x1b[2Jb" in err
    assert unseen(err) == []


@pytest.mark.parametrize("evil", HOSTILE, ids=ascii)
def test_no_sentence_of_the_library_hides_an_order_to_a_terminal(evil: str) -> None:
    probs = [[0.5, 0.5]] * 4
    for attempt in (
        lambda: cx.load(f"{evil}.json"),
        lambda: cx.ScoreAverage(evil).fit(probs, [0, 1, 0, 1]),
        lambda: cx.ScoreAverage("paper", split=evil).fit(probs, [0, 1, 0, 1]),
        lambda: cx.ScoreAverage("paper").fit({evil: probs, "b": [[2.0, 1.0]] * 4}, [0, 1, 0, 1]),
        lambda: cx.ScoreAverage("paper", allow_empty=evil).fit(probs, [0, 1, 0, 1]),
        lambda: cx.datasets.load(evil),
        lambda: Sources(f"{evil}.csv").read(labelled=True),
        lambda: cx.ScoreAverage("paper").fit(probs, [evil, "b", "c", "c"], classes=["b", "c"]),
    ):
        with pytest.raises(cx.InvalidInput) as caught:
            attempt()
        assert unseen(str(caught.value)) == []
        assert "\n" not in str(caught.value)


def test_printable_text_stays_as_it_is() -> None:
    for text in ("cat", "Zürich", "日本語", "नमस्ते", "👩‍👩‍👧", "a\\b", "می‌خواهم", "[red]", "a b"):
        assert visible(text) == text


# Where a stream may be written to: the door, and studies that print names of their own.
WRITERS = {"cli/output.py"} | {
    f"studies/{study}/{file}"
    for study in ("frontier", "regression")
    for file in ("report.py", "__main__.py")
}
# Where rich draws: every text there goes through one function.
DRAWERS = {"cli/output.py"}


def written(source: str) -> list[str]:
    """Return the calls of a file that write to a terminal."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        last = called.rpartition(".")[2]
        stream = called.startswith(("sys.stdout.", "sys.stderr.", "sys.__std"))
        known = last in ("print", "echo", "secho", "pprint", "input", "print_exc")
        if known or (stream and last.startswith("write")) or called == "os.write":
            found.append(called)
    return found


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.relative_to(PACKAGE).as_posix()
)
def test_nothing_is_written_past_the_door(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    calls = written(path.read_text(encoding="utf-8"))
    if name in DRAWERS:
        calls = [call for call in calls if not call.endswith(".print")]
    assert calls == [] or name in WRITERS


def test_every_text_that_rich_draws_is_made_visible() -> None:
    source = (PACKAGE / "cli" / "output.py").read_text(encoding="utf-8")
    made = [ast.unparse(node) for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Text"]  # fmt: skip
    assert made == ["Text(visible(text), style=style)"]
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    drawn = [ast.unparse(c.args[0]) for c in calls if ast.unparse(c.func).endswith(".print")]
    assert all(one.startswith("_text(") or one == "drawn" for one in drawn)


def test_the_test_sees_what_is_written() -> None:
    lines = [
        "print(1)",
        "typer.echo(x)",
        "console.print(x)",
        "sys.stdout.write(x)",
        "os.write(1, b)",
    ]
    assert len(written("\n".join(lines))) == 5
    assert written("x.stdout.flush()\nprinted(1)") == []
