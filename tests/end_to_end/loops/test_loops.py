"""Long-lived agents: sessions, interrupts, cool-downs, and an end that leaves nothing behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.loops.agents import Colony
from tests.end_to_end.tasks.coding import git, trees
from tests.processes import is_alive


@pytest.fixture
def colony(deployment: Deployment, tmp_path: Path) -> Colony:
    return Colony(deployment, tmp_path)


def test_an_agent_runs_session_after_session_in_its_worktree_and_is_given_its_mail(
    colony: Colony,
) -> None:
    colony.start("owl", identity="You keep the night watch.", instructions="Look at the log.")
    first = colony.sees("owl")
    for part in ("# You are owl", "You keep the night watch.", "Look at the log.", "begin"):
        assert part in first["prompt"]
    colony.reaches("owl", "session_complete")

    asked = colony.send("owl", {"write": "found.txt"}, kind="task")
    second = colony.sees("owl", 2)

    assert (second["mail"], second["seq"]) == ([asked], "2")
    assert colony.loops.show("owl")["prompt"] == second["prompt"], "what was stored was read"
    colony.reaches("owl", "session_complete")
    [letter] = colony.loops.mailbox.listed("owl")
    assert letter["delivered_at_ms"] == colony.event("owl", "session_started").at_ms
    assert colony.record("owl").data["consecutive_errors"] == 0

    colony.loops.stop("owl", reason="the night is over")
    colony.nothing_left("owl")
    assert colony.record("owl").data["stopped"] == {"by": "operator", "reason": "the night is over"}
    assert git(colony.repo, "show", "interlock/agents/owl:found.txt") == "owl"
    assert trees(colony.repo) == 1


def test_urgent_mail_interrupts_once_however_much_comes_and_all_of_it_is_in_the_next_prompt(
    colony: Colony,
) -> None:
    never = {"wait": str(colony.folder / "never")}
    colony.start("owl")
    colony.reaches("owl", "session_complete")
    colony.send("owl", never)
    busy = colony.sees("owl", 2)
    colony.reaches("owl", "running")

    sent = [colony.send("owl", never, urgent=True) for _ in range(2)]
    following = colony.sees("owl", 3)

    assert colony.triggers("owl").count("urgent_message") == 1
    assert following["mail"] == sent
    assert following["seq"] == busy["seq"], "an interrupted session has the same number"
    assert colony.reaches("owl", "running").data["total_errors"] == 0


def test_a_session_that_does_not_end_is_killed_after_its_grace_and_counts_nowhere(
    colony: Colony,
) -> None:
    colony.start("owl", {"stubborn": True}, {"wait": str(colony.folder / "never")})
    first = colony.sees("owl")
    record = colony.reaches("owl", "running")

    colony.send("owl", urgent=True)
    second = colony.sees("owl", 2)

    assert colony.saw("owl", "asked")[0]["pid"] == first["pid"]
    assert not is_alive(first["pid"]), "the next begins only when the last is gone"
    assert second["at"] > first["at"] + 2
    assert "grace_exceeded" in colony.triggers("owl")
    now = colony.reaches("owl", "running")
    assert (now.data["consecutive_errors"], now.data["total_errors"]) == (0, 0)
    assert now.data["last"]["outcome"] == "forced"
    colony.deployment.sees(
        lambda: colony.deployment.notes(record.id, "stale_result"), what="a late exit"
    )


def test_a_session_that_crashes_is_followed_by_one_that_is_told_of_it(colony: Colony) -> None:
    colony.start("owl")
    colony.sees("owl")
    colony.reaches("owl", "session_complete")
    lost = colony.send("owl", "look at the fuse box", {"exit": 3})
    colony.sees("owl", 2, "end")

    cooling = colony.reaches("owl", "cooling_down")
    third = colony.sees("owl", 3)

    assert (cooling.data["consecutive_errors"], cooling.data["total_errors"]) == (1, 1)
    assert cooling.data["cooling_ms"] == 2_000
    assert colony.event("owl", "session_error").payload["exit_code"] == 3
    assert third["mail"] == [], "it is delivered once"
    again = third["prompt"].partition("# What the session before you had been sent")[2]
    assert lost in again
    assert "look at the fuse box" in again
    started, elapsed = (
        colony.event("owl", name).at_ms for name in ("session_error", "backoff_elapsed")
    )
    assert 2_000 <= elapsed - started < 3_500


def test_launches_that_fail_in_a_row_end_the_agent_with_the_last_reason(colony: Colony) -> None:
    colony.loops.start(
        "owl", repo=colony.repo, command="no-such-program --at-all", max_consecutive_errors=2
    )

    stopped = colony.reaches("owl", "stopped")

    assert colony.triggers("owl").count("session_error") == 2
    assert "session_started" not in colony.triggers("owl")
    assert stopped.data["stopped"]["by"] == "fatal"
    assert "2 errors in a row" in stopped.data["stopped"]["reason"]
    assert "no-such-program" in stopped.data["stopped"]["reason"]
    colony.nothing_left("owl")


def test_a_session_that_takes_too_long_is_a_timeout_and_no_other_error(colony: Colony) -> None:
    colony.start("owl", {"wait": str(colony.folder / "never")}, session_timeout_s=1)
    first = colony.sees("owl")

    cooling = colony.reaches("owl", "cooling_down")

    assert cooling.data["last"]["outcome"] == "timeout"
    assert cooling.data["total_errors"] == 1
    colony.sees("owl", 2)
    assert not is_alive(first["pid"])


def test_agents_write_to_each_other_and_never_to_themselves_or_nobody(colony: Colony) -> None:
    colony.start("owl")
    colony.start("bat")
    for name in ("owl", "bat"):
        colony.reaches(name, "session_complete")

    steps = [
        {"type": "mail", "to": "bat", "text": "the barn is open", "kind": "status"},
        {"type": "mail", "to": "owl", "text": "me again"},
        {"type": "mail", "to": "cat", "text": "anybody?"},
    ]
    colony.send("owl", *steps)

    [mail] = colony.sees("bat", 2)["mail"]
    [letter] = colony.loops.mailbox.listed("bat")
    assert (letter["id"], letter["sender"], letter["kind"]) == (mail, "owl", "status")
    of = colony.record("owl").id
    refused = colony.deployment.sees(
        lambda: len(found := colony.deployment.notes(of, "mail_refused")) == 2 and found,
        what="refusals",
    )
    told = [note.detail["reason"] for note in refused]
    assert "owl cannot write to itself" in told[0]
    assert told[1] == "the agent 'cat' was never started"


def test_a_name_that_was_stopped_begins_a_new_life_with_the_mail_and_the_branch_that_were_left(
    colony: Colony,
) -> None:
    busy = str(colony.folder / "go")
    colony.start("owl")
    colony.reaches("owl", "session_complete")
    colony.send("owl", {"write": "kept.txt"}, {"wait": busy})
    colony.sees("owl", 2)
    left = colony.send("owl", "for whoever comes next")
    colony.loops.stop("owl")
    colony.nothing_left("owl")

    again = colony.start("owl")
    first = colony.sees("owl", 3)

    assert again.id == "owl/2"
    assert first["mail"] == [left]
    assert git(colony.repo, "show", "interlock/agents/owl:kept.txt") == "owl"
    colony.reaches("owl", "session_complete")


@pytest.mark.proof
def test_a_killed_keeper_is_an_error_and_the_next_session_waits_until_its_process_is_gone(
    colony: Colony,
) -> None:
    colony.start("owl", {"wait": str(colony.folder / "never")})
    first = colony.sees("owl")
    record = colony.reaches("owl", "running")
    [entry] = [one for one in record.entries if one.name == "session"]

    os.kill(int(entry.holder.rpartition(":")[2]), signal.SIGKILL)
    second = colony.sees("owl", 2)

    assert not is_alive(first["pid"])
    assert second["at"] > first["at"]
    assert colony.record("owl").data["total_errors"] == 1
    assert "code" in colony.record("owl").data["last"]


@pytest.mark.parametrize("state", ["session_complete", "cooling_down", "running", "interrupting"])
def test_stopped_in_any_state_an_agent_leaves_nothing(colony: Colony, state: str) -> None:
    never = {"wait": str(colony.folder / "never")}
    steps = {"session_complete": [], "cooling_down": [{"exit": 1}]}
    colony.start("owl", *steps.get(state, [{"stubborn": True}, never]), grace_s=60)
    colony.sees("owl")
    if state == "interrupting":
        colony.reaches("owl", "running")
        colony.send("owl", urgent=True)
        colony.sees("owl", what="asked")
    colony.reaches("owl", state)

    stopped = colony.loops.stop("owl", wait_s=30)
    again = colony.loops.stop("owl", reason="really")

    assert stopped.entries == ()
    assert (again.version, again.data) == (stopped.version, stopped.data)
    [note] = colony.deployment.notes(stopped.id, "ignored")
    assert note.detail["why"] == "it has stopped already"
    colony.nothing_left("owl")


def test_five_deployments_in_a_row_stop_no_agent(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment()
    deployment.beat()
    colony = Colony(deployment, tmp_path)
    go = colony.folder / "go"
    worker = deployment.worker()
    colony.start("owl", {"wait": str(go)})
    first = colony.sees("owl")

    for _ in range(5):
        worker.stop()
        worker = deployment.worker()
    assert is_alive(first["pid"])
    go.touch()
    colony.reaches("owl", "session_complete")
    colony.send("owl")
    colony.sees("owl", 2)

    assert colony.record("owl").data["total_errors"] == 0
