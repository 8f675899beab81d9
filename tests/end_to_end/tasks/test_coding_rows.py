"""Every published row of task, agent and turn is fired in a running deployment, by its producer.

One deployment runs all scenes; the logs are then compared with the table of this module.
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
from interlock.kernel.exported_event import LifecycleEvent, LifecycleEvents
from interlock.kernel.machines import MACHINES
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.systems.tasks.agents import Agents
from interlock.systems.tasks.claim_names import agent_of
from interlock.systems.tasks.client import TaskClaim, Tasks
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.engine.test_stranding import due
from tests.end_to_end.tasks.coding import (
    AGENTS,
    FIXES,
    READY,
    git,
    kill_supervisor,
    make_repository,
    reaches,
    submit,
    task,
)
from tests.end_to_end.tasks.test_agents import AGENT, DONE, steps

Row = tuple[str, str, str, str]
# fmt: off
PRODUCERS: dict[Row, str] = {  # machine, from, trigger, to: who fires it
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
    ("task", "blocked", "unblocked", "open"): "follow_up",
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
    ("turn", "claiming", "agent_spawned", "spawning"): "supervision",
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
    ("turn", "verifying", "task_completed", "completing"): "follow_up",
    ("turn", "verifying", "compact_needed", "running"): "supervision",
    ("turn", "verifying", "task_failed", "failed"): "follow_up",
    ("turn", "completing", "agent_reaped", "reaped"): "turn_cleanup",
    ("turn", "failed", "agent_reaped", "reaped"): "turn_cleanup",
}
# fmt: on
CODING = ("task", "agent", "turn")
NEVER = {"wait": "/nowhere"}
ENDS: dict[str, AbortReason] = {  # how a command ends, and the reason that is recorded
    "exit 3": AbortReason.UNKNOWN,
    "exit 124": AbortReason.TIMEOUT,
    "exit 126": AbortReason.PERMISSION_DENIED,
    "exit 130": AbortReason.USER_INTERRUPT,
    "exit 143": AbortReason.SHUTDOWN_SIGNAL,
    "kill -TERM $$; sleep 9": AbortReason.SHUTDOWN_SIGNAL,
    "kill -KILL $$": AbortReason.OOM,
}
REPORTED = (  # the reasons that an agent may report for its failure
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
    """The scenes of one deployment. A scene submits tasks; `settle` waits for their ends."""

    def __init__(
        self, deployment: Deployment, repo: Path, command: str, client: redis.Redis
    ) -> None:
        self.deployment, self.repo, self.command, self.redis = deployment, repo, command, client
        self.tasks, self.agents = Tasks(deployment.client), Agents(deployment.client)
        self.ends: dict[str, str] = {}

    def plays(self, name: str, end: str, *todo: dict[str, Any], **more: Any) -> str:
        """Let a session take these steps. The task is expected to end in the state `end`."""
        more = {"idle_limit_s": 5, **more}
        task_id = submit(self.deployment, name, steps(self.repo, self.command, *todo, **more))
        self.ends[task_id] = end
        return task_id

    def runs(self, name: str, end: str, command: str, **more: Any) -> str:
        """Let a plain command run. The task is expected to end in the state `end`."""
        more = {"max_retries": 0, "signals": [], **more}
        task_id = submit(self.deployment, name, task(self.repo, command, **more))
        self.ends[task_id] = end
        return task_id

    def claims_externally(self, name: str, *, started: bool = True) -> TaskClaim:
        """Let an external agent claim a task, and start it."""
        self.tasks.submit({"title": name, "role": "other"}, backlog="b", name=name)
        claim = self.tasks.claim(f"b/{name}", owner="ann", role="other")
        if started:
            self.tasks.report(claim.key, claim.token, "started")
        return claim

    def settle(self) -> None:
        """Wait until every task is in the state that it is expected to end in."""
        for task_id, end in self.ends.items():
            reaches(self.deployment, task_id, end, within_s=120)

    def events(self) -> Iterator[tuple[str, Event]]:
        """Yield every event of the backlog with its machine."""
        views = self.deployment.client.dispatch.views
        for name in CODING:
            for record_id in views.ids(MACHINES[name]):
                for event in self.deployment.events(record_id):
                    yield name, event


@pytest.fixture
def new_scenes(
    new_deployment: NewDeployment, tmp_path: Path, client: redis.Redis
) -> Callable[[], Scenes]:
    """Return a function that starts a deployment for scenes."""

    def start() -> Scenes:
        repo = make_repository(tmp_path / "repo")
        program = tmp_path / "agent.py"
        program.write_text(AGENT)
        command = shlex.join([sys.executable, "-S", str(program)])
        deployment = new_deployment(**AGENTS | {"INTERLOCK_AGENTS_MAX": "5"})
        for name in ("agent", "ann"):
            role, own_command = ("other", "") if name == "ann" else ("any", command)
            agents = Agents(deployment.client)
            identity = agents.register("b", name=name, role=role, command=own_command)
            for _ in range(3):
                agents.promote(identity)
        return Scenes(deployment, repo, command, client)

    return start


def people_and_external_agents(scenes: Scenes) -> None:
    """Play what persons and external agents do."""
    client, tasks = scenes.deployment.client, scenes.tasks
    for name, choice in (("good", "approve"), ("bad", "reject")):
        task_id = tasks.submit({"title": name, "plan": "p", "role": "x"}, backlog="b", name=name).id
        client.decide(task_id, choice, proposal=client.show(task_id).proposal)
    whole = tasks.submit({"title": "whole", "role": "x"}, backlog="b", name="whole").id
    client.fire(whole, "split", {"subtasks": [{"title": "part", "role": "x"}]})
    late = tasks.submit({"title": "late", "role": "x"}, backlog="b", name="late").id
    client.fire(late, "split", {"subtasks": [{"title": "part", "role": "x"}]})
    due(scenes.deployment.client.dispatch, scenes.redis, late, "wait")
    reaches(scenes.deployment, late, "blocked")
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
        scenes.claims_externally(name, started=started)
        client.fire(f"b/{name}", trigger, {"reason": "a person decided so"})
    trivial = scenes.claims_externally("trivial", started=False)
    tasks.report(trivial.key, trivial.token, "completed", {"summary": "it was nothing"})
    parted = scenes.claims_externally("parted", started=False)
    tasks.report(parted.key, parted.token, "split", {"subtasks": [{"title": "x", "role": "x"}]})
    waits = scenes.claims_externally("waits", started=False)
    tasks.report(waits.key, waits.token, "blocked", {"on": "trivial", "kind": "task"})
    # This claim is not renewed, so it lapses.
    scenes.claims_externally("left")
    scenes.deployment.expire_leases("b/left")


def local_agents(scenes: Scenes) -> None:
    """Play what agents of this deployment do."""
    tool = {"type": "tool_started", "tool": "edit", "id": "1"}
    used = {"type": "tool_completed", "tool": "edit", "id": "1", "success": True}
    full = {"type": "usage", "context_used": 95, "context_size": 100}
    again = {"type": "compacted"}
    compact = {"type": "compact_needed"}
    slow = {"stop_hooks": ["sleep 1"]}
    scenes.plays("tools", "closed", tool, used, full, again, {"write": "tools"}, DONE)
    scenes.plays("grown", "closed", {"write": "grown"}, DONE, compact, idle_limit_s=3, **slow)
    part = {"title": "[]", "text": json.dumps([{"write": "part"}, DONE])}
    scenes.plays("split", "closed", {"type": "split", "subtasks": [part]})
    scenes.plays("blocks", "blocked", {"type": "blocked", "text": "the key of the safe"})
    scenes.plays("in-tool", "failed", tool, {"type": "failed", "error": "no such file"})
    scenes.plays("rests", "closed", {"write": "rests"}, DONE)
    unfit = {"type": "failed", "error": "no", "reason": "compaction_failed"}
    scenes.plays("narrow", "failed", compact, unfit)
    for number, why in enumerate(REPORTED):
        scenes.plays(why, "failed", {"type": "failed", "error": "no", "reason": why})
        scenes.plays(f"between{number}", "closed", {"write": f"between{number}"}, DONE)
    bash = {"type": "tool_completed", "tool": "bash", "id": "1", "success": False}
    scenes.plays("bash", "failed", tool, bash, NEVER, tool_failures_max=1)
    mark = scenes.repo.parent / "once"
    flaky = f"test -e {mark} || {{ touch {mark}; exit 1; }}; {READY}; {FIXES}"
    scenes.runs("flaky", "closed", flaky, max_retries=1, retry_delay_s=1)
    scenes.runs("wrong", "failed", READY, signals=[{"type": "path_exists", "value": "no"}])
    scenes.runs("blocked-by-hook", "failed", "true", stop_hooks=["exit 1"])
    for number, how in enumerate(ENDS):
        scenes.runs(f"ends{number}", "failed", f"{READY}; {how}")
    scenes.runs("hangs", "failed", f"{READY}; sleep 600", deadline_s=3)
    scenes.runs("fast", "failed", "exit 3")


def lost_supervisors(scenes: Scenes) -> None:
    """Kill the supervisors of an agent with good work and of one that broke its scope."""
    wait = "touch {0}/at-{1}; sleep 600"
    folder = scenes.repo.parent
    good = [{"type": "file_contains", "value": "found :: found"}]
    work = {
        "found": f"{READY}; echo found > found; {wait.format(folder, 'found')}",
        "beyond": f"{READY}; echo x > beyond; {wait.format(folder, 'beyond')}",
    }
    scenes.runs("found", "closed", work["found"], signals=good)
    scenes.runs("beyond", "failed", work["beyond"], owned_files=["answer.txt"])
    for name in work:
        scenes.deployment.sees(
            (folder / f"at-{name}").exists, what=f"{name} is at work", within_s=180
        )
        reaches(scenes.deployment, f"b/{name}", "in_progress")
        kill_supervisor(f"{name}~1")


def aborted(scenes: Scenes) -> None:
    """Play an abort that ends siblings, and one that ends the agents below."""
    folder = scenes.repo.parent
    raised = {"type": "abort", "scope": "sibling", "reason": "it is the same for all of us"}
    todo = [[{"wait": str(folder / "go")}, raised, {"write": "mine"}, DONE], [NEVER]]
    parts = [{"title": "[]", "text": json.dumps(one)} for one in todo]
    whole = scenes.plays("chain", "cancelled", {"type": "split", "subtasks": parts}, {"exit": 0})
    record = reaches(scenes.deployment, whole, "waiting_for_subtasks")
    children = [f"{whole}/{record.version}.{number}" for number in (1, 2)]
    for child in children:
        reaches(scenes.deployment, child, "in_progress")
    (folder / "go").touch()
    reaches(scenes.deployment, children[1], "failed")
    scenes.deployment.client.cancel(whole)
    endless = {"type": "split", "subtasks": [parts[1], parts[1]]}
    parent_task = scenes.plays("above", "cancelled", endless, NEVER)
    record = reaches(scenes.deployment, parent_task, "waiting_for_subtasks")
    # The session itself takes one of the two.
    for number in (1, 2):
        reaches(scenes.deployment, f"{parent_task}/{record.version}.{number}", "in_progress")
    # An idle session of a task before it may have taken this one.
    scenes.agents.abort(agent_of(record, 1), reason="enough")
    reaches(scenes.deployment, f"{parent_task}/{record.version}.1", "failed")
    scenes.deployment.client.cancel(parent_task)


def branch_deleted(scenes: Scenes) -> None:
    """Play a task whose target branch is deleted before it is claimed."""
    git(scenes.repo, "branch", "side")
    scenes.runs("unborn", "failed", "true", target="side")
    git(scenes.repo, "branch", "-D", "side")


def branch_taken(scenes: Scenes) -> None:
    """Play a task whose target gets another file of the same name while its agent works."""
    repo = scenes.repo
    git(repo, "branch", "ours")
    git(repo, "switch", "-qc", "theirs")
    (repo / "clash").write_text("theirs")
    git(repo, "add", "clash")
    git(repo, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "clash")
    git(repo, "switch", "-q", "main")
    moves = f"git -C {repo} update-ref refs/heads/ours theirs"
    scenes.runs("clash", "failed", f"{READY}; echo mine > clash; {moves}", target="ours")


@pytest.mark.slow(minutes=1)
@pytest.mark.timeout(400)
def test_every_row_and_every_reason_has_its_producer(new_scenes: Callable[[], Scenes]) -> None:
    scenes = new_scenes()
    branch_deleted(scenes)
    branch_taken(scenes)
    scenes.deployment.full(workers=2)
    people_and_external_agents(scenes)
    local_agents(scenes)
    lost_supervisors(scenes)
    aborted(scenes)
    scenes.settle()
    reaches(scenes.deployment, "b/left", "open")
    scenes.deployment.sees(
        lambda: not scenes.agents.of("b"), what="every agent has ended", within_s=90
    )
    reaches(scenes.deployment, "b/turn~grown~1", "reaped")

    fired: dict[Row, set[str]] = {}
    reported: list[LifecycleEvent] = []
    published = LifecycleEvents(MACHINES).published
    for name, event in scenes.events():
        row = (name, event.source, event.trigger, event.target)
        fired.setdefault(row, set()).add(event.cause.actor)
        reported.append(published(event, name))

    unfired = {row: by for row, by in PRODUCERS.items() if by not in fired.get(row, set())}
    assert unfired == {}, {row: fired.get(row) for row in unfired}
    reasons = {event.transition_reason for event in reported}
    assert set(TransitionReason) - reasons == set()
    assert [event.record_id for _, event in scenes.events() if not event.says] == []
    said = {e.reason.partition(": ")[2] for e in reported if e.entity_type == "turn"}
    # On a busy computer a turn's cleanup comes before its supervisor says why the task left it.
    ends = {"the agent blocked its task", "the agent split its task"}
    assert said & {"an agent began the task", *ends}
    assert {reason for reason in said if reason.endswith("its task")} <= ends
    aborts = {event.abort_reason for event in reported}
    assert set(AbortReason) - aborts == set()
    for number, abort in enumerate(ENDS.values()):
        ended = scenes.deployment.client.show(f"b/agent~ends{number}~1")
        assert ended.data["end"]["abort"] == abort
