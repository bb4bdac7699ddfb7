"""The public surface is typed: a user's strict type checker knows it, and finds mistakes in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytest.importorskip("mypy")

MISTAKES = {
    'cx.ScoreAverage(alhpa=0.1)': "call-arg",
    'cx.ScoreAverage(alpha="0.1")': "arg-type",
    'cx.ScoreAverage(kind="probability")': "arg-type",
    'cx.PredictionSets(M).to_csv("x", "broad")': "arg-type",
    'cx.load_predictor("m.json").predict_sets(M)': "attr-defined",
    'x: int = cx.ScoreAverage().predict_set(M)': "assignment",
}  # fmt: skip


def mypy(folder, cache):
    # The configuration of the project must not help: users do not have it. scikit-learn has no
    # types of its own, which is the user's to say.
    settings = folder / "mypy.ini"
    settings.write_text("[mypy]\nstrict = True\n[mypy-sklearn.*]\nignore_missing_imports = True\n")
    files = [str(path) for path in sorted(folder.glob("*.py"))]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(settings), "--cache-dir", str(cache),
         "--no-color-output", *files],
        capture_output=True, text=True, check=False, cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "MYPYPATH"},
    )  # fmt: skip
    return done.stdout.splitlines()


def test_a_users_script_passes_strict_type_checks_and_mistakes_do_not(tmp_path, request):
    (tmp_path / "right.py").write_text((HERE / "user_script.py").read_text())
    head = "import numpy as np\nimport conformix as cx\nM = np.ones((1, 2), dtype=bool)\n"
    (tmp_path / "wrong.py").write_text(head + "".join(f"{line}\n" for line in MISTAKES))
    told = mypy(tmp_path, request.config.cache.mkdir("mypy_of_users"))
    assert [line for line in told if "wrong.py" not in line and ": error:" in line] == []
    for number, (line, code) in enumerate(MISTAKES.items(), start=4):
        assert any(f"wrong.py:{number}:" in t and f"[{code}]" in t for t in told), (line, told)


def test_the_script_runs():
    done = subprocess.run(
        [sys.executable, str(HERE / "user_script.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
