"""The house in numbers: ``python release/house.py [TREE ...]`` prints one column per tree.

Counts are thermometers: what decides is whether a stranger finds things. A tree is a checkout of
this repository; by default this one. Calls are traced in a process of their own, with the tree's
package on the path, so that two versions can be laid side by side.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Runs inside a tree: what a call visits. Every call is made twice and the second one is traced, so
# that imports and compilation are not counted.
TRACE = r"""
import json, sys, tempfile
from pathlib import Path
import numpy as np
import conformix as cx
from sklearn.linear_model import LogisticRegression

rng = np.random.default_rng(0)
P = rng.dirichlet(np.ones(100) * 0.1, size=1000)
y = np.array([rng.choice(100, p=p) for p in P])
X, t = rng.normal(size=(200, 4)), rng.integers(0, 3, 200)
fitted = cx.ScoreAverage(("thr", "aps", "rank"), random_state=0).fit(P, y)
auto = cx.ScoreAverage("auto", random_state=0).fit(P, y)
folder = tempfile.mkdtemp()
np.savez(f"{folder}/rows.npz", probs=P, labels=y)


def shell():
    import contextlib, io
    from conformix.cli import main
    before, sys.argv = sys.argv, ["conformix", "fit", f"{folder}/rows.npz", "--scores",
        "thr,aps,rank", "-o", f"{folder}/model.json"]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"conformix fit ended with {end.code}")
    finally:
        sys.argv = before


CALLS = {
    "fit": lambda: cx.ScoreAverage(("thr", "aps", "rank"), random_state=0).fit(P, y),
    "predict_set": lambda: fitted.predict_set(P),
    "fit, auto": lambda: cx.ScoreAverage("auto", random_state=0).fit(P, y),
    "predict_set, auto": lambda: auto.predict_set(P),
    "ConformalClassifier.fit": lambda: cx.ConformalClassifier(
        LogisticRegression(), scores=("thr", "aps", "rank"), random_state=0).fit(X, t),
    "conformix fit": shell,
}
# Where the search of Algorithm 2 begins: frames below the estimator's fit, by its file.
ALGORITHM = {"pipeline.py": "fit", "fit/fit.py": "fit"}


def traced(call):
    modules, crossings, depths, algorithm = set(), 0, [0], []
    stack = []

    def profile(frame, event, argument):
        nonlocal crossings
        if event not in ("call", "return"):
            return
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("conformix"):
            return
        if event == "call":
            if stack and stack[-1][0] != name:
                crossings += 1
            stack.append((name, frame.f_code.co_name))
            modules.add(name)
            depths.append(len(stack))
            for end, function in ALGORITHM.items():
                if frame.f_code.co_filename.endswith("conformix/" + end) and \
                        frame.f_code.co_name == function:
                    algorithm.append(len(stack) - 1)
        elif stack:
            stack.pop()

    call()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {"modules": len(modules), "crossings": crossings, "depth": max(depths),
            "frames above Algorithm 2": min(algorithm, default=None)}


print(json.dumps({name: traced(call) for name, call in CALLS.items()}))
"""


def still(tree: Path) -> dict[str, object]:
    """Return what can be counted without running anything."""
    package = tree / "src/conformix"
    files = [path for path in package.rglob("*.py") if "__pycache__" not in path.parts]
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in files]
    exported = set().union(*(exported_names(path) for path in files))
    return {
        "loose modules": sum(path.parent == package and path.stem != "__init__" for path in files),
        "rooms": sum(path.parent.parent == package and path.stem == "__init__" for path in files),
        "layers": layers(tree),
        "files": len(files),
        "lines": sum(lines),
        "lines of a file, median": sorted(lines)[len(lines) // 2],
        "docstring lines on names that no room exports": sum(
            docstring_lines(path, exported) for path in files
        ),
    }


def layers(tree: Path) -> int:
    """Return how many layers the test of the architecture orders: a list, or the page's table."""
    rules = (tree / "tests/architecture/test_house_rules.py").read_text(encoding="utf-8")
    for node in ast.parse(rules).body:
        is_layers = isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "LAYERS"
        if is_layers and isinstance(node.value, ast.List):
            return len(node.value.elts)
    page = (tree / "ARCHITECTURE.md").read_text(encoding="utf-8")
    return len(re.findall(r"^\| `[a-z_]+(?:\.py|/)` \|", page, re.MULTILINE))


def exported_names(path: Path) -> set[str]:
    """Return the names of a file's ``__all__``."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def docstring_lines(path: Path, exported: set[str]) -> int:
    """Return the lines of docstrings on functions and classes (methods too) not exported."""
    found = 0
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name not in exported:
            for inner in ast.walk(node):
                if isinstance(inner, ast.FunctionDef | ast.ClassDef):
                    found += len((ast.get_docstring(inner, clean=False) or "").splitlines())
    return found


def moving(tree: Path) -> dict[str, object]:
    """Return what the calls of a user visit, measured in a process of their own."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", TRACE],
        env=environment,
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    calls = json.loads(done.stdout.splitlines()[-1])
    return {
        f"{name}: {what}": value
        for name, counted in calls.items()
        for what, value in counted.items()
        if value is not None
    }


def main() -> None:
    """Print the counts of every tree, one column each."""
    trees = [Path(name).resolve() for name in sys.argv[1:]] or [ROOT]
    columns = [still(tree) | moving(tree) for tree in trees]
    names = list(dict.fromkeys(name for column in columns for name in column))
    width = max(map(len, names))
    print(" " * width, *(f"{tree.name:>12}" for tree in trees))
    for name in names:
        values = [column.get(name, "") for column in columns]
        print(
            f"{name:<{width}}", *(f"{value:>12,}" if value != "" else " " * 12 for value in values)
        )


if __name__ == "__main__":
    main()
