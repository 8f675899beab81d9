"""Messages that no process can act on are kept for people, and counted by the kind of fault."""

from __future__ import annotations

import json

import pytest

from interlock.kernel.errors import CallError
from interlock.kernel.store import rejected
from interlock.kernel.store.rejected import RejectedMessages
from interlock.kernel.store.scripts import call
from tests.kernel.store.kernel_at_a_fixed_time import World


def test_a_rejected_message_is_kept_and_counted_by_its_kind(world: World) -> None:
    messages = RejectedMessages(world.client, world.keys)
    counts = [messages.put(kind, "why", kind) for kind in ("bad", "bad", "old")]

    assert counts == [1, 2, 1]
    assert messages.counts() == {"bad": 2, "old": 1}
    assert [(one.kind, one.reason, one.body) for one in messages.newest(2)] == [
        ("old", "why", "old"),
        ("bad", "why", "bad"),
    ]


def test_the_oldest_messages_are_dropped_and_go_on_being_counted(world: World) -> None:
    messages = RejectedMessages(world.client, world.keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rejected, "KEPT_BYTES_MAX", 12)
        for body in "abcde":
            messages.put("bad", "why", body)
        assert [one.body for one in messages.newest(10)] == ["e", "d", "c"]
        messages.drop(messages.newest(10)[0].id)
        messages.put("bad", "why", "f")
        assert [one.body for one in messages.newest(10)] == ["f", "d", "c"]
        messages.put("bad", "why", "too long for all of it")

    assert [one.body for one in messages.newest(10)] == ["too long for all of it"]
    assert messages.counts() == {"bad": 7}


def test_a_message_is_kept_whole_with_what_it_asked_for(world: World) -> None:
    messages = RejectedMessages(world.client, world.keys)
    body = {"id": "x", "text": "\u00e4" * 10_000, "broken": "\ud800"}
    messages.put("bad", "why", body, verb="submit")
    (kept,) = messages.newest(1)

    assert (json.loads(kept.body), kept.verb) == (body, "submit")
    assert messages.message(kept.id) == kept


@pytest.mark.parametrize("body", [object(), {"x": float("nan")}, {1, 2}])
def test_what_is_no_json_is_kept_as_text_and_asks_for_nothing(world: World, body: object) -> None:
    messages = RejectedMessages(world.client, world.keys)
    messages.put("bad", "why", body, verb="submit")
    (kept,) = messages.newest(1)

    assert (kept.body, kept.verb) == (repr(body), "")


def test_of_a_body_that_is_too_long_the_beginning_is_kept(world: World) -> None:
    messages = RejectedMessages(world.client, world.keys)
    messages.put("bad", "why", {"x": "y" * rejected.BODY_BYTES_MAX}, verb="submit")
    (kept,) = messages.newest(1)

    assert (len(kept.body), kept.verb) == (rejected.BODY_BYTES_MAX, "")


@pytest.mark.parametrize("message_id", ["1-1", "x", "+"])
def test_a_message_that_is_not_kept_is_said_to_be_so(world: World, message_id: str) -> None:
    messages = RejectedMessages(world.client, world.keys)
    with pytest.raises(CallError, match="rejected message"):
        messages.message(message_id)
    with pytest.raises(CallError, match="rejected message"):
        messages.drop(message_id)


def test_who_drops_a_message_second_changes_nothing(world: World) -> None:
    messages = RejectedMessages(world.client, world.keys)
    messages.put("bad", "why", "a")
    (kept,) = messages.newest(1)
    named = {"rejected": world.keys.rejected(), "bytes": world.keys.rejected_bytes()}
    found = [call(world.client, "drop_rejected", named, {"id": kept.id}) for _ in range(2)]

    assert found == [[b"dropped"], [b"missing"]]
    assert world.client.get(world.keys.rejected_bytes()) == b"0"
