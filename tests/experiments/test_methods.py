from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.experiments.methods import (
    TEMPERATURES,
    Choices,
    Task,
    method_names,
    resolve_method,
)
from conformix.experiments.pool import Pool
from conformix.metrics import size_at_coverage

N = 1200
CHOICES = Choices(resolution=10)


@pytest.fixture(scope="module")
def data() -> cx.datasets.Dataset:
    return cx.datasets.load("cifar10")


@pytest.fixture(scope="module")
def pool(data: cx.datasets.Dataset) -> Pool:
    return Pool(data, ["vgg16"])


@pytest.fixture(scope="module")
def trio() -> Pool:
    return Pool(cx.datasets.load("cifar10_trio"))


def task_of(pool: Pool, alpha: float = 0.05) -> Task:
    rows = np.random.default_rng(5).permutation(pool.outputs.n)
    return Task(pool, rows[:N], rows[N : 2 * N], alpha, seed=11, threads=1)


def outputs_of(task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    logits = task.pool.outputs.models[""]
    return logits[task.calibrate], task.y, logits[task.test]


def test_planes_cut_by_rows_are_the_scores_of_the_cut_rows(pool: Pool) -> None:
    rows = np.array([7, 3, 900])
    scores = ("thr", "aps", "rank", "raps", "thr(temperature=2.0)")
    whole = pool.tensor(pool.columns(scores), rows)
    cut = cx.score_tensor(pool.outputs.models[""][rows], scores, kind="logits")
    assert_array_equal(whole, cut)


def test_planes_are_computed_again_when_memory_is_short(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.arange(20)
    columns = pool.columns(("thr", "aps", "rank"))
    expected = pool.tensor(columns, rows)
    monkeypatch.setattr("conformix.experiments.pool.CACHE_BYTES", 1)
    assert_array_equal(pool.plane(columns[1], rows), expected[..., 1])
    assert_array_equal(pool.tensor(columns, rows), expected)


@pytest.mark.parametrize("split", ["vfcp", "efcp", "dlcp", "dlcp+"])
def test_the_average_is_the_estimator(pool: Pool, split: str) -> None:
    task = task_of(pool)
    found = resolve_method(f"average:{split}", CHOICES)(task)
    fit, y, test = outputs_of(task)
    search = cx.search.GridSearch(10)
    model = cx.ScoreAverage(
        alpha=0.05, split=split, search=search, normalize="scale", kind="logits", random_state=11
    ).fit(fit, y, test=test)
    assert_array_equal(found.mask, model.predict_set(test).mask)
    assert found.guarantee == model.guarantee_.kind
    assert list(found.weights.values()) == [w for w in model.weights_ if w]


def test_the_average_knows_the_exact_split(pool: Pool) -> None:
    rows = np.random.default_rng(5).permutation(pool.outputs.n)
    task = Task(pool, rows[:120], rows[120:150], 0.1, seed=11, threads=1)
    found = resolve_method("average:exact", Choices(resolution=4))(task)
    assert found.guarantee == "exact"
    assert found.combined is None


@pytest.mark.parametrize("split", ["vfcp", "efcp", "dlcp", "dlcp+"])
@pytest.mark.parametrize("name", ["best-single", "tuned-thr", "tuned-raps", "tuned-saps"])
def test_a_selected_score_is_an_average_whose_weights_are_corners(
    pool: Pool, name: str, split: str
) -> None:
    task = task_of(pool)
    method = resolve_method(f"{name}:{split}", CHOICES)
    found = method(task)
    fit, y, test = outputs_of(task)
    model = cx.ScoreAverage(
        method.scores,
        alpha=0.05,
        split=split,
        search=np.eye(len(method.scores)),
        normalize="none",
        kind="logits",
        random_state=11,
    ).fit(fit, y, test=test)
    assert_array_equal(found.mask, model.predict_set(test).mask)
    assert list(found.weights) == [model.score_names_[int(model.weights_.argmax())]]
    assert found.guarantee == model.guarantee_.kind


@pytest.mark.parametrize("score", ["thr", "aps", "raps(penalty=0.2, k_reg=1)"])
def test_a_single_score_calibrates_on_all_rows(pool: Pool, score: str) -> None:
    task = task_of(pool)
    fit, y, test = outputs_of(task)
    model = cx.ScoreAverage(score, alpha=0.05, kind="logits", weights=[1.0]).fit(fit, y)
    found = resolve_method(score)(task)
    assert_array_equal(found.mask, model.predict_set(test).mask)
    assert found.guarantee == "exact"


def test_the_uniform_average_has_equal_weights_and_calibrates_on_all_rows(pool: Pool) -> None:
    task = task_of(pool)
    fit, y, test = outputs_of(task)
    model = cx.ScoreAverage(alpha=0.05, kind="logits", weights=np.full(3, 1 / 3)).fit(fit, y)
    assert_array_equal(resolve_method("uniform")(task).mask, model.predict_set(test).mask)


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits.astype(float) - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def test_ensembles_average_the_models_before_the_score(trio: Pool) -> None:
    task = task_of(trio)
    parts = [softmax(values) for values in trio.outputs.models.values()]
    means = {
        "probability-ensemble": np.mean(parts, axis=0),
        "logit-ensemble": softmax(np.mean([np.log(part) for part in parts], axis=0)),
    }
    for name, probs in means.items():
        model = cx.ScoreAverage("thr", alpha=0.05, weights=[1.0])
        model.fit(probs[task.calibrate], task.y)
        expected = model.predict_set(probs[task.test]).mask
        found = resolve_method(name)(task)
        assert (found.mask != expected).sum() <= 1, name  # the last bit of a sum may differ
        assert found.guarantee == "exact"


def test_an_ensemble_of_one_model_is_refused(pool: Pool) -> None:
    with pytest.raises(cx.InvalidInput) as caught:
        resolve_method("probability-ensemble")(task_of(pool))
    assert str(caught.value) == "an ensemble needs at least two models; cifar10 gives one here."


def test_a_majority_vote_counts_the_single_sets_and_halves_the_promise(trio: Pool) -> None:
    task = task_of(trio)
    singles = [resolve_method(f"{model}.thr")(task).mask for model in trio.outputs.models]
    found = resolve_method("majority-vote", Choices(("thr",)))(task)
    assert_array_equal(found.mask, np.sum(singles, axis=0) >= 2)
    assert found.guarantee == "1 - 2 alpha"


def test_no_weights_of_the_grid_beat_the_oracle_at_matched_coverage(pool: Pool) -> None:
    task = task_of(pool)
    found = resolve_method("oracle", CHOICES)(task)
    y = pool.labels[task.test]
    assert found.guarantee == "none"
    best = size_at_coverage(found.combined, y, coverage=0.95)
    assert found.mask.sum(axis=1).mean() == best
    for name in ("average:vfcp", "average:efcp", "thr", "aps", "rank"):
        other = resolve_method(name, CHOICES)(task)
        assert best <= size_at_coverage(other.combined, y, coverage=0.95)


def test_weights_carry_model_and_score(trio: Pool) -> None:
    found = resolve_method("average", Choices(("thr",), resolution=4))(task_of(trio))
    assert set(found.weights) <= {f"{model}.thr" for model in trio.outputs.models}
    assert sum(found.weights.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("average:vcfp", "unknown split 'vcfp'; did you mean 'vfcp'? known: batch (dlcp), batch+ "),
        (
            "uniform:vfcp",
            "uniform has nothing to tune and takes no split; those are auto, average, ",
        ),
        (
            "tuned_thr",
            "unknown method 'tuned_thr'; did you mean 'tuned-thr'? known: auto, average, ",
        ),
    ],
)
def test_wrong_names_get_help(name: str, sentence: str) -> None:
    with pytest.raises(cx.InvalidInput) as caught:
        resolve_method(name)
    assert str(caught.value).startswith(sentence)


def test_every_listed_method_runs_and_says_what_it_guarantees(trio: Pool) -> None:
    rows = np.random.default_rng(1).permutation(trio.outputs.n)
    task = Task(trio, rows[:200], rows[200:300], 0.1, threads=1)
    for name in method_names():
        found = resolve_method(name, Choices(("thr", "rank"), resolution=2))(task)
        assert found.mask.shape == (100, 10)
        assert found.guarantee in {"exact", "approximate", "none", "1 - 2 alpha"}


def test_a_score_selected_by_every_label_alike_promises_what_the_exact_split_does(
    pool: Pool,
) -> None:
    task = task_of(pool)
    found = resolve_method("tuned-thr:exact")(task)
    logits, y, test = outputs_of(task)
    temperatures = [f"thr(temperature={t})" for t in TEMPERATURES]
    corners = cx.ScoreAverage(
        temperatures, alpha=0.05, split="exact", search=np.eye(len(temperatures)), kind="logits"
    )
    assert found.guarantee == "exact"
    assert_array_equal(found.mask, np.asarray(corners.fit(logits, y).predict_set(test)))
