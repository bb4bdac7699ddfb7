"""Log-probabilities, classes that are ruled out, rounded rows, one column of two, labels from 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from cli.drawn import draw
from conformix.cli import main
from conformix.data.outputs import check_outputs

P, Y = draw(0, 220)
NEW, TRUE = draw(1, 60)
SCORES = ("thr", "aps", "rank", "logp")


def fitted(outputs: Any, y: Any = Y, **settings: Any) -> cx.ScoreAverage:
    return cx.ScoreAverage(SCORES, random_state=0, **settings).fit(outputs, y)


def masks(cp: cx.ScoreAverage, outputs: Any) -> np.ndarray:
    return np.asarray(cp.predict_set(outputs))


def ruled_out(outputs: np.ndarray) -> np.ndarray:
    logits = np.log(outputs)
    logits[::3, 2] = -np.inf
    logits[1::3, :2] = -np.inf
    return logits


def logprobs(outputs: np.ndarray) -> np.ndarray:
    logits = ruled_out(outputs)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


FORMS = {
    "logprobs": logprobs,
    "logits": ruled_out,
    "shares": lambda outputs: outputs.round(2),
    "binary": lambda outputs: outputs[:, 1],
}


@pytest.mark.parametrize("kind", FORMS)
def test_every_form_is_the_same_alone_in_batches_saved_and_judged(
    kind: str, tmp_path: Path
) -> None:
    rows, new = FORMS[kind](P), FORMS[kind](NEW)
    y, true = (Y % 2, TRUE % 2) if kind == "binary" else (Y, TRUE)
    cp = fitted(rows, y, kind=kind)
    whole = masks(cp, new)
    one_by_one = np.concatenate([masks(cp, new[i : i + 1]) for i in range(len(new))])
    assert_array_equal(one_by_one, whole)
    streamed = cx.ScoreAverage(SCORES, random_state=0, kind=kind)
    streamed.fit_batches(cx.stream.from_arrays(rows, y, rows=50))
    assert_array_equal(masks(streamed, new), whole)
    cp.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json")
    assert again.predictor_.kind == kind
    assert_array_equal(masks(again, new), whole)
    assert cp.verdict(new, true).coverage == whole[np.arange(len(true)), true].mean()
    assert_array_equal(cp.predict_pvalues(new) > 0.1, whole)


def test_log_probabilities_are_logits_that_are_checked() -> None:
    assert_array_equal(
        masks(fitted(logprobs(P), kind="logprobs"), logprobs(NEW)),
        masks(fitted(logprobs(P), kind="logits"), logprobs(NEW)),
    )


def test_a_class_that_is_ruled_out_has_the_probability_zero() -> None:
    (row,) = cx.score_tensor([[0.0, -np.inf, 0.0]], "thr", kind="logits")[..., 0]
    assert row.tolist() == [0.5, 0.0, 0.5]


def test_every_score_of_ours_but_the_logit_itself_takes_classes_that_are_ruled_out() -> None:
    finite = np.where(np.isinf(ruled_out(P)), -1e6, ruled_out(P))
    names = [name for name in cx.scores.SCORES.names() if name != "logit"]
    plain = [name for name in names if not cx.scores.SCORES[name].learns]
    assert_array_equal(
        cx.score_tensor(ruled_out(P), plain, kind="logits", random_state=0),
        cx.score_tensor(finite, plain, kind="logits", random_state=0),
    )
    with pytest.raises(cx.InvalidInput, match='score "logit" needs finite logits'):
        cx.score_tensor(ruled_out(P), ("thr", "aps", "logit"), kind="logits")


def test_rows_are_divided_by_their_sums_and_a_factor_changes_nothing() -> None:
    shares = masks(fitted(P.round(2), kind="shares"), NEW.round(2))
    assert_array_equal(masks(fitted(P.round(2), renormalize=True), NEW.round(2)), shares)
    halves = masks(fitted(8 * P.round(2), kind="shares"), 4 * NEW.round(2))
    assert_array_equal(halves, shares)  # by powers of two, without rounding
    divided = check_outputs(P.round(2), "shares").models[""]
    assert_allclose(divided, P.round(2) / P.round(2).sum(axis=1, keepdims=True), rtol=1e-15)


def test_permuted_labels_are_permuted_shares() -> None:
    order = np.array([2, 0, 3, 1])
    one = check_outputs(P.round(3), "shares").models[""]
    assert_array_equal(check_outputs(P.round(3)[:, order], "shares").models[""], one[:, order])


def test_one_column_is_two_classes() -> None:
    p, new = P[:, 1], NEW[:, 1]
    both, new_both = np.column_stack([1 - p, p]), np.column_stack([1 - new, new])
    expected = masks(fitted(both, Y % 2), new_both)
    assert_array_equal(masks(fitted(p, Y % 2, kind="binary"), new), expected)
    column = fitted(p[:, None], Y % 2, kind="binary")
    assert_array_equal(masks(column, new[:, None]), expected)
    listed = fitted(p.tolist(), Y % 2, kind="binary")
    assert_array_equal(masks(listed, new.tolist()), expected)


def test_dask_arrays_take_every_form() -> None:
    da = pytest.importorskip("dask.array")
    for kind, form in FORMS.items():
        rows, y = form(P), Y % 2 if kind == "binary" else Y
        chunks = da.from_array(rows, (60, *rows.shape[1:]))
        cp = cx.ScoreAverage(("thr", "rank"), kind=kind, random_state=0, weights=[0.5, 0.5],
                             normalize="none")  # fmt: skip
        held = masks(cp.fit(rows, y), form(NEW))
        cp.fit(chunks, y)
        assert_array_equal(masks(cp, form(NEW)), held)
        there = da.from_array(form(NEW), (25, *form(NEW).shape[1:]))
        assert_array_equal(cp.predict_set(there).compute(scheduler="synchronous"), held)


REFUSED = {
    "log above 0": (np.log(P) + 1, {"kind": "logprobs"}, "outputs must hold log-probabilities, "),
    "log of no distribution": (
        np.log(P) - 0.1, {"kind": "logprobs"},
        "outputs must hold log-probabilities whose exponentials sum to 1; those of row 0 sum to "
        '0.904837; if these are logits, say kind="logits", which divides by the sum.',
    ),
    "nothing left": (
        np.full((220, 4), -np.inf), {"kind": "logits"},
        "outputs must leave a class in every row; row 0 is -inf throughout.",
    ),
    "infinity": (np.full((220, 4), np.inf), {"kind": "logits"}, "outputs must be finite; row 0"),
    "minus infinity among probabilities": (
        np.full((220, 4), -np.inf), {}, "outputs must be finite; row 0, label 0 is -inf.",
    ),
    "per cent": (
        100 * P, {}, "outputs must hold probabilities between 0 and 1; row 0, label 0 is ",
    ),
    "rounded": (
        P.round(1), {}, "outputs must be a (n, K) matrix whose rows sum to 1; row ",
    ),
    "negative shares": (-P, {"kind": "shares"}, "outputs must hold numbers from 0 on; row 0"),
    "a row of zeros": (
        0 * P, {"kind": "shares"},
        "outputs must have a number above 0 in every row; row 0 has none.",
    ),
    "four columns": (P, {"kind": "binary"}, 'outputs of kind "binary" must be the probability '),
    "divided logits": (P, {"kind": "logits", "renormalize": True}, "renormalize=True divides "),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_something_else_is_refused(what: str) -> None:
    outputs, settings, sentence = REFUSED[what]
    with pytest.raises(cx.InvalidInput) as caught:
        fitted(outputs, **settings)
    assert str(caught.value).startswith(sentence)
    assert str(caught.value).count(". ") == 0


def test_per_cents_and_rounded_rows_are_told_their_cure() -> None:
    with pytest.raises(cx.InvalidInput, match='if these are per cents, say kind="shares"'):
        fitted(100 * P)
    with pytest.raises(cx.InvalidInput, match="if they were rounded, say renormalize=True"):
        fitted(P.round(2))


def test_labels_from_1_are_refused_with_the_exact_cure_which_works() -> None:
    with pytest.raises(cx.InvalidInput) as caught:
        fitted(P, Y + 1)
    assert str(caught.value).endswith(
        "they seem to count from 1: give y - 1, or name the classes (classes=range(1, 5), in the "
        "shell --labels-from 1)."
    )
    cp = cx.ScoreAverage(SCORES, random_state=0).fit(P, Y + 1, classes=range(1, 5))
    assert_array_equal(masks(cp, NEW), masks(fitted(P), NEW))
    assert set(cp.predict_set(NEW[:1]).labels(0)) <= {1, 2, 3, 4}


def table(folder: Path, name: str, header: str, rows: Any, labels: Any = None) -> str:
    lines = [header]
    for i, row in enumerate(np.asarray(rows).reshape(len(rows), -1)):
        own = [] if labels is None else [str(labels[i])]
        lines.append(",".join([*(f"{value:.10g}" for value in row), *own]))
    (folder / name).write_text("\n".join(lines) + "\n")
    return name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell_sets(fit: list[str], new: str) -> tuple[np.ndarray, tuple[Any, ...] | None]:
    assert main(["fit", *fit, "-o", "m.json", "--json"]) == 0
    assert main(["predict", "m.json", new, "-o", "sets.npz"]) == 0
    with np.load("sets.npz") as stored:
        return stored["mask"], cx.load_predictor("m.json").classes


def expected(new: Any = NEW, **settings: Any) -> np.ndarray:
    return masks(cx.ScoreAverage(random_state=0, **settings).fit(P, Y), new)


def test_headers_with_a_prefix_are_classes_without_it(folder: Path) -> None:
    names = np.array(list("ABCD"))
    train = table(folder, "train.csv", "p_A,p_B,p_C,p_D,label", P, names[Y])
    new = table(folder, "new.csv", "p_D,p_C,p_B,p_A", NEW[:, ::-1])
    mask, classes = shell_sets([train], new)
    assert classes == ("A", "B", "C", "D")
    assert_array_equal(mask, expected())
    test = table(folder, "test.csv", "p_A,p_B,p_C,p_D,label", NEW, names[TRUE])
    assert main(["evaluate", "m.json", test]) == 0


def test_a_prefix_that_labels_have_too_stays(folder: Path) -> None:
    names = np.array(["class_1", "class_2", "class_3", "class_4"])
    train = table(folder, "train.csv", ",".join([*names, "label"]), P, names[Y])
    assert shell_sets([train], table(folder, "new.csv", ",".join(names), NEW))[1] == tuple(names)


def test_names_stay_where_labels_are_their_positions(folder: Path) -> None:
    names = ("kind 0", "kind 1", "kind 2", "kind 3")
    np.savez("train.npz", outputs=P, labels=Y, class_names=np.array(names))
    np.savez("new.npz", outputs=NEW, class_names=np.array(names))
    assert shell_sets(["train.npz"], "new.npz")[1] == names


def test_numbers_after_a_prefix_are_the_names_that_labels_have(folder: Path) -> None:
    train = table(folder, "train.csv", "p_1,p_2,p_3,p_4,label", P, Y + 1)
    mask, classes = shell_sets([train], table(folder, "new.csv", "p_1,p_2,p_3,p_4", NEW))
    assert classes == (1, 2, 3, 4)
    assert_array_equal(mask, expected())


def test_labels_from_1_are_an_option_of_the_shell(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("train.npz", outputs=P, labels=Y + 1)
    np.savez("new.npz", outputs=NEW, labels=TRUE + 1)
    assert main(["fit", "train.npz", "-o", "m.json"]) == 2
    assert "--labels-from 1" in capsys.readouterr().err
    mask, classes = shell_sets(["train.npz", "--labels-from", "1"], "new.npz")
    assert classes == (1, 2, 3, 4)
    assert_array_equal(mask, expected())
    assert main(["evaluate", "m.json", "new.npz"]) == 0  # the model knows what labels are called


def test_labels_from_1_beside_names_of_text_are_positions(folder: Path) -> None:
    train = table(folder, "train.csv", "cat,dog,emu,fox,label", P, Y + 1)
    new = table(folder, "new.csv", "cat,dog,emu,fox", NEW)
    assert_array_equal(shell_sets([train, "--labels-from", "1"], new)[0], expected())


def test_rounded_rows_name_the_option_that_divides_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = table(folder, "train.csv", "cat,dog,emu,fox,label", P.round(2), Y)
    new = table(folder, "new.csv", "cat,dog,emu,fox", NEW.round(2))
    assert main(["fit", train, "-o", "m.json"]) == 2
    assert capsys.readouterr().err.endswith("or have rows divided by their sums: --renormalize.\n")
    mask, _ = shell_sets([train, "--renormalize"], new)
    capsys.readouterr()
    cp = cx.ScoreAverage(random_state=0, renormalize=True).fit(P.round(2), Y)
    assert_array_equal(mask, masks(cp, NEW.round(2)))
    assert main(["fit", train, "-o", "m.json", "--renormalize", "--table"]) == 0
    assert "Every row was divided by its sum (renormalised).\n" in capsys.readouterr().out
    quick = ["--runs", "2", "--resolution", "3", "--workers", "1"]
    assert main(["compare", train, "--renormalize", *quick]) == 0


@pytest.mark.parametrize(("header", "labels"), [
    ("p,label", None), ("spam,label", ["ham", "spam"]), ("p_spam,label", ["ham", "spam"]),
])  # fmt: skip
def test_one_column_of_probabilities_is_two_classes(
    header: str, labels: list[str] | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    y = Y % 2 if labels is None else np.array(labels)[Y % 2]
    train = table(folder, "train.csv", header, P[:, 1], y)
    new = table(folder, "new.csv", header.removesuffix(",label"), NEW[:, 1])
    mask, classes = shell_sets([train], new)
    cp = cx.ScoreAverage(random_state=0, kind="binary").fit(P[:, 1], Y % 2)
    assert_array_equal(mask, masks(cp, NEW[:, 1]))
    assert classes == (None if labels is None else tuple(labels))
    capsys.readouterr()
    assert main(["fit", train, "-o", "m.json", "--table"]) == 0
    assert "the probability of the second of two classes" in capsys.readouterr().out
    quick = ["--runs", "2", "--resolution", "3", "--workers", "1"]
    assert main(["compare", train, *quick]) == 0


def test_one_column_that_no_label_is_called_after_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = table(folder, "train.csv", "p,label", P[:, 1], np.array(["ham", "spam"])[Y % 2])
    assert main(["fit", train, "-o", "m.json"]) == 2
    assert "must be the probability of one of two labels and have its name" in (
        capsys.readouterr().err
    )


def test_log_probabilities_go_through_the_shell(folder: Path) -> None:
    np.savez("train.npz", outputs=logprobs(P), labels=Y)
    np.savez("new.npz", outputs=logprobs(NEW))
    mask, _ = shell_sets(["train.npz", "--kind", "logprobs"], "new.npz")
    cp = cx.ScoreAverage(random_state=0, kind="logprobs").fit(logprobs(P), Y)
    assert_array_equal(mask, masks(cp, logprobs(NEW)))
