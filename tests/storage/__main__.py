"""Every value of every kind of model file, changed: ``cd tests && python -m storage [KIND]``."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from storage.leaves import changes, faults
from storage.models import RECIPES


def main() -> int:
    bad = 0
    for name in sys.argv[1:] or RECIPES:
        begun, tried = time.perf_counter(), changes(name)
        with tempfile.TemporaryDirectory() as folder:
            found = faults(name, tried, Path(folder) / "m.json")
        bad += len(found)
        sys.stdout.write(
            f"{name}: {len(tried):,} changes, {len(found)} neither refused nor harmless, "
            f"{time.perf_counter() - begun:.0f} s\n"
        )
        sys.stdout.writelines(f"  {line}\n" for line in found[:40])
        sys.stdout.flush()
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
