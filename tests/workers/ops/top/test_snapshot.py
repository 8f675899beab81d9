"""`interlock top` reads each kind of claim, what waits, and draws it so that it fits."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from interlock.kernel.errors import CallError
from interlock.kernel.shortened import shortened
from interlock.systems.runs.client import Runs
from interlock.systems.tasks import overview
from interlock.systems.tasks.claim_row import ClaimRow
from interlock.systems.tasks.claims_table import amount
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.machines.visual_state import VisualState
from interlock.systems.tasks.top import TasksAtOnce
from interlock.workers.client import Client
from interlock.workers.engine import sweeper
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.top.screen import rendered, verdict
from interlock.workers.ops.top.snapshot import Snapshot, SnapshotReader
from interlock.workers.systems import sweeps
from tests.systems.tasks.claims import (
    claimed,
    fire,
    noted,
    scene,
    submitted,
    taken,
    unsupervised,
    used,
)
from tests.systems.threads.threads import bring, client_of

LEASE_S, STALL_S = 600.0, 300.0


@pytest.fixture
def client(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(sweeper, "LATE_S", 100.0)
    found = client_of(server.url, prefix, lease_s=LEASE_S, stall_s=STALL_S, spawn_s=STALL_S)
    for sweep in sweeps():
        found.dispatch.indexes.count_sweep(sweep.name, {})
    return found


def tasks(snapshot: Snapshot) -> TasksAtOnce:
    found: TasksAtOnce = snapshot.parts["tasks"]
    return found


def only_row(client: Client, *, backlog: str = "") -> ClaimRow:
    snapshot = SnapshotReader(client, backlog=backlog).read()
    assert len(tasks(snapshot).lines) == 1, tasks(snapshot).lines
    return tasks(snapshot).lines[0]


def text(snapshot: Snapshot, *, width: int = 200, height: int | None = None) -> str:
    console = Console(width=width, height=height or 100, force_terminal=False)
    with console.capture() as capture:
        console.print(rendered(snapshot, width=width, height=height))
    return capture.get()


def test_a_claim_whose_agent_is_about_to_start_is_spawning(client: Client) -> None:
    claimed(client, "b/one", role="tester")

    row = only_row(client)

    assert (row.look, row.state, row.doing) == (VisualState.SPAWNING, "claimed", "spawning")
    assert (row.agent, row.role, row.task) == ("one~1", "tester", "b/one")


def test_a_running_agent_shows_its_activity_usage_and_last_message(client: Client) -> None:
    claim = claimed(client, "b/one").alive(pid=4711, host="anvil", containment="cgroup")
    claim.turn("tool_started", tool="grep")
    used(client, claim.names.agent, tokens_in=1_200, tokens_out=34, spent=31_000)
    noted(client, claim.names.agent, "progress", message="reading\n\x1b[2Jthe tests", percent=40)
    noted(client, claim.names.agent, "output_seen")

    row = only_row(client)
    noted(client, claim.names.agent, "report_refused", reason="progress needs a message")
    assert only_row(client).said == "a report of it was refused: progress needs a message"

    assert (row.look, row.state, row.doing) == (VisualState.RUNNING, "in_progress", "tool_use")
    assert (row.tokens, row.spent_micro) == (1_234, 31_000)
    assert row.said == "40 % reading [2Jthe tests", "control characters are removed"
    assert (row.pid, row.host, row.containment) == (4711, "anvil", "cgroup")
    assert row.heartbeat_age_s is not None
    assert row.heartbeat_age_s < STALL_S


def test_a_silent_agent_shows_how_long_and_the_time_left_until_its_deadline(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = claimed(client, "b/one", deadline_s=1_200).alive()
    at_ms = client.show(claim.names.agent).since_ms
    timers = client.show("b/one").timers
    left_ms = next(one.due_at for one in timers if one.name == "deadline") - at_ms - 300_000
    monkeypatch.setattr(client.dispatch.views, "now_ms", lambda: at_ms + 300_000)

    row = only_row(client)

    assert row.silent_s == pytest.approx(300, abs=1)
    assert row.left_s == pytest.approx(left_ms / 1_000, abs=1)
    assert (row.left_s or 0) < 901
    shown = text(SnapshotReader(client).read())
    assert "no output for 5 min" in shown
    assert re.search(r"OUT +DUE .*\n.* 5m +(14|15)m ", shown)
    assert " 5m " in text(SnapshotReader(client).read(), width=80), "it fits a small terminal"
    client.pause("b/one")
    client.pause(claim.names.agent)
    assert (only_row(client).silent_s, only_row(client).left_s) == (None, None)


def test_an_agent_whose_last_heartbeat_is_a_lease_ago_is_stalled(client: Client) -> None:
    claimed(client, "b/one").alive().silent()

    row = only_row(client)

    assert row.look is VisualState.STALLED
    assert row.heartbeat_age_s is not None
    assert row.heartbeat_age_s >= LEASE_S - 1


def test_an_agent_without_a_lease_is_unknown(client: Client) -> None:
    unsupervised(client, "b/one")

    assert only_row(client).look is VisualState.UNKNOWN


def test_the_claim_of_an_external_agent_is_shown_by_its_own_lease(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = Tasks(client)
    claims.submit({"title": "one"}, backlog="b", name="one")
    claim = claims.claim("b/one", owner="ann\x1b[1m")

    row = only_row(client)
    assert (row.look, row.doing) == (VisualState.SPAWNING, "not started")
    assert row.agent == "ann [1m"
    later_ms = client.show("b/one").since_ms + 600_000
    with monkeypatch.context() as later:
        later.setattr(client.dispatch.views, "now_ms", lambda: later_ms)
        assert only_row(client).look is VisualState.SPAWNING, "it may take its time"
    claims.report(claim.key, claim.token, "started")
    assert (only_row(client).look, only_row(client).doing) == (VisualState.RUNNING, "running")
    client.dispatch.leases.renew({claim.key: (claim.token, 1, 0)})
    assert only_row(client).look is VisualState.STALLED


def test_an_agent_that_commits_is_shown_as_merging_before_its_task_is_done(client: Client) -> None:
    claimed(client, "b/one").alive()
    noted(client, "b/one", "activity", doing="committing")

    assert (only_row(client).look, only_row(client).doing) == (VisualState.MERGING, "committing")


def test_verification_and_merge_are_shown_after_the_agent_has_ended(client: Client) -> None:
    claim = claimed(client, "b/one").alive()
    noted(client, "b/one", "activity", doing="committing")
    claim.delivered()
    assert client.show(claim.names.agent).state == "dead"

    judged = only_row(client)
    fire(client, taken(client, "b/one"), "verified", {"commit": "0" * 40})
    lease = taken(client, "b/one")
    shown = []
    for activity in ("merging", "pushing"):
        noted(client, "b/one", "activity", doing=activity)
        shown.append((only_row(client).look, only_row(client).doing))
    noted(client, "b/one", "effect_failed", detail="main has changes")
    client.dispatch.leases.release(lease, delay_ms=60_000, counted=True)

    assert (judged.look, judged.state, judged.doing) == ("running", "done", "verifying")
    assert shown == [("merging", "merging"), ("merging", "pushing")]
    assert only_row(client).said == "main has changes", "the last error of the merge"


def test_an_idle_agent_and_the_task_that_it_delivered_are_two_rows(client: Client) -> None:
    claim = claimed(client, "b/one").alive(pid=4712)
    claim.turn("verify_requested")
    claim.task_fires("completed", {"summary": "done"})
    claim.agent_fires("task_finished")

    looks = [(row.look, row.agent) for row in tasks(SnapshotReader(client).read()).lines]

    assert looks == [("running", "one~1"), ("idle", "one~1")]


def test_a_dead_agent_is_shown_for_a_minute_and_says_why(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = claimed(client, "b/one").alive()
    claim.agent_fires("ended", {"exit_code": 3})
    claim.task_fires("failed", {"reason": "no luck"})

    row = only_row(client)

    assert (row.look, row.state) == (VisualState.DEAD, "failed")
    assert row.said == "exit code 3"
    monkeypatch.setattr("interlock.systems.tasks.overview.DEAD_SHOWN_MS", 0)
    assert tasks(SnapshotReader(client).read()).lines == ()


def test_an_agent_that_ended_well_is_not_counted_as_dead_and_its_task_asks_a_person(
    client: Client,
) -> None:
    claimed(client, "b/good", needs_approval=True).alive().delivered()
    fire(client, taken(client, "b/good"), "verified", {"commit": "0" * 40})
    bad = claimed(client, "b/bad").alive()
    bad.agent_fires("ended", {"exit_code": 3, "abort": "unknown"})
    bad.task_fires("failed", {"reason": "no luck"})

    snapshot = SnapshotReader(client).read()

    rows = {row.task: row for row in tasks(snapshot).lines}
    assert (rows["b/good"].state, rows["b/good"].doing) == ("pending_approval", "asks you")
    assert [rows[name].succeeded for name in ("b/good", "b/bad")] == [True, False]
    assert "agents   ○ 1 dead  ○ 1 ended well" in text(snapshot)


def test_each_look_is_counted_and_claims_that_need_attention_come_first(client: Client) -> None:
    scene(client)

    snapshot = SnapshotReader(client).read()

    assert tasks(snapshot).looks == {str(look): 1 for look in VisualState}
    assert [row.look for row in tasks(snapshot).lines][:3] == ["stalled", "unknown", "merging"]
    assert tasks(snapshot).lines[-1].look == "dead"
    assert {state: n for state, n in tasks(snapshot).tasks.items() if n} == {
        "open": 2,
        "claimed": 1,
        "in_progress": 4,
        "done": 1,
        "failed": 1,
    }
    assert (snapshot.asks, snapshot.asked[0].id, snapshot.asked[0].state) == (
        1,
        "b/crashed",
        "failed",
    )
    assert [(record.id, record.why) for record in tasks(snapshot).starved] == [
        ("b/never", "it depends on gone, which does not exist")
    ]
    assert not tasks(snapshot).starved_partial, "all open tasks were looked at"
    oldest = tasks(snapshot).oldest
    assert oldest is not None
    assert oldest.id == "b/first"
    assert snapshot.queues["assignment"] > 0, "no worker serves this queue"
    assert str(verdict(snapshot)) == "1 stalled"
    assert tasks(snapshot).more == 0


def test_failed_tasks_that_are_tried_again_are_shown_with_the_time_of_their_next_try(
    client: Client,
) -> None:
    for name, delay_s in (("b/soon", 100), ("b/later", 300)):
        claim = claimed(client, name, retry_delay_s=delay_s).alive()
        claim.task_fires("failed", {"reason": "no luck"})
    claimed(client, "b/never").alive().task_fires("failed", {"reason": "no", "final": True})

    snapshot = SnapshotReader(client).read()

    assert [task.id for task in tasks(snapshot).next_tries] == ["b/soon", "b/later"]
    assert tasks(snapshot).next_tries[0].in_s == pytest.approx(100, abs=60)
    assert "retries  b/soon in " in text(snapshot)
    assert "(0 of 3 used)" in text(snapshot)
    submitted(client, "other/one")
    assert "retries" not in text(SnapshotReader(client, backlog="other").read())


def test_a_damaged_record_hides_no_other(client: Client) -> None:
    claims = [claimed(client, f"b/{name}").alive() for name in ("good", "task", "agent", "turn")]
    client.submit({"title": "open"}, id="b/open", machine="task")
    names = claims[2].names, claims[3].names
    for record_id in ("b/task", names[0].agent, names[1].turn, "b/open"):
        client.dispatch.client.hset(client.dispatch.keys.record(record_id), "data", "{")

    snapshot = SnapshotReader(client).read()

    assert {row.task for row in tasks(snapshot).lines} >= {"b/good", "b/agent", "b/turn"}
    assert tasks(snapshot).tasks["in_progress"] == len(claims), "it is counted, and cannot be read"
    assert tasks(snapshot).starved_partial


def test_a_snapshot_of_one_backlog_has_only_its_records(client: Client) -> None:
    scene(client)
    claimed(client, "other/one").alive()
    everything, filtered = SnapshotReader(client).read(), SnapshotReader(client, backlog="b").read()
    other = SnapshotReader(client, backlog="other").read()

    assert len(tasks(everything).lines) == len(tasks(filtered).lines) + 1
    assert (tasks(filtered).tasks["in_progress"], tasks(everything).tasks["in_progress"]) == (4, 5)
    assert [row.task for row in tasks(other).lines] == ["other/one"]
    assert (other.asks, tasks(other).starved, tasks(other).oldest) == (0, (), None)
    assert "starved  no open task is starved" in text(other)
    unsure = replace(other, parts={"tasks": replace(tasks(other), starved_partial=True)})
    assert "starved  none found  not all open tasks were looked at" in text(unsure)
    with pytest.raises(CallError, match="no backlog 'nothing'; there are: b, other"):
        SnapshotReader(client, backlog="nothing")


def test_claims_beyond_the_limit_of_rows_are_counted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_max = 20
    monkeypatch.setattr(overview, "ROWS_MAX", rows_max)
    claims = Tasks(client)
    for number in range(rows_max + 5):
        claims.submit({"title": "x"}, backlog=f"b{number % 7}", name=f"n{number}")
        claims.claim(f"b{number % 7}/n{number}", owner="ann")

    snapshot = SnapshotReader(client).read()

    assert (len(tasks(snapshot).lines), tasks(snapshot).more) == (rows_max, 5)
    assert "at least 5 more claims are not shown" in text(snapshot)
    assert f"{rows_max - 9} more below" in text(snapshot, width=80, height=20)


def test_sweeps_that_nobody_runs_are_named_before_all_else(client: Client) -> None:
    submitted(client, "b/one")
    dispatch = client.dispatch
    long_ago = dispatch.views.now_ms() - 120_000
    dispatch.client.hset(dispatch.keys.ended_sweeps(), "orphans", long_ago)

    snapshot = SnapshotReader(client).read()

    assert str(verdict(snapshot)) == "sweeps are late"
    assert "orphans ran 2 min ago  start beat and a worker of the sweeps" in text(snapshot)


def test_a_problem_that_doctor_names_is_shown_before_work_that_flows(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(client, "b/one")
    bring(client, "one", "awaiting_inference")
    effect = client.dispatch.effect("thread", "inference")
    [entry] = client.show("one").entries
    client.dispatch.leases.claim(entry.key("one"), effect, nonce="a", holder="x", schema=9)
    assert "problem" not in text(SnapshotReader(client).read())

    now_ms = client.dispatch.views.now_ms() + effect.lease_ms * 2 // 3
    monkeypatch.setattr(client.dispatch.views, "now_ms", lambda: now_ms)
    snapshot = SnapshotReader(client).read()

    assert str(verdict(replace(snapshot, late_sweeps={}))) == "2 problems"
    shown = " ".join(text(snapshot, width=80).split())
    assert "the worker of thread.inference of one has given no sign for" in shown
    assert "another one begins attempt 2 of 4" in shown
    [of_backlog] = SnapshotReader(client, backlog="b").read().problems
    assert of_backlog.startswith("no worker has begun task.assignment of 1 record, that of b/one")


def test_an_empty_store_has_nothing_to_do(client: Client) -> None:
    snapshot = SnapshotReader(client).read()

    assert str(verdict(snapshot)) == "nothing to do"
    submitted(client, "b/one")
    assert str(verdict(SnapshotReader(client).read())) == "tasks are open, but no agent works"
    assert "no task is claimed" in text(snapshot)


def test_records_of_other_machines_are_counted_by_state(client: Client, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan: one\ncodons: [{codon: only, command: 'true'}]\n")
    Runs(client).start(plan, tmp_path)
    client.submit(
        {"inciting": {"title": "one", "text": "two"}, "policy": "plan_then_review"},
        machine="thread",
    )

    snapshot = SnapshotReader(client).read()

    assert snapshot.others["run"] == {"running": 1}
    assert sum(snapshot.others["thread"].values()) == 1
    assert "run      1 ▶ running" in text(snapshot)
    assert verdict(snapshot).plain == "work flows"


def test_effects_of_other_machines_that_are_at_work_are_named_with_their_age(
    client: Client,
) -> None:
    request = {"inciting": {"title": "one", "text": "two"}, "policy": "plan_then_review"}
    thread = client.submit(request, machine="thread")
    (entry,) = client.show(thread.id).entries
    effect = client.dispatch.effect("thread", entry.name)
    client.dispatch.leases.claim(
        entry.key(thread.id),
        effect,
        nonce="n",
        holder="here",
        schema=client.machines["thread"].schema,
    )

    snapshot = SnapshotReader(client).read()

    assert [one.record_id for one in snapshot.working] == [thread.id]
    assert re.search(rf"at work +{thread.id} {entry.name} \d", text(snapshot))


def test_without_coding_tasks_nothing_is_said_of_them(client: Client) -> None:
    client.submit(
        {"inciting": {"title": "one", "text": "two"}, "policy": "plan_then_review"},
        machine="thread",
    )
    drawn = text(SnapshotReader(client).read())

    assert not {"agents", "tasks", "starved", "oldest"} & {
        line.split(" ")[0] for line in drawn.splitlines()
    }
    assert "no task is claimed" not in drawn
    submitted(client, "b/one")
    assert "tasks    1 ○ waiting for an agent" in text(SnapshotReader(client).read())


def test_the_name_of_a_machine_that_is_long_stands_apart_from_its_numbers(client: Client) -> None:
    snapshot = replace(
        SnapshotReader(client).read(),
        others={"documents": {"done": 2}, "document_summarise": {"done": 1, "failed": 3}},
    )

    assert "documents   2 done" in text(snapshot)
    assert "document_summarise   1 done  3 failed" in text(snapshot)


def test_no_row_is_wider_than_the_terminal(client: Client) -> None:
    scene(client)
    claimed(client, "a-long-backlog/" + "with-a-very-long-name" * 3, role="role" * 8).alive()
    snapshot = SnapshotReader(client).read()

    for width in (40, 60, 79, 80, 81, 119, 120, 160, 179, 180, 240):
        rows = text(snapshot, width=width, height=40).splitlines()
        assert max(map(cell_len, rows)) <= width
        assert sum(row.startswith("○") for row in rows) == 1, f"each claim is one row of {width}"


def test_numbers_and_names_fit_their_columns() -> None:
    numbers = (0, 999, 1_000, 12_345, 99_960, 1_234_567, 10**9)
    assert [amount(value) for value in numbers] == [
        "0",
        "999",
        "1.0k",
        "12.3k",
        "100k",
        "1.2M",
        "1.0G",
    ]
    assert shortened("make-the-tests-pass-a1b2c3~1", 12) == "make-t…2c3~1"
