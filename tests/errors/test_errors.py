"""Bad input raises InvalidInput in one whole sentence: what, where, got, allowed, the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import conformix as cx
from conformix.scores import SCORES
from conformix.search import landscape, search_weights, simplex_grid
from conformix.splits import ValidityFirst

P = np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])
Y = np.array([0, 1, 0])
S = cx.score_tensor(P)
SPLIT_WORDS = "batch (dlcp), batch+ (dlcp+), all-rows (efcp), exact, holdout (vfcp)"
LOGITS = 'if these are logits, say kind="logits"'


def average(**options: Any) -> cx.ScoreAverage:
    return cx.ScoreAverage(**{"scores": "paper", "alpha": 0.5, "split": "efcp", **options})


def fit(outputs: Any = P, y: Any = Y, **options: Any) -> cx.ScoreAverage:
    given = {key: options.pop(key) for key in ("test", "groups") if key in options}
    return average(**options).fit(outputs, y, **given)


def search(scores: Any = S, y: Any = Y, **options: Any) -> object:
    return search_weights(scores, y, **{"alpha": 0.5, "resolution": 2, **options})


def long_row(*values: float) -> np.ndarray:
    """Many good rows with one bad row far down, beyond the first block of rows."""
    rows = np.full((600_000, 2), 0.5, dtype=np.float32)
    rows[-2] = values
    return rows


CASES: list[tuple[str, Callable[[], object], str]] = [
    # outputs
    ("nan", lambda: fit([[0.5, 0.5], [np.nan, 1]], [0, 0]),
     "outputs must be finite; row 1, label 0 is nan."),
    ("inf", lambda: fit([[0.5, 0.5], [0, np.inf]], [0, 0], kind="logits"),
     "outputs must be finite; row 1, label 1 is inf."),
    ("nan in a late block", lambda: cx.score_tensor(long_row(0.5, np.nan)),
     "outputs must be finite; row 599998, label 1 is nan."),
    ("negative", lambda: fit([[0.5, 0.5], [-0.25, 1.25]], [0, 0]),
     "outputs must hold probabilities between 0 and 1; row 1, label 0 is -0.25; " + LOGITS + "."),
    ("above one", lambda: fit([[0.5, 0.5], [0.0, 1.25]], [0, 0]),
     "outputs must hold probabilities between 0 and 1; row 1, label 1 is 1.25; " + LOGITS + "."),
    ("sums", lambda: fit([[0.5, 0.5], [0.25, 0.5]], [0, 0]),
     "outputs must be a (n, K) matrix whose rows sum to 1; row 1 sums to 0.75; " + LOGITS + "."),
    ("sum in a late block", lambda: cx.score_tensor(long_row(0.5, 0.25)),
     "outputs must be a (n, K) matrix whose rows sum to 1; row 599998 sums to 0.75; "
     + LOGITS + "."),
    ("one dimension", lambda: fit([0.5, 0.5], [0, 0]),
     "outputs must be a (n, K) matrix; got shape (2,); the probability of one of two classes is "
     'kind="binary", and one row is x[None].'),
    ("three dimensions", lambda: fit(np.zeros((2, 2, 2))),
     "outputs must be a (n, K) matrix; got shape (2, 2, 2)."),
    ("text", lambda: fit(np.array([["a", "b"]])),
     "outputs must hold real numbers; got dtype <U1."),
    ("objects", lambda: fit(np.array([[None, 1]])),
     "outputs must hold real numbers; got dtype object."),
    ("log-probabilities", lambda: fit(np.log([[0.75, 0.25]] * 3)),
     "outputs must hold probabilities between 0 and 1; row 0, label 0 is -0.287682; if these are "
     'log-probabilities, say kind="logprobs".'),
    ("records", lambda: fit([{"a": 0.5, "b": 0.5}] * 3),
     "outputs must hold real numbers; got dtype object; records by class are a table, "
     "pandas.DataFrame(rows)."),
    ("complex", lambda: fit(P.astype(complex)),
     "outputs must hold real numbers; got dtype complex128."),
    ("truth values", lambda: fit(np.eye(2, dtype=bool)),
     "outputs must hold real numbers; got dtype bool."),
    ("nothing", lambda: fit(None), "outputs must hold real numbers; got dtype object."),
    ("ragged", lambda: fit([[0.5, 0.5], [1.0]], [0, 0]),
     ("outputs must be a rectangular array; got rows of unequal length (fill up outputs of labels "
      "that a row does not have with probability 0, or with logits of -inf).")),
    ("no rows", lambda: fit(np.zeros((0, 3)), []),
     "outputs must not be empty; got shape (0, 3)."),
    ("no classes", lambda: fit(np.zeros((3, 0)), [0, 0, 0]),
     "outputs must not be empty; got shape (3, 0)."),
    ("no models", lambda: fit({}), "outputs is an empty mapping; give at least one model."),
    ("models of two shapes", lambda: fit({"a": P, "b": P[:2]}),
     "outputs of several models must share one shape (n, K); got 'a' (3, 2), 'b' (2, 2)."),
    ("one bad model", lambda: fit({"a": P, "b": P + 1}),
     "outputs['b'] must hold probabilities between 0 and 1; row 0, label 0 is 1.5; "
     + LOGITS + "."),
    ("kind", lambda: fit(kind="prob"),
     'kind must be "probs", "logits", "logprobs", "shares" or "binary"; got \'prob\'.'),
    # fit and predict
    ("classes at predict", lambda: fit().predict_set([[0.5, 0.25, 0.25]]),
     "outputs must have the 2 fitted classes; got 3."),
    ("classes at recalibrate", lambda: fit().recalibrate([[0.5, 0.25, 0.25]], [0]),
     "outputs must have the 2 fitted classes; got 3."),
    ("classes of test", lambda: fit(split="dlcp", test=[[0.5, 0.25, 0.25]]),
     "test must have the 2 fitted classes; got 3."),
    ("other models", lambda: fit({"a": P, "b": P}).predict_set({"a": P, "c": P}),
     "outputs must come from the fitted models ['a', 'b']; got ['a', 'c']."),
    ("a mapping after one array", lambda: fit().predict_set({"a": P}),
     "outputs must come from the fitted models one array; got ['a']."),
    ("one array after a mapping", lambda: fit({"a": P, "b": P}).predict_set(P),
     "outputs must come from the fitted models ['a', 'b']; got one array."),
    ("bad test", lambda: fit(split="dlcp", test=P + 1),
     "test must hold probabilities between 0 and 1; row 0, label 0 is 1.5; " + LOGITS + "."),
    ("bad rows at predict", lambda: fit().predict_set([[0.5, np.nan]]),
     "outputs must be finite; row 0, label 1 is nan."),
    *[
        (f"no test for {name}", lambda name=name: fit(split=name),
         (f'split "{name}" counts sizes on the test rows; pass them: '
         "fit(outputs, y, test=test_outputs)."))
        for name in ("dlcp", "dlcp+")
    ],
    # labels
    ("label too large", lambda: fit(y=[0, 2, 0]), "y must hold class indices 0..1; row 1 holds 2."),
    ("label negative", lambda: fit(y=[0, 1, -1]),
     "y must hold class indices 0..1; row 2 holds -1."),
    ("label float", lambda: fit(y=[0.0, 1.0, 0.0]),
     ("y must hold integer class indices 0..1; got float64 (convert with "
     "astype(int)).")),
    ("label text", lambda: fit(y=["a", "b", "a"]),
     ("y must hold integer class indices 0..1; got <U1 (name the columns, fit(..., "
     "classes=[...])).")),
    ("label truth value", lambda: fit(y=[True, False, True]),
     ("y must hold integer class indices 0..1; got bool (convert with "
     "astype(int)).")),
    ("too few labels", lambda: fit(y=[0]), "y must hold one label per row; got 1 for 3 rows."),
    ("labels in a column", lambda: fit(y=[[0], [1], [0]]),
     "y must be one label per row, shape (n,); got (3, 1)."),
    ("no labels", lambda: fit(y=None), "y should be a 1d array of labels, one per row; got None."),
    # levels
    ("alpha of fit", lambda: fit(alpha=1.0),
     "alpha must be a number strictly between 0 and 1; got 1.0."),
    ("alpha of predict", lambda: fit().predict_set(P, alpha=0),
     "alpha must be a number strictly between 0 and 1; got 0."),
    ("alpha of a search", lambda: search(alpha=-1),
     "alpha must be a number strictly between 0 and 1; got -1."),
    # names
    ("score", lambda: fit(scores=("thr", "appps")),
     f"unknown score 'appps'; did you mean 'aps'? known: {', '.join(SCORES)}."),
    ("score of no name", lambda: fit(scores=("thr", 5)),
     "a score is a name, a Score object or a function; got int."),
    ("score given twice", lambda: fit(scores=("thr", "rank", "thr")),
     "scores must differ; thr is given twice."),
    ("no scores", lambda: fit(scores=()), "scores must name at least one score; got ()."),
    ("split", lambda: fit(split="vcfp"),
     f"unknown split 'vcfp'; did you mean 'vfcp'? known: {SPLIT_WORDS}."),
    ("split in plain words", lambda: fit(split="hold-out"),
     f"unknown split 'hold-out'; did you mean 'holdout'? known: {SPLIT_WORDS}."),
    ("no split", lambda: fit(split=None),
     f"split must be one of {SPLIT_WORDS}, or a split object; got None."),
    ("data set", lambda: cx.datasets.load("cifar1000"),
     ("unknown data set 'cifar1000'; did you mean 'cifar100'? known: "
     f"{', '.join(cx.datasets.names())}.")),
    # splits and groups
    ("short groups", lambda: fit(split="vfcp", groups=[1, 2]),
     "groups must hold one value per row, shape (3,); got (2,)."),
    ("one group", lambda: fit(split="vfcp", groups=[1, 1, 1]),
     'a split in two needs at least 2 groups, one to tune and one to calibrate; got 1.'),
    ("one row", lambda: fit(P[:1], Y[:1], split="vfcp"),
     'a split in two needs at least 2 rows, one to tune and one to calibrate; got 1.'),
    ("share", lambda: fit(split=ValidityFirst(share=1)),
     "share must lie strictly between 0 and 1; got 1."),
    # search
    ("threads zero", lambda: search(threads=0),
     "threads must be a positive integer or None; got 0."),
    ("threads half", lambda: search(threads=1.5),
     "threads must be a positive integer or None; got 1.5."),
    ("threads of fit", lambda: fit(threads=-1),
     "threads must be a positive integer or None; got -1."),
    ("resolution zero", lambda: landscape(S, Y, alpha=0.5, resolution=0),
     "resolution must be a positive integer; got 0."),
    ("resolution half", lambda: search(resolution=2.5),
     "resolution must be a positive integer; got 2.5."),
    ("resolution true", lambda: simplex_grid(3, True),
     "resolution must be a positive integer; got True."),
    ("grid too large", lambda: search(np.zeros((3, 2, 6)), resolution=100),
     ("a grid of resolution 100 over 6 scores has 96,560,646 weights, more than 20,000,000; lower "
     "the resolution or average fewer scores.")),
    ("search of no kind", lambda: search(search=None),
     ("search must be a name, a search strategy or an array of weights of shape (m, d); got "
     "None.")),
    ("candidates of wrong width", lambda: search(search=[[1.0, 0.0]]),
     "candidate weights must have shape (m, 3), one column per score; got (1, 2)."),
    ("no candidates", lambda: search(search=np.zeros((0, 3))),
     "candidate weights must have shape (m, 3), one column per score; got (0, 3)."),
    ("infinite candidates", lambda: search(search=[[1.0, np.inf, 0.0]]),
     "candidate weights must be finite; got NaN or inf."),
    ("weights of wrong shape", lambda: fit(weights=[0.5, 0.5]),
     "weights must hold one number per score, shape (3,); got shape (2,)."),
    ("weights in a matrix", lambda: fit(weights=[[0.5, 0.5, 0.0]]),
     "weights must hold one number per score, shape (3,); got shape (1, 3)."),
    ("weights that do not sum to one", lambda: fit(weights=[0.5, 0.5, 0.5]),
     ("weights must be non-negative and sum to 1; got [0.5, 0.5, 0.5], which sum to 1.5 (divide by "
     "the sum, or give other weights as search candidates).")),
    ("negative weights", lambda: fit(weights=[1.5, -0.5, 0.0]),
     ("weights must be non-negative and sum to 1; got [1.5, -0.5, 0.0], which sum to 1 (divide by "
     "the sum, or give other weights as search candidates).")),
    ("weights not finite", lambda: fit(weights=[1, 0, np.nan]),
     ("weights must be non-negative and sum to 1; got [1.0, 0.0, nan], which sum to nan (divide by "
     "the sum, or give other weights as search candidates).")),
    ("a learnt scale beside fixed weights", lambda: fit(weights=[1, 0, 0], normalize="ecdf"),
     ('normalize="ecdf" learns from tuning rows, and fixed weights leave none; say '
     'normalize="scale", or search the weights.')),
    ("normalisation", lambda: fit(normalize="ecfd"),
     "unknown normalize 'ecfd'; did you mean 'ecdf'? known: auto, ecdf, none, scale."),
    # bare score tensors
    ("flat scores", lambda: search(np.zeros((3, 2))),
     "scores must be an array of shape (n, K, d); got shape (3, 2)."),
    ("empty scores", lambda: search(np.zeros((3, 2, 0))),
     "scores must not be empty; got shape (3, 2, 0)."),
    ("nan scores", lambda: search(np.where(S[1, 1, 0] == S, np.nan, S)),
     "scores must be finite; row 1, label 1, score 0 is nan."),
    ("size scores of other classes", lambda: search(size_scores=np.zeros((1, 3, 3))),
     "size_scores must have shape (m, 2, 3) like scores; got (1, 3, 3)."),
    ("infinite size scores", lambda: search(size_scores=np.full((1, 2, 3), np.inf)),
     "size_scores must be finite; row 0, label 0, score 0 is inf."),
    # a user's own score
    ("own score of wrong shape", lambda: cx.score_tensor(P, np.ravel),
     "score ravel must return one number per label, shape (3, 2); got shape (6,)."),
    ("own score not finite", lambda: cx.score_tensor(P, lambda p: p * np.nan),
     "score <lambda> must return finite numbers; it returned NaN or inf."),
    # sets
    ("mask of numbers", lambda: cx.PredictionSets([[1, 0]]),
     "mask must be a boolean (n, K) array; got int64 of shape (1, 2)."),
    ("mask of one row", lambda: cx.PredictionSets([True, False]),
     "mask must be a boolean (n, K) array; got bool of shape (2,)."),
    ("classes of wrong number", lambda: cx.PredictionSets([[True]], classes=["a", "b"]),
     "classes must name all 1 columns; got 2 names."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("act", "sentence"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
@pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")
def test_bad_input_is_refused_in_one_sentence(act: Callable[[], object], sentence: str) -> None:
    with pytest.raises(cx.InvalidInput) as caught:
        act()
    assert str(caught.value) == sentence


def test_invalid_input_is_a_value_error() -> None:
    assert issubclass(cx.InvalidInput, ValueError)


def test_not_fitted_is_a_value_error_and_an_attribute_error() -> None:
    assert issubclass(cx.NotFitted, ValueError)
    assert issubclass(cx.NotFitted, AttributeError)


@pytest.mark.parametrize(
    "use",
    [
        lambda cp: cp.predict_set(P),
        lambda cp: cp.predict_pvalues(P),
        lambda cp: cp.recalibrate(P, Y),
        lambda cp: cp.weights_,
        lambda cp: cp.threshold_,
        lambda cp: cp.guarantee_,
        lambda cp: cp.search_,
        lambda cp: cp.held_out_size_,
    ],
)
def test_use_before_fit_is_refused_in_one_sentence(use: Callable[[Any], object]) -> None:
    with pytest.raises(cx.NotFitted) as caught:
        use(cx.ScoreAverage("paper"))
    assert str(caught.value) == "this ScoreAverage is not fitted yet; call fit(outputs, y) first."


def test_fitted_attributes_are_absent_before_fit() -> None:
    assert not hasattr(cx.ScoreAverage("paper"), "weights_")
    assert not hasattr(cx.ScoreAverage("paper"), "score_names_")


@pytest.mark.parametrize("split", ["vfcp", "efcp", "dlcp", "dlcp+"])
def test_a_failed_fit_leaves_the_earlier_fit_intact(split: str, cifar10: tuple) -> None:
    logits, y = cifar10[0][:400], cifar10[1][:400]
    cp = cx.ScoreAverage(("thr", "rank"), split=split, kind="logits", random_state=0)
    cp.set_params(search=[[0.5, 0.5], [1.0, 0.0]]).fit(logits, y, test=logits)
    weights, t, sets = cp.weights_, cp.threshold_, np.asarray(cp.predict_set(logits))
    three_classes = logits[:, :3]
    for outputs, labels, options in [
        (logits, y[:-1], {}),
        (np.full_like(logits, np.nan), y, {}),
        (three_classes, y, {}),
        (three_classes, y % 3, {"search": [[1.0]]}),
        (three_classes, y % 3, {"scores": ("thr", lambda p: p * np.nan)}),
    ]:
        before = cp.get_params()
        cp.set_params(**options)
        with pytest.raises(cx.InvalidInput):
            cp.fit(outputs, labels, test=outputs)
        cp.set_params(**before)
    np.testing.assert_array_equal(cp.weights_, weights)
    assert cp.threshold_ == t
    assert cp.score_names_ == ("thr", "rank")
    np.testing.assert_array_equal(cp.predict_set(logits), sets)


def test_a_failed_recalibration_leaves_the_earlier_fit_intact() -> None:
    cp = fit()
    t, kept = cp.threshold_, cp.search_
    with pytest.raises(cx.InvalidInput):
        cp.recalibrate(P, [0, 1, 2])
    assert cp.threshold_ == t
    assert cp.search_ is kept


# Warnings: valid input that cannot give a useful answer.


def test_too_few_rows_warn_with_the_smallest_number_that_would_do() -> None:
    sentence = (
        r"^alpha=0\.05 needs at least 19 calibration rows for a finite threshold; got 3, 16 too "
        r"few: every set holds all labels\.$"
    )
    with pytest.warns(cx.TrivialSetsWarning, match=sentence):
        cp = fit(alpha=0.05, weights=[1, 0, 0])
    assert cp.threshold_ == -np.inf
    assert np.asarray(cp.predict_set(P)).all()
    with pytest.warns(cx.TrivialSetsWarning, match=sentence):
        cx.conformal.threshold(np.array([0.1, 0.2, 0.3]), alpha=0.05)
    with pytest.warns(cx.TrivialSetsWarning, match=sentence):
        fit(weights=[1, 0, 0]).predict_set(P, alpha=0.05)


def test_too_few_tuning_rows_warn_and_take_the_weights_closest_to_uniform() -> None:
    sentence = (
        r"^alpha=0\.05 needs at least 19 tuning rows for a finite threshold; got 3, 16 too few: "
        r"all weights tie, and the uniform ones are taken\.$"
    )
    with pytest.warns(cx.TrivialSetsWarning, match=sentence):
        cp = fit(tune_alpha=0.05, scores=("thr", "rank"))
    np.testing.assert_array_equal(cp.weights_, [0.5, 0.5])


def test_just_enough_rows_do_not_warn() -> None:
    rows = np.tile([[0.25, 0.75]], (9, 1))
    assert fit(rows, np.ones(9, dtype=int), alpha=0.1).threshold_ > -np.inf


@pytest.mark.parametrize("split", ["dlcp", "dlcp+"])
def test_a_small_test_batch_warns_and_says_what_to_use(split: str) -> None:
    sentence = (
        rf'^split "{split.replace("+", "[+]")}" fits its weights to a test batch of only 3 rows; '
        r'below 100 its coverage can fall well short, use "all-rows" \(efcp\) or '
        r'"holdout" \(vfcp\)\.$'
    )
    with pytest.warns(cx.SmallBatchWarning, match=sentence):
        fit(split=split, test=P)


@pytest.mark.parametrize("split", ["dlcp", "dlcp+"])
def test_a_batch_of_a_hundred_rows_does_not_warn(split: str) -> None:
    fit(split=split, test=np.tile([[0.25, 0.75]], (100, 1)))


def test_all_warnings_share_one_parent() -> None:
    for category in (cx.TrivialSetsWarning, cx.SmallBatchWarning):
        assert issubclass(category, cx.ConformixWarning)
    assert issubclass(cx.ConformixWarning, UserWarning)
