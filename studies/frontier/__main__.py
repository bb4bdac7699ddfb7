"""``python -m studies.frontier FOLDER [--runs N] [--workers N]``."""

import argparse
import sys

from studies.frontier.report import write_frontier

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The study behind scores='auto'.")
    parser.add_argument("folder", nargs="?", default="docs/results/frontier")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    for path in write_frontier(given.folder, runs=given.runs, workers=given.workers):
        sys.stdout.write(f"{path}\n")
