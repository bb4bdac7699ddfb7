"""Who may see what, asked of the fit and not of the split.

The audit changes one row at a time and fits again; `conformix.testing.roles` says what is compared.
Where coverage is promised as exact, no row may move both what was learnt and the calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB

import conformix as cx
from conformix.calibration import Clustered, LabelShift, PerClass, PerGroup, Weighted
from conformix.calibration.shift import density_ratio, label_ratios
from conformix.estimators.classifier import CrossConformalClassifier
from conformix.estimators.cross import CrossAverage, Fold
from conformix.fit import rows as budget
from conformix.guarantees import EXACT, Guarantee
from conformix.online import OnlineAverage
from conformix.scores import blend
from conformix.search import GradientSearch, GridSearch, LineSearch
from conformix.splits import Exact, Roles, ValidityFirst
from conformix.testing import (
    RoleReport,
    audit_roles,
    fitted_numbers,
    fold_numbers,
    moved_numbers,
)

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")


@pytest.fixture(scope="module", autouse=True)
def few_rows_teach() -> Iterator[None]:
    """An audit refits for every row, so it has fewer rows than automatic scores learn from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blend, "FEWEST_ROWS", 1)
        yield


N, K = 14, 3
GRID = GridSearch(6)


def drawn_rows(seed: int, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n, K) that tell something about their labels, every class in many rows."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % K)
    logits = rng.normal(size=(n, K)) + 1.2 * np.eye(K)[y]
    powers = np.exp(logits)
    return powers / powers.sum(axis=1, keepdims=True), y


PROBS, Y = drawn_rows(5)
TWO = {"a": PROBS, "b": drawn_rows(6)[0]}
STRATA = np.random.default_rng(1).integers(2, size=N)
RATIOS = np.random.default_rng(2).uniform(0.5, 2.0, size=N)
GROUPS = np.repeat(np.arange(N // 2), 2)


def average(**settings: Any) -> cx.ScoreAverage:
    options = {"alpha": 0.3, "search": GRID, "random_state": 3, "threads": 1}
    return cx.ScoreAverage(**{"scores": "paper"} | options | settings)


def audited(settings: dict[str, Any], outputs: Any = PROBS, **rows: Any) -> RoleReport:
    return audit_roles(lambda p, y: average(**settings).fit(p, y, **rows), outputs, Y)


LEARN = ("thr", "likeness", "kin", "rarity")
# What claims to be exact or PAC, with tuning rows apart from calibration rows.
APART: dict[str, dict[str, Any]] = {
    "no scale": {"normalize": "none"},
    "a fixed scale": {"normalize": "scale"},
    "ecdf": {"normalize": "ecdf"},
    "an array of candidates": {"search": np.eye(3)},
    "lines": {"search": LineSearch(budget=120, starts=2)},
    "randomised scores": {"scores": ("aps(randomized=True)", "saps(randomized=True)", "thr")},
    "another objective": {"objective": "singletons"},
    "another level of the search": {"tune_alpha": 0.4},
    "no empty sets": {"allow_empty": False},
    "pac": {"guarantee": "pac", "delta": 0.4},
    "automatic scores": {"scores": "auto", "search": "auto"},
    "scores that learn": {"scores": LEARN},
    "one score that learns": {"scores": "kin"},
    "scores that learn under exact": {"scores": LEARN, "split": Exact(shortlist=3, share=0.4)},
    "a threshold per class": {"calibration": "class"},
    "classes that share a threshold": {"calibration": PerClass("pooled", min_rows=5)},
    "thresholds per class in the search": {"calibration": PerClass(tune=True)},
    "clusters": {"calibration": Clustered(2, min_rows=2)},
    "ranks": {"calibration": "rc3p"},
    "ranks and ecdf": {"calibration": "rc3p", "normalize": "ecdf"},
    "label shift": {"calibration": LabelShift((0.5, 1.0, 1.5), known=True)},
    "a shortlist": {"split": Exact(shortlist=3, share=0.4)},
    "a shortlist and ecdf": {"split": Exact(shortlist=3, share=0.4), "normalize": "ecdf"},
    "a shortlist of lines": {
        "split": Exact(shortlist=3, share=0.4), "search": LineSearch(budget=120, starts=2),
    },
    "automatic scores under exact": {"scores": "auto", "search": "auto", "split": "exact"},
}  # fmt: skip


@cache
def audited_apart(name: str) -> RoleReport:
    return audited(APART[name])


def assert_separate(report: RoleReport) -> None:
    assert report.holds, report
    assert report.calibrates.any()
    assert report.learns.any()  # the audit saw something being learnt
    if "models" not in report.by_label:
        assert not report.by_label["scale"].any()  # a scale is learnt without labels


@pytest.mark.parametrize("name", APART)
def test_no_row_both_learns_and_calibrates(name: str) -> None:
    assert_separate(audited_apart(name))
    assert average(**APART[name]).fit(PROBS, Y).guarantee_.kind in ("exact", "pac")


def test_gradients_learn_from_the_tuning_rows_alone() -> None:
    search = GradientSearch(budget=20, starts=1)
    fit = lambda p, y: average(search=search, normalize="none").fit(p, y)  # noqa: E731
    assert_separate(audit_roles(fit, PROBS[:10], Y[:10], draws=1))


def test_with_groups_given_as_strata_or_weights_given_by_row_no_row_does_both() -> None:
    for calibration in (PerGroup(), PerGroup("pooled", min_rows=4, by_class=True)):
        assert_separate(audited({"calibration": calibration}, strata=STRATA))
    assert_separate(audited({"calibration": Weighted(known=True)}, sample_weight=RATIOS))


def moved_by(fit: Callable[[np.ndarray], Any], values: np.ndarray, change: Any) -> np.ndarray:
    """Which rows move anything when what they bring along is changed, one at a time."""
    base = fitted_numbers(fit(values))
    found = []
    for i in range(len(values)):
        other = values.copy()
        other[i] = change(other[i])
        found.append(any(map(len, moved_numbers(base, fitted_numbers(fit(other))))))
    return np.array(found)


def test_weights_and_groups_by_row_are_those_of_the_rows_that_calibrate() -> None:
    weighted, grouped = average(calibration="weighted"), average(calibration="group")
    calibrates = audited({}).calibrates
    assert_array_equal(
        moved_by(lambda w: weighted.fit(PROBS, Y, sample_weight=w), RATIOS, lambda w: 3 * w),
        calibrates,
    )
    assert_array_equal(
        moved_by(lambda g: grouped.fit(PROBS, Y, strata=g), STRATA, lambda g: 1 - g), calibrates
    )


def test_several_models_at_once() -> None:
    for settings in ({}, {"scores": "auto", "search": "auto"}):
        assert_separate(audited(settings, TWO))


@pytest.mark.parametrize(
    "settings",
    [{}, {"split": Exact(shortlist=3, share=0.4)}, {"scores": "auto", "search": "auto"},
     {"scores": "auto", "search": "auto", "split": "exact"}],
    ids=["vfcp", "a shortlist", "automatic scores", "automatic scores under exact"],
)  # fmt: skip
def test_rows_of_one_group_have_one_role(settings: dict[str, Any]) -> None:
    report = audited(settings, groups=GROUPS)
    assert_separate(report)
    learns, calibrates = report.learns.reshape(-1, 2), report.calibrates.reshape(-1, 2)
    assert_array_equal(calibrates[:, 0], calibrates[:, 1])
    assert not (learns.any(axis=1) & calibrates.any(axis=1)).any()


WITHOUT_LEARNING: dict[str, dict[str, Any]] = {
    "given weights": {"weights": (0.5, 0.25, 0.25)},
    "exact": {"split": "exact"},
    "exact on a scale": {"split": "exact", "normalize": "scale"},
}


@pytest.mark.parametrize("settings", WITHOUT_LEARNING.values(), ids=WITHOUT_LEARNING)
def test_where_nothing_is_learnt_every_row_calibrates(settings: dict[str, Any]) -> None:
    report = audited(settings)
    assert report.holds
    assert report.calibrates.all()


SELECTED: dict[str, dict[str, Any]] = {
    "efcp": {"split": "efcp"},
    "efcp, ecdf": {"split": "efcp", "normalize": "ecdf"},
    "efcp, pac": {"split": "efcp", "guarantee": "pac", "delta": 0.4},
    "dlcp": {"split": "dlcp"},
    "dlcp+": {"split": "dlcp+"},
    "efcp, scores that learn": {"split": "efcp", "scores": LEARN, "normalize": "scale"},
    "efcp, one score that learns": {"split": "efcp", "scores": "rarity", "normalize": "scale"},
}


@pytest.mark.parametrize("settings", SELECTED.values(), ids=SELECTED)
def test_rows_that_choose_their_own_weights_are_seen_and_nothing_exact_is_claimed(
    settings: dict[str, Any],
) -> None:
    test = drawn_rows(8, 12)[0] if settings["split"].startswith("dlcp") else None
    report = audited(settings, test=test)
    assert not report.holds
    assert report.learns.any()
    assert average(**settings).fit(PROBS, Y, test=test).guarantee_.kind != "exact"


def test_test_rows_move_what_transductive_splits_learn_and_nothing_else() -> None:
    one, other = drawn_rows(8, 12)[0], drawn_rows(13, 12)[0]
    for split in ("vfcp", "efcp", "exact", "dlcp", "dlcp+"):
        fits = [fitted_numbers(average(split=split).fit(PROBS, Y, test=t)) for t in (one, other)]
        learnt, calibration = moved_numbers(*fits)
        if split.startswith("dlcp"):
            assert learnt
        else:
            assert not learnt
            assert not calibration


@pytest.mark.parametrize("split", ["vfcp", Exact(shortlist=3, share=0.4)], ids=["vfcp", "exact"])
def test_scores_learn_from_the_outputs_of_all_tuning_rows_and_from_no_label(split: Any) -> None:
    report = audited({"scores": LEARN, "split": split}, unlabelled=drawn_rows(8, 5)[0])
    assert_separate(report)
    assert not report.by_label["matrices"].any()
    assert_array_equal(report.by_outputs["matrices"], ~report.calibrates)


@pytest.mark.parametrize("name", ["scores that learn", "automatic scores"])
def test_calibration_rows_teach_scores_beside_a_batch_by_their_outputs_and_nothing_else(
    name: str,
) -> None:
    alone, report = audited_apart(name), audited(APART[name], test=drawn_rows(8, 12)[0])
    assert_array_equal(report.calibrates, alone.calibrates)  # by their labels
    calibrates = report.calibrates
    assert report.by_outputs["matrices"][calibrates].all()
    assert not any(moved[calibrates].any() for moved in report.by_label.values())
    for learnt in ("weights", "blend", "scale", "strata"):
        assert not report.by_outputs[learnt][calibrates].any()


@dataclass(frozen=True)
class ThreeParts:
    """Rows in three parts: one tunes, one counts sizes, one calibrates; one row does nothing."""

    name: ClassVar[str] = "three parts"
    guarantee: ClassVar[Guarantee] = EXACT
    needs_test: ClassVar[bool] = False

    def roles(self, n: int, n_test: int, rng: Any, groups: Any = None) -> Roles:
        return Roles(np.arange(5), np.arange(5, 9), np.arange(9, n - 1))


def test_labels_of_rows_that_count_sizes_are_never_read() -> None:
    report = audited({"split": ThreeParts(), "normalize": "none"})
    assert report.holds
    assert report.tunes[:5].sum() >= 3
    assert not report.tunes[5:].any()
    assert report.sizes[5:9].any()
    assert not report.learns[9:].any()
    assert_array_equal(np.flatnonzero(report.calibrates), np.arange(9, N - 1))
    assert report.idle[N - 1]


class Repeating(ValidityFirst):
    """A split that means to be exact and lets one tuning row calibrate too."""

    def roles(self, n: int, n_test: int, rng: Any, groups: Any = None) -> Roles:
        tune, size, calibrate = super().roles(n, n_test, rng, groups)
        return Roles(tune, size, np.union1d(calibrate, tune[:1]))


def test_a_single_row_in_two_roles_is_seen() -> None:
    report = audited({"split": Repeating()})
    assert not report.holds
    assert str(report).startswith("FAILS")


# Other doors to the same fit.


def test_rows_that_are_never_all_in_memory_keep_their_roles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget, "TENSOR_BYTES", 1)
    monkeypatch.setattr("conformix.fit.fit.rows_held", lambda n_classes, d: 10**9)
    for settings in ({"scores": "auto", "search": "auto"}, {"calibration": "rc3p"}):
        assert_separate(audited(settings))


@pytest.mark.parametrize("known", [True, False], ids=["a list", "an iterator"])
def test_rows_that_come_in_batches_keep_their_roles(known: bool) -> None:
    def fit(p: np.ndarray, y: np.ndarray) -> cx.ScoreAverage:
        batches = [(p[a : a + 9], y[a : a + 9]) for a in range(0, len(y), 9)]
        return average().fit_batches(batches if known else iter(batches))

    assert_separate(audit_roles(fit, PROBS, Y))


def test_chunks_on_a_cluster_keep_their_roles() -> None:
    da = pytest.importorskip("dask.array")

    def fit(p: np.ndarray, y: np.ndarray) -> cx.ScoreAverage:
        return average().fit(da.from_array(p, chunks=(9, K)), da.from_array(y, chunks=9))

    in_memory = audited({})
    base = fitted_numbers(fit(PROBS, Y))
    rng = np.random.default_rng(0)
    for _ in range(2):
        drawn = np.where(in_memory.calibrates, rng.integers(K, size=N), Y)
        learnt, calibration = moved_numbers(base, fitted_numbers(fit(PROBS, drawn)))
        assert not learnt
        assert calibration


# Classifiers around the sets: features instead of outputs, models among what is learnt.

M = 18
FEATURES = np.random.default_rng(11).normal(size=(M, 2)) + np.eye(3)[np.arange(M) % 3][:, :2]
CLASSES = np.array(["a", "b", "c"])[np.arange(M) % 3]
PATIENTS = np.repeat(np.arange(M // 2), 2)


class NearMeans(ClassifierMixin, BaseEstimator):
    """Likely is the class whose mean is near: every row moves a number, and a fit takes no time."""

    def fit(self, x: np.ndarray, y: np.ndarray, sample_weight: Any = None) -> NearMeans:
        self.classes_, codes = np.unique(y, return_inverse=True)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        shares = np.eye(len(self.classes_))[codes] * weight[:, None]
        self.priors_ = shares.sum(axis=0) / weight.sum()
        self.means_ = shares.T @ x / shares.sum(axis=0)[:, None]
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        powers = self.priors_ * np.exp(-((x[:, None] - self.means_) ** 2).sum(axis=2))
        return powers / powers.sum(axis=1, keepdims=True)


def classifier(**settings: Any) -> cx.ConformalClassifier:
    options = {"alpha": 0.3, "search": GRID, "random_state": 1, "calibration_share": 0.6}
    return cx.ConformalClassifier(
        NearMeans(), **{"scores": "paper"} | options | {"threads": 1} | settings
    )


CLASSIFIERS: dict[str, dict[str, Any]] = {
    "vfcp": {},
    "a shortlist": {"split": Exact(shortlist=3, share=0.4), "normalize": "ecdf"},
    "exact": {"split": "exact"},
    "automatic scores": {"scores": "auto", "search": "auto"},
    "ranks": {"calibration": "rc3p"},
}


@pytest.mark.parametrize("settings", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_rows_that_train_a_classifier_or_tune_its_sets_do_not_calibrate(
    settings: dict[str, Any],
) -> None:
    report = audit_roles(classifier(**settings).fit, FEATURES, CLASSES)
    assert_separate(report)
    assert report.by_label["models"].any()


def test_rows_of_one_patient_train_tune_or_calibrate_and_never_two_of_these() -> None:
    for settings in ({}, CLASSIFIERS["a shortlist"], CLASSIFIERS["automatic scores"]):
        clf = classifier(**settings)
        fit = lambda x, y, clf=clf: clf.fit(x, y, groups=PATIENTS)  # noqa: E731
        report = audit_roles(fit, FEATURES, CLASSES)
        assert_separate(report)
        trains = report.by_label["models"] | report.by_outputs["models"]
        roles = np.array([trains, report.learns & ~trains, report.calibrates])
        by_patient = roles.reshape(3, M // 2, 2)
        assert (by_patient.any(axis=2).sum(axis=0) <= 1).all()
        assert_array_equal(*by_patient[2].T)  # all rows of a patient calibrate, or none


def test_sample_weights_follow_their_rows_into_training_and_nowhere_else() -> None:
    weight = np.random.default_rng(4).uniform(0.5, 2.0, size=M)
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = NearMeans().set_fit_request(sample_weight=True)
        clf = classifier().set_params(estimators=estimator)

        def fit(w: np.ndarray) -> cx.ConformalClassifier:
            return sklearn.clone(clf).fit(FEATURES, CLASSES, sample_weight=w)

        def fit_rows(x: np.ndarray, y: np.ndarray) -> cx.ConformalClassifier:
            return sklearn.clone(clf).fit(x, y, sample_weight=weight)

        report = audit_roles(fit_rows, FEATURES, CLASSES)
        assert_separate(report)
        trains = report.by_label["models"] | report.by_outputs["models"]
        base = fitted_numbers(fit(weight))
        for i in range(M):
            other = weight.copy()
            other[i] *= 3
            learnt, calibration = moved_numbers(base, fitted_numbers(fit(other)))
            assert bool(learnt or calibration) == trains[i]


def test_importance_and_groups_given_to_a_classifier_are_those_of_the_rows_that_calibrate() -> None:
    rng = np.random.default_rng(6)
    weight, strata = rng.uniform(0.5, 2.0, size=M), rng.integers(2, size=M)
    calibrates = audit_roles(classifier().fit, FEATURES, CLASSES).calibrates

    def fit_weighted(w: np.ndarray) -> cx.ConformalClassifier:
        return classifier(calibration="weighted").fit(FEATURES, CLASSES, calibration_weight=w)

    def fit_grouped(g: np.ndarray) -> cx.ConformalClassifier:
        return classifier(calibration="group").fit(FEATURES, CLASSES, strata=g)

    assert_array_equal(moved_by(fit_weighted, weight, lambda w: 3 * w), calibrates)
    assert_array_equal(moved_by(fit_grouped, strata, lambda g: 1 - g), calibrates)


# Folds: every row calibrates its own fold, and has no part in that fold's model, weights and scale.


def assert_folds_apart(fit: Callable[..., Any], rows: Any, y: Any, n_folds: int) -> None:
    calibrating, known = [], {}

    def fit_once(rows: Any, y: Any) -> list[Any]:
        """Return the numbers of all folds; the audits of all folds change the same rows."""
        key = rows.tobytes() + y.tobytes()
        if key not in known:
            fitted = fit(rows, y)
            known[key] = [fold_numbers(fitted, fold) for fold in range(n_folds)]
        return known[key]

    for fold in range(n_folds):
        report = audit_roles(fit_once, rows, y, read=lambda found, fold=fold: found[fold])
        assert report.holds, f"fold {fold}: {report}"
        calibrating.append(report.calibrates)
    assert_array_equal(np.sum(calibrating, axis=0), 1)


def test_the_rows_of_a_fold_have_no_part_in_its_weights_and_scale() -> None:
    def fit(p: np.ndarray, y: np.ndarray) -> CrossAverage:
        own = [np.arange(N) % 3 == f for f in range(3)]
        folds = [Fold(p[held], y[held], p[~held], y[~held]) for held in own]
        return CrossAverage(alpha=0.3, search=GRID, random_state=0, threads=1).fit(folds)

    assert_folds_apart(fit, PROBS, Y, 3)


@pytest.mark.parametrize("groups", [None, PATIENTS], ids=["rows", "patients"])
def test_the_rows_of_a_fold_have_no_part_in_its_models(groups: np.ndarray | None) -> None:
    clf = CrossConformalClassifier(
        NearMeans(), cv=3, alpha=0.3, search=GRID, random_state=2, threads=1
    )
    assert_folds_apart(lambda x, y: clf.fit(x, y, groups=groups), FEATURES, CLASSES, 3)


def test_rows_that_choose_the_weights_of_a_fold_train_nothing_in_it() -> None:
    clf = CrossConformalClassifier(
        NearMeans(), cv=3, alpha=0.3, search=GRID, random_state=2, threads=1, tune_share=0.5
    )
    report = audit_roles(clf.fit, FEATURES, CLASSES, read=lambda f: fold_numbers(f, 0))
    trains = report.by_label["models"] | report.by_outputs["models"]
    # 12 rows are outside the fold, and half of them tune.
    assert trains.sum() == 6
    assert (report.learns & ~trains).sum() >= 4


# Streams: a set is issued before its label is known.


@pytest.mark.parametrize("control", ["aci", "betting"])
def test_a_set_on_a_stream_depends_on_earlier_labels_and_on_its_own_outputs_alone(
    control: str,
) -> None:
    def run(p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        online = OnlineAverage(alpha=0.3, control=control, window=12, candidates=4)
        trace = online.run(p, y)
        return np.asarray(trace.sets), trace.levels, trace.weights

    base, later = run(PROBS, Y), 0
    for t in range(N):
        label = run(PROBS, np.where(np.arange(N) == t, (Y + 1) % K, Y))
        outputs = run(np.roll(PROBS, 1, axis=0) if t == 0 else swapped(t), Y)
        for before, one, other in zip(base, label, outputs, strict=True):
            assert_array_equal(before[: t + 1], one[: t + 1])
            assert_array_equal(before[:t], other[:t])
        assert_array_equal(base[1][: t + 1], outputs[1][: t + 1])
        assert_array_equal(base[2][: t + 1], outputs[2][: t + 1])
        later += any((before != one).any() for before, one in zip(base, label, strict=True))
    assert later >= N // 2  # labels do matter afterwards


def swapped(t: int) -> np.ndarray:
    """The stream with the outputs of another row at step t."""
    order = np.arange(N)
    order[t] = (t + 7) % N
    return PROBS[order]


# Ratios for shifted rows.


def test_the_density_ratio_of_a_row_comes_from_a_classifier_that_did_not_see_it() -> None:
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(12, 1)), rng.normal(0.7, size=(12, 1))

    def ratios(source: np.ndarray) -> np.ndarray:
        return density_ratio(source, target, classifier=GaussianNB(), folds=3).source

    base = ratios(source)
    for i in (0, 5, 9):
        # With the features of another row of its own fold it gets that row's ratio, to the bit:
        # the classifier of the fold has not moved.
        copied = [
            ratios(np.where(np.arange(12)[:, None] == i, source[j], source))[i] == base[j]
            for j in np.delete(np.arange(12), i)
        ]
        assert sum(copied) == 3


def test_label_ratios_read_no_label_of_a_new_row_and_every_label_of_an_old_one() -> None:
    new = drawn_rows(12, 60)[0]
    base = label_ratios(PROBS, Y, new)
    moved = [
        (label_ratios(PROBS, np.where(np.arange(N) == i, (Y + 1) % K, Y), new) != base).any()
        for i in range(N)
    ]
    assert all(moved)
