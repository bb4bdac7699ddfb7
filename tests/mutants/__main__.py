"""Plant every bug in a copy of the package, run the suite there, and list what caught it."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mutants.planted import BUGS, Bug

ROOT = Path(__file__).resolve().parents[2]
# The quickest rooms first; a bug is caught by the first test that fails.
SUITE = ["unit", "properties", "contracts", "guarantees", "conditional", "search"]
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def caught_by(bug: Bug, copy: Path) -> str | None:
    """Return the first test that fails with the bug in place, or None."""
    path = copy / "conformix" / bug.file
    right = path.read_text(encoding="utf-8")
    times = path.stat()
    path.write_text(right.replace(bug.right, bug.wrong) if bug.right else right, encoding="utf-8")
    # Compiled code follows changes of its own file only, so callers' caches go with it.
    compiled = [*copy.rglob("*.nbi")] if "kernels" in bug.file or "engine" in bug.file else []
    for index in compiled:
        index.unlink()
    try:
        for room in SUITE:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider",
                 str(ROOT / "tests" / room)],
                cwd=ROOT, capture_output=True, text=True, check=False,
                env=os.environ | {"PYTHONPATH": str(copy)},
            )  # fmt: skip
            if done.returncode == 1:
                found = FAILED.search(done.stdout)
                return found[1] if found else "a test without a name"
            if done.returncode != 0:
                raise SystemExit(done.stdout + done.stderr)
    finally:
        path.write_text(right, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        for index in compiled:
            index.unlink(missing_ok=True)
    return None


def main() -> int:
    """Print one line per bug; exit 1 where one survives."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("only", nargs="*", help="words of the bugs to plant; all by default")
    words = parser.parse_args().only
    bugs = [bug for bug in BUGS if not words or any(word in bug.name for word in words)]
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "src" / "conformix", copy / "conformix")
        sound = caught_by(Bug("none", "errors.py", "", ""), copy)
        if sound is not None:
            raise SystemExit(f"the suite fails without any bug: {sound}")
        for bug in bugs:
            start = time.perf_counter()
            test = caught_by(bug, copy)
            survivors += test is None
            told = "SURVIVED" if test is None else test.removeprefix(f"{ROOT}/")
            print(f"{bug.name:48} {time.perf_counter() - start:5.0f} s  {told}", flush=True)
    print(f"{len(bugs) - survivors} of {len(bugs)} planted bugs caught")
    return int(survivors > 0)


if __name__ == "__main__":
    raise SystemExit(main())
