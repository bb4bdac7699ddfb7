"""Numbers of the paper, to stand beside ours.

Luo & Zhou, "Averaging of conformity scores for classification" (ICML 2025), table 1: CIFAR-100,
mean (standard deviation) of coverage and size over 100 splits. The network behind the table is not
named; it is more over-confident than ours, which is why absolute sizes differ.
"""

from __future__ import annotations

# alpha -> method -> (coverage, its sd, size, its sd)
TABLE1: dict[float, dict[str, tuple[float, float, float, float]]] = {
    0.01: {
        "average:vfcp": (0.990, 0.003, 13.782, 1.114),
        "average:efcp": (0.989, 0.003, 13.306, 0.464),
        "average:dlcp": (0.989, 0.003, 13.298, 0.461),
        "average:dlcp+": (0.989, 0.003, 13.299, 0.459),
        "aps": (0.990, 0.003, 40.217, 1.786),
        "thr": (0.989, 0.003, 26.949, 2.198),
        "rank": (0.990, 0.003, 27.161, 2.421),
        "raps": (0.990, 0.003, 26.403, 2.505),
        "saps": (0.990, 0.003, 25.096, 2.298),
    },
    0.05: {
        "average:vfcp": (0.950, 0.005, 3.890, 0.266),
        "average:efcp": (0.949, 0.005, 3.754, 0.096),
        "average:dlcp": (0.949, 0.005, 3.752, 0.097),
        "average:dlcp+": (0.949, 0.005, 3.753, 0.097),
        "aps": (0.949, 0.006, 19.545, 1.022),
        "thr": (0.949, 0.006, 4.519, 0.381),
        "rank": (0.950, 0.006, 6.298, 0.395),
        "raps": (0.950, 0.005, 5.581, 0.263),
        "saps": (0.950, 0.006, 5.036, 0.302),
    },
}
# The data set of the table.
TABLE1_DATA = "cifar100"
