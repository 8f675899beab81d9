"""A turn fails if its task went on without it; its cleanup deletes what is saved elsewhere."""

from __future__ import annotations

import errno
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from interlock.git.repository import Repository
from interlock.git.worktree import (
    Worktree,
    add_worktree,
    remove_worktree,
    worktrees,
)
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import partition_of
from interlock.systems.tasks.claim_names import ClaimNames
from interlock.systems.tasks.claims import begin_turn, claim, fail_claim, prepare_claim
from interlock.systems.tasks.details import details
from interlock.systems.tasks.effects.turn_cleanup import turn_cleanup
from interlock.workers.client import Client
from interlock.workers.engine.effect_ends import EffectRetriedError
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.sweeps.stalls import run
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from tests.end_to_end.engine.test_stranding import due
from tests.git.scene import commit, git, make_repository, open_copy, write
from tests.sweeping import sweeping
from tests.systems.tasks.claims import Claimed, claimed, fire, submitted, taken
from tests.systems.threads.threads import client_of

SAVED = "refs/interlock/saved"


@pytest.fixture
def interlock_client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def state_after_an_hour(interlock_client: Client, client: redis.Redis, claim: Claimed) -> str:
    """Let an hour pass, perform the cleanup, and return the state of the turn."""
    turn = claim.names.turn
    due(interlock_client.dispatch, client, turn, "recheck")
    run(sweeping(interlock_client.dispatch), partition_of(turn))
    return state_after_cleanup(interlock_client, turn)


def state_after_cleanup(interlock_client: Client, turn: str) -> str:
    """Perform the cleanup that a turn owes, and return the state of the turn."""
    (entry,) = [
        entry for entry in interlock_client.show(turn).entries if entry.name == "turn_cleanup"
    ]
    runner = Runner(interlock_client.dispatch, Resources(interlock_client.settings))
    handler = handlers()["turn.turn_cleanup"]
    runner.perform(MACHINES["turn"], "turn_cleanup", handler, entry.key(turn))
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
    begin_turn(interlock_client.records, names, **where)
    reason = {"reason": "by a test"}
    interlock_client.records.named("assignment").fire(names.turn, "task_failed", reason)


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


@dataclass
class LostTry:
    """A try of a task that has failed: its worktree is not cleaned up yet."""

    client: Client
    repository: Repository
    tree: Worktree
    turn: str

    def cleaned(self) -> Mapping[str, Any]:
        """Clean up, and return what the turn says of the work that is left."""
        assert state_after_cleanup(self.client, self.turn) == "reaped"
        return dict(self.client.show(self.turn).data["left"])

    @property
    def left(self) -> str:
        """Return what `interlock task show` says of the work that is left."""
        return details(self.client, self.client.show("b/one")).get("left", "")

    @property
    def refs(self) -> str:
        """Return the branches and the other refs that are left of the task."""
        form = "--format=%(refname)"
        return git(self.repository.root, "for-each-ref", form, "refs/heads/interlock", SAVED)


@pytest.fixture
def lost_try(server: EmbeddedServer, prefix: str, tmp_path: Path) -> LostTry:
    repository = open_copy(make_repository(tmp_path / "repository"))
    interlock_client = client_of(server.url, prefix, worktrees=tmp_path / "trees")
    records = interlock_client.records
    submitted(interlock_client, "b/one", repo=str(repository.root), target="main", max_retries=0)
    lease = claim(records, interlock_client.show("b/one"), agent="b/agent~one~1")
    assert lease is not None
    prepared = prepare_claim(records, lease, agent="b/agent~one~1")
    fail_claim(records, lease, RuntimeError("by a test"))
    (tree,) = worktrees(repository)
    return LostTry(interlock_client, repository, tree, prepared.turn)


def test_work_that_cannot_be_committed_is_on_the_branch_and_the_task_says_so(
    lost_try: LostTry,
) -> None:
    tree, root = lost_try.tree, lost_try.repository.root
    git(tree.folder, "switch", "-q", "--detach")
    commit(tree.folder, "work", a__txt="an hour of work\n")
    assert str(tree.folder) in lost_try.left

    assert lost_try.cleaned() == {"ref": f"refs/heads/{tree.branch}"}

    assert not tree.folder.exists()
    assert tree.branch in lost_try.left
    command = lost_try.left.partition("`")[2].rstrip("`")
    subprocess.run(shlex.split(command), check=True)
    assert (root.with_name("repository.one@1") / "a.txt").read_text() == "an hour of work\n"


def test_a_worktree_with_work_that_no_branch_can_have_stays_and_the_task_says_why(
    lost_try: LostTry,
) -> None:
    tree = lost_try.tree
    git(tree.folder, "init", "-q", "vendor")
    write(tree.folder, a__txt="an hour of work\n")

    left = lost_try.cleaned()

    assert left["worktree"] == str(tree.folder)
    assert "'vendor'" in left["why"]
    assert (tree.folder / "a.txt").read_text() == "an hour of work\n"
    assert shlex.join(("cd", str(tree.folder))) in lost_try.left
    assert lost_try.refs == "", "the name of the branch is free again"


def test_work_that_cannot_be_saved_now_stays_until_it_can(
    lost_try: LostTry, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = lost_try.tree
    write(tree.folder, a__txt="an hour of work\n")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setitem(turn_cleanup.__globals__, "save_work", full)
        with pytest.raises(EffectRetriedError, match=re.escape(str(tree.folder))):
            lost_try.cleaned()

    assert (tree.folder / "a.txt").read_text() == "an hour of work\n"
    assert str(tree.folder) in lost_try.left


def test_the_worktree_of_a_repository_that_is_gone_stays(lost_try: LostTry) -> None:
    write(lost_try.tree.folder, a__txt="an hour of work\n")
    shutil.rmtree(lost_try.repository.root)

    assert lost_try.cleaned()["worktree"] == str(lost_try.tree.folder)
    assert (lost_try.tree.folder / "a.txt").exists()


def test_nothing_is_left_of_a_worktree_that_somebody_has_deleted(lost_try: LostTry) -> None:
    shutil.rmtree(lost_try.tree.folder)

    assert lost_try.cleaned() == {}

    assert lost_try.refs == ""
    assert git(lost_try.repository.root, "worktree", "list").count("\n") == 0


def test_earlier_work_of_a_closed_task_is_put_away_under_a_ref(
    lost_try: LostTry, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = commit(lost_try.tree.folder, "work", a__txt="an hour of work\n")
    monkeypatch.setitem(turn_cleanup.__globals__, "_is_closed", lambda *_: True)

    left = lost_try.cleaned()

    assert left == {"ref": lost_try.refs}
    assert lost_try.refs.startswith(SAVED)
    assert git(lost_try.repository.root, "rev-parse", str(left["ref"])) == work
