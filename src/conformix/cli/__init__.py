"""The shell commands: the library with a shell accent.

Tables on a terminal, JSON lines when piped or with ``--json``; one sentence and exit code 2 for
what cannot be done, no traceback without ``--debug``. Commands load when they are called, so that
conformix works without typer and rich.
"""

from conformix.cli.app import main

__all__ = ["main"]
