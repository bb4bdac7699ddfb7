"""``make assurance WHAT=fuzz``: fresh random properties, then damaged files, for a bounded time.

The first half of the time goes to the property tests, round after round; the second half to the
file readers and the loader of models, under a coverage-guided fuzzer (atheris) where it installs,
else with damage at random.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from fuzz.mutate import damaged
from fuzz.targets import TARGETS, Target

ROOT = Path(__file__).resolve().parents[2]
DONE = re.compile(r"#(\d+)\s+DONE\s+cov: (\d+)")
# Megabytes of the whole process, PyTorch included, and seconds for one file.
MEMORY, LONGEST = 3000, 20


def properties(seconds: float) -> tuple[str, str | None]:
    """Run the property tests, file by file with fresh randomness; what was done, what failed."""
    end, done = time.monotonic() + seconds, 0
    files = [p for p in (ROOT / "tests").rglob("test_*.py")
             if "from hypothesis" in p.read_text(encoding="utf-8")]  # fmt: skip
    for path in itertools.cycle(random.sample(files, len(files))):
        left = end - time.monotonic()
        if left <= 0:
            break
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "hypothesis", str(path)]
        try:
            ran = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=left,
                env=os.environ | {"CONFORMIX_HYPOTHESIS": "fuzz"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            break
        if ran.returncode:
            return "", ran.stdout[-6000:]
        done += 1
    return f"{done} runs of {len(files)} files of properties", None


def guided(target: Target, seconds: int) -> tuple[str, str | None]:
    """Fuzz one target with coverage feedback; what was done, and what failed."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for i, seed in enumerate(target.seeds()):
            (corpus / f"seed{i}").write_bytes(seed)
        options = [
            corpus, f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY}", f"-timeout={LONGEST}",
            "-max_len=65536", f"-artifact_prefix={ROOT}/.fuzz-{target.name}-",
        ]  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "fuzz.guided", target.name, *map(str, options)],
            cwd=ROOT / "tests", capture_output=True, text=True, check=False,
        )  # fmt: skip
        kept = len(list(corpus.iterdir()))
    found = DONE.search(done.stderr)
    if done.returncode or found is None:
        return "", (done.stdout + done.stderr)[-6000:]
    return f"{int(found[1]):,} files, {found[2]} branches, {kept} kept", None


def unguided(target: Target, seconds: float) -> tuple[str, str | None]:
    """Fuzz one target with damage at random."""
    rng, end, files = random.Random(), time.monotonic() + seconds, 0
    seeds = target.seeds()
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            content = damaged(rng.choice(seeds), rng)
            try:
                target.judge(content, Path(folder))
            except Exception as error:
                kept = ROOT / f".fuzz-{target.name}-crash"
                kept.write_bytes(content)
                return "", f"{kept}: {error!r}"
            files += 1
    return f"{files:,} files", None


def main() -> int:
    """Print one line per part; exit 1 where something broke."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("only", nargs="*", help="targets; all, and the property tests, by default")
    parser.add_argument("--seconds", type=int, default=300, help="time for everything")
    told = parser.parse_args()
    names = told.only or list(TARGETS)
    fuzzer, failures = guided, 0
    if find_spec("atheris") is None:
        print("SKIPPED coverage feedback: atheris does not install here; damage is at random")
        fuzzer = unguided  # type: ignore[assignment]
    share = told.seconds // 2
    if not told.only:
        done, problem = properties(share)
        failures += problem is not None
        print(f"properties  {share:4} s  {done}  {problem or 'nothing found'}", flush=True)
    for name in names:
        seconds = max((told.seconds - (0 if told.only else share)) // len(names), 1)
        done, problem = fuzzer(TARGETS[name], seconds)
        failures += problem is not None
        print(f"{name:10}  {seconds:4} s  {done}  {problem or 'nothing found'}", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    raise SystemExit(main())
