"""``conformix warmup``: compile beforehand, for images and continuous integration."""

from __future__ import annotations

from conformix.cli.options import Json
from conformix.cli.output import wants_json, working, write_json, write_line

EXAMPLE = "conformix warmup"


def warmup(*, as_json: Json = None) -> None:
    """Compile all kernels beforehand; nothing where they are kept."""
    from conformix.estimators.warmup import warm_up  # noqa: PLC0415  loads numba

    with working("compiling"):
        result = warm_up()
    if wants_json(as_json):
        write_json(result._asdict())
        return
    done = f"compiled in {result.compiled:.1f} s" if result.compiled else "everything is compiled"
    kept = (
        f"kept in {result.folder}"
        if result.folder
        else "kept nowhere: numba finds no folder that can be written; set NUMBA_CACHE_DIR"
    )
    write_line(f"{done}, {kept}.")
