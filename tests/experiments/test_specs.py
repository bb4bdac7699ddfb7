from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import conformix as cx
from conformix.experiments import Spec, load_data, read_specs

SPEC = Spec("mmlu_llama13b", ("thr", "average"), models=("llama13b_prompt0",), runs=2, rows=200)


def test_a_toml_file_becomes_a_spec(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'data = "cifar10"\nmethods = ["thr", "average:efcp"]\nalphas = [0.01, 0.05]\nshare = 0.5\n'
    )
    assert read_specs(file) == [
        Spec("cifar10", ("thr", "average:efcp"), alphas=(0.01, 0.05), share=0.5)
    ]


def test_a_toml_file_may_hold_several_experiments(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    one = '[[experiment]]\ndata = "cifar10"\nmethods = ["thr"]\n'
    file.write_text(one + one.replace("thr", "aps"))
    assert [spec.methods for spec in read_specs(file)] == [("thr",), ("aps",)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("data = ", "is no TOML"),
        ('data = "cifar10"', "an experiment needs the setting 'methods'."),
        ('data = "cifar10"\nmethods = "thr"', "setting 'methods' must be a list; got 'thr'."),
        ('data = "x"\nmethod = ["thr"]', "unknown setting 'method'; did you mean 'methods'? known"),
        (
            'data = "x"\nmethods = ["thr"]\nruns = 0',
            "runs must be an integer of at least 1; got 0.",
        ),
        ('data = "x"\nmethods = ["thr"]\nshare = 1', "share must lie strictly between 0 and 1"),
        ('data = "x"\nmethods = []', "an experiment needs at least one method and one alpha."),
        ('data = "x"\nmethods = ["thr"]\nalphas = [2]', "alpha must be a number strictly between"),
    ],
)
def test_a_bad_toml_file_is_refused_in_one_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(cx.InvalidInput) as caught:
        read_specs(file)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"share": 0.5}, {"rows": 201}, {"models": ("llama13b_prompt1",)},
     {"alphas": (0.2,)}],
    ids=str,
)  # fmt: skip
def test_every_setting_changes_the_keys(change: dict) -> None:
    keys = {case.key for case in SPEC.cases()}
    assert keys.isdisjoint({case.key for case in replace(SPEC, **change).cases()})


def test_settings_of_averages_leave_the_keys_of_other_methods_alone() -> None:
    before = {case.name: case.key for case in SPEC.cases()}
    after = {case.name: case.key for case in replace(SPEC, resolution=7).cases()}
    assert before["thr"] == after["thr"]
    assert before["average"] != after["average"]


def test_methods_levels_and_models_share_their_splits_and_runs_differ() -> None:
    seeds = [case.draw.random_seed for case in replace(SPEC, alphas=(0.1, 0.2)).cases()]
    assert len(set(seeds)) == SPEC.runs
    other = replace(SPEC, models=("llama13b_prompt1",), methods=("aps",))
    assert {case.draw.random_seed for case in other.cases()} == set(seeds)


def test_a_file_gives_labels_models_and_kind(tmp_path: Path) -> None:
    probs = np.array([[0.25, 0.75], [0.5, 0.5]])
    np.savez(tmp_path / "a.npz", labels=[0, 1], one=probs, extra=np.arange(3))
    data = load_data(str(tmp_path / "a.npz"))
    assert (data.name, data.kind, list(data.outputs)) == ("a", "probs", ["one"])
    np.savez(tmp_path / "b.npz", labels=[0, 1], one=probs, two=probs - 1)
    assert load_data(str(tmp_path / "b.npz")).kind == "logits"
    assert load_data(str(tmp_path / "b.npz"), "probs").kind == "probs"


def test_files_that_are_no_data_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "no_labels.npz", one=np.zeros((2, 2)))
    np.savez(tmp_path / "pickled.npz", labels=np.array([{}], dtype=object))
    (tmp_path / "text.npz").write_text("hello")
    for name, sentence in {
        "no_labels.npz": "has no labels: none of 'labels', 'label', 'y', 'target', 'class'; name",
        "pickled.npz": "holds Python objects, which are stored as a pickle and never loaded",
        "text.npz": "is no npz file",
        "absent.npz": "does not exist or is no file.",
    }.items():
        with pytest.raises(cx.InvalidInput) as caught:
            load_data(str(tmp_path / name))
        assert sentence in str(caught.value)


def test_an_unknown_model_is_refused_by_name() -> None:
    from conformix.experiments.pool import Pool

    with pytest.raises(cx.InvalidInput, match="unknown model of mmlu_llama13b 'llama'"):
        Pool(cx.datasets.load("mmlu_llama13b"), ["llama"])


GOOD = 'data = "cifar10"\nmethods = ["thr"]\n'


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("rows = -5", "rows must be an integer of at least 2; got -5."),
        ("rows = 1", "rows must be an integer of at least 2; got 1."),
        ("rows = 2.5", "rows must be an integer of at least 2; got 2.5."),
        ("runs = 1_000_000_000", "are 1,000,000,000 cases, and at most 1,000,000 are run; lower"),
        ("runs = true", "runs must be an integer of at least 1; got True."),
        ('runs = "many"', "runs must be an integer of at least 1; got 'many'."),
        ("seed = -1", "seed must be an integer of at least 0; got -1."),
        (f"seed = {10**30}", "seed must be an integer of at least 0; got 1000"),
        ("resolution = 0", "resolution must be an integer of at least 1; got 0."),
        ('share = "x"', "share must lie strictly between 0 and 1; got 'x'."),
        ("share = nan", "share must lie strictly between 0 and 1; got nan."),
        ("alphas = [true]", "alpha must be a number strictly between 0 and 1; got True."),
        ('alphas = ["0.1"]', "alpha must be a number strictly between 0 and 1; got '0.1'."),
        ("alphas = [2020-01-01]", "alpha must be a number strictly between 0 and 1; got datetime"),
        ("models = [3]", "models must hold texts; got [3]."),
        ('models = ["a", "a"]', "models must differ; got ['a', 'a']."),
        ("scores = []", "an experiment needs at least one score."),
        ("scores = [1]", "scores must hold texts; got [1]."),
        ("normalize = 3", "normalize must be text; got 3."),
        ('normalize = "scal"', "unknown normalize 'scal'; did you mean 'scale'?"),
        ('kind = "odds"', '"logprobs", "shares" or "binary"; got \'odds\'.'),
        ("[[experiment]]\nrows = 3", "'data' beside its experiments; settings go into one of"),
        ("experiment = 3", "beside its experiments; settings go into one of them."),
        ("[mine]\nrows = 3", "has a table [mine]; settings stand alone, or under [[experiment]]."),
        (f"seed = {'9' * 5000}", "is no TOML"),
        (f"x = {'[' * 5000}", "is no TOML"),
        ("run = 3", "unknown setting 'run'; did you mean 'runs'?"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_refused_in_one_sentence(
    tmp_path: Path, line: str, sentence: str
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f"{GOOD}{line}\n")
    with pytest.raises(cx.InvalidInput) as caught:
        read_specs(file)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["experiment = 3", "experiment = []", "experiment = [3]"])
def test_experiments_are_tables(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(cx.InvalidInput, match=r"an experiment is a table of|holds no experiment"):
        read_specs(file)


@pytest.mark.parametrize("setting", [{"rows": -5}, {"runs": 10**9}, {"share": 2}], ids=str)
def test_a_comparison_refuses_the_same(setting: dict) -> None:
    from conformix.experiments import compare

    with pytest.raises(cx.InvalidInput, match=r"^(rows|share|1,000,000,000 runs)"):
        compare("cifar10", models=["vgg16"], **setting)
