"""Methods on outputs and labels, over random splits, and one sentence at the end."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from conformix.data.bundled import Dataset
from conformix.data.checks import by_model, numeric
from conformix.data.files import check_kind, guess_kind
from conformix.data.labels import check_classes, label_indices
from conformix.data.outputs import check_outputs
from conformix.errors import ConformixWarning, InvalidInput
from conformix.estimators.average import ScoreAverage
from conformix.experiments.methods import Choices, Task, estimator_of, resolve_method
from conformix.experiments.own import Estimated, Served, is_single, own_methods
from conformix.experiments.pool import Pool, digest, drawn, load_data
from conformix.experiments.rows import Row
from conformix.experiments.runner import Progress, measured, run
from conformix.experiments.spec import Draw, Spec
from conformix.experiments.statistics import (
    Estimate,
    Results,
    check_spread,
    in_words,
    interval,
    percent,
)
from conformix.kernels.arrays import to_host
from conformix.scores.names import is_score, is_score_of_a_model, named_scores
from conformix.splits import SPLITS
from conformix.tables import Table

TUNED = ("best-single", "tuned-thr", "tuned-raps", "tuned-saps")
ENSEMBLES = ("probability-ensemble", "logit-ensemble")
# Splits that go with scores="auto".
BLENDING = ("vfcp", "exact")
# Beside the averaged scores, where there is one model only.
FURTHER_SINGLES = ("raps", "saps")


@dataclass(frozen=True)
class Verdict:
    """What to use, by how much it is better, and the sentence that says so.

    Parameters
    ----------
    method : str
        What to use.
    baseline : str
        The single score with the smallest mean size.
    saving : Estimate
        Share by which the sets of the method (where nothing helps: of the average) are smaller.
    sentence : str
        For people.
    """

    method: str
    baseline: str
    saving: Estimate
    sentence: str


@dataclass(frozen=True)
class Comparison:
    """What `compare` found: prints as its table and its verdict.

    Parameters
    ----------
    results : Results
        One row per method and split.
    alpha : float
        The level.
    verdict : Verdict
        What to use, and the sentence that says so.
    choices : Choices
        What the averages of the library have in common.
    kind : str
        What the outputs are.
    own : mapping of str to method
        The user's methods.
    """

    results: Results
    alpha: float
    verdict: Verdict
    choices: Choices = field(default_factory=Choices)
    kind: Any = "probs"
    own: Mapping[str, Any] = field(default_factory=dict)

    @property
    def winner(self) -> Any:
        """The method that the verdict names: an estimator to `fit`, or the model that was fitted.

        These rows chose it. Fitted on rows that had no part in the comparison its guarantee is what
        it says; on these rows the choice among a few methods comes on top.
        """
        return self.estimator(self.verdict.method)

    def estimator(self, method: str) -> Any:
        """Return the estimator of a method of the table, not fitted; a fitted model as it is."""
        one = self.own.get(method)
        if isinstance(one, Served):
            return one.model
        if isinstance(one, Estimated):
            return one.at(self.alpha, self.kind)
        if one is not None:
            return ScoreAverage(**one.settings(), alpha=self.alpha, kind=self.kind)
        self.results.of(method, self.alpha)
        return estimator_of(method, self.choices, alpha=self.alpha, kind=self.kind)

    def summary(self) -> list[dict[str, Any]]:
        """Return one record per method, smallest sets first."""
        records = [self._record(method) for method in self.results.methods]
        return sorted(records, key=lambda record: record["size"])

    def __repr__(self) -> str:
        return f"{self.table().text()}\n\n{self.verdict.sentence}"

    def _record(self, method: str) -> dict[str, Any]:
        results, alpha = self.results, self.alpha
        overlap = results.overlap
        covered = results.values(method, alpha=alpha, field="coverage")
        coverage = interval(covered, overlap=overlap)
        matched = results.values(method, alpha=alpha, field="size_at_matched_coverage")
        saving = results.saving(method, self.verdict.baseline, alpha=alpha, overlap=overlap)
        return {
            "method": method,
            "alpha": alpha,
            "coverage": coverage.mean,
            "coverage_low": max(coverage.low, 0.0),
            "coverage_high": min(coverage.high, 1.0),
            "size": results.estimate(method, alpha=alpha).mean,
            "size_at_matched_coverage": None if np.isnan(matched).any() else float(matched.mean()),
            "saved": saving.mean,
            "saved_low": saving.low,
            "saved_high": saving.high,
            "guarantee": results.guarantee(method, alpha),
            "splits": coverage.n,
        }

    def table(self) -> Table:
        """Return the summary as a table."""
        header = ("method", "coverage", "size", "matched", "saved", "guarantee")
        rows = []
        for one in self.summary():
            ends = f"[{one['coverage_low']:.3f}, {one['coverage_high']:.3f}]"
            matched = one["size_at_matched_coverage"]
            saving = Estimate(one["saved"], one["saved_low"], one["saved_high"], 0.0, 0)
            rows.append(
                (
                    one["method"],
                    f"{one['coverage']:.3f} {ends}",
                    f"{one['size']:.2f}",
                    "-" if matched is None else f"{matched:.2f}",
                    "-" if one["method"] == self.verdict.baseline else percent(saving),
                    one["guarantee"],
                )
            )
        n_splits = self.summary()[0]["splits"]
        notes: tuple[str, ...] = (
            f"Means over {n_splits} random splits; 95 % intervals for new rows like these.",
            f'"saved": sets smaller than those of {self.verdict.baseline}, the best single score.',
            '"matched": size when the coverage on the test rows is just 1 - alpha.',
        )
        before = [name for name, one in self.own.items() if isinstance(one, Served)]
        if before:
            listed = ", ".join(before)
            notes += (f"Fitted before, for rows that had no part in it: {listed}.",)
        return Table(f"alpha = {self.alpha:g}", header, tuple(rows), notes)


def compare(
    outputs: Any,
    y: Any = None,
    *,
    methods: Any = None,
    alpha: float = 0.1,
    split: str = "vfcp",
    scores: str | Sequence[str] = "paper",
    models: Sequence[str] = (),
    classes: Any = None,
    folder: str | Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Comparison:
    """Compare methods on labelled outputs, over random splits, and say which to use.

    Parameters
    ----------
    outputs : array of shape (n, K), mapping or sequence of such, or str
        Outputs of one or several models on labelled rows that trained none of them; or a file that
        `conformix.data.files` reads, or a bundled data set, which hold their labels.
    y : array of shape (n,)
        True class indices, or class names where `classes` are given. None beside a file.
    methods : sequence, or mapping of names to methods, optional
        What is compared; by default ``"all"``, all methods of the library. ``"all"`` may also
        stand in a list, beside others: names such as ``"tuned-thr:vfcp"``, scores (objects or
        functions of probabilities), splits, searches, `ScoreAverage` objects, which are fitted on
        the calibration rows of every split, and fitted models, which are asked as they are.
    alpha : float
        Allowed miscoverage.
    split : str
        Under which split the methods of the library that tune do so.
    scores : str or sequence of str
        What is averaged, of every model; ``"paper"`` is thr, aps and rank.
    models : sequence of str
        Which models; by default all.
    classes : sequence of length K, optional
        Names of the classes, where `y` holds names.
    folder : path, optional
        Keeps ``rows.jsonl``, from which a killed comparison of a file goes on.
    workers, progress
        As in `conformix.experiments.run`; arrays in memory are compared in this process.
    **settings
        ``runs``, ``share``, ``kind``, ``normalize`` (here ``auto`` by default, as in
        `conformix.ScoreAverage`), ``resolution``, ``rows``, ``seed`` of
        `conformix.experiments.Spec`.

    Returns
    -------
    Comparison
        Prints as a table and a sentence; ``winner`` is ready to be fitted.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"][:1000], data.labels[:1000]
    >>> found = cx.compare(logits, y, methods=["thr", "aps", "uniform"], alpha=0.05, runs=3)
    >>> found.verdict.baseline
    'thr'
    >>> found.winner.fit(logits, y).predict_set(logits)
    PredictionSets(1,000 sets over 10 classes, mean size ...)
    """
    settings = {"normalize": "auto", **settings}
    split = SPLITS.name(split)
    scores = named_scores(scores)
    choices = Choices(scores, settings["normalize"], settings.get("resolution"))
    asked = own_methods("all" if methods is None else methods, choices)
    file = outputs if isinstance(outputs, str) else None
    data = _dataset(outputs, y, classes, settings.get("kind", "auto"))
    chosen = tuple(models) or tuple(data.outputs)
    listed = _with_all(asked, library_methods(chosen, scores, split))
    singles = [name for name, one in listed.items() if _is_single(name, one)]
    if not singles:  # something must be the measure
        singles = [scores[0] if len(chosen) == 1 else f"{chosen[0]}.{scores[0]}"]
        listed[singles[0]] = singles[0]
    own = {name: one for name, one in listed.items() if not isinstance(one, str)}
    names = tuple(name for name in listed if name not in own)
    spec = Spec(
        file or data.name, methods=names or tuple(singles[:1]), alphas=(alpha,), models=chosen,
        scores=scores, **settings,
    )  # fmt: skip
    check_spread(spec.runs)
    if file is not None and not own:
        rows = _rows_of_file(spec, folder, workers, progress)
    else:
        if folder is not None:
            raise InvalidInput(
                "folder keeps the rows of methods that have names, compared on a file; leave it "
                "out for arrays and for methods of your own."
            )
        rows = _rows_in_memory(spec, data, listed, progress)
    results = Results(rows)
    others = [name for name in listed if name not in singles and name != "majority-vote"]
    average = f"average:{split}" if f"average:{split}" in others else None
    if average is not None:
        others.remove(average)
    verdict = judge(results, alpha, singles=singles, average=average, others=others)
    return Comparison(results, alpha, verdict, choices, data.kind, own)


def library_methods(models: Sequence[str], scores: tuple[str, ...], split: str) -> list[str]:
    """Return the names of all methods that are compared on outputs of these models."""
    several = len(models) > 1
    singles = (
        [f"{model}.{score}" for model in models for score in scores]
        if several
        else [*scores, *(score for score in FURTHER_SINGLES if score not in scores)]
    )
    tuned = [f"{name}:{split}" for name in TUNED]
    # The blend learns its scores on rows that do not calibrate, whatever split averages use.
    blend = f"auto:{split if split in BLENDING else BLENDING[0]}"
    candidates = [f"average:{split}", blend, *tuned, "uniform", *(ENSEMBLES if several else ())]
    return [*singles, *candidates, "majority-vote"]


def _with_all(asked: Mapping[str, Any], library: Sequence[str]) -> dict[str, Any]:
    """Return the methods by name, "all" replaced by those of the library."""
    listed: dict[str, Any] = {}
    for name, one in asked.items():
        listed |= {each: each for each in library} if name == "all" == one else {name: one}
    return listed


def _is_single(name: str, one: Any) -> bool:
    """Whether a method is one score alone, by which others are measured."""
    if not isinstance(one, str):
        return is_single(one)
    split = name.partition(":")[2]
    of_a_model = SPLITS.aliases.get(split, split) not in SPLITS and is_score_of_a_model(name)
    return is_score(name) or of_a_model


def _dataset(outputs: Any, y: Any, classes: Any, kind: str) -> Dataset:
    """Return outputs and labels as they are given, in memory or by the name of a file."""
    if isinstance(outputs, str):
        if y is not None or classes is not None:
            raise InvalidInput(
                f"{outputs!r} holds labels and names itself; leave y and classes out."
            )
        return load_data(outputs, kind)
    if isinstance(outputs, Dataset):
        raise InvalidInput("give the outputs and labels of a data set, or its name.")
    check_kind(kind)
    held = {model or "model": to_host(v) for model, v in by_model(outputs, "outputs").items()}
    arrays = {model: numeric(values, f"outputs[{model!r}]") for model, values in held.items()}
    plain = all(values.ndim == 2 for values in arrays.values())
    known: Any = guess_kind(arrays) if kind == "auto" and plain else kind
    checked = check_outputs(arrays, "probs" if known == "auto" else known)
    names = check_classes(classes, checked.n_classes)
    labels = label_indices(y, names, checked.n, checked.n_classes)
    shown = None if names is None else tuple(map(str, names))
    return Dataset("outputs", labels, arrays, kind=known, class_names=shown)


def _rows_of_file(
    spec: Spec, folder: str | Path | None, workers: int | None, progress: Progress | None
) -> list[Row]:
    if folder is not None:
        return run(spec, Path(folder) / "rows.jsonl", workers=workers, progress=progress)
    with tempfile.TemporaryDirectory() as temporary:
        return run(spec, Path(temporary) / "rows.jsonl", workers=workers, progress=progress)


def _rows_in_memory(
    spec: Spec, data: Dataset, listed: Mapping[str, Any], progress: Progress | None
) -> list[Row]:
    """Return the rows of all methods, on the splits that a file of these outputs would have."""
    fingerprint, drawn_rows = digest(data), drawn(data, spec.rows, spec.seed)
    pool, (alpha,) = Pool(drawn_rows, spec.models), map(float, spec.alphas)
    methods = {
        name: resolve_method(one, spec.choices) if isinstance(one, str) else one
        for name, one in listed.items()
    }
    rows: list[Row] = []
    for run_number in range(spec.runs):
        draw = Draw(
            spec.data, spec.kind, fingerprint, spec.models, len(drawn_rows.labels), spec.rows,
            spec.share, spec.seed, run_number,
        )  # fmt: skip
        task = Task(pool, *draw.roles()[:2], alpha, draw.roles()[2])
        for name, method in methods.items():
            with warnings.catch_warnings():
                # What they warn of is in the rows: sets with all labels, and the number of rows.
                warnings.simplefilter("ignore", ConformixWarning)
                found = measured(method, task)
            rows.append({"method": name, "alpha": alpha, "run": run_number, **found})
            if progress is not None:
                progress(len(rows), spec.runs * len(methods))
    return rows


def judge(
    results: Results,
    alpha: float,
    *,
    singles: Sequence[str],
    average: str | None,
    others: Sequence[str],
) -> Verdict:
    """Return what to use, in one sentence.

    The candidate with the smallest mean size is set against the single score with the smallest
    mean size. Its interval is widened for the number of candidates, since it was chosen among
    them, and for the overlap of the splits, since it shall hold for new rows.

    Parameters
    ----------
    results : Results
        Rows of all methods.
    alpha : float
        The level.
    singles : sequence of str
        Single scores.
    average : str or None
        The averaged score, where it is among them.
    others : sequence of str
        Further candidates: tuned scores, the uniform average, ensembles.

    Examples
    --------
    >>> rows = [{"method": m, "alpha": 0.1, "run": r, "size": s + r, "n_test": 1, "n_calibrate": 4,
    ...          "guarantee": "exact"}
    ...         for m, s in (("thr", 50.0), ("average", 40.0)) for r in range(9)]
    >>> found = judge(Results(rows), 0.1, singles=["thr"], average="average", others=[])
    >>> found.sentence.partition(" than ")[0]
    'use average: sets are 19 % [17, 20] smaller'
    """
    candidates = [*([] if average is None else [average]), *others]
    baseline = results.smallest(singles, alpha=alpha)
    if not candidates:
        nothing = results.saving(baseline, baseline, alpha=alpha)
        sentence = (
            f"use {baseline}: the smallest of the single scores, guarantee "
            f"{results.guarantee(baseline, alpha)}."
        )
        return Verdict(baseline, baseline, nothing, sentence)
    options: dict[str, Any] = {"comparisons": len(candidates), "overlap": results.overlap}
    best = results.smallest(candidates, alpha=alpha)
    saving = results.saving(best, baseline, alpha=alpha, **options)
    if saving.low > 0:
        sentence = (
            f"use {best}: sets are {in_words(saving)} than those of the best single score "
            f"({baseline}), guarantee {results.guarantee(best, alpha)}."
        )
        return Verdict(best, baseline, saving, sentence)
    shown = best if average is None else average
    saving = results.saving(shown, baseline, alpha=alpha, **options)
    doubt = " beyond what chance allows" if saving.mean > 0 else ""
    what = best if average is None else "averaging"
    sentence = (
        f"{what} does not help here{doubt}: its sets are {in_words(saving)} than those of "
        f"{baseline} alone; use {baseline}, guarantee {results.guarantee(baseline, alpha)}."
    )
    return Verdict(baseline, baseline, saving, sentence)
