"""Every score on rows worked out by hand (all numbers are dyadic, so sums are exact)."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix.errors import InvalidInput
from conformix.scores import Ranked, parse_score
from memory import peak_bytes

# Sorted downwards: label 1 (1/2), labels 0 and 3 (1/8 each), label 4 (1/4) ...
#   label      0      1      2      3      4
ROW = [[0.125, 0.5, 0.0, 0.125, 0.25]]
# rank from the top: 1/2 -> 1, 1/4 -> 2, the two 1/8 -> 3, 0 -> 5
# labels below:      4, 3, 1, 0;  mass no likelier: 1, 1/2, 1/4, 0
BY_HAND = {
    "thr": [0.125, 0.5, 0.0, 0.125, 0.25],
    "aps": [0.25, 1.0, 0.0, 0.25, 0.5],
    "aps(u=1)": [0.125, 0.5, 0.0, 0.125, 0.25],
    "rank": [1 / 4, 4 / 4, 0 / 4, 1 / 4, 3 / 4],
    "rank(tie_break='prob')": [1.125 / 4, 4.5 / 4, 0 / 4, 1.125 / 4, 3.25 / 4],
    # aps less 1/2 per rank beyond the second: rank 3 costs 1/2, rank 5 costs 3/2
    "raps(penalty=0.5, k_reg=2)": [-0.25, 1.0, -1.5, -0.25, 0.5],
    "raps(penalty=0.5, k_reg=2, u=1)": [-0.375, 0.5, -1.5, -0.375, 0.25],
    # u = 0: top 0; rank 2: -1/2; rank 3: -(1/2 + 1/4); rank 5: -(1/2 + 3/4)
    "saps(penalty=0.25)": [-0.75, 0.0, -1.25, -0.75, -0.5],
    # u = 1: top -1/2; rank r: -(1/2 + (r - 1)/4)
    "saps(penalty=0.25, u=1)": [-1.0, -0.5, -1.5, -1.0, -0.75],
    # the best rival of label 1 is 1/4, of every other label 1/2
    "margin": [-0.375, 0.25, -0.5, -0.375, -0.25],
    "logrank": [-math.log(3), 0.0, -math.log(5), -math.log(3), -math.log(2)],
    "invrank": [1 / 3, 1.0, 1 / 5, 1 / 3, 1 / 2],
    "maxprob": [0.5] * 5,
    "-maxprob": [-0.5] * 5,
    # 1/2 log 2 + 1/4 log 4 + 2 * 1/8 log 8 = (1/2 + 1/2 + 3/4) log 2
    "entropy": [1.75 * math.log(2)] * 5,
    "-entropy": [-1.75 * math.log(2)] * 5,
    "logp": [math.log(0.125), math.log(0.5), math.log(np.finfo(float).tiny),
             math.log(0.125), math.log(0.25)],
}  # fmt: skip


FIXED = [name for name in cx.scores.SCORES if not cx.scores.SCORES[name].learns]


@pytest.mark.parametrize(("score", "expected"), BY_HAND.items())
def test_score_of_a_row_with_a_tie_and_a_zero(score, expected):
    assert_allclose(cx.score_tensor(ROW, score)[0, :, 0], expected, rtol=1e-15, atol=0)


def test_randomised_scores_use_one_u_per_row():
    # u = 1/2: aps loses half of the own probability; saps: top -1/4, rank r: -(1/2 + (r - 3/2)/4)
    u = [0.5]
    aps = cx.score_tensor(ROW, "aps(randomized=True)", u=u)[0, :, 0]
    assert_array_equal(aps, [0.1875, 0.75, 0.0, 0.1875, 0.375])
    saps = cx.score_tensor(ROW, "saps(penalty=0.25, randomized=True)", u=u)[0, :, 0]
    assert_array_equal(saps, [-0.875, -0.25, -1.375, -0.875, -0.625])
    raps = cx.score_tensor(ROW, "raps(penalty=0.5, k_reg=2, randomized=True)", u=u)[0, :, 0]
    assert_array_equal(raps, [-0.3125, 0.75, -1.5, -0.3125, 0.375])


def test_logit_is_raw_and_energy_is_its_log_sum_exp():
    logits = [[1.0, 2.0, 3.0]]
    scores = cx.score_tensor(logits, ("logit", "energy", "-energy"), kind="logits")[0]
    energy = math.log(math.e + math.e**2 + math.e**3)
    assert_array_equal(scores[:, 0], [1.0, 2.0, 3.0])
    assert_allclose(scores[:, 1], [energy] * 3, rtol=1e-15)
    assert_allclose(scores[:, 2], [-energy] * 3, rtol=1e-15)


@pytest.mark.parametrize("score", ["logit", "energy"])
def test_logit_scores_refuse_probabilities(score):
    with pytest.raises(InvalidInput, match=r'^scores "logit" and "energy" need kind="logits"'):
        cx.score_tensor(ROW, score)


def test_a_temperature_of_two_takes_roots():
    # roots of (1/4, 9/16, 3/16...) are not dyadic; take (1/16, 9/16, 6/16) -> (1, 3, sqrt 6)/sum
    row, total = [[1 / 16, 9 / 16, 6 / 16]], 1 + 3 + math.sqrt(6)
    thr = cx.score_tensor(row, "thr(temperature=2)")[0, :, 0]
    assert_allclose(thr, np.array([1, 3, math.sqrt(6)]) / total, rtol=1e-14)
    aps = cx.score_tensor(row, "aps(temperature=2)")[0, :, 0]
    assert_allclose(aps, np.array([1, total, 1 + math.sqrt(6)]) / total, rtol=1e-14)


def test_temperature_of_logits_divides_them():
    logits = np.array([[2.0, -1.0, 0.5]])
    tempered = cx.score_tensor(logits, "thr(temperature=4)", kind="logits")
    assert_array_equal(tempered, cx.score_tensor(logits / 4, "thr", kind="logits"))


@pytest.mark.parametrize("temperature", [0, -1, float("inf"), "warm"])
def test_temperature_must_be_positive(temperature):
    with pytest.raises(InvalidInput, match=r"^temperature must be a positive number; got"):
        cx.score_tensor(ROW, cx.scores.Thr(temperature=temperature))


def test_scores_of_logits_and_of_their_softmax_agree():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(50, 7)) * 3
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    names = [n for n in FIXED if n not in ("logit", "energy")]
    left = cx.score_tensor(logits, names, kind="logits")
    assert_allclose(left, cx.score_tensor(probs, names), rtol=1e-9, atol=1e-12)


def test_huge_logits_neither_overflow_nor_lose_the_order():
    logits = [[1e4, -1e4, 0.0]]
    names = FIXED
    scores = cx.score_tensor(logits, names, kind="logits")
    assert np.isfinite(scores).all()
    assert_array_equal(scores[0, :, names.index("thr")], [1.0, 0.0, 0.0])


def test_twenty_thousand_classes():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(3, 20_000))
    scores = cx.score_tensor(logits, ("thr", "aps", "rank"), kind="logits")
    top = logits.argmax(axis=1)
    assert_allclose(scores[np.arange(3), top, 1], 1.0, rtol=1e-12)
    assert_array_equal(scores[np.arange(3), top, 2], 1.0)


def test_several_models_give_every_score_of_every_model():
    outputs = {"vgg16": ROW, "net": [[0.2] * 5]}
    tensor = cx.score_tensor(outputs, ("thr", "rank"))
    assert tensor.shape == (1, 5, 4)
    assert_array_equal(tensor[..., :2], cx.score_tensor(ROW, ("thr", "rank")))
    assert_array_equal(tensor[..., 2:], cx.score_tensor(outputs["net"], ("thr", "rank")))
    assert_array_equal(cx.score_tensor(list(outputs.values()), ("thr", "rank")), tensor)


def test_a_score_may_be_asked_of_one_model_only():
    outputs = {"vgg16": ROW, "vgg16.b": [[0.2] * 5]}
    tensor = cx.score_tensor(outputs, ("vgg16.b.thr", "vgg16.rank"))
    assert_array_equal(tensor[0, :, 0], cx.score_tensor(ROW, "rank")[0, :, 0])
    assert_array_equal(tensor[0, :, 1], [0.2] * 5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rnak", r"^unknown score 'rnak'; did you mean 'rank'\? known: aps, .*\.$"),
        ("raps(lambda_=3)", r"^cannot read score 'raps\(lambda_=3\)'; its options are penalty, "),
        ("raps(0.1)", r"^cannot read score 'raps\(0.1\)'; options are written name\(option=value"),
        ("thr(temperature=open('x'))", r"^cannot read score .*; options are written"),
        ("-thr", r"^cannot read score '-thr'; its options are temperature\.$"),
        ("rank(tie_break='coin')", r'^tie_break must be "none" or "prob"; got .coin.\.$'),
    ],
)
def test_a_score_that_cannot_be_read_says_so(text, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        parse_score(text)


def test_a_score_given_twice_is_refused():
    with pytest.raises(InvalidInput, match=r"^scores must differ; thr is given twice\.$"):
        cx.score_tensor(ROW, ("thr", "rank", "thr"))


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda p: p[:, :2], r"must return one number per label, shape \(1, 5\); got"),
        (np.log, r"must return finite numbers; it returned NaN or inf\.$"),
    ],
)
def test_a_custom_score_is_checked(function, sentence):
    with np.errstate(divide="ignore"), pytest.raises(InvalidInput, match=sentence):
        cx.score_tensor(ROW, function)


def test_a_custom_score_cannot_spoil_the_others():
    def greedy(probs):
        probs[:] = 0
        return probs

    assert_array_equal(cx.score_tensor(ROW, (greedy, "thr"))[0, :, 1], ROW[0])


def test_uniforms_are_uniform_and_follow_the_row():
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(20_000, 3))
    outputs = cx.scores.tensor.check_outputs(logits, "logits")
    u = cx.scores.tensor.row_uniforms(outputs, slice(0, 20_000), key=5)
    # Kolmogorov distance of 20,000 uniforms stays below 2.5 / sqrt(n) but for 1 case in 10^5.
    steps = np.arange(1, 20_001) / 20_000
    assert np.abs(np.sort(u) - steps).max() < 2.5 / math.sqrt(20_000)
    other = cx.scores.tensor.row_uniforms(outputs, slice(0, 20_000), key=6)
    assert abs(np.corrcoef(u, other)[0, 1]) < 5 / math.sqrt(20_000)
    tail = cx.scores.tensor.row_uniforms(outputs, slice(17, 19), key=5)
    assert_array_equal(tail, u[17:19])


def test_the_score_tensor_needs_little_memory_beside_itself():
    logits = np.random.default_rng(0).normal(size=(8000, 50))
    names = ("thr", "aps", "rank", "logp", "margin")
    cx.score_tensor(logits, names, kind="logits")  # loops are loaded now, whoever ran before
    size = 8 * logits.size * len(names)
    # beside the tensor: some arrays of a block of 2**15 entries, for each of a few threads
    peak = peak_bytes(lambda: cx.score_tensor(logits, names, kind="logits"))
    assert size < peak < size + 16 * 8 * 2**15 * 4


@pytest.mark.parametrize("n_classes", [2, 5, 40])
def test_the_floor_of_a_log_probability_is_a_mass_spread_evenly_over_the_labels(n_classes):
    probs = np.random.default_rng(0).dirichlet(np.full(n_classes, 0.1), size=20)
    masses = np.exp(cx.scores.Logp(floor=0.03)(Ranked(probs)))
    assert_allclose(masses.sum(axis=1), 1.03, rtol=1e-12)
    assert_allclose(masses - probs, 0.03 / n_classes, rtol=1e-9)
