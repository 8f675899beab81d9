"""The producer of a peer, in the peer's own environment: it does what a line on its input says."""

from __future__ import annotations

import importlib
import sys

VERBS = ("hold", "show", "done")


def main() -> None:
    """Answer each line, a verb and perhaps a number, with a line."""
    producer = importlib.import_module(sys.argv[1]).Producer()
    print("ready", flush=True)
    for line in sys.stdin:
        verb, *numbers = line.split()
        assert verb in VERBS, verb
        print(getattr(producer, verb)(*map(int, numbers)) or 0, flush=True)


if __name__ == "__main__":
    main()
