"""From outputs (n, K) to scores (n, K, d): one score per file, one shared sort.

To add a score, write a frozen dataclass beside the others and one line in `SCORES`
(`conformix/scores/tensor.py`).
"""

from conformix.scores.aps import Aps
from conformix.scores.rank import Rank
from conformix.scores.ranked import Ranked
from conformix.scores.score import Custom, Score
from conformix.scores.tensor import (
    SCORES,
    ScoreLike,
    fill_tensor,
    resolve_scores,
    score_names,
    score_tensor,
)
from conformix.scores.thr import Thr

__all__ = [
    "SCORES",
    "Aps",
    "Custom",
    "Rank",
    "Ranked",
    "Score",
    "ScoreLike",
    "Thr",
    "fill_tensor",
    "resolve_scores",
    "score_names",
    "score_tensor",
]
