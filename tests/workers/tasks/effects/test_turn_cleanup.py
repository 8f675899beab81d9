"""A turn fails if its task went on without it; its cleanup deletes what is left of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from interlock.kernel.machines import MACHINES
from interlock.kernel.record import partition_of
from interlock.workers.client import Client
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.sweeps.stalls import run
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.gateways.git.worktree import (
    Worktree,
    add_worktree,
    remove_worktree,
    worktrees,
)
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from interlock.workers.tasks.calls import component_call
from interlock.workers.tasks.claim_names import ClaimNames
from interlock.workers.tasks.claims import begin_turn
from interlock.workers.tasks.effects.turn_cleanup import turn_cleanup
from tests.end_to_end.engine.test_stranding import due
from tests.workers.gateways.git.scene import git, make_repository, open_copy
from tests.workers.tasks.claims import Claimed, claimed, fire, taken
from tests.workers.threads.threads import client_of


@pytest.fixture
def interlock_client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def state_after_an_hour(interlock_client: Client, client: redis.Redis, claim: Claimed) -> str:
    """Let an hour pass, perform the cleanup, and return the state of the turn."""
    turn = claim.names.turn
    due(interlock_client.dispatch, client, turn, "recheck")
    run(interlock_client.dispatch, partition_of(turn))
    return state_after_cleanup(interlock_client, turn)


def state_after_cleanup(interlock_client: Client, turn: str) -> str:
    """Perform the cleanup that a turn owes, and return the state of the turn."""
    (entry,) = [
        entry for entry in interlock_client.show(turn).entries if entry.name == "turn_cleanup"
    ]
    runner = Runner(interlock_client.dispatch, Resources(interlock_client.settings))
    runner.perform(MACHINES["turn"], "turn_cleanup", handlers()["turn_cleanup"], entry.key(turn))
    return interlock_client.show(turn).state


def test_the_turn_of_a_task_at_work_goes_on(interlock_client: Client, client: redis.Redis) -> None:
    claim = claimed(interlock_client, "b/one").alive()

    assert state_after_an_hour(interlock_client, client, claim) == "running"
    assert state_after_an_hour(interlock_client, client, claim) == "running"


def test_a_turn_that_its_task_went_on_without_has_failed(
    interlock_client: Client, client: redis.Redis
) -> None:
    claim = claimed(interlock_client, "b/one").alive()
    interlock_client.cancel("b/one")

    assert state_after_an_hour(interlock_client, client, claim) == "failed"
    assert (
        interlock_client.show(claim.names.turn).data["failure"]["reason"]
        == "its task went on without it"
    )


def close(interlock_client: Client, task_id: str) -> None:
    """Bring a new task to its end, merged."""
    claimed(interlock_client, task_id).alive().delivered()
    fire(interlock_client, taken(interlock_client, task_id), "verified", {"commit": "0" * 40})
    fire(interlock_client, taken(interlock_client, task_id), "merged", {"commit": "0" * 40})
    assert interlock_client.show(task_id).state == "closed"


def fail_turn(interlock_client: Client, names: ClaimNames, repository: Repository) -> None:
    """Make the turn of a claim that has failed before its worktree was made."""
    folder = names.worktree(interlock_client.settings)
    where = {"repo": str(repository.root), "target": "main", "worktree": str(folder)}
    begin_turn(interlock_client.dispatch, names, **where)
    call = component_call("assignment", "task_failed", names.turn)
    interlock_client.dispatch.fire(names.turn, "task_failed", {"reason": "by a test"}, call)


def test_the_branches_of_a_closed_task_go_though_other_processes_touch_its_folders_meanwhile(
    interlock_client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close(interlock_client, "b/one")
    repository = open_copy(make_repository(tmp_path / "repository"))
    first, second, last = (ClaimNames("b/one", number) for number in (1, 2, 3))
    listed_folder, made_again = tmp_path / "listed", tmp_path / "made again"
    add_worktree(repository, branch=first.branch, folder=listed_folder, base="main")
    add_worktree(repository, branch=second.branch, folder=made_again, base="main")
    remove_worktree(repository, made_again, force=True)
    made_again.mkdir()
    fail_turn(interlock_client, last, repository)

    def then_one_is_removed(repository: Repository) -> tuple[Worktree, ...]:
        listed = worktrees(repository)
        assert remove_worktree(repository, listed_folder, force=True)
        return listed

    monkeypatch.setitem(turn_cleanup.__globals__, "worktrees", then_one_is_removed)

    assert state_after_cleanup(interlock_client, last.turn) == "reaped"

    assert git(repository.root, "branch", "--list", "interlock/*") == ""
    assert worktrees(repository) == ()
