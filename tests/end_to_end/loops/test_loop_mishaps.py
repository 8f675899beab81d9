"""Regression tests of long-lived agents: each case was a bug."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from interlock.kernel.record import Record
from tests.end_to_end.loops.agents import Agents
from tests.processes import is_alive, parent_of

# Eight messages of this length fill a prompt.
LONG_TEXT = "x" * 15_000


def supervisor_of(record: Record) -> int:
    [entry] = [one for one in record.entries if one.name == "session"]
    return int(entry.holder.rpartition(":")[2])


def test_urgent_mail_behind_a_full_prompt_is_one_interrupt_and_no_message_is_skipped(
    agents: Agents,
    owl: str,
) -> None:
    never = {"wait": str(agents.folder / "never")}
    agents.start(owl)
    agents.reaches(owl, "session_complete")
    agents.send(owl, never)
    agents.wait_for(owl, 2)
    agents.reaches(owl, "running")
    plain = [agents.send(owl, LONG_TEXT) for _ in range(12)]

    urgent = agents.send(owl, "the barn is on fire", urgent=True)
    answered = agents.wait_for(owl, 3)
    following = agents.wait_for(owl, 4)

    assert urgent in answered["mail"]
    read = [*answered["mail"], *following["mail"]]
    assert sorted(read) == sorted([*plain, urgent])
    assert [one for one in read if one != urgent] == plain
    agents.reaches(owl, "session_complete")
    assert agents.triggers(owl).count("urgent_message") == 1
    assert agents.record(owl).data["ahead"] == [urgent]
    last = agents.send(owl)
    assert agents.wait_for(owl, 5)["mail"] == [last]
    data = agents.reaches(owl, "session_complete").data
    assert (data["acknowledged"], data["ahead"]) == (last, []), (
        "all mail before it has been given as well"
    )


def test_mail_of_a_successful_session_is_not_shown_again_after_a_failed_start(
    agents: Agents,
    owl: str,
) -> None:
    agents.start(owl)
    agents.reaches(owl, "session_complete")
    answered = agents.send(owl, "look at the fuse box")
    agents.wait_for(owl, 2, "end")
    complete = agents.reaches(owl, "session_complete")
    script = agents.folder / f"{owl}.py"
    kept = script.read_text()
    script.write_text("this is no program")

    agents.send(owl, "and at the roof")
    agents.reaches(owl, "cooling_down")
    script.write_text(kept)
    third = agents.wait_for(owl, 3)

    assert complete.data["given"] == []
    assert answered not in third["prompt"]


@pytest.mark.proof
def test_the_next_session_runs_alone_after_supervisor_and_watchdog_died_together(
    agents: Agents,
    owl: str,
) -> None:
    agents.start(owl, {"stubborn": True}, {"wait": str(agents.folder / "never")})
    first = agents.wait_for(owl)
    supervisor = supervisor_of(agents.reaches(owl, "running"))
    watchdog = parent_of(first["pid"])
    assert parent_of(watchdog) == supervisor

    # A stopped watchdog cannot kill the session when the supervisor dies.
    os.kill(watchdog, signal.SIGSTOP)
    for pid in (supervisor, watchdog):
        os.kill(pid, signal.SIGKILL)
    second = agents.wait_for(owl, 2)

    assert not is_alive(first["pid"])
    assert second["at"] > first["at"]
    agents.loops.stop(owl, wait_s=120)
    agents.assert_nothing_left(owl)


def test_uncommitted_changes_on_another_branch_stay_in_the_worktree_after_a_stop(
    agents: Agents,
    owl: str,
) -> None:
    branch = {"sh": "git checkout -q -b idea && echo half > half.txt"}
    agents.start(owl, branch)
    agents.reaches(owl, "session_complete")
    agents.send(owl)
    agents.wait_for(owl, 2, "end")
    agents.reaches(owl, "session_complete")

    stopped = agents.loops.stop(owl, wait_s=120)

    assert stopped.entries == ()
    assert (Path(stopped.data["worktree"]) / "half.txt").read_text() == "half\n"
    [note] = agents.deployment.notes(stopped.id, "worktree_kept")
    assert "idea" in note.detail["reason"]
