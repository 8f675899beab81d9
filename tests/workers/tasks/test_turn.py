"""How the end of a claim is told, also where what is told does not fit or comes too late."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.machines import MACHINES
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.kernel.store.leases import Lease
from interlock.workers.client import Client
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.processes.agent.process import Exit
from interlock.workers.supervision.reports import AgentFailed
from interlock.workers.tasks.launch_spec import ClaimPaths
from interlock.workers.tasks.turn import TaskTurn, killed, of_failed, stop_hook_refusal, tell
from tests.workers.tasks.claims import Claimed, claimed
from tests.workers.threads.threads import client_of


@pytest.fixture
def here(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def held(here: Client, lease: Lease) -> Work:
    dispatch, machine = here.dispatch, MACHINES[lease.record.machine]
    resources = Resources(here.settings)
    return Work(dispatch, resources, machine, lease, lease_ms=60_000, asked_at=time.monotonic())


def test_a_word_that_does_not_fit_fails_the_task_and_says_which(here: Client) -> None:
    begun = claimed(here, "b/one").alive()

    tell(held(here, begun.task), Outcome("completed", {"summary": " "}), otherwise="failed")

    record = here.show("b/one")
    assert record.state == "failed"
    reason = record.data["failure"]["reason"]
    assert reason.startswith("its report is refused: completed is invalid: summary")


def test_a_word_that_comes_too_late_frees_the_place_and_changes_nothing(here: Client) -> None:
    begun = claimed(here, "b/one").alive()
    work = held(here, begun.task)
    here.cancel("b/one")
    assert "agent" in [entry.name for entry in here.show("b/one").entries]

    tell(work, Outcome("completed", {"summary": "late"}), otherwise="failed")

    record = here.show("b/one")
    assert record.state == "cancelled"
    assert "agent" not in [entry.name for entry in record.entries]


def killed_at_work(here: Client, *, begun: bool) -> Claimed:
    """Tell of an agent that was killed, before or after it gave a sign of life."""
    claim = claimed(here, "b/one")
    place = ClaimPaths(claim.task.key, claim.task.token, claim.place.turn, "", "", "", "")
    turn = TaskTurn(held(here, claim.task), place, here.show(claim.place.agent))
    if begun:
        turn.begin()
    ended = Exit(-9, None, 0, "", "", cut=False, wall_s=1.0, cpu_s=0.1, max_rss_bytes=1)
    turn.tell(turn.failed(ended, AbortReason.UNKNOWN, None))
    return claim


def test_the_turn_of_a_killed_agent_is_left_to_what_becomes_of_its_task(here: Client) -> None:
    begun = killed_at_work(here, begun=True)

    assert here.show("b/one").state == "orphaned"
    assert here.show(begun.place.turn).state == "running"


def test_an_agent_that_is_killed_before_it_began_has_failed_and_says_how(here: Client) -> None:
    begun = killed_at_work(here, begun=False)

    record = here.show("b/one")
    assert record.state == "failed"
    assert "exit code -9" in record.data["failure"]["reason"]
    assert "refused" not in record.data["failure"]["reason"]
    assert here.show(begun.place.turn).state == "failed"


@pytest.mark.parametrize(
    ("code", "by_signal"), [(0, False), (3, False), (128, False), (-9, True), (137, True)]
)
def test_what_a_signal_ended_could_say_nothing(code: int, *, by_signal: bool) -> None:
    assert killed(code) is by_signal


@pytest.mark.parametrize(
    ("told", "abort"),
    [
        (AgentFailed("no"), None),
        (AgentFailed("no", TransitionReason.MAX_TURNS), None),
        (AgentFailed("no", TransitionReason.PROVIDER_413), AbortReason.PROVIDER_ERROR),
        (AgentFailed("no", TransitionReason.COMPACTION_FAILED), AbortReason.COMPACT_FAILURE),
        (AgentFailed("no", None, AbortReason.BASH_ERROR), AbortReason.BASH_ERROR),
    ],
)
def test_what_an_agent_says_of_its_end_is_recorded_in_the_published_words(
    told: AgentFailed, abort: AbortReason | None
) -> None:
    payload = of_failed(told).payload

    assert (payload["why"], payload["abort"]) == (told.reason, abort)


@pytest.mark.parametrize(
    ("hooks", "refusal"),
    [
        ([], ""),
        (["true", "test -e here"], ""),
        (["true", "echo why; false"], "a stop hook refused: echo why; false: exit code 1"),
        (["sleep 60"], "it did not end within 0.5 s"),
        (["test -z $INTERLOCK_STORE_URL"], ""),
    ],
)
def test_a_stop_hook_refuses_by_its_exit_code(
    hooks: list[str], refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_STORE_URL", "redis://secret@nowhere")
    (tmp_path / "here").touch()
    said: Any = stop_hook_refusal(hooks, tmp_path, within_s=0.5)

    assert (refusal in said) if refusal else said == ""


def test_work_whose_worktree_is_gone_is_an_orphan_and_no_failure(
    here: Client, tmp_path: Path
) -> None:
    claim = claimed(here, "b/one")
    gone = str(tmp_path / "gone")
    place = ClaimPaths(claim.task.key, claim.task.token, claim.place.turn, "", gone, "", "")
    turn = TaskTurn(held(here, claim.task), place, here.show(claim.place.agent))
    turn.begin()

    turn.tell(turn.finished("done", 1.0))

    record = here.show("b/one")
    assert (record.state, record.data["lost"]["reason"]) == ("orphaned", "its worktree is gone")
