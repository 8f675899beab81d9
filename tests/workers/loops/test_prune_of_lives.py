"""Lives of agents are forgotten one by one; their inbox goes with the last, and never before."""

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
from tests.races.in_process_worker import InProcessWorker
from tests.waiting import until
from tests.workers.gateways.git.scene import make_repository
from tests.workers.loops.lives import Nest


@pytest.fixture
def nest(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Nest:
    more: Any = {"INTERLOCK_PRUNE_AFTER_S": "0.001", "INTERLOCK_ARCHIVE": str(tmp_path / "archive")}
    return Nest(InProcessWorker(server.url, prefix, tmp_path / "home", **more))


def pruned(nest: Nest, *lives: str) -> Counter[str]:
    """Prune the partition of these lives, as soon as each is old enough."""
    views = nest.worker.dispatch.views
    old = max(nest.record(of).since_ms for of in lives) + 2
    until(lambda: views.now_ms() > old, what="they are old enough")
    return prune.run(nest.worker.dispatch, partition_of(lives[0]))


def texts(nest: Nest) -> list[str]:
    return [str(one.said["text"]) for one in nest.worker.dispatch.inboxes.after("owl/1", "0-0", 10)]


def test_an_ended_life_is_archived_and_forgotten_and_who_lives_now_keeps_the_mail(
    nest: Nest, tmp_path: Path
) -> None:
    nest.born("owl/1")
    seen = nest.mailbox.send("owl", "seen")
    nest.mailbox.send("owl", "left")
    nest.session("owl/1", seen)
    nest.ended("owl/1")
    nest.born("owl/2")

    assert pruned(nest, "owl/1") == Counter(pruned=1)

    with pytest.raises(UnknownRecordError):
        nest.record("owl/1")
    assert nest.mailbox.lives("owl") == [nest.mailbox.living("owl")] == ["owl/2"]
    assert texts(nest) == ["seen", "left"]
    assert nest.session("owl/2", nest.mailbox.send("owl", "new"))
    assert texts(nest) == ["seen", "left", "new"]
    kept = (tmp_path / "archive" / "owl" / "1.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["id"] for line in kept] == ["owl/1"] * len(kept)


def test_the_inbox_goes_with_the_last_life_in_whatever_order_they_ended(nest: Nest) -> None:
    lives = ("owl/1", "owl/2", "owl/3")
    for of in lives:
        nest.born(of)
        nest.mailbox.send("owl", f"to {of}")
        nest.ended(of)
    nest.born("bat/1")
    nest.mailbox.send("bat", "another's")
    assert len(texts(nest)) == 3

    assert pruned(nest, *lives) == Counter(pruned=3)

    assert texts(nest) == []
    assert nest.mailbox.lives("owl") == []
    assert [one["text"] for one in nest.mailbox.listed("bat")] == ["another's"]


def test_a_life_that_is_still_cleared_away_keeps_its_inbox_and_that_of_the_others(
    nest: Nest,
) -> None:
    nest.ended(nest.born("owl/1"))
    nest.born("owl/2")
    nest.mailbox.send("owl", "never read")
    nest.worker.client.fire("owl/2", "operator_stop")
    assert nest.worker.due_effects("owl/2", "retirement")

    assert pruned(nest, "owl/1", "owl/2") == Counter(pruned=1, busy=1)
    assert texts(nest) == ["never read"]
    nest.cleared("owl/2")
    # Behind the others: one that was busy is looked at again later.
    nest.worker.dispatch.indexes.postpone(nest.record("owl/2").id, 10**9)

    assert pruned(nest, "owl/2") == Counter(pruned=1)
    assert texts(nest) == []


def test_who_is_born_while_the_last_life_is_forgotten_keeps_the_inbox(
    nest: Nest, monkeypatch: pytest.MonkeyPatch
) -> None:
    nest.born("owl/1")
    nest.mailbox.send("owl", "left")
    nest.ended("owl/1")
    indexes = nest.worker.dispatch.indexes
    forget = indexes.prune

    def born_meanwhile(*given: Any, last: bool, **more: Any) -> str:
        assert last, "nobody else was there when it looked"
        nest.born("owl/2")
        return forget(*given, last=last, **more)

    monkeypatch.setattr(indexes, "prune", born_meanwhile)
    assert pruned(nest, "owl/1") == Counter(pruned=1)

    assert texts(nest) == ["left"]
    assert nest.mailbox.living("owl") == "owl/2"


@pytest.mark.parametrize("command", ["true", "another"])
def test_a_name_of_which_all_is_forgotten_begins_with_the_next_number_and_without_mail(
    nest: Nest, tmp_path: Path, command: str
) -> None:
    repo = make_repository(tmp_path / "repository")
    first = nest.loops.start("owl", repo=repo, command="true", next="on_mail")
    nest.mailbox.send("owl", "never read")
    nest.ended(first.id)
    pruned(nest, first.id)

    again = nest.loops.start("owl", repo=repo, command=command, next="on_mail")

    assert (first.id, again.id) == ("owl/1", "owl/2")
    assert again.data["acknowledged"] == "0-0"
    assert nest.mailbox.listed("owl") == []
