"""``python -m studies.regression FOLDER [--runs N] [--workers N] [--known FOLDER]``."""

import argparse
import sys

from studies.regression.report import write_study
from studies.regression.run import RUNS

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The study of averaged regression scores.")
    parser.add_argument("folder", nargs="?", default="docs/results/regression")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--known", help="folder of what the trained models predict")
    arguments = parser.parse_args()
    paths = write_study(
        arguments.folder, known=arguments.known, runs=arguments.runs, workers=arguments.workers
    )
    for path in paths:
        sys.stdout.write(f"{path}\n")
