"""A commit that the user dropped from the target stays out of it, and a person sees what comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.git.repository import Repository
from interlock.systems.tasks.task_diff import task_diff
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.git.scene import commit, git, make_repository
from tests.systems.tasks.effects.work import delivered, perform
from tests.systems.threads.threads import client_of

# Passes only where the dropped file is not there: it fails in a checkout of the branch as it was.
NO_SECRET = "! test -e secret"


@pytest.fixture
def client(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    return client_of(server.url, prefix, home=tmp_path / "home")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository whose last commit the user is about to drop."""
    found = Repository.open(make_repository(tmp_path / "repo"))
    commit(found.root, "a secret", secret="x\n")
    return found


def drop(repository: Repository) -> str:
    """Drop the last commit of main, and return it."""
    dropped = git(repository.root, "rev-parse", "main")
    git(repository.root, "reset", "-q", "--hard", "HEAD~1")
    return dropped


def approve(client: Client) -> str:
    """Approve the only card, and return its question."""
    (card,) = client.cards()
    client.decide(card.record_id, "approve", proposal=card.proposal)
    return card.question


def shown(client: Client) -> list[str]:
    return [file.path for file in task_diff(client.show("b/one"), "", 10_000, 20).files]


def assert_only_the_work_came(repository: Repository, dropped: str) -> None:
    assert git(repository.root, "diff", "--name-only", f"{dropped}~1", "main") == "one"
    assert dropped not in git(repository.root, "rev-list", "main")
    assert not (repository.root / "secret").exists()


def test_the_work_is_verified_and_merged_without_a_commit_that_was_dropped_while_the_agent_worked(
    client: Client, repository: Repository
) -> None:
    delivered(client, repository, "one", NO_SECRET)
    dropped = drop(repository)

    assert perform(client, "b/one", "verification") == "done"

    assert client.show("b/one").data["changes"]["files"] == 1
    assert shown(client) == ["one"]
    assert perform(client, "b/one", "merge") == "closed"
    assert_only_the_work_came(repository, dropped)
    assert shown(client) == ["one"]


def test_a_commit_that_is_dropped_while_a_person_decides_leads_to_a_new_card(
    client: Client, repository: Repository
) -> None:
    delivered(client, repository, "one", "true", needs_approval=True)
    assert perform(client, "b/one", "verification") == "pending_approval"
    dropped = drop(repository)
    assert shown(client) == ["one"], "what the card shows is what will come"
    assert "was put on top of" not in approve(client)

    assert perform(client, "b/one", "merge") == "done"

    before = git(repository.root, "rev-parse", f"{dropped}~1")
    assert git(repository.root, "rev-parse", "main") == before, "nothing is merged yet"
    assert client.dispatch.views.holds("b") == {}
    assert perform(client, "b/one", "verification") == "pending_approval"
    question = approve(client)
    assert question.startswith("Its work was put on top of main, which was reset or rebased, and")
    assert "(1 file, +1 -0," in question
    assert perform(client, "b/one", "merge") == "closed"
    assert_only_the_work_came(repository, dropped)


def test_work_that_needs_what_was_dropped_is_verified_again_and_fails(
    client: Client, repository: Repository
) -> None:
    delivered(client, repository, "one", "test -e secret")
    assert perform(client, "b/one", "verification") == "done"
    drop(repository)
    assert perform(client, "b/one", "merge") == "done"

    assert perform(client, "b/one", "verification") == "failed"

    assert "test -e secret did not pass" in client.show("b/one").data["failure"]["reason"]


def test_work_on_what_was_dropped_is_a_conflict_that_names_the_file(
    client: Client, repository: Repository
) -> None:
    add = "x\nmore\n"
    delivered(client, repository, "one", "true", add=lambda tree: (tree / "secret").write_text(add))
    drop(repository)

    assert perform(client, "b/one", "verification") == "failed"

    failure = client.show("b/one").data["failure"]
    begins = "main was reset or rebased since its agent began, and it conflicts with what main has"
    assert failure["reason"] == f"{begins} now: secret"
    assert failure["paths"] == ["secret"]


def test_what_an_agent_brings_from_a_later_target_is_not_shown_as_its_own(
    client: Client, repository: Repository
) -> None:
    def merge_main(tree: Path) -> None:
        commit(repository.root, "meanwhile", meanwhile="x\n")
        git(tree, "merge", "-q", "--no-edit", "main")

    delivered(client, repository, "one", "true", add=merge_main, owned_files=["one"])

    assert perform(client, "b/one", "verification") == "done"

    assert client.show("b/one").data["changes"]["files"] == 1
    assert shown(client) == ["one"]
