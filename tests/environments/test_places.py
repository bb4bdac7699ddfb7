"""Places where software runs: no home, nothing writable, no room on the disk, killed in a write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import conformix

PACKAGE = Path(conformix.__file__).parent
posix = pytest.mark.skipif(os.name != "posix", reason="needs fork and signals, absent here")

START = """
import warnings
warnings.simplefilter("error")
import conformix as cx
from conformix.search import GridSearch
rows = [[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.0, 0.25, 0.75], [0.25, 0.5, 0.25]] * 10
y = [0, 1, 2, 1] * 10
"""
# With a search, and with weights that are given.
SEARCHED = (
    START
    + """
cp = cx.ScoreAverage(alpha=0.2, split="efcp", search=GridSearch(3), threads=2).fit(rows, y)
"""
)
FIXED = (
    START
    + """
cp = cx.ScoreAverage(alpha=0.2, weights=[0.5, 0.25, 0.25]).fit(rows, y)
"""
)


def run(code: str, **environment: str | None) -> str:
    """Run code in a fresh interpreter; None takes a variable away."""
    there = {k: v for k, v in (os.environ | environment).items() if v is not None}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300,
        env=there,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    return done.stdout


def test_no_warning_on_import() -> None:
    everything = "import conformix as cx; [getattr(cx, name) for name in cx.__all__]"
    assert run(f"import warnings; warnings.simplefilter('error'); {everything}") == ""


def test_a_read_only_installation_without_a_home_compiles_for_itself(tmp_path: Path) -> None:
    """Nothing can be cached: files stand where numba would make its folders, even for root."""
    copy = tmp_path / "site" / "conformix"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(p for p in copy.rglob("*") if p.is_dir())]:
        (folder / "__pycache__").touch()
    occupied = tmp_path / "occupied"
    occupied.touch()
    # The kernel of this metric compiles in a second; the search shares its decorator.
    code = (
        FIXED
        + """
import conformix.kernels.host.engine
from conformix.kernels.host import compiled
compiled.SILENCE = 600  # on a busy machine a second is soon over
print(cx.metrics.worst_slab_coverage(cp.predict_set(rows), y, features=rows, random_state=0))
"""
    )
    told = run(
        f"{code}assert cx.__file__.startswith({str(tmp_path)!r})",
        PYTHONPATH=str(copy.parent),
        PYTHONDONTWRITEBYTECODE="1",
        NUMBA_CACHE_DIR=None,
        HOME=str(occupied / "nowhere"),
        XDG_CACHE_HOME=str(occupied / "nowhere"),
    )
    assert told == run(code)  # with everything in place
    assert not any(path.suffix in {".nbi", ".nbc", ".pyc"} for path in copy.rglob("*"))


def test_every_kernel_is_compiled_by_the_one_decorator() -> None:
    users = [p.name for p in PACKAGE.rglob("*.py") if "njit" in p.read_text(encoding="utf-8")]
    assert users == ["compiled.py"]


@pytest.mark.parametrize("home", [None, "/nonexistent"])
def test_no_home_directory_at_all(home: str | None, tmp_path: Path) -> None:
    path = str(tmp_path / "m.json")
    code = (FIXED if home else SEARCHED) + f"cp.save({path!r}); cx.load({path!r})"
    run(code, HOME=home, XDG_CACHE_HOME=None, XDG_CONFIG_HOME=None)


@posix
def test_a_disk_without_room_leaves_the_earlier_model(tmp_path: Path) -> None:
    """The limit on the size of files fails a write in the middle, as a full disk does."""
    path = tmp_path / "m.json"
    code = (
        FIXED
        + f"""
import resource
from pathlib import Path
path = Path({str(path)!r})
cp.save(path)
before = path.read_bytes()
cp.fit(rows[:20], y[:20])
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
try:
    cp.save(path)
except OSError as error:
    print(error)
assert path.read_bytes() == before
assert [p.name for p in path.parent.iterdir()] == ["m.json"]
assert (cx.load(path).predict_set(rows).mask.shape) == (40, 3)
"""
    )
    assert "too large" in run(code).lower()


@posix
@pytest.mark.parametrize("inline", [10**6, 3], ids=["one file", "two files"])
def test_a_model_killed_while_it_is_saved_is_the_old_one_or_the_new(
    inline: int, tmp_path: Path
) -> None:
    path = tmp_path / "m.json"
    code = (
        FIXED
        + f"""
import os, random, signal, sys, time
from pathlib import Path
import conformix.fit.saved.codec as arrays
arrays.INLINE = {inline}
path = Path({str(path)!r})
other = cx.ScoreAverage(alpha=0.2, weights=[0.5, 0.25, 0.25]).fit(rows[:24], y[:24])
wanted = [cp.predict_pvalues(rows).tolist(), other.predict_pvalues(rows).tolist()]
cp.save(path)
rng, seen = random.Random(0), set()
for _ in range(25):
    child = os.fork()
    if child == 0:
        while True:
            other.save(path)
            cp.save(path)
    time.sleep(rng.uniform(0.001, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = cx.load_predictor(path).predict_pvalues(rows).tolist()
    seen.add(wanted.index(found))
print(len(seen))
"""
    )
    assert int(run(code)) in (1, 2)
    # What a killed writer leaves is hidden by its name, and nobody's model.
    visible = [p.name for p in tmp_path.iterdir() if not p.name.startswith(".")]
    assert "m.json" in visible
    assert all(name == "m.json" or name.endswith(".npz") for name in visible)


@posix
def test_two_threads_and_a_forked_child_fit_save_and_load_at_once(tmp_path: Path) -> None:
    code = (
        SEARCHED
        + f"""
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
folder = Path({str(tmp_path)!r})
wanted = cp.predict_pvalues(rows).tolist()

def life(name):
    own = cx.ScoreAverage(alpha=0.2, split="efcp", search=GridSearch(3), threads=2)
    own.fit(rows, y).save(folder / "shared.json")
    own.save(folder / f"{{name}}.json")
    saved = [folder / "shared.json", folder / f"{{name}}.json"]
    return [cx.load(path).predict_pvalues(rows).tolist() for path in saved]

child = os.fork()
if child == 0:
    os._exit(0 if life("child") == [wanted] * 2 else 1)
with ThreadPoolExecutor(2) as pool:
    assert list(pool.map(life, ["a", "b", "c", "d"])) == [[wanted] * 2] * 4
assert os.waitpid(child, 0)[1] == 0
print(sorted(p.name for p in folder.iterdir()))
"""
    )
    names = [f"{name}.json" for name in ("a", "b", "c", "child", "d", "shared")]
    assert run(code).strip() == str(names)
