"""The command `interlock`: every command starts and ends here."""

from __future__ import annotations

import sys
from importlib import import_module

INTERRUPTED = 130  # the exit code that shells give a program that Ctrl-C has ended


def main() -> None:
    """Run the command line. It ends without a traceback if its output fails, and at Ctrl-C."""
    try:
        # Imported here, because Ctrl-C may come before the imports are done.
        streams = import_module("interlock.workers.terminal.output").standard_streams
        with streams():
            import_module("interlock.workers.cli").main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
