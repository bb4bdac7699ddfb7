"""The exact split with a threshold per class or group: by loops, and by the identity per cell."""

from __future__ import annotations

import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import conformix as cx
import oracle
from conformix.calibration import Clustered, LabelShift, PerClass, PerGroup, Weighted
from conformix.calibration.cuts import laid_down_alike
from conformix.data.row_data import NO_DATA
from conformix.errors import InvalidInput
from conformix.fit.exact.by_class import class_tables
from conformix.search import Candidates, GridSearch
from conformix.search.weights import candidate_weights
from conformix.splits import Exact
from conformix.testing import assert_same_sets, audit_roles, leave_one_out

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.TrivialSetsWarning")
LEVELS = {0.1: Fraction(1, 10), 0.2: Fraction(1, 5), 1 / 3: Fraction(1, 3), 0.5: Fraction(1, 2)}
# Every scheme, and the unit of a row: what a rule may condition on.
SCHEMES = {
    "class": (PerClass(), lambda y, group: y),
    "class, always in": (PerClass(min_rows=3), lambda y, group: y),
    "class, pooled": (PerClass("pooled", min_rows=3), lambda y, group: y),
    "class, tuned": (PerClass(tune=True), lambda y, group: y),
    "class, pooled, tuned": (PerClass("pooled", min_rows=3, tune=True), lambda y, group: y),
    "group": (PerGroup(), lambda y, group: group),
    "group, pooled": (PerGroup("pooled", min_rows=3), lambda y, group: group),
    "group and class": (PerGroup(by_class=True), lambda y, group: (group, y)),
    "clusters": (Clustered(clusters=[0, 0, 1, 1]), lambda y, group: y // 2),
}
# Nothing is promised of classes that are judged as all rows are.
ALL_SCHEMES = SCHEMES | {
    "class, marginal": (PerClass("marginal", min_rows=3), lambda y, group: y),
    "class, marginal, tuned": (PerClass("marginal", min_rows=3, tune=True), lambda y, group: y),
    "group, marginal": (PerGroup("marginal", min_rows=5), lambda y, group: group),
}
SCORES = ("thr", "aps", "rank")
WITHOUT_TIES = ("thr", "margin", "-entropy")


def bag(seed: int, n: int, *, ties: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of probabilities over four classes, or in eighths, which tie everywhere."""
    rng = np.random.default_rng(seed)
    y = rng.choice(4, size=n, p=[0.45, 0.3, 0.2, 0.05])
    probs = 0.7 * rng.dirichlet(np.full(4, 0.8), size=n) + 0.3 * np.eye(4)[y]
    if ties:
        probs = np.array([rng.multinomial(8, row) for row in probs]) / 8
    return probs, y, rng.choice(["far", "near"], size=n, p=[0.3, 0.7])


def model(scheme, alpha, **options):
    usual = {"scores": SCORES, "split": "exact", "search": GridSearch(3), "threads": 1}
    return cx.ScoreAverage(alpha=alpha, calibration=scheme, **{"scores": "paper"} | usual | options)


def row_data(scheme, group) -> dict:
    return {"strata": group} if scheme.needs else {}


# By loops -----------------------------------------------------------------------------------------


def rare(counts: Counter, unit, scheme) -> bool:
    """Whether a unit has too few rows, itself counted: of the candidate and the n rows alike."""
    falls_back = scheme.name != "cluster" and scheme.fallback != "all"
    return falls_back and counts[unit] <= scheme.min_rows


def plain_set(cal, y, units, row, units_of_row, scheme, alpha) -> list[bool]:
    """The set of a row: weights chosen on n + 1 rows, then the rank within the candidate's cell."""
    vectors = oracle.grid(3, 3)
    weights = [tuple(part / 3 for part in g) for g in vectors]
    inside = []
    for label in range(4):
        unit = units_of_row[label]
        counts = Counter([*units, unit])
        cells = ["rare" if rare(counts, u, scheme) else u for u in [*units, unit]]
        every, labels = [*cal, row], [*y, label]
        k = oracle.conformal_rank(len(cal), alpha)
        totals = []
        for w in weights:
            true = [oracle.combine(r[c], w) for r, c in zip(every, labels, strict=True)]
            if scheme.tune:
                totals.append(tuned_total(every, true, labels, cells, w, scheme, alpha))
            else:
                totals.append(oracle.count(every, w, oracle.kth_largest(true, k)))
        w = weights[oracle.winner(totals, vectors)]
        own = oracle.combine(row[label], w)
        others = [
            oracle.combine(r[c], w)
            for r, c, cell in zip(cal, y, cells[:-1], strict=True)
            if cell == cells[-1] or (cells[-1] == "rare" and scheme.fallback == "marginal")
        ]  # fmt: skip
        rank = 1 + sum(value <= own for value in others)
        always = scheme.fallback == "all" and len(others) < (getattr(scheme, "min_rows", 0) or 0)
        inside.append(always or Fraction(rank, len(others) + 1) > alpha)
    return inside


def tuned_total(every, true, labels, cells, w, scheme, alpha) -> int:
    """Labels in the sets of n + 1 rows with a threshold per class, the last row the candidate.

    The rank of a cell is that of its calibration rows: all but the candidate, where it is one.
    Classes that are rare in the bag count while the candidate is one of them.
    """
    counts = Counter(labels)
    total = 0
    for label in range(4):
        if scheme.fallback == "marginal":  # by the calibration rows: nothing is promised of these
            few = counts[label] - (label == labels[-1]) < scheme.min_rows
        else:
            few = rare(counts, label, scheme)
        cell = "rare" if few else label
        as_all = few and scheme.fallback == "marginal"
        own = [value for value, c in zip(true, cells, strict=True) if as_all or c == cell]
        calibrate = len(own) - (as_all or cell == cells[-1])
        k = oracle.conformal_rank(calibrate, alpha)
        if k > calibrate or (cell == "rare" and cells[-1] != "rare"):
            continue  # in under all weights, or not counted
        t = oracle.kth_largest(own, k)
        total += sum(oracle.combine(row[label], w) >= t for row in every)
    return total


@pytest.mark.parametrize("name", ALL_SCHEMES)
@pytest.mark.parametrize("seed", range(4))
def test_sets_are_those_of_loops_over_candidates_and_cells(name: str, seed: int) -> None:
    scheme, unit = ALL_SCHEMES[name]
    probs, y, group = bag(seed, 17, ties=seed % 2 == 0)
    alpha = [0.2, 1 / 3, 0.5, 0.2][seed]
    cal, new = slice(0, 14), slice(14, 17)
    cp = model(scheme, alpha).fit(probs[cal], y[cal], **row_data(scheme, group[cal]))
    found = cp.predict_set(probs[new], **row_data(scheme, group[new]))
    scores = oracle.tensor([probs.tolist()], SCORES)
    units = [unit(a, b) for a, b in zip(y[cal].tolist(), group[cal].tolist(), strict=True)]
    for i in range(14, 17):
        own = [unit(label, group[i]) for label in range(4)]
        expected = plain_set(scores[cal], y[cal].tolist(), units, scores[i], own, scheme,
                             LEVELS[alpha])  # fmt: skip
        assert_array_equal(np.asarray(found)[i - 14], expected)


@pytest.mark.parametrize("scheme", [PerClass(tune=True), PerClass("pooled", min_rows=2, tune=True)])
def test_weights_are_chosen_by_class_as_loops_choose_them_on_lattices_full_of_ties(scheme) -> None:
    alpha = Fraction(1, 3)
    vectors = oracle.grid(2, 3)
    weights = candidate_weights(GridSearch(3), 2)
    for seed in range(120):
        rng = np.random.default_rng(seed)
        n, lattice = int(rng.integers(4, 14)), int(rng.integers(2, 6))
        scores = rng.integers(0, lattice, (n + 1, 4, 2)) / 4.0
        y = rng.choice(4, size=n, p=[0.5, 0.3, 0.1, 0.1])
        part = laid_down_alike(
            scheme, y, NO_DATA, (), n_classes=4, alpha=1 / 3, rng=np.random.default_rng(0)
        )
        tables = class_tables(scores[:n], y, weights, part, 1 / 3)
        found = tables.weights[tables.choose(scores[n:])[0]]
        every = scores.tolist()
        for label in range(4):
            labels = [*y.tolist(), label]
            counts = Counter(labels)
            cells = ["rare" if rare(counts, u, scheme) else u for u in labels]
            totals = []
            for g in vectors:
                w = tuple(part / 3 for part in g)
                true = [oracle.combine(r[c], w) for r, c in zip(every, labels, strict=True)]
                totals.append(tuned_total(every, true, labels, cells, w, scheme, alpha))
            best = vectors[oracle.winner(totals, vectors)]
            assert_array_equal(found[label], np.array(best) / 3)


# The identity -------------------------------------------------------------------------------------


def cells_of_bag(name: str, y, group) -> list:
    """The cells of n + 1 rows: units, those that are rare in the bag together."""
    scheme, unit = SCHEMES[name]
    units = [unit(a, b) for a, b in zip(y.tolist(), group.tolist(), strict=True)]
    counts = Counter(units)
    return ["rare" if rare(counts, u, scheme) else u for u in units]


def audit(name: str, probs, y, group, alpha, **options):
    scheme, _ = SCHEMES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return leave_one_out(
            model(scheme, alpha, **options).fit, probs, y, alpha=alpha,
            cells=cells_of_bag(name, y, group), **row_data(scheme, group),
        )  # fmt: skip


def assert_identity(name: str, seed: int, n: int, alpha: float, *, ties: bool) -> None:
    probs, y, group = bag(seed, n, ties=ties)
    report = audit(name, probs, y, group, alpha, scores=SCORES if ties else WITHOUT_TIES)
    assert report.holds, report
    if not ties and "always" not in name:  # exactly as many as the rank says
        assert report.covered == report.needed


BAGS = st.tuples(
    st.sampled_from(sorted(SCHEMES)), st.integers(0, 2**32 - 1), st.integers(3, 12),
    st.sampled_from(sorted(LEVELS)),
)  # fmt: skip


@settings(max_examples=60)
@given(BAGS, st.booleans())
def test_the_identity_holds_in_every_cell(drawn, ties) -> None:
    assert_identity(*drawn, ties=ties)


@pytest.mark.long(short="test_the_identity_holds_in_every_cell")
@settings(max_examples=2500)
@given(BAGS, st.booleans())
def test_the_identity_holds_in_every_cell_of_many_bags(drawn, ties) -> None:
    assert_identity(*drawn, ties=ties)


def fails_in_more_than(share: float, fit, name: str, n_bags: int = 12) -> bool:
    """Whether some cell has too few covered rows in more than this share of bags without ties.

    Bags that can no longer change the answer are not drawn.
    """
    scheme, failed = SCHEMES[name][0], 0
    for seed in range(n_bags):
        if failed > share * n_bags:
            break
        probs, y, group = bag(1000 + seed, 14, ties=False)
        failed += not leave_one_out(
            fit, probs, y, alpha=1 / 3, cells=cells_of_bag(name, y, group),
            **row_data(scheme, group),
        ).holds  # fmt: skip
    return failed > share * n_bags


def test_the_identity_fails_where_the_n_rows_alone_choose() -> None:
    for name in ("class", "group"):
        scheme = SCHEMES[name][0]
        chosen_alone = model(scheme, 1 / 3, split="efcp", normalize="none", search=GridSearch(6))
        assert fails_in_more_than(0.02, chosen_alone.fit, name)


def test_the_identity_fails_where_the_cell_of_the_candidate_is_ignored() -> None:
    marginal = model("marginal", 1 / 3, search=GridSearch(3))

    def fit(probs, y, **rows):
        fitted = marginal.fit(probs, y)
        return type("Blind", (), {"predict_set": lambda self, p, **rows: fitted.predict_set(p)})()

    for name in ("class", "group"):
        assert fails_in_more_than(0.2, fit, name)


def test_the_identity_holds_for_a_weighted_row_in_the_law_of_its_bag() -> None:
    """Which row of a bag is new is a draw by weight: missed rows weigh at most alpha."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        probs, y, _ = bag(seed, 11, ties=seed % 2 == 0)
        weight = rng.integers(1, 5, size=11) / 2.0
        ratios = (0.5, 1.0, 2.0, 1.5)
        for scheme, own in ((Weighted(known=True), weight),
                            (LabelShift(ratios, known=True), np.array(ratios)[y])):  # fmt: skip
            missed = Fraction(0)
            for i in range(11):
                rest = np.arange(11) != i
                rows, row = ({"sample_weight": weight[p]} if scheme.needs else {}
                             for p in (rest, ~rest))  # fmt: skip
                cp = model(scheme, 1 / 3).fit(probs[rest], y[rest], **rows)
                covered = np.asarray(cp.predict_set(probs[~rest], **row))[0, y[i]]
                missed += 0 if covered else Fraction(own[i])
            assert missed <= Fraction(1, 3) * Fraction(own.sum())


# What is known of it ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL_SCHEMES)
def test_p_values_exceed_alpha_where_labels_are_in(name: str) -> None:
    scheme, _ = ALL_SCHEMES[name]
    probs, y, group = bag(3, 60, ties=True)
    cp = model(scheme, 0.2).fit(probs[:40], y[:40], **row_data(scheme, group[:40]))
    new = row_data(scheme, group[40:])
    pvalues = cp.predict_pvalues(probs[40:], **new)
    assert_array_equal(np.asarray(cp.predict_set(probs[40:], **new)), pvalues > 0.2)
    smoothed = cp.predict_pvalues(probs[40:], smoothed=True, **new)
    assert (smoothed <= pvalues).all()
    assert (smoothed < pvalues).any()


@pytest.mark.parametrize("scheme", [PerGroup(by_class=True), Weighted(known=True)])
def test_a_batch_is_its_rows_one_by_one_whatever_they_bring_along(scheme) -> None:
    probs, y, group = bag(9, 60, ties=False)
    values = group if scheme.name == "group" else np.arange(60) % 7 + 1.0
    (name,) = scheme.needs
    cp = model(scheme, 0.3, search=GridSearch(10), scores=WITHOUT_TIES)
    cp.fit(probs[:20], y[:20], **{name: values[:20]})
    state = cp.predictor_.fitted
    chosen = state._chosen(cp.predictor_.scores(cp.predictor_.check(probs[20:])), 0.3)[1]
    first = (chosen == np.unique(chosen)[-1]).any(axis=1)
    assert 0 < first.sum() < 40  # some weights are asked about some of the rows
    assert not first[: first.sum()].all()
    at_once = np.asarray(cp.predict_set(probs[20:], **{name: values[20:]}))
    pvalues = cp.predict_pvalues(probs[20:], **{name: values[20:]})
    for i in range(20, 60):
        alone = {name: values[i : i + 1]}
        assert_array_equal(
            np.asarray(cp.predict_set(probs[i : i + 1], **alone))[0], at_once[i - 20]
        )
        assert_array_equal(cp.predict_pvalues(probs[i : i + 1], **alone)[0], pvalues[i - 20])


@pytest.mark.parametrize("name", ["class", "class, tuned", "group, pooled"])
def test_a_label_is_explained_by_the_threshold_of_its_cell(name: str) -> None:
    from conformix.plots.labels import explain_numbers

    scheme, _ = ALL_SCHEMES[name]
    probs, y, group = bag(3, 60, ties=True)
    cp = model(scheme, 0.2).fit(probs[:40], y[:40], **row_data(scheme, group[:40]))
    for i in range(40, 50):
        new = row_data(scheme, group[i : i + 1])
        inside = np.asarray(cp.predict_set(probs[i : i + 1], **new))[0]
        told = explain_numbers(cp, probs[i : i + 1], 0, top=4, **new)
        assert_array_equal(told.combined >= told.thresholds, inside[told.labels])


@pytest.mark.parametrize("name", ALL_SCHEMES)
def test_a_saved_model_predicts_the_same_and_promises_the_same(name: str, tmp_path) -> None:
    scheme, _ = ALL_SCHEMES[name]
    probs, y, group = bag(4, 60, ties=False)
    cp = model(scheme, 0.2).fit(probs[:40], y[:40], **row_data(scheme, group[:40]))
    cp.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json")
    new = row_data(scheme, group[40:])
    assert_same_sets(again.predict_set(probs[40:], **new), cp.predict_set(probs[40:], **new))
    assert again.guarantee_ == cp.guarantee_
    again.save(tmp_path / "again.json")
    texts = [(tmp_path / f"{file}.json").read_text() for file in ("model", "again")]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("class", "P(y in set | class of y) >= 1 - alpha"),
        ("class, pooled", "P(y in set | class of y) >= 1 - alpha; 1 rare classes only together"),
        ("group", "P(y in set | group of the row) >= 1 - alpha"),
        ("group and class", "P(y in set | group and class of the row) >= 1 - alpha"),
        ("clusters", "P(y in set | cluster of y) >= 1 - alpha"),
    ],
)
def test_the_ledger_says_exact_in_every_cell(name: str, sentence: str) -> None:
    scheme, _ = SCHEMES[name]
    y = np.array([0] * 20 + [1] * 15 + [2] * 10 + [3] * 2)
    probs, _, group = bag(5, len(y), ties=False)
    ledger = model(scheme, 0.2).fit(probs, y, **row_data(scheme, group)).guarantee_
    assert (ledger.kind, ledger.statement) == ("exact", sentence)
    assert ledger.assumption.startswith(f"within every {scheme.name.split(',')[0]}")
    assert ledger.facts.split == "exact"
    assert ledger.facts.calibration != "marginal"


def test_groups_that_no_row_had_take_the_fallback() -> None:
    probs, y, group = bag(6, 30, ties=False)
    for fallback, inside in (("all", True), ("pooled", True), ("marginal", False)):
        scheme = PerGroup(fallback, min_rows=2)
        cp = model(scheme, 0.3).fit(probs, y, strata=group)
        new = np.asarray(cp.predict_set(probs, strata=np.full(30, "nowhere")))
        assert new.all() == inside  # no group is rare here: the pool has no rows


def test_no_row_is_spent_and_every_row_calibrates() -> None:
    probs, y, group = bag(7, 14, ties=False)
    for name in ("class", "class, pooled", "group"):
        scheme, _ = SCHEMES[name]
        cp = model(scheme, 0.3)
        brought = row_data(scheme, group)
        report = audit_roles(lambda p, labels, cp=cp, b=brought: cp.fit(p, labels, **b), probs, y)
        assert report.holds, report
        assert report.calibrates.all()


def test_clusters_are_learnt_from_rows_that_were_set_aside() -> None:
    probs, y, _ = bag(8, 60, ties=False)
    cp = model(
        Clustered(2, min_rows=1), 0.3, split=Exact(shortlist=3, share=0.5), random_state=0
    ).fit(probs, y)
    assert (cp.guarantee_.kind, cp.guarantee_.facts.n_cal) == ("exact", 30)
    one = model(
        Clustered(2, min_rows=1), 0.3, split=Exact(shortlist=3, share=0.5),
        search=Candidates(np.ones((1, 3))), random_state=0,
    )  # fmt: skip
    assert one.fit(probs, y).guarantee_.facts.n_cal == 30  # rows apart, though none has to choose
    report = audit_roles(
        model(Clustered(2, min_rows=1), 0.3, split=Exact(shortlist=3, share=0.5),
              random_state=0).fit, probs[:20], y[:20],
    )  # fmt: skip
    assert report.holds, report


def test_automatic_scores_are_exact_in_every_class_and_group() -> None:
    data = cx.datasets.load("cifar10")
    logits, y = data.outputs["vgg16"], data.labels
    group = y % 2
    for calibration, brought, new in (
        ("class", {}, {}), ("group", {"strata": group[:300]}, {"strata": group[300:400]}),
    ):  # fmt: skip
        cp = cx.ScoreAverage(
            "auto", kind="logits", split="exact", calibration=calibration, random_state=0
        ).fit(logits[:300], y[:300], **brought)
        assert cp.guarantee_.kind == "exact"
        pvalues = cp.predict_pvalues(logits[300:400], **new)
        assert_array_equal(np.asarray(cp.predict_set(logits[300:400], **new)), pvalues > 0.1)


def test_levels_and_weighted_rows_too_few_for_a_choice_take_the_first_weights() -> None:
    probs, y, _ = bag(9, 5, ties=False)
    cp = model(Weighted(known=True), 0.1).fit(probs, y, sample_weight=np.ones(5))
    light = cp.predict_pvalues(probs, sample_weight=np.full(5, 1e-3))
    first = cp.predictor_.fitted.weights[0]
    fixed = cx.ScoreAverage(SCORES, alpha=0.1, weights=first, normalize="none",
                            calibration=Weighted(known=True))  # fmt: skip
    fixed.fit(probs, y, sample_weight=np.ones(5))
    assert_array_equal(light, fixed.predict_pvalues(probs, sample_weight=np.full(5, 1e-3)))


def test_other_rows_are_judged_by_the_laws_of_their_cells() -> None:
    from scipy import stats

    probs, y, group = bag(10, 90, ties=False)
    cp = model(PerGroup(), 0.3).fit(probs[:60], y[:60], strata=group[:60])
    wrong = (y[60:] + 1) % 4
    found = cp.verdict(probs[60:], wrong, strata=group[60:])
    assert found.word == "broken"
    assert "the hypergeometric laws of 2 thresholds with 60 calibration and 30" in found.law.name
    # By hand: weights on all 90 rows, a threshold per group, and one draw per group.
    state = cp.predictor_.fitted
    scores = cx.score_tensor(probs, SCORES)
    labels = np.concatenate([y[:60], wrong])
    totals, values = [], []
    for w in state.weights:
        every = sum(w[j] * scores[..., j] for j in range(3))
        true = every[np.arange(90), labels]
        k = oracle.conformal_rank(90, Fraction(3, 10))
        totals.append(int((every >= oracle.kth_largest(true.tolist(), k)).sum()))
        values.append(true)
    true, law, missed = values[int(np.argmin(totals))], np.ones(1), 0
    for name in ("far", "near"):
        own = np.flatnonzero(group == name)
        k = oracle.conformal_rank(len(own), Fraction(3, 10))
        out = true[own] < oracle.kth_largest(true[own].tolist(), k)
        m = int((own >= 60).sum())
        law = np.convolve(law, stats.hypergeom.pmf(np.arange(m + 1), len(own), out.sum(), m))
        missed += int(out[own >= 60].sum())
    assert found.pvalue == pytest.approx(law[missed:].sum(), rel=1e-9)
    with pytest.raises(InvalidInput, match="needs strata"):
        cp.verdict(probs[60:], wrong)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d["plan"]["options"].update(n_rare=3), "n_rare"),
        (lambda d: d["plan"]["options"]["joins"].append(0), "not the one that its rows lay down"),
        (lambda d: d["plan"]["options"].update(fixed=False), "plan.fixed"),
        (lambda d: d["plan"]["options"].update(what="cluster"), "no clusters of classes|its cuts"),
        (lambda d: d.pop("plan"), "params.calibration is 'group'"),
        (lambda d: d.update(strata=None), "fitted.strata do not go with its plan"),
        (lambda d: d["strata"]["data"].__setitem__(0, 7), "not one group of its plan per row"),
        (lambda d: d.update(sample_weight=d["weights"]), "sample_weight does not go with its plan"),
        (lambda d: d["plan"].update(name="weighted", options={"known": True}), "do not go with"),
    ],
)  # fmt: skip
def test_a_file_whose_plan_is_not_that_of_its_rows_is_refused(change, sentence, tmp_path) -> None:
    import json

    probs, y, group = bag(11, 30, ties=False)
    path = tmp_path / "model.json"
    model(PerGroup(), 0.3).fit(probs, y, strata=group).save(path)
    document = json.loads(path.read_text())
    change(document["predictor"]["fitted"])
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match=sentence):
        cx.load(path)
