"""Settings of the documentation; ``make docs`` builds it without a network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import conformix

project = "conformix"
author = "The conformix developers"
copyright = author  # the name that Sphinx asks for
version = release = conformix.__version__

extensions = ["myst_parser", "sphinx_design", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
napoleon_use_ivar = True
default_role = "py:obj"
# Shapes such as (n, d) in the types of parameters are no names to link.
suppress_warnings = ["ref.python"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
# Tables and findings in results/ are parts of pages, not pages.
exclude_patterns = ["_build", "results"]

html_theme = "furo"
html_title = "conformix"
html_static_path = ["_static"]
html_css_files = ["conformix.css"]
html_show_sphinx = False

BLOCK = re.compile(r"^<!-- if (?P<file>\S+) -->\n(?P<body>.*?)^<!-- end -->\n", re.DOTALL | re.M)


def leave_out_what_has_no_file(app: Any, page: str, source: list[str]) -> None:
    """Drop the blocks of a page that speak of a file which has not been produced yet."""

    def kept(block: re.Match[str]) -> str:
        return block["body"] if (Path(app.srcdir) / block["file"]).is_file() else ""

    source[0] = BLOCK.sub(kept, source[0])


def leave_out_requests(app: Any, what: str, name: str, *rest: Any) -> bool | None:
    """Leave out the methods that scikit-learn writes for metadata routing."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def keep_trailing_underscores(app: Any, what: str, name: str, obj: Any, *rest: Any) -> None:
    """Keep ``weights_`` from being read as a link to "weights"."""
    lines: list[str] = rest[-1]
    lines[:] = [re.sub(r"^:(ivar|vartype) (\w+)_:", r":\1 \2\\_:", line) for line in lines]


def setup(app: Any) -> None:
    """Register the above."""
    app.connect("autodoc-process-docstring", keep_trailing_underscores, priority=900)
    app.connect("autodoc-skip-member", leave_out_requests)
    app.connect("source-read", leave_out_what_has_no_file)
