"""Who comes from another library, or mixes things up, is told the word that is meant, in time."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

import conformix as cx
from cli.drawn import NAMES, draw, write_csv, write_files
from conformix.calibration import CALIBRATIONS
from conformix.cli.app import main
from conformix.scores import SCORES
from conformix.splits import SPLITS

P, Y = draw(31, 60)
X = np.random.default_rng(0).normal(size=(60, 3))


@pytest.mark.parametrize(
    ("registry", "word", "ours"),
    [
        (SCORES, "lac", "thr"),
        (SCORES, "LAC", "thr"),
        (SCORES, "top_k", "rank"),
        (SCORES, "top-k", "rank"),
        (SCORES, "hinge", "thr"),
        (CALIBRATIONS, "mondrian", "class"),
        (CALIBRATIONS, "class-conditional", "class"),
        (SPLITS, "full", "exact"),
        (SPLITS, "split", "holdout"),
    ],
)
def test_a_word_of_another_library_is_answered_and_not_guessed(
    registry: Any, word: str, ours: str
) -> None:
    with pytest.raises(cx.InvalidInput) as error:
        registry[word]
    assert f"unknown {registry.kind} {word!r}; did you mean {ours!r}? known: " in str(error.value)


CP = cx.ScoreAverage("thr").fit(P, Y)


@pytest.mark.parametrize(
    ("owner", "word", "ours"),
    [
        (cx, "SplitConformalClassifier", "ConformalClassifier"),
        (cx, "ClusteredPredictor", 'ScoreAverage(calibration="cluster")'),
        (cx.metrics, "coverage_rate", "coverage"),
        (cx.metrics, "classification_mean_width_score", "mean_size"),
        (cx.scores, "LAC", "Thr"),
        (CP, "predict_with_logits", "predict_set"),
        (CP, "calibrate", "fit, or recalibrate on fresh rows"),
        (cx.OnlineAverage("thr", kind="probs"), "predict_p", "predict_pvalues"),
        (cx.ConformalClassifier(GaussianNB()), "conformalize", "fit"),
        (cx.CrossConformalClassifier(GaussianNB()), "conformalize", "fit"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_name_of_another_library_is_told_what_it_is_here(
    owner: Any, word: str, ours: str
) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"{word!r}; here it is {ours}.")):
        getattr(owner, word)
    assert word not in dir(owner)
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        owner.nothing  # noqa: B018


def test_what_raises_an_attribute_error_of_its_own_keeps_its_words() -> None:
    with pytest.raises(AttributeError, match="not fitted yet"):
        cx.ConformalClassifier(GaussianNB()).guarantee_  # noqa: B018


def test_one_hot_labels_are_recognised() -> None:
    hint = r"got \(60, 4\); one-hot rows are y.argmax\(1\)\."
    with pytest.raises(cx.InvalidInput, match=hint):
        cx.ScoreAverage("thr").fit(P, np.eye(4)[Y])


LEVEL = "say alpha, the share of misses: 95 % coverage is alpha=0.05."


@pytest.mark.parametrize(
    ("estimator", "word", "hint"),
    [
        (cx.ScoreAverage, "confidence_level", LEVEL),
        (cx.ConformalClassifier, "confidence_level", LEVEL),
        (cx.CrossConformalClassifier, "confidence_level", LEVEL),
        (cx.CrossAverage, "confidence_level", LEVEL),
        (cx.ConformalClassifier, "conformity_score", "say scores."),
        (cx.ConformalClassifier, "estimator", "say estimators."),
        (cx.ScoreAverage, "randomstate", "did you mean 'random_state'?"),
    ],
)
def test_a_parameter_by_another_name_is_refused_with_ours(
    estimator: Any, word: str, hint: str
) -> None:
    with pytest.raises(cx.InvalidInput) as error:
        estimator(**{word: 1})
    assert isinstance(error.value, TypeError)  # as Python says it of any other function
    assert str(error.value) == f"{estimator.__name__} has no parameter {word!r}; {hint}"


def test_a_parameter_that_nobody_knows_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(TypeError, match=r"^ScoreAverage has no parameter 'zzz'; it has scores, al"):
        cx.ScoreAverage(zzz=1)


def test_estimators_of_ones_own_with_further_parameters_stay_possible() -> None:
    class Mine(cx.ConformalClassifier):
        def __init__(self, estimators: Any = None, *, alpha: float = 0.1, extra: int = 1) -> None:
            super().__init__(estimators, alpha=alpha)
            self.extra = extra

    assert clone(Mine(extra=3)).extra == 3


class Untrained(GaussianNB):
    """A classifier that fails if it is trained."""

    def fit(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("trained before the settings were checked")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"alpha": 5}, "alpha must be a number strictly between 0 and 1; got 5."),
        ({"alpha": 0.1, "calibration": "clas"}, "unknown calibration 'clas'"),
        ({"alpha": 0.1, "search": "gird"}, "gird"),
    ],
)
@pytest.mark.parametrize("kind", [cx.ConformalClassifier, cx.CrossConformalClassifier])
def test_settings_are_refused_before_any_training(
    kind: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(cx.InvalidInput, match=sentence):
        kind(Untrained(), **options).fit(X, Y)


def test_a_calibration_that_folds_cannot_share_is_refused_before_any_training() -> None:
    with pytest.raises(cx.InvalidInput, match="learns from rows outside a fold"):
        cx.CrossConformalClassifier(Untrained(), calibration="cluster").fit(X, Y)


def test_a_level_that_is_a_coverage_is_warned_of() -> None:
    sentence = (
        r"^alpha=0\.95 is a coverage of 0\.05: alpha is the share of misses, and 95 % coverage is "
        r"alpha=0\.05\.$"
    )
    folds = [cx.cross.Fold(P[:30], Y[:30]), cx.cross.Fold(P[30:], Y[30:])]
    with pytest.warns(cx.LargeAlphaWarning, match=sentence):
        cx.ScoreAverage("thr", alpha=0.95).fit(P, Y)
    with pytest.warns(cx.LargeAlphaWarning, match=sentence):
        cx.CrossAverage("thr", alpha=0.95).fit(folds)
    with pytest.warns(cx.LargeAlphaWarning, match="alpha=0.5 is a coverage of 0.5"):
        cx.ConformalClassifier(GaussianNB(), alpha=0.5).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cx.ScoreAverage("thr", alpha=0.49).fit(P, Y)


def test_too_few_rows_beside_rows_that_tune_name_the_split_that_spends_none() -> None:
    sentence = (
        r"^alpha=0\.05 needs at least 19 calibration rows for a finite threshold; got 10, 9 too "
        r'few: every set holds all labels; split="exact" calibrates on all 20 rows\.$'
    )
    with pytest.warns(cx.TrivialSetsWarning) as seen:
        cx.ScoreAverage("paper", alpha=0.05, random_state=0).fit(P[:20], Y[:20])
    assert any(re.match(sentence, str(one.message)) for one in seen)


@pytest.mark.parametrize(
    ("calibration", "way_out"),
    [
        ("class", 'calibration=PerClass(fallback="pooled"), or calibration="cluster".'),
        ("group", 'calibration=PerGroup(fallback="pooled").'),
    ],
)
def test_strata_with_too_few_rows_name_what_can_be_typed(calibration: str, way_out: str) -> None:
    strata = np.arange(60) % 20
    rows = {"strata": strata} if calibration == "group" else {}
    cp = cx.ScoreAverage("thr", alpha=0.02, calibration=calibration)
    with pytest.warns(cx.TrivialSetsWarning) as seen:
        cp.fit(P, Y, **rows)
    assert any(str(one.message).endswith(f"are never excluded; say {way_out}") for one in seen)
    typed = way_out.partition(", or")[0].rstrip(".").removeprefix("calibration=")
    assert eval(typed, dict(vars(cx.calibration))).fallback == "pooled"


def broken(path: Path, sums: float = 0.5) -> None:
    """Write a csv of which the third row sums to too little, after a blank line."""
    probs, labels = draw(3, 40)
    probs[2] *= sums
    write_csv(path, probs, labels)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], "", *lines[2:]]) + "\n")


def test_the_shell_names_lines_of_a_file_and_not_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    broken(tmp_path / "broken.csv")
    assert (tmp_path / "broken.csv").read_text().splitlines()[4].count(",") == len(NAMES)
    fit = ["fit", "broken.csv", "-o", "model.json"]
    assert main(fit) == 2
    assert "line 5 sums to 0.5" in capsys.readouterr().err
    assert main([*fit, "--part", "1:"]) == 2
    assert "line 5 sums to 0.5" in capsys.readouterr().err
    assert main(["fit", "calibration.csv", "-o", "model.json"]) == 0
    for command in (["predict"], ["evaluate"]):
        assert main([*command, "model.json", "broken.csv"]) == 2
        assert "line 5 sums to 0.5" in capsys.readouterr().err
    broken(tmp_path / "broken.csv", sums=0.995)
    assert main(fit) == 2
    assert "rounded too much: line 5 sums to 0.995" in capsys.readouterr().err
