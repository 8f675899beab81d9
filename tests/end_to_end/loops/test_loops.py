"""Long-lived agents: sessions, interrupts, pauses after errors, and a stop that leaves nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from interlock.workers.engine.agent_output import look_at
from interlock.workers.engine.printed_calls import output_source
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.loops.agents import Agents
from tests.end_to_end.tasks.coding import git, trees
from tests.processes import is_alive


def test_an_agent_runs_session_after_session_in_its_worktree_with_its_mail(
    agents: Agents,
    owl: str,
) -> None:
    agents.start(owl, identity="You keep the night watch.", instructions="Look at the log.")
    first = agents.wait_for(owl)
    for part in (f"# You are {owl}", "You keep the night watch.", "Look at the log.", "begin"):
        assert part in first["prompt"]
    agents.reaches(owl, "session_complete")

    sent = agents.send(owl, {"write": "found.txt"}, {"print": "hoot"}, kind="task")
    second = agents.wait_for(owl, 2)

    assert (second["mail"], second["seq"]) == ([sent], "2")
    assert agents.loops.show(owl)["prompt"] == second["prompt"], (
        "the command read the prompt that was stored"
    )
    client = agents.loops.client
    output = {owl: output_source(client, agents.reaches(owl, "session_complete"))}
    agents.deployment.sees(
        lambda: (part := look_at(client.dispatch, output)[owl].part) and part.output == b"hoot\n",
        what="the worker publishes what the session has printed",
    )
    [message] = agents.loops.mailbox.newest(owl)
    assert message["delivered_at_ms"] == agents.event(owl, "session_started").at_ms
    assert agents.record(owl).data["consecutive_errors"] == 0

    agents.loops.stop(owl, reason="the night is over")
    agents.assert_nothing_left(owl)
    assert agents.record(owl).data["stopped"] == {"by": "operator", "reason": "the night is over"}
    assert git(agents.repo, "show", f"interlock/agents/{owl}:found.txt") == owl
    assert trees(agents.repo) == 1


def test_much_urgent_mail_is_one_interrupt_and_all_of_it_is_in_the_next_prompt(
    agents: Agents,
    owl: str,
) -> None:
    go, never = agents.folder / "go", {"wait": str(agents.folder / "never")}
    agents.start(owl)
    agents.reaches(owl, "session_complete")
    agents.send(owl, {"stubborn": True}, {"wait": str(go)})
    busy = agents.wait_for(owl, 2)
    agents.reaches(owl, "running")

    sent = [agents.send(owl, never, urgent=True) for _ in range(2)]
    agents.wait_for(owl, what="interrupted")
    go.touch()
    following = agents.wait_for(owl, 3)

    assert agents.triggers(owl).count("urgent_message") == 1
    assert following["mail"] == sent
    assert following["seq"] == busy["seq"], "an interrupted session has the same number"
    assert agents.reaches(owl, "running").data["total_errors"] == 0


def test_an_interrupted_session_that_does_not_end_is_killed_and_counts_as_no_error(
    agents: Agents,
    owl: str,
) -> None:
    agents.start(owl, {"stubborn": True}, {"wait": str(agents.folder / "never")})
    first = agents.wait_for(owl)
    record = agents.reaches(owl, "running")

    agents.send(owl, urgent=True)
    interrupted = agents.wait_for(owl, what="interrupted")
    agents.reaches(owl, "interrupting")
    agents.make_due(owl, "grace")
    second = agents.wait_for(owl, 2)

    assert interrupted["pid"] == first["pid"]
    assert not is_alive(first["pid"]), "the next session starts only when the last is gone"
    assert second["at"] > interrupted["at"]
    assert "grace_exceeded" in agents.triggers(owl)
    now = agents.reaches(owl, "running")
    assert (now.data["consecutive_errors"], now.data["total_errors"]) == (0, 0)
    assert now.data["last"]["outcome"] == "forced"
    agents.deployment.sees(
        lambda: agents.deployment.notes(record.id, "stale_result"), what="its exit arrives late"
    )


def test_the_session_after_a_crash_is_shown_the_mail_of_the_crashed_one(
    agents: Agents, owl: str
) -> None:
    agents.start(owl)
    agents.wait_for(owl)
    agents.reaches(owl, "session_complete")
    lost = agents.send(owl, "look at the fuse box", {"exit": 3})
    agents.wait_for(owl, 2, "end")

    cooling = agents.after(owl, "session_error")
    third = agents.wait_for(owl, 3)

    assert cooling.state == "cooling_down"
    assert (cooling.data["consecutive_errors"], cooling.data["total_errors"]) == (1, 1)
    assert cooling.data["cooling_ms"] == 2_000
    assert agents.event(owl, "session_error").payload["exit_code"] == 3
    assert third["mail"] == [], "mail is delivered once"
    shown_again = third["prompt"].partition("# What the session before you had been sent")[2]
    assert lost in shown_again
    assert "look at the fuse box" in shown_again
    started, elapsed = (
        agents.event(owl, name).at_ms for name in ("session_error", "backoff_elapsed")
    )
    assert elapsed - started >= 2_000


def test_sessions_that_fail_to_start_in_a_row_stop_the_agent_with_the_last_error(
    agents: Agents,
    owl: str,
) -> None:
    agents.loops.start(
        owl, repo=agents.repo, command="no-such-program --at-all", max_consecutive_errors=2
    )

    stopped = agents.reaches(owl, "stopped")

    assert agents.triggers(owl).count("session_error") == 2
    assert "session_started" not in agents.triggers(owl)
    assert stopped.data["stopped"]["by"] == "fatal"
    assert "2 errors in a row" in stopped.data["stopped"]["reason"]
    assert "no-such-program" in stopped.data["stopped"]["reason"]
    agents.assert_nothing_left(owl)


def test_a_session_that_takes_too_long_is_a_timeout(agents: Agents, owl: str) -> None:
    agents.start(owl, {"wait": str(agents.folder / "never")}, session_timeout_s=600)
    first = agents.wait_for(owl)
    agents.reaches(owl, "running")
    agents.make_due(owl, "session")

    cooling = agents.after(owl, "session_timeout")

    assert cooling.state == "cooling_down"
    assert cooling.data["last"]["outcome"] == "timeout"
    assert cooling.data["total_errors"] == 1
    agents.wait_for(owl, 2)
    assert not is_alive(first["pid"])


def test_agents_write_to_each_other_but_not_to_themselves_or_unknown_names(
    agents: Agents, owl: str
) -> None:
    bat = f"bat-{agents.deployment.scope}"
    agents.start(owl)
    agents.start(bat)
    for name in (owl, bat):
        agents.reaches(name, "session_complete")

    steps = [
        {"type": "mail", "to": bat, "text": "the barn is open", "kind": "status", "id": "barn"},
        {"type": "mail", "to": owl, "text": "me again"},
        {"type": "mail", "to": "cat", "text": "anybody?"},
    ]
    agents.send(owl, *steps)

    [mail] = agents.wait_for(bat, 2)["mail"]
    [message] = agents.loops.mailbox.newest(bat)
    assert (message["id"], message["sender"], message["kind"]) == (mail, owl, "status")
    life = agents.record(owl).id
    refused = agents.deployment.sees(
        lambda: len(found := agents.deployment.notes(life, "mail_refused")) == 2 and found,
        what="refusals",
    )
    reasons = [note.detail["reason"] for note in refused]
    assert f"{owl} cannot write to itself" in reasons[0]
    assert reasons[1].startswith("the agent 'cat' was never started")

    agents.reaches(owl, "session_complete")
    agents.send(owl, steps[0])
    sent = agents.deployment.sees(
        lambda: len(found := agents.deployment.notes(life, "mail_sent")) == 2 and found,
        what="a later session that sends the mail again",
    )
    assert [note.detail["mail"] for note in sent] == [mail, mail]
    assert len(agents.loops.mailbox.newest(bat)) == 1, "mail with an id is sent once"


def test_a_stopped_name_starts_again_with_its_branch_and_its_unread_mail(
    agents: Agents,
    owl: str,
) -> None:
    written, busy = agents.folder / "written", {"wait": str(agents.folder / "go")}
    agents.start(owl)
    agents.reaches(owl, "session_complete")
    agents.send(owl, {"write": "kept.txt"}, {"write": str(written)}, busy)
    agents.deployment.sees(written.exists, what="the session has written")
    left = agents.send(owl, "for the next life")
    agents.loops.stop(owl)
    agents.assert_nothing_left(owl)

    again = agents.start(owl)
    first = agents.wait_for(owl, 3)

    assert again.id == f"{owl}/2"
    assert first["mail"] == [left]
    assert git(agents.repo, "show", f"interlock/agents/{owl}:kept.txt") == owl
    agents.reaches(owl, "session_complete")


@pytest.mark.proof
def test_a_killed_supervisor_is_an_error_and_the_next_session_waits_for_its_process_to_end(
    agents: Agents,
    owl: str,
) -> None:
    agents.start(owl, {"wait": str(agents.folder / "never")})
    first = agents.wait_for(owl)
    record = agents.reaches(owl, "running")
    [entry] = [one for one in record.entries if one.name == "session"]

    os.kill(int(entry.holder.rpartition(":")[2]), signal.SIGKILL)
    second = agents.wait_for(owl, 2)

    assert not is_alive(first["pid"])
    assert second["at"] > first["at"]
    assert agents.record(owl).data["total_errors"] == 1
    assert "code" in agents.record(owl).data["last"]


@pytest.mark.parametrize("state", ["session_complete", "cooling_down", "running", "interrupting"])
def test_an_agent_that_is_stopped_in_any_state_leaves_nothing(
    agents: Agents, owl: str, state: str
) -> None:
    never = {"wait": str(agents.folder / "never")}
    steps = {"session_complete": [], "cooling_down": [{"exit": 1}]}
    agents.start(owl, *steps.get(state, [{"stubborn": True}, never]), grace_s=60)
    agents.wait_for(owl)
    if state == "interrupting":
        agents.reaches(owl, "running")
        agents.send(owl, urgent=True)
        agents.wait_for(owl, what="interrupted")
    agents.reaches(owl, state)

    stopped = agents.loops.stop(owl, wait_s=120)
    again = agents.loops.stop(owl, reason="really")

    assert stopped.entries == ()
    assert (again.version, again.data) == (stopped.version, stopped.data)
    [note] = agents.deployment.notes(stopped.id, "ignored")
    assert note.detail["why"] == "it has stopped already"
    agents.assert_nothing_left(owl)


def test_five_deployments_in_a_row_stop_no_agent(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment()
    deployment.beat()
    agents = Agents(deployment, tmp_path)
    go = agents.folder / "go"
    worker = deployment.worker()
    agents.start("owl", {"wait": str(go)})
    first = agents.wait_for("owl")

    for _ in range(5):
        worker.stop()
        worker = deployment.worker()
    assert is_alive(first["pid"])
    go.touch()
    agents.reaches("owl", "session_complete")
    agents.send("owl")
    agents.wait_for("owl", 2)

    assert agents.record("owl").data["total_errors"] == 0
