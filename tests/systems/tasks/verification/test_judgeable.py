"""Signals that no computer can judge are refused by what the computers announce."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.plans.client import Plans
from interlock.systems.tasks.plans.file import read_plan
from interlock.systems.tasks.verification.judgeable import refuse_unjudgeable
from interlock.systems.tasks.verification.signals import InvalidSignalError
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.specs.problems import FileError
from tests.git.scene import make_repository
from tests.systems.threads.threads import client_of

SIGNALS = [{"type": "path_exists", "value": "a"}, {"type": "llm_judge", "value": "good?"}]


@pytest.fixture
def client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def test_a_signal_for_a_model_is_refused_where_no_computer_has_one(client: Client) -> None:
    dispatch, records = client.dispatch, client.records
    refuse_unjudgeable(records, SIGNALS)  # No computer has announced anything.
    dispatch.hosts.announce("north", {"judge": False})

    refuse_unjudgeable(records, SIGNALS[:1])
    with pytest.raises(InvalidSignalError, match=r"the computers with agents \(north\), or leave"):
        refuse_unjudgeable(records, SIGNALS)

    dispatch.hosts.announce("south", {"judge": True})
    refuse_unjudgeable(records, SIGNALS)
    refuse_unjudgeable(records, SIGNALS, host="south")
    with pytest.raises(InvalidSignalError, match="to a language model on north, or leave"):
        refuse_unjudgeable(records, SIGNALS, host="north")

    dispatch.hosts.announce("north", {"judge": True})
    refuse_unjudgeable(records, SIGNALS, host="north")


def test_tasks_and_plans_with_such_a_signal_are_refused_before_anything_is_written(
    client: Client, tmp_path: Path
) -> None:
    client.dispatch.hosts.announce("north", {"judge": False})
    repo, file = make_repository(tmp_path / "repo"), tmp_path / "plan.yaml"
    task = f"{{name: a, title: A, repo: {repo}, agent: make, signals: {SIGNALS}}}"
    file.write_text(f"plan: p\nbacklog: b\ntasks:\n  - {task}\n")

    with pytest.raises(FileError, match=r"4:5: task 'a': signal 1, .*: llm_judge cannot be"):
        Plans(client).check(read_plan(file))
    payload = {"title": "A", "repo": str(repo), "agent": "make", "signals": SIGNALS}
    with pytest.raises(InvalidSignalError, match="INTERLOCK_JUDGE_MODEL"):
        Tasks(client).submit(payload, backlog="b")
    assert client.list(machine="task") == []
