"""How a claim comes about: how long it may take, for whom, and what it holds while it merges."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import GuardRefusedError, HeldError
from interlock.kernel.record import partition_of
from interlock.kernel.store.leases import Lease
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.tasks.agents import Agents
from interlock.workers.tasks.claims import claim
from interlock.workers.tasks.client import Tasks
from interlock.workers.tasks.sweeps.assignments import run
from tests.workers.tasks.claims import Claimed, claimed, fire, taken
from tests.workers.threads.threads import client_of


@pytest.fixture
def here(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def submitted(here: Client, name: str, **more: Any) -> str:
    payload = {"title": name, "repo": "/nowhere", "agent": "make", **more}
    return str(here.submit(payload, id=f"b/{name}", machine="task").id)


def deadline_s(here: Client, of: str) -> float:
    """Claim and start a task, and return the deadline that the store keeps for it."""
    lease = claim(here.dispatch, here.show(of), agent="b/agent~x")
    assert isinstance(lease, Lease)
    fire(here, lease, "started")
    record = here.show(of)
    due_at = next(timer.due_at for timer in record.timers if timer.name == "deadline")
    return (due_at - record.since_ms) / 1_000


def closed(here: Client, name: str, took_s: float, role: str) -> None:
    """Have a task of a role closed after so long."""
    work = claimed(here, f"b/{name}", role=role).alive()
    done = {"summary": "done", "took_s": took_s}
    work.task_fires("completed", done)
    for trigger in ("verified", "merge_begun", "merged"):
        fire(here, taken(here, f"b/{name}"), trigger)


def test_the_deadline_in_the_store_moves_with_the_history_of_the_role(here: Client) -> None:
    first = deadline_s(here, submitted(here, "first", role="coder"))

    closed(here, "long", 4_000, "coder")
    closed(here, "short", 2_000, "coder")
    closed(here, "other", 7_000, "writer")

    second = deadline_s(here, submitted(here, "second", role="coder"))
    small = deadline_s(here, submitted(here, "small", role="coder", scope="small"))
    assert (first, second, small) == (1_800, 4_500, 4_500)
    reasons = " ".join(here.show("b/second").data["claim"]["deadline_reasons"])
    assert "3000" in reasons.replace(",", "")


def merging(here: Client, name: str, target: str = "main") -> Claimed:
    work = claimed(here, f"b/{name}", target=target).alive()
    work.task_fires("completed", {"summary": "done"})
    fire(here, taken(here, f"b/{name}"), "verified")
    return work


def test_only_one_task_of_a_backlog_merges_into_a_target_at_a_time(here: Client) -> None:
    for name, target in (("one", "main"), ("two", "main"), ("aside", "side")):
        merging(here, name, target)
    fire(here, taken(here, "b/one"), "merge_begun")

    two = taken(here, "b/two")
    with pytest.raises(HeldError, match="b/one holds what it needs"):
        fire(here, two, "merge_begun")
    fire(here, taken(here, "b/aside"), "merge_begun")

    assert here.dispatch.views.holds("b") == {
        "merge into main": "b/one",
        "merge into side": "b/aside",
    }
    fire(here, taken(here, "b/one"), "merged")
    fire(here, two, "merge_begun")
    assert here.dispatch.views.holds("b")["merge into main"] == "b/two"


def test_the_verbs_of_a_whole_stage_need_the_setting(server: EmbeddedServer, prefix: str) -> None:
    plain = Tasks(client_of(server.url, prefix))
    plain.submit({"title": "plain"}, backlog="b", name="plain")
    allowed = Tasks(client_of(server.url, prefix, stage_failures=True))
    for name, role in (("one", "coder"), ("two", "writer"), ("three", "coder")):
        allowed.submit({"title": name, "role": role}, backlog="b", name=name)
    allowed.claim("b/three", owner="ann")

    failed = plain.fail_stage("b", role="coder", reason="the design has changed")

    assert failed == ["b/one"]
    record = plain.client.show("b/one")
    assert (record.state, record.data["failure"]["reason"]) == ("failed", "the design has changed")
    assert plain.fail_stage("b", reason="all of it") == ["b/two"]
    assert plain.client.show("b/plain").state == "open"
    assert plain.client.show("b/three").state == "claimed"


def test_who_is_trusted_least_may_not_give_its_task_back(here: Client) -> None:
    tasks = Tasks(here)
    tasks.submit({"title": "one"}, backlog="b", name="one")
    mine = tasks.claim("b/one", owner="ann")

    for _ in range(2):
        with pytest.raises(GuardRefusedError, match="released needs the trust level trusted"):
            tasks.report(mine.key, mine.token, "released")
    before = here.show("b/one")
    agents = Agents(here)
    for _ in range(2):
        agents.promote(before.data["claim"]["identity"])
    tasks.report(mine.key, mine.token, "released")

    assert (before.state, before.version) == ("claimed", 2)
    notes = [line for line in here.history("b/one") if getattr(line, "kind", "") == "refused"]
    assert len(notes) == 1, "a repeated try is noted once for a claim"
    assert here.show("b/one").state == "open"


def test_a_backlog_that_nobody_can_work_on_hides_none_behind_it(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    here = client_of(
        server.url,
        prefix,
        sweep_batch=3,
        agents_max=1,
        home=tmp_path / "home",
    )
    words = ("init", "-q", "-b", "main", str(tmp_path / "repo"))
    subprocess.run(["/usr/bin/env", "git", *words], check=True)
    for number in range(5):
        here.submit({"title": "for nobody"}, id=f"b/{number}", machine="task")
    # Of the same partition, and younger; its repository has nothing to begin from.
    other = next(f"x{n}" for n in range(10_000) if same_partition(f"x{n}", "b"))
    given = {"title": "ours", "repo": str(tmp_path / "repo"), "agent": "true", "max_retries": 0}
    of = here.submit(given, id=f"{other}/ours", machine="task").id

    run(here.dispatch, partition_of("b"))

    assert here.show(of).state == "failed"
    assert here.show(of).data["claimed"] == 1


def same_partition(one: str, other: str) -> bool:
    return partition_of(one) == partition_of(other)
