"""ScoreAverage is a scikit-learn estimator where scikit-learn is installed."""

import copy
import os
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

import conformix as cx
from conformix.errors import InvalidInput
from conformix.splits import ValidityFirst

DATA = cx.datasets.load("cifar10")
LOGITS, LABELS = DATA.outputs["vgg16"][:900], DATA.labels[:900]

COLUMNS = "it takes one column per class; the check has labels 0..2 and two columns of features"
WORDS = "it refuses such input as it should, in a sentence of its own"
WEIGHTS = 'importance weights are for calibration="weighted"; elsewhere refused, not dropped'
EXPECTED = {
    "check_all_zero_sample_weights_error": WEIGHTS,
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    "check_sample_weights_list": WEIGHTS,
    "check_sample_weights_not_an_array": WEIGHTS,
    "check_sample_weights_not_overwritten": WEIGHTS,
    "check_sample_weights_pandas_series": WEIGHTS,
    "check_sample_weights_shape": WEIGHTS,
    "check_estimators_overwrite_params": COLUMNS,
    "check_estimators_fit_returns_self": COLUMNS,
    "check_readonly_memmap_input": COLUMNS,
    "check_fit2d_1feature": COLUMNS,
    "check_complex_data": WORDS,
    "check_estimators_empty_data_messages": WORDS,
    "check_estimators_nan_inf": WORDS,
    "check_dtype_object": "outputs of a model are numbers; an array of objects is refused",
}


@pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    # Feature matrices, which the checks feed, are no probabilities; they may pass for logits.
    [cx.ScoreAverage(kind="logits", random_state=0)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def fitted(**options):
    usual = {"alpha": 0.1, "kind": "logits", "random_state": 0}
    return cx.ScoreAverage(**(usual | options)).fit(LOGITS[:600], LABELS[:600])


def test_it_is_a_base_estimator_with_tags_and_a_picture():
    cp = cx.ScoreAverage()
    assert isinstance(cp, BaseEstimator)
    assert get_tags(cp).target_tags.required
    assert get_tags(cp).input_tags.positive_only
    assert not get_tags(cx.ScoreAverage(kind="logits")).input_tags.positive_only
    assert "ScoreAverage" in fitted()._repr_html_()


def test_clone_keeps_the_settings_and_forgets_the_fit():
    cp = fitted(split=ValidityFirst(share=0.3), scores=("thr", "rank"), tune_alpha=0.08)
    copied = clone(cp)
    assert copied.get_params() == cp.get_params()
    with pytest.raises(NotFittedError):
        check_is_fitted(copied)
    check_is_fitted(cp)


def test_a_wrong_parameter_gets_help():
    with pytest.raises(InvalidInput, match=r"^unknown parameter of ScoreAverage 'alhpa'; did you"):
        cx.ScoreAverage().set_params(alhpa=0.1)


@pytest.mark.parametrize("split", ["vfcp", "exact"])
@pytest.mark.parametrize("way", ["pickle", "joblib", "deepcopy", "copy"])
def test_a_fitted_model_travels(way, split, tmp_path):
    cp = fitted(split=split, normalize="none", search=[[1.0, 0, 0], [0.5, 0.5, 0.0]])
    if way == "joblib":
        joblib.dump(cp, tmp_path / "model.joblib")
        again = joblib.load(tmp_path / "model.joblib")
    elif way == "pickle":
        again = pickle.loads(pickle.dumps(cp))
    else:
        again = getattr(copy, way)(cp)
    cx.testing.assert_same_sets(again.predict_set(LOGITS[600:]), cp.predict_set(LOGITS[600:]))
    assert again.get_params()["alpha"] == 0.1


def test_sets_travel_with_their_names_and_their_order():
    names = [f"class {k}" for k in range(10)]
    sets = cx.ScoreAverage(kind="logits", random_state=0, alpha=0.01).fit(
        LOGITS[:600], LABELS[:600], classes=names
    ).predict_set(LOGITS[600:])  # fmt: skip
    for again in (pickle.loads(pickle.dumps(sets)), copy.deepcopy(sets)):
        assert again.members() == sets.members()
        assert_array_equal(again, sets)


def test_all_of_it_works_where_scikit_learn_is_absent(tmp_path):
    fitted().save(tmp_path / "model.json")
    code = f"""
import sys
sys.modules["sklearn"] = None  # any import of it fails
import copy, pickle
import numpy as np
import conformix as cx
again = cx.load({str(tmp_path / "model.json")!r})
again.predict_set(np.zeros((1, 10)))
data = cx.datasets.load("cifar10")
cp = cx.ScoreAverage(kind="logits", random_state=0, search="grid").set_params(alpha=0.2)
cp.fit(data.outputs["vgg16"][:300], data.labels[:300])
assert copy.deepcopy(cp).get_params() == pickle.loads(pickle.dumps(cp)).get_params()
assert "alpha=0.2" in repr(cp), repr(cp)
"""
    run_alone(code)


def run_alone(code, read=""):
    done = subprocess.run(
        [sys.executable, "-c", code], input=read, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_estimators_do_not_load_scikit_learn():
    run_alone(
        "import sys, numpy as np, conformix as cx\n"
        "rows, y = np.full((40, 4), 0.25), np.arange(40) % 4\n"
        "for kind in (cx.ScoreAverage, cx.CrossAverage):\n"
        "    repr(kind().get_params())\n"
        "cx.ScoreAverage(random_state=0).fit(rows, y).predict_set(rows)\n"
        "assert 'sklearn' not in sys.modules\n"
    )


# One interpreter, and a copy of it for every use: the first use finds what it would find alone.
OLDER = """
import os, sys, traceback
import conformix as cx
older = cx.ScoreAverage(alpha=0.2)
assert not hasattr(older, "set_fit_request") and not hasattr(older, "anything")
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
failed = []
for use in sys.stdin.read().splitlines():
    copy = os.fork()
    if copy == 0:
        try:
            exec(use)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(copy, 0)[1] != 0:
        failed.append(use)
sys.exit("\\n".join(failed) or 0)
"""
FIRST_USES = [
    "assert isinstance(cx.ScoreAverage(), BaseEstimator) and isinstance(older, BaseEstimator)",
    "assert clone(older).alpha == 0.2",
    "assert get_tags(older).target_tags.required",
    "assert 'ScoreAverage' in older._repr_html_()",
    "older.set_fit_request",
    "assert not hasattr(older, 'anything') and isinstance(older, BaseEstimator)",
    "import pickle; assert isinstance(pickle.loads(pickle.dumps(older)), BaseEstimator)",
    "assert repr(older) == 'ScoreAverage(alpha=0.2)'",
]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are copied by fork")
def test_an_estimator_that_is_older_than_scikit_learn_joins_it_at_any_first_use():
    run_alone(OLDER, "\n".join(FIRST_USES))


def test_class_names_come_in_with_fit_and_out_with_the_sets():
    names = np.array([f"class {k}" for k in range(10)])
    cp = cx.ScoreAverage(kind="logits", random_state=0, alpha=0.02)
    by_index = cp.fit(LOGITS[:600], LABELS[:600]).predict_set(LOGITS[600:])
    for y in (LABELS, names[LABELS]):
        sets = clone(cp).fit(LOGITS[:600], y[:600], classes=names).predict_set(LOGITS[600:])
        cx.testing.assert_same_sets(sets, by_index)
        assert sets.members() == [[str(names[k]) for k in own] for own in by_index.members()]
        assert cx.metrics.coverage(sets, y[600:]) == cx.metrics.coverage(by_index, LABELS[600:])
    assert_array_equal(clone(cp).fit(LOGITS, names[LABELS], classes=names).classes_, names)
    assert_array_equal(cp.classes_, np.arange(10))


def test_labels_of_fresh_rows_may_be_names_too():
    names = np.array([f"class {k}" for k in range(10)])
    cp = fitted(split="efcp", normalize="none")
    named = clone(cp).fit(LOGITS[:600], names[LABELS[:600]], classes=names)
    fresh = LOGITS[600:], names[LABELS[600:]]
    assert named.check_drift(*fresh).pvalue == cp.check_drift(LOGITS[600:], LABELS[600:]).pvalue
    assert (
        named.recalibrate(*fresh).threshold_
        == cp.recalibrate(LOGITS[600:], LABELS[600:]).threshold_
    )


P, Y = np.full((4, 2), 0.5), [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("y", "classes", "sentence"),
    [
        (Y, ["a"], r"^classes must name all 2 columns; got 1 names\.$"),
        (Y, "ab", r"^classes must be a sequence of names; got the text 'ab'\.$"),
        (Y, [("a",), ("b",)], r"^classes must be text or numbers; got \('a',\)\.$"),
        (["a", "b", "c", "a"], ["a", "b"], r"^y must hold class names \('a', 'b'\); row 2 holds"),
        ([5, 6, 5, 7], [5, 6], r"^y must hold class names \(5, 6\); row 3 holds 7, which no set "
         r"can hold: name it among the classes in fit, or count the row as missed\.$"),
        (["a"] * 4, ["a", "a"], r"^class name 'a' appears twice; give y as class indices"),
        (["a"] * 4, None, r"^y must hold integer class indices 0\.\.1; got <U1"),
        (None, None, r"^y should be a 1d array of labels, one per row; got None\.$"),
    ],
)  # fmt: skip
def test_labels_and_names_that_do_not_fit_are_refused(y, classes, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        cx.ScoreAverage(alpha=0.5).fit(P, y, classes=classes)


def test_two_classes_of_one_name_are_fine_where_labels_are_indices():
    cp = cx.ScoreAverage(alpha=0.5, split="efcp").fit(P, Y, classes=["crane", "crane"])
    assert cp.predict_set(P).classes == ["crane", "crane"]
