"""`conformix.compare` on arrays: own scores, splits, searches and models beside the library's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import conformix as cx
from cli.drawn import NAMES, draw
from conformix.experiments import compare as compare_file

P, Y = draw(0, 240)
QUICK = {"runs": 3, "resolution": 4}


class Third:
    """A third of the rows tunes."""

    name, guarantee, needs_test = "third", cx.guarantees.EXACT, False

    def roles(
        self, n: int, n_test: int, rng: np.random.Generator, groups: object = None
    ) -> cx.splits.Roles:
        rows = rng.permutation(n)
        tune = np.sort(rows[: n // 3])
        return cx.splits.Roles(tune, tune, np.sort(rows[n // 3 :]))


def squared(probs: np.ndarray) -> np.ndarray:
    return probs**2


def halves(objective: object, rng: object) -> cx.search.SearchResult:
    return cx.search.GridSearch(2)(objective, rng)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def fitted() -> cx.ScoreAverage:
    return cx.ScoreAverage("paper", random_state=0).fit(*draw(5, 200))


@pytest.fixture(scope="module")
def found(fitted: cx.ScoreAverage) -> cx.experiments.compare.Comparison:  # type: ignore[name-defined]
    own = [squared, cx.scores.Thr(2.0), Third(), cx.search.GridSearch(3), halves, fitted]
    return cx.compare(P, Y, methods=["all", *own, cx.ScoreAverage(("thr", "rank"))], **QUICK)


def test_own_methods_stand_beside_all_of_the_library(found: object) -> None:
    names = {record["method"] for record in found.summary()}  # type: ignore[attr-defined]
    assert names >= {"thr", "aps", "rank", "raps", "saps", "average:vfcp", "auto:vfcp", "uniform",
                     "best-single:vfcp", "tuned-saps:vfcp", "majority-vote"}  # fmt: skip
    assert names >= {"squared", "thr(temperature=2.0)", "third", "GridSearch(resolution=3)",
                     "halves", "fitted model", "estimator"}  # fmt: skip


def test_it_prints_as_a_table_and_a_sentence(found: object) -> None:
    text = repr(found)
    assert text.startswith("alpha = 0.1\n\nmethod ")
    assert text.endswith(found.verdict.sentence)  # type: ignore[attr-defined]
    assert "Fitted before, for rows that had no part in it: fitted model." in text


def test_savings_are_paired_over_the_same_splits(found: object) -> None:
    """A rising function of a score has its sets, on every split."""
    sizes = found.results.values("squared", alpha=0.1)  # type: ignore[attr-defined]
    assert sizes.tolist() == found.results.values("thr", alpha=0.1).tolist()  # type: ignore[attr-defined]
    saving = found.results.saving("squared", "thr", alpha=0.1)  # type: ignore[attr-defined]
    assert (saving.low, saving.high) == (0.0, 0.0)


def test_every_method_can_be_had_and_fitted(found: object, fitted: cx.ScoreAverage) -> None:
    for record in found.summary():  # type: ignore[attr-defined]
        one = found.estimator(record["method"])  # type: ignore[attr-defined]
        if record["method"] == "fitted model":
            assert one is fitted
            continue
        assert one.alpha == 0.1
        assert one.kind == "probs"
        assert len(one.fit(P, Y).predict_set(P[:3])) == 3


def test_the_winner_is_the_method_of_the_verdict_and_ready_to_fit() -> None:
    rng = np.random.default_rng(0)
    good = np.clip(P + 0.3 * np.eye(4)[Y], 0, None)
    good /= good.sum(axis=1, keepdims=True)
    noise = rng.dirichlet(np.ones(4), size=len(Y))
    both = {"noise": noise, "good": good}
    mine = {"mine": cx.ScoreAverage("good.thr"), "noise.thr": "noise.thr"}
    found = cx.compare(both, Y, methods=mine, runs=4)
    assert found.verdict.method == "mine"
    assert found.verdict.baseline == "noise.thr"
    assert found.verdict.sentence.startswith("use mine: sets are ")
    assert found.winner.fit(both, Y).score_names_ == ("good.thr",)


def test_a_fitted_model_that_wins_is_the_winner(fitted: cx.ScoreAverage) -> None:
    found = cx.compare(P, Y, methods={"mine": fitted, "noise": lambda p: p * 0 + 1.0}, runs=3)
    assert found.verdict.method == "mine"
    assert found.winner is fitted


def test_arrays_have_the_numbers_that_their_file_has(tmp_path: Path) -> None:
    both = {"forest": P, "network": draw(4, 240)[0]}
    np.savez(tmp_path / "outputs.npz", labels=Y, **both)
    settings = {"scores": ("thr", "rank"), "runs": 2, "resolution": 3, "alpha": 0.2}
    held = cx.compare(both, Y, **settings)
    read = compare_file(str(tmp_path / "outputs.npz"), workers=1, **settings)
    assert held.summary() == read.summary()
    assert held.verdict == read.verdict
    assert read.winner.get_params() == held.winner.get_params()


def test_labels_may_be_names() -> None:
    named = np.array(NAMES)[Y]
    by_name = cx.compare(P, named, classes=NAMES, methods=["thr", "uniform"], runs=2)
    plain = cx.compare(P, Y, methods=["thr", "uniform"], runs=2)
    assert by_name.summary() == plain.summary()


def test_without_a_single_score_one_is_added_as_the_measure() -> None:
    found = cx.compare(P, Y, methods=["uniform"], runs=2)
    assert found.verdict.baseline == "thr"


def test_single_scores_alone_are_ranked() -> None:
    found = cx.compare(P, Y, methods=["thr", "rank"], runs=2)
    assert found.verdict.sentence == "use thr: the smallest of the single scores, guarantee exact."


def test_where_nothing_helps_the_sentence_names_what_was_tried() -> None:
    mine = cx.ScoreAverage(("rank", "margin"), weights=[1.0, 0.0], normalize="none")
    found = cx.compare(P, Y, methods={"mine": mine, "thr": "thr"}, runs=3)
    assert found.verdict.sentence.startswith("mine does not help here: its sets are ")
    assert found.winner.scores == ("thr",)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"methods": ["tuned-th"]}, "unknown method 'tuned-th'; did you mean 'tuned-thr'?"),
        ({"methods": [3]}, "a method is a name of conformix.experiments.method_names() or of a "),
        ({"methods": 3}, "methods must be a list or a mapping of methods; got 3."),
        ({"methods": [cx.ScoreAverage]}, "a method is a name of conformix.experiments.method_n"),
        ({"methods": ["thr"], "runs": 1}, "runs must be at least 2, for intervals over splits; "),
        ({"methods": ["thr"], "kind": "odds"}, "kind must be "),
        ({"methods": ["thr"], "folder": "x"}, "folder keeps the rows of methods that have names, "),
    ],
    ids=lambda part: str(part)[:30],
)
def test_what_cannot_be_compared_is_one_sentence(
    arguments: dict[str, object], sentence: str
) -> None:
    with pytest.raises(cx.InvalidInput) as caught:
        cx.compare(P, Y, **arguments)
    assert str(caught.value).startswith(sentence)
    assert str(caught.value).endswith(".")


def test_labels_beside_a_file_are_refused() -> None:
    with pytest.raises(cx.InvalidInput, match="'cifar10' holds labels and names itself; leave y "):
        cx.compare("cifar10", Y)


def test_an_estimator_is_compared_at_the_level_that_was_asked_for() -> None:
    mine = {"mine": cx.ScoreAverage("thr", alpha=0.4), "thr": "thr"}
    found = cx.compare(P, Y, methods=mine, alpha=0.05, runs=2)
    sizes = [found.results.values(name, alpha=0.05).tolist() for name in mine]
    assert sizes[0] == sizes[1]
    assert found.estimator("mine").alpha == 0.05


def test_the_winner_takes_outputs_as_they_came() -> None:
    found = cx.compare(P[:, 1], Y % 2, methods=["thr", "uniform"], runs=2, kind="binary")
    assert found.winner.kind == "binary"
    assert found.winner.fit(P[:, 1], Y % 2).n_classes_ == 2
