"""Saved models come back bit for bit, and a bad file gets one sentence."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.calibration import PerClass
from conformix.errors import InvalidInput
from conformix.search import GridSearch, LineSearch, OneStandardError
from conformix.splits import Exact, ValidityFirst

DATA = cx.datasets.load("cifar10")
LOGITS, LABELS = DATA.outputs["vgg16"][:900], DATA.labels[:900]
CAL, TEST = LOGITS[:600], LOGITS[600:]
BOTH = {name: DATA.outputs[name][:900] for name in ("vgg16", "lenet5")}


def model(**options):
    options = {
        "alpha": 0.1,
        "kind": "logits",
        "random_state": 3,
        "search": GridSearch(10),
    } | options
    return cx.ScoreAverage(**{"scores": "paper", **options})


RECIPES = {
    "plain": {},
    "ecdf": {"normalize": "ecdf"},
    "scale": {"normalize": "scale", "scores": ("logp", "margin", "-entropy")},
    "widths": {"normalize": [1.0, 2.0, 3.0]},
    "efcp": {"split": "efcp"},
    "share": {"split": ValidityFirst(share=0.3), "tune_alpha": 0.08},
    "randomised": {"scores": ("raps(randomized=True, penalty=0.01)", "thr(temperature=2.5)")},
    "non-empty": {"allow_empty": False},
    "fixed weights": {"weights": [0.5, 0.25, 0.25]},
    "candidates": {"search": [[1.0, 0.0, 0.0], [1.0, -0.1, 0.1]]},
    "by name": {"search": "auto"},
    "exact": {"split": "exact"},
    "exact, shortlist": {"split": Exact(shortlist=20), "normalize": "ecdf"},
    "exact, non-empty": {"split": "exact", "allow_empty": False, "alpha": 0.4},
}


@pytest.mark.parametrize("recipe", list(RECIPES))
def test_a_loaded_model_predicts_the_same_bit_for_bit(recipe, tmp_path):
    cp = model(**RECIPES[recipe]).fit(CAL, LABELS[:600])
    cp.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json")
    cx.testing.assert_same_sets(again.predict_set(TEST), cp.predict_set(TEST))
    cx.testing.assert_same_sets(again.predict_set(TEST, alpha=0.3), cp.predict_set(TEST, alpha=0.3))
    assert_array_equal(again.predict_pvalues(TEST), cp.predict_pvalues(TEST))
    assert_array_equal(
        again.predict_pvalues(TEST, smoothed=True), cp.predict_pvalues(TEST, smoothed=True)
    )
    assert_array_equal(again.weights_, cp.weights_)
    assert (again.score_names_, again.guarantee_) == (cp.score_names_, cp.guarantee_)
    assert repr(again.search_) == repr(cp.search_)


@pytest.mark.parametrize("recipe", list(RECIPES))
def test_a_loaded_model_can_be_fitted_again_with_the_same_result(recipe, tmp_path):
    cp = model(**RECIPES[recipe]).fit(CAL, LABELS[:600])
    cp.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json").fit(CAL, LABELS[:600])
    assert_array_equal(again.weights_, cp.weights_)
    cx.testing.assert_same_sets(again.predict_set(TEST), cp.predict_set(TEST))


@pytest.mark.parametrize("scores", [("thr", "rank"), ("vgg16.thr", "lenet5.rank", "lenet5.thr")])
def test_models_keep_their_names(scores, tmp_path):
    cp = model(scores=scores).fit(BOTH, LABELS)
    cp.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json")
    assert again.score_names_ == cp.score_names_
    cx.testing.assert_same_sets(again.predict_set(BOTH), cp.predict_set(BOTH))
    assert again.fit(BOTH, LABELS).score_names_ == cp.score_names_


def test_arrays_of_another_save_stay_until_it_is_done(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    fit = model().fit(CAL, LABELS[:600])
    others = tmp_path / "model.json.0123456789ab.npz"
    others.write_bytes(b"")
    saves = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(saves, fcntl.LOCK_SH)  # as a save does until its JSON is written
    fit.save(tmp_path / "model.json")
    assert others.exists()
    os.close(saves)
    fit.save(tmp_path / "model.json")
    assert not others.exists()


def test_large_arrays_go_to_an_npz_beside_the_json(tmp_path):
    logits = DATA.outputs["vgg16"]
    cp = model(split=Exact(), search=GridSearch(4)).fit(logits[:2000], DATA.labels[:2000])
    cp.save(tmp_path / "model.json")
    beside = next(path for path in tmp_path.iterdir() if path.suffix == ".npz")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["model.json", beside.name])
    cx.testing.assert_same_sets(
        cx.load(tmp_path / "model.json").predict_set(TEST), cp.predict_set(TEST)
    )
    whole = beside.read_bytes()
    beside.write_bytes(b"something else")
    with pytest.raises(InvalidInput, match=r"\.npz is not the file that was saved with this model"):
        cx.load(tmp_path / "model.json")
    beside.unlink()
    with pytest.raises(InvalidInput, match=r"\.npz, which holds the arrays .* is missing"):
        cx.load(tmp_path / "model.json")
    beside.write_bytes(whole)
    model().fit(CAL, LABELS[:600]).save(tmp_path / "model.json")
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]  # the old arrays are gone


def test_models_whose_names_differ_in_the_suffix_do_not_share_their_arrays(tmp_path):
    logits = DATA.outputs["vgg16"]
    one = model(split="exact", search=GridSearch(2)).fit(logits[:2000], DATA.labels[:2000])
    two = model(split="exact", search=GridSearch(2)).fit(logits[2000:4000], DATA.labels[2000:4000])
    one.save(tmp_path / "run.1")
    two.save(tmp_path / "run.2")
    for saved, name in ((one, "run.1"), (two, "run.2")):
        cx.testing.assert_same_sets(
            cx.load(tmp_path / name).predict_set(TEST), saved.predict_set(TEST)
        )


def test_saving_removes_no_arrays_of_a_model_whose_name_looks_alike(tmp_path):
    exact = model(split="exact", search=GridSearch(2)).fit(
        DATA.outputs["vgg16"][:2000], DATA.labels[:2000]
    )
    names = ["run.json", "run_json", "run.json.json", "my run.json", "runs.json", "[r]"]
    for name in names:
        exact.save(tmp_path / name)
    for name in names:  # every save removes what is left of earlier ones, and of no other model
        exact.save(tmp_path / name)
        assert len(list(tmp_path.iterdir())) == 2 * len(names)


def test_options_given_as_numpy_numbers_survive(tmp_path):
    cp = model(
        scores=(cx.scores.Thr(np.float64(2)), "rank"),
        search=GridSearch(np.int64(5)),
        split=Exact(shortlist=np.int64(4)),
        normalize=cx.normalize.NaturalScale((1.0, 2.0)),
    ).fit(CAL, LABELS[:600])
    cp.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json")
    assert again.score_names_ == ("thr(temperature=2.0)", "rank")
    cx.testing.assert_same_sets(
        again.fit(CAL, LABELS[:600]).predict_set(TEST), cp.predict_set(TEST)
    )


def damage(path, place, value):
    """Put another value at one place of a model file."""
    document = json.loads(path.read_text())
    node = document
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    path.write_text(json.dumps(document))


HOSTILE = {
    "no candidates": (
        ("predictor", "fitted", "weights"),
        {"dtype": "float64", "shape": [0, 3], "data": []},
    ),
    "labels out of range": (("predictor", "fitted", "y", "data", 0), -1),
    "a score too few": (("predictor", "columns"), [["", "thr"]]),
    "no scores": (("predictor", "columns"), []),
    "an unknown model": (("predictor", "columns", 0, 0), "other"),
    "a huge number": (("predictor", "key"), 10**400),
    "no level": (("params", "alpha"), "abc"),
    "a level outside": (("predictor", "alpha"), 1.5),
    "a deep option": (("predictor", "columns", 0, 1), "thr(temperature=" + "-" * 100_000 + "1)"),
    "a list as option": (("predictor", "columns", 0, 1), "thr(temperature=[[1]])"),
    "a scale of infinity": (("predictor", "fitted", "transform"), {"factors": [1.0, 1.0, 1e999]}),
}


@pytest.mark.parametrize("case", list(HOSTILE))
def test_a_hostile_model_file_is_refused_before_anything_is_computed(case, tmp_path):
    model(split="exact").fit(CAL[:60], LABELS[:60]).save(tmp_path / "model.json")
    damage(tmp_path / "model.json", *HOSTILE[case])
    with pytest.raises(InvalidInput):
        cx.load(tmp_path / "model.json")


RULE = {
    "NaN weights": (("predictor", "fitted", "weights", "data", 0), float("nan")),
    "unsorted knots": (("predictor", "fitted", "transform", "curves", 0, 0, "data", 0), 9.0),
    "an impossible union": (("predictor", "fitted", "facts", "rank", "n_weights"), -5),
    "an empty calibration": (
        ("predictor", "fitted", "calibration"),
        {"dtype": "float64", "shape": [0], "data": []},
    ),
    "a calibration of integers": (("predictor", "fitted", "calibration", "dtype"), "int64"),
    "an unknown split": (("predictor", "fitted", "facts", "split"), "sure"),
}


@pytest.mark.parametrize("case", list(RULE))
def test_a_damaged_rule_is_refused(case, tmp_path):
    model(normalize="ecdf").fit(CAL[:60], LABELS[:60]).save(tmp_path / "model.json")
    damage(tmp_path / "model.json", *RULE[case])
    with pytest.raises(InvalidInput):
        cx.load(tmp_path / "model.json")


def test_the_guarantee_is_worked_out_again_not_read(tmp_path):
    model(split="efcp").fit(CAL[:60], LABELS[:60]).save(tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text().replace("approximate", "exact")
    (tmp_path / "model.json").write_text(text)
    assert cx.load(tmp_path / "model.json").guarantee_.kind == "approximate"


SERVE = """
import sys
import numpy as np, conformix as cx
served = cx.load_predictor({path!r})
served.predict_set(np.zeros((1, 10))); served.predict_set(np.zeros((1, 10)), [0.1, 0.3])
served.predict_pvalues(np.zeros((1, 10)))
heavy = {{"numba", "scipy", "sklearn", "torch", "pandas", "matplotlib"}} & set(sys.modules)
assert heavy == {expected!r}, ({path!r}, heavy)
"""


def test_a_loaded_predictor_needs_numpy_alone(tmp_path):
    code = ""  # one interpreter: what loads more is the first whose assertion fails
    for recipe in ("ecdf", "efcp", "fixed weights", "non-empty", "randomised"):
        path = tmp_path / f"{recipe}.json"
        model(**RECIPES[recipe]).fit(CAL, LABELS[:600]).save(path)
        code += SERVE.format(path=str(path), expected=set())
    in_a_fresh_interpreter(code)


@pytest.mark.parametrize("calls", [1, 200])
def test_a_loaded_predictor_of_the_exact_split_loads_numba_when_much_is_asked(calls, tmp_path):
    model(split="exact").fit(CAL[:60], LABELS[:60]).save(tmp_path / "model.json")
    many = f"for _ in range({calls}): served.predict_set(np.zeros((1, 10)))"
    code = SERVE.replace("served.predict_set(np.zeros((1, 10)), [0.1, 0.3])", f"\n{many}")
    code = code.format(path=str(tmp_path / "model.json"), expected=0)
    seen = "'numba' in heavy" if calls > 1 else "heavy == set()"
    in_a_fresh_interpreter(code.replace("heavy == 0", f"{seen} and 'sklearn' not in heavy"))


def in_a_fresh_interpreter(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_loaded_predictor_answers_as_the_model_does(tmp_path):
    names = [f"class {k}" for k in range(10)]
    cp = model().fit(CAL, LABELS[:600], classes=names)
    cp.save(tmp_path / "model.json")
    served = cx.load_predictor(tmp_path / "model.json")
    cx.testing.assert_same_sets(served.predict_set(TEST), cp.predict_set(TEST))
    assert served.predict_set(TEST).members() == cp.predict_set(TEST).members()
    assert served.predict_set(TEST).classes == names
    cx.testing.assert_same_sets(served.predict_set(TEST, 0.2), cp.predict_set(TEST, alpha=0.2))
    assert_array_equal(served.predict_pvalues(TEST), cp.predict_pvalues(TEST))


@pytest.mark.parametrize(
    ("place", "where"),
    [
        (("later",), "contents"),
        (("params", "later"), "params"),
        (("predictor", "later"), "predictor"),
        (("predictor", "fitted", "later"), "fitted rule"),
    ],
)
def test_a_field_of_a_later_version_is_refused_not_passed_over(place, where, tmp_path):
    model().fit(CAL[:60], LABELS[:60]).save(tmp_path / "model.json")
    damage(tmp_path / "model.json", place, 1)
    sentence = rf"its {where} hold 'later', which this version does not know\)\.$"
    with pytest.raises(InvalidInput, match=sentence):
        cx.load(tmp_path / "model.json")


def test_what_cannot_be_saved_is_refused_and_leaves_no_file(tmp_path):
    cp = model(scores=("thr", np.sqrt)).fit(CAL - CAL.min() + 0.0, LABELS[:600])
    with pytest.raises(InvalidInput, match=r"^score sqrt is a function of your own, which a model"):
        cp.save(tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(cx.NotFitted):
        model().save(tmp_path / "model.json")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\x80\x04\x95pickle", r"is no JSON; expected a model written by save\(\)\.$"),
        (b"[1, 2]", r"is no conformix model\.$"),
        (b'{"format": "conformix model", "schema": 99, "version": "9.0"}',
         r"has schema 99, and conformix .* reads schemas 1 to \d+; load it with conformix 9\.0\.$"),
        (b'{"format": "conformix model", "schema": true, "version": "1"}', r"has schema True, and"),
        (b'{"format": "conformix model", "schema": 1}', r"is a damaged model file \(KeyError"),
        (b"[" * 100_000, r"is no JSON"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_model_says_so(content, sentence, tmp_path):
    (tmp_path / "model.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=sentence):
        cx.load(tmp_path / "model.json")


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(InvalidInput, match=r"nothing\.json does not exist or is no file\.$"):
        cx.load(tmp_path / "nothing.json")


def test_every_damaged_field_is_refused_in_our_own_words(tmp_path):
    model(normalize="ecdf").fit(CAL[:60], LABELS[:60]).save(tmp_path / "model.json")
    whole = json.loads((tmp_path / "model.json").read_text())

    def places(node, path=()):
        if isinstance(node, dict):
            for key, value in node.items():
                yield (*path, key)
                yield from places(value, (*path, key))

    for place in places(whole):
        damaged = json.loads(json.dumps(whole))
        node = damaged
        for key in place[:-1]:
            node = node[key]
        node[place[-1]] = {"unexpected": True}
        (tmp_path / "model.json").write_text(json.dumps(damaged))
        try:
            cx.load(tmp_path / "model.json").predict_set(TEST)
        except InvalidInput:
            continue
        except Exception as error:
            # Fields that say what was fitted are text for people; anything else must be checked.
            raise AssertionError(f"{place}: {error!r}") from error


@pytest.mark.parametrize("split", ["vfcp", "exact"])
def test_that_rows_came_in_groups_survives_the_file(split, tmp_path):
    data = cx.datasets.load("cifar10")
    logits, y = data.outputs["vgg16"][:200], data.labels[:200]
    cp = cx.ScoreAverage(kind="logits", split=split, search=GridSearch(4), random_state=0)
    cp.fit(logits, y, groups=np.arange(200) // 4).save(tmp_path / "model.json", remember=False)
    again = cx.load(tmp_path / "model.json")
    assert again.guarantee_.facts.grouped
    assert again.verdict(logits, (y + 1) % 10).word == "unknown"


class Hasty(LineSearch):
    """A search of somebody's own that ours is the base of."""


class Cautious(PerClass):
    """A calibration of somebody's own."""


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"search": Hasty(100, 1)},
            r"^search Hasty\(.*\) is not of this library, and can",
        ),
        (
            {"calibration": Cautious()},
            r"^calibration Cautious\(.*\) is not of this library, and can",
        ),
    ],
)
def test_what_only_descends_from_a_strategy_of_ours_is_not_saved_as_that_one(
    settings, sentence, tmp_path
):
    cp = model(**settings).fit(CAL, LABELS[:600])
    with pytest.raises(InvalidInput, match=sentence):
        cp.save(tmp_path / "model.json")


def test_candidates_within_another_search_come_back_from_a_file(tmp_path):
    search = OneStandardError([[1.0, 0.0, 0.0], [0.5, 0.25, 0.25]], n_draws=np.int64(7))
    model(search=search).fit(CAL[:60], LABELS[:60]).save(tmp_path / "model.json")
    loaded = cx.load(tmp_path / "model.json").search
    assert (loaded.n_draws, loaded.towards) == (7, "few")
    assert_array_equal(loaded.listed, search.listed)


def test_a_search_with_two_names_in_a_file_is_refused(tmp_path):
    model(search="line").fit(CAL[:60], LABELS[:60]).save(tmp_path / "model.json")
    damage(tmp_path / "model.json", ("params", "search"), {"line": {}, "auto": {}})
    with pytest.raises(InvalidInput, match=r"its params\.search hold 'auto', which this version"):
        cx.load(tmp_path / "model.json")


@pytest.mark.parametrize("known", [True, False])
def test_whether_ratios_of_classes_are_known_survives_the_file(known, tmp_path):
    """Known ratios promise the level exactly, estimated ones do not."""
    from conformix.calibration import LabelShift

    shift = LabelShift(tuple(0.5 + label / 10 for label in range(10)), known=known)
    cp = model(calibration=shift).fit(CAL, LABELS[:600])
    cp.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json")
    assert again.calibration == shift
    assert again.guarantee_.kind == ("exact" if known else "approximate")
    assert again.guarantee_.table() == cp.guarantee_.table()
    assert_array_equal(again.threshold_, cp.threshold_)
    for alpha in (0.02, 0.3):
        same = again.predict_set(TEST, alpha=alpha).members()
        assert same == cp.predict_set(TEST, alpha=alpha).members()
    fresh = [one.recalibrate(TEST, LABELS[600:]) for one in (cp, again)]
    assert_array_equal(fresh[0].threshold_, fresh[1].threshold_)
    assert fresh[1].guarantee_.kind == ("exact" if known else "approximate")
