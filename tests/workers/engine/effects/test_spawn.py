"""The initial data of a child, and children that are refused or cannot be created."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.machines import MACHINES
from interlock.systems.threads.client import Threads
from interlock.systems.threads.machines.thread.changes import child_payload
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import bring
from tests.workers.engine.running import Running, settings_for

PARENT: Any = {
    "inciting": {"source": "mail", "title": "all", "at": "2026-03-02T09:00"},
    "policy": {"composition": "end_to_end"},
    "remind_s": 60,
}


def test_a_part_inherits_source_time_and_policy_and_has_no_cap_of_its_own() -> None:
    payload, bounds = child_payload(PARENT, {"title": "one", "text": "do it"}, ())

    assert payload["inciting"]["source"] == "mail"
    assert (payload["policy"], payload["remind_s"], bounds) == (PARENT["policy"], 60, {})


@pytest.mark.parametrize(
    ("policy", "cap"),
    [
        ("ask_every_step", 200_000),
        ({"composition": "ask_every_step"}, 200_000),
        ({"budget_usd": 0.1}, 100_000),
    ],
)
def test_a_policy_of_its_own_caps_a_part(policy: Any, cap: int) -> None:
    assert child_payload(PARENT, {"title": "one", "policy": policy}, ())[1] == {"spent": cap}


@pytest.mark.parametrize("policy", ["nonsense", {"composition": "nonsense"}, {"budget_usd": "abc"}])
def test_a_child_that_could_not_be_created_is_refused_with_its_parent(policy: Any) -> None:
    part = {"title": "one", "text": "", "policy": policy}
    family = {"inciting": {"title": "all"}, "children": [part]}
    split = {"children": [part], "relationship": "decompose"}

    with pytest.raises(InvalidPayloadError, match="policy"):
        MACHINES["thread"].initial_data(family)
    with pytest.raises(InvalidPayloadError, match="policy"):
        MACHINES["thread"].admit("decomposed", split)


def test_a_parent_waits_for_a_person_where_a_child_has_the_id_of_another_record(
    server: EmbeddedServer, prefix: str
) -> None:
    running = Running(settings_for(server.url, prefix))
    task = {"title": "another's"}
    running.client.submit(task, machine="task", id="shop/11.1")
    asked = bring(running.client, "shop", "awaiting_confirmation")
    parts = [{"title": name, "text": name} for name in ("one", "two")]
    split = Threads(running.client).decompose("shop", parts, proposal=asked.proposal)

    assert split.version == 11
    said = running.perform("shop", name="spawn")
    assert "IdTakenError: id_taken: the name 'shop/11.1' is taken" in said
    assert running.entry("shop", "spawn").state == "owed", "it is tried again, then a person asked"
    assert running.dispatch.views.counted("shop", "children:11") == {"*"}
