"""Files of responses: a column per prediction, `mean`, `sigma` and quantiles such as `q05`.

With several models the columns have their names in front, ``ridge.mean``. The response is a column
of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformix.cli.options import check_target, listed
from conformix.cli.output import (
    record_table,
    wants_json,
    working,
    write_json,
    write_line,
    write_table,
)
from conformix.errors import InvalidInput
from conformix.splits import in_plain_words

# What responses are called where nobody says.
RESPONSE_NAMES = ("y", "response", "target", "label")
TABLES = (".csv", ".tsv", ".parquet")
ENDINGS = (".csv", ".parquet")
# Rows of a table on a terminal.
SHOWN = 10


@dataclass(frozen=True, eq=False)
class ResponseFile:
    """A table of predictions, read: by model, with the response and columns to keep."""

    path: Path
    outputs: dict[str, Any]
    y: Any
    kept: dict[str, list[Any]]

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(next(iter(self.outputs.values())))


def is_of_responses(model_file: str) -> bool:
    """Whether a model file is of responses."""
    from conformix.fit.saved import format_of  # noqa: PLC0415  late

    return bool(format_of(model_file) == "conformix regression model")


def refuse_options_of_labels(**options: Any) -> None:
    """Refuse options that are about outputs over labels: a table of responses holds all it needs.

    Examples
    --------
    >>> refuse_options_of_labels(models="vgg")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: --models is about outputs over labels, and this model is of ...
    """
    for name, value in options.items():
        if value:
            raise InvalidInput(
                f"--{name.replace('_', '-')} is about outputs over labels, and this model is of "
                "responses: its table has a column per prediction, and the response in one of its "
                "own, which --label-column names."
            )


def read_responses(
    file: str | None,
    *,
    labelled: bool,
    column: str | None = None,
    drop: str = "",
    part: str | None = None,
    keep: tuple[str, ...] = (),
    max_memory: str = "4G",
) -> ResponseFile:
    """Return the predictions of a table, and where it is labelled its responses."""
    from conformix.data.files import Choice, Limits, parse_size, read_contents  # noqa: PLC0415  late
    from conformix.data.files.batch import parse_part  # noqa: PLC0415
    from conformix.data.files.contents import missing  # noqa: PLC0415

    if file is None or Path(file).suffix.lower() not in TABLES:
        raise InvalidInput(
            f"responses are read from a table that ends in {', '.join(TABLES)}, with columns such "
            f"as mean, sigma and q05; got {file}."
        )
    path, limits = Path(file), Limits(parse_size(max_memory))
    choice = Choice(drop=listed(drop), keep=keep, labelled=False)
    with working("reading"):
        contents = read_contents(path, limits=limits, choice=choice)
    names = [str(name) for name in contents.classes or ()]
    matrix = next(iter(contents.models.values()))
    rows = parse_part(part, len(matrix))
    columns = {name: matrix[rows, place] for place, name in enumerate(names)}
    named = column or next((name for name in RESPONSE_NAMES if name in columns), None)
    if column is not None and column not in columns:
        raise missing(path, "label column", column, names)
    y = None if named is None else columns.pop(named)
    if labelled and y is None:
        raise InvalidInput(
            f"{path} has no column of responses: name it with --label-column, or call it "
            f"{', '.join(RESPONSE_NAMES)}."
        )
    kept = {name: values[rows] for name, values in contents.kept.items()}
    return ResponseFile(path, _by_model(columns), y, kept)


def _by_model(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the predictions of every model, from columns such as ``ridge.mean``."""
    from conformix.regression import Regressed  # noqa: PLC0415  late

    parts: dict[str, dict[str, Any]] = {}
    for name, values in columns.items():
        model, dot, what = name.rpartition(".")
        if dot and what.isdigit():  # the level of a quantile: q0.05, or ridge.q0.05
            model, dot, front = model.rpartition(".")
            what = f"{front if dot else model}.{what}"
            model = model if dot else ""
        found = parts.setdefault(model, {})
        if what in ("mean", "sigma"):
            found[what] = values
        else:
            found.setdefault("quantiles", {})[what] = values
    return {model: Regressed(**found, name=model or "the file") for model, found in parts.items()}


def fit_responses(
    file: str | None,
    out: Path,
    settings: dict[str, Any],
    *,
    test: list[str] | None = None,
    **reading: Any,
) -> Any:
    """Fit an average of scores of responses, and write it; return what there is to say."""
    from conformix.regression import RegressionAverage  # noqa: PLC0415  late

    if test is not None and len(test) > 1:
        raise InvalidInput(
            f"--test is one table of responses, with the columns of all models; got {len(test)}."
        )
    check_target(out, [Path(str(file)), *map(Path, test or ())])
    rows = read_responses(file, labelled=True, **reading)
    apart = None
    if test:
        apart = read_responses(test[0], labelled=False, **(reading | {"part": None})).outputs
    estimator = RegressionAverage(**settings)
    with working("searching weights"):
        estimator.fit(rows.outputs, rows.y, test=apart)
    estimator.save(out)
    facts = estimator.guarantee_.facts
    return {
        "model": str(out),
        "rows": rows.n,
        "alpha": float(estimator.alpha),
        "split": facts.split,
        "n_tune": facts.n_tune,
        "n_calibrate": facts.n_cal,
        "scores": list(estimator.score_names_),
        "weights": [float(weight) for weight in estimator.weights_],
        "held_out_width": estimator.held_out_width_,
        "guarantee": estimator.guarantee_.kind,
        "statement": str(estimator.guarantee_),
    }


def fitted_table(record: dict[str, Any]) -> Any:
    """Return the table of a fit to responses."""
    pairs = zip(record["scores"], record["weights"], strict=True)
    title = (
        f"{record['model']}: {record['rows']:,} rows of responses, alpha = {record['alpha']:g}, "
        f"split {in_plain_words(record['split'])}"
    )
    used = f"{record['n_tune']:,} rows chose the weights, {record['n_calibrate']:,} the threshold."
    width = record["held_out_width"]
    apart = [] if width is None else [f"Mean width on rows apart from the search: {width:.4g}."]
    notes = [used, *apart, f"Guarantee {record['statement']}."]
    lines = [(name, f"{weight:.3f}") for name, weight in pairs]
    return record_table(title, ("score", "weight"), lines, notes)


def predict_responses(
    model_file: str,
    file: str | None,
    out: str | None,
    *,
    alpha: float | None,
    id_column: str | None,
    keep: str,
    escape_formulas: bool,
    as_json: bool | None,
    max_memory: str,
    **reading: Any,
) -> None:
    """Write the intervals of the rows of a table."""
    from conformix.regression import RegressionAverage  # noqa: PLC0415  late

    cp = RegressionAverage.load(model_file, max_memory=max_memory)
    names = tuple(dict.fromkeys([*([id_column] if id_column else []), *listed(keep)]))
    target = None if out in (None, "-") else Path(str(out))
    if target is not None:
        check_target(target, [Path(model_file), Path(str(file))], ENDINGS)
    rows = read_responses(file, labelled=False, keep=names, max_memory=max_memory, **reading)
    made = cp.predict_interval(rows.outputs, alpha=alpha)
    made.ids = None if id_column is None else rows.kept[id_column]
    kept = {name: rows.kept[name] for name in listed(keep)}
    if target is not None:
        if target.suffix.lower() == ".csv":
            made.to_csv(target, keep=kept, escape_formulas=escape_formulas)
        else:
            made.to_parquet(target, keep=kept)
        said = {"intervals": str(target), "rows": rows.n, "mean_width": float(made.width.mean())}
        if wants_json(as_json):
            write_json(said)
        else:
            write_line(f"{target}: {rows.n:,} intervals, mean width {said['mean_width']:.4g}")
    elif out == "-" or wants_json(as_json):
        for row, (lower, upper) in enumerate(made):
            named = {} if made.ids is None else {"id": made.ids[row]}
            own = named | {name: values[row] for name, values in kept.items()}
            ends = {"lower": finite(lower), "upper": finite(upper), "empty": lower > upper}
            write_json({"row": row, **own, **ends})
    else:
        write_table(_first_rows(made))


def finite(value: float) -> float | None:
    """Return a number of JSON, which has no infinities."""
    return value if abs(value) < float("inf") else None


def _first_rows(made: Any) -> Any:
    lines = [
        (str(row if made.ids is None else made.ids[row]), *_ends(*made[row]))
        for row in range(min(len(made), SHOWN))
    ]
    left = len(made) - SHOWN
    more = [f"{left:,} more rows; -o intervals.csv writes them all."] if left > 0 else []
    title = f"{len(made):,} intervals, mean width {made.width.mean():.4g}"
    first = "row" if made.ids is None else "id"
    return record_table(title, (first, "lower", "upper"), lines, more)


def _ends(lower: float, upper: float) -> tuple[str, str]:
    return ("empty", "") if lower > upper else (f"{lower:.6g}", f"{upper:.6g}")


def evaluated_responses(
    model_file: str, file: str | None, alpha: float | None, *, max_memory: str, **reading: Any
) -> tuple[Any, Any, str, int]:
    """Return what labelled responses say of a model, its ledger, their name and number."""
    from conformix.regression import RegressionAverage  # noqa: PLC0415  late

    cp = RegressionAverage.load(model_file, max_memory=max_memory)
    rows = read_responses(file, labelled=True, max_memory=max_memory, **reading)
    return cp.evaluate(rows.outputs, rows.y, alpha=alpha), cp.guarantee_, rows.path.stem, rows.n
