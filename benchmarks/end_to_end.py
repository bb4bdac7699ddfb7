"""The whole call beside the peers: fit on half of the rows, sets of the other half.

``make bench WHAT=end-to-end`` measures times, stages and growth; ``--parts times`` some of it,
``--parts`` with no name nothing: it writes the tables of the page again, from the rows that are
there. All take the same float64 outputs and take turns in one process, round by round, in an order
that shifts; noted are medians with 95 % bootstrap intervals, and ratios of the same round. Rounds
of the host come from several processes: how memory happens to lie in one makes some contenders a
third faster than in the next.

MAPIE is called as its users do, around a fitted estimator (here one whose features are its
probabilities); TorchCP with tensors, on the host or on the device; both with their defaults. A CUDA
device is measured where there is one: tensors in, sets out, waited for.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

# Threads of OpenMP that wait for work would share the cores with whoever comes next, awake.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

import conformix as cx
from benchmarks import end_to_end_page
from benchmarks.measure import ROOT, interval, surroundings
from benchmarks.stages import Watch
from conformix.kernels import elementary, run_blocks

RESULTS = ROOT / "benchmarks" / "results" / "end_to_end.jsonl"
ALPHA = 0.1
THREE = ("thr", "aps", "rank")
# Rows (calibration and test together) and classes, with the number of rounds.
HOST_SIZES = {(10_000, 100): 25, (20_000, 1_000): 9}
DEVICE_SIZES = {(50_000, 1_000): 15}
SCORES = ("thr", "aps", "rank", "logp", "margin", "invrank")
GROWTH_ROUNDS = 15
# Processes that share the rounds of the host.
PROCESSES = 5
# Who takes turns with us on the host. Blocks of memory as large as TorchCP's, once they are given
# back, let the allocator keep what it has: in its company MAPIE takes less time.
COMPANY = {"all peers": ("mapie", "torchcp"), "MAPIE alone": ("mapie",)}
# Seconds per gigabyte.
SLOW_MEMORY = 3


@dataclass(frozen=True)
class Case:
    """Outputs of a model on n rows, and their labels; the first half calibrates."""

    probs: Any
    logits: Any
    y: np.ndarray

    @property
    def half(self) -> int:
        """Number of calibration rows."""
        return len(self.y) // 2

    def on_device(self) -> Case:
        """Return the same outputs as CUDA tensors."""
        import torch

        probs, logits = (torch.from_numpy(values).cuda() for values in (self.probs, self.logits))
        return replace(self, probs=probs, logits=logits)


@cache
def make_case(n: int, n_classes: int) -> Case:
    """Return what a well calibrated model says of noisy copies of one prototype per class.

    The logits are those of the posterior, and labels are drawn from their softmax.
    """
    rng = np.random.default_rng(0)
    features = 64
    noise = np.sqrt(features / (2.6 * np.log(n_classes)))  # the truth stands out alike for any K
    prototypes = rng.standard_normal((n_classes, features))
    rows = prototypes[rng.integers(n_classes, size=n)]
    rows = rows + noise * rng.standard_normal((n, features))
    logits = (rows @ prototypes.T - (prototypes**2).sum(axis=1) / 2) / noise**2
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = powers / powers.sum(axis=1, keepdims=True)
    heights = rng.random((n, 1))
    y = np.minimum((probs.cumsum(axis=1) < heights).sum(axis=1), n_classes - 1)
    return Case(probs, logits, y)


class Contender(NamedTuple):
    """A library with its settings: two steps, and how to read what comes out."""

    name: str
    fit: Callable[[], Any]
    predict: Callable[[Any], Any]
    mask: Callable[[Any], Any]  # sets as a boolean array (n, K)


def ours(
    name: str, scores: Any, case: Case, threads: int, *, kind: str = "probs", **settings: Any
) -> Contender:
    outputs, half = getattr(case, kind), case.half
    settings = {"alpha": ALPHA, **settings, "kind": kind, "threads": threads, "random_state": 0}
    return Contender(
        f"conformix {name}",
        lambda: cx.ScoreAverage(scores, **settings).fit(outputs[:half], case.y[:half]),
        lambda model: model.predict_set(outputs[half:]),
        lambda sets: sets.mask,
    )


def mapie(score: str, case: Case, alpha: float = ALPHA) -> Contender:
    from mapie.classification import SplitConformalClassifier

    from benchmarks.peer_stubs import probabilities_as_features

    def fit() -> Any:
        settings = {"conformity_score": score.lower(), "prefit": True, "random_state": 0}
        model = SplitConformalClassifier(
            probabilities_as_features(case.probs.shape[1]), confidence_level=1 - alpha, **settings
        )
        return model.conformalize(case.probs[: case.half], case.y[: case.half])

    return Contender(
        f"MAPIE {score}",
        fit,
        lambda model: model.predict_set(case.probs[case.half :]),
        lambda answer: answer[1][..., 0],
    )


def torchcp(score: str, case: Case, kind: str = "probs", alpha: float = ALPHA) -> Contender:
    import torch

    from benchmarks.peer_stubs import import_torchcp

    import_torchcp()
    from torchcp.classification import score as scores
    from torchcp.classification.predictor import SplitPredictor

    settings = {"score_type": "identity" if kind == "probs" else "softmax"}
    outputs = torch.as_tensor(getattr(case, kind))
    labels = torch.as_tensor(case.y, device=outputs.device)
    # The predictor asks its model for a parameter to learn the device.
    model = torch.nn.Identity()
    model.register_parameter("place", torch.nn.Parameter(torch.zeros(1, device=outputs.device)))

    def fit() -> Any:
        predictor = SplitPredictor(getattr(scores, score)(**settings), model, alpha=alpha)
        predictor.calculate_threshold(outputs[: case.half], labels[: case.half], alpha)
        return predictor

    return Contender(
        f"TorchCP {score}" + ("" if kind == "probs" else ", logits"),
        fit,
        lambda predictor: predictor.predict_with_logits(outputs[case.half :]),
        lambda sets: sets.bool(),
    )


def conformix_calls(case: Case, threads: int) -> list[Contender]:
    return [
        ours("thr", "thr", case, threads),
        ours("thr, weights=[1.0]", "thr", case, threads, weights=[1.0]),
        ours("thr, logits", "thr", case, threads, kind="logits"),
        ours("thr, aps, rank", THREE, case, threads),
        ours("thr, aps, rank, logits", THREE, case, threads, kind="logits"),
        ours("auto", "auto", case, threads),
        ours("auto, logits", "auto", case, threads, kind="logits"),
    ]


def peers(
    case: Case, libraries: Sequence[str] = COMPANY["all peers"], *, device: bool = False
) -> list[Contender]:
    """Return the peers that are asked for and installed."""
    makers: dict[str, list[Callable[[], Contender]]] = {
        "mapie": [] if device else [partial(mapie, score, case) for score in ("LAC", "APS")],
        "torchcp": [
            *(partial(torchcp, score, case) for score in ("LAC", "APS")),
            partial(torchcp, "APS", case, "logits"),
        ],
    }
    there = [library for library in libraries if find_spec(library)]
    return [make() for library in there for make in makers[library]]


def sort_of_rows(case: Case) -> Contender:
    return Contender("np.sort", lambda: np.sort(case.probs, axis=1), lambda rows: rows, None)  # type: ignore[arg-type]


def no_wait() -> None:
    """Return at once: the host has finished when a call returns."""


class Taken(NamedTuple):
    """Seconds of one call: of both steps, each from idle to done, and of all threads together.

    And the fresh pages of memory that the system had to give.
    """

    fit: float
    predict: float
    processor: float
    pages: float


def fresh_pages() -> float:
    """Return how many pages this process was given so far; zero where the system does not say."""
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_minflt) if resource else 0.0


def seconds_of(contender: Contender, wait: Callable[[], None] = no_wait) -> Taken:
    wait()
    pages, start, busy = fresh_pages(), time.perf_counter(), time.process_time()
    fitted = contender.fit()
    wait()
    middle = time.perf_counter()
    contender.predict(fitted)
    wait()
    end = time.perf_counter()
    busy = time.process_time() - busy
    return Taken(middle - start, end - middle, busy, fresh_pages() - pages)


def in_turns(
    contenders: list[Contender], rounds: int, wait: Callable[[], None] = no_wait
) -> dict[str, np.ndarray]:
    """Return what all contenders took (rounds, 4), as `Taken`; the order shifts each round."""
    seconds: dict[str, list[Taken]] = {each.name: [] for each in contenders}
    for number in range(rounds):
        shift = number % len(contenders)
        for contender in contenders[shift:] + contenders[:shift]:
            seconds[contender.name].append(seconds_of(contender, wait))
    return {name: np.array(some) for name, some in seconds.items()}


def quality(contender: Contender, y: np.ndarray) -> tuple[dict[str, float], Any]:
    """Return mean size and coverage, and the sets; the first call compiles and warms up."""
    answer = contender.predict(contender.fit())
    if contender.mask is None:
        return {}, None
    mask = contender.mask(answer)
    mask = np.asarray(mask.cpu() if hasattr(mask, "cpu") else mask)
    covered = mask[np.arange(len(mask)), y[len(y) - len(mask) :]].mean()
    sizes = mask.sum(axis=1).mean()
    return {"mean_size": round(float(sizes), 3), "coverage": round(float(covered), 4)}, mask


def timed(seconds: np.ndarray) -> dict[str, Any]:
    """Return the columns of a row: the median of the whole call, its interval, its parts."""
    fit, predict, processor, pages = seconds.T
    whole = fit + predict
    return {
        "seconds": short(np.median(whole)),
        "interval": [short(end) for end in interval(whole)],
        "fit_s": short(np.median(fit)),
        "predict_s": short(np.median(predict)),
        "cpu_s": short(np.median(processor)),
        "pages": short(np.median(pages)),
        "rounds_s": [short(value) for value in whole],
    }


def short(value: float) -> float:
    return float(f"{value:.4g}")


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_threads(threads: int) -> None:
    """Let PyTorch have as many threads as conformix; the rest of NumPy has one anyway."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


def host_times(
    rounds: int | None, sizes: Iterable[tuple[int, int]], processes: int = 1,
    company: str = "all peers",
) -> Iterable[dict[str, Any]]:  # fmt: skip
    """Yield rows of the host; those of several processes are put together."""
    if processes > 1:
        yield from pooled([in_child(rounds, sizes, processes, company) for _ in range(processes)])
        return
    for n, n_classes in sizes:
        case = make_case(n, n_classes)
        for threads in sorted({1, cores()}):
            others = [*peers(case, COMPANY[company]), sort_of_rows(case)]
            contenders = [*conformix_calls(case, threads), *others]
            use_threads(threads)
            qualities = {each.name: quality(each, case.y)[0] for each in contenders}
            taken = in_turns(contenders, rounds or HOST_SIZES.get((n, n_classes), GROWTH_ROUNDS))
            for name, seconds in taken.items():
                facts = {"case": name, "n": n, "K": n_classes, "threads": threads}
                yield facts | timed(seconds) | qualities[name]


def in_child(
    rounds: int | None, sizes: Iterable[tuple[int, int]], processes: int, company: str
) -> list[dict[str, Any]]:
    """Return the rows of a process that measures its part of the rounds."""
    found = []
    for n, n_classes in sizes:
        part = -(-(rounds or HOST_SIZES.get((n, n_classes), GROWTH_ROUNDS)) // processes)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "rows.jsonl"
            command = [sys.executable, "-m", "benchmarks.end_to_end", "--parts", "times"]
            command += ["--places", "host", "--processes", "1", "--sizes", f"{n}x{n_classes}"]
            command += ["--company", company]
            command += ["--rounds", str(part), "--out", str(out), "--tables", folder]
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            found += Results(out).rows
    return found


def pooled(children: list[list[dict[str, Any]]]) -> Iterable[dict[str, Any]]:
    """Yield the rows of several processes as if one had measured all rounds."""
    facts = ("case", "n", "K", "threads", "mean_size", "coverage")
    for rows in zip(*children, strict=True):
        whole = np.concatenate([row["rounds_s"] for row in rows])
        parts = {
            name: short(np.median([row[name] for row in rows]))
            for name in ("fit_s", "predict_s", "cpu_s", "pages")
        }
        yield {name: rows[0][name] for name in facts if name in rows[0]} | {
            "seconds": short(np.median(whole)),
            "interval": [short(end) for end in interval(whole)],
            **parts,
            "rounds_s": [short(value) for value in whole],
            "processes_s": [row["seconds"] for row in rows],
        }


def device_times(rounds: int | None, sizes: Iterable[tuple[int, int]]) -> Iterable[dict[str, Any]]:
    """Yield rows of the device; its sets must be those of the host."""
    import torch

    for n, n_classes in sizes:
        case = make_case(n, n_classes)
        on_host = {each.name: each for each in conformix_calls(case, cores())}
        on_device = case.on_device()
        contenders = [*conformix_calls(on_device, cores()), *peers(on_device, device=True)]
        facts: dict[str, dict[str, Any]] = {}
        for each in contenders:
            facts[each.name], mask = quality(each, case.y)
            if each.name in on_host:
                same = np.array_equal(mask, quality(on_host[each.name], case.y)[1])
                facts[each.name]["sets_of_the_host"] = same
        taken = in_turns(
            contenders, rounds or DEVICE_SIZES.get((n, n_classes), 9), torch.cuda.synchronize
        )
        for name, seconds in taken.items():
            yield {"case": name, "n": n, "K": n_classes} | timed(seconds) | facts[name]


def stages(case: Case, n_classes: int, seconds: float = 3.0) -> Iterable[dict[str, Any]]:
    """Yield the shares of the stages of our calls, watched apart from the rounds that are timed."""
    for contender in conformix_calls(case, cores()):
        contender.predict(contender.fit())
        watches = {"fit": Watch(), "predict": Watch()}
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            with watches["fit"].watched():
                fitted = contender.fit()
            with watches["predict"].watched():
                contender.predict(fitted)
        total = sum(sum(watch.seconds.values()) for watch in watches.values())
        shares = {
            step: {stage: short(s / total) for stage, s in watch.seconds.items()}
            for step, watch in watches.items()
        }
        yield {"case": contender.name, "n": len(case.y), "K": n_classes, "shares": shares}


def growth(rounds: int | None) -> Iterable[dict[str, Any]]:
    """Yield the times of three scores while one number grows; the points of an axis take turns."""
    every = cores()
    powers = [2**power for power in range(every.bit_length()) if 2**power < every]
    axes: dict[str, list[dict[str, int]]] = {
        "n": [{"n": n, "K": 100} for n in (2_500, 10_000, 40_000, 160_000)],
        "K": [{"n": 4_000_000 // K, "K": K} for K in (10, 100, 1_000, 10_000)],
        "d": [{"n": 20_000, "K": 100, "d": d} for d in (1, 2, 3, 4, 6)],
        "threads": [{"n": 10_000, "K": 1_000, "threads": t} for t in (*powers, every)],
    }
    for axis, changes in axes.items():
        points = [{"d": 3, "threads": every} | change for change in changes]
        contenders = []
        for place, point in enumerate(points):
            case = make_case(point["n"], point["K"])
            contenders.append(ours(f"{place}", SCORES[: point["d"]], case, point["threads"]))
        for contender in contenders:
            contender.predict(contender.fit())
        taken = in_turns(contenders, rounds or GROWTH_ROUNDS)
        for point, seconds in zip(points, taken.values(), strict=True):
            yield {"axis": axis, **point} | timed(seconds)
        make_case.cache_clear()
    threads = [point["threads"] for point in axes["threads"]]
    taken = in_turns([exponentials(each) for each in threads], rounds or GROWTH_ROUNDS)
    for each, seconds in zip(threads, taken.values(), strict=True):
        yield {"axis": end_to_end_page.LOOP, "threads": each} | timed(seconds)


def exponentials(threads: int) -> Contender:
    """Return a tenth of a second of arithmetic in the cache: what the machine gives to threads."""
    numbers = np.linspace(-1, 0, 2**15)

    def work(_: int) -> None:
        for _ in range(24):
            elementary.exp(numbers)

    return Contender(
        f"{threads}", lambda: run_blocks(work, range(64), threads), lambda _: None, np.asarray
    )


class Results:
    """Rows by part and place: a part that is measured again in a place replaces what was there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        self.read()

    def read(self) -> None:
        """Read what is there."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        self.rows = [json.loads(line) for line in text.splitlines()]

    def renew(self, part: str, place: str, fresh: Iterable[dict[str, Any]]) -> None:
        """Print rows as they come, and write all when a part is complete."""
        around = surroundings()
        around |= {name: peer_version(name) for name in ("torch", "mapie", "torchcp")}
        around["fresh_gib_s"] = short(fresh_memory())
        around["NUMPY_MADVISE_HUGEPAGE"] = os.environ.get("NUMPY_MADVISE_HUGEPAGE", "1")
        if around["fresh_gib_s"] > SLOW_MEMORY:
            print(
                f"a gigabyte of fresh memory takes {around['fresh_gib_s']} s here, so that the "
                "machine is measured; NUMPY_MADVISE_HUGEPAGE=0 may help"
            )
        kept = [row for row in self.rows if (row["part"], row["place"]) != (part, place)]
        for row in fresh:
            print(end_to_end_page.line(row), flush=True)
            load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
            kept.append({"part": part, "place": place, **row, "load": load, **around})
        self.rows = kept
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in self.rows)
        self.path.write_text(text, encoding="utf-8")


def fresh_memory() -> float:
    """Return the seconds that a gigabyte of fresh memory costs when it is first touched.

    Usually a fraction of one. Where memory is fragmented the large pages that NumPy asks for can
    cost a hundred times as much, and whoever allocates most loses: NUMPY_MADVISE_HUGEPAGE=0 asks
    for none.
    """
    blocks, start = [], time.perf_counter()
    for _ in range(8):
        blocks.append(np.ones(2**24))
    return time.perf_counter() - start


def peer_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def device_name() -> str | None:
    if not find_spec("torch"):
        return None
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def on_host(results: Results, asked: argparse.Namespace) -> None:
    place, sizes = f"host, {cores()} cores", asked.sizes or list(HOST_SIZES)
    parts, rounds = asked.parts, asked.rounds
    # Without any peer all company is alike.
    for company in asked.company if "times" in parts else ():
        if company == "all peers" or find_spec("mapie"):
            whose = place if company == "all peers" else f"{place}, {company}"
            found = host_times(rounds, sizes, asked.processes, company)
            results.renew("times", whose, found)
    if "stages" in parts:
        n, n_classes = sizes[-1]
        results.renew("stages", place, stages(make_case(n, n_classes), n_classes))
    if "growth" in parts:
        results.renew("growth", place, growth(rounds))


def on_device(results: Results, asked: argparse.Namespace) -> None:
    device, sizes = device_name(), asked.sizes or list(DEVICE_SIZES)
    parts, rounds = asked.parts, asked.rounds
    if device is None:
        print("no CUDA device here: its rows stay as they are")
        return
    if "times" in parts:
        results.renew("times", device, device_times(rounds, sizes))
    if "stages" in parts:
        device_stages(results, device, *sizes[-1])


def device_stages(results: Results, device: str, n: int, n_classes: int) -> None:
    """Watch the device in a process in which every launch waits, so that time falls where it is."""
    if os.environ.get("CUDA_LAUNCH_BLOCKING") != "1":
        command = [sys.executable, "-m", "benchmarks.end_to_end", "--parts", "stages"]
        command += ["--places", "device", "--sizes", f"{n}x{n_classes}", "--out", str(results.path)]
        subprocess.run(
            command, cwd=ROOT, env=os.environ | {"CUDA_LAUNCH_BLOCKING": "1"}, check=True
        )
        results.read()
        return
    results.renew("stages", device, stages(make_case(n, n_classes).on_device(), n_classes))


def size(text: str) -> tuple[int, int]:
    n, n_classes = text.split("x")
    return int(n), int(n_classes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts, places = ["times", "stages", "growth"], {"host": on_host, "device": on_device}
    parser.add_argument("--parts", nargs="*", choices=parts, default=parts)
    parser.add_argument("--places", nargs="+", choices=list(places), default=list(places))
    parser.add_argument("--sizes", nargs="+", type=size, help="such as 10000x100, rows x classes")
    parser.add_argument("--rounds", type=int, help="of every case; by default more of small ones")
    parser.add_argument(
        "--company", nargs="+", choices=list(COMPANY), default=list(COMPANY), help="on the host"
    )
    parser.add_argument("--processes", type=int, default=PROCESSES, help="that share the rounds")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--tables", type=Path, default=end_to_end_page.TABLES)
    arguments = parser.parse_args()
    results = Results(arguments.out)
    absent = [name for name in ("mapie", "torchcp") if not find_spec(name)]
    if absent:
        names = " and ".join(absent)
        print(f"left out, not installed: {names}; `make bench WHAT=end-to-end` installs them")
    for place in arguments.places:
        places[place](results, arguments)
    end_to_end_page.write(results.rows, arguments.tables)
    print("\n" + end_to_end_page.goals_table(results.rows))


if __name__ == "__main__":
    main()
