"""The schema of each answer of each machine's cards accepts what `Client.decide` accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import pytest

from interlock.kernel.errors import CallError
from interlock.kernel.machine import Machine
from interlock.kernel.machines import LISTED, MACHINES
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.table import PERSON, Waiting
from interlock.workers.client import Client
from interlock.workers.engine.answer_commands import example_answer, needs_answer
from interlock.workers.engine.card import Card, card_of
from interlock.workers.gateways.capabilities.capability import validator_of
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.samples import SAMPLES
from tests.systems.threads.threads import client_of

Schema = Mapping[str, Any]
CARDS = [
    (machine.name, str(stage.state))
    for machine in LISTED.values()
    for stage in machine.stages
    if isinstance(stage, Waiting) and stage.affordances
]
# Values of every type; most of them do not fit a field.
STRANGE: tuple[Any, ...] = (
    None,
    "so",
    " ",
    "",
    "3",
    3,
    3.0,
    1.5,
    -1,
    True,
    [],
    ["so"],
    [3.0],
    {},
    {"a": 1},
)


def plain(schema: Schema, defs: Schema) -> Schema:
    """Return a field's schema without its reference, and without the branch for null."""
    if "$ref" in schema:
        return plain(defs[schema["$ref"].rpartition("/")[2]], defs)
    # Beside a type, the branches are rules for the fields of one object.
    either = () if "type" in schema else schema.get("anyOf", ())
    branches = [branch for branch in either if branch != {"type": "null"}]
    return plain(branches[0], defs) if branches else schema


def values(field: Schema, defs: Schema) -> tuple[list[Any], list[Any]]:
    """Return values that fit a field's schema, and some at its borders, most of which do not."""
    schema = plain(field, defs)
    fixed = schema.get("enum") or [schema[name] for name in ("const",) if name in schema]
    least, most = schema.get("minimum", 0), schema.get("maximum", 1)
    match "fixed" if fixed else schema.get("type"):
        case "fixed":
            return list(fixed), [f"{fixed[0]}s"]
        case "string":
            length = schema.get("maxLength", 1)
            return ["word", "a word", "w" * length], ["w" * (length + 1)]
        case "integer" | "number":
            return [most, least], [least - 1, most + 1]
        case "boolean":
            return [True, False], []
        case "array":
            fits, others = values(schema.get("items", {}), defs)
            return [fits[:1], []], [[other] for other in (*others, None, 3)]
        case _:
            parts = {
                name: values(part, defs) for name, part in schema.get("properties", {}).items()
            }
            whole = {name: fits[0] for name, (fits, _) in parts.items()}
            each = [{name: value} for name, value in whole.items()]
            each += [one | other for one, other in combinations(each, 2)]
            odd = [
                {name: other}
                for name, (_, others) in parts.items()
                for other in (*others, None, 3.0, "3")
            ]
            return [whole, *each, {}], [*odd, {"x": 1}]


def answers(machine: Machine, trigger: str, schema: Schema) -> Iterator[dict[str, Any]]:
    """Yield answers with the fields of a card's schema, of its trigger's payload, and others.

    Each field has each value alone, and beside fields that fit; and fits are left out.
    """
    model = machine.payloads.get(trigger)
    whole = model.model_json_schema() if model else {}
    fields: dict[str, Schema] = {
        name: {} for name in (*(model.model_fields if model else ()), "by", "surprise")
    }
    fields |= {**whole.get("properties", {}), **schema.get("properties", {})}
    defs = {**whole.get("$defs", {}), **schema.get("$defs", {})}
    known = {name: values(field, defs) for name, field in fields.items()}
    offered = schema.get("properties", {})
    fits = {name: found[0] for name, (found, _) in known.items() if name in offered and found}
    yield {}
    for name, (found, others) in known.items():
        rest = {field: value for field, value in fits.items() if field != name}
        needed = {field: rest[field] for field in schema.get("required", ()) if field in rest}
        for value in (*found, *others, *STRANGE):
            yield {name: value}
            yield {**needed, name: value}
            yield {**rest, name: value}
        yield rest
    for one, other in combinations(fits, 2):
        yield {one: fits[one], other: fits[other]}


def waiting(machine: Machine, state: str) -> Iterator[Record]:
    """Yield a record in a state for each sample in which it asks a person there."""
    stage = machine.stage(state)
    record_id = RecordId("/".join((*machine.placement.id_prefix, "one")))
    for data in SAMPLES[machine.name][0]:
        if stage.waits_for_person(data):
            yield Record(record_id, machine.name, state, Version(5), data)


def accepts(client: Client, record: Record, trigger: str, answer: Mapping[str, Any]) -> bool:
    """Whether `Client.decide` accepts an answer. Nothing is written."""
    machine = MACHINES[record.machine]
    try:
        payload = client.answers(record).payload(record.state, trigger, answer, client.actor)
        decision = machine.decide(record, trigger, machine.admit(trigger, payload))
    except CallError:
        return False
    return PERSON in decision.by


@pytest.fixture
def client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def shown(client: Client, record: Record) -> Card:
    card = card_of(MACHINES[record.machine], record, lambda: client.registry)
    assert card is not None
    client.actor = next(iter(card.deciders), "tester")
    return card


def distinct(given: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each answer once; two are the same if they have the same text."""
    return list({repr(sorted(one.items())): one for one in given}.values())


def compare(client: Client, record: Record) -> set[str]:
    """Compare what the card of a record takes with what `decide` accepts; return its choices."""
    machine, offers = MACHINES[record.machine], shown(client, record).affordances
    for offer in offers:
        validator = validator_of(offer.schema)
        given = distinct(answers(machine, offer.trigger, offer.schema))
        verdicts = [accepts(client, record, offer.trigger, one) for one in given]
        accepted = [one for one, verdict in zip(given, verdicts, strict=True) if verdict]
        fits = [validator.is_valid(one) for one in given]
        # Not by equality of the answers: in Python 3 equals 3.0, and 1 equals true.
        judged = zip(given, fits, verdicts, strict=True)
        assert [one for one, fit, verdict in judged if fit is not verdict] == [], offer.name
        assert accepted, offer.name
        assert set(offer.schema.get("properties", {})) == set().union(*accepted), offer.name
        assert needs_answer(offer.schema) is ({} not in accepted), offer.name
    return {offer.name for offer in offers}


@pytest.mark.parametrize(("name", "state"), CARDS)
def test_the_schema_of_an_answer_accepts_what_decide_accepts(
    client: Client, name: str, state: str
) -> None:
    machine = MACHINES[name]
    cards = {repr(shown(client, record)): record for record in waiting(machine, state)}
    seen = [compare(client, record) for record in cards.values()]

    stage = machine.stage(state)
    assert isinstance(stage, Waiting)
    choices = {choice for choice, _ in stage.affordances}
    assert set().union(*seen) == choices, "samples.py shows every choice"


@pytest.mark.parametrize(("name", "state"), CARDS)
def test_the_example_in_the_command_of_a_choice_is_accepted(
    client: Client, name: str, state: str
) -> None:
    for record in waiting(MACHINES[name], state):
        card = shown(client, record)
        for offer in card.affordances:
            example = example_answer(offer.name, offer.schema, card.proposed)
            if "capability" in offer.schema.get("properties", {}) or not example:
                continue
            # What a person has to fill in is shown as three dots.
            filled = [json.loads(json.dumps(example).replace('"..."', it)) for it in ('"x"', "1")]
            assert any(accepts(client, record, offer.trigger, one) for one in filled), offer.command


def test_only_work_that_was_done_is_rejected_for_good(client: Client) -> None:
    def fields(state: str) -> set[str]:
        card = shown(client, next(waiting(MACHINES["task"], state)))
        (schema,) = [one.schema for one in card.affordances if one.name == "reject"]
        return set(schema["properties"])

    assert fields("planned") == {"reason"}
    assert fields("pending_approval") == {"reason", "final"}


def test_a_proposal_that_may_not_run_offers_no_approval(client: Client) -> None:
    cards = [
        shown(client, record) for record in waiting(MACHINES["thread"], "awaiting_confirmation")
    ]
    offers = {bool(card.proposed): [one.name for one in card.affordances] for card in cards}

    assert offers == {True: ["approve", "edit", "reject"], False: ["edit", "reject"]}
