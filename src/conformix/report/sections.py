"""What a page is made of, by kind of model: its sections in order, its scripts, and its words."""

from __future__ import annotations

from typing import NamedTuple


class Section(NamedTuple):
    """One part of a page, below the opening."""

    name: str  # of its anchor and of its file
    menu: str  # what the contents call it

    @property
    def template(self) -> str:
        """Where its text stands among the assets."""
        return f"sections/{self.name}.html"


class Words(NamedTuple):
    """What differs in words between sets of labels and intervals."""

    title: str
    many: str
    size: str
    short: str
    sizes: str
    unit: str
    least: str
    smallest: str
    smaller: str
    as_large: str
    walk: str
    plain: str  # what the plain method is
    instead: str  # what to fit where the plain method is better


METHODS = Section("methods", "Other methods")
CLASSES = Section("classes", "Classes")
EXAMPLES = Section("examples", "Example rows")
WEIGHTS = Section("weights", "Weights")
GUARANTEES = Section("guarantees", "Guarantees")
SETTINGS = Section("settings", "Settings")
READING = Section("reading", "Words")
PICTURE = Section("picture", "Picture")
WIDTHS = Section("widths", "Widths")
DIFFICULTY = Section("difficulty", "Evenness")
MISSES = Section("misses", "Rows")
DRIFT = Section("drift", "Drift")
TERMS = Section("terms", "Words")

OF_SETS = (METHODS, CLASSES, EXAMPLES, WEIGHTS, GUARANTEES, SETTINGS, READING)
OF_INTERVALS = (
    PICTURE, METHODS, WIDTHS, DIFFICULTY, MISSES, DRIFT, WEIGHTS, GUARANTEES, SETTINGS, TERMS,
)  # fmt: skip

# The first ones are those of every page.
_SHARED = ("core", "svg", "tables", "gauge", "curve", "weights", "triangle", "lines")
SET_SCRIPTS = (*_SHARED, "classes", "examples")
INTERVAL_SCRIPTS = (*_SHARED, "intervals")

SETS = Words(
    title="Prediction sets",
    many="sets",
    size="mean set size",
    short="size",
    sizes="sizes",
    unit=" labels",
    least="smallest",
    smallest="smallest sets",
    smaller="smaller",
    as_large="as large",
    walk="From the smallest sets to the largest",
    plain="the probability of a label alone",
    instead='scores="thr"',
)
INTERVALS = Words(
    title="Prediction intervals",
    many="intervals",
    size="mean width",
    short="width",
    sizes="widths",
    unit="",
    least="narrowest",
    smallest="narrowest intervals",
    smaller="narrower",
    as_large="as wide",
    walk="From the narrowest intervals to the widest",
    plain="absolute residuals of a mean",
    instead='scores="abs"',
)
