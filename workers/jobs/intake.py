"""Creates jobs and graphs from the messages of producers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_exponential_jitter,
)

from interlock.workers.client import Client
from interlock.workers.engine.submission import Submitted
from interlock.workers.jobs.admission import UnknownDependencyError
from interlock.workers.jobs.client import Graphs

# Messages may overtake each other: the message of a dependency may arrive a little later.
UNTIL_DEPENDENCIES_ARE_KNOWN = Retrying(
    retry=retry_if_exception_type(UnknownDependencyError),
    wait=wait_exponential_jitter(multiplier=0.1, max=1),
    stop=stop_after_delay(5),
    reraise=True,
)


def accept_job(client: Client, job: str, payload: Mapping[str, Any], priority: int) -> Submitted:
    """Create a job. Raises CallError if the job can never be accepted.

    Its dependencies must exist; its files may be on another machine.
    """
    held = bool(payload.get("hold"))
    create = partial(Graphs(client).create, priority=priority, held=held, local=False)
    return UNTIL_DEPENDENCIES_ARE_KNOWN(create, job, payload)


def accept_graph(client: Client, graph: str, payload: Mapping[str, Any], _: int) -> Submitted:
    """Open a graph; a graph has no priority. Raises CallError."""
    return Graphs(client).open(graph, payload)
