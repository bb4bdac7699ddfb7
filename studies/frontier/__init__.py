"""The study behind ``scores="auto"``: does a tuned baseline beat it anywhere (docs/frontier.md).

`cases` what is compared on which rows; `baseline` the best of all tuned baselines, as somebody
would choose it; `blended` the library's way and its ablations, on scores computed once; `run` all
of it into rows that survive a kill; `tables` what the rows say.
"""

from studies.frontier.cases import HELD_OUT, STUDIED, Setting
from studies.frontier.run import run_frontier
from studies.frontier.tables import frontier_tables

__all__ = ["HELD_OUT", "STUDIED", "Setting", "frontier_tables", "run_frontier"]
