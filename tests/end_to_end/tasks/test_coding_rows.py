"""Every published row of task, agent and turn is fired in the running system, by its producer.

One deployment runs all the scenes; what their logs say is compared with what is written down here.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from interlock.kernel.event import Event
from interlock.kernel.machines import MACHINES
from interlock.kernel.published_event import LifecycleEvent, LifecycleEvents
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.workers.tasks.agents import Agents
from interlock.workers.tasks.client import Claim, Tasks
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.engine.test_stranding import due
from tests.end_to_end.tasks.coding import (
    AGENTS,
    FIXES,
    git,
    kill_keeper,
    make_repository,
    reaches,
    submit,
    task,
)
from tests.end_to_end.tasks.test_agents import AGENT, DONE, steps

Row = tuple[str, str, str, str]
# fmt: off
PRODUCERS: dict[Row, str] = {  # machine, from, trigger, to: who fires it here
    ("task", "planned", "approved", "open"): "person",
    ("task", "planned", "rejected", "cancelled"): "person",
    ("task", "open", "claimed", "claimed"): "assignment",
    ("task", "open", "split", "waiting_for_subtasks"): "person",
    ("task", "open", "cancelled", "cancelled"): "person",
    ("task", "claimed", "started", "in_progress"): "agent",
    ("task", "claimed", "released", "open"): "person",
    ("task", "claimed", "completed", "done"): "agent",
    ("task", "claimed", "failed", "failed"): "agent",
    ("task", "claimed", "cancelled", "cancelled"): "person",
    ("task", "claimed", "split", "waiting_for_subtasks"): "agent",
    ("task", "claimed", "blocked", "blocked"): "agent",
    ("task", "in_progress", "completed", "done"): "agent",
    ("task", "in_progress", "failed", "failed"): "agent",
    ("task", "in_progress", "blocked", "blocked"): "agent",
    ("task", "in_progress", "split", "waiting_for_subtasks"): "agent",
    ("task", "in_progress", "requeued", "open"): "person",
    ("task", "in_progress", "cancelled", "cancelled"): "person",
    ("task", "in_progress", "orphaned", "orphaned"): "orphans",
    ("task", "orphaned", "recovered", "done"): "recovery",
    ("task", "orphaned", "unrecoverable", "failed"): "recovery",
    ("task", "orphaned", "requeued", "open"): "recovery",
    ("task", "blocked", "unblocked", "open"): "aftermath",
    ("task", "blocked", "cancelled", "cancelled"): "person",
    ("task", "waiting_for_subtasks", "subtasks_ended", "done"): "cascade",
    ("task", "waiting_for_subtasks", "timeout", "blocked"): "stalls",
    ("task", "waiting_for_subtasks", "cancelled", "cancelled"): "person",
    ("task", "failed", "retried", "open"): "stalls",
    ("task", "done", "merged", "closed"): "merge",
    ("task", "done", "verification_rejected", "failed"): "verification",
    ("agent", "starting", "confirmed_alive", "working"): "supervision",
    ("agent", "starting", "spawn_failed", "dead"): "supervision",
    ("agent", "working", "task_finished", "idle"): "supervision",
    ("agent", "working", "ended", "dead"): "supervision",
    ("agent", "idle", "task_assigned", "working"): "supervision",
    ("agent", "idle", "recycled", "dead"): "stalls",
    ("turn", "idle", "task_claimed", "claiming"): "assignment",
    ("turn", "claiming", "agent_spawned", "spawning"): "assignment",
    ("turn", "claiming", "task_failed", "failed"): "assignment",
    ("turn", "spawning", "agent_spawned", "running"): "supervision",
    ("turn", "spawning", "task_failed", "failed"): "supervision",
    ("turn", "running", "tool_started", "tool_use"): "supervision",
    ("turn", "running", "compact_needed", "compacting"): "supervision",
    ("turn", "running", "verify_requested", "verifying"): "supervision",
    ("turn", "running", "task_failed", "failed"): "supervision",
    ("turn", "tool_use", "tool_completed", "running"): "supervision",
    ("turn", "tool_use", "task_failed", "failed"): "supervision",
    ("turn", "compacting", "verify_requested", "running"): "supervision",
    ("turn", "compacting", "task_failed", "failed"): "supervision",
    ("turn", "verifying", "task_completed", "completing"): "aftermath",
    ("turn", "verifying", "compact_needed", "running"): "supervision",
    ("turn", "verifying", "task_failed", "failed"): "aftermath",
    ("turn", "completing", "agent_reaped", "reaped"): "reaping",
    ("turn", "failed", "agent_reaped", "reaped"): "reaping",
}
# fmt: on
CODING = ("task", "agent", "turn")
NEVER = {"wait": "/nowhere"}
ENDS: dict[str, AbortReason] = {  # how a command ends, and what that is recorded as
    "exit 3": AbortReason.UNKNOWN,
    "exit 124": AbortReason.TIMEOUT,
    "exit 126": AbortReason.PERMISSION_DENIED,
    "kill -TERM $$; sleep 9": AbortReason.SHUTDOWN_SIGNAL,
    "kill -KILL $$": AbortReason.OOM,
}
READY = """echo '{"type": "ready"}' >&$INTERLOCK_REPORT_FD"""
SAID = (  # what an agent itself says of why it cannot go on
    TransitionReason.PROMPT_TOO_LONG,
    TransitionReason.MAX_OUTPUT_TOKENS,
    TransitionReason.MAX_TURNS,
    TransitionReason.PROVIDER_413,
    TransitionReason.PROVIDER_529,
)


def test_every_published_row_is_written_down_here() -> None:
    rows = {
        (name, str(row.source), str(row.trigger), str(row.target)): row.by
        for name in CODING
        for row in MACHINES[name].transitions
        if not row.ours
    }

    assert set(rows) == set(PRODUCERS)
    assert len(rows) == 54
    assert all(PRODUCERS[row] in by for row, by in rows.items())


class Scenes:
    """What is played in one deployment. A scene submits; what it waits for comes with `settle`."""

    def __init__(
        self, deployment: Deployment, repo: Path, command: str, client: redis.Redis
    ) -> None:
        self.deployment, self.repo, self.command, self.redis = deployment, repo, command, client
        self.tasks, self.agents = Tasks(deployment.client), Agents(deployment.client)
        self.ends: dict[str, str] = {}

    def plays(self, name: str, end: str, *todo: dict[str, Any], **more: Any) -> str:
        """Let a session take these steps; it is to end in a state."""
        more = {"idle_limit_s": 5, **more}
        of = submit(self.deployment, name, steps(self.repo, self.command, *todo, **more))
        self.ends[of] = end
        return of

    def runs(self, name: str, end: str, command: str, **more: Any) -> str:
        """Let a plain command run; it is to end in a state."""
        more = {"max_retries": 0, "signals": [], **more}
        of = submit(self.deployment, name, task(self.repo, command, **more))
        self.ends[of] = end
        return of

    def others(self, name: str, *, started: bool = True) -> Claim:
        """Let an agent of others claim a task, and begin it."""
        self.tasks.submit({"title": name, "role": "other"}, backlog="b", name=name)
        claim = self.tasks.claim(f"b/{name}", owner="ann", role="other")
        if started:
            self.tasks.report(claim.key, claim.token, "started")
        return claim

    def settle(self) -> None:
        """Wait until every task that was begun stands where it is to end."""
        for of, end in self.ends.items():
            reaches(self.deployment, of, end, within_s=120)

    def events(self) -> Iterator[tuple[str, Event]]:
        """Yield every event of the backlog with its machine."""
        views = self.deployment.client.dispatch.views
        for name in CODING:
            for stage in MACHINES[name].stages:
                for one in views.list_in_state(MACHINES[name], str(stage.state), 10_000):
                    for event in self.deployment.events(one.id):
                        yield name, event


@pytest.fixture
def scenes(
    new_deployment: NewDeployment, tmp_path: Path, client: redis.Redis
) -> Callable[[], Scenes]:
    """Return what opens a deployment for scenes."""

    def made() -> Scenes:
        repo = make_repository(tmp_path / "repo")
        program = tmp_path / "agent.py"
        program.write_text(AGENT)
        command = shlex.join([sys.executable, str(program)])
        deployment = new_deployment(**AGENTS | {"INTERLOCK_AGENTS_MAX": "5"})
        for name in ("agent", "ann"):
            role, of = ("other", "") if name == "ann" else ("any", command)
            who = Agents(deployment.client).known("b", name=name, role=role, command=of)
            for _ in range(3):
                Agents(deployment.client).promote(who)
        return Scenes(deployment, repo, command, client)

    return made


def people_and_others(play: Scenes) -> None:
    """Play what persons and agents of others do; no agent of ours is needed."""
    client, tasks = play.deployment.client, play.tasks
    for name, choice in (("good", "approve"), ("bad", "reject")):
        of = tasks.submit({"title": name, "plan": "p", "role": "x"}, backlog="b", name=name).id
        client.decide(of, choice, proposal=client.show(of).proposal)
    whole = tasks.submit({"title": "whole", "role": "x"}, backlog="b", name="whole").id
    client.fire(whole, "split", {"subtasks": [{"title": "part", "role": "x"}]})
    late = tasks.submit({"title": "late", "role": "x"}, backlog="b", name="late").id
    client.fire(late, "split", {"subtasks": [{"title": "part", "role": "x"}]})
    due(play.deployment.client.dispatch, play.redis, late, "wait")
    reaches(play.deployment, late, "blocked")
    client.cancel(late)
    client.cancel(whole)
    never = tasks.submit({"title": "never", "role": "x"}, backlog="b", name="never").id
    client.cancel(never)
    for name, trigger, started in (
        ("released", "released", False),
        ("stopped", "cancelled", False),
        ("requeued", "requeued", True),
        ("ended", "cancelled", True),
    ):
        play.others(name, started=started)
        client.fire(f"b/{name}", trigger, {"reason": "so it is"})
    trivial = play.others("trivial", started=False)
    tasks.report(trivial.key, trivial.token, "completed", {"summary": "it was nothing"})
    parted = play.others("parted", started=False)
    tasks.report(parted.key, parted.token, "split", {"subtasks": [{"title": "x", "role": "x"}]})
    waits = play.others("waits", started=False)
    tasks.report(waits.key, waits.token, "blocked", {"on": "trivial", "kind": "task"})
    # Nobody renews this claim.
    play.others("left")


def agents_of_ours(play: Scenes) -> None:
    """Play what agents do that this deployment runs."""
    tool = {"type": "tool_started", "tool": "edit", "id": "1"}
    used = {"type": "tool_completed", "tool": "edit", "id": "1", "success": True}
    full = {"type": "usage", "context_used": 95, "context_size": 100}
    again = {"type": "compacted"}
    compact = {"type": "compact_needed"}
    slow = {"stop_hooks": ["sleep 1"]}
    play.plays("tools", "closed", tool, used, full, again, {"write": "tools"}, DONE)
    play.plays("grown", "closed", {"write": "grown"}, DONE, compact, idle_limit_s=3, **slow)
    part = {"title": "[]", "text": json.dumps([{"write": "part"}, DONE])}
    play.plays("split", "closed", {"type": "split", "subtasks": [part]})
    play.plays("blocks", "blocked", {"type": "blocked", "text": "the key of the safe"})
    play.plays("in-tool", "failed", tool, {"type": "failed", "error": "no such file"})
    play.plays("rests", "closed", {"write": "rests"}, DONE)
    unfit = {"type": "failed", "error": "no", "reason": "compaction_failed"}
    play.plays("narrow", "failed", compact, unfit)
    for number, why in enumerate(SAID):
        play.plays(why, "failed", {"type": "failed", "error": "no", "reason": why})
        play.plays(f"between{number}", "closed", {"write": f"between{number}"}, DONE)
    bash = {"type": "tool_completed", "tool": "bash", "id": "1", "success": False}
    play.plays("bash", "failed", tool, bash, NEVER, tool_failures_max=1)
    mark = play.repo.parent / "once"
    flaky = f"test -e {mark} || {{ touch {mark}; exit 1; }}; sleep 1.2; {FIXES}"
    play.runs("flaky", "closed", flaky, max_retries=1, retry_delay_s=1)
    play.runs("wrong", "failed", "sleep 1.2", signals=[{"type": "path_exists", "value": "no"}])
    play.runs("blocked-by-hook", "failed", "true", stop_hooks=["exit 1"])
    for number, how in enumerate(ENDS):
        play.runs(f"ends{number}", "failed", f"{READY}; {how}")
    play.runs("hangs", "failed", "sleep 600", deadline_s=3)
    play.runs("fast", "failed", "exit 3")


def lost(play: Scenes) -> None:
    """Play agents whose keepers are killed: with good work, with work beyond theirs, with none."""
    wait = "touch {0}/at-{1}; sleep 600"
    folder = play.repo.parent
    good = [{"type": "file_contains", "value": "found :: found"}]
    work = {
        "found": f"echo found > found; {wait.format(folder, 'found')}",
        "beyond": f"echo x > beyond; {wait.format(folder, 'beyond')}",
    }
    play.runs("found", "closed", work["found"], signals=good)
    play.runs("beyond", "failed", work["beyond"], owned_files=["answer.txt"])
    for name in work:
        play.deployment.sees((folder / f"at-{name}").exists, what=f"{name} is at work", within_s=60)
        reaches(play.deployment, f"b/{name}", "in_progress")
        kill_keeper(f"{name}~1")


def chained(play: Scenes) -> None:
    """Play an abort that reaches siblings, and one that reaches what is below."""
    folder = play.repo.parent
    raised = {"type": "abort", "scope": "sibling", "reason": "it is the same for all of us"}
    told = [[{"wait": str(folder / "go")}, raised, {"write": "mine"}, DONE], [NEVER]]
    parts = [{"title": "[]", "text": json.dumps(one)} for one in told]
    whole = play.plays("chain", "cancelled", {"type": "split", "subtasks": parts}, {"exit": 0})
    record = reaches(play.deployment, whole, "waiting_for_subtasks")
    children = [f"{whole}/{record.version}.{number}" for number in (1, 2)]
    for child in children:
        reaches(play.deployment, child, "in_progress")
    (folder / "go").touch()
    reaches(play.deployment, children[1], "failed")
    play.deployment.client.cancel(whole)
    endless = {"type": "split", "subtasks": [parts[1], parts[1]]}
    above = play.plays("above", "cancelled", endless, NEVER)
    record = reaches(play.deployment, above, "waiting_for_subtasks")
    # The session takes up one of the two itself.
    for number in (1, 2):
        reaches(play.deployment, f"{above}/{record.version}.{number}", "in_progress")
    play.agents.abort("b/agent~above~1", reason="enough")
    reaches(play.deployment, f"{above}/{record.version}.1", "failed")
    play.deployment.client.cancel(above)


def unborn(play: Scenes) -> None:
    """Play a task whose branch is gone when it is claimed."""
    git(play.repo, "branch", "side")
    play.runs("unborn", "failed", "true", target="side")
    git(play.repo, "branch", "-D", "side")


@pytest.mark.proof
@pytest.mark.timeout(400)
def test_every_row_and_every_reason_has_its_producer(scenes: Callable[[], Scenes]) -> None:
    play = scenes()
    unborn(play)
    play.deployment.full(workers=2)
    people_and_others(play)
    agents_of_ours(play)
    lost(play)
    chained(play)
    play.settle()
    reaches(play.deployment, "b/left", "open", within_s=60)
    play.deployment.sees(lambda: not play.agents.of("b"), what="every agent has ended", within_s=90)
    reaches(play.deployment, "b/turn~grown~1", "reaped")

    fired: dict[Row, set[str]] = {}
    told: list[LifecycleEvent] = []
    published = LifecycleEvents(MACHINES).published
    for name, event in play.events():
        row = (name, event.source, event.trigger, event.target)
        fired.setdefault(row, set()).add(event.cause.actor)
        told.append(published(event, name))

    unfired = {row: who for row, who in PRODUCERS.items() if who not in fired.get(row, set())}
    assert unfired == {}, {row: fired.get(row) for row in unfired}
    reasons = {one.transition_reason for one in told}
    assert set(TransitionReason) - reasons == set()
    aborts = {one.abort_reason for one in told}
    assert set(AbortReason) - aborts == set()
    for number, abort in enumerate(ENDS.values()):
        assert play.deployment.client.show(f"b/agent~ends{number}~1").data["end"]["abort"] == abort
