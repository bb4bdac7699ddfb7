"""From outputs (n, K) to scores (n, K, d): one score per file, one shared sort.

To add a score, write a frozen dataclass beside the others and one line in `SCORES`
(`conformix/scores/names.py`).
"""

from typing import Any

from conformix.registry import no_attribute
from conformix.scores.aps import Aps
from conformix.scores.learnt import Kin, Likeness, Rarity
from conformix.scores.logs import Logit, Logp
from conformix.scores.margin import Margin
from conformix.scores.names import (
    PAPER,
    SCORES,
    Column,
    ScoreLike,
    named_scores,
    parse_score,
    score_columns,
)
from conformix.scores.rank import Invrank, Logrank, Rank
from conformix.scores.ranked import Ranked
from conformix.scores.raps import Raps
from conformix.scores.rowwise import Energy, Entropy, Maxprob
from conformix.scores.saps import Saps
from conformix.scores.score import Custom, Score
from conformix.scores.tensor import score_tensor
from conformix.scores.thr import Thr

__all__ = [
    "PAPER",
    "SCORES",
    "Aps",
    "Column",
    "Custom",
    "Energy",
    "Entropy",
    "Invrank",
    "Kin",
    "Likeness",
    "Logit",
    "Logp",
    "Logrank",
    "Margin",
    "Maxprob",
    "Rank",
    "Ranked",
    "Raps",
    "Rarity",
    "Saps",
    "Score",
    "ScoreLike",
    "Thr",
    "named_scores",
    "parse_score",
    "score_columns",
    "score_tensor",
]


def __getattr__(name: str) -> Any:
    raise no_attribute(f"module {__name__!r}", name, __all__)
