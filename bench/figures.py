"""Stores the figures as JSON, shows them as a table, and writes them to docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import history, noise

HERE = Path(__file__).resolve().parent
LATEST = HERE / "latest.json"
DOCS = HERE.parent / "docs" / "benchmarks.md"
Figures = Mapping[str, Any]
Row = tuple[str, str, str]


def rows_of(figures: Figures) -> Iterator[Row]:
    """Yield rows: what was measured, the figure, and the figure that it is compared with."""
    for n, label in (("1", "one worker process"), ("2", "two worker processes")):
        if "ratio" in figures:
            rate, ratio = figures["celery_chains_per_s"][n], figures["ratio"][n]
            tuned, to_tuned = figures["celery_tuned_chains_per_s"][n], figures["ratio_to_tuned"][n]
            comparison = f"Celery {rate:.0f} chains/s: {ratio:.2f} times"
            yield (
                f"lifecycles of five effects, {label}",
                f"{figures['lifecycles_per_s'][n]:.0f}/s",
                f"{comparison}; tuned as ours is {tuned:.0f}: {to_tuned:.2f} times",
            )
    if "workflow_to_machine" in figures:
        rates, ratio = figures["workflows_per_s"], figures["workflow_to_machine"]
        by_hand = f"the same machine by hand {rates['machine']:.0f}/s: {ratio:.2f} times"
        yield "a workflow of five steps, one process", f"{rates['workflow']:.0f}/s", by_hand
    simple = (
        ("transitions_per_s", "transitions, the kernel alone", "{:,}/s"),
        ("submits_per_s", "threads submitted by one client", "{:,}/s"),
        ("bytes_per_record", "memory of a live record", "{:,} bytes"),
        ("bytes_per_event", "memory of a transition", "{:,} bytes"),
        ("sweep_us_per_due", "sweep of 1,000,000 records, 0.1 % due", "{:,} µs an item"),
        ("model_calls_total_s", "200 one-second model calls, one process", "{:.2f} s"),
    )
    for name, label, form in simple:
        if name in figures:
            yield label, form.format(figures[name]), comparison_of(name, figures)
        if name == "submits_per_s" and "start_latency_ms" in figures:
            latency = figures["start_latency_ms"]
            load = figures["start_latency_load_per_s"]
            yield (
                "from commit to the effect's start, at half load",
                f"p50 {latency['p50']:g} ms, p99 {latency['p99']:g} ms",
                f"{load:.0f} lifecycles/s on one process",
            )
    parts = {
        "peers": peer_rows,
        "effect": effect_rows,
        "jobs": job_rows,
        "http": http_rows,
        "console": console_rows,
        "watching": watching_rows,
        "listeners": listener_rows,
    }
    for name, part_rows in parts.items():
        if figures.get(name):
            yield from part_rows(figures[name])


def peer_rows(found: Figures) -> Iterator[Row]:
    """Yield the rows of the same five steps on other products."""
    for name, one in found.items():
        on_disk = f"with each commit on the disk {one['ratio_on_disk']:.2f} times"
        beside = f"Interlock {one['ratio']:.2f} times; {on_disk}" if one["ratio"] != 1 else ""
        yield f"five empty steps: {name}", f"{one['per_s']:.0f}/s", beside


def effect_rows(found: Figures) -> Iterator[Row]:
    """Yield the rows of where an effect's time goes."""
    worker, server = found["worker_us"], found["server_us"]
    beside = f"a task of a Celery chain, tuned as ours is, {found['celery_us']:.0f} µs"
    yield "processor time of an effect, in the worker", f"{worker:.0f} µs", beside
    trips = f"calls of the store, {found['trips']:.1f} an effect"
    parts = (
        (trips, found["trips_us"], worker),
        ("deciding, keys, plan and codec", found["kernel_us"], worker),
        ("Celery, kombu, pool and runner", found["rest_us"], worker),
    )
    for label, used, whole in parts:
        yield f"of it: {label}", f"{used:.0f} µs", f"{used / whole:.0%}"
    beside = f"of a task of a Celery chain {found['celery_server_us']:.0f} µs"
    yield "processor time of an effect, in the server", f"{server:.0f} µs", beside
    used = found["scripts_us"]
    yield "of it: inside of scripts", f"{used:.0f} µs", f"{used / server:.0%}"


def job_rows(found: Figures) -> Iterator[Row]:
    """Yield the rows of graphs of jobs."""
    shapes = {"layers": "jobs in layers of 100", "chain": "jobs in one chain"}
    for shape, label in shapes.items():
        figures = found[shape]
        cost = figures["workers_ms"] + figures["store_ms"]
        yield (
            f"{figures['jobs']:,} {label}, one worker process",
            f"{figures['per_s']:.0f} jobs/s",
            f"{cost:.1f} ms of processor time a job, {figures['growth']:.2f} times that of 1,000",
        )
    chains = f"{found['celery_chains_per_s']:.0f} chains/s of {found['alone_effects']:.0f}"
    yield (
        "jobs that depend on nothing, one worker process",
        f"{found['alone_per_s']:.0f}/s",
        f"Celery {chains} empty tasks: {found['ratio']:.2f} times",
    )
    yield (
        "memory of a job that waits",
        f"{found['layers']['live_bytes']:,} bytes",
        f"{found['layers']['ended_bytes']:,} when it has ended, with its whole log",
    )


def http_rows(found: Figures) -> Iterator[Row]:
    """Yield the rows of the HTTP API."""
    beside = f"the client on the store {found['client_per_s']:,}/s"
    many = f"eight callers over HTTP {found['per_s_of_many']:,}/s"
    submitted = "threads submitted over HTTP, one caller"
    yield submitted, f"{found['per_s']:,}/s", f"{beside}; {many}"
    yield "over HTTP, p50 and p99", quantiles(found["reads_ms"]), f"{found['records']:,} records"


def console_rows(found: Figures) -> Iterator[Row]:
    """Yield the rows of the console."""
    where = f"{found['viewers']} viewers, {found['records']:,} records"
    yield "console, p50 and p99", quantiles(found["pages_ms"]), where
    share = f"{found['store_cpu_share']:.1%} of a core of the store"
    looks = f"{found['looks_per_s']:g} looks a second"
    yield f"console: {found['viewers']} viewers of the start page", looks, share


def quantiles(pages: Mapping[str, Any]) -> str:
    """Return how long each page took in milliseconds, half of the times and 99 of 100."""
    return "; ".join(
        f"{name} {took['p50']:g} and {took['p99']:g} ms" for name, took in pages.items()
    )


def listener_rows(found: Figures) -> Iterator[Row]:
    """Yield the rows of listeners."""
    for name in ("all_events", "one_record"):
        one, what = found[name], name.replace("_", " ")
        took = f"an event to the first after {one['event_s']['first']:g} s, to the last"
        shown = f"{one['kb_each']:g} KB each, {one['idle_share']:.0%} of a core when idle"
        yield (
            f"{found['number']:,} listeners to {what}",
            shown,
            f"{took} {one['event_s']['last']:g} s",
        )


def watching_rows(found: Figures) -> Iterator[Row]:
    """Yield the rows of what metrics and traces cost."""
    lifecycles, one = f"{found['shipped_per_s']:.0f} lifecycles/s", "one worker process"
    traced, counted = found["traced_ratio"], found["counted_ratio"]
    yield f"lifecycles with traces that are sent, {one}", f"{traced:.2f} times", lifecycles
    without = "the same scripts without counting"
    yield f"lifecycles with the counts for metrics, {one}", f"{counted:.2f} times", without
    yield "traces that are off", f"{found['off_ns']:,} ns an effect", "the calls that look for them"
    yield "one answer of /metrics", f"{found['read_ms']:g} ms", "at most one a second"


def comparison_of(name: str, figures: Figures) -> str:
    """Return the figure that a figure is compared with."""
    match name:
        case "transitions_per_s":
            share = figures["transition_share_of_bare"]
            bare = figures["bare_evalsha_per_s"]
            return f"{share:.0%} of a bare EVALSHA of the same keys ({bare:,}/s)"
        case "submits_per_s":
            return f"bare records {figures['creates_per_s']:,}/s"
        case "bytes_per_record":
            log = figures["bytes_per_record_of_log"]
            return f"{log:,} of them the first block of its log"
        case "bytes_per_event":
            return f"its event and its op-id; a claim's note {figures['bytes_per_claim']:,} bytes"
        case "sweep_us_per_due":
            few = figures["sweep_us_per_due_of_10000"]
            idle = figures["sweep_idle_ms"]
            return f"{few:,} µs among 10,000 records; with nothing due {idle:g} ms a pass"
        case _:
            bare = figures["model_calls_bare_s"]
            return f"the same calls in one bare event loop {bare:.2f} s"


def show(figures: Figures) -> None:
    """Print the table."""
    table = Table("measured", "figure", "beside", title="Interlock, measured")
    for row in rows_of(figures):
        table.add_row(*row)
    Console().print(table)
    for name, why in figures.get("peers_skipped", {}).items():
        print(f"skipped: {name}, because {why}")
    for sentence in noise.noisy(figures["noise"]):
        print(f"noisy: {sentence}")
    took = ", ".join(f"{name} {seconds} s" for name, seconds in figures["seconds"].items())
    print(f"took {sum(figures['seconds'].values()) / 60:.1f} minutes: {took}")
    if found := figures.get("pools"):
        for name, rate in found.items():
            print(f"{name}: {rate}/s")


def store(figures: Figures, *, whole: bool) -> None:
    """Write the figures to latest.json. A run of single parts leaves the others as they are."""
    before = json.loads(LATEST.read_text()) if LATEST.exists() and not whole else {}
    stored = {**before, **figures, "at": time.time(), "one_run": whole}
    LATEST.write_text(json.dumps(stored, indent=2) + "\n")
    history.keep({**figures, "at": stored["at"], "one_run": whole})


def show_history() -> None:
    """Print the main figures of the last runs."""
    table = Table(
        "run", "commit", *(label for _, label in history.COLUMNS), title=str(history.path())
    )
    for row in history.rows():
        table.add_row(*row)
    Console().print(table)


def write_docs() -> None:
    """Write the latest figures between the markers of docs/benchmarks.md.

    Where the time of an effect goes is of interest to who changes Interlock: that is left out.
    """
    figures = json.loads(LATEST.read_text())
    if not figures["one_run"]:
        raise SystemExit(f"{LATEST.name} holds parts of several runs; run make bench first")
    day = time.strftime("%Y-%m-%d", time.gmtime(figures["at"]))
    minutes = sum(figures["seconds"].values()) / 60
    lines = [
        "| measured | figure | beside |",
        "|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows_of({**figures, "effect": None})),
        "",
        f"Measured on {day}, {figures['machine']}, in {minutes:.0f} minutes.",
        *(f"Noisy: {sentence}." for sentence in noise.noisy(figures["noise"])),
    ]
    write_between("figures", lines)


def write_between(mark: str, lines: Sequence[str]) -> None:
    """Write lines between two marks of docs/benchmarks.md."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    head, rest = DOCS.read_text("utf-8").split(begin)
    tail = rest.split(end)[1]
    DOCS.write_text("\n".join([head + begin, *lines, end + tail]), "utf-8")


def computer() -> str:
    """Describe the computer in general terms."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"{os.cpu_count()} virtual cores, {platform.system()}, Python {python}"
