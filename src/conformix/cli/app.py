"""The way in: arguments to a command, and to an exit code, every failure in one sentence.

Nothing here needs typer or rich before a command is asked for, so that a missing one is a sentence.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from conformix.cli.output import write_aside
from conformix.cli.wording import in_options
from conformix.errors import ConformixWarning, InvalidInput, pip_line

# In the order of the help: a command is a file here, with a function of its name and an EXAMPLE.
COMMANDS = (
    "demo", "choose", "doctor", "fit", "predict", "evaluate", "info", "compare", "report",
    "reproduce", "monitor", "warmup",
)  # fmt: skip
USAGE, FAILED, STOPPED = 2, 1, 130
STOPPED_SENTENCE = "stopped; the same command goes on where it was."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, or 2 for bad usage and bad input.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows ``conformix``; by default the arguments of the process.

    Examples
    --------
    >>> main(["--version"])
    conformix 0...
    0
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"] or ["--help"]
    try:
        command = commands()
    except ModuleNotFoundError as error:
        if debug:
            raise
        return _say(
            f"the command needs {error.name}; install it with: {pip_line('cli,plots')}.",
            FAILED,
        )
    streams = sys.stdout, sys.stderr
    try:
        with _warnings_as_sentences():
            code = command(words, prog_name="conformix", standalone_mode=False) or 0
        sys.stdout.flush()  # here, where a reader that has gone is no failure
        # Some versions of the parser turn an interrupt into a code.
        return _say(STOPPED_SENTENCE, STOPPED) if code == STOPPED else int(code)
    except KeyboardInterrupt:
        return _say(STOPPED_SENTENCE, STOPPED)
    except BrokenPipeError:  # the reader has gone, as after `| head`
        return _gone()
    except SystemExit:
        # The parser meets a reader that has gone by wrapping the streams and ending, as a failure.
        if sys.stdout is streams[0]:
            raise
        sys.stdout, sys.stderr = streams
        return _gone()
    except Exception as error:
        if debug:
            raise
        return _failed(error)


@cache  # the parser reads the signatures of all commands, and is the same for every call
def commands() -> Any:
    """Return all commands as one callable."""
    import typer  # noqa: PLC0415  an extra

    from conformix.cli.options import common  # noqa: PLC0415

    modules = {name: import_module(f"conformix.cli.{name}") for name in COMMANDS}
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Smaller prediction sets, same guarantee: averaged conformity scores.",
        epilog=f"Example: {modules['fit'].EXAMPLE}",
    )
    for name, module in modules.items():
        app.command(epilog=f"Example: {module.EXAMPLE}")(getattr(module, name))
    app.callback()(common)
    return typer.main.get_command(app)


def _gone() -> int:
    """Write what is left to nowhere: nobody reads it, and that is all right."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


@contextmanager
def _warnings_as_sentences() -> Iterator[None]:
    """Say warnings of this library in one sentence each, once, beside the output."""
    shown: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", ConformixWarning)

        def show(message: Any, category: type[Warning], *place: Any, **options: Any) -> None:
            if not issubclass(category, ConformixWarning):
                # What other libraries say is shown as Python shows it, line by line.
                for line in warnings.formatwarning(message, category, *place[:2]).splitlines():
                    write_aside(line)
            elif str(message) not in shown:
                shown.add(str(message))
                _say(f"warning: {in_options(str(message))}", 0)

        warnings.showwarning = show
        yield


def _failed(error: Exception) -> int:
    """Say in one sentence what went wrong, and return the exit code."""
    sentence, code = f"{type(error).__name__}: {error} (--debug shows where).", FAILED
    if isinstance(error, InvalidInput):
        sentence, code = in_options(str(error)), USAGE
    elif isinstance(error, ModuleNotFoundError):
        package = str(error.name).partition(".")[0]
        sentence = f"this needs {package}; install it with: {pip_line('all')}."
    elif isinstance(error, OSError):
        named = f" ({error.filename})" if error.filename else ""
        sentence, code = f"{error.strerror or error}{named}.", USAGE
    elif hasattr(error, "format_message"):
        # Usage errors of the command line parser, whichever package holds it.
        text = " ".join(error.format_message().split()).rstrip(".")
        whose = getattr(getattr(error, "ctx", None), "command_path", "conformix")
        sentence, code = f"{text}{'' if text.endswith('?') else ';'} see {whose} --help.", USAGE
    elif type(error).__name__ == "Abort":
        sentence, code = STOPPED_SENTENCE, STOPPED
    return _say(sentence, code)


def _say(sentence: str, code: int) -> int:
    write_aside(f"conformix: {sentence}")
    return code
