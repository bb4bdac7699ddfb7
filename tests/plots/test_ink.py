"""Pictures: every one draws, shows names as they are, and touches nothing outside itself."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import conformix as cx
from conformix import plots
from conformix.plots.weights import WeightLandscape

DATA = cx.datasets.load("cifar10")
LOGITS, Y = DATA.outputs["wideresnet_16_4"][:900], DATA.labels[:900]
HOSTILE = ["_hidden", "$x^2$", "a_b_c", r"\frac{1}{2}", "100 %", "<b>&amp;", "$", "#$%$", "{", "ok"]


def fitted(scores: Any = ("thr", "aps", "rank"), **options: Any) -> cx.ScoreAverage:
    options = {"search": cx.search.simplex_grid(len(scores), 6) / 6} | options
    cp = cx.ScoreAverage(scores, alpha=0.1, kind="logits", random_state=0, **options)
    return cp.fit(LOGITS, Y)


def sets() -> Any:
    return fitted().predict_set(LOGITS, alpha=0.02)


PLOTS: dict[str, Callable[..., Any]] = {
    "weights of one": lambda **o: plots.weights(fitted(("thr",)), LOGITS, Y, **o),
    "weights of two": lambda **o: plots.weights(fitted(("thr", "rank")), LOGITS, Y, **o),
    "weights of three": lambda **o: plots.weights(fitted(), LOGITS, Y, **o),
    "weights of five": lambda **o: plots.weights(
        fitted(("thr", "aps", "rank", "logp", "margin")), LOGITS, Y, resolution=5, **o
    ),
    "weights, exact": lambda **o: plots.weights(fitted(split="exact"), **o),
    "weight spread": lambda **o: plots.weight_spread(fitted(), LOGITS, Y, repetitions=5, **o),
    "size and coverage": lambda **o: plots.size_coverage(
        {"average": fitted(), "thr": fitted(("thr",))}, LOGITS, Y, **o
    ),
    "boxes": lambda **o: plots.plot_boxes({"a": [1, 2, 3], "b": [2, 3, 9]}, target=2.0, **o),
    "set sizes": lambda **o: plots.set_sizes(sets(), Y, **o),
    "set sizes without labels": lambda **o: plots.set_sizes(sets(), bars=2, **o),
    "class coverage": lambda **o: plots.class_coverage(sets(), Y, alpha=0.02, **o),
    "class coverage of many": lambda **o: plots.class_coverage(
        np.ones((5000, 1000), dtype=bool), np.arange(5000) % 1000, alpha=0.1, **o
    ),
    "coverage by size": lambda **o: plots.coverage_by_size(sets(), Y, alpha=0.02, **o),
    "explain": lambda **o: plots.explain(fitted(), LOGITS, 3, y=Y, **o),
    "explain, exact": lambda **o: plots.explain(fitted(split="exact"), LOGITS, 3, **o),
}


def saved(figure: Any, kind: str = "png") -> bytes:
    made = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(made, format=kind)
    return made.getvalue()


@pytest.fixture(scope="module")
def drawn() -> dict[str, Any]:
    before = dict(mpl.rcParams)
    made = {name: draw(title="A title") for name, draw in PLOTS.items()}
    for ax in made.values():
        assert saved(ax.figure).startswith(b"\x89PNG")
    assert dict(mpl.rcParams) == before, "a plot changed the settings of matplotlib"
    return made


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_draws_and_takes_its_title(name: str, drawn: dict[str, Any]) -> None:
    assert drawn[name].get_title() == "A title"


def hidden_ticks(ax: Any) -> list[Any]:
    """Labels of ticks beyond the ends of their axis, or of axes that are switched off."""
    found = []
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        found += [t.label1 for t in ticks if not ax.axison or not low <= t.get_loc() <= high]
    return found


@pytest.mark.parametrize("name", PLOTS)
def test_no_text_lies_on_another(name: str, drawn: dict[str, Any]) -> None:
    figure = drawn[name].figure
    renderer = FigureCanvasAgg(figure).get_renderer()
    hidden = {text for ax in figure.axes for text in hidden_ticks(ax)}
    texts = [
        text
        for text in figure.findobj(mpl.text.Text)
        if text.get_visible() and text.get_text().strip() and text not in hidden
        if text.get_rotation() in (0.0, 90.0)
    ]
    assert texts
    boxes = [(text, text.get_window_extent(renderer).padded(-0.5)) for text in texts]
    for (one, a), (other, b) in combinations(boxes, 2):
        assert not a.overlaps(b), f"{one.get_text()!r} lies on {other.get_text()!r}"
    for text, box in boxes:
        assert figure.bbox.padded(1).contains(box.x0, box.y0), text.get_text()
        assert figure.bbox.padded(1).contains(box.x1, box.y1), text.get_text()


@pytest.mark.parametrize("name", ["weights of two", "weights of three", "explain", "boxes"])
def test_axes_of_the_caller_are_drawn_on_and_returned(name: str) -> None:
    ax = plots.new_figure(5, 4).add_subplot()
    assert PLOTS[name](ax=ax) is ax


def test_names_are_shown_letter_by_letter() -> None:
    y = np.arange(100) % 10
    everything = np.ones((100, 10), dtype=bool)
    cp = cx.ScoreAverage(("thr",), alpha=0.1, kind="logits", split="efcp").fit(LOGITS, Y)
    models = dict.fromkeys(HOSTILE, fitted(weights=[1, 0, 0]))
    numbers = plots.weight_spread_numbers(fitted(), LOGITS, Y, repetitions=2)
    three = {**numbers.__dict__, "names": ("_hidden", "$x^2$", "a_b_c")}
    landscape = plots.weights_numbers(fitted(), LOGITS, Y).__dict__ | {"names": three["names"]}
    for ax, shown in (
        (plots.class_coverage(everything, y, classes=HOSTILE), HOSTILE),
        (plots.explain(cp, LOGITS, 0, classes=HOSTILE), HOSTILE),
        (plots.size_coverage(models, LOGITS, Y), HOSTILE),
        (plots.plot_boxes({name: [1, 2] for name in HOSTILE}), HOSTILE),
        (plots.plot_weight_spread(type(numbers)(**three)), three["names"]),
        (plots.plot_weights(WeightLandscape(**landscape)), three["names"]),
    ):
        svg = saved(ax.figure, "svg").decode()
        for name in shown:
            escaped = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            assert f">{escaped}<" in svg, name


def test_a_long_name_is_cut_and_a_broken_one_is_one_line() -> None:
    name = "line one\nline two " + "x" * 100
    ax = plots.plot_boxes({name: [1, 2]})
    text = ax.get_xticklabels()[0].get_text()
    assert text.startswith("line one line two xx")
    assert len(text) == 32


def test_a_thousand_classes_are_a_band_with_few_ticks(drawn: dict[str, Any]) -> None:
    ax = drawn["class coverage of many"]
    assert ax.get_xlabel() == "1,000 classes, worst covered first"
    assert len(ax.get_xticklabels()) < 12


def test_what_differs_in_colour_differs_in_shape_too(drawn: dict[str, Any]) -> None:
    curves = drawn["size and coverage"].lines
    assert len({line.get_marker() for line in curves}) == len(curves) == 2
    bars = drawn["set sizes"].containers
    assert len({bar.patches[0].get_hatch() for bar in bars}) == len(bars) == 2
    stacks = [c for c in drawn["explain"].containers if hasattr(c, "patches")]
    assert len({bar.patches[0].get_hatch() for bar in stacks}) == len(stacks) > 1


def loaded_after(statement: str) -> set[str]:
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return set(json.loads(done.stdout))


def test_numbers_need_no_matplotlib_and_ink_needs_no_pyplot() -> None:
    numbers = "import conformix as cx; cx.plots.set_sizes_numbers([[True, False]], [0])"
    assert "matplotlib" not in loaded_after(numbers)
    ink = "import conformix as cx; cx.plots.set_sizes([[True, False]], [0])"
    loaded = loaded_after(ink)
    assert "matplotlib.figure" in loaded
    assert "matplotlib.pyplot" not in loaded
