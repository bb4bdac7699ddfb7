"""What a release needs, checked from the files themselves (``make release-check``).

Builds sdist and wheel, looks into both, installs each into an empty environment and uses it there
as a newcomer would. What passes is kept in ``dist``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WHEEL_LIMIT = 10e6
SMOKE = """
import warnings
warnings.simplefilter("error")
import conformix as cx
data = cx.datasets.load("cifar10")
logits, y = data.outputs["vgg16"], data.labels
cp = cx.ScoreAverage(alpha=0.1, kind="logits", random_state=0).fit(logits[:1000], y[:1000])
sets = cp.predict_set(logits[1000:])
cp.save("model.json")
assert (cx.load("model.json").predict_set(logits[1000:]) == sets).all()
print(cx.__version__, sets, cp.guarantee_.kind)
"""


def run(*command: object, cwd: Path = ROOT) -> str:
    """Run a command and return what it printed; stop with its words where it fails."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(holds: bool, sentence: str) -> None:
    """Stop with a sentence where something does not hold."""
    if not holds:
        raise SystemExit(f"release-check: {sentence}")


def check_versions() -> str:
    """Return the version, which must be the same in all places."""
    text = {name: (ROOT / name).read_text(encoding="utf-8") for name in
            ("src/conformix/__init__.py", "CITATION.cff", "CHANGELOG.md")}  # fmt: skip
    version = re.search(r'__version__ = "(.+)"', text["src/conformix/__init__.py"])
    expect(version is not None, "no version in src/conformix/__init__.py")
    found = version[1]  # type: ignore[index]
    expect(f"version: {found}\n" in text["CITATION.cff"], f"CITATION.cff does not say {found}")
    expect(f"\n## {found} " in text["CHANGELOG.md"], f"CHANGELOG.md has no heading {found}")
    return found


def check_archives(dist: Path, version: str) -> tuple[Path, Path]:
    """Return the wheel and the sdist, after a look into both."""
    wheel = dist / f"conformix-{version}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    expect(wheel.stat().st_size < WHEEL_LIMIT, "the wheel is too large")
    expect("conformix/py.typed" in names, "the wheel has no py.typed")
    expect(any("licenses" in name for name in names), "the wheel has no licence")
    outside = [n for n in names if not n.startswith(("conformix/", f"conformix-{version}"))]
    expect(not outside, f"the wheel holds {outside}")
    sdist = dist / f"conformix-{version}.tar.gz"
    with tarfile.open(sdist) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
    expect({"README.md", "LICENSE", "CHANGELOG.md", "Makefile"} <= members, "the sdist is short")
    return wheel, sdist


def check_install(archive: Path, folder: Path) -> str:
    """Install an archive into an empty environment and return what using it printed."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", f"{archive}[cli]", cwd=folder)
    told = run(python, "-c", SMOKE, cwd=folder)
    run(folder / "venv" / "bin" / "conformix", "info", "model.json", cwd=folder)
    return told.strip()


def main() -> int:
    """Check, and say what was seen."""
    version = check_versions()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", "--outdir", folder / "dist")
        for kind, archive in zip(
            ("wheel", "sdist"), check_archives(folder / "dist", version), strict=True
        ):
            (folder / kind).mkdir()
            size = archive.stat().st_size
            told = check_install(archive, folder / kind)
            print(f"{kind} {size / 1e6:.1f} MB; in an empty environment: {told}")
        shutil.copytree(folder / "dist", ROOT / "dist", dirs_exist_ok=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
