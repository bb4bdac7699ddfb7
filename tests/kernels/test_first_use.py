"""What a fresh process waits for: nothing is compiled for small problems, and waiting is told."""

from __future__ import annotations

import ast
import gc
import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformix.kernels.host import compiled as kernels
from conformix.kernels.host.compiled import COMPILED_IN
from conformix.kernels.host.products import are_quick
from conformix.kernels.host.sorting import SORTS_WIDE

SMALL = """
import json, sys
import numpy as np
import conformix as cx

rng = np.random.default_rng(0)
probs = rng.dirichlet(np.full(10, 0.3), 2000)
y = (probs.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1).clip(max=9)
for options in {cases!r}:
    model = cx.ScoreAverage(**options).fit(probs[:1000], y[:1000])
    model.predict_set(probs[1000:])
    model.predict_pvalues(probs[1000:1100])
    model.predict_set(probs[:1])
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


def loaded_by(code: str, cache: Path) -> set[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return set(json.loads(done.stdout))


def test_a_thousand_rows_of_ten_classes_compile_nothing(tmp_path: Path) -> None:
    cases = [
        {"scores": scores, "split": split}
        for scores in (("thr", "aps", "rank"), "auto")
        for split in ("vfcp", "exact")
    ]
    loaded = loaded_by(SMALL.format(cases=cases), tmp_path)
    assert loaded.isdisjoint({"numba", "llvmlite", "sklearn", "pandas", "torch"})
    assert list(tmp_path.iterdir()) == []


def test_other_choices_on_small_problems_compile_nothing(tmp_path: Path) -> None:
    cases = [
        {"scores": ("thr", "rank"), "allow_empty": False},
        {"scores": ("thr", "rank"), "calibration": "class"},
        {"scores": ("thr", "rank"), "split": "efcp", "objective": "singletons"},
    ]
    assert "numba" not in loaded_by(SMALL.format(cases=cases), tmp_path)


RESPONSES = """
import json, sys
import numpy as np
import conformix as cx

rng = np.random.default_rng(0)
mean, sigma = rng.normal(size=2000), rng.uniform(0.5, 2.0, size=2000)
y = mean + sigma * rng.normal(size=2000)
quantiles = {{0.05: mean - sigma, 0.5: mean, 0.95: mean + sigma}}
told = cx.Regressed(mean, sigma, quantiles)
model = cx.RegressionAverage(random_state=0, **{options!r}).fit(told[:1000], y[:1000])
model.predict_interval(told[1000:])
for row in range(20):
    model.predict_interval(told[row])
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


@pytest.mark.parametrize(
    "options",
    [{}, {"scores": "norm"}, {"scores": ("abs", "norm", "cqr")}, {"split": "exact"}],
    ids=str,
)
def test_a_thousand_responses_compile_nothing(options: dict[str, Any], tmp_path: Path) -> None:
    loaded = loaded_by(RESPONSES.format(options=options), tmp_path)
    assert loaded.isdisjoint({"numba", "llvmlite", "sklearn", "pandas", "torch"})
    assert list(tmp_path.iterdir()) == []


WARMED = """
import importlib, json, pkgutil
import conformix.kernels.host as host
from conformix.estimators.warmup import warm_up

result = warm_up()
unready = []
for module in pkgutil.walk_packages(host.__path__, host.__name__ + "."):
    for name, kernel in vars(importlib.import_module(module.name)).items():
        options = getattr(kernel, "targetoptions", {"inline": "always"})
        inner = "inline" in options or "no_cpython_wrapper" in options
        if not inner and kernel.py_func.__module__ == module.name and len(kernel.signatures) != 1:
            unready.append([module.name, name, list(map(str, kernel.signatures))])
print(json.dumps([result._asdict(), unready]))
"""
HOST = "conformix.kernels.host"
# Kernels that no score uses yet, and those that this machine leaves to others: where NumPy sorts by
# wide vectors nobody sorts by digits, and a quick step multiplies what else BLAS does.
UNUSED = [f"{HOST}.elementary.", *([f"{HOST}.rising.by_digits"] if SORTS_WIDE else [])]
if are_quick():
    UNUSED += [f"{HOST}.likeness.leave_out"]
else:
    steps = "products.", "kin.", "likeness.add_up", "likeness.score"
    UNUSED += [f"{HOST}.{name}" for name in steps]


def warmed(environment: dict[str, str]) -> tuple[dict[str, Any], list[Any]]:
    done = subprocess.run(
        [sys.executable, "-c", WARMED],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    result, unready = json.loads(done.stdout)
    return result, [one for one in unready if not f"{one[0]}.{one[1]}".startswith(tuple(UNUSED))]


def test_warming_up_readies_every_kernel_for_one_signature() -> None:
    result, unready = warmed({})
    if result["compiled"] > 0:
        result, unready = warmed({})
    assert unready == []
    assert result["compiled"] == 0.0  # the first process has left all of it to the second
    assert result["seconds"] > 0
    assert result["folder"] is not None


def compilation(of: str, folder: str | None) -> Any:
    """Return what numba says when it compiles a function of some module."""

    def function() -> None: ...

    function.__module__ = of
    stats = SimpleNamespace(cache_path=folder)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function, stats=stats)})


def lines_after(seconds: list[float], *, of: str, folder: str | None = "/kept") -> list[str]:
    """Compile for some times one after the other, and return the lines that were said."""
    notice = kernels.Notice()
    event = compilation(of, folder)
    lines, logger = [], logging.getLogger("conformix")
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())
    logger.addHandler(handler)
    try:
        for wait in seconds:
            notice.on_start(event)
            notice.on_start(event)  # what a kernel calls is compiled within
            notice.on_end(event)
            time.sleep(wait)
            notice.on_end(event)
        time.sleep(0.15)
    finally:
        logger.removeHandler(handler)
    return lines


def test_the_collector_rests_while_a_kernel_is_compiled() -> None:
    calm, ours, others = kernels.Calm(), compilation(OURS, None), compilation("numba.np", None)
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            calm.on_start(others)
            assert gc.isenabled() == enabled
            calm.on_start(ours)
            calm.on_start(ours)  # what a kernel calls is compiled within
            assert not gc.isenabled()
            calm.on_end(ours)
            assert not gc.isenabled()
            calm.on_end(ours)
            assert gc.isenabled() == enabled
        finally:
            gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("enabled", [True, False])
def test_a_child_that_is_forked_while_a_kernel_is_compiled_collects_as_before(
    enabled: bool,
) -> None:
    ours = compilation(OURS, None)
    (gc.enable if enabled else gc.disable)()
    try:
        kernels.CALM.on_start(ours)
        kernels.NOTICE.on_start(ours)
        child = os.fork()
        if child == 0:
            began_anew = kernels.CALM._depth == kernels.NOTICE._depth == 0
            os._exit(0 if gc.isenabled() == enabled and began_anew else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert not gc.isenabled()
        kernels.NOTICE.on_end(ours)
        kernels.CALM.on_end(ours)
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "SILENCE", 0.1)


OURS = "conformix.kernels.host.engine.walk"


@pytest.mark.usefixtures("impatient")
def test_whoever_waits_is_told_once_in_one_line() -> None:
    (line,) = lines_after([0.3, 0.3], of=OURS)
    assert line == (
        "conformix: compiling for this machine, about fifteen seconds; kept in /kept for later "
        "processes."
    )


@pytest.mark.usefixtures("impatient")
def test_waits_add_up() -> None:
    assert len(lines_after([0.06] * 4, of=OURS)) == 1


@pytest.mark.usefixtures("impatient")
def test_where_nothing_can_be_kept_the_line_says_so() -> None:
    (line,) = lines_after([0.3], of=OURS, folder=None)
    assert line.endswith(
        "by every process, because numba finds no folder to keep it in (NUMBA_CACHE_DIR)."
    )


def test_short_compilations_are_silent() -> None:
    assert lines_after([0.0, 0.0], of=OURS) == []


@pytest.mark.usefixtures("impatient")
def test_kernels_of_others_are_none_of_our_business() -> None:
    assert lines_after([0.3], of="somebody.else") == []


def test_the_line_goes_to_standard_error_without_any_setting() -> None:
    code = (
        "from conformix.kernels.host import compiled\n"
        "import numba\n"
        "compiled.SILENCE = 0.0\n"
        "def late(x):\n    return x + 1\n"
        "late.__module__ = 'conformix.late'\n"
        "numba.njit(late)(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr.startswith("conformix: compiling for this machine")
    assert len(done.stderr.splitlines()) == 1


def from_scratch(folder: Path) -> dict[str, str]:
    """Return an environment with this library, in which nothing is compiled.

    Python, too, keeps what it has compiled, and takes a file of the same second and the same length
    for the one of before.
    """
    return {
        "NUMBA_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": str(Path(kernels.__file__).parents[3]),  # wherever the library is
        "PYTHONDONTWRITEBYTECODE": "1",
    }


RELEASE = """
from typing import NamedTuple
import numpy as np
from conformix.kernels.host.compiled import compiled
class {name}(NamedTuple):
    values: np.ndarray
@compiled
def total(task):
    return task.values.sum() + {more}
print(total({name}(np.ones(3))))
"""


def test_what_another_release_has_left_behind_is_compiled_again(tmp_path: Path) -> None:
    """A tuple that is gone, in a file that numba kept for a function of the same name and line."""
    environment = os.environ | from_scratch(tmp_path)
    for name, more, expected in (("Old", 0, "3.0"), ("New", 1, "4.0"), ("New", 1, "4.0")):
        (tmp_path / "release.py").write_text(RELEASE.format(name=name, more=more))
        command = [sys.executable, "-c", "import release"]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.stdout.split() == [expected], done.stderr


CALLED = """
from conformix.kernels.host.compiled import inner
from conformix.kernels.host.number import MORE
@inner
def add(x):
    return x + MORE
"""
CALLS = """
from conformix.kernels.host.called import add
from conformix.kernels.host.compiled import compiled
@compiled
def calls(x):
    return add(x)
"""
CALL = """
import conformix.kernels.host as room
room.__path__.append(".")
from conformix.kernels.host.calls import calls
print(calls(1), sum(calls.stats.cache_hits.values()))
"""


def test_a_kernel_is_compiled_again_where_what_is_compiled_into_it_has_changed(
    tmp_path: Path,
) -> None:
    """Its own file is as it was, and numba asks for no other."""
    environment = os.environ | from_scratch(tmp_path)
    (tmp_path / "calls.py").write_text(CALLS)
    (tmp_path / "called.py").write_text(CALLED)
    for more, expected in ((1, "2 0"), (1, "2 1"), (2, "3 0"), (2, "3 1")):
        (tmp_path / "number.py").write_text(f"MORE = {more}\n")
        command = [sys.executable, "-c", CALL]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == expected, done.stderr


def test_a_program_in_one_file_has_kernels_whose_files_are_not_there(tmp_path: Path) -> None:
    """Numba keeps their code for the program as a whole."""
    code = (
        "import sys\n"
        "sys.frozen = True\n"
        "from conformix.kernels.host.compiled import compiled\n"
        "text = 'def more(x): return x + 1'\n"
        "exec(compile(text, '/gone/more.py', 'exec'))\n"
        "more = compiled(more)\n"
        "print(more._cache is not None and more(1))\n"
    )
    environment = os.environ | from_scratch(tmp_path)
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    del environment["NUMBA_CACHE_DIR"]
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "2", done.stderr


def test_constants_of_kernels_come_from_modules_that_are_asked_whether_they_changed() -> None:
    """Numbers that are compiled in, and whose modules would go unnoticed."""
    unseen = {}
    for file in Path(kernels.__file__).parent.joinpath("host").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        seen = set(COMPILED_IN.findall(text))
        for one in ast.walk(ast.parse(text)):
            if isinstance(one, ast.ImportFrom) and str(one.module).startswith("conformix."):
                constants = [name.name for name in one.names if name.name.isupper()]
                if one.module not in seen and constants:
                    unseen[f"{file.name}: {one.module}"] = constants
    assert unseen == {}
    assert any(COMPILED_IN.findall("from conformix.kernels.elementary import SHIFT\n"))
