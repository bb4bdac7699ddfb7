"""From a model and a loader to outputs and labels."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

import conformix as cx
from conformix.data.tensors import collect_outputs

torch = pytest.importorskip("torch")
data = pytest.importorskip("torch.utils.data")

X = torch.arange(21.0).reshape(7, 3) / 10
Y = torch.tensor([0, 1, 1, 0, 1, 0, 1])


def loader(batch_size: int = 3, **options):
    return data.DataLoader(data.TensorDataset(X, Y), batch_size=batch_size, **options)


def linear() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5))


def test_outputs_are_those_of_the_evaluated_model_and_modes_come_back() -> None:
    model = linear().train()
    model[1].eval()  # one submodule in a mode of its own
    logits, y = collect_outputs(model, loader())
    assert not logits.requires_grad
    assert [model.training, model[0].training, model[1].training] == [True, True, False]
    by_batch = [model.eval()(part).detach() for part in X.split(3)]  # other batches round otherwise
    assert torch.equal(logits, torch.cat(by_batch))
    assert torch.equal(y, Y)


def test_modes_come_back_after_a_failure_too() -> None:
    model = linear().train()
    with pytest.raises(RuntimeError):
        collect_outputs(model, [(X[:, :2], Y)])
    assert model.training


def test_several_models_share_one_pass() -> None:
    passes = []

    def batches():
        passes.append(1)
        yield X[:4], Y[:4]
        yield X[4:], Y[4:]

    outputs, y = collect_outputs({"a": linear(), "b": lambda x: x[:, :2]}, batches())
    assert list(outputs) == ["a", "b"]
    assert torch.equal(outputs["b"], X[:, :2])
    assert torch.equal(y, Y)
    assert passes == [1]
    cx.ScoreAverage("thr", kind="logits", alpha=0.4, random_state=0).fit(outputs, y)


@pytest.mark.parametrize(
    "answer",
    [
        lambda z: SimpleNamespace(logits=z),
        lambda z: {"logits": z, "loss": None},
        lambda z: (z, "hidden"),
    ],
    ids=["object", "mapping", "tuple"],
)
@pytest.mark.parametrize("key", ["labels", "label", "target"])
def test_batches_and_answers_of_transformers(answer, key) -> None:
    batches = [{"input_ids": X[i : i + 2], "mask": None, key: Y[i : i + 2]} for i in range(0, 7, 2)]
    logits, y = collect_outputs(lambda input_ids, mask: answer(input_ids[:, 1:]), batches)
    assert torch.equal(logits, X[:, 1:])
    assert torch.equal(y, Y)


def test_labels_under_a_name_of_their_own_and_several_inputs() -> None:
    logits, y = collect_outputs(lambda x: x, [{"x": X, "answer": Y.tolist()}], labels="answer")
    assert torch.equal(y, Y)
    logits, _ = collect_outputs(lambda a, b: a + b, [(X, X, Y)])
    assert torch.equal(logits, 2 * X)


@pytest.mark.parametrize(
    "options", [{"drop_last": True}, {"sampler": [4, 2, 0]}, {"shuffle": True}]
)
def test_loaders_that_drop_choose_or_shuffle_rows(options) -> None:
    torch.manual_seed(1)
    logits, y = collect_outputs(lambda x: x, loader(3, **options))
    assert (
        len(logits) == len(y) == (6 if "drop_last" in options else 3 if "sampler" in options else 7)
    )
    for row, label in zip(logits, y, strict=True):
        assert Y[(row == X).all(dim=1)] == label


def test_a_bar_is_drawn_only_where_it_is_wanted(capsys, monkeypatch) -> None:
    collect_outputs(lambda x: x, loader())
    assert capsys.readouterr().err == ""
    collect_outputs(lambda x: x, loader(), progress=True)
    assert "collecting outputs" in capsys.readouterr().err

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    collect_outputs(lambda x: x, loader(), progress=False)
    assert screen.getvalue() == ""
    collect_outputs(lambda x: x, loader())
    assert "collecting outputs" in screen.getvalue()


@pytest.mark.parametrize(
    ("model", "batches", "sentence"),
    [
        ({}, [(X, Y)], "empty mapping"),
        (lambda x: x, [], "gave no batches"),
        (lambda x: x, [X], "must be .inputs, labels. or a mapping"),
        (lambda x: x, [{"x": X}], "labels under one of labels, label"),
        (lambda x: x, [(X, Y.float())], "integer class indices"),
        (lambda x: x[0], [(X, Y)], r"\(b, K\) tensor, or an object with .logits; got \(3,\)"),
        (lambda x: x[:2], [(X, Y)], "one row per label; got 2 rows for 7 labels"),
    ],
)
def test_what_cannot_be_collected_is_said_in_one_sentence(model, batches, sentence) -> None:
    with pytest.raises(cx.InvalidInput, match=sentence):
        collect_outputs(model, batches)


@pytest.mark.gpu
def test_batches_go_to_the_device_of_the_model() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    model = linear().cuda()
    logits, y = collect_outputs(model, loader(), to=None)
    assert logits.device.type == "cuda"
    assert y.device.type == "cpu"
    assert collect_outputs(model, loader())[0].device.type == "cpu"
