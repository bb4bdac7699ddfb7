"""``python -m conformix`` is the command ``conformix``."""

from conformix.cli.app import main

if __name__ == "__main__":
    raise SystemExit(main())
