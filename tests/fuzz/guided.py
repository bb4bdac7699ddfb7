"""One target under the coverage-guided fuzzer: ``python -m fuzz.guided NAME [libFuzzer options]``.

The modules that read files are instrumented; inputs that reach new branches are kept and damaged
further, half of the time by `fuzz.mutate`.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["conformix.data.files", "conformix.fit.saved"]):
    import conformix.data.files
    import conformix.fit.saved  # noqa: F401  instrumented here, used by the targets
    from fuzz.mutate import damaged
    from fuzz.targets import TARGETS


def main() -> None:
    """Fuzz until the options say stop; libFuzzer ends the process."""
    name, options = sys.argv[1], sys.argv[2:]
    target = TARGETS[name]
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))

    def one_input(content: bytes) -> None:
        target.judge(content, folder)

    def mutated(content: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if content and rng.random() < 0.5:
            return damaged(content, rng)[:most]
        return atheris.Mutate(content, most)

    for seed in target.seeds():
        one_input(seed)  # whatever loads or compiles late does so before the clock runs
    atheris.Setup(["fuzz", *options], one_input, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
