"""The command line: one file per command, listed here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from conformix import __version__
from conformix.cli import compare, demo, evaluate, fit, info, predict, report, reproduce
from conformix.cli.output import write_line

# In the order of the help: a command is a function with an example, in a file of its own.
COMMANDS: dict[Callable[..., None], str] = {
    demo.demo: demo.EXAMPLE,
    fit.fit: fit.EXAMPLE,
    predict.predict: predict.EXAMPLE,
    evaluate.evaluate: evaluate.EXAMPLE,
    info.info: info.EXAMPLE,
    compare.compare: compare.EXAMPLE,
    report.report: report.EXAMPLE,
    reproduce.reproduce: reproduce.EXAMPLE,
}

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Smaller prediction sets, same guarantee: averaged conformity scores.",
    epilog=f"Example: {fit.EXAMPLE}",
)
for function, example in COMMANDS.items():
    app.command(epilog=f"Example: {example}")(function)


def command() -> Any:
    """Return the command line as one callable."""
    return typer.main.get_command(app)


def _version(asked: bool) -> None:
    if asked:
        write_line(f"conformix {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say which version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; works anywhere.")
    ] = False,
) -> None:
    """Hold the options that all commands share; `main` has read them already."""
