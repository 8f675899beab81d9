"""Work and its merge are judged in checkouts, before the target has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.git.repository import Repository
from interlock.systems.tasks.client import Tasks
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.git.scene import git, make_repository, write
from tests.systems.tasks.effects.work import delivered, perform
from tests.systems.threads.threads import client_of

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


def test_two_tasks_that_are_green_alone_and_red_together_are_not_both_merged(
    client: Client, repository: Repository
) -> None:
    for file in ("one", "two"):
        delivered(client, repository, file, ONE_FILE)
    for task_id in ("b/one", "b/two"):
        assert perform(client, task_id, "verification") == "done"
    assert perform(client, "b/one", "merge") == "closed"
    before = git(repository.root, "rev-parse", "main")

    assert perform(client, "b/two", "merge") == "failed"

    failure = client.show("b/two").data["failure"]
    assert failure["reason"].startswith(
        "after a merge with what main has now, the completion signal test_passes ! { test -e one"
    )
    assert git(repository.root, "rev-parse", "main") == before
    assert git(repository.root, "status", "--porcelain") == ""
    assert "==" not in git(repository.root, "worktree", "list"), "its checkout is removed"


def test_the_tools_of_a_task_find_no_configuration_of_the_folder_of_the_home(
    server: EmbeddedServer, prefix: str, repository: Repository, tmp_path: Path
) -> None:
    project = tmp_path / "project" / "pyproject.toml"
    project.parent.mkdir()
    project.touch()
    client = client_of(server.url, prefix, home=project.with_name(".interlock"))
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
    assert perform(client, "b/one", "verification") == "done"
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

    assert perform(client, "b/one", "merge") == "failed"

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
