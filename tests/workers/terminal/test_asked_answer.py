"""What a person at a terminal is asked before an answer to a card is given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record, RecordId, Version
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.engine.card import card_of, no_registry
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.terminal import command as commands
from tests.kernel.samples import graphs
from tests.systems.threads.threads import bring, client_of, obstruct

# Commands, each with the record that it is about.
COMMANDS = [(("decide", "one", "approve"), "one"), (("task", "approve", "b/one"), "b/one")]


@pytest.fixture(autouse=True)
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands of this process take their input for a terminal."""
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(commands, "sys", terminal)


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Return a client of the store that the command line finds, with a thread and a task."""
    for name, value in {"STORE_URL": server.url, "PREFIX": prefix, "NAMESPACE": prefix}.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", value)
    client = client_of(server.url, prefix)
    bring(client, "one", "awaiting_confirmation")
    client.submit({"title": "mend it", "plan": "p"}, id="b/one", machine="task")
    return client


@pytest.mark.parametrize(("command", "record_id"), COMMANDS)
@pytest.mark.parametrize(("typed", "decided"), [("n\n", False), ("y\n", True)])
def test_a_choice_is_made_after_a_yes_to_the_card_that_was_shown(
    interlock: Client, command: tuple[str, ...], record_id: str, typed: str, *, decided: bool
) -> None:
    before = interlock.show(record_id)

    result = CliRunner().invoke(app, command, input=typed)

    assert f"interlock decide {record_id} approve" in result.stdout
    assert "approve? [y/N]" in result.stdout
    assert (interlock.show(record_id).version > before.version) is decided


def test_a_choice_that_no_card_takes_is_refused_before_the_person_is_asked(
    interlock: Client,
) -> None:
    bring(interlock, "two", "awaiting_inference")
    obstruct(interlock, "two")

    result = CliRunner().invoke(app, ["task", "approve", "two"], input="y\n")

    assert result.exit_code == 1
    assert "two is a thread, not a task: `interlock explain two` names" in result.stderr
    assert "approve?" not in result.stdout


def test_a_named_proposal_is_answered_without_a_question(interlock: Client) -> None:
    seen = interlock.show("b/one").proposal

    result = CliRunner().invoke(app, ["task", "approve", "b/one", "--proposal", seen])

    assert (result.exit_code, result.stdout) == (0, "b/one is ○ waiting for an agent\n")


def test_fields_that_are_no_words_are_asked_for_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    def typed(question: str, **options: Any) -> str:
        assert question == "raise, as JSON"
        return str(options["default"])

    monkeypatch.setattr(typer, "prompt", typed)
    record = Record(RecordId("g"), "graph", "halted", Version(3), graphs()[0])
    card = card_of(MACHINES["graph"], record, no_registry)
    assert card is not None

    found = commands.Shell().missing_answer(card, "raise")

    assert found == {"limits": {"cost_micro": "..."}}
