"""Two writers and a reader on one model path: ``cd tests && python -m races [ROUNDS]``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from races.rounds import run_kills, run_rounds


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    bad = 0
    for name, run, n in (("rounds", run_rounds, rounds), ("kills", run_kills, rounds // 50)):
        with tempfile.TemporaryDirectory() as folder:
            found = run(Path(folder), n)
        bad += len(found.broken) + (found.left != 1)
        sys.stdout.write(
            f"{n:,} {name}: {found.saves:,} saves, {found.loads:,} loads, {len(found.broken)} "
            f"broken, {found.left} file beside the model in the end, {found.seconds:.0f} s\n"
        )
        sys.stdout.writelines(f"  {said}\n" for said in found.broken[:5])
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
