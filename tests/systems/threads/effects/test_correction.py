"""A person's words after a failed call, read by the embedded model: what runs of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from interlock.kernel.effect import Kind
from interlock.kernel.record import Record
from interlock.workers.gateways.server import EmbeddedServer
from tests.workers.engine.running import Running, settings_for

BADGE = {"inciting": {"title": "Print a visitor badge for Mr Okafor"}, "policy": "end_to_end"}


@pytest.fixture
def embedded(server: EmbeddedServer, prefix: str) -> Iterator[Running]:
    """Return threads of the embedded model with the capabilities of the examples."""
    variables = {
        "INTERLOCK_MODEL": "embedded:wordllama",
        "INTERLOCK_MODEL_BASE_URL": "",
        "INTERLOCK_CAPABILITIES": "examples.capabilities",
    }
    running = Running(settings_for(server.url, prefix, **variables))
    yield running
    running.dispatch.client.close()


def performed(running: Running) -> Record:
    """Perform what the thread owes until it waits for a person, and return it."""
    while any(entry.kind is Kind.STATE for entry in running.client.show("one").entries):
        running.perform("one")
    return running.client.show("one")


def decided(running: Running, choice: str, **answer: Any) -> Record:
    proposal = running.client.show("one").proposal
    running.client.decide("one", choice, answer, proposal=proposal)
    return performed(running)


def starts(running: Running) -> int:
    history = running.client.history("one")
    return sum(getattr(line, "kind", "") == "execution_started" for line in history)


def test_words_after_a_failure_become_the_value_that_is_shown_before_it_runs(
    embedded: Running,
) -> None:
    embedded.client.submit(BADGE, machine="thread", id="one")
    assert performed(embedded).state == "awaiting_redirect"

    shown = decided(embedded, "provide", text="The name on the badge must be Dr Okafor")

    assert shown.state == "awaiting_confirmation"
    card = embedded.client.card("one")
    assert card is not None
    assert card.question.startswith(
        "May this be done: print_badge(name='Dr Okafor')?"
        " Before, it was print_badge(name='Mr Okafor'), but it failed: "
    )
    assert starts(embedded) == 1
    assert decided(embedded, "approve").state == "awaiting_redirect"
    assert starts(embedded) == 2


@pytest.mark.parametrize("choice", ["provide", "redirect"])
def test_words_that_change_nothing_run_nothing_and_ask_again(
    embedded: Running, choice: str
) -> None:
    embedded.client.submit(BADGE, machine="thread", id="one")
    performed(embedded)
    words = {"text" if choice == "provide" else "feedback": "The name must be Mr Okafor"}

    asks = decided(embedded, choice, **words)

    assert (asks.state, starts(embedded)) == ("awaiting_action_clarification", 1)
    card = embedded.client.card("one")
    assert card is not None
    assert card.question.startswith("Your answer changed nothing: it would be print_badge(")
