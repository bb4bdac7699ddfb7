"""The house stands: imports go down, the front door is light."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import conformix

PACKAGE = Path(conformix.__file__).parent

ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"
# The rooms of the table on the page, from the ground up. A module may import from layers above its
# own row, and from its own.
LAYERS = [
    name.removesuffix(".py").removesuffix("/")
    for name in re.findall(r"^\| `([a-z_]+(?:\.py|/))` \|", ARCHITECTURE.read_text(), re.M)
]
HEAVY = ("scipy", "numba", "sklearn", "matplotlib", "pandas", "torch", "plotly", "dask")
FILES = sorted(PACKAGE.rglob("*.py"))
PUBLIC = [
    "conformix",
    *(f"conformix.{p.parent.name}" for p in sorted(PACKAGE.glob("*/__init__.py"))),
]


def layer_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported_layers(path: Path) -> set[str]:
    """Layers of conformix that a file imports, anywhere but under ``if TYPE_CHECKING``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    only_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in only_types:
            continue
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            pytest.fail(f"{path} uses a relative import")
        elif isinstance(node, ast.ImportFrom):
            targets = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {t.split(".")[1] for t in targets if t.startswith("conformix.")}
    return found


def classes_asked_for(path: Path) -> set[str]:
    """Names that a file compares the class of something with."""
    asked: list[ast.AST] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            asked.append(node.args[1])
        elif isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
            asked += node.comparators
    names = [inner for part in asked for inner in ast.walk(part)]
    return {inner.id for inner in names if isinstance(inner, ast.Name)}


def test_nobody_asks_for_the_class_of_a_strategy_but_the_file_that_defines_it() -> None:
    homes: dict[str, set[Path]] = {}
    for path in FILES:
        place = path.relative_to(PACKAGE).as_posix()
        if place.startswith(("calibration/", "fit/", "search/", "splits.py", "scores/scale.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    homes.setdefault(node.name, set()).add(path)
    assert {"GridSearch", "Stratified", "Calibrated", "Scaled", "ValidityFirst"} <= set(homes)
    guests = {
        f"{path.relative_to(PACKAGE).as_posix()}: {name}"
        for path in FILES
        for name in classes_asked_for(path)
        if name in homes and path not in homes[name]
    }
    assert guests == set()


def test_every_file_has_a_layer() -> None:
    layers = {layer_of(path) for path in FILES} - {"__init__"}
    assert layers <= set(LAYERS), "add the new module to LAYERS, in its place"


def test_the_page_on_the_architecture_names_every_room_and_no_file_that_is_not_there() -> None:
    root = ARCHITECTURE.parent
    named = set(re.findall(r"`([\w/]+(?:\.py|\.html|/))`", ARCHITECTURE.read_text()))
    rooms = {p.name if p.is_file() else f"{p.name}/" for p in PACKAGE.iterdir()}
    rooms = {room for room in rooms if room.endswith((".py", "/")) and not room.startswith("__")}
    assert rooms <= named
    assert [n for n in named if not (list(PACKAGE.rglob(n)) or (root / n).exists())] == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_imports_only_go_down(path: Path) -> None:
    own = layer_of(path)
    if own == "__init__":
        return  # the table of contents loads names on first use
    height = {name: i for i, name in enumerate(LAYERS)}
    names = imported_layers(path) & set(LAYERS)
    assert {name for name in names if height[name] > height[own]} == set()


def test_the_import_test_sees_the_imports_that_there_are() -> None:
    assert {"errors", "scores", "search", "fit"} <= imported_layers(
        PACKAGE / "estimators" / "average.py"
    )


def in_a_fresh_interpreter(code: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return json.loads(done.stdout)


MODULES_OF = """
import json, sys
{statement}
print(json.dumps(sorted({{name.split(".")[0] for name in sys.modules}})))
"""
SECONDS_OF = """
import json, time
start = time.process_time()
{statement}
print(json.dumps(time.process_time() - start))
"""


def test_importing_conformix_imports_numpy_alone() -> None:
    with_us = set(in_a_fresh_interpreter(MODULES_OF.format(statement="import conformix")))
    numpy_alone = set(in_a_fresh_interpreter(MODULES_OF.format(statement="import numpy")))
    assert "numpy" in with_us
    assert with_us.isdisjoint(HEAVY)
    third_party = {n for n in with_us - numpy_alone if n not in sys.stdlib_module_names}
    assert third_party == {"conformix"}


@pytest.mark.parametrize(
    "statement",
    [
        "import conformix as cx; cx.score_tensor([[0.5, 0.5]])",
        "import conformix as cx; cx.load_predictor",
        (
            "sys.modules['sklearn'] = None; import conformix as cx;"
            "cx.ScoreAverage(weights=[1, 0, 0], alpha=0.5)"
            ".fit([[0.5, 0.5]], [0]).predict_set([[0.5, 0.5]]);"
            "del sys.modules['sklearn']"
        ),
    ],
    ids=["scores", "a saved model", "fixed weights where scikit-learn is absent"],
)
def test_what_needs_numpy_alone_loads_numpy_alone(statement: str) -> None:
    loaded = set(in_a_fresh_interpreter(MODULES_OF.format(statement=statement)))
    assert loaded.isdisjoint(HEAVY)


def test_a_search_works_without_scikit_learn_and_plots() -> None:
    statement = (
        "import conformix as cx; s = cx.score_tensor([[0.75, 0.25]] * 4);"
        "cx.search.search_weights(s, [0] * 4, alpha=0.5, resolution=2)"
    )
    loaded = set(in_a_fresh_interpreter(MODULES_OF.format(statement=statement)))
    assert loaded.isdisjoint({"sklearn", "matplotlib", "pandas", "torch"})


def test_importing_conformix_takes_well_under_half_a_second_beyond_numpy() -> None:
    def best_of_three(statement: str) -> float:
        return min(in_a_fresh_interpreter(SECONDS_OF.format(statement=statement)) for _ in range(3))

    # Seconds of a core, the best of three of each: a busy machine slows neither.
    assert best_of_three("import conformix") - best_of_three("import numpy") < 0.2


def public_modules() -> list[ModuleType]:
    modules = [importlib.import_module(name) for name in PUBLIC]
    flat = [getattr(conformix, name) for name in conformix.__all__]
    modules += [part for part in flat if inspect.ismodule(part) and part not in modules]
    return modules


@pytest.mark.parametrize("module", public_modules(), ids=lambda m: m.__name__)
def test_every_public_name_exists_and_modules_say_what_they_are_for(module: ModuleType) -> None:
    assert module.__doc__
    names = getattr(module, "__all__", [])
    assert len(names) == len(set(names))
    for name in names:
        assert hasattr(module, name), f"{module.__name__}.{name}"


def documented() -> list[tuple[str, object]]:
    """Functions and classes of every ``__all__``; protocols, types and registries apart."""
    found = {}
    for module in public_modules():
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            own = getattr(value, "__module__", "").startswith("conformix")
            if own and (inspect.isfunction(value) or inspect.isclass(value)):
                found[f"{value.__module__}.{name}"] = value
    return sorted(found.items())


@pytest.mark.parametrize(("name", "value"), documented(), ids=[name for name, _ in documented()])
def test_every_public_function_and_class_has_a_docstring_with_an_example(
    name: str, value: object
) -> None:
    text = inspect.getdoc(value) or ""
    assert text, name
    assert "Examples\n--------" in text
    assert ">>>" in text


def public_methods() -> list[tuple[str, object]]:
    """Public methods and properties that our public classes define themselves."""
    classes = [(name, value) for name, value in documented() if inspect.isclass(value)]
    found = {}
    for name, value in classes:
        for owner in value.__mro__:
            if owner.__module__.startswith("conformix"):
                own = {k: v for k, v in vars(owner).items() if not k.startswith("_")}
                found |= {
                    f"{name}.{k}": v
                    for k, v in own.items()
                    if callable(v) or isinstance(v, property | classmethod | staticmethod)
                }
    return sorted(found.items())


def test_every_public_method_says_what_it_does() -> None:
    methods = public_methods()
    expected = {"estimators.average.ScoreAverage.fit", "predictions.sets.PredictionSets.labels"}
    assert {f"conformix.{name}" for name in expected} <= {name for name, _ in methods}
    silent = [name for name, method in methods if not (inspect.getdoc(method) or "").strip()]
    assert silent == []


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'scroe_tensor'"):
        conformix.scroe_tensor  # noqa: B018  the access is the test


def test_dir_lists_every_public_name() -> None:
    assert set(conformix.__all__) <= set(dir(conformix))


def test_the_table_of_rooms_has_every_room_once() -> None:
    rooms = {path.name.removesuffix(".py") for path in PACKAGE.iterdir()}
    assert len(LAYERS) == len(set(LAYERS))
    rooms = {name for name in rooms if not name.startswith("__") or name == "__main__"}
    assert set(LAYERS) == rooms - {"py.typed"}
