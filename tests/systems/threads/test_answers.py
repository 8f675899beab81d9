"""Schemas accept what `decide` accepts where an answer names a capability with its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import Any

import pytest

from interlock.workers.client import Client
from interlock.workers.gateways.capabilities.capability import validator_of
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import STARTED, WAITS, bring, client_of, proposed, step
from tests.workers.engine.test_card_answers import accepts

# Every field of every answer, with values that fit and values that do not.
VALUES: Mapping[str, tuple[Any, ...]] = {
    "text": ("the thick kind", " ", 3),
    "values": ({}, {"text": "so"}, ["so"]),
    "capability": ("jot", "jot_once", "press", "jott", "", None),
    "parameters": (
        {},
        {"text": "so"},
        {"txt": "so"},
        {"copies": 2, "paper": "thick"},
        {"copies": 2, "paper": "wet"},
        "so",
    ),
    "declared": ({"idempotent": True},),
    "intent": ("to have paper", 3),
    "item_ids": (["one"], [1]),
    "clear": (True, False, "yes"),
    "feedback": ("not so", None),
    "target": ("context", "dinner", None),
    "reason": ("no", None),
    "sure": (True,),
}
ASKS_FOR = {
    "kind": "clarification",
    "capability": "press",
    "parameters": {},
    "blocked_on": "press: for this I still need copies (whole number)",
}


def answers(fields: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Return every field alone, and up to three of the given ones, in every combination."""
    known = [name for name in VALUES if name in (*fields, "sure")]
    together = [group for size in (0, 2, 3) for group in combinations(known, size)]
    for names in [*((name,) for name in VALUES), *together]:
        for values in product(*(VALUES[name] for name in names)):
            yield dict(zip(names, values, strict=True))


@pytest.fixture
def client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def ask_for_values(client: Client, record_id: str) -> None:
    """Bring a thread to the card that asks for a missing parameter of `press`."""
    bring(client, record_id, "awaiting_context_confirmation")
    step(client, record_id, "confirmed", {})
    for trigger, payload in (STARTED, proposed(ASKS_FOR)):
        step(client, record_id, trigger, payload)


@pytest.mark.parametrize("state", [*WAITS, "done_cleanup_unsuccessful", "asks_for_values"])
def test_a_schema_accepts_what_decide_accepts(client: Client, state: str) -> None:
    if state == "asks_for_values":
        ask_for_values(client, "one")
    else:
        bring(client, "one", state)
    record, card = client.show("one"), client.card("one")
    assert card is not None
    for offer in card.affordances:
        validator = validator_of(offer.schema)
        given = list(answers(offer.schema.get("properties", {})))
        accepted = [answer for answer in given if accepts(client, record, offer.trigger, answer)]
        assert accepted == [answer for answer in given if validator.is_valid(answer)], offer.name
        assert accepted


def test_a_card_that_asks_for_values_has_the_schema_of_its_capability(client: Client) -> None:
    ask_for_values(client, "typed")

    card = client.card("typed")

    assert card is not None
    schema = next(offer.schema for offer in card.affordances if offer.name == "provide")
    assert schema["properties"]["capability"] == {"const": "press"}
    parameters = dict(schema["properties"]["parameters"])
    assert parameters.pop("$id") == "urn:interlock:press"
    assert parameters == client.registry["press"].parameters
    assert "declared" not in schema["properties"]
