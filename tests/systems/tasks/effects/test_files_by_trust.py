"""Where a deployment says so, a person agrees to work on more files than trust allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.git.repository import Repository
from interlock.systems.tasks.agents import Agents
from interlock.systems.tasks.machines.trust import Trust
from interlock.workers.config import SettingsError, read_settings
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import openers
from tests.git.scene import make_repository, write
from tests.systems.tasks.effects.work import delivered, perform
from tests.systems.threads.threads import client_of


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.open(make_repository(tmp_path / "repo"))


@pytest.mark.parametrize(
    ("promoted", "limits", "state", "asks"),
    [
        (0, {}, "done", ""),
        (0, {Trust.UNTRUSTED: 2}, "done", ""),
        (0, {Trust.UNTRUSTED: 1}, "pending_approval", "untrusted, and may change 1 file without"),
        (1, {Trust.UNTRUSTED: 0}, "done", ""),
        (1, {Trust.PROBATIONARY: 0}, "pending_approval", "probationary, and may change 0 files"),
        (None, {Trust.UNTRUSTED: 0}, "pending_approval", "untrusted, and may change 0 files"),
    ],
)
def test_a_person_is_asked_about_more_files_than_the_level_of_the_agent_may_change(
    server: EmbeddedServer,
    prefix: str,
    tmp_path: Path,
    repository: Repository,
    promoted: int | None,
    limits: dict[Trust, int],
    state: str,
    asks: str,
) -> None:
    client = client_of(server.url, prefix, home=tmp_path / "home", files_by_trust=limits)
    agents, identity = Agents(client), "unknown"
    if promoted is not None:
        identity = agents.register("b", name="agent", role="any", command="true")
        for _ in range(promoted):
            agents.promote(identity)

    def second_file(tree: Path) -> None:
        write(tree, two="2")

    delivered(client, repository, "one", "true", add=second_file, identity=identity)

    assert perform(client, "b/one", "verification") == state
    if asks:
        (card,) = client.cards()
        assert "(2 files, +2 -0," in card.question
        assert asks in card.question
        client.decide("b/one", "approve", proposal=card.proposal)
        assert client.show("b/one").state == "done"
    assert perform(client, "b/one", "merge") == "closed"


def test_a_level_that_there_is_not_ends_the_start_of_a_worker_and_no_command() -> None:
    settings = read_settings({"INTERLOCK_FILES_BY_TRUST": "low=5"})

    with pytest.raises(SettingsError, match="INTERLOCK_FILES_BY_TRUST: 'low' is no level of trust"):
        [opener(settings) for opener in openers()]
