"""Coding tasks with real workers, agents' processes and git."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.machines.task.questions import NO_SANDBOX
from interlock.systems.threads.requests import read_request
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.event_export import EventExport
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, thread, written
from tests.end_to_end.engine.preloaded import OWN_FORK_SERVER
from tests.end_to_end.tasks.coding import (
    AGENTS,
    BRANCHES,
    FIXES,
    READY,
    SHARED_AGENTS,
    events,
    gate_of,
    git,
    kill_supervisor,
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


@pytest.fixture(scope="module")
def shared_variables() -> dict[str, str]:
    return SHARED_AGENTS


@pytest.fixture
def deployment(joint_deployment: Deployment) -> Deployment:
    """Return a deployment that the tests of this module share, each with its own backlog."""
    return joint_deployment


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Return a repository whose one test fails."""
    return make_repository(tmp_path / "repo")


def test_a_task_is_claimed_worked_on_verified_and_merged(
    deployment: Deployment, repo: Path
) -> None:
    task_id = submit(deployment, "fix", task(repo, f"{READY}; {FIXES}; echo fixed"))

    record = reaches(deployment, task_id, "closed")

    assert record.data["summary"] == "fixed"
    assert (repo / "answer.txt").read_text() == "42\n"
    assert git(repo, "rev-parse", "main") == record.data["merged"]
    assert [event.target for event in deployment.events(task_id)] == [
        "open",
        "claimed",
        "in_progress",
        "done",
        "done",
        "done",
        "closed",
    ]
    reaches(deployment, f"{deployment.scope}/agent~fix~1", "dead")
    reaches(deployment, f"{deployment.scope}/turn~fix~1", "reaped")
    assert git(repo, "worktree", "list", "--porcelain").count("worktree ") == 1
    export = EventExport(deployment.client.dispatch, [deployment.scope])
    reasons = {(e.entity_type, e.from_status, e.trigger): e.reason for e in export.all()}
    assert {kind for kind, _, _ in reasons} == {"task", "agent", "turn", "identity"}
    records = [task_id, *(f"{deployment.scope}/{name}~fix~1" for name in ("agent", "turn"))]
    logged = [event for name in records for event in deployment.events(name)]
    assert [(event.record_id, event.trigger) for event in logged if not event.says] == []
    assert reasons["task", "", "created"] == "it was handed in"
    assert reasons["task", "in_progress", "completed"] == (
        "its agent reported that the work is done: fixed"
    )
    assert reasons["turn", "spawning", "agent_spawned"] == "its agent is at work"


def test_an_agent_that_fails_leaves_the_branch_alone_and_asks_a_person(
    deployment: Deployment, repo: Path
) -> None:
    before = git(repo, "rev-parse", "main")
    task_id = submit(deployment, "fail", task(repo, "echo no luck >&2; exit 3", max_retries=0))

    record = reaches(deployment, task_id, "failed")

    assert record.data["failure"]["abort"] == "unknown"
    assert "no luck" in record.data["failure"]["reason"]
    agent = reaches(deployment, f"{deployment.scope}/agent~fail~1", "dead").id
    assert events(deployment, agent) == ["starting", "working", "dead"], "it has printed a line"
    assert task_id in {card.record_id for card in deployment.client.cards()}
    nothing_left(deployment, repo, "fail")
    assert git(repo, "rev-parse", "main") == before


def test_a_failed_task_is_tried_again_after_its_backoff(
    deployment: Deployment, repo: Path, tmp_path: Path
) -> None:
    # Each try keeps what it was told. The first one fails, the second answers wrong.
    keeps = f"n=$(ls {tmp_path} | grep -c told); cat > {tmp_path}/told-$n"
    tries = 'test $n != 0 || { echo "no idea yet"; exit 1; }; echo $((40 + n)) > answer.txt'
    task_id = submit(deployment, "again", task(repo, f"{keeps}; {tries}", retry_delay_s=1))

    record = reaches(deployment, task_id, "closed")

    assert (record.data["retries"], record.data["claimed"]) == (2, 3)
    first, second, third = ((tmp_path / f"told-{n}").read_text() for n in range(3))
    assert "The last try" not in first
    assert "exit code 1" in second
    assert second.endswith("The end of the output of its agent:\n    no idea yet\n")
    assert third.endswith('test_passes test "$(cat answer.txt)" = 42\n    exit code 1; no output\n')
    nothing_left(deployment, repo, "again", 3)


def test_what_two_tries_could_not_commit_is_kept_and_the_third_is_merged(
    deployment: Deployment, repo: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    inside = f"touch {first}; git init -q vendor; echo 1 > precious.txt"
    detached = f"touch {second}; git checkout -q --detach; echo 2 > precious.txt"
    agent = f"if [ ! -e {first} ]; then {inside}; elif [ ! -e {second} ]; then {detached}; "
    agent += f"else {FIXES}; fi"
    task_id = submit(deployment, "kept", task(repo, agent, retry_delay_s=1))

    reaches(deployment, task_id, "closed")

    turns = [f"{deployment.scope}/turn~kept~{number}" for number in (1, 2, 3)]
    stays, put_away, merged = (reaches(deployment, turn, "reaped").data["left"] for turn in turns)
    assert (Path(stays["worktree"]) / "precious.txt").read_text() == "1\n"
    saved = f"refs/interlock/saved/{deployment.scope}/kept@2"
    deployment.sees(
        lambda: saved in git(repo, "for-each-ref", "--format=%(refname)"), what="try 2 is put away"
    )
    assert git(repo, "show", f"{saved}:precious.txt") == "2"
    assert (put_away["ref"].endswith("/kept@2"), merged) == (True, {})
    logs = deployment.client.logs(task_id).note
    assert (stays["worktree"] in logs, saved in logs) == (True, True)
    reasons = [
        event.payload["reason"] for event in deployment.events(task_id) if event.trigger == "failed"
    ]
    assert stays["worktree"] in reasons[0]
    assert "worktree add --detach" in reasons[1]


def test_the_branch_of_a_failed_try_is_deleted_when_a_later_one_is_merged(
    deployment: Deployment, repo: Path, tmp_path: Path
) -> None:
    once = f"test -e {tmp_path}/once || {{ touch {tmp_path}/once; echo > half.txt; exit 1; }}"
    agent = f"{once}; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo 42 > answer.txt"
    task_id = submit(deployment, "again", task(repo, agent, retry_delay_s=1))
    left = submit(deployment, "left", task(repo, "echo > half.txt; exit 1", max_retries=0))

    reaches(deployment, left, "failed")
    for turn in ("again~1", "left~1"):
        reaches(deployment, f"{deployment.scope}/turn~{turn}", "reaped")
    kept = {f"interlock/{deployment.scope}/{name}@1" for name in ("again", "left")}
    assert kept <= set(git(repo, *BRANCHES).split())
    (tmp_path / "go").touch()

    reaches(deployment, task_id, "closed")
    nothing_left(deployment, repo, "again", 2)
    assert git(repo, *BRANCHES) == f"interlock/{deployment.scope}/left@1"


def test_a_new_agent_that_reports_a_block_and_exits_with_0_has_not_succeeded(
    deployment: Deployment, repo: Path
) -> None:
    blocks = """echo '{"type": "blocked", "text": "the key of the safe"}' >&$INTERLOCK_REPORT_FD"""
    first = submit(deployment, "first", task(repo, f"{READY}; {blocks}; exit 0", signals=[]))
    after = task(repo, f"{READY}; {FIXES}", depends_on=["first"])
    second = submit(deployment, "second", after)

    record = reaches(deployment, first, "failed")

    assert record.data["failure"]["why"] == "permission_denied"
    card = deployment.client.card(first)
    assert card is not None
    assert "its report blocked (the key of the safe) was refused" in card.question
    nothing_left(deployment, repo, "first")
    end = deployment.client.show(f"{deployment.scope}/agent~first~1").data["end"]
    assert end["why"] == "permission_denied"
    assert deployment.client.show(second).state == "open"
    for task_id in (first, second):
        deployment.client.cancel(task_id)


@pytest.mark.proof
def test_an_agent_that_hangs_is_ended_at_its_deadline_with_all_it_started(
    deployment: Deployment, repo: Path, tmp_path: Path
) -> None:
    agent = f"setsid sleep 1000 & echo $! > {tmp_path}/pid; trap '' TERM; {READY}; sleep 1000"
    task_id = submit(deployment, "hang", task(repo, agent, max_retries=0, deadline_s=3))

    record = reaches(deployment, task_id, "failed")

    assert record.data["failure"]["abort"] == "timeout"
    assert deployment.events(task_id)[-1].cause.actor == "stalls"
    nothing_left(deployment, repo, "hang")
    end = deployment.client.show(f"{deployment.scope}/agent~hang~1").data["end"]
    assert (end["abort"], end["why"]) == ("timeout", "timed_out")
    assert end["reason"] == "it took longer than its deadline", "its silence is not why"
    pid = int((tmp_path / "pid").read_text())
    deployment.sees(lambda: not is_alive(pid), what="its grandchild is gone")


def test_work_that_its_signals_do_not_accept_is_not_merged(
    deployment: Deployment, repo: Path
) -> None:
    task_id = submit(deployment, "wrong", task(repo, "echo 43 > answer.txt", max_retries=0))

    record = reaches(deployment, task_id, "failed")

    assert "test_passes" in record.data["failure"]["reason"]
    assert record.data["checked"][0]["passed"] is False
    nothing_left(deployment, repo, "wrong")
    assert (repo / "answer.txt").read_text() == "41\n"


def test_a_change_outside_the_owned_files_is_a_violation(
    deployment: Deployment, repo: Path
) -> None:
    agent = "echo 42 > answer.txt; echo x > other.txt"
    task_id = submit(deployment, "scope", task(repo, agent, owned_files=["answer.txt"]))

    record = reaches(deployment, task_id, "failed")

    assert record.data["failure"]["why"] == "permission_denied"
    assert record.data["failure"]["paths"] == ["other.txt"]
    assert record.data["given_up"]


def test_approved_work_is_merged_as_it_was_verified_or_not_at_all(
    deployment: Deployment, repo: Path
) -> None:
    options = {"needs_approval": True, "max_retries": 0}
    good = submit(deployment, "good", task(repo, "echo 42 > answer.txt", **options))
    moved = submit(
        deployment, "moved", task(repo, "echo 42 > answer.txt; echo > new.txt", **options)
    )
    for task_id in (good, moved):
        reaches(deployment, task_id, "pending_approval")
    card = deployment.client.card(moved)
    assert card is not None
    branch = f"interlock/{deployment.scope}/moved@1"
    found = f"Its work was verified (2 files, +2 -1, on the branch {branch}). "
    assert card.question == f"{found}{NO_SANDBOX} Shall it be merged into main?"
    assert card.inspect == shlex.join(("git", "-C", str(repo), "diff", f"main...{branch}"))
    seen = subprocess.run(card.inspect, shell=True, capture_output=True, check=True)  # noqa: S602
    assert b"+42" in seen.stdout
    author = ("-c", "user.name=u", "-c", "user.email=u@x")
    sneaked = git(
        repo, *author, "commit-tree", "-p", branch, "-m", "sneaked in", f"{branch}^{{tree}}"
    )
    git(repo, "update-ref", f"refs/heads/{branch}", sneaked)

    for task_id in (good, moved):
        deployment.client.decide(
            task_id, "approve", proposal=deployment.client.show(task_id).proposal
        )

    assert reaches(deployment, good, "closed").data["approved"]
    refused = reaches(deployment, moved, "failed")
    assert refused.data["failure"]["reason"] == "its branch has moved since it was verified"
    assert not (repo / "new.txt").exists()


def test_a_conflict_is_a_failure_with_the_paths_named(
    deployment: Deployment, repo: Path, tmp_path: Path
) -> None:
    gate = gate_of(tmp_path / "go")
    first = submit(deployment, "one", task(repo, f"{gate}; echo 42 > answer.txt", max_retries=0))
    other = task(repo, f"{gate}; printf '42\\nmore\\n' > answer.txt", max_retries=0, signals=[])
    second = submit(deployment, "two", other)
    for task_id in (first, second):
        reaches(deployment, task_id, "in_progress")
    (tmp_path / "go").touch()

    ended = {
        reaches(deployment, task_id, "closed", "failed").state: task_id
        for task_id in (first, second)
    }

    assert set(ended) == {"closed", "failed"}
    failure = deployment.client.show(ended["failed"]).data["failure"]
    assert failure["paths"] == ["answer.txt"]
    assert "conflicts" in failure["reason"]


def test_a_cancelled_task_leaves_no_process_and_no_worktree(
    deployment: Deployment, repo: Path, tmp_path: Path
) -> None:
    task_id = submit(
        deployment, "stop", task(repo, f"echo begun; echo $$ > {tmp_path}/pid; sleep 1000")
    )
    pid = int(deployment.sees(lambda: written(tmp_path / "pid"), what="its agent runs"))
    reaches(deployment, task_id, "in_progress")

    deployment.client.cancel(task_id, reason="no longer wanted")

    reaches(deployment, task_id, "cancelled")
    nothing_left(deployment, repo, "stop")
    assert not is_alive(pid)


@pytest.mark.proof
def test_a_task_whose_supervisor_is_killed_is_orphaned_and_done_by_the_next_agent(
    deployment: Deployment, repo: Path, tmp_path: Path
) -> None:
    agent = (
        f"echo begun; echo $$ >> {tmp_path}/pids; "
        f"test -e {tmp_path}/once || {{ touch {tmp_path}/once; sleep 1000; }}; echo 42 > answer.txt"
    )
    task_id = submit(deployment, "orphan", task(repo, agent))
    reaches(deployment, task_id, "in_progress")
    deployment.sees((tmp_path / "once").exists, what="its agent runs")
    first = int((tmp_path / "pids").read_text())

    kill_supervisor("orphan~1")

    record = reaches(deployment, task_id, "closed", within_s=120)
    assert "orphaned" in events(deployment, task_id)
    assert record.data["crashes"] == 1
    assert not is_alive(first), "the first agent ran beside the second"
    nothing_left(deployment, repo, "orphan", 2)


def test_what_a_lost_agent_left_on_no_branch_is_named_with_its_place(
    deployment: Deployment, repo: Path
) -> None:
    agent = f"{READY}; git checkout -q --detach; echo work > precious.txt; kill -KILL $$"
    task_id = submit(deployment, "lost", task(repo, agent, max_lost=0))

    record = reaches(deployment, task_id, "failed")

    branch = f"interlock/{deployment.scope}/lost@1"
    reason = record.data["failure"]["reason"]
    assert "its agent was lost" in reason
    assert f"the work is saved on the branch {branch}: `git " in reason
    nothing_left(deployment, repo, "lost")
    assert git(repo, "show", f"{branch}:precious.txt") == "work"


def test_an_agent_that_is_killed_at_its_first_moment_is_followed_by_none_where_none_may(
    deployment: Deployment, repo: Path, tmp_path: Path
) -> None:
    # An agent that fails so early has not worked yet, so that its task would be tried again.
    agent = f"echo run >> {tmp_path}/runs; kill -KILL $$"
    task_id = submit(deployment, "once", task(repo, agent, max_lost=0))

    record = reaches(deployment, task_id, "failed")
    assert record.data["given_up"], "a person is asked"
    assert "its agent was lost, and no other may follow it" in record.data["failure"]["reason"]
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_deployment_of_the_workers_does_not_touch_a_running_agent(
    new_deployment: NewDeployment, repo: Path, tmp_path: Path
) -> None:
    # The agent prints and reports nothing, so it works once it has run for a second. A fork server
    # of its own leaves this limit as it is.
    deployment = new_deployment(**AGENTS, **{OWN_FORK_SERVER: "1"})
    deployment.beat()
    worker = deployment.worker()
    agent = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo 42 > answer.txt"
    task_id = submit(deployment, "deploy", task(repo, agent))
    reaches(deployment, task_id, "in_progress")

    worker.stop()
    deployment.worker()
    (tmp_path / "go").touch()

    record = reaches(deployment, task_id, "closed")
    assert (record.data["claimed"], record.data["crashes"]) == (1, 0)


def test_a_task_waits_for_its_dependencies(deployment: Deployment, repo: Path) -> None:
    second = submit(
        deployment, "second", task(repo, "echo 2 > two.txt", depends_on=["first"], signals=[])
    )
    first = submit(deployment, "first", task(repo, "sleep 0.5; echo 42 > answer.txt"))

    reaches(deployment, second, "closed")

    assert deployment.client.show(second).data["claimed"] == 1
    closed = next(event for event in deployment.events(first) if event.target == "closed")
    claimed = next(event for event in deployment.events(second) if event.target == "claimed")
    assert closed.at_ms <= claimed.at_ms


def test_an_agent_reports_on_its_descriptor_and_splits_its_task(
    deployment: Deployment, repo: Path
) -> None:
    whole = (
        'test -n "$INTERLOCK_TASK_TEXT" && { echo "$INTERLOCK_TASK_TEXT" > $INTERLOCK_TASK_TEXT;'
        " exit 0; }; "
        'say() { echo "$1" >&$INTERLOCK_REPORT_FD; }; '
        """say '{"type": "ready"}'; """
        """say '{"type": "tool_started", "tool": "grep", "id": "1"}'; """
        """say '{"type": "tool_completed", "tool": "grep", "id": "1", "success": true}'; """
        """say '{"type": "split", "subtasks": [{"title": "a", "text": "a.txt"},"""
        """ {"title": "b", "text": "b.txt"}]}'; sleep 60"""
    )
    trusted(deployment, whole, 2)
    task_id = submit(deployment, "whole", task(repo, whole, signals=[]))

    record = reaches(deployment, task_id, "closed", within_s=90)

    assert record.data["tally"] == {"closed": 2}
    assert (repo / "a.txt").read_text() == "a.txt\n"
    assert (repo / "b.txt").read_text() == "b.txt\n"
    turn = deployment.events(f"{deployment.scope}/turn~whole~1")
    seen = [event.trigger for event in turn]
    assert seen[:5] == ["created", "task_claimed", "agent_spawned", "agent_spawned", "tool_started"]
    assert "tool_completed" in seen
    assert turn[2].cause.actor == "supervision", "its supervisor launched the process"
    deployment.sees(lambda: trees(repo) == 1, what="no worktree is left")


@pytest.mark.proof
def test_thirty_tasks_with_four_agents_end_merged_and_leave_nothing(
    new_deployment: NewDeployment, repo: Path
) -> None:
    deployment = new_deployment(**AGENTS | {"INTERLOCK_AGENTS_MAX": "4"}).full()
    names = [f"n{n}" for n in range(30)]
    for name in names:
        signal = {"type": "file_contains", "value": f"{name}.txt :: {name}"}
        submit(deployment, name, task(repo, f"echo {name} > {name}.txt", signals=[signal]))

    for name in names:
        reaches(deployment, f"{deployment.scope}/{name}", "closed", within_s=240)

    assert all((repo / f"{name}.txt").exists() for name in names)
    assert git(repo, "status", "--porcelain") == ""
    for name in names:
        reaches(deployment, f"{deployment.scope}/turn~{name}~1", "reaped")
    nothing_left(deployment, repo, names[-1])
    assert git(repo, "branch", "--list", "interlock/*") == ""


def test_effects_on_the_files_of_a_computer_run_on_that_computer(
    new_deployment: NewDeployment, repo: Path, tmp_path: Path
) -> None:
    deployment = new_deployment(**AGENTS)
    deployment.beat()
    for host in ("north", "south"):
        (tmp_path / host).mkdir()
        own = str(tmp_path / host)
        deployment.worker(INTERLOCK_HOST=host, INTERLOCK_HOME=own, INTERLOCK_SOURCES_ROOT=own)
    names = [f"n{n}" for n in range(4)]
    for name in names:
        submit(deployment, name, task(repo, f"echo {name} > {name}", signals=[]))

    for name in names:
        record = reaches(deployment, f"{deployment.scope}/{name}", "closed", "failed")
        assert record.state == "closed", record.data
        reaches(deployment, f"{deployment.scope}/turn~{name}~1", "reaped")
    assert trees(repo) == 1

    # South may not change the files of north: its clean-up of one would fail.
    for name in names:
        file = tmp_path / "north" / f"{name}.md"
        file.write_text("# Buy milk")
        inciting = read_request(file, host="north")["inciting"]
        asks = thread("jot", policy="plan_then_review") | {"inciting": inciting}
        deployment.client.submit(asks, machine="thread", id=name)
        deployment.reaches(name, "awaiting_confirmation")
        deployment.client.fire(name, "cleanup_requested")
    assert {record.state for record in deployment.ends(*names)} == {"done_cleanup_successful"}


def test_work_is_verified_only_after_its_agent_has_ended(
    deployment: Deployment, repo: Path, tmp_path: Path
) -> None:
    author = "git -c user.name=u -c user.email=u@x"
    fixes = f"{FIXES}; {author} commit -qam fixed"
    agent = f"{READY}; {fixes}; echo $$ > {tmp_path}/pid; sleep 600"
    gone = {"type": "test_passes", "value": f"! kill -0 $(cat {tmp_path}/pid)"}
    task_id = submit(deployment, "reported", task(repo, agent, signals=[gone], max_retries=0))
    deployment.sees((tmp_path / "pid").exists, what="the agent has committed its work")
    (entry,) = reaches(deployment, task_id, "in_progress").entries

    report = {"summary": "reported by the agent"}
    Tasks(deployment.client).report(entry.key(task_id), entry.token, "completed", report)

    assert reaches(deployment, task_id, "closed", "failed").state == "closed"
    assert (repo / "answer.txt").read_text() == "42\n"


def test_a_supervisor_waits_for_a_store_that_is_away(
    new_deployment: NewDeployment, repo: Path, tmp_path: Path, server: EmbeddedServer
) -> None:
    with FaultProxy(server.port) as proxy:
        deployment = new_deployment(proxy.url, **AGENTS).full()
        agent = f"{gate_of(tmp_path / 'go')}; {FIXES}; touch {tmp_path}/end"
        task_id = submit(deployment, "away", task(repo, agent))
        reaches(deployment, task_id, "in_progress")

        proxy.refuse()
        (tmp_path / "go").touch()
        deployment.sees((tmp_path / "end").exists, what="the agent has ended")
        tried = proxy.connections
        deployment.sees(lambda: proxy.connections > tried + 20, what="all have tried to connect")
        proxy.heal()

        record = reaches(deployment, task_id, "closed")
        assert (record.data["claimed"], record.data["crashes"]) == (1, 0)
