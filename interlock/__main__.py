"""The command `interlock`: every command starts and ends here."""

from __future__ import annotations

import atexit
import gc
import sys
from importlib import import_module

# While it imports, a command makes a quarter of a million objects that stay.
GARBAGE_COLLECTED_AFTER = 50_000
INTERRUPTED = 130  # the exit code that shells give a program that Ctrl-C has ended


def main() -> None:
    """Run the command line. It ends without a traceback if its output fails, and at Ctrl-C."""
    # Otherwise garbage collection takes a fifth of the time of a short command: hundreds of runs
    # during the imports, and at the end a search through all objects.
    gc.set_threshold(GARBAGE_COLLECTED_AFTER)
    atexit.register(gc.freeze)
    try:
        # Imported here, because Ctrl-C may come before the imports are done.
        streams = import_module("interlock.workers.terminal.output").standard_streams
        with streams():
            import_module("interlock.workers.cli").main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
