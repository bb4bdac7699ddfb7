"""The page in a real browser: what moves, moves to what the library says; nothing else happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conformix as cx
from conformix import metrics
from conformix.cli import main
from conformix.experiments import compare
from conformix.report import build_report, compare_report
from conformix.report.page import fixed
from report.by_hand import counted
from report.pages import assert_accessible, reading, shown, unfold

MEASURED = (
    "coverage", "coverage_low", "coverage_high", "mean_size", "size_quantile", "singleton_rate",
    "singleton_accuracy", "empty_rate", "class_coverage_gap",
)  # fmt: skip


def test_the_slider_moves_every_number_to_what_the_library_gives(
    open_page, case, page_file
) -> None:
    page = open_page(page_file)
    slider = page.locator("#level")
    slider.focus()
    page.keyboard.press("Home")
    for a, alpha in enumerate(case.report.rows.alphas):
        sets = case.model.predict_set(case.outputs, alpha=alpha)  # the library's own calls
        told = metrics.evaluate(sets, case.y, alpha=alpha)
        table = metrics.class_table(sets, case.y)
        expected = {(f"measured.{name}", 0): told[name] for name in MEASURED}
        expected |= {("methods.size", 0): told["mean_size"]}
        for i in range(10):
            for name, column in (("coverage", "coverage"), ("low", "low"), ("size", "mean_size")):
                expected[f"classes.{name}", i] = float(table[column].iloc[i])
        numbers = shown(page)
        for key, value in expected.items():
            np.testing.assert_array_equal(numbers[key][0], value, err_msg=str(key))
        for name, column in case.report.methods.columns.items():
            for i in range(len(case.report.methods.names)):
                np.testing.assert_array_equal(numbers[f"methods.{name}", i][0], column[a, i])
        for value, text, digits, scale in numbers.values():
            assert text == fixed(value, int(digits), scale)
        told = page.locator("output.level-out").inner_text()
        assert told.split()[1:] == ["=", f"{alpha:g}", "promise", f"{100 - 100 * alpha:g}", "%"]
        assert slider.get_attribute("aria-valuetext").startswith(f"alpha {alpha:g}, promise ")
        sentence = case.report.measured.sentences[a]
        assert page.locator(".lede").inner_text() == sentence.replace(" %", "\u202f%")
        page.keyboard.press("ArrowRight")


def by_hand(case: Any, steps: list[int], alpha: float) -> tuple[float, float]:
    """Mean size and coverage of one weighting of the triangle, from the kernels alone."""
    labels, hits = counted(case, np.array(steps) / sum(steps), alpha)
    return labels / len(case.y), hits / len(case.y)


def test_the_triangle_is_read_by_keyboard_and_moves_with_the_level(
    open_page, case, page_file
) -> None:
    page = open_page(page_file)
    unfold(page)
    page.locator("#weight-0").focus()
    page.keyboard.press("Home")  # nothing on the first score
    page.locator("#weight-1").focus()
    page.keyboard.press("Home")
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    for level, alpha in enumerate(case.report.rows.alphas):
        page.locator("#level").fill(str(level))
        weights, values = reading(page, "chosen")
        assert weights == ["0.00", "0.20", "0.80"]
        assert tuple(values) == by_hand(case, [0, 10, 40], alpha)
        _, best = reading(page, "best")
        assert best[0] == case.report.weights.totals[level].min() / len(case.y)
    told = page.locator("#weight-1").get_attribute("aria-valuetext")
    assert told.startswith("thr 0.00, aps 0.20, rank 0.80: mean size ")


def test_pointing_at_the_triangle_reads_it_and_a_click_keeps_it(open_page, case, page_file) -> None:
    page = open_page(page_file)
    unfold(page)
    drawing = page.locator("#map svg")
    drawing.scroll_into_view_if_needed()
    corner = page.locator("#map .corner", has_text="aps").bounding_box()
    top = page.locator("#map .corner", has_text="rank").bounding_box()
    kept = reading(page, "chosen")
    x, y = corner["x"] + corner["width"] - 2, corner["y"] - 12  # just above the corner of aps
    page.mouse.move(x, y)
    weights, values = reading(page, "chosen")
    steps = [round(50 * float(weight)) for weight in weights]
    assert steps[1] >= 45
    assert tuple(values) == by_hand(case, steps, 0.1)
    tip = page.locator("#map .tip").text_content()
    assert f"{fixed(values[0], 2)} labels, {fixed(values[1], 1, 100)} %" in tip
    page.mouse.move(top["x"], 2)  # away: back to what was kept
    assert reading(page, "chosen") == kept
    page.mouse.click(x, y)
    page.mouse.move(top["x"], 2)
    assert reading(page, "chosen") == (weights, values)
    assert page.locator("#weight-1").input_value() == str(steps[1])


def test_the_curve_marks_the_level(open_page, case, page_file) -> None:
    page = open_page(page_file)
    places = []
    for level in range(len(case.report.rows.alphas)):
        page.locator("#level").fill(str(level))
        line = page.locator("#curve line.promise")
        places.append(float(line.get_attribute("x1")))
        big = page.locator('#curve path[transform="scale(1.05)"]')
        assert big.count() == len(case.report.methods.names)
        told = page.locator("#curve g:has(> path[transform='scale(1.05)']) > title")
        size = case.report.methods.columns["size"][level, 0]
        alpha = case.report.rows.alphas[level]
        ours = next(text for text in told.all_text_contents() if text.startswith("this model"))
        assert ours.startswith(f"this model, alpha {alpha:g}: size {fixed(size, 2)}")
    assert places == sorted(places, reverse=True)


def test_tables_are_sorted_by_native_buttons(open_page, case, page_file) -> None:
    page = open_page(page_file)
    table = page.locator("#classes-table")
    button = table.get_by_role("button", name="Coverage")
    heading = table.locator("th[data-label=Coverage]")

    def values() -> list[float]:
        return page.eval_on_selector_all(
            "#classes-table tbody tr td:nth-child(3) data", "all => all.map(e => +e.value)"
        )

    button.focus()
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(values())
    page.locator("#level").fill("0")  # another level: still sorted
    assert values() == sorted(case.report.classes.columns["coverage"][0])
    button.click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert values() == sorted(values(), reverse=True)
    table.get_by_role("button", name="Class").click()
    assert heading.get_attribute("aria-sort") is None
    names = table.locator("tbody th").all_inner_texts()
    assert [name for name in names if name.startswith("class ")] == [
        f"class {i}" for i in range(6, 10)
    ]


def test_classes_are_found_by_name(open_page, page_file) -> None:
    page = open_page(page_file)
    page.get_by_label("Find a class").fill("CLASS 7")
    rows = page.locator("#classes-table tbody tr:visible th")
    assert rows.all_inner_texts() == ["class 7"]
    assert page.locator("#found").inner_text() == "1 of 10 classes"
    page.get_by_label("Find a class").fill("<script>")
    assert rows.all_inner_texts() == ["</script><script>window.hacked = 1</script>"]
    page.get_by_label("Find a class").fill("")
    assert rows.count() == 10


def test_examples_say_which_labels_are_in_at_every_level(open_page, case, page_file) -> None:
    page = open_page(page_file)
    for level in range(len(case.report.rows.alphas)):
        page.locator("#level").fill(str(level))
        for e, one in enumerate(case.report.examples.rows):
            card = page.locator(f'[data-example="{e}"]')
            marks = card.locator(".mark").all_inner_texts()
            assert marks == ["in" if inside else "out" for inside in one.member[level]]
            assert card.locator(".size").inner_text() == str(one.sizes[level])


def test_the_table_of_all_weights_is_written_when_it_is_opened(open_page, case, page_file) -> None:
    page = open_page(page_file)
    unfold(page)
    rows = page.locator("#map-table tbody tr")
    assert rows.count() == 0
    page.locator("#map-table summary").click()
    rows.first.wait_for(state="attached")  # the page's policy lets no text be evaluated
    assert rows.count() == 1326
    smallest = case.report.weights.totals[case.report.rows.fitted_place].min() / len(case.y)
    assert rows.first.locator("td").all_inner_texts()[3] == fixed(smallest, 2)


def test_numbers_are_written_alike_in_the_file_and_by_the_script(open_page, page_file) -> None:
    page = open_page(page_file)
    rng = np.random.default_rng(0)
    values = [*rng.normal(size=300).tolist(), *(rng.integers(-999, 999, 300) / 16).tolist(), -1e-9]
    told = page.evaluate("values => values.map(v => [fixed(v, 1, 100), fixed(v, 3)])", values)
    assert told == [[fixed(v, 1, 100), fixed(v, 3)] for v in values]
    assert page.evaluate("window.hacked") is None
    assert page.locator("h1").inner_text() == "A <b>bold</b> title"
    assert page.title() == "A <b>bold</b> title · conformix report"


def test_light_and_dark_follow_the_system_until_asked(open_page, page_file) -> None:
    def light(page: Any) -> bool:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) > 380

    assert light(open_page(page_file, color_scheme="light"))
    page = open_page(page_file, color_scheme="dark")
    assert not light(page)
    page.get_by_role("button", name="Switch to light colours").click()
    assert light(page)


def test_axe_finds_no_violation(open_page, page_file) -> None:
    assert_accessible(open_page, page_file, "dark", 360)


@pytest.mark.long(short="test_axe_finds_no_violation")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_axe_finds_no_violation_whatever_the_colours_and_the_width(
    open_page, page_file, scheme: str, width: int
) -> None:
    assert_accessible(open_page, page_file, scheme, width)


def test_a_narrow_screen_needs_no_sideways_scrolling(open_page, page_file) -> None:
    page = open_page(page_file, width=360)
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_on_paper_everything_is_open_and_the_level_is_stated(open_page, page_file) -> None:
    page = open_page(page_file, color_scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open]):not([data-long])").count() == 0
    assert " = 0.1 " in page.locator("output.level-out").inner_text()
    assert not page.locator("#level").is_visible()
    assert not page.locator(".find").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0


def test_without_scripts_the_numbers_of_the_fitted_level_are_there(
    open_page, case, page_file
) -> None:
    page = open_page(page_file, java_script_enabled=False)
    coverage = metrics.coverage(case.model.predict_set(case.outputs), case.y)
    assert fixed(coverage, 1, 100) in page.locator(".keys .main").inner_text()


@pytest.mark.parametrize("scores", [("thr",), ("thr", "rank"), ("thr", "aps", "rank", "logp")])
def test_one_two_and_four_scores_have_their_own_charts(
    open_page, cifar10, tmp_path, scores
) -> None:
    logits, y = cifar10
    model = cx.ScoreAverage(scores, alpha=0.2, kind="logits", random_state=0)
    model.fit(logits[:400], y[:400])
    made = build_report(model, logits[400:700], y[400:700], alphas=[0.1])
    page = open_page(made.save(tmp_path / "report.html"))
    if len(scores) == 1:
        assert page.locator("#weights, #map").count() == 0
        return
    unfold(page)
    assert page.locator("#map svg").count() == 1
    slider = page.locator("#steer input").first
    slider.focus()
    page.keyboard.press("Home")
    _, (size, coverage) = reading(page, "chosen")
    # Two scores: all weight on the second one. More: the smallest sets come first.
    place = 0 if len(scores) == 2 else int(np.argmin(made.weights.totals[1]))
    assert size == made.weights.totals[1, place] / 300
    assert coverage == made.weights.hits[1, place] / 300
    box = page.locator("#map svg").bounding_box()
    page.locator("#map").scroll_into_view_if_needed()
    page.locator("#map svg").hover(position={"x": box["width"] / 2, "y": 200})
    assert len(reading(page, "chosen")[1]) == 2


def test_the_slider_moves_a_comparison_to_what_compare_gives(open_page, tmp_path) -> None:
    settings = {
        "models": ["llama13b_prompt0"], "runs": 2, "rows": 400, "resolution": 10, "workers": 1,
        "folder": tmp_path,
    }  # fmt: skip
    made = compare_report("mmlu_llama13b", alpha=0.2, levels=[0.1], **settings)
    page = open_page(made.report.save(tmp_path / "report.html"))
    for level, alpha in enumerate((0.1, 0.2)):
        page.locator("#level").fill(str(level))
        again = compare("mmlu_llama13b", alpha=alpha, **settings)
        numbers = shown(page)
        names = list(made.report.methods.names)
        for record in again.summary():
            place = names.index(record["method"])
            assert numbers["methods.size", place][0] == record["size"]
            assert numbers["methods.coverage_low", place][0] == record["coverage_low"]
            assert numbers["methods.gain_high", place][0] == record["saved_high"]
        order = page.locator("#methods-table tbody th").all_inner_texts()
        assert order[0] == again.summary()[0]["method"]  # smallest sets first, as the library
        said = page.locator(".also").inner_text().lower()
        assert said == again.verdict.sentence.lower().replace(" %", "\u202f%")


def test_a_link_into_a_folded_part_opens_it(open_page, page_file) -> None:
    page = open_page(page_file)
    fold = page.locator("#guarantees > details")
    assert fold.get_attribute("open") is None
    page.get_by_role("link", name="Guarantees").click()
    page.wait_for_selector("#guarantees > details[open]")
    assert page.locator(".ledger").is_visible()


def test_the_first_paragraph_follows_the_level(open_page, case, page_file) -> None:
    page = open_page(page_file)
    for level in range(len(case.report.rows.alphas)):
        page.locator("#level").fill(str(level))
        said = page.locator(".plainly").text_content().replace("\u202f", " ")
        assert case.report.opening.sentences[level] in said
        assert case.report.methods.sentences[level] in said


@pytest.fixture(scope="module", params=["set", "interval"])
def stream_page(request, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The page of a stream whose model breaks, as ``conformix monitor -o`` writes it."""
    folder, rng = tmp_path_factory.mktemp("stream"), np.random.default_rng(0)
    broken = np.arange(300) >= 200
    options = {"alpha": [0.1, 0.3], "control": "dtaci", "window": 50, "candidates": 2}
    if request.param == "set":
        y = rng.integers(4, size=300)
        raw = np.exp(rng.normal(size=(300, 4)) + 3 * ~broken[:, None] * np.eye(4)[y])
        probs = raw / raw.sum(axis=1, keepdims=True)
        online = cx.OnlineAverage(("thr", "rank"), **options).record(folder / "log")
        outputs = {"a model of a rather long name": probs, "b": probs}
        online.run(outputs, y)
        online.predict_set({name: values[0] for name, values in outputs.items()}, ticket=1)
    else:
        sigma = rng.uniform(0.3, 2, size=300)
        model = cx.Regressed(mean=np.zeros(300), sigma=sigma)
        online = cx.OnlineRegression(**options).record(folder / "log")
        online.run(model, np.where(broken, 4, 1) * sigma * rng.normal(size=300))
        online.predict_interval(model[0], ticket=1)
    online.close()
    assert main(["monitor", str(folder / "log"), "-o", str(folder / "page.html")]) == 0
    return online, folder / "page.html"


def test_the_page_of_a_stream_is_accessible_and_fits_a_narrow_dark_screen(
    open_page, stream_page
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    online, path = stream_page
    page = open_page(path, color_scheme="dark", width=360)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.locator("#guarantees").inner_text().count(online.guarantee_.statement) == 1
    # No name in the first column is broken in the middle of a word.
    lines = page.eval_on_selector_all(
        "#settings tbody th",
        "all => all.map(e => { const r = document.createRange(); r.selectNodeContents(e);"
        " return r.getClientRects().length })",
    )
    assert set(lines) == {1}


def test_the_curves_of_a_stream_lie_within_their_charts_and_no_script_runs(
    open_page, stream_page
) -> None:
    online, path = stream_page
    page = open_page(path)
    charts = page.locator("#curves figure svg[role=img]")
    assert charts.count() == 5
    titles = page.locator("#curves h3").all_inner_texts()
    assert titles[1] == ("Set size" if isinstance(online, cx.OnlineAverage) else "Width")
    outside = page.eval_on_selector_all(
        "#curves svg[role=img] .line",
        """all => all.filter(e => { const b = e.getBBox(), v = e.ownerSVGElement.viewBox.baseVal;
           return b.x < 0 || b.y < 0 || b.x + b.width > v.width || b.y + b.height > v.height })
           .length""",
    )
    assert outside == 0
    assert "NaN" not in page.content()
    assert page.locator("script").count() == 0
    words = page.locator("#promise").inner_text()
    assert f"{1 - online._errors[0] / 300:.4f}" in words
    assert "Without one\n1" in words
    assert ("without ends" in words) == isinstance(online, cx.OnlineRegression)
