"""What an experiment is: a small frozen spec, and the cases that it asks for."""

from __future__ import annotations

import hashlib
import json
import numbers
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from conformix import __version__
from conformix.conformal import simple_fraction
from conformix.data.files import check_kind
from conformix.errors import InvalidInput
from conformix.experiments.methods import Choices, Method, resolve_method
from conformix.experiments.pool import digest, drawn, load_data
from conformix.kernels.arrays import IntArray
from conformix.kernels.cached import cached_property
from conformix.registry import unknown_name
from conformix.scores import PAPER, named_scores
from conformix.scores.scale import resolve_normalizer

_LISTS = ("methods", "alphas", "models", "scores")
# More cases than this, or more text in a file of specs, is a slip of the hand.
MOST_CASES = 1_000_000
MOST_BYTES = 2**20


@dataclass(frozen=True)
class Spec:
    """An experiment: methods and levels, over random splits of one data set.

    Parameters
    ----------
    data : str
        Name of a bundled data set, or an npz file.
    methods : tuple of str
        What is compared; see `conformix.experiments.resolve_method`.
    alphas : tuple of float
        Levels.
    models : tuple of str
        Which models of the data set; empty for all.
    runs : int
        Number of random splits; every method sees the same ones.
    share : float
        Share of the rows that calibrate; the rest are tested.
    scores : tuple of str
        What is averaged; ``"paper"`` is thr, aps and rank.
    normalize : str
        On which scale.
    resolution : int or None
        Of the weight grid; None takes what suits the number of scores.
    rows : int or None
        Draw so many rows from the data set; None takes all.
    kind : {"auto", "probs", "logits"}
        What a file holds.
    seed : int
        The root of all randomness.

    Examples
    --------
    >>> spec = Spec("mmlu_llama13b", methods=("thr", "average"), alphas=(0.1,), runs=3)
    >>> len(list(spec.cases()))
    6
    """

    data: str
    methods: tuple[str, ...]
    alphas: tuple[float, ...] = (0.1,)
    models: tuple[str, ...] = ()
    runs: int = 100
    share: float = 0.8
    scores: tuple[str, ...] = PAPER
    normalize: str = "scale"
    resolution: int | None = None
    rows: int | None = None
    kind: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_whole_numbers()
        self._check_texts()
        object.__setattr__(self, "scores", named_scores(self.scores))
        check_kind(self.kind)
        resolve_normalizer(self.normalize, separate=True)
        real = isinstance(self.share, numbers.Real) and not isinstance(self.share, bool)
        if not real or not 0 < self.share < 1:
            raise InvalidInput(f"share must lie strictly between 0 and 1; got {self.share!r}.")
        for alpha in self.alphas:
            simple_fraction(alpha)
        if not self.methods or not self.alphas:
            raise InvalidInput("an experiment needs at least one method and one alpha.")
        if not self.scores:
            raise InvalidInput("an experiment needs at least one score.")
        cases = self.runs * len(self.alphas) * len(self.methods)
        if cases > MOST_CASES:
            raise InvalidInput(
                f"{self.runs:,} runs of {len(self.methods)} methods at {len(self.alphas)} levels "
                f"are {cases:,} cases, and at most {MOST_CASES:,} are run; lower runs."
            )

    def _check_whole_numbers(self) -> None:
        for name, least in (("runs", 1), ("seed", 0), ("rows", 2), ("resolution", 1)):
            value = getattr(self, name)
            if value is None and name in ("rows", "resolution"):
                continue
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not whole or not least <= value < 2**63:
                raise InvalidInput(f"{name} must be an integer of at least {least}; got {value!r}.")

    def _check_texts(self) -> None:
        for name in ("data", "normalize"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise InvalidInput(f"{name} must be text; got {getattr(self, name)!r}.")
        for name in ("methods", "models", "scores"):
            if not all(isinstance(one, str) and one for one in getattr(self, name)):
                raise InvalidInput(f"{name} must hold texts; got {list(getattr(self, name))!r}.")
        if len(set(self.models)) < len(self.models):
            raise InvalidInput(f"models must differ; got {list(self.models)!r}.")

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Spec:
        """Return the spec of plain settings, as a TOML file holds them."""
        if not isinstance(settings, dict):
            raise InvalidInput(f"an experiment is a table of settings; got {settings!r}.")
        known = [field.name for field in fields(cls)]
        for name in settings:
            if name not in known:
                raise unknown_name("setting", name, known)
        for name in ("data", "methods"):
            if name not in settings:
                raise InvalidInput(f"an experiment needs the setting {name!r}.")
        if settings.get("scores") == "paper":
            settings = {**settings, "scores": PAPER}
        for name in _LISTS:
            if not isinstance(settings.get(name, []), list | tuple):
                raise InvalidInput(f"setting {name!r} must be a list; got {settings[name]!r}.")
        lists = {name: tuple(settings[name]) for name in _LISTS if name in settings}
        return cls(**{**settings, **lists})

    @property
    def choices(self) -> Choices:
        """What all averages of the experiment share."""
        return Choices(self.scores, self.normalize, self.resolution)

    def cases(self) -> Iterator[Case]:
        """Yield every case, split by split and level by level, methods side by side."""
        data = load_data(self.data, self.kind)
        fingerprint = digest(data)
        n = len(drawn(data, self.rows, self.seed).labels)
        models = self.models or tuple(data.outputs)
        resolved = [(name, resolve_method(name, self.choices)) for name in self.methods]
        for run in range(self.runs):
            for alpha in self.alphas:
                for name, method in resolved:
                    split = Draw(
                        self.data, self.kind, fingerprint, models, n, self.rows, self.share,
                        self.seed, run,
                    )  # fmt: skip
                    yield Case(split, float(alpha), name, method)


@dataclass(frozen=True)
class Draw:
    """One random split of a data set."""

    data: str
    kind: str
    digest: str
    models: tuple[str, ...]
    n: int
    rows: int | None
    share: float
    seed: int
    run: int

    @property
    def random_seed(self) -> int:
        """The seed of the split: the same for all methods, levels, models and workers."""
        named = [self.digest, self.rows, self.share, self.seed, self.run]
        return int.from_bytes(hashlib.sha256(json.dumps(named).encode()).digest()[:8], "little")

    def roles(self) -> tuple[IntArray, IntArray, int]:
        """Return the rows that calibrate, those that are tested, and the seed of what is drawn."""
        rng = np.random.default_rng(self.random_seed)
        order = rng.permutation(self.n)
        n_calibrate = min(max(round(self.share * self.n), 1), self.n - 1)
        calibrate, test = np.sort(order[:n_calibrate]), np.sort(order[n_calibrate:])
        return calibrate, test, int(rng.integers(2**63))


@dataclass(frozen=True)
class Case:
    """One method at one level on one split: one row of the results.

    Examples
    --------
    >>> case = next(Spec("mmlu_llama13b", methods=("thr",), runs=1).cases())
    >>> case.settings["method"], case.settings["alpha"], len(case.key)
    ('thr', 0.1, 20)
    """

    draw: Draw
    alpha: float
    name: str
    method: Method

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Everything that the result depends on, in plain types."""
        options = {"type": type(self.method).__name__, **asdict(self.method)}  # type: ignore[call-overload]
        named = {**asdict(self.draw), "data": Path(self.draw.data).stem}
        case = {"method": self.name, "options": options, "alpha": self.alpha}
        plain: dict[str, Any] = json.loads(json.dumps({**named, **case, "version": __version__}))
        return plain

    @cached_property
    def key(self) -> str:
        """The name of the case: a hash of its settings."""
        text = json.dumps(self.settings, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


def read_specs(path: str | Path) -> list[Spec]:
    r"""Return the experiments of a TOML file: one, or several under ``[[experiment]]``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "mine.toml"
    ...     _ = file.write_text('data = "cifar10"\nmethods = ["thr", "average"]\nruns = 5')
    ...     read_specs(file)[0].methods
    ('thr', 'average')
    """
    source = Path(path)
    if not source.is_file():
        raise InvalidInput(f"{source} does not exist or is no file.")
    if source.stat().st_size > MOST_BYTES:
        raise InvalidInput(f"{source} is too large for a file of specs.")
    try:
        settings = tomllib.loads(source.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # no text, no TOML, numbers without end
        raise InvalidInput(f"{source} is no TOML: {error}.") from None
    if "experiment" not in settings:
        table = next((name for name, value in settings.items() if isinstance(value, dict)), None)
        if table is not None:
            raise InvalidInput(
                f"{source} has a table [{table}]; settings stand alone, or under [[experiment]]."
            )
        return [Spec.from_dict(settings)]
    beside = sorted(set(settings) - {"experiment"})
    if beside:
        raise InvalidInput(
            f"{source} has {beside[0]!r} beside its experiments; settings go into one of them."
        )
    listed = settings["experiment"]
    listed = listed if isinstance(listed, list) else [listed]
    if not listed:
        raise InvalidInput(f"{source} holds no experiment.")
    return [Spec.from_dict(one) for one in listed]
