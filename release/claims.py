"""Every number on README and pages that was measured: the row behind it, and the command.

    python -m release.claims            # writes docs/claims.md

A claim is a text that is made from committed rows and that its page must hold, letter by letter:
rows that are measured anew change the text, and a page that was left behind fails
``tests/docs/test_claims.py``. Numbers that the pages themselves compute (blocks of Python and of
the shell, tables that are included) need no claim: they are executed or included.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = "benchmarks/results"
PAGE = ROOT / "docs" / "claims.md"
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Claim:
    """Texts that a page must hold, what they are made from, and what measures it."""

    page: str
    source: str
    command: str
    texts: Callable[[Any], Iterable[str]]

    def holds(self) -> list[str]:
        """Return the texts that the rows of today make."""
        return list(self.texts(read(ROOT / self.source)))

    def missing(self) -> list[str]:
        """Return those that the page does not hold."""
        found = flowing((ROOT / self.page).read_text(encoding="utf-8"))
        return [text for text in self.holds() if flowing(text) not in found]


def read(path: Path) -> Any:
    """Return the rows of a file, or its text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(text.splitlines())) if path.suffix == ".csv" else text


def flowing(text: str) -> str:
    """Return a text on one line: pages are wrapped."""
    return " ".join(text.split())


def _at_a_glance(rows: Rows) -> Iterable[str]:
    from benchmarks.at_a_glance import table  # noqa: PLC0415  needs the library

    yield from table(rows).splitlines()
    halves = {row["half"] for row in rows}
    yield f"means over {len(halves)} random halves"


def _frontier_counts(text: str) -> Iterable[str]:
    told = re.search(
        r"Against the tuned baseline\.\*\* (\d+) cases: the ratio is below one in (\d+)", text
    )
    assert told is not None
    yield f"smaller in {told[2]} of {told[1]} cases"


def _settings(rows: Rows) -> Iterable[str]:
    yield f"of {len({row['setting'] for row in rows})} settings"


def _milliseconds(rows: Rows) -> Iterable[str]:
    some = [r["seconds"] for r in rows if r["case"].startswith("cifar100 thr,aps,rank")]
    assert 0.1 > max(some) > min(some) > 0.01, "these are no tens of milliseconds"
    yield "the exact search over 5,151 weights takes tens of milliseconds"


def _search(rows: Rows) -> Iterable[str]:
    def of(start: str, end: str) -> Rows:
        return [r for r in rows if r["case"].startswith(start) and r["case"].endswith(end)]

    def mean(values: list[float]) -> float:
        return math.exp(sum(map(math.log, values)) / len(values))

    for end, text in (("argmin", "(8 cases)"), ("landscape", "sizes of all 5,151 weights")):
        some = of("cifar100 thr,aps,rank", end)
        ms = [1000 * r["seconds"] for r in some]
        faster = [r["times_faster"]["released"] for r in some]
        yield (
            f"{text} | {min(ms):.0f} to {max(ms):.0f} ms | {min(faster):,.0f} to "
            f"{max(faster):,.0f}, geometric mean {mean(faster):,.0f} |"
        )
    some = [r for r in of("cifar100", "argmin") if "of three models" in r["case"]]
    ms = [1000 * r["seconds"] for r in some]
    faster = [r["times_faster"]["released"] for r in some]
    yield f"{min(ms):.0f} to {max(ms):.0f} ms | {min(faster):.0f} to {max(faster):.0f} |"


def _device(rows: Rows) -> Iterable[str]:
    seconds = {row["case"]: row["seconds"] for row in rows}
    host, gpu = "host, 16 cores", "NVIDIA H200"
    for alpha in ("0.05", "0.01"):
        for name, case in (("landscape", "landscape"), ("exact argmin", "argmin")):
            places = (seconds[f"{case}, alpha {alpha}, {place}"] for place in (host, gpu))
            yield " | ".join([f"| {name}", alpha, *(f"{s:.3f} s" for s in places)]) + " |"
    yield f"thresholds of all weights take {seconds['thresholds alone']:.3f} s"
    yield f"counting {seconds['counting alone']:.3f} s"


def _latency(rows: Rows) -> Iterable[str]:
    of = {row["case"].rsplit(":", 1)[0]: row["microseconds_median"] for row in rows}
    for split, name in (("vfcp", "holdout"), ("exact", "exact")):
        for k in (10, 100, 1000):
            sets, values = (
                of[f"predict_{what} of one row, {split}, K={k}"] for what in ("set", "pvalues")
            )
            yield f"| {name} | {k:,} | {sets:.0f} us | {values:.0f} us |"


def _many_rows(rows: Rows) -> Iterable[str]:
    for row in rows:
        power = len(str(row["n"])) - 1
        gb = [f"{row['file_gb']:.2g} GB", *(f"{row[name]:#.2g} GB" for name in PEAKS)]
        times = [f"{row[name]:.0f}" if row[name] >= 20 else f"{row[name]:g}" for name in TIMES]
        yield f"| 10^{power} | {gb[0]} | {times[0]} | {times[1]} | {gb[1]} | {gb[2]} | .9000 |"


TIMES, PEAKS = ("fit_seconds", "predict_seconds"), ("fit_peak_gb", "fit_worker_peak_gb")


def _growth(rows: Rows) -> Iterable[str]:
    names = ("fit", "predict", "argmin", "landscape")
    for row in rows:
        seconds = [row[f"{name}_cpu_seconds"] for name in names]
        cells = " | ".join(f"{s:.1f}" if s >= 2 else f"{s:.2f}" for s in seconds)
        yield f"| {cells} | {row['peak_mib']:,} |"


def _beside(rows: Rows) -> Iterable[str]:
    for row in rows:
        if row["case"] == "out_of_core_beside":
            peaks = [row["fit_peak_gb"], row["predict_peak_gb"]]
            yield (
                f"| {row['version']} | {row['fit_seconds']:g} | {peaks[0]:.2f} | "
                f"{row['predict_seconds']:g} | {peaks[1]:.2f} |"
            )


def _out_of_core(rows: Rows) -> Iterable[str]:
    by_kind = {row["kind"]: row for row in rows if row["case"] == "out_of_core"}
    probs, logits = by_kind["probs"], by_kind["logits"]
    peaks = (
        max(row[peak] for row in (probs, logits)) for peak in ("fit_peak_gb", "predict_peak_gb")
    )
    yield "**{:.2f} GB** in the fit, {:.2f} GB while".format(*peaks)
    times = (row[time] for time in TIMES for row in (probs, logits))
    yield "The fit took {:.0f} s (logits {:.0f} s) and prediction {:.0f} s ({:.0f} s)".format(
        *times
    )


def _doors(rows: Rows) -> Iterable[str]:
    told = {(row["case"], row["method"]): row for row in rows}

    def cell(case: str, method: str) -> str:
        row = told[case, method]
        return f"{row['seconds']:.0f} s with {row['peak_gb']:.1f} GB"

    yield f"10^7 Dask rows by vfcp {cell('dask', 'vfcp')} in the client"
    yield f"by `auto` {cell('dask', 'auto')}, by efcp {cell('dask', 'efcp')}"
    yield f"a mapped file of 50,000 x 20,000 by vfcp {cell('mapped', 'vfcp')}"
    yield f"by `auto` {cell('mapped', 'auto')}, by efcp {cell('mapped', 'efcp')}"


def _cluster(rows: Rows) -> Iterable[str]:
    experiments = {
        (row["workers"], row["killed"], row.get("processes", 0)): row["seconds"]
        for row in rows
        if row["case"] == "experiment"
    }
    for row in rows:
        if row["case"] != "fit":
            continue
        here = row["workers"] == 0
        start = "" if here else f"{row['start_seconds']:.1f}"
        asked = row["workers"], row["killed"], row["threads"] if here else 0
        taken = f"{experiments[asked]:.1f}" if asked in experiments else ""
        yield f"| {start} | {row['fit_seconds']:.1f} | {row['predict_seconds']:.1f} | {taken} |"


def _controllers(rows: Rows) -> Iterable[str]:
    for row in rows:
        if row["what"] == "controllers":
            drift = "drift" if row["drift"] else "no drift"
            yield (
                f"| {drift} | {row['control']} | {row['coverage']:.4f} | {row['size']:.2f} | "
                f"{row['near']:.3f} | {row['regret']:.1f} ± {row['regret_sd']:.1f} |"
            )


def _flat(rows: Rows) -> Iterable[str]:
    some = [row for row in rows if row["what"] == "flat"]
    for row in some:
        if row["rows"] in {100_000, 200_000, 400_000, 600_000, 800_000, 1_000_000}:
            yield (
                f"| {row['rows']:,} | {row['us_per_row']:.0f} µs | {row['memory_mb']:.1f} MB | "
                f"{row['share_of_errors']:.4f} | ± {row['bound']:.4f} |"
            )
    times = [row["us_per_row"] for row in some]
    yield f"between {min(times):.0f} and {max(times):.0f} µs"


def _regression(text: str) -> Iterable[str]:
    told = re.search(
        r"Mean width (0\.\d+) of .* (\d+) cases: the ratio is below one in (\d+)", text
    )
    assert told is not None
    yield f"{told[2]} cases"


def _table(text: str) -> list[list[str]]:
    """Return the cells of a table in Markdown, below its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def _goals_missed(text: str) -> Iterable[str]:
    told = {(row[0], row[1], row[2]): float(row[4].split()[0]) for row in _table(text)}

    def short(number: float, digits: int) -> str:
        return f"{number:.{digits}f}".removeprefix("0")

    def both(case: str, digits: int) -> list[str]:
        places = (("host, 2 cores", "10,000 x 100"), ("host, 2 cores", "20,000 x 1,000"))
        return [short(told[f"conformix {case}", *place], digits) for place in places]

    yield f"`thr` of 10,000 x 100 takes {both('thr / MAPIE LAC', 1)[0]} times MAPIE's LAC"
    small, large = both("thr, aps, rank / MAPIE APS", 2)
    small_logits, large_logits = both("thr, aps, rank, logits / MAPIE APS", 2)
    yield (
        f"{small} of MAPIE's APS ({small_logits} from logits) at 10,000 x 100, where {large} "
        f"({large_logits}) at 20,000 x 1,000"
    )
    small, large = both("auto / MAPIE APS", 1)
    yield (
        f"`auto` takes {small} times MAPIE's APS at 10,000 x 100, {large} times at 20,000 x 1,000"
    )
    alone = "host, 2 cores, MAPIE alone", "10,000 x 100"
    three, from_logits, auto = (
        short(told[f"conformix {case} / MAPIE APS", *alone], 2)
        for case in ("thr, aps, rank", "thr, aps, rank, logits", "auto")
    )
    yield f"beside MAPIE alone {three} ({from_logits})"
    yield f"beside MAPIE alone {auto}"
    case = "conformix thr, aps, rank, 16 threads / 1 thread"
    share = told[case, "host, 16 cores", "10,000 x 1,000"]
    yield f"10,000 x 1,000 with three scores takes {short(share, 2)} of the time of one"


def _learnt_columns(text: str) -> Iterable[str]:
    rows = {(row[0], row[2]): [float(cell) for cell in row[3:]] for row in _table(text)}
    (fit, no_fit, predict, no_predict) = rows["1,000", "host"]
    (_, _, gpu_predict, gpu_no_predict) = rows["1,000", "device"]
    yield (
        f"a fit takes {fit / no_fit:.1f} times as long as without, a prediction "
        f"{predict / no_predict:.1f} times, and {gpu_predict / gpu_no_predict:.1f} times on a "
        "device"
    )


CLAIMS = (
    Claim("README.md", f"{RESULTS}/at_a_glance.jsonl", "make bench WHAT=at-a-glance", _at_a_glance),
    Claim(
        "README.md",
        "docs/results/frontier/rivals.md",
        "make results WHAT=frontier",
        _frontier_counts,
    ),
    Claim("README.md", "docs/results/frontier/cases.csv", "make results WHAT=frontier", _settings),
    Claim("README.md", f"{RESULTS}/search.jsonl", "make bench", _milliseconds),
    Claim("docs/speed.md", f"{RESULTS}/search.jsonl", "make bench", _search),
    Claim("docs/gpu.md", f"{RESULTS}/gpu.jsonl", "make bench WHAT=gpu", _device),
    Claim("docs/serving.md", f"{RESULTS}/latency.jsonl", "make bench", _latency),
    Claim(
        "docs/scale.md", f"{RESULTS}/many_rows.jsonl", "python -m benchmarks.many_rows", _many_rows
    ),
    Claim("docs/scale.md", f"{RESULTS}/out_of_core.jsonl", "make bench WHAT=scale", _beside),
    Claim("docs/scale.md", f"{RESULTS}/out_of_core.jsonl", "make bench WHAT=scale", _out_of_core),
    Claim("docs/scale.md", f"{RESULTS}/doors.jsonl", "make bench WHAT=scale", _doors),
    Claim("docs/scale.md", f"{RESULTS}/cluster.jsonl", "make bench WHAT=scale", _cluster),
    Claim("docs/scale.md", f"{RESULTS}/growth.jsonl", "make bench WHAT=scale", _growth),
    Claim("docs/online.md", f"{RESULTS}/streams.jsonl", "make bench WHAT=streams", _controllers),
    Claim("docs/online.md", f"{RESULTS}/streams.jsonl", "make bench WHAT=streams", _flat),
    Claim(
        "docs/regression.md",
        "docs/results/regression/cases.md",
        "make results WHAT=regression",
        _regression,
    ),
    Claim(
        "docs/limits.md",
        "docs/results/end_to_end/goals.md",
        "make bench WHAT=end-to-end",
        _goals_missed,
    ),
    Claim(
        "docs/limits.md",
        "docs/results/frontier/cost.md",
        "make bench WHAT=learnt",
        _learnt_columns,
    ),
)


HEAD = """# Claims

Every measured number on the front page, and the tables and sentences of other pages that quote
committed rows: what is said, the command that measures it, and the file that holds the rows.
`python -m release.claims` writes this page; `tests/docs/test_claims.py` fails where a page says
anything else than its rows do. Other numbers are printed by blocks of code on the pages themselves,
which the tests execute, or stand in tables that a study writes and a page includes.

## On the front page

| what is said | command | rows |
|---|---|---|
"""


def page() -> str:
    """Return the list of all claims, in Markdown."""
    lines = []
    for claim in CLAIMS:
        if claim.page == "README.md":
            where = f"`{claim.command}` | `{claim.source}`"
            told = [text for text in claim.holds() if not text.startswith("|---")]
            lines += [f"| {text.strip('| ').replace(' | ', '; ')} | {where} |" for text in told]
    lines += ["", "## On other pages", "", "| page | lines | command | rows |", "|---|---|---|---|"]
    for claim in CLAIMS:
        if claim.page != "README.md":
            name = Path(claim.page).name
            where = f"`{claim.command}` | `{claim.source}`"
            lines.append(f"| [{Path(name).stem}]({name}) | {len(claim.holds())} | {where} |")
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    """Write the page; one line and exit code 1 for every text that a page lacks."""
    missing = [(claim.page, text) for claim in CLAIMS for text in claim.missing()]
    for name, text in missing:
        print(f"{name} lacks: {text}")
    PAGE.write_text(page(), encoding="utf-8")
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
