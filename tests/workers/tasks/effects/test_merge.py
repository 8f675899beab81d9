"""Work and its merge are judged in checkouts, before the target has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.machines import MACHINES
from interlock.workers.client import Client
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.gateways.git.changes import commit_all
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.gateways.git.worktree import add_worktree
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from interlock.workers.tasks.client import Tasks
from tests.workers.engine import running
from tests.workers.gateways.git.scene import AGENT, git, make_repository, write
from tests.workers.tasks.claims import Claimed, claimed
from tests.workers.threads.threads import client_of

# Green as long as only one of the two files is there.
ONE_FILE = "! { test -e one && test -e two; }"
# Looks for a configuration as tools do: in its folder, and in all folders above it.
TOOL = """\
folder=$PWD
while [ "$folder" ]; do
    if [ -e "$folder/pyproject.toml" ]; then exit 1; fi
    folder=${folder%/*}
done
"""


@pytest.fixture
def client(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    return client_of(server.url, prefix, home=tmp_path / "home")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.open(make_repository(tmp_path / "repo"))


def delivered(
    client: Client,
    repository: Repository,
    file: str,
    command: str,
    *,
    add: Callable[[Path], None] = lambda _: None,
    **fields: Any,
) -> Claimed:
    """Bring a task to its verification by a command; its agent has committed a file.

    `add` adds more to the worktree before the commit.
    """
    signals = [{"type": "test_passes", "value": command}]
    where = {"repo": str(repository.root), "signals": signals}
    claim = claimed(client, f"b/{file}", **where, **fields).alive()
    names = claim.names
    folder = names.worktree(client.settings)
    tree = add_worktree(repository, branch=names.branch, folder=folder, base="main")
    write(folder, **{file: "x\n"})
    add(folder)
    assert commit_all(repository, tree, message=file, identity=AGENT)
    return claim.delivered()


def perform(client: Client, task_id: str, name: str) -> str:
    """Perform an effect that a task owes, and return the state of the task."""
    runner = Runner(client.dispatch, Resources(client.settings))
    (entry,) = [entry for entry in client.show(task_id).entries if entry.name == name]
    running.perform(runner, MACHINES["task"], name, handlers()[name], entry.key(task_id))
    return client.show(task_id).state


def merge(client: Client, task_id: str) -> str:
    """Perform the merge of a task: first it takes the hold on its target, if it is free."""
    if perform(client, task_id, "merge") == "done":
        perform(client, task_id, "merge")
    return client.show(task_id).state


def test_two_tasks_that_are_green_alone_and_red_together_are_not_both_merged(
    client: Client, repository: Repository
) -> None:
    for file in ("one", "two"):
        delivered(client, repository, file, ONE_FILE)
    for task_id in ("b/one", "b/two"):
        assert perform(client, task_id, "verification") == "done"
    assert perform(client, "b/one", "merge") == "done", "it holds the target now"
    assert perform(client, "b/one", "merge") == "closed"
    before = git(repository.root, "rev-parse", "main")

    assert perform(client, "b/two", "merge") == "done"
    assert perform(client, "b/two", "merge") == "failed"

    failure = client.show("b/two").data["failure"]
    assert failure["reason"].startswith(
        "after a merge with what main has now, the completion signal test_passes ! { test -e one"
    )
    assert git(repository.root, "rev-parse", "main") == before
    assert git(repository.root, "status", "--porcelain") == ""
    assert "==" not in git(repository.root, "worktree", "list"), "its checkout is removed"


def test_the_tools_of_a_task_find_no_configuration_of_the_folder_of_the_home(
    client: Client, repository: Repository
) -> None:
    project = client.settings.home.parent / "pyproject.toml"
    project.touch()
    claim = delivered(client, repository, "one", TOOL)

    perform(client, "b/one", "verification")

    assert client.show("b/one").data["verified"]
    assert not claim.names.worktree(client.settings).is_relative_to(project.parent)


def test_a_merge_into_a_checkout_that_the_user_changes_says_so_until_the_user_has_stashed(
    client: Client, repository: Repository
) -> None:
    write(repository.root, price="1\n")
    git(repository.root, "add", "price")
    git(repository.root, "commit", "-m", "price")
    delivered(client, repository, "one", "true")
    for name in ("verification", "merge"):
        assert perform(client, "b/one", name) == "done"
    write(repository.root, price="2\n")

    assert perform(client, "b/one", "merge") == "done"

    reason = f"{repository.root} has uncommitted changes ('price'); commit, stash or move it"
    (row,) = Tasks(client).of("b")
    assert row["why"].startswith(reason)
    (card,) = client.cards()
    assert card.question.startswith(f"The merge waits: {reason}")
    assert [each.name for each in card.affordances] == ["retry"]
    git(repository.root, "stash")
    assert client.decide("b/one", "retry", proposal=card.proposal).state == "done"
    assert perform(client, "b/one", "merge") == "closed"
    assert client.cards() == []


def latin(folder: Path, text: str) -> None:
    """Write a file whose name is Latin-1, as an old archive has them."""
    (folder / b"caf\xe9.txt".decode(errors="surrogateescape")).write_text(text)


def test_a_conflict_in_a_file_whose_name_is_not_utf8_is_a_failure_that_names_it(
    client: Client, repository: Repository
) -> None:
    claim = delivered(client, repository, "one", "true", add=lambda tree: latin(tree, "agent"))
    assert perform(client, claim.task.record.id, "verification") == "done"
    latin(repository.root, "user")
    git(repository.root, "add", "-A")
    git(repository.root, "commit", "-m", "the user has such a file too")

    assert merge(client, "b/one") == "failed"

    failure = client.show("b/one").data["failure"]
    assert failure["reason"] == r"it conflicts with what main has now: caf\xe9.txt"
    assert failure["paths"] == [r"caf\xe9.txt"]


def test_no_name_of_a_file_hides_that_a_task_does_not_own_it(
    client: Client, repository: Repository
) -> None:
    own = {"owned_files": ["one"]}
    claim = delivered(client, repository, "one", "true", add=lambda tree: latin(tree, "x"), **own)

    assert perform(client, claim.task.record.id, "verification") == "failed"

    failure = client.show("b/one").data["failure"]
    assert (failure["code"], failure["paths"]) == ("scope_violation", [r"caf\xe9.txt"])
