"""A merge that cannot be done now keeps no other one waiting, and says what it waits for."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from interlock.git.repository import Repository
from interlock.kernel.event import EFFECT_FAILED
from interlock.kernel.record import partition_of
from interlock.systems.tasks.client import Tasks
from interlock.workers.client import Client
from interlock.workers.engine import effect_ends
from interlock.workers.gateways.server import EmbeddedServer
from tests.git.scene import commit, git, make_repository
from tests.systems.tasks.claims import claimed, fire, noted, submitted, taken
from tests.systems.tasks.effects.work import delivered, perform
from tests.systems.threads.threads import client_of
from tests.waiting import until


@pytest.fixture
def client(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    return client_of(server.url, prefix, home=tmp_path / "home")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.open(make_repository(tmp_path / "repo"))


@pytest.fixture
def remote(repository: Repository) -> Path:
    """The folder of the remote `origin`."""
    folder = repository.root.with_name("remote.git")
    git(repository.root, "clone", "-q", "--bare", ".", str(folder))
    git(repository.root, "remote", "add", "origin", str(folder))
    return folder


def verified(client: Client, repository: Repository, file: str, **fields: Any) -> None:
    delivered(client, repository, file, "true", **fields)
    assert perform(client, f"b/{file}", "verification") == "done"


def try_again(client: Client, task_id: str) -> str:
    """Answer the card of a merge that waits, and perform its next attempt."""
    (card,) = [card for card in client.cards() if card.record_id == task_id]
    client.decide(task_id, "retry", proposal=card.proposal)
    return perform(client, task_id, "merge")


def why(client: Client, task_id: str) -> str:
    return next(str(row["why"]) for row in Tasks(client).of("b") if row["id"] == task_id)


def held(client: Client) -> dict[str, str]:
    return client.dispatch.views.holds("b")


def test_a_merge_that_fails_holds_nothing_until_it_is_tried_again(
    client: Client, repository: Repository, tmp_path: Path
) -> None:
    other = Repository.open(make_repository(tmp_path / "other"))
    verified(client, repository, "one")
    verified(client, other, "two")
    lock = repository.common / "index.lock"
    lock.touch()

    assert perform(client, "b/one", "merge") == "done"

    assert held(client) == {}
    assert perform(client, "b/two", "merge") == "closed"
    lock.unlink()
    until(lambda: perform(client, "b/one", "merge") == "closed", what="the next attempt")


def test_a_person_is_asked_about_the_lock_of_another_git_that_does_not_go_away(
    client: Client, repository: Repository
) -> None:
    verified(client, repository, "one")
    lock = repository.common / "index.lock"
    lock.touch()

    assert perform(client, "b/one", "merge") == "done"
    assert client.cards() == [], "most locks are gone by the next attempt"
    until(lambda: perform(client, "b/one", "merge") and client.cards(), what="a card")

    (card,) = client.cards()
    assert card.question.startswith(f"The merge waits: another git holds {lock}; wait, or, if no")
    assert why(client, "b/one").startswith(f"another git holds {lock}; wait, or")
    lock.unlink()
    assert try_again(client, "b/one") == "closed"
    assert client.cards() == []


def test_a_merge_waits_in_line_for_its_target_and_says_for_whom_and_what_failed_there(
    client: Client, repository: Repository
) -> None:
    for name in ("one", "two"):
        verified(client, repository, name)
    one = taken(client, "b/one")
    fire(client, one, "merge_begun")
    noted(client, "b/one", EFFECT_FAILED, effect=one.suffix, attempt=1, detail="no luck")

    assert perform(client, "b/two", "merge") == "done"

    (entry,) = [entry for entry in client.show("b/two").entries if entry.name == "merge"]
    assert (entry.state, entry.attempts) == ("owed", 0), "it waits, and no attempt has failed"
    (name,) = held(client)
    waits = f"it waits for b/one, which holds {name}; its last attempt failed: no luck"
    assert (why(client, "b/two"), why(client, "b/one")) == (waits, "")
    assert client.explain("b/two", "merge_begun").sentence == waits
    key, partition = entry.key("b/two"), partition_of("b")
    assert key not in client.dispatch.indexes.due_effects(partition, 100)
    fire(client, one, "target_freed")
    assert key in client.dispatch.indexes.due_effects(partition, 100)
    assert why(client, "b/two") == ""
    assert perform(client, "b/two", "merge") == "closed"


def test_a_task_whose_files_another_one_works_on_says_so(client: Client) -> None:
    claimed(client, "b/one", owned_files=["src"])
    submitted(client, "b/two", owned_files=["docs", "src/a.py"])

    waits = "it waits for b/one, which holds src"
    assert why(client, "b/two") == waits
    assert client.explain("b/two", "claimed", {"owner": "me"}).sentence == waits


@pytest.fixture
def hanging(repository: Repository, remote: Path, tmp_path: Path) -> Iterator[Path]:
    """A pipe: the remote hangs until somebody has written to it, and refuses then."""
    assert remote.is_dir()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    git(repository.root, "config", "remote.origin.receivepack", f"cat {pipe}; false")
    yield pipe
    descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    os.close(descriptor)


def test_others_merge_while_a_remote_hangs(
    client: Client, repository: Repository, hanging: Path
) -> None:
    verified(client, repository, "one", push="origin")
    verified(client, repository, "two")
    pushing = threading.Thread(target=perform, args=(client, "b/one", "merge"))
    pushing.start()
    try:
        until(lambda: client.show("b/one").data.get("merged"), what="the merge", within_s=30)

        assert held(client) == {}
        assert perform(client, "b/two", "merge") == "closed"
    finally:
        hanging.write_text("")
        pushing.join()
    assert client.show("b/one").state == "done"


def test_a_person_is_asked_at_once_for_access_to_a_remote(
    client: Client, repository: Repository, remote: Path
) -> None:
    says = "echo 'fatal: Authentication failed for https://x' >&2; false"
    git(repository.root, "config", "remote.origin.receivepack", says)
    verified(client, repository, "one", push="origin")

    assert perform(client, "b/one", "merge") == "done"

    next_step = "Its work is merged into main; that is pushed to origin next."
    assert client.outlook(client.show("b/one")) == next_step
    (card,) = client.cards()
    asked = "The merge waits: it is merged into main here, but origin does not have it: git push"
    assert card.question.startswith(asked)
    assert "set up access that works without a question" in card.question
    git(repository.root, "config", "--unset", "remote.origin.receivepack")
    assert try_again(client, "b/one") == "closed"
    assert git(remote, "rev-parse", "main") == git(repository.root, "rev-parse", "main")


def test_what_was_merged_is_not_merged_again_where_only_its_push_is_left(
    client: Client, repository: Repository, remote: Path
) -> None:
    remote.rename(remote.with_name("away"))
    verified(client, repository, "one", push="origin")
    before = git(repository.root, "rev-parse", "main")
    assert perform(client, "b/one", "merge") == "done"
    git(repository.root, "reset", "-q", "--hard", before)
    remote.with_name("away").rename(remote)

    until(lambda: perform(client, "b/one", "merge") == "closed", what="the push")

    assert git(repository.root, "rev-parse", "main") == before, "the user has taken it back"


def test_a_person_is_asked_about_a_remote_that_was_away_five_times(
    client: Client, repository: Repository, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effect_ends, "retry_delay_ms", lambda *_: 0)
    remote.rename(remote.with_name("away"))
    verified(client, repository, "one", push="origin")

    for _ in range(4):
        assert perform(client, "b/one", "merge") == "done"
    assert client.cards() == []
    assert perform(client, "b/one", "merge") == "done"

    (card,) = client.cards()
    assert "it is merged into main here, but origin does not have it" in card.question


def test_a_person_is_asked_at_once_for_room_on_a_full_disk(
    client: Client, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    verified(client, repository, "one")
    # The package has a function of the name of this module.
    monkeypatch.setattr(
        import_module("interlock.systems.tasks.effects.merge"), "merge_branch", write
    )

    assert perform(client, "b/one", "merge") == "done"

    (card,) = client.cards()
    assert "No space left on device" in card.question
    assert held(client) == {}


def test_the_next_claim_of_a_task_is_merged_although_the_push_of_an_earlier_one_was_refused(
    client: Client, repository: Repository, remote: Path
) -> None:
    other = repository.root.with_name("other")
    git(repository.root, "clone", "-q", str(remote), str(other))
    commit(other, "theirs", theirs="x\n")
    git(other, "push", "-q", "origin", "main")
    verified(client, repository, "one", push="origin")

    assert perform(client, "b/one", "merge") == "failed"

    assert "but origin does not have it" in client.show("b/one").data["failure"]["reason"]
    client.fire("b/one", "retried")
    assert "merged" not in client.show("b/one").data
