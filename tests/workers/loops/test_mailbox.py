"""Mail by name: to who lives under it, in one inbox over several lives, each with its delivery."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.errors import InvalidPayloadError, KernelError, MailRefusedError
from interlock.kernel.machines.loops.loop.payloads import MAIL_LENGTH_MAX
from interlock.kernel.record import partition_of
from interlock.workers.engine.work import Outcome
from interlock.workers.loops.mailbox import UnknownAgentError
from tests.workers.jobs.test_graphs import stored
from tests.workers.loops.lives import Nest


def refused(nest: Nest, to: str, text: str = "hello", **about: Any) -> KernelError:
    """Send what cannot be sent, and see that nothing came of it."""
    before = stored(nest.worker)
    with pytest.raises(KernelError) as refusal:
        nest.mailbox.send(to, text, **about)
    assert stored(nest.worker) == before
    assert "\n" not in str(refusal.value), "a sentence"
    return refusal.value


# --- who lives under a name ------------------------------------------------------------------


def test_who_lives_under_a_name_is_its_latest_life_until_that_is_stopped(nest: Nest) -> None:
    assert nest.mailbox.lives("owl") == []
    nest.born("owl/1")
    assert nest.mailbox.living("owl") == "owl/1"
    nest.ended("owl/1")
    nest.born("owl/2")

    assert nest.mailbox.living("owl") == "owl/2"
    nest.ended("owl/2")

    with pytest.raises(UnknownAgentError, match=r"^the agent 'owl' has stopped; start it anew$"):
        nest.mailbox.living("owl")
    assert nest.mailbox.lives("owl") == ["owl/1", "owl/2"]


def test_lives_are_those_of_this_name_alone_in_the_order_of_their_numbers(nest: Nest) -> None:
    for number in (9, 10, 11):
        nest.ended(nest.born(f"owl/{number}"))
    nest.born("owl-2/1")
    names = (f"n{number}" for number in range(10_000))
    neighbour = next(name for name in names if partition_of(name) == partition_of("owl"))
    nest.born(f"{neighbour}/12")

    assert nest.mailbox.lives("owl") == ["owl/9", "owl/10", "owl/11"]
    assert nest.mailbox.lives("owl-2") == ["owl-2/1"]
    assert nest.mailbox.lives(neighbour) == [f"{neighbour}/12"]
    assert nest.mailbox.lives("ow") == []


@pytest.mark.parametrize(
    "name", ["", "Owl", "2owl", "-owl", "owl_2", "owl/1", "owl.x", "ö", "o" * 64, "owl\n", "a b"]
)
def test_what_can_be_no_name_is_told_so(nest: Nest, name: str) -> None:
    with pytest.raises(UnknownAgentError) as refusal:
        nest.mailbox.living(name)

    told = f"{name!r} is no agent's name: a lower-case letter, then letters, digits and -"
    assert str(refusal.value).startswith(told)


def test_the_longest_name_is_one(nest: Nest) -> None:
    longest = "o" * 63
    nest.born(f"{longest}/1")

    assert nest.mailbox.send(longest, "hello")


# --- to send ---------------------------------------------------------------------------------


def test_mail_is_sent_by_name_and_says_all_that_it_was_given(nest: Nest) -> None:
    nest.born("owl/1")
    about: dict[str, Any] = {"kind": "task", "urgent": True, "thread": "barn", "reply_to": "1-0"}

    plain = nest.mailbox.send("owl", "hello")
    whole = nest.mailbox.send("owl", "x" * MAIL_LENGTH_MAX, sender="bat", **about)

    newest, first = nest.mailbox.listed("owl")
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
    assert newest["id"] == whole
    assert newest["text"] == "x" * MAIL_LENGTH_MAX
    assert {"sender": "bat", **about}.items() <= newest.items()


def test_a_send_that_is_repeated_with_its_op_id_is_one_mail(nest: Nest) -> None:
    nest.born("owl/1")

    first = nest.mailbox.send("owl", "once", op_id="mine")

    assert nest.mailbox.send("owl", "once", op_id="mine") == first
    assert [one["id"] for one in nest.mailbox.listed("owl")] == [first]
    # Without one every call is a mail of its own.
    assert nest.mailbox.send("owl", "twice") != nest.mailbox.send("owl", "twice")
    assert len(nest.mailbox.listed("owl")) == 3


def test_nobody_writes_to_itself_to_nobody_or_to_who_has_stopped(nest: Nest) -> None:
    nest.born("owl/1")
    nest.ended(nest.born("bat/1"))

    told = refused(nest, "owl", sender="owl")
    assert isinstance(told, InvalidPayloadError)
    assert "owl cannot write to itself" in str(told)
    for to, sentence in {
        "cat": "the agent 'cat' was never started",
        "bat": "the agent 'bat' has stopped; start it anew",
        "B A T": "'B A T' is no agent's name: a lower-case letter, then letters, digits and -",
    }.items():
        assert str(refused(nest, to)).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "about", "words"),
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
def test_mail_of_another_shape_is_refused_by_what_is_wrong_with_it(
    nest: Nest, text: str, about: dict[str, Any], words: tuple[str, ...]
) -> None:
    nest.born("owl/1")

    told = str(refused(nest, "owl", text, **about))

    assert told.startswith("the mail is invalid: ")
    assert all(word in told for word in words), told
    assert len(told) < 300, "no letter is repeated whole"


def test_who_stops_between_the_look_and_the_post_is_told_of_as_stopped(
    nest: Nest, monkeypatch: pytest.MonkeyPatch
) -> None:
    nest.ended(nest.born("owl/1"))
    monkeypatch.setattr(nest.mailbox, "living", lambda _: "owl/1")

    with pytest.raises(MailRefusedError, match="owl/1 takes no mail: it is stopped"):
        nest.mailbox.send("owl", "hello")


# --- to list ---------------------------------------------------------------------------------


def test_a_list_says_over_several_lives_when_each_mail_was_delivered(nest: Nest) -> None:
    nest.born("owl/1")
    first, second, third = (nest.mailbox.send("owl", text) for text in "abc")
    began = nest.session("owl/1", first)
    nest.mailbox.send("owl", "d")
    again = nest.session("owl/1", second)
    nest.ended("owl/1")
    nest.born("owl/2")
    assert delivered(nest) == {
        "a": began.at_ms,
        "b": again.at_ms,
        "c": None,
        "d": None,
    }

    later = nest.session("owl/2", third)

    assert began.at_ms <= again.at_ms < later.at_ms
    assert delivered(nest) == {
        "a": began.at_ms,
        "b": again.at_ms,
        "c": later.at_ms,
        "d": None,
    }
    assert [one["text"] for one in nest.mailbox.listed("owl")] == ["d", "c", "b", "a"]
    assert [one["text"] for one in nest.mailbox.listed("owl", 2)] == ["d", "c"]
    assert nest.mailbox.listed("cat") == []


def test_mail_in_a_prompt_whose_session_never_started_waits_for_the_next(nest: Nest) -> None:
    nest.born("owl/1")
    sent = nest.mailbox.send("owl", "a")

    nest.prompted("owl/1", sent)
    assert delivered(nest) == {"a": None}
    failed = Outcome("session_error", {"code": "spawn_error", "detail": "no such command"})
    nest.worker.perform("owl/1", "session", lambda _: failed)
    assert nest.record("owl/1").state == "cooling_down"
    assert delivered(nest) == {"a": None}

    nest.ended("owl/1")
    nest.born("owl/2")
    started = nest.session("owl/2", sent)
    assert delivered(nest) == {"a": started.at_ms}


def delivered(nest: Nest) -> dict[str, int | None]:
    return {one["text"]: one["delivered_at_ms"] for one in nest.mailbox.listed("owl")}
