"""Creates jobs and graphs from the messages of producers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock import Client, Submitted
from interlock.systems.jobs.client import Graphs


def accept_job(client: Client, job: str, payload: Mapping[str, Any], priority: int) -> Submitted:
    """Create a job. Raises CallError if the job can never be accepted.

    The error is an early one until its dependencies exist. Its files may be on another computer.
    """
    held = bool(payload.get("hold"))
    return Graphs(client).create(job, payload, priority=priority, held=held, local=False)


def accept_graph(client: Client, graph: str, payload: Mapping[str, Any], _: int) -> Submitted:
    """Open a graph; a graph has no priority. Raises CallError."""
    return Graphs(client).open(graph, payload)
