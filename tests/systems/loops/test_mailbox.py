"""Mail goes to a name's current life, in one inbox over several lives, with its delivery time."""

from __future__ import annotations

from random import Random
from typing import Any, cast
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings

from interlock.kernel.errors import InvalidPayloadError, KernelError, MailRefusedError
from interlock.kernel.record import partition_of
from interlock.kernel.store.inboxes import DAMAGED
from interlock.systems.loops import mailbox
from interlock.systems.loops.machines.loop.limits import MAIL_LENGTH_MAX
from interlock.systems.loops.mailbox import UnknownAgentError, UnreadCount
from interlock.systems.loops.page import waiting_mail
from interlock.workers.engine.work import Outcome
from tests.damage import chances, torn
from tests.round_trips import round_trips
from tests.systems.jobs.test_graphs import stored
from tests.systems.loops.lives import InProcessAgents


def refused(agents: InProcessAgents, to: str, text: str = "hello", **fields: Any) -> KernelError:
    """Send a message that is refused, assert that the store did not change, return the error."""
    before = stored(agents.worker)
    with pytest.raises(KernelError) as refusal:
        agents.mailbox.send(to, text, **fields)
    assert stored(agents.worker) == before
    assert "\n" not in str(refusal.value), "the error is one sentence"
    return refusal.value


def test_the_current_life_of_a_name_is_its_latest_until_that_is_stopped(
    agents: InProcessAgents,
) -> None:
    assert agents.mailbox.lives("owl") == []
    agents.create("owl/1")
    assert agents.mailbox.current_life("owl") == "owl/1"
    agents.stop("owl/1")
    agents.create("owl/2")

    assert agents.mailbox.current_life("owl") == "owl/2"
    agents.stop("owl/2")

    with pytest.raises(UnknownAgentError, match=r"^the agent 'owl' has stopped; start it anew$"):
        agents.mailbox.current_life("owl")
    assert agents.mailbox.lives("owl") == ["owl/1", "owl/2"]


def test_lives_are_of_this_name_alone_in_the_order_of_their_numbers(
    agents: InProcessAgents,
) -> None:
    for number in (9, 10, 11):
        agents.stop(agents.create(f"owl/{number}"))
    agents.create("owl-2/1")
    names = (f"n{number}" for number in range(10_000))
    neighbour = next(name for name in names if partition_of(name) == partition_of("owl"))
    agents.create(f"{neighbour}/12")

    assert agents.mailbox.lives("owl") == ["owl/9", "owl/10", "owl/11"]
    assert agents.mailbox.lives("owl-2") == ["owl-2/1"]
    assert agents.mailbox.lives(neighbour) == [f"{neighbour}/12"]
    assert agents.mailbox.lives("ow") == []


@pytest.mark.parametrize(
    "name", ["", "Owl", "2owl", "-owl", "owl_2", "owl/1", "owl.x", "ö", "o" * 64, "owl\n", "a b"]
)
def test_an_impossible_name_is_refused(agents: InProcessAgents, name: str) -> None:
    with pytest.raises(UnknownAgentError) as refusal:
        agents.mailbox.current_life(name)

    sentence = f"{name!r} is no agent's name: a lower-case letter, then letters, digits and -"
    assert str(refusal.value).startswith(sentence)


def test_the_longest_possible_name_is_accepted(agents: InProcessAgents) -> None:
    longest = "o" * 63
    agents.create(f"{longest}/1")

    assert agents.mailbox.send(longest, "hello")


def test_mail_is_sent_by_name_with_all_its_fields(agents: InProcessAgents) -> None:
    agents.create("owl/1")
    fields: dict[str, Any] = {"kind": "task", "urgent": True, "thread": "barn", "reply_to": "1-0"}

    plain = agents.mailbox.send("owl", "hello")
    full = agents.mailbox.send("owl", "x" * MAIL_LENGTH_MAX, sender="bat", **fields)

    newest, first = agents.mailbox.newest("owl")
    assert first == {
        "id": plain,
        "at_ms": int(plain.partition("-")[0]),
        "sender": "operator",
        "recipient": "owl",
        "text": "hello",
        "kind": "message",
        "urgent": False,
        "thread": "",
        "reply_to": "",
        "delivered": False,
        "delivered_at_ms": None,
    }
    assert newest["id"] == full
    assert newest["text"] == "x" * MAIL_LENGTH_MAX
    assert {"sender": "bat", **fields}.items() <= newest.items()


def test_a_repeated_call_with_the_same_op_id_sends_one_message(agents: InProcessAgents) -> None:
    agents.create("owl/1")

    first = agents.mailbox.send("owl", "once", op_id="mine")

    assert agents.mailbox.send("owl", "once", op_id="mine") == first
    assert [one["id"] for one in agents.mailbox.newest("owl")] == [first]
    # Without an op-id every call sends a message of its own.
    assert agents.mailbox.send("owl", "twice") != agents.mailbox.send("owl", "twice")
    assert len(agents.mailbox.newest("owl")) == 3


def test_mail_to_oneself_to_an_unknown_or_to_a_stopped_agent_is_refused(
    agents: InProcessAgents,
) -> None:
    agents.create("owl/1")
    agents.stop(agents.create("bat/1"))

    refusal = refused(agents, "owl", sender="owl")
    assert isinstance(refusal, InvalidPayloadError)
    assert "owl cannot write to itself" in str(refusal)
    for to, sentence in {
        "cat": "the agent 'cat' was never started",
        "bat": "the agent 'bat' has stopped; start it anew",
        "B A T": "'B A T' is no agent's name: a lower-case letter, then letters, digits and -",
    }.items():
        assert str(refused(agents, to)).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "fields", "parts"),
    [
        ("", {}, ("text: must not be blank",)),
        ("x" * (MAIL_LENGTH_MAX + 1), {}, ("text", f"at most {MAIL_LENGTH_MAX} characters")),
        ("hi", {"kind": "order"}, ("kind", "'message', 'task', 'status' or 'nudge'", "'order'")),
        ("hi", {"urgent": "rather"}, ("urgent", "boolean", "'rather'")),
        (" \n", {}, ("text: must not be blank",)),
        ("hi", {"sender": ""}, ("sender: must not be blank",)),
        ("hi", {"sender": "b\nat"}, ("sender: must be one line of text",)),
        ("hi", {"thread": "t" * 201}, ("thread", "at most 200 characters")),
        ("hi", {"reply_to": "r" * 201}, ("reply_to", "at most 200 characters")),
        ("hi", {"subject": "barn"}, ("subject", "Extra inputs are not permitted")),
    ],
)
def test_invalid_mail_is_refused_with_the_field_that_is_wrong(
    agents: InProcessAgents, text: str, fields: dict[str, Any], parts: tuple[str, ...]
) -> None:
    agents.create("owl/1")

    sentence = str(refused(agents, "owl", text, **fields))

    assert sentence.startswith("the mail is invalid: ")
    assert all(part in sentence for part in parts), sentence
    assert len(sentence) < 300, "the error does not repeat the whole text"


def test_mail_to_an_agent_that_stops_before_the_message_is_stored_is_refused(
    agents: InProcessAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents.stop(agents.create("owl/1"))
    monkeypatch.setattr(agents.mailbox, "current_life", lambda _: "owl/1")

    with pytest.raises(MailRefusedError, match="owl/1 takes no mail: it is stopped"):
        agents.mailbox.send("owl", "hello")


def test_a_list_shows_over_several_lives_when_each_message_was_delivered(
    agents: InProcessAgents,
) -> None:
    agents.create("owl/1")
    first, second, third = (agents.mailbox.send("owl", text) for text in "abc")
    first_start = agents.run_session("owl/1", first)
    agents.mailbox.send("owl", "d")
    second_start = agents.run_session("owl/1", second)
    agents.stop("owl/1")
    agents.create("owl/2")
    assert delivered(agents) == {
        "a": first_start.at_ms,
        "b": second_start.at_ms,
        "c": None,
        "d": None,
    }

    third_start = agents.run_session("owl/2", third)

    assert first_start.at_ms <= second_start.at_ms < third_start.at_ms
    assert delivered(agents) == {
        "a": first_start.at_ms,
        "b": second_start.at_ms,
        "c": third_start.at_ms,
        "d": None,
    }
    assert [one["text"] for one in agents.mailbox.newest("owl")] == ["d", "c", "b", "a"]
    assert [one["text"] for one in agents.mailbox.newest("owl", 2)] == ["d", "c"]
    assert agents.mailbox.newest("cat") == []


def test_mail_in_a_prompt_whose_session_never_started_waits_for_the_next(
    agents: InProcessAgents,
) -> None:
    agents.create("owl/1")
    sent = agents.mailbox.send("owl", "a")

    agents.build_prompt("owl/1", sent)
    assert delivered(agents) == {"a": None}
    failed = Outcome("session_error", {"code": "spawn_error", "detail": "no such command"})
    agents.worker.perform("owl/1", "session", lambda _: failed)
    assert agents.record("owl/1").state == "cooling_down"
    assert delivered(agents) == {"a": None}

    agents.stop("owl/1")
    agents.create("owl/2")
    started = agents.run_session("owl/2", sent)
    assert delivered(agents) == {"a": started.at_ms}


def test_unread_mail_is_counted_up_to_a_number_in_one_round_trip(
    agents: InProcessAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "COUNTED_MAX", 2)
    for name in ("owl", "bat"):
        agents.create(f"{name}/1")
    first, _, third = (agents.mailbox.send("owl", text, urgent=True) for text in "abc")
    agents.run_session("owl/1", first, ahead=[third])
    lives = [agents.record("owl/1"), agents.record("bat/1")]

    with round_trips() as sent:
        few = agents.mailbox.count_unread(lives)
    assert sent() == 1
    assert few == {
        "owl/1": UnreadCount(1, 1, is_minimum=False),
        "bat/1": UnreadCount(0, 0, is_minimum=False),
    }
    assert [one["delivered"] for one in agents.mailbox.newest("owl")] == [True, False, True]

    agents.mailbox.send("owl", "d")
    agents.mailbox.send("owl", "e")
    many = agents.mailbox.count_unread(lives)["owl/1"]
    assert many == UnreadCount(2, 1, is_minimum=True)
    row = {"mail_waiting": many.number, "urgent_waiting": many.urgent, "mail_is_minimum": True}
    assert waiting_mail(row) == "at least 2 waiting, 1 urgent"


def delivered(agents: InProcessAgents) -> dict[str, int | None]:
    return {one["text"]: one["delivered_at_ms"] for one in agents.mailbox.newest("owl")}


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances)
@example(chance=b"[]")
@example(chance=b"\xff")
def test_a_damaged_message_says_so_and_hides_no_other(
    agents: InProcessAgents, chance: Random | bytes
) -> None:
    life, dispatch = f"n{uuid4().hex}/1", agents.worker.client.dispatch
    agents.create(life)
    name = life.partition("/")[0]
    agents.mailbox.send(name, "one")
    text = chance if isinstance(chance, bytes) else torn(b'{"sender": "ann"}', chance)
    cast("Any", dispatch.client).xadd(dispatch.keys.inbox(life), {"mail": text})
    agents.mailbox.send(name, "two")

    newest, _, oldest = agents.mailbox.newest(name)
    _, damaged, _ = agents.mailbox.unread(agents.record(life))
    assert (oldest["text"], newest["text"]) == ("one", "two")
    assert isinstance(chance, Random) or damaged.fields == DAMAGED
