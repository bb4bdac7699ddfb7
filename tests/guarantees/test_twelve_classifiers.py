"""Whatever the classifier, the promise holds: a short run of examples/twelve_classifiers.py."""

import functools
import importlib.util
from pathlib import Path

import conformix as cx

PATH = Path(__file__).parents[2] / "examples" / "twelve_classifiers.py"
SPEC = importlib.util.spec_from_file_location("twelve_classifiers", PATH)
twelve = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(twelve)


def test_twelve_classifiers_keep_the_promise_on_small_data():
    cells = twelve.table(2, ["breast cancer", "wine"])
    assert len(cells) == 24
    assert {key: cell.z for key, cell in cells.items() if cell.z < -twelve.Z_LIMIT} == {}
    assert min(cell.size for cell in cells.values()) < 1.2  # and not by full sets alone


def test_a_few_of_them_on_digits():
    X, y = twelve.DATA["digits"](return_X_y=True)
    for name in ("naive Bayes", "linear discriminant", "extra trees"):
        assert abs(twelve.measure(twelve.classifiers()[name], X, y, 3).z) < twelve.Z_LIMIT


def test_a_broken_promise_would_be_seen(monkeypatch):
    class Lax(cx.ConformalClassifier):
        def __init__(self, estimators, *, scores, alpha, calibration_share, random_state, threads):
            super().__init__(
                estimators, scores=scores, alpha=alpha + 0.06, calibration_share=calibration_share,
                random_state=random_state, threads=threads,
            )  # fmt: skip

    monkeypatch.setattr(twelve.cx, "ConformalClassifier", functools.partial(Lax))
    X, y = twelve.DATA["digits"](return_X_y=True)
    cell = twelve.measure(twelve.classifiers()["linear discriminant"], X, y, 6)
    assert cell.z < -twelve.Z_LIMIT
