"""What the experiments of the paper share: settings, labels of methods, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformix.experiments.sources import load_data
from conformix.experiments.spec import Spec
from conformix.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPLITS = ("average:vfcp", "average:efcp", "average:dlcp", "average:dlcp+")
SINGLES = ("aps", "thr", "rank", "raps", "saps")
TUNED = ("uniform", "best-single", "tuned-thr", "tuned-raps", "tuned-saps")
ALPHAS = (0.01, 0.02, 0.03, 0.04, 0.05)

LABELS = {
    "average:vfcp": "VFCP",
    "average:efcp": "EFCP",
    "average:dlcp": "DLCP",
    "average:dlcp+": "DLCP+",
    "aps": "APS",
    "thr": "THR",
    "rank": "RANK",
    "raps": "RAPS",
    "saps": "SAPS",
    "uniform": "uniform average",
    "best-single": "best single score",
    "tuned-thr": "THR, tuned",
    "tuned-raps": "RAPS, tuned",
    "tuned-saps": "SAPS, tuned",
    "majority-vote": "majority vote",
    "probability-ensemble": "probability ensemble",
    "logit-ensemble": "logit ensemble",
    "oracle": "oracle (reads test labels)",
}
# The model of the paper's score experiments, where a data set has several.
PRIMARY = {"cifar100": "wideresnet_16_4", "cifar10": "vgg16"}


@dataclass(frozen=True)
class Setup:
    """Settings of a reproduction.

    Parameters
    ----------
    data : str
        Name of a bundled data set, or an npz file.
    model : str, optional
        The model whose scores are averaged; by default the data set's primary one.
    runs : int
        Number of random splits.
    normalize : str, optional
        On which scale scores are averaged. By default ``scale`` for the scores of one model, as
        in the paper's text, and ``ecdf`` for one score of several models, whose probabilities
        are not on one scale.
    resolution, rows, kind, seed
        As in `conformix.experiments.Spec`.

    Examples
    --------
    >>> Setup("cifar100").models
    ('wideresnet_16_4',)
    """

    data: str
    model: str | None = None
    runs: int = 100
    normalize: str | None = None
    resolution: int | None = None
    rows: int | None = None
    kind: str = "auto"
    seed: int = 0

    @property
    def models(self) -> tuple[str, ...]:
        """The one model of the score experiments."""
        if self.model is not None:
            return (self.model,)
        return (PRIMARY.get(self.data) or next(iter(self.all_models)),)

    @property
    def all_models(self) -> tuple[str, ...]:
        """All models of the data set."""
        return tuple(load_data(self.data, self.kind).outputs)

    @property
    def title(self) -> str:
        """What the rows are, for titles."""
        return f"{self.data}, {self.models[0]}"

    def spec(self, methods: tuple[str, ...], alphas: tuple[float, ...], **changes: Any) -> Spec:
        """Return an experiment under these settings."""
        settings: dict[str, Any] = {
            "models": self.models,
            "runs": self.runs,
            "normalize": self.normalize or "scale",
            "resolution": self.resolution,
            "rows": self.rows,
            "kind": self.kind,
            "seed": self.seed,
        }
        return Spec(self.data, methods=methods, alphas=alphas, **(settings | changes))


@dataclass(frozen=True)
class Product:
    """What an experiment gives: a table, pictures, and sentences computed from its rows."""

    table: Table | None = None
    figures: dict[str, Figure] = field(default_factory=dict)
    findings: tuple[str, ...] = ()


def label(method: str) -> str:
    """Return the name of a method in tables and figures.

    Examples
    --------
    >>> label("average:dlcp+"), label("vgg16.thr")
    ('DLCP+', 'vgg16.thr')
    """
    return LABELS.get(method, method)
