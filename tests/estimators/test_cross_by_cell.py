"""Cross-conformal sets by class and group: the rule by hand, what is proven, files, and folds."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
import oracle
from conformix.calibration import (
    Clustered,
    LabelShift,
    PerClass,
    PerGroup,
    RankedPerClass,
    Weighted,
)
from conformix.errors import InvalidInput
from conformix.estimators.cross import CrossAverage, Fold, cell_coverage
from estimators.test_cross import blobs, centroid_model

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")
SCHEMES = {
    "class": (PerClass(), lambda y, g: y),
    "class, pooled": (PerClass("pooled", min_rows=6), lambda y, g: y),
    "class, all in": (PerClass(min_rows=6), lambda y, g: y),
    "class, tuned": (PerClass(tune=True), lambda y, g: y),
    "group": (PerGroup(), lambda y, g: g),
    "group, pooled": (PerGroup("pooled", min_rows=6), lambda y, g: g),
    "pair": (PerGroup(by_class=True), lambda y, g: (g, y)),
    "clusters": (Clustered(clusters=[0, 0, 1]), lambda y, g: y // 2),
}


def problem(seed: int, sizes: list[int]) -> tuple:
    """Folds of eighths, which tie, each with rows outside it; and new rows as each model says."""
    rng = np.random.default_rng(seed)

    def said(y):
        lean = 0.6 * rng.dirichlet(np.ones(3), size=len(y)) + 0.4 * np.eye(3)[y]
        return np.array([rng.multinomial(8, row) for row in lean]) / 8

    def labels(n):
        return rng.choice(3, size=n, p=[0.6, 0.3, 0.1])

    folds = []
    for size in sizes:
        y, tune = labels(size), labels(15)
        group = rng.choice(["far", "near"], size=size, p=[0.2, 0.8])
        folds.append(Fold(said(y), y, said(tune), tune, group))
    y_new = labels(8)
    new = [said(y_new) for _ in sizes]
    return folds, new, rng.choice(["far", "near", "unseen"], size=8)


def fitted(name: str, folds, alpha: float = 0.3, **options):
    scheme, _ = SCHEMES[name]
    if not scheme.needs:
        folds = [fold._replace(strata=None) for fold in folds]
    usual = {"search": [[1.0, 0.0], [0.5, 0.5]], "normalize": "none", "random_state": 0}
    return CrossAverage(("thr", "rank"), alpha=alpha, calibration=scheme, **(usual | options)).fit(
        folds
    )


def strata(name: str, group) -> dict:
    return {"strata": group} if SCHEMES[name][0].needs else {}


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("seed", range(3))
def test_labels_are_ranked_among_the_rows_of_their_cell_in_all_folds(name: str, seed: int) -> None:
    folds, new, group = problem(seed, [9, 14, 7])
    cross = fitted(name, folds)
    found = np.asarray(cross.predict_set(new, **strata(name, group)))
    pvalues = cross.predict_pvalues(new, **strata(name, group))
    scheme, unit = SCHEMES[name]
    units = [unit(int(y), g) for fold in folds for y, g in zip(fold.y, fold.strata, strict=True)]
    least = getattr(scheme, "min_rows", None) or 0
    for i in range(8):
        for label in range(3):
            own = unit(label, group[i])
            counts = Counter([*units, own])
            pooled = name.endswith("pooled")
            cells = ["rare" if pooled and counts[u] <= least else u for u in units]
            cell = "rare" if pooled and counts[own] <= least else own
            below = total = 0
            start = 0
            for f, (fold, w) in enumerate(zip(folds, cross.weights_.tolist(), strict=True)):
                score = oracle.tensor([new[f].tolist()], ("thr", "rank"))[i][label]
                value = oracle.combine(score, tuple(w))
                rows = oracle.tensor([fold.outputs.tolist()], ("thr", "rank"))
                for r, y in enumerate(fold.y):
                    if cells[start + r] == cell:
                        total += 1
                        below += oracle.combine(rows[r][int(y)], tuple(w)) <= value
                start += len(fold.y)
            rank = Fraction(1 + below, total + 1)
            if name == "class, all in" and counts[own] <= least:
                rank = Fraction(1)
            assert pvalues[i, label] == float(rank)
            assert found[i, label] == (rank > Fraction(3, 10))


@pytest.mark.parametrize("alpha", [0.2, 0.35])
def test_jackknife_plus_covers_its_share_of_every_class_of_every_bag(alpha: float) -> None:
    """The tournament goes through among the rows of a class: all others train alike."""
    n = 11
    for seed in range(3):
        X, y = blobs(np.random.default_rng(seed), n + 1, n_classes=2)
        hits = np.zeros(2, dtype=int)
        for i in range(n + 1):
            others = [j for j in range(n + 1) if j != i]
            folds, said = [], []
            for j in others:
                rest = [r for r in others if r != j]
                one = centroid_model(X[rest], y[rest], 2)
                folds.append(Fold(one(X[j : j + 1]), y[j : j + 1]))
                said.append(one(X[i : i + 1]))
            cross = CrossAverage("thr", weights=[1.0], alpha=alpha, calibration="class").fit(folds)
            hits[y[i]] += bool(np.asarray(cross.predict_set(said))[0, y[i]])
        for c in range(2):
            assert hits[c] >= (1 - 2 * Fraction(str(alpha))) * int((y == c).sum())


def test_what_is_proven_in_a_cell_is_the_mean_of_its_p_values() -> None:
    for sizes in ([30, 20, 0, 50], [10] * 10, [4, 200], [7, 7, 7]):
        rows = [size for size in sizes if size]
        n, f, alpha = sum(rows), len(rows), Fraction(1, 10)
        e = (alpha * (n + 1) + f - 1) / (n + f)  # where the weighted mean must fall
        bound = 1 - 2 * alpha - 2 * (1 - Fraction(1, f)) / (Fraction(n, f) + 1)
        assert cell_coverage(0.1, sizes) == pytest.approx(float(bound), abs=1e-12)
        assert 1 - 2 * e >= bound
    assert cell_coverage(0.1, [0, 40, 0]) == 0.9  # one split p-value
    assert cell_coverage(0.1, [1] * 20, one_row_each=True) == 0.8
    assert cell_coverage(0.1, [2, 3]) == 1  # too few rows: every label is in


def test_the_ledger_names_the_smallest_share_of_all_cells() -> None:
    rng = np.random.default_rng(0)
    y = np.array(([0] * 30 + [1] * 20) * 4)
    probs = rng.dirichlet(np.ones(2), size=200)
    folds = [Fold(probs[i : i + 50], y[i : i + 50]) for i in range(0, 200, 50)]
    cross = CrossAverage("thr", weights=[1.0], alpha=0.1, calibration="class").fit(folds)
    smallest = min(cell_coverage(0.1, [30] * 4), cell_coverage(0.1, [20] * 4))
    assert cross.guarantee_.kind == "exact"
    floored = np.floor(smallest * 1e4) / 1e4
    assert cross.guarantee_.statement == f"P(y in set | class of y) >= {floored:.4f}"
    assert cross.guarantee_.assumption.startswith("within every class: exchangeable rows; model")
    thin = [Fold(probs[i : i + 2], [0, 1]) for i in range(0, 200, 2)]
    none = CrossAverage("thr", weights=[1.0], alpha=0.1, calibration="class").fit(thin)
    assert none.guarantee_.kind == "none"
    assert "for a class of so few rows in so many folds" in none.guarantee_.statement


@pytest.mark.parametrize(
    ("scheme", "sentence"),
    [
        (Weighted(), "gives rows importance, and what is proven of folds is a mean"),
        (LabelShift((1.0, 1.0, 1.0)), "gives rows importance, and what is proven of folds"),
        (Clustered(2), "learns from rows outside a fold, and would lay down other cells in each"),
        (PerGroup(), 'calibration "group" needs strata'),
        (RankedPerClass(), "fold 0 has no rows to choose ranks on"),
    ],
)
def test_what_has_no_proof_is_refused_in_one_sentence(scheme, sentence: str) -> None:
    folds, _, _ = problem(0, [9, 9])
    folds = [Fold(fold.outputs, fold.y) for fold in folds]
    with pytest.raises(InvalidInput, match=sentence):
        CrossAverage("thr", calibration=scheme).fit(folds)


def test_ranks_of_rc3p_are_frozen_outside_every_fold() -> None:
    folds, new, _ = problem(1, [20, 20])
    folds = [fold._replace(strata=None) for fold in folds]
    cross = CrossAverage(
        ("thr", "rank"), alpha=0.3, calibration="rc3p", normalize="none", random_state=0
    ).fit(folds)
    for fold, rule in zip(folds, cross.rules_, strict=True):
        scores = oracle.tensor([fold.tune_outputs.tolist()], ("thr", "rank"))
        ranks: dict[int, list[int]] = {}
        for row, y in zip(scores, fold.tune_y.tolist(), strict=True):
            values = [oracle.combine(s, tuple(rule.weights.tolist())) for s in row]
            ranks.setdefault(y, []).append(1 + sum(v > values[y] for v in values))
        for y, own in ranks.items():  # half of alpha may rank lower
            within = [k for k in (1, 2, 3) if sum(r > k for r in own) <= Fraction(3, 20) * len(own)]
            assert rule.limits.ranks[y] == min(within)
    assert np.asarray(cross.predict_set(new)).any()


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SCHEMES, "rc3p", "marginal"])
def test_a_saved_cross_model_predicts_the_same(name: str, tmp_path) -> None:
    folds, new, group = problem(2, [9, 14, 7])
    brought = {}
    if name in SCHEMES:
        cross, brought = fitted(name, folds, normalize="auto"), strata(name, group)
    else:
        folds = [fold._replace(strata=None) for fold in folds]
        cross = CrossAverage(
            ("thr", "rank"), alpha=0.3, calibration=name, allow_empty=False, random_state=0
        ).fit(folds)
    cross.save(tmp_path / "cross.json")
    again = CrossAverage.load(tmp_path / "cross.json")
    assert_array_equal(cross.predict_pvalues(new, **brought), again.predict_pvalues(new, **brought))
    for alpha in (None, 0.1):
        one, other = (c.predict_set(new, alpha=alpha, **brought) for c in (cross, again))
        assert_array_equal(np.asarray(one), np.asarray(other))
    assert again.guarantee_ == cross.guarantee_
    assert_array_equal(again.weights_, cross.weights_)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "cross.json").read_text() == (tmp_path / "again.json").read_text()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d["cross"]["folds"].pop(), "its plan is not the one that its rows lay down"),
        (lambda d: d["cross"]["folds"].__delitem__(slice(1, None)), "fewer than two"),
        (lambda d: d["cross"]["folds"][0]["calibration"]["data"].reverse(), "does not rise"),
        (lambda d: d["cross"]["folds"][0]["y"]["data"].__setitem__(0, 9), "one label per score"),
        (lambda d: d["cross"]["folds"][0]["strata"]["data"].__setitem__(0, 9), "one group of its"),
        (lambda d: d["cross"]["folds"][0].update(more=1), "'more', which this version"),
        (lambda d: d["cross"]["folds"][0]["weights"]["data"].__setitem__(0, 3.0), "candidates of"),
        (lambda d: d["cross"].update(alpha=0.2), "params.alpha is 0.3"),
        (lambda d: d["cross"].update(allow_empty=False), "params.allow_empty is True"),
        (lambda d: d["cross"].update(plan=None), "fitted.strata do not go with its plan"),
        (lambda d: d["cross"]["plan"]["options"].update(fixed=False), "not the one that its rows"),
        (lambda d: d["params"].update(split="efcp"), "'split', which this version does not know"),
        (lambda d: d["params"].update(calibration="class"), "params.calibration is 'class'"),
        (lambda d: d.update(format="conformix model"), "a conformix model; conformix.load reads"),
        (lambda d: d.update(format="soup"), "is no conformix cross model"),
    ],
)  # fmt: skip
def test_a_damaged_cross_model_is_refused_in_one_sentence(change, sentence, tmp_path) -> None:
    folds, _, _ = problem(3, [12, 12, 6])
    path = tmp_path / "cross.json"
    fitted("group, pooled", folds).save(path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match=sentence):
        CrossAverage.load(path)


def test_settings_changed_after_fit_are_not_saved_and_load_says_who_reads_a_file(tmp_path) -> None:
    folds, _, _ = problem(4, [12, 12])
    cross = fitted("group", folds)
    with pytest.raises(InvalidInput, match=r"a setting was changed after fit .* params.alpha"):
        cross.set_params(alpha=0.1).save(tmp_path / "cross.json")
    cross.set_params(alpha=0.3).save(tmp_path / "cross.json")
    with pytest.raises(InvalidInput, match=r"cross model; conformix.CrossAverage.load reads it\.$"):
        cx.load(tmp_path / "cross.json")


# The classifier -----------------------------------------------------------------------------------


def test_the_classifier_has_cells_jobs_progress_and_whole_groups() -> None:
    from sklearn.naive_bayes import GaussianNB

    X, y = blobs(np.random.default_rng(5), 120)
    strata, groups = (np.arange(120) < 45).astype(int), np.arange(120) // 3
    options = {"cv": 4, "alpha": 0.2, "random_state": 0, "calibration": "group"}
    calls: list[tuple[int, int]] = []
    one = cx.CrossConformalClassifier(GaussianNB(), **options).fit(
        X, y, strata=strata, groups=groups, progress=lambda *done: calls.append(done)
    )
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]
    with joblib.parallel_config(backend="threading"):  # processes take long to start
        two = cx.CrossConformalClassifier(GaussianNB(), n_jobs=2, **options).fit(
            X, y, strata=strata, groups=groups
        )
    assert_array_equal(one.predict_pvalues(X, strata=strata), two.predict_pvalues(X, strata=strata))
    sets = one.predict_set(X, strata=strata)
    assert_array_equal(np.asarray(sets), one.predict_pvalues(X, strata=strata) > 0.2)
    assert "P(y in set | group of the row) >= 0." in one.guarantee_.statement
    rows = one._fold_rows(groups, np.random.default_rng(0), tunes=True)
    for fold, parts in zip(one.cross_.predictor_.folds, rows, strict=True):
        assert_array_equal(np.sort(fold.data.strata), np.sort(strata[parts[0]]))
        assert sum(len(part) for part in parts) == 120
        whole = [set(groups[part]) for part in parts]
        assert not whole[0] & whole[1]
        assert not whole[0] & whole[2]
        assert not whole[1] & whole[2]
    with pytest.raises(InvalidInput, match="strata must hold one value per row"):
        cx.CrossConformalClassifier(GaussianNB(), **options).fit(X, y, strata=strata[:5])
