"""What once went wrong with long-lived agents, and is kept from coming back."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from interlock.kernel.record import Record
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.loops.agents import Colony
from tests.processes import is_alive, parent_of

# Eight of them fill a prompt.
LONG = "x" * 15_000


@pytest.fixture
def colony(deployment: Deployment, tmp_path: Path) -> Colony:
    return Colony(deployment, tmp_path)


def keeper_of(record: Record) -> int:
    [entry] = [one for one in record.entries if one.name == "session"]
    return int(entry.holder.rpartition(":")[2])


def test_urgent_mail_behind_more_than_a_prompt_holds_is_one_interrupt_and_no_letter_is_skipped(
    colony: Colony,
) -> None:
    never = {"wait": str(colony.folder / "never")}
    colony.start("owl")
    colony.reaches("owl", "session_complete")
    colony.send("owl", never)
    colony.sees("owl", 2)
    colony.reaches("owl", "running")
    plain = [colony.send("owl", LONG) for _ in range(12)]

    urgent = colony.send("owl", "the barn is on fire", urgent=True)
    answered = colony.sees("owl", 3)
    following = colony.sees("owl", 4)

    assert urgent in answered["mail"]
    read = [*answered["mail"], *following["mail"]]
    assert sorted(read) == sorted([*plain, urgent])
    assert [one for one in read if one != urgent] == plain
    colony.reaches("owl", "session_complete")
    assert colony.triggers("owl").count("urgent_message") == 1
    assert colony.record("owl").data["ahead"] == [urgent]
    last = colony.send("owl")
    assert colony.sees("owl", 5)["mail"] == [last]
    data = colony.reaches("owl", "session_complete").data
    assert (data["acknowledged"], data["ahead"]) == (last, []), "its turn has come, and is over"


def test_letters_that_a_session_has_answered_are_not_shown_again_when_a_launch_fails(
    colony: Colony,
) -> None:
    colony.start("owl")
    colony.reaches("owl", "session_complete")
    answered = colony.send("owl", "look at the fuse box")
    colony.sees("owl", 2, "end")
    complete = colony.reaches("owl", "session_complete")
    script = colony.folder / "owl.py"
    kept = script.read_text()
    script.write_text("this is no program")

    colony.send("owl", "and at the roof")
    colony.reaches("owl", "cooling_down")
    script.write_text(kept)
    third = colony.sees("owl", 3)

    assert complete.data["given"] == []
    assert answered not in third["prompt"]


@pytest.mark.proof
def test_where_keeper_and_watchdog_die_together_the_next_session_still_begins_alone(
    colony: Colony,
) -> None:
    colony.start("owl", {"stubborn": True}, {"wait": str(colony.folder / "never")})
    first = colony.sees("owl")
    keeper = keeper_of(colony.reaches("owl", "running"))
    watchdog = parent_of(first["pid"])
    assert parent_of(watchdog) == keeper

    # Stopped, it cannot do its duty when the keeper goes.
    os.kill(watchdog, signal.SIGSTOP)
    for one in (keeper, watchdog):
        os.kill(one, signal.SIGKILL)
    second = colony.sees("owl", 2)

    assert not is_alive(first["pid"])
    assert second["at"] > first["at"]
    colony.loops.stop("owl", wait_s=30)
    colony.nothing_left("owl")


def test_what_an_agent_has_on_a_branch_of_its_own_choice_is_kept_when_it_stops(
    colony: Colony,
) -> None:
    branch = {"sh": "git checkout -q -b idea && echo half > half.txt"}
    colony.start("owl", branch)
    colony.reaches("owl", "session_complete")
    colony.send("owl")
    colony.sees("owl", 2, "end")
    colony.reaches("owl", "session_complete")

    stopped = colony.loops.stop("owl", wait_s=30)

    assert stopped.entries == ()
    assert (Path(stopped.data["worktree"]) / "half.txt").read_text() == "half\n"
    [note] = colony.deployment.notes(stopped.id, "worktree_kept")
    assert "idea" in note.detail["reason"]
