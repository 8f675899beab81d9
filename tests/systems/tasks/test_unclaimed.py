"""An agent that can claim no task is told how many open tasks are not for it, and why."""

from __future__ import annotations

from typing import Any

from interlock.systems.tasks.client import Tasks
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import client_of


def test_each_open_task_counts_for_one_reason_why_it_is_not_claimed(
    server: EmbeddedServer, prefix: str
) -> None:
    tasks = Tasks(client_of(server.url, prefix))
    fields: dict[str, dict[str, Any]] = {
        "one": {"owned_files": ["src"]},
        "two": {"depends_on": ["one"], "not_before": 4_000_000_000_000},
        "three": {"role": "writer", "depends_on": ["one"]},
        "four": {"not_before": 4_000_000_000_000},
        "five": {"tenant": "acme"},
        "six": {"repo": "/nowhere", "agent": "make"},
        "seven": {"owned_files": ["src/a.py"]},
        "eight": {},
    }
    for name, more in fields.items():
        tasks.client.submit({"title": name, **more}, id=f"b/{name}", machine="task")
    tasks.requeue("b/eight", to="bob")
    assert tasks.claim_next("b", owner="ann") is not None
    assert tasks.claim_next("b", owner="ann") is None

    assert tasks.unclaimed("b", role="any", owner="ann", tenant="default") == {
        "states": {"open": 7, "claimed": 1},
        "reasons": {
            "waiting for other tasks": 1,
            "for the role writer": 1,
            "not to begin yet": 1,
            "for the tenant acme": 1,
            "for agents that Interlock starts": 1,
            "refused to this agent now (`interlock task claim TASK` says why)": 1,
            "kept for the agent bob": 1,
        },
    }
