"""``python -m studies.frontier FOLDER [--runs N] [--workers N]``."""

import argparse
import sys

from studies.frontier.report import write_frontier

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The study behind scores='auto'.")
    parser.add_argument("folder", nargs="?", default="docs/results/frontier")
    parser.add_argument("--runs", type=int, help="splits; by default 30, or 60 of small settings")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    paths = write_frontier(arguments.folder, runs=arguments.runs, workers=arguments.workers)
    for path in paths:
        sys.stdout.write(f"{path}\n")
