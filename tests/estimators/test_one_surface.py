"""What can be asked of one estimator can be asked of all of them, and the answers agree."""

import copy
import json
from functools import cache

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import conformix as cx
from conformix.errors import InvalidInput

X, Y = load_digits(return_X_y=True)
NAMES = np.array([f"digit {y}" for y in range(10)])
MODEL = GaussianNB().fit(X[:600], Y[:600])
P = MODEL.predict_proba(X)
NEW = slice(1200, 1500)
OPTIONS = {"alpha": 0.1, "scores": ("thr", "rank"), "random_state": 0}


def averaged():
    cp = cx.ScoreAverage(**OPTIONS).fit(P[600:1200], Y[600:1200])
    return cp, P[NEW], Y[NEW]


def classified():
    clf = cx.ConformalClassifier({"nb": GaussianNB(), "tree": DecisionTreeClassifier()}, **OPTIONS)
    return clf.fit(X[:1200], NAMES[Y[:1200]]), X[NEW], NAMES[Y[NEW]]


def crossed():
    clf = cx.CrossConformalClassifier(GaussianNB(), cv=3, **OPTIONS)
    return clf.fit(X[:600], NAMES[Y[:600]]), X[NEW], NAMES[Y[NEW]]


def streamed():
    online = cx.OnlineAverage(OPTIONS["scores"], alpha=0.1, window=200)
    online.run(P[600:900], Y[600:900])
    return online, P[NEW], Y[NEW]


MAKERS = {f.__name__: cache(f) for f in (averaged, classified, crossed, streamed)}
EVERY = pytest.mark.parametrize("name", MAKERS)
STREAM = "streamed"


@EVERY
def test_outputs_are_public_and_are_what_the_average_takes(name):
    estimator, rows, _ = MAKERS[name]()
    outputs = estimator.outputs(rows)
    if name in ("averaged", STREAM):
        assert outputs is rows
    elif name == "classified":
        assert list(outputs) == ["nb", "tree"]
        assert_array_equal(outputs["nb"], estimator.estimators_["nb"].predict_proba(rows))
        again = estimator.conformal_.predict_set(outputs)
        assert again.members() == estimator.predict_set(rows).members()
    else:
        assert len(outputs) == 3
        again = estimator.cross_.predict_set(outputs)
        assert again.members() == estimator.predict_set(rows).members()


@EVERY
def test_evaluate_measures_the_sets_that_are_predicted(name):
    estimator, rows, y = MAKERS[name]()
    result = estimator.evaluate(rows, y)
    if name == STREAM:
        trace = copy.deepcopy(estimator).run(rows, y)
        assert result["coverage"] == pytest.approx(trace.coverage)
        assert estimator.guarantee_.statement == MAKERS[name]()[0].guarantee_.statement
    else:
        sets = estimator.predict_set(rows)
        assert result["coverage"] == cx.metrics.coverage(sets, y)
        assert result["mean_size"] == sets.sizes.mean()
    assert set(result) == set(cx.metrics.METRICS)
    assert result.verdict.n_rows == 300
    assert result.verdict.sentence in str(result)
    assert f"coverage {result['coverage']:.4f}" in repr(result)


@EVERY
def test_labels_that_do_not_fit_the_rows_are_refused(name):
    estimator, rows, y = MAKERS[name]()
    with pytest.raises((cx.InvalidInput, ValueError)):
        estimator.evaluate(rows, y[:-1])


@pytest.mark.parametrize("name", sorted({*MAKERS} - {STREAM}))
def test_evaluate_takes_another_level(name):
    estimator, rows, y = MAKERS[name]()
    result = estimator.evaluate(rows, y, alpha=0.3)
    assert result["mean_size"] == estimator.predict_set(rows, alpha=0.3).sizes.mean()
    assert result.verdict.asked == 0.7


def test_a_stream_that_is_evaluated_stays_where_it_is():
    online, rows, y = streamed()
    before = copy.deepcopy(online)
    online.evaluate(rows, y)
    assert online.level_ == before.level_
    assert_array_equal(online.predict_set(rows[0]).mask, before.predict_set(rows[0]).mask)


@EVERY
def test_p_values_say_which_labels_are_in(name):
    estimator, rows, _ = MAKERS[name]()
    if name == STREAM:
        estimator = copy.deepcopy(estimator)
        pvalues = estimator.predict_pvalues(rows[:1])
        assert_array_equal(pvalues > estimator.level_, estimator.predict_set(rows[:1]).mask)
        return
    pvalues = estimator.predict_pvalues(rows[:50])
    assert_array_equal(pvalues > 0.1 + 1e-12, estimator.predict_set(rows[:50]).mask)


@pytest.mark.parametrize("name", sorted({*MAKERS} - {"crossed"}))
def test_explain_shows_a_sum_of_parts_and_the_threshold(name):
    estimator, rows, y = MAKERS[name]()
    told = estimator.explain(rows, 3, y=y, top=10)
    np.testing.assert_allclose(told.contributions.sum(axis=1), told.combined, rtol=1e-12)
    assert_array_equal(told.included, told.combined >= told.thresholds)
    one = estimator.explain(rows[3:4], top=10)
    assert one.names == told.names
    assert "(true)" in repr(told)
    assert told.score_names[0] in repr(told)
    if name != STREAM:
        assert told.set_size == estimator.predict_set(rows).sizes[3]


@pytest.mark.parametrize(
    ("name", "call", "sentence"),
    [
        ("crossed", "explain", r"^a label of folds is in by its ranks among the rows of every"),
        ("crossed", "report", r"^a report compares weights at one threshold and judges coverage"),
        (STREAM, "report", r"^a report is about one rule, and that of a stream changes with"),
    ],
)
def test_what_cannot_exist_says_why_in_a_sentence(name, call, sentence):
    estimator, rows, y = MAKERS[name]()
    with pytest.raises(InvalidInput, match=sentence):
        estimator.explain(rows) if call == "explain" else estimator.report(rows, y)


@EVERY
@pytest.mark.parametrize("by", ["score", "model"])
def test_contributions_add_up(name, by):
    estimator, rows, y = MAKERS[name]()
    found = estimator.contributions(rows, y, by=by)
    assert sum(one.share for one in found) == pytest.approx(1)
    if name == "crossed" and by == "score":
        of_folds = dict(zip(("thr", "rank"), estimator.cross_.weights_.mean(axis=0), strict=True))
        assert {one.name: one.weight for one in found} == pytest.approx(of_folds)
    assert {one.name for one in found} == {
        ("averaged", "score"): {"thr", "rank"},
        ("classified", "score"): {"nb.thr", "nb.rank", "tree.thr", "tree.rank"},
        ("classified", "model"): {"nb", "tree"},
    }.get((name, by), {"thr", "rank"} if by == "score" else {""})


@pytest.mark.parametrize("name", ["averaged", "classified"])
def test_report_is_about_the_rows_that_are_given(name):
    estimator, rows, y = MAKERS[name]()
    report = estimator.report(rows, y, alphas=[0.05], title="digits")
    assert report.title == "digits"
    place = report.rows.fitted_place
    assert report.measured.columns["coverage"][place, 0] == estimator.evaluate(rows, y)["coverage"]


@EVERY
def test_a_saved_estimator_answers_alike(name, tmp_path):
    estimator, rows, y = MAKERS[name]()
    estimator.save(tmp_path / "model.json")
    kept = {
        "classified": lambda: [estimator.estimators_],
        "crossed": lambda: [estimator.fold_estimators_],
    }.get(name, list)()
    again = type(estimator).load(tmp_path / "model.json", *kept)
    if name == STREAM:
        one, other = copy.deepcopy(estimator).run(rows, y), again.run(rows, y)
        assert_array_equal(one.sets, other.sets)
        assert_array_equal(one.weights, other.weights)
        return
    assert again.predict_set(rows).members() == estimator.predict_set(rows).members()
    assert_array_equal(again.predict_pvalues(rows), estimator.predict_pvalues(rows))
    assert again.guarantee_.kind == estimator.guarantee_.kind
    assert again.guarantee_.statement == estimator.guarantee_.statement


@pytest.mark.parametrize("options", [{"adapt": "hedge", "control": "betting"}, {"adapt": None}])
def test_a_stream_goes_on_where_it_was_saved(options, tmp_path):
    whole = cx.OnlineAverage(("thr", "rank"), alpha=0.1, window=60, **options)
    whole.run(P[600:700], Y[600:700])
    whole.save(tmp_path / "stream.json")
    again = cx.OnlineAverage.load(tmp_path / "stream.json")
    one, other = whole.run(P[700:900], Y[700:900]), again.run(P[700:900], Y[700:900])
    assert_array_equal(one.sets, other.sets)
    assert_array_equal(one.levels, other.levels)
    assert_array_equal(one.weights, other.weights)
    assert whole.guarantee_ == again.guarantee_


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"steps": 3}, "online"),
        ({"errors": 10**6}, "errors are more"),
        ({"control": "acy"}, "unknown control"),
        ({"state": {}}, "state is not one of its control"),
        ({"extra": 1}, "does not know"),
        ({"alpha": 2.0}, "alpha"),
        ({"window": 10**15}, "memory|one row per step"),
        ({"candidates": 10**12}, "memory"),
        ({"n_classes": 2**62}, "memory"),
        ({"models": ["", ""]}, "models are not distinct"),
        ({"key": -1}, "key is out of range"),
    ],
)
def test_a_file_of_a_stream_that_contradicts_itself_is_refused(change, sentence, tmp_path):
    path = tmp_path / "stream.json"
    MAKERS[STREAM]()[0].save(path)
    document = json.loads(path.read_text())
    document["online"] |= change
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match=sentence):
        cx.OnlineAverage.load(path)


@pytest.mark.parametrize("wrong", ["names", "folds", "labels"])
def test_estimators_that_are_not_those_of_the_file_are_refused(wrong, tmp_path):
    path = tmp_path / "model.json"
    if wrong == "folds":
        MAKERS["crossed"]()[0].save(path)
        with pytest.raises(InvalidInput, match=r"^estimators must be those of the 3 folds; got 1"):
            cx.CrossConformalClassifier.load(path, [MODEL])
        return
    MAKERS["classified"]()[0].save(path)
    given = {"a": MODEL, "tree": MODEL} if wrong == "names" else {"nb": MODEL, "tree": MODEL}
    with pytest.raises(InvalidInput, match=r"^estimators must (be called|know no other labels)"):
        cx.ConformalClassifier.load(path, given)


SHAPES = {
    "a list": [GaussianNB(), GaussianNB(), DecisionTreeClassifier(random_state=0)],
    "a mapping": {"gaussiannb-1": GaussianNB(), "gaussiannb-2": GaussianNB(),
                  "decisiontreeclassifier": DecisionTreeClassifier(random_state=0)},
}  # fmt: skip


@pytest.mark.parametrize("kind", [cx.ConformalClassifier, cx.CrossConformalClassifier])
def test_lists_and_mappings_of_estimators_are_those_by_name(kind):
    options = {"alpha": 0.2, "scores": "thr", "random_state": 0}
    pairs = kind(list(SHAPES["a mapping"].items()), **options).fit(X[:300], Y[:300])
    for shape in SHAPES.values():
        clf = kind(shape, **options)
        clf.set_params(decisiontreeclassifier__max_depth=30)
        assert clf.get_params()["decisiontreeclassifier__max_depth"] == 30
        same = clone(clf).set_params(decisiontreeclassifier__max_depth=None).fit(X[:300], Y[:300])
        assert same.predict_set(X[NEW]).members() == pairs.predict_set(X[NEW]).members()
        replaced = clone(clf).set_params(**{"gaussiannb-1": DecisionTreeClassifier()})
        assert isinstance(replaced._named()[0][1], DecisionTreeClassifier)
        assert type(replaced.estimators) is type(shape)


@pytest.mark.parametrize(
    ("estimators", "sentence"),
    [
        ([("a", GaussianNB()), GaussianNB()], r"^estimators must all have names.*got 1 of 2"),
        (["nb", GaussianNB()], r"^estimators must be classifiers: one, a list.*got 'nb'"),
        ({}, r"^estimators must hold at least one"),
    ],
)
def test_estimators_that_are_none_are_refused(estimators, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        cx.ConformalClassifier(estimators).fit(X[:100], Y[:100])


@pytest.mark.parametrize("kind", [cx.ConformalClassifier, cx.CrossConformalClassifier])
def test_a_fitted_estimator_is_not_fitted_again_in_silence(kind):
    with pytest.warns(cx.RefitWarning, match=r"^GaussianNB: fitted already, and fitted again"):
        kind(MODEL, **OPTIONS).fit(X[600:800], Y[600:800])
    kind(MODEL, prefit=False, **OPTIONS).fit(X[600:800], Y[600:800])
    kind(FrozenEstimator(MODEL), **OPTIONS).fit(X[600:800], Y[600:800])


def test_prefit_takes_estimators_as_they_are_and_every_row_calibrates():
    clf = cx.ConformalClassifier(MODEL, prefit=True, **OPTIONS).fit(X[600:1200], Y[600:1200])
    frozen = cx.ConformalClassifier(FrozenEstimator(MODEL), **OPTIONS).fit(X[600:1200], Y[600:1200])
    assert clf.estimators_[""] is MODEL
    assert clf.predict_set(X[NEW]).members() == frozen.predict_set(X[NEW]).members()
    with pytest.raises(InvalidInput, match=r"^prefit=True: the model of a fold must not have seen"):
        cx.CrossConformalClassifier(MODEL, prefit=True).fit(X[:100], Y[:100])


class Noting(GaussianNB):
    """Naive Bayes that notes weights beside a column that is the weight."""

    def fit(self, X, y, sample_weight=None):
        self.seen_, self.column_ = sample_weight, np.array(X[:, -1])
        return super().fit(X, y, sample_weight)


def test_sample_weights_go_to_the_models_of_folds_with_their_rows():
    weight = np.random.default_rng(0).integers(1, 4, size=300).astype(float)
    rows = np.column_stack([X[:300], weight])
    clf = cx.CrossConformalClassifier(Noting(), cv=3, **OPTIONS)
    clf.fit(rows, Y[:300], sample_weight=weight)
    for fold in clf.fold_estimators_:
        assert_array_equal(fold[""].seen_, fold[""].column_)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = {"asks": Noting().set_fit_request(sample_weight=True),
                  "not": Noting().set_fit_request(sample_weight=False)}  # fmt: skip
        clf = cx.CrossConformalClassifier(routed, cv=3, **OPTIONS)
        clf.fit(rows, Y[:300], sample_weight=weight)
    for fold in clf.fold_estimators_:
        assert_array_equal(fold["asks"].seen_, fold["asks"].column_)
        assert fold["not"].seen_ is None


def test_estimators_that_train_at_the_same_time_are_the_same():
    def made(n_jobs):
        shape = {"a": DecisionTreeClassifier(random_state=0), "b": GaussianNB()}
        return cx.ConformalClassifier(shape, n_jobs=n_jobs, **OPTIONS).fit(X[:400], Y[:400])

    assert made(2).predict_set(X[NEW]).members() == made(None).predict_set(X[NEW]).members()


def test_a_search_tells_size_and_coverage():
    search = GridSearchCV(
        cx.ConformalClassifier(GaussianNB(), scores="thr", random_state=0),
        {"alpha": [0.1, 0.4]},
        scoring={"size": cx.small_sets_scorer, "coverage": cx.coverage_scorer},
        refit="size",
        cv=2,
    ).fit(X[:400], NAMES[Y[:400]])
    assert search.best_params_["alpha"] == 0.4
    tight, loose = search.cv_results_["mean_test_coverage"]
    assert 1 >= tight > loose > 0.4


def test_class_names_go_through_folds():
    folds = [(P[a : a + 100], NAMES[Y[a : a + 100]]) for a in (600, 700)]
    cross = cx.CrossAverage("thr", alpha=0.1, weights=[1.0]).fit(folds, classes=NAMES)
    plain = cx.CrossAverage("thr", alpha=0.1, weights=[1.0]).fit(
        [(P[a : a + 100], Y[a : a + 100]) for a in (600, 700)]
    )
    named = cross.predict_set([P[NEW]] * 2)
    assert_array_equal(named, plain.predict_set([P[NEW]] * 2))
    assert set(named.labels(0)) <= set(NAMES)
    assert cross.evaluate([P[NEW]] * 2, NAMES[Y[NEW]])["coverage"] > 0.8


@pytest.mark.parametrize("name", ["averaged", "classified", "crossed"])
def test_the_index_of_a_frame_names_the_sets(name, tmp_path):
    pandas = pytest.importorskip("pandas")
    estimator, rows, _ = MAKERS[name]()
    ids = [f"row {i}" for i in range(20)]
    frame = pandas.DataFrame(rows[:20], index=ids)
    if name != "averaged":
        frame.columns = frame.columns.astype(str)
        estimator = clone(estimator).fit(
            pandas.DataFrame(X[:300], columns=frame.columns), NAMES[Y[:300]]
        )
    sets = estimator.predict_set(frame)
    assert sets.ids == ids
    assert sets[5:7].ids == ids[5:7]
    assert sets.to_frame().index.tolist() == ids
    assert set(sets.to_frame("long")["id"]) <= set(ids)
    sets.to_csv(tmp_path / "sets.csv")
    assert (tmp_path / "sets.csv").read_text().splitlines()[1].startswith("row 0,")
    plain = estimator.predict_set(frame.reset_index(drop=True))
    assert plain.ids is None
    assert plain.members() == sets.members()


def test_logistic_regression_is_the_default_of_both():
    for kind in (cx.ConformalClassifier, cx.CrossConformalClassifier):
        assert isinstance(kind()._named()[0][1], LogisticRegression)
