"""The quick part of the suite on other releases: ``make versions WHAT="oldest interpreters"``.

``oldest``: the oldest release of every dependency that pyproject.toml allows, all together.
``interpreters``: the newest releases on the other Pythons present. ``torch``: the tensors' tests on
the oldest PyTorch that pyproject.toml allows, where a CPU build of it can be had. What is missing
here is skipped, and said so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".venv-versions"
ROOMS = ("conformal", "kernels", "scores", "sets", "metrics", "fit", "estimators", "errors")
QUICK = [f"tests/{room}" for room in ROOMS]
OTHERS = ["3.12", "3.13", "3.14"]
# Old wheels end with this Python.
OLD_PYTHON = "3.11"
TELL = """
import sys
from importlib.metadata import version
names = ["numpy", "scipy", "numba", "scikit-learn", "joblib"] + sys.argv[1:]
print("Python", sys.version.split()[0], *(f"{name} {version(name)}" for name in names))
"""


def bounds(*extras: str) -> dict[str, str]:
    """Return the lower bound of every dependency, those of some extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["project"]["optional-dependencies"]
    listed = list(project["project"]["dependencies"])
    listed += [line for extra in extras for line in groups[extra]]
    listed += list(project["dependency-groups"]["core-test"])
    found = (re.match(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", line) for line in listed)
    return {one[1]: one[2] for one in found if one}


def interpreter(version: str) -> str | None:
    """Return the Python of a version: on the path, or one that pyenv keeps."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(kept.glob(f"{version}.*/bin/python"))
    for candidate in (*map(str, reversed(found)), shutil.which(f"python{version}")):
        asked = [candidate, "-c", "import venv, ensurepip"]
        if candidate and subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def environment(name: str, python: str, wanted: Sequence[str]) -> Path | None:
    """Return the Python of an environment, None where something that it needs is not to be had."""
    place = PLACE / name
    own = place / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", str(place)], check=True)
    for step in (["--upgrade", "pip"], wanted, ["--no-deps", "--editable", str(ROOT)]):
        done = subprocess.run(
            [str(own), "-m", "pip", "install", "--quiet", *step],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            print(*errors[:2], sep="\n", file=sys.stderr)
            return None
    return own


def suite(python: Path, tests: Sequence[str], *told: str) -> bool:
    """Run tests in an environment, with a compile cache of its own; whether they passed."""
    print(subprocess.check_output([str(python), "-c", TELL, *told], text=True), end="", flush=True)
    cache = os.environ | {"NUMBA_CACHE_DIR": str(python.parents[1] / "numba")}
    command = [str(python), "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env=cache, check=False).returncode == 0


def oldest() -> bool:
    """Run the quick tests on the oldest release of everything."""
    python = interpreter(OLD_PYTHON)
    if python is None:
        print(f"SKIPPED oldest: no Python {OLD_PYTHON} here, and old wheels end with it")
        return True
    lower = bounds("cli", "plots", "report", "frames")
    pins = [f"{name}=={version}" for name, version in lower.items()]
    found = environment("oldest", python, pins)
    return found is not None and suite(found, QUICK)


def interpreters() -> bool:
    """Run the quick tests on the newest releases, on every other Python present."""
    fine = True
    core = list(bounds("frames", "cli", "plots", "report"))
    for version in OTHERS:
        python = interpreter(version)
        found = None if python is None else environment(f"python-{version}", python, core)
        if found is None:
            what = "no such interpreter here" if python is None else "a dependency has no wheel"
            print(f"SKIPPED Python {version}: {what}")
        else:
            fine = suite(found, QUICK) and fine
    return fine


def torch() -> bool:
    """Run the tests of tensors on the oldest PyTorch, where a CPU build can be had."""
    lower = bounds("torch")
    python = interpreter(OLD_PYTHON)
    version = lower.pop("torch")
    pins = [f"torch=={version}.0+cpu", "numpy<2", *(n for n in lower if n != "numpy")]
    found = None if python is None else environment(f"torch-{version}", python, pins)
    if found is None:
        print(f"SKIPPED torch {version}: no CPU build of it can be had here")
        return True
    return suite(found, ["tests/data/tensors"], "torch")


if __name__ == "__main__":
    parts = {"oldest": oldest, "interpreters": interpreters, "torch": torch}
    passed = [parts[name]() for name in sys.argv[1:] or parts]  # all of them, also after a failure
    raise SystemExit(0 if all(passed) else 1)
