"""Measures Interlock: `python -m bench [part ...]`. Without a part it measures all."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

from bench import (
    calls,
    console,
    effect,
    figures,
    http,
    jobs,
    kernel_speed,
    latency,
    lifecycles,
    listeners,
    noise,
    sweep,
    watching,
    workflows,
)
from bench.peers import rounds as peers
from bench.server import BenchServer, open_server

Part = Callable[[BenchServer], Mapping[str, Any]]
PARTS: Mapping[str, Part] = {
    "lifecycles": lifecycles.measure,
    "workflows": workflows.measure,
    "peers": peers.measure,
    "effect": effect.measure,
    "transitions": kernel_speed.transitions,
    "submits": kernel_speed.submissions,
    "latency": latency.measure,
    "memory": kernel_speed.memory,
    "calls": calls.measure,
    "jobs": jobs.measure,
    "http": http.measure,
    "console": console.measure,
    "watching": watching.measure,
    # Last, because it leaves a full server.
    "sweep": sweep.measure,
}
EXTRA: Mapping[str, Part] = {"pools": lifecycles.pools, "listeners": listeners.measure}


def main() -> None:
    """Measure the named parts, print the figures and store them."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join([*PARTS, *EXTRA]))
    parser.add_argument(
        "--write-docs", action="store_true", help="write the latest figures into docs/benchmarks.md"
    )
    parser.add_argument("--history", action="store_true", help="print the last runs of this user")
    arguments = parser.parse_args()
    parts = {**PARTS, **EXTRA}
    if unknown := [name for name in arguments.parts if name not in parts]:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(parts)}")
    if arguments.parts or not (arguments.write_docs or arguments.history):
        measured: dict[str, Any] = {"machine": figures.computer(), "seconds": {}, "noise": {}}
        with open_server() as server:
            for name in arguments.parts or PARTS:
                print(f"measuring {name} ...", flush=True)
                busy, began_s = noise.busy_share(), time.monotonic()
                found = _measured(name, parts[name], server, measured)
                measured |= found
                measured["noise"][name] = {"busy": busy, "spread": noise.spreads(found)}
                measured["seconds"][name] = round(time.monotonic() - began_s)
        figures.store(measured, whole=not arguments.parts)
        figures.show(measured)
    if arguments.write_docs:
        figures.write_docs()
    if arguments.history:
        figures.show_history()


def _measured(
    name: str, part: Part, server: BenchServer, before: Mapping[str, Any]
) -> Mapping[str, Any]:
    if name == "latency" and "lifecycles_per_s" in before:
        return latency.measure(server, full_per_s=before["lifecycles_per_s"]["1"])
    return part(server)


if __name__ == "__main__":
    main()
