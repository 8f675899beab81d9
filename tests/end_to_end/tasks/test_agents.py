"""Agents at work: sessions, trust, circuit breakers, stop hooks, and the propagation of aborts."""

from __future__ import annotations

import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from interlock.kernel.record import Record
from interlock.systems.tasks.agents import Agents
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.details import details
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.processes.agent.containment import KINDS
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.engine.test_stranding import due
from tests.end_to_end.tasks.coding import (
    AGENTS,
    SHARED_AGENTS,
    events,
    make_repository,
    nothing_left,
    reaches,
    submit,
    task,
    trees,
    trusted,
)
from tests.fakes.proxy import FaultProxy
from tests.processes import is_alive

# The command of an agent: it takes the steps that the text of its task lists.
AGENT = """
import json, os, sys, time
channel = int(os.environ["INTERLOCK_REPORT_FD"])

def report(**fields):
    os.write(channel, json.dumps(fields).encode() + b"\\n")

def do(task):
    worktree = task["worktree"]
    for step in json.loads(task["text"]):
        match step:
            case {"write": name}:
                with open(os.path.join(worktree, name), "w") as file:
                    file.write(name + "\\n")
            case {"pid": name}:
                with open(name, "w") as file:
                    file.write(str(os.getpid()))
            case {"exit": code}:
                sys.exit(code)
            case {"wait": name}:
                while not os.path.exists(name):
                    time.sleep(0.02)
            case _:
                report(**step)

report(type="ready")
last = None
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "task":
        last = message
        do(message)
    else:
        do({**last, "text": last["title"]})
"""
DONE = {"type": "verify_requested", "summary": "done"}


@pytest.fixture(scope="module")
def shared_variables() -> dict[str, str]:
    return SHARED_AGENTS


@pytest.fixture
def deployment(joint_deployment: Deployment) -> Deployment:
    """Return a deployment that the tests of this module share, each with its own backlog."""
    return joint_deployment


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


@pytest.fixture
def command(tmp_path: Path) -> str:
    program = tmp_path / "agent.py"
    program.write_text(AGENT)
    return shlex.join([sys.executable, "-S", str(program)])


def steps(repo: Path, command: str, *todo: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a task for a session that takes these steps, and after a refusal those of `again`."""
    again = json.dumps(more.pop("again", []))
    text = json.dumps(todo)
    fields = {"title": again, "text": text, "session": True, "idle_limit_s": 60, "signals": []}
    return task(repo, command, **{**fields, "max_retries": 0, **more})


def one_agent(deployment: Deployment, state: str) -> Record:
    """Wait until one agent lives and is in a state."""
    agents = Agents(deployment.client)

    def there() -> Record | None:
        found = agents.of(deployment.scope)
        right = len(found) == 1 and found[0]["state"] == state
        return deployment.client.show(found[0]["id"]) if right else None

    found: Record = deployment.sees(there, what=f"one agent is {state}")
    return found


def test_a_session_goes_from_task_to_task_and_is_recycled_when_idle(
    new_deployment: NewDeployment, repo: Path, command: str, client: redis.Redis
) -> None:
    # A second slot is free, and no process is started in it.
    deployment = new_deployment(**AGENTS).full()
    first = submit(deployment, "one", steps(repo, command, {"write": "a"}, DONE, idle_limit_s=600))
    reaches(deployment, first, "closed")
    agent = one_agent(deployment, "idle")

    second = submit(deployment, "two", steps(repo, command, {"write": "b"}, DONE))

    reaches(deployment, second, "closed")
    assert deployment.client.show(second).data["claim"]["agent"] == agent.id
    turn = events(deployment, f"{deployment.scope}/turn~two~1")
    assert turn[:5] == ["idle", "claiming", "spawning", "running", "verifying"]
    one_agent(deployment, "idle")
    due(deployment.client.dispatch, client, agent.id, "idle")
    ended = reaches(deployment, agent.id, "dead")
    assert events(deployment, agent.id) == [
        "starting",
        "working",
        "idle",
        "working",
        "idle",
        "dead",
    ]
    last = deployment.events(agent.id)[-1]
    assert last.trigger == "recycled", last
    assert (repo / "a").exists()
    assert (repo / "b").exists()
    deployment.sees(lambda: trees(repo) == 1, what="no worktree is left")
    deployment.sees(lambda: not is_alive(ended.data["pid"]), what="its process is gone")
    assert ended.data["containment"] in KINDS


def test_a_task_waits_for_a_free_slot_and_an_idle_session_gives_way_to_it(
    new_deployment: NewDeployment, repo: Path, command: str, tmp_path: Path
) -> None:
    deployment = new_deployment(**AGENTS | {"INTERLOCK_AGENTS_MAX": "1"}).full()
    at_work = steps(repo, command, {"write": "a"}, {"wait": str(tmp_path / "go")}, DONE)
    first = submit(deployment, "one", at_work | {"idle_limit_s": 600})
    reaches(deployment, first, "in_progress")
    tasks = Tasks(deployment.client)
    for name in ("two", "three"):
        payload = task(repo, f"echo {name} > {name}", signals=[])
        deployment.client.submit(payload, id=f"other/{name}", machine="task")

    def why() -> list[str]:
        return [row["why"] for row in tasks.of("other")]

    waits = deployment.sees(lambda: all(why()) and why(), what="both say what they wait for")
    host = tasks.client.settings.host
    assert {*waits} == {
        f"it waits for a free slot: all 1 agents of {host} are busy (INTERLOCK_AGENTS_MAX)"
    }
    assert details(tasks.client, tasks.client.show("other/three"))["why"] == waits[0]

    (tmp_path / "go").touch()
    for name in ("two", "three"):
        reaches(deployment, f"other/{name}", "closed")
    assert "slot" not in " ".join(why())
    last = deployment.events(f"{deployment.scope}/agent~one~1")[-1]
    assert (last.trigger, last.cause.actor) == ("recycled", "assignment")
    assert last.because.endswith("another task waited for its slot")


def test_a_stop_hook_sends_a_session_back_and_fails_a_plain_command(
    deployment: Deployment, repo: Path, command: str
) -> None:
    hook = {"stop_hooks": ["test -e documented"]}
    again = [{"write": "documented"}, DONE]
    sent_back = submit(deployment, "back", steps(repo, command, DONE, again=again, **hook))
    plain = submit(deployment, "plain", task(repo, "true", max_retries=0, **hook))

    reaches(deployment, sent_back, "closed")
    failed = reaches(deployment, plain, "failed")

    assert failed.data["failure"]["why"] == "stop_hook_blocked"
    assert "test -e documented" in failed.data["failure"]["reason"]
    assert (repo / "documented").exists()


def test_the_breaker_ends_an_agent_for_scope_budget_and_failures(
    deployment: Deployment, repo: Path, command: str
) -> None:
    tool: dict[str, Any] = {"type": "tool_started", "tool": "bash", "id": "1"}
    broken: dict[str, Any] = {"type": "tool_completed", "tool": "bash", "id": "1", "success": False}
    never = {"wait": "/nowhere"}
    todo: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
        "scope": ([{"write": "other"}, tool, broken, never], {"owned_files": ["answer.txt"]}),
        "budget": ([{"type": "usage", "cost_micro": 2_000_000}, never], {"budget_micro": 10**6}),
        "failures": ([*[tool, broken] * 3, never], {"tool_failures_max": 3}),
    }
    for name, (did, more) in todo.items():
        submit(deployment, name, steps(repo, command, *did, **more))

    for name in todo:
        failed = reaches(deployment, f"{deployment.scope}/{name}", "failed")
        assert failed.data["failure"]["code"] == f"breaker_{name}", failed.data
        agent = reaches(deployment, f"{deployment.scope}/agent~{name}~1", "dead")
        assert agent.data["end"]["code"] == f"breaker_{name}"
        assert deployment.events(agent.id)[-1].source == "working"
    assert (
        deployment.client.show(f"{deployment.scope}/scope").data["failure"]["why"]
        == "permission_denied"
    )
    assert (
        deployment.client.show(f"{deployment.scope}/agent~failures~1").data["end"]["abort"]
        == "bash_error"
    )


def test_trust_is_earned_by_verified_work_and_lost_by_a_violation(
    new_deployment: NewDeployment, repo: Path, command: str
) -> None:
    deployment = new_deployment(**AGENTS | {"INTERLOCK_AGENTS_MAX": "1"}).full()
    split = {"type": "split", "subtasks": [{"title": "x"}]}
    signal = {"signals": [{"type": "path_exists", "value": "a"}]}
    again = [{"write": "a"}, DONE]
    asked = submit(deployment, "asked", steps(repo, command, split, again=again, **signal))

    record = reaches(deployment, asked, "closed")

    refused = deployment.notes(asked, "refused")
    assert [note.detail["why"] for note in refused] == [
        "split needs the trust level trusted; this agent's is untrusted"
    ]
    assert "waiting_for_subtasks" not in events(deployment, asked)
    identity = record.data["claim"]["identity"]
    reaches(deployment, identity, "probationary")
    beyond = {"owned_files": ["answer.txt"]}
    submit(deployment, "beyond", steps(repo, command, {"write": "c"}, DONE, **beyond))
    demoted = reaches(deployment, identity, "untrusted")
    assert (demoted.data["violations"], demoted.data["successes"]) == (1, 0)
    assert [event.cause.actor for event in deployment.events(identity)[1:]] == [
        "follow_up",
        "follow_up",
    ]


def test_a_retired_identity_claims_no_more_tasks(
    deployment: Deployment, repo: Path, command: str
) -> None:
    Agents(deployment.client).retire(trusted(deployment, command, 0), reason="it is unreliable")
    left = submit(deployment, "left", steps(repo, command, DONE))
    second = submit(deployment, "other", task(repo, "true", signals=[]))

    reaches(deployment, second, "closed")
    (row,) = [row for row in Tasks(deployment.client).of(deployment.scope) if row["id"] == left]
    why = "its agent agent was taken out of service by a person"
    assert (row["state"], row["why"]) == ("open", why)


def test_a_session_that_fails_at_its_first_task_works_at_its_next(
    new_deployment: NewDeployment, repo: Path
) -> None:
    deployment = new_deployment(**AGENTS | {"INTERLOCK_AGENTS_MAX": "1"}).full()
    fails, succeeds = (
        f"read task; echo '{json.dumps(report)}' >&$INTERLOCK_REPORT_FD"
        for report in ({"type": "failed", "error": "no luck"}, DONE)
    )
    command = f"{fails}; {succeeds}; cat > /dev/null"
    first = submit(deployment, "first", steps(repo, command))
    reaches(deployment, first, "failed")

    second = submit(deployment, "second", steps(repo, command))

    reaches(deployment, second, "closed")
    agent = reaches(deployment, f"{deployment.scope}/agent~first~1", "idle")
    assert events(deployment, agent.id) == ["starting", "working", "idle"]


def test_an_agent_that_cannot_start_is_dead_and_its_task_waits_for_a_retry(
    deployment: Deployment, repo: Path
) -> None:
    report = json.dumps({"type": "failed", "error": "overloaded", "retry_after_s": 400})
    limited = submit(
        deployment, "limited", task(repo, f"echo '{report}' >&$INTERLOCK_REPORT_FD; sleep 9")
    )
    fast = submit(deployment, "fast", task(repo, "exit 3", max_retries=0))

    for task_id, code in ((limited, "rate_limit"), (fast, "fast_exit")):
        reaches(deployment, task_id, "failed")
        agent = reaches(
            deployment, f"{deployment.scope}/agent~{task_id.partition('/')[2]}~1", "dead"
        )
        assert agent.data["end"]["code"] == code
        assert events(deployment, agent.id) == ["starting", "dead"]
    record = deployment.client.show(limited)
    backoff = next(timer for timer in record.timers if timer.name == "backoff")
    assert backoff.due_at - record.since_ms == 400_000


def family(
    deployment: Deployment, repo: Path, command: str, folder: Path, **more: Any
) -> tuple[Record, list[str]]:
    """Let a session split a task in two, and wait until both subtasks are at work."""
    trusted(deployment, command, 2)
    parts = [
        {
            "title": json.dumps([]),
            "text": json.dumps(
                [{"pid": str(folder / f"pid{n}")}, {"wait": str(folder / f"go{n}")}]
            ),
        }
        for n in (1, 2)
    ]
    whole = submit(
        deployment, "whole", steps(repo, command, {"type": "split", "subtasks": parts}, **more)
    )
    reaches(deployment, whole, "waiting_for_subtasks")
    agent = deployment.client.show(f"{deployment.scope}/agent~whole~1")
    # The session itself takes one of the two, as it is idle by then.
    children = [
        str(
            reaches(deployment, f"{whole}/{agent_version(deployment, whole)}.{n}", "in_progress").id
        )
        for n in (1, 2)
    ]
    deployment.sees(
        lambda: all((folder / f"pid{n}").exists() for n in (1, 2)), what="both are at work"
    )
    return agent, children


def agent_version(deployment: Deployment, whole: str) -> int:
    """Return the version at which a task was split, which is in the names of the subtasks."""
    return next(e.version for e in deployment.events(whole) if e.target == "waiting_for_subtasks")


def agent_of(deployment: Deployment, child: str) -> str:
    return str(deployment.client.show(child).data["claim"]["agent"])


def both_ended(folder: Path) -> bool:
    """Whether the processes of both subtasks have ended."""
    return not any(is_alive(int((folder / f"pid{n}").read_text())) for n in (1, 2))


def test_the_abort_of_a_session_ends_all_agents_below_it(
    deployment: Deployment, repo: Path, command: str, tmp_path: Path
) -> None:
    parent, children = family(deployment, repo, command, tmp_path)
    child_agents = [agent_of(deployment, child) for child in children]
    child_agents = [one for one in child_agents if one != parent.id]
    assert child_agents
    assert all(deployment.client.show(one).data["parent"] == parent.id for one in child_agents)

    Agents(deployment.client).abort(parent.id, reason="all of it is wrong")

    ended = reaches(deployment, parent.id, "dead")
    assert ended.data["end"]["abort"] == "user_interrupt"
    for one in child_agents:
        record = reaches(deployment, one, "dead")
        assert record.data["end"]["abort"] == "parent_aborted"
        assert deployment.events(one)[-1].cause.actor == "abort"
    for child in children:
        reaches(deployment, child, "failed")
    deployment.sees(partial(both_ended, tmp_path), what="no process is left")


@pytest.mark.parametrize("reaches_siblings", [True, False])
def test_an_aborted_tool_call_ends_siblings_only_if_the_policy_says_so(
    deployment: Deployment,
    repo: Path,
    command: str,
    tmp_path: Path,
    *,
    reaches_siblings: bool,
) -> None:
    policy = {"abort_policy": {"tool_to_sibling": reaches_siblings}}
    trusted(deployment, command, 2)
    raised = {"type": "abort", "scope": "tool", "reason": "the build is broken for all of us"}
    first = [{"wait": str(tmp_path / "go1")}, raised, {"write": "a"}, DONE]
    second = [{"wait": str(tmp_path / "go2")}, {"write": "b"}, DONE]
    parts = [{"title": "[]", "text": json.dumps(todo)} for todo in (first, second)]
    # The agent exits after its split, so two other agents take the subtasks, and are siblings.
    todo = {"type": "split", "subtasks": parts}, {"exit": 0}
    whole = submit(deployment, "whole", steps(repo, command, *todo, **policy))
    reaches(deployment, whole, "waiting_for_subtasks")
    children = [f"{whole}/{agent_version(deployment, whole)}.{n}" for n in (1, 2)]
    for child in children:
        reaches(deployment, child, "in_progress")
    one, two = (agent_of(deployment, child) for child in children)

    (tmp_path / "go1").touch()

    reaches(deployment, children[0], "closed")
    if reaches_siblings:
        assert reaches(deployment, two, "dead").data["end"]["abort"] == "sibling_aborted"
        failed = reaches(deployment, children[1], "failed")
        assert failed.data["failure"]["why"] == "sibling_aborted"
    else:
        assert [e.payload for e in deployment.events(one) if e.trigger == "tool_aborted"]
        (tmp_path / "go2").touch()
        reaches(deployment, children[1], "closed")


def test_the_agents_of_a_cancelled_task_are_recorded_as_aborted_by_their_parent(
    deployment: Deployment, repo: Path, command: str, tmp_path: Path
) -> None:
    _, children = family(deployment, repo, command, tmp_path, idle_limit_s=5)
    child_agents = {agent_of(deployment, child) for child in children}

    deployment.client.cancel(f"{deployment.scope}/whole", reason="no longer wanted")

    for one in child_agents:
        assert reaches(deployment, one, "dead").data["end"]["abort"] == "parent_aborted"
    deployment.sees(partial(both_ended, tmp_path), what="no process is left")
    nothing_left(deployment, repo, "whole")


def test_what_a_session_writes_after_its_report_is_not_verified(
    deployment: Deployment, repo: Path, command: str, tmp_path: Path
) -> None:
    go, wrote = tmp_path / "go", tmp_path / "wrote"
    todo = {"write": "a"}, DONE, {"wait": str(go)}, {"write": "late"}, {"pid": str(wrote)}
    meanwhile = f"touch {go}; until [ -e {wrote} ]; do sleep 0.05; done"
    signals = [
        {"type": "test_passes", "value": meanwhile},
        {"type": "path_exists", "value": "late"},
    ]
    task_id = submit(deployment, "late", steps(repo, command, *todo, signals=signals))

    record = reaches(deployment, task_id, "failed", "closed")

    assert [one["passed"] for one in record.data["checked"]] == [True, False]
    assert not (repo / "late").exists()


def test_a_session_survives_an_outage_of_the_store(
    new_deployment: NewDeployment, repo: Path, command: str, server: EmbeddedServer
) -> None:
    with FaultProxy(server.port) as proxy:
        alone = {"INTERLOCK_AGENTS_MAX": "1"}
        deployment = new_deployment(proxy.url, **AGENTS | alone).full()
        reaches(
            deployment,
            submit(deployment, "one", steps(repo, command, {"write": "a"}, DONE)),
            "closed",
        )
        agent = one_agent(deployment, "idle")

        proxy.refuse()
        tried = proxy.connections
        deployment.sees(lambda: proxy.connections > tried + 30, what="all have tried to connect")
        proxy.heal()

        second = submit(deployment, "two", steps(repo, command, {"write": "b"}, DONE))
        assert reaches(deployment, second, "closed").data["claim"]["agent"] == agent.id


def test_an_agent_without_progress_is_ended_by_its_progress_limit(
    deployment: Deployment, repo: Path, command: str, client: redis.Redis
) -> None:
    task_id = submit(
        deployment, "idles", steps(repo, command, {"wait": "/nowhere"}, stream="interlock")
    )
    reaches(deployment, task_id, "in_progress")
    agent = reaches(deployment, f"{deployment.scope}/agent~idles~1", "working")
    # Its first output is progress, and would move the limit that this test moves.
    deployment.sees(lambda: deployment.notes(agent.id, "output_seen"), what="its output is seen")

    due(deployment.client.dispatch, client, agent.id, "progress")

    ended = reaches(deployment, agent.id, "dead")
    assert deployment.events(agent.id)[-1].cause.actor == "stalls"
    assert ended.data["end"]["abort"] == "timeout"
    assert reaches(deployment, task_id, "failed").data["failure"]["abort"] == "timeout"
    deployment.sees(lambda: not is_alive(agent.data["pid"]), what="its process is gone")
