"""The exact search: CIFAR-100, three models, large problems, growth.

Our side is the public one, `search_weights` and `landscape`, their checks of the input included.
"""

from __future__ import annotations

import numpy as np

import conformix as cx
from benchmarks import references
from benchmarks.measure import Report, fastest, interleaved, peak_mib
from conformix.data.outputs import check_scores
from conformix.search import grid_size, landscape, search_weights

ALPHAS = (0.01, 0.02, 0.05, 0.1)
NAMES = ("thr", "aps", "rank")
TRIO = ("wideresnet_16_4", "densenet_bc_100", "lenet5")


class Case:
    """Scores (n, K, d) with labels, and what is timed on them."""

    def __init__(self, scores: np.ndarray, y: np.ndarray) -> None:
        self.scores, self.y = scores, y
        self.planes = np.moveaxis(scores, -1, 0)
        self.n, self.n_classes, self.d = scores.shape

    def shape(self, resolution: int) -> dict[str, int]:
        """Return how large the problem is."""
        weights = grid_size(self.d, resolution)
        return {"n": self.n, "K": self.n_classes, "d": self.d, "weights": weights}

    def argmin(self, alpha: float, resolution: int = 100):
        """Return the call that finds the best weights."""
        return lambda: search_weights(self.scores, self.y, alpha=alpha, resolution=resolution)

    def landscape(self, alpha: float, resolution: int = 100):
        """Return the call that sizes all weights."""
        return lambda: landscape(self.scores, self.y, alpha=alpha, resolution=resolution)

    def references(self, alpha: float, weights: int, names: tuple[str, ...]):
        """Return calls that time the references, scaled to so many weights."""

        def one(name: str):
            return lambda: getattr(references, name)(self.planes, self.y, alpha, weights)

        return {name: one(name) for name in names}


def cifar100(names=NAMES, models=TRIO[:1], scale="none", rows=None) -> Case:
    data = cx.datasets.load("cifar100")
    outputs = {model: data.outputs[model][:rows] for model in models}
    scores = cx.score_tensor(outputs, names, kind="logits")
    if scale == "ecdf":
        scores = cx.normalize.Ecdf().fit(scores, ())(scores)
    return Case(scores, data.labels[:rows])


def synthetic(n: int, n_classes: int, names=NAMES) -> Case:
    """Return a model that finds the label in about two of three rows."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    logits = rng.standard_normal((n, n_classes), dtype=np.float32)
    logits *= 3
    logits[np.arange(n), y] += 1.0 + 1.5 * np.log(n_classes)
    return Case(cx.score_tensor(logits, names, kind="logits"), y)


def measure(report: Report, told: str, case: Case, alpha: float, *, what="argmin", **options):
    """Time one call between its references, and add the row."""
    resolution = options.get("resolution", 100)
    call = getattr(case, what)(alpha, resolution)
    shape = case.shape(resolution)
    names = options.get("against", ("released", "tensordot", "matmul"))
    against = case.references(alpha, shape["weights"], names)
    seconds, others = interleaved(call, against, options.get("repeats", 7))
    return report.add(
        f"{told}, alpha {alpha}, {what}", seconds, others, peak_mib(call), alpha=alpha, **shape
    )


def one_model(report: Report) -> None:
    found: dict[str, list[dict]] = {"argmin": [], "landscape": []}
    for scale in ("none", "ecdf"):
        case = cifar100(scale=scale)
        for alpha in ALPHAS:
            for what, rows in found.items():
                told = f"cifar100 thr,aps,rank {scale}"
                rows.append(measure(report, told, case, alpha, what=what))
    for what, rows in found.items():
        report.summary(f"one model, {what}", rows)


def three_models(report: Report) -> None:
    for name in ("thr", "aps"):
        found: dict[str, list[dict]] = {"argmin": [], "landscape": []}
        case = cifar100((name,), TRIO)
        for alpha in ALPHAS:
            for what, rows in found.items():
                told = f"cifar100 {name} of three models"
                rows.append(measure(report, told, case, alpha, what=what))
        for what, rows in found.items():
            report.summary(f"{name} of three models, {what}", rows)


def many_weights(report: Report) -> None:
    """Search d = 4 and 5, beside the time of the released procedure for 5,151 weights at d = 3."""
    three = cifar100()
    names = ("thr", "aps", "rank", "logp", "invrank")
    for d, resolution in ((4, 100), (5, 50)):
        for scale in ("none", "ecdf"):
            case = cifar100(names[:d], scale=scale)
            for alpha in (0.01, 0.1):
                call = case.argmin(alpha, resolution)
                against = three.references(alpha, 5151, ("released",))
                seconds, others = interleaved(call, against, repeats=2)
                report.add(
                    f"cifar100 d={d} {scale}, alpha {alpha}, argmin",
                    seconds, others, peak_mib(call), alpha=alpha,
                    reference="released procedure, d = 3, 5,151 weights", **case.shape(resolution),
                )  # fmt: skip


def large(report: Report) -> None:
    """Search n = 50,000 and K = 1,000, beside 30 weights of the released procedure."""
    case = synthetic(50_000, 1_000)
    tensor = case.scores.nbytes / 2**20
    for alpha in (0.01, 0.1):
        for what in ("argmin", "landscape"):
            call = getattr(case, what)(alpha)
            against = {
                "released": lambda alpha=alpha: references.released(
                    case.planes, case.y, alpha, 30, few=3
                )
            }
            seconds, others = interleaved(call, against, repeats=2)
            peak = peak_mib(call)
            more = {"tensor_mib": round(tensor, 1)}
            if peak:
                more["peak_over_tensor"] = round((tensor + peak["added"]) / tensor, 3)
            report.add(
                f"n=50,000 K=1,000, alpha {alpha}, {what}", seconds, others, peak, alpha=alpha,
                reference="released procedure, 30 weights", **more, **case.shape(100),
            )  # fmt: skip


def checks(report: Report) -> None:
    """Time what looking at the input costs; it is part of all rows above."""
    for told, case in (("cifar100", cifar100()), ("n=5,000 K=1,000", synthetic(5_000, 1_000))):
        report.add(f"checks of {told}", fastest(lambda case=case: check_scores(case.scores), 9))


def ties(report: Report) -> None:
    """Search scores that tie in masses: nothing but the witness of a tie decides them."""
    constant = Case(np.moveaxis(np.full((3, 10_000, 100), 0.3), 0, -1), np.zeros(10_000, int))
    rng = np.random.default_rng(0)
    values = rng.integers(0, 5, size=(3, 10_000, 100)) / 4
    coarse = Case(np.moveaxis(values, 0, -1), rng.integers(100, size=10_000))
    for told, case in (("constant scores", constant), ("scores of five values", coarse)):
        for what in ("argmin", "landscape"):
            measure(report, told, case, 0.1, what=what, repeats=2, against=("released",))


def growth(report: Report) -> None:
    """Grow rows, classes, scores and resolution, one at a time."""
    few = {"repeats": 3, "against": ("released",)}
    for n in (1_250, 2_500, 5_000, 10_000):
        for what in ("argmin", "landscape"):
            measure(report, f"growth n={n}, cifar100", cifar100(rows=n), 0.05, what=what, **few)
    for n_classes in (10, 30, 100, 300, 1_000):
        case = synthetic(5_000, n_classes)
        for what in ("argmin", "landscape"):
            measure(report, f"growth K={n_classes}, n=5,000", case, 0.05, what=what, **few)
    names = ("thr", "aps", "rank", "logp", "invrank")
    for d in (1, 2, 3, 4, 5):
        told = f"growth d={d}, resolution 20"
        measure(report, told, cifar100(names[:d]), 0.05, resolution=20, **few)
    for resolution in (25, 50, 100, 200, 400):
        told = f"growth resolution={resolution}, d=3"
        for what in ("argmin", "landscape"):
            measure(report, told, cifar100(), 0.05, resolution=resolution, what=what, **few)
