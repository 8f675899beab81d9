"""Stopped lives are pruned one by one; the inbox of their name goes with the last of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import UnknownRecordError
from interlock.kernel.record import partition_of
from interlock.workers.engine.sweeps import prune
from interlock.workers.gateways.server import EmbeddedServer
from tests.git.scene import make_repository
from tests.races.in_process_worker import InProcessWorker
from tests.sweeping import sweeping
from tests.systems.loops.lives import InProcessAgents
from tests.waiting import until


@pytest.fixture
def agents(server: EmbeddedServer, prefix: str, tmp_path: Path) -> InProcessAgents:
    variables: Any = {
        "INTERLOCK_PRUNE_AFTER_S": "0.001",
        "INTERLOCK_ARCHIVE": str(tmp_path / "archive"),
    }
    return InProcessAgents(InProcessWorker(server.url, prefix, tmp_path / "home", **variables))


def pruned(agents: InProcessAgents, *lives: str) -> Counter[str]:
    """Prune the partition of these lives as soon as each is old enough."""
    views = agents.worker.dispatch.views
    latest_ms = max(agents.record(life).since_ms for life in lives) + 2
    until(lambda: views.now_ms() > latest_ms, what="they are old enough")
    return prune.run(sweeping(agents.worker.dispatch), partition_of(lives[0]))


def texts(agents: InProcessAgents) -> list[str]:
    return [
        str(one.fields["text"]) for one in agents.worker.dispatch.inboxes.after("owl/1", "0-0", 10)
    ]


def test_a_stopped_life_is_archived_and_pruned_and_the_current_life_keeps_the_mail(
    agents: InProcessAgents, tmp_path: Path
) -> None:
    agents.create("owl/1")
    seen = agents.mailbox.send("owl", "seen")
    agents.mailbox.send("owl", "left")
    agents.run_session("owl/1", seen)
    agents.stop("owl/1")
    agents.create("owl/2")

    assert pruned(agents, "owl/1") == Counter(pruned=1)

    with pytest.raises(UnknownRecordError):
        agents.record("owl/1")
    assert agents.mailbox.lives("owl") == [agents.mailbox.current_life("owl")] == ["owl/2"]
    assert texts(agents) == ["seen", "left"]
    assert agents.run_session("owl/2", agents.mailbox.send("owl", "new"))
    assert texts(agents) == ["seen", "left", "new"]
    archived = (tmp_path / "archive" / "owl" / "1.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["id"] for line in archived] == ["owl/1"] * len(archived)


def test_the_inbox_is_deleted_with_the_last_life_in_whatever_order_they_stopped(
    agents: InProcessAgents,
) -> None:
    lives = ("owl/1", "owl/2", "owl/3")
    for life in lives:
        agents.create(life)
        agents.mailbox.send("owl", f"to {life}")
        agents.stop(life)
    agents.create("bat/1")
    agents.mailbox.send("bat", "another's")
    assert len(texts(agents)) == 3

    assert pruned(agents, *lives) == Counter(pruned=3)

    assert texts(agents) == []
    assert agents.mailbox.lives("owl") == []
    assert [one["text"] for one in agents.mailbox.newest("bat")] == ["another's"]


def test_a_life_that_is_not_cleaned_up_yet_is_not_pruned_and_keeps_the_inbox(
    agents: InProcessAgents,
) -> None:
    agents.stop(agents.create("owl/1"))
    agents.create("owl/2")
    agents.mailbox.send("owl", "never read")
    agents.worker.client.fire("owl/2", "operator_stop")
    assert agents.worker.due_effects("owl/2", "agent_cleanup")

    assert pruned(agents, "owl/1", "owl/2") == Counter(pruned=1, busy=1)
    assert texts(agents) == ["never read"]
    agents.clean_up("owl/2")
    # A life that was busy is tried again only later: move the due time behind all others.
    agents.worker.dispatch.indexes.postpone(agents.record("owl/2").id, 10**9)

    assert pruned(agents, "owl/2") == Counter(pruned=1)
    assert texts(agents) == []


def test_a_life_that_is_created_while_the_last_one_is_pruned_keeps_the_inbox(
    agents: InProcessAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents.create("owl/1")
    agents.mailbox.send("owl", "left")
    agents.stop("owl/1")
    indexes = agents.worker.dispatch.indexes
    prune_record = indexes.prune

    def create_meanwhile(*arguments: Any, last: bool, **options: Any) -> str:
        assert last, "there was no other life when the sweep checked"
        agents.create("owl/2")
        return prune_record(*arguments, last=last, **options)

    monkeypatch.setattr(indexes, "prune", create_meanwhile)
    assert pruned(agents, "owl/1") == Counter(pruned=1)

    assert texts(agents) == ["left"]
    assert agents.mailbox.current_life("owl") == "owl/2"


@pytest.mark.parametrize("command", ["true", "another"])
def test_a_name_whose_lives_are_all_pruned_begins_with_the_next_number_and_without_mail(
    agents: InProcessAgents, tmp_path: Path, command: str
) -> None:
    repo = make_repository(tmp_path / "repository")
    first = agents.loops.start("owl", repo=repo, command="true", next="on_mail")
    agents.mailbox.send("owl", "never read")
    agents.stop(first.id)
    pruned(agents, first.id)

    again = agents.loops.start("owl", repo=repo, command=command, next="on_mail")

    assert (first.id, again.id) == ("owl/1", "owl/2")
    assert again.data["acknowledged"] == "0-0"
    assert agents.mailbox.newest("owl") == []
