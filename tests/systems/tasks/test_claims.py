"""Claims: their deadlines, who may claim and give back, and the lock on a target in a merge."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.git.errors import RefusedError
from interlock.git.repository import Repository
from interlock.git.worktree import add_worktree
from interlock.kernel.errors import CallError, GuardRefusedError, HeldError
from interlock.kernel.record import partition_of
from interlock.kernel.store.leases import Lease
from interlock.systems.tasks import assignment, claims
from interlock.systems.tasks.agents import Agents
from interlock.systems.tasks.assignment import assign
from interlock.systems.tasks.claim_names import ClaimNames, claim_names
from interlock.systems.tasks.claims import claim, prepare_claim
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.sweeps.assignments import run
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.git.scene import make_repository
from tests.sweeping import sweeping
from tests.systems.tasks.claims import Claimed, claimed, fire, same_partition, taken
from tests.systems.threads.threads import client_of

FAILED = "effect_failed"


@pytest.fixture
def client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def submitted(client: Client, name: str, **more: Any) -> str:
    payload = {"title": name, "repo": "/nowhere", "agent": "make", **more}
    return str(client.submit(payload, id=f"b/{name}", machine="task").id)


def deadline_s(client: Client, task_id: str) -> float:
    """Claim and start a task, and return the deadline that the store keeps for it."""
    lease = claim(client.records, client.show(task_id), agent="b/agent~x")
    assert isinstance(lease, Lease)
    fire(client, lease, "started")
    record = client.show(task_id)
    due_at = next(timer.due_at for timer in record.timers if timer.name == "deadline")
    return (due_at - record.since_ms) / 1_000


def closed(client: Client, name: str, took_s: float, role: str, backlog: str = "b") -> None:
    """Close a task of a role after `took_s` seconds."""
    task = f"{backlog}/{name}"
    work = claimed(client, task, role=role).alive()
    done = {"summary": "done", "took_s": took_s}
    work.task_fires("completed", done)
    fire(client, taken(client, task), "verified")
    merge = taken(client, task)
    for trigger in ("merge_begun", "merged"):
        fire(client, merge, trigger)


def test_the_deadline_in_the_store_moves_with_the_history_of_the_role(
    client: Client,
) -> None:
    first = deadline_s(client, submitted(client, "first", role="coder"))

    closed(client, "long", 4_000, "coder")
    closed(client, "short", 2_000, "coder")
    closed(client, "other", 7_000, "writer")

    second = deadline_s(client, submitted(client, "second", role="coder"))
    small = deadline_s(client, submitted(client, "small", role="coder", scope="small"))
    assert (first, second, small) == (1_800, 4_500, 4_500)
    reasons = " ".join(client.show("b/second").data["claim"]["deadline_reasons"])
    assert "3000" in reasons.replace(",", "")


def test_a_fault_in_the_computation_of_a_deadline_is_not_taken_for_a_refusal(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: Any) -> None:
        raise CallError("a fault")

    monkeypatch.setattr(claims, "deadline_of", fault)
    task = client.show(submitted(client, "one"))

    with pytest.raises(CallError, match="a fault"):
        claim(client.records, task, agent="b/agent~x")


def test_a_damaged_task_is_logged_and_the_one_behind_it_is_claimed(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    # Where both come in the same millisecond, they are taken in the order of their names.
    for name in ("damaged", "whole"):
        client.submit({"title": name}, id=f"b/{name}", machine="task")
    client.dispatch.client.hset(client.dispatch.keys.record("b/damaged"), "data", "{")

    claimed_by_ann = Tasks(client).claim_next("b", owner="ann")

    assert claimed_by_ann is not None
    assert client.show("b/whole").data["claim"]["owner"] == "ann"
    assert [line.getMessage() for line in caplog.records] == ["b/damaged cannot be claimed"]
    assert "the record 'b/damaged' cannot be read" in caplog.text


def test_a_deadline_that_the_task_sets_is_explained_as_such(client: Client) -> None:
    assert deadline_s(client, submitted(client, "short", deadline_s=20)) == 20

    claim = client.show("b/short").data["claim"]
    assert (claim["deadline_s"], claim["deadline_reasons"]) == (20, ["set by the task"])


def test_another_backlog_does_not_hide_the_history_of_a_role(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "HISTORY_MAX", 2)
    closed(client, "ours", 4_000, "coder")
    for name in ("one", "two"):
        closed(client, name, 2_000, "coder", same_partition("b"))

    assert deadline_s(client, submitted(client, "next", role="coder")) == 6_000


def test_a_prepared_claim_has_a_worktree_and_no_process_yet(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    client = client_of(server.url, prefix, worktrees=tmp_path / "trees")
    repo = str(make_repository(tmp_path / "repo"))
    lease = claim(client.records, client.show(submitted(client, "one", repo=repo)), agent="b/a~x")
    assert lease is not None

    prepared = prepare_claim(client.records, lease, agent="b/a~x")

    assert Path(prepared.worktree).is_dir()
    assert client.show(prepared.turn).state == "claiming"


MAIN, SIDE = (f"merge into {target} of '/nowhere'" for target in ("main", "side"))


def merging(client: Client, name: str, target: str = "main", **fields: Any) -> Claimed:
    work = claimed(client, f"b/{name}", target=target, **fields).alive()
    work.task_fires("completed", {"summary": "done"})
    fire(client, taken(client, f"b/{name}"), "verified")
    return work


def test_a_claim_never_works_on_in_what_an_earlier_task_of_its_name_has_left(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    client = client_of(server.url, prefix, worktrees=tmp_path / "trees")
    repository = Repository.open(make_repository(tmp_path / "repository"))
    names = ClaimNames("b/one", 1)
    folder = names.worktree(client.settings)
    add_worktree(repository, branch=names.branch, folder=folder, base="main")
    submitted(client, "one", repo=str(repository.root), target="main")
    lease = claim(client.records, client.show("b/one"), agent=names.agent)
    assert isinstance(lease, Lease)

    with pytest.raises(RefusedError, match="belongs to the worktree"):
        prepare_claim(client.records, lease, agent=names.agent)


def test_only_one_task_of_a_backlog_merges_into_a_target_at_a_time(
    client: Client,
) -> None:
    for name, target in (("one", "main"), ("two", "main"), ("aside", "side")):
        merging(client, name, target)
    one, two, aside = (taken(client, f"b/{name}") for name in ("one", "two", "aside"))
    fire(client, one, "merge_begun")

    with pytest.raises(HeldError, match="b/one holds what it needs"):
        fire(client, two, "merge_begun")
    fire(client, aside, "merge_begun")

    assert client.dispatch.views.holds("b") == {MAIN: "b/one", SIDE: "b/aside"}
    fire(client, one, "merged")
    fire(client, two, "merge_begun")
    assert client.dispatch.views.holds("b")[MAIN] == "b/two"


@pytest.mark.parametrize("field", ["repo", "host"])
def test_tasks_of_two_repositories_merge_at_the_same_time(client: Client, field: str) -> None:
    here = merging(client, "here")
    there = merging(client, "there", **{field: "/elsewhere"})
    for work in (here, there):
        fire(client, taken(client, work.task.record.id), "merge_begun")

    assert sorted(client.dispatch.views.holds("b").values()) == ["b/here", "b/there"]


def test_a_merge_that_gives_its_target_back_lets_the_next_one_in_and_keeps_its_attempts(
    client: Client,
) -> None:
    for name in ("one", "two"):
        merging(client, name)
    one, two = (taken(client, f"b/{name}") for name in ("one", "two"))
    fire(client, one, "merge_begun")
    before = client.show("b/one")

    fire(client, one, "target_freed")

    after = client.show("b/one")
    assert (after.entries, after.timers) == (before.entries, before.timers)
    fire(client, two, "merge_begun")
    assert client.dispatch.views.holds("b") == {MAIN: "b/two"}


def test_only_tasks_submitted_under_the_setting_fail_as_a_stage(
    server: EmbeddedServer, prefix: str
) -> None:
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


def test_an_untrusted_agent_may_not_give_its_task_back(client: Client) -> None:
    tasks = Tasks(client)
    tasks.submit({"title": "one"}, backlog="b", name="one")
    claim_of_ann = tasks.claim("b/one", owner="ann")

    for _ in range(2):
        with pytest.raises(GuardRefusedError, match="released needs the trust level trusted"):
            tasks.report(claim_of_ann.key, claim_of_ann.token, "released")
    before = client.show("b/one")
    agents = Agents(client)
    for _ in range(2):
        agents.promote(before.data["claim"]["identity"])
    tasks.report(claim_of_ann.key, claim_of_ann.token, "released")

    assert (before.state, before.version) == ("claimed", 2)
    notes = [line for line in client.history("b/one") if getattr(line, "kind", "") == "refused"]
    assert len(notes) == 1, "a repeated try is noted once for a claim"
    assert client.show("b/one").state == "open"


def test_an_agent_that_cannot_be_started_is_dead_and_says_why(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    client = client_of(server.url, prefix, agents_max=1, home=tmp_path / "home")
    submitted(client, "one", repo=str(tmp_path), max_retries=0)

    assert assign(client.records, "b") == 1

    agent, task = client.show("b/agent~one~1"), client.show("b/one")
    assert (agent.state, agent.data["end"]["code"]) == ("dead", "spawn_error")
    assert agent.data["end"]["reason"] == task.data["failure"]["reason"]
    assert "is not a git repository" in task.data["failure"]["reason"]


def test_a_backlog_that_no_agent_can_work_on_does_not_hide_another(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    client = client_of(
        server.url,
        prefix,
        sweep_batch=3,
        agents_max=1,
        home=tmp_path / "home",
    )
    arguments = ("init", "-q", "-b", "main", str(tmp_path / "repo"))
    subprocess.run(["/usr/bin/env", "git", *arguments], check=True)
    for number in range(5):
        client.submit({"title": "for nobody"}, id=f"b/{number}", machine="task")
    # Many more, of which only the index knows: to create them takes ten seconds.
    index = client.dispatch.keys.state_index("b", "task", "open")
    client.dispatch.client.zadd(index, {f"b/{number}": 1 for number in range(5, 2_500)})
    # Of the same partition, and younger; its repository has no commit, so the claim fails.
    payload = {"title": "ours", "repo": str(tmp_path / "repo"), "agent": "true", "max_retries": 0}
    task_id = client.submit(payload, id=f"{same_partition('b')}/ours", machine="task").id

    run(sweeping(client.dispatch), partition_of("b"))

    assert client.show(task_id).state == "failed"
    assert client.show(task_id).data["claimed"] == 1


@pytest.mark.parametrize(("told_s", "kept_s"), [(3_000, 60), (5, 5)])
def test_an_agent_cannot_report_more_time_than_the_store_saw(
    client: Client, monkeypatch: pytest.MonkeyPatch, told_s: float, kept_s: float
) -> None:
    tasks = Tasks(client)
    tasks.submit({"title": "one"}, backlog="b", name="one")
    claim = tasks.claim("b/one", owner="ann")
    tasks.report(claim.key, claim.token, "started")
    later = client.show("b/one").since_ms + 60_000
    monkeypatch.setattr(client.dispatch.views, "now_ms", lambda: later)

    done = tasks.report(claim.key, claim.token, "completed", {"summary": "x", "took_s": told_s})

    assert done.data["took_s"] == kept_s


@pytest.mark.parametrize(("deadline", "limit"), [(60, 180), (86_400, 86_400)])
def test_the_silence_of_a_plain_command_is_ended_by_its_deadline_first(
    client: Client, deadline: int, limit: int
) -> None:
    record = client.show(submitted(client, "one", deadline_s=deadline))
    lease = claim(client.records, record, agent="b/agent~one~1")
    assert lease is not None

    agent = assignment._create_agent(client.records, lease, claim_names(lease.record))

    assert agent.record.data["progress_limit_s"] == limit
