"""The options that are crossed, and which of their values are refused together.

A combination takes one value of every axis. `REFUSED` lists the values that a fit refuses
together, with the sentence it says; whatever matches none of them must fit, and keep its promises.
"""

from __future__ import annotations

from dataclasses import dataclass

Combination = dict[str, object]

AXES: dict[str, tuple[object, ...]] = {
    "split": (
        "vfcp", "vfcp, few rows tune", "efcp", "dlcp", "dlcp+", "exact", "exact, shortlist",
        "by hand",
    ),
    "calibration": (
        "marginal", "class", "class, pooled", "class, marginal", "class, tuned", "cluster",
        "clusters given", "group", "group, pooled", "group and class, marginal", "weighted, known",
        "weighted", "label shift, known", "label shift", "rc3p",
    ),
    "guarantee": ("marginal", "pac"),
    "allow_empty": (True, False),
    "objective": ("size", "singletons", "capped", "costs", "class_gap", "size_stratified"),
    "search": ("grid", "candidates", "line", "gradient", "few", "uniform", "auto"),
    "scores": ("one", "three", "options", "randomised", "two models"),
    "input": ("float64", "float32", "float16", "tensor", "top-k", "logits"),
    "classes": (3, 8, 300),
    "names": ("none", "text", "integers"),
    "normalize": ("auto", "none", "scale", "ecdf", "widths"),
    "alpha": (1 - 0.9, 0.25, 1 / 3),
    "tune_alpha": (None, 0.3),
    "groups": (False, True),
    # How the same rows come in besides.
    "door": ("mapped files", "other precision", "batches", "dask"),
}  # fmt: skip

EXACT = ("exact", "exact, shortlist")
NOT_APART = ("efcp", "dlcp", "dlcp+")
NOT_COUNTED = ("line", "gradient", "few", "uniform")
ONE_STANDARD_ERROR = ("few", "uniform")


@dataclass(frozen=True)
class Refusal:
    """Values that are refused together, and what is said.

    Without a sentence they are not drawn. ``only`` are further values under which the refusal is
    certain: elsewhere nothing is searched, and what a search could not do is not asked of it. Such
    combinations are not drawn either.
    """

    values: dict[str, tuple[object, ...]]
    sentence: str | None
    only: dict[str, object] | None = None

    def matches(self, combination: Combination) -> bool:
        """Whether a combination, which may be a part of one, holds these values."""
        for axis, values in self.values.items():
            if axis not in combination or combination[axis] not in values:
                return False
        return True


def other(axis: str, *values: object) -> tuple[object, ...]:
    return tuple(value for value in AXES[axis] if value not in values)


SEARCHED: dict[str, object] = {"split": "vfcp", "scores": "three"}

REFUSED = (
    Refusal({"split": EXACT, "calibration": ("rc3p",)}, "freezes ranks under one weighting"),
    Refusal({"split": ("exact",), "calibration": ("cluster",)},
            "the candidate would be the only row that it has not seen"),
    Refusal({"split": EXACT, "tune_alpha": (0.3,)}, "tune_alpha does not apply"),
    Refusal({"split": EXACT, "guarantee": ("pac",)}, "so that no such law is known"),
    Refusal({"split": EXACT, "objective": other("objective", "size")},
            "another objective does not apply"),
    Refusal({"split": ("exact",), "search": NOT_COUNTED},
            "needs candidate weights that are fixed beforehand"),
    Refusal({"split": ("exact, shortlist",), "search": ONE_STANDARD_ERROR},
            "needs candidate weights that are fixed beforehand"),
    Refusal({"split": ("exact",), "normalize": ("ecdf",)},
            "learns from the calibration rows alone"),
    Refusal({"guarantee": ("pac",),
             "calibration": ("weighted, known", "weighted", "label shift, known", "label shift")},
            'guarantee="pac" is not known for calibration'),
    Refusal({"guarantee": ("pac",), "split": ("dlcp", "dlcp+"),
             "calibration": other("calibration", "marginal", "weighted, known", "weighted",
                                  "label shift, known", "label shift")},
            "speaks of the whole test batch"),
    Refusal({"guarantee": ("pac",), "split": NOT_APART, "search": NOT_COUNTED},
            "needs candidate weights that are counted beforehand"),
    Refusal({"calibration": ("rc3p",), "split": ("by hand",)},
            "freezes its ranks on tuning rows, and fixed weights leave none"),
    Refusal({"calibration": ("rc3p",), "split": NOT_APART},
            "freezes its ranks on rows apart from calibration"),
    Refusal({"calibration": ("cluster",), "split": (*NOT_APART, "by hand")},
            "clusters are learnt on rows apart from calibration"),
    Refusal({"split": ("by hand",), "normalize": ("ecdf",)},
            "learns from tuning rows, and fixed weights leave none"),
    Refusal({"calibration": ("class, tuned",), "allow_empty": (False,),
             "split": other("split", *EXACT)}, "goes with allow_empty=True only"),
    Refusal({"objective": other("objective", "size"), "allow_empty": (False,)},
            "is searched with one threshold and empty sets allowed", only=SEARCHED),
    Refusal({"objective": other("objective", "size"), "calibration": ("class, tuned",)},
            "is searched with one threshold and empty sets allowed", only=SEARCHED),
    Refusal({"search": ("gradient",), "objective": other("objective", "size")},
            'search="gradient" follows the slope of the mean size', only=SEARCHED),
    Refusal({"search": ONE_STANDARD_ERROR, "objective": other("objective", "size")},
            "standard errors of sizes are there for the mean set size", only=SEARCHED),
    Refusal({"search": ONE_STANDARD_ERROR, "allow_empty": (False,)},
            "standard errors of sizes are there for the mean set size", only=SEARCHED),
    Refusal({"search": ONE_STANDARD_ERROR, "calibration": ("class, tuned",)},
            "standard errors of sizes are there for the mean set size", only=SEARCHED),
    # No such time: the grid of "auto" is fine.
    Refusal({"search": ("auto",), "scores": ("options", "two models")}, None),
    Refusal({"search": ("auto",), "classes": (300,)}, None),
    Refusal({"search": ("auto",), "split": EXACT, "scores": ("three",)}, None),
)  # fmt: skip


def may_stand_together(combination: Combination) -> bool:
    """Whether no refusal matches, of a combination or of a part of one."""
    return not any(refusal.matches(combination) for refusal in REFUSED)


REFUSED_OF = {axis: [one for one in REFUSED if axis in one.values] for axis in AXES}


def may_join(combination: Combination, axis: str) -> bool:
    """As `may_stand_together`, of values that may but for that of one axis."""
    return not any(refusal.matches(combination) for refusal in REFUSED_OF[axis])
