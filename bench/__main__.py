"""Measures Interlock: `python -m bench [part ...]`, without a part all of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from bench import calls, figures, jobs, kernel_speed, latency, lifecycles, sweep
from bench.place import Place, open_place

Part = Callable[[Place], Mapping[str, Any]]
PARTS: Mapping[str, Part] = {
    "lifecycles": lifecycles.measure,
    "transitions": kernel_speed.transitions,
    "submits": kernel_speed.submissions,
    "latency": latency.measure,
    "memory": kernel_speed.memory,
    "calls": calls.measure,
    "jobs": jobs.measure,
    # Last: it leaves a server that is full.
    "sweep": sweep.measure,
}
EXTRA: Mapping[str, Part] = {"pools": lifecycles.pools}


def main() -> None:
    """Measure what is named, print it and keep it."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join([*PARTS, *EXTRA]))
    parser.add_argument("--write-docs", action="store_true", help="put the latest figures there")
    given = parser.parse_args()
    known = {**PARTS, **EXTRA}
    if unknown := [name for name in given.parts if name not in known]:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(known)}")
    if given.parts or not given.write_docs:
        measured: dict[str, Any] = {"machine": figures.machine()}
        with open_place() as place:
            for name in given.parts or PARTS:
                print(f"measuring {name} ...", flush=True)
                measured |= _measured(name, known[name], place, measured)
        figures.keep(measured, whole=not given.parts)
        figures.show(measured)
    if given.write_docs:
        figures.write_docs()


def _measured(name: str, part: Part, place: Place, before: Mapping[str, Any]) -> Mapping[str, Any]:
    if name == "latency" and "lifecycles_per_s" in before:
        return latency.measure(place, full_per_s=before["lifecycles_per_s"]["1"])
    return part(place)


if __name__ == "__main__":
    main()
