"""A vote of scores, and models that are averaged before they are scored."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from cli.drawn import draw

SCORES = ("thr", "aps", "rank", "raps")


def vote(scores: tuple[str, ...] = SCORES, **settings: object) -> cx.ScoreAverage:
    return cx.ScoreAverage(scores, calibration="vote", random_state=0, **settings)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::conformix.TrivialSetsWarning")
@pytest.mark.parametrize("scores", [SCORES[:1], SCORES[:2], SCORES[:3], SCORES], ids=len)
def test_a_vote_holds_what_more_than_half_of_the_single_sets_hold(scores: tuple[str, ...]) -> None:
    (P, y), (new, _) = draw(0, 119), draw(1, 60)
    for alpha in (0.005, 0.1, 0.5):
        cp = vote(scores, alpha=0.1).fit(P, y)
        singles = [cx.ScoreAverage(s, random_state=0).fit(P, y) for s in scores]
        votes = np.sum([np.asarray(one.predict_set(new, alpha=alpha)) for one in singles], axis=0)
        assert_array_equal(np.asarray(cp.predict_set(new, alpha=alpha)), 2 * votes > len(scores))
        assert_array_equal(cp.predict_pvalues(new) > alpha, 2 * votes > len(scores))


def test_a_row_has_the_same_set_in_the_same_order_alone_and_in_a_batch() -> None:
    P, y = draw(0, 200)
    many = np.tile(draw(1, 64)[0], (80, 1))  # so many that sorted rows would be worthwhile
    sets = vote().fit(P, y).predict_set(many)
    assert sets.members()[:64] == vote().fit(P, y).predict_set(many[:64]).members()


def test_no_pac_statement_is_known_of_a_vote() -> None:
    with pytest.raises(cx.InvalidInput, match='"pac" is not known for calibration "vote"'):
        vote(guarantee="pac", delta=0.1).fit(*draw(0, 200))


def test_a_vote_promises_twice_alpha_and_is_judged_by_no_law() -> None:
    P, y = draw(0, 200)
    cp = vote(alpha=0.2).fit(P, y)
    assert cp.guarantee_.statement == "P(y in set) >= 1 - 2 alpha"
    assert cp.guarantee_.kind == "approximate"
    found = cp.verdict(*draw(1, 100))
    assert found.promised is None
    assert found.law.name.startswith("the scores of a vote depend on each other")


def test_the_sets_of_several_levels_are_nested() -> None:
    cp = vote().fit(*draw(0, 200))
    new = draw(1, 50)[0]
    nested = cp.predict_set(new, alpha=[0.05, 0.3])
    for alpha in (0.05, 0.3):
        assert_array_equal(
            np.asarray(nested.at(alpha)), np.asarray(cp.predict_set(new, alpha=alpha))
        )


def test_batches_give_the_vote_of_memory() -> None:
    P, y = draw(0, 200)
    new = draw(1, 50)[0]
    batches = [(P[:70], y[:70]), (P[70:], y[70:])]
    assert_array_equal(
        np.asarray(vote().fit_batches(batches).predict_set(new)),
        np.asarray(vote().fit(P, y).predict_set(new)),
    )


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"weights": [0.25] * 4}, "weights"),
        ({"search": "grid"}, "search"),
        ({"normalize": "ecdf"}, "normalize"),
        ({"allow_empty": False}, "allow_empty=False"),
        ({"tune_alpha": 0.2}, "tune_alpha"),
        ({"objective": "singletons"}, "another objective"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_what_a_vote_has_no_room_for_is_refused(settings: dict[str, object], option: str) -> None:
    with pytest.raises(cx.InvalidInput) as caught:
        vote(**settings).fit(*draw(0, 50))
    assert str(caught.value) == (
        'calibration "vote" compares every score with its own calibration scores and counts; '
        f"{option} does not apply."
    )


def test_a_vote_has_nothing_to_keep_for_fresh_rows() -> None:
    with pytest.raises(cx.InvalidInput, match="call fit on the fresh rows instead"):
        vote().fit(*draw(0, 50)).recalibrate(*draw(1, 50))


def two_models(seed: int, n: int) -> dict[str, np.ndarray]:
    return {"forest": draw(seed, n)[0], "network": draw(seed + 10, n)[0]}


@pytest.mark.parametrize("how", ["probs", "logits"])
def test_an_ensemble_is_the_mean_of_the_models_scored_as_one(how: str) -> None:
    rows, y = two_models(0, 200), draw(0, 200)[1]
    new = two_models(1, 80)

    def mean(outputs: dict[str, np.ndarray]) -> np.ndarray:
        parts = [P if how == "probs" else np.log(P) for P in outputs.values()]
        return (parts[0] + parts[1]) / 2

    cp = cx.ScoreAverage(("thr", "aps"), ensemble=how, random_state=0).fit(rows, y)
    plain = cx.ScoreAverage(("thr", "aps"), kind=how, random_state=0).fit(mean(rows), y)
    assert cp.score_names_ == ("thr", "aps")
    assert_array_equal(np.asarray(cp.predict_set(new)), np.asarray(plain.predict_set(mean(new))))


def test_an_ensemble_of_batches_is_that_of_memory() -> None:
    rows, y, new = two_models(0, 200), draw(0, 200)[1], two_models(1, 50)
    settings = {"ensemble": "probs", "random_state": 0}
    for how in ({}, {"weights": "equal", "normalize": "scale"}):
        cp = cx.ScoreAverage(("thr", "aps"), **settings, **how)  # type: ignore[arg-type]
        held = np.asarray(cp.fit(rows, y).predict_set(new))
        source = cx.stream.from_arrays(rows, y, rows=90)
        assert_array_equal(np.asarray(cp.fit_batches(source).predict_set(new)), held)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ensemble": "mean"}, 'ensemble must be "probs", "logits" or None; got '),
        ({"ensemble": "probs", "scores": "auto"}, 'scores="auto" averages the models itself; '),
        ({"ensemble": "probs", "scores": "kin"}, "scores that learn compare the labels of one "),
        ({"weights": "uniform"}, 'weights must be numbers, "equal" or None; got '),
    ],
    ids=lambda part: str(part)[:20],
)
def test_what_cannot_be_averaged_is_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(cx.InvalidInput) as caught:
        cx.ScoreAverage(**{"scores": "paper", **settings}).fit(two_models(0, 60), draw(0, 60)[1])  # type: ignore[arg-type]
    assert str(caught.value).startswith(sentence)


def test_an_ensemble_of_one_model_is_refused() -> None:
    with pytest.raises(cx.InvalidInput, match="an ensemble needs at least two models"):
        cx.ScoreAverage(ensemble="probs").fit(*draw(0, 60))
