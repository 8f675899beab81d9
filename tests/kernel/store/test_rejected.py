"""Messages that no process can act on are kept for people, and counted by the kind of fault."""

from __future__ import annotations

import pytest

from interlock.kernel.store import rejected
from interlock.kernel.store.rejected import RejectedMessage, RejectedMessages
from tests.kernel.store.kernel_at_a_fixed_time import World


def test_a_rejected_message_is_kept_and_counted_by_its_kind(world: World) -> None:
    messages = RejectedMessages(world.client, world.keys)
    counts = [messages.put(kind, "why", kind) for kind in ("bad", "bad", "old")]

    assert counts == [1, 2, 1]
    assert messages.counts() == {"bad": 2, "old": 1}
    assert messages.newest(2) == [
        RejectedMessage("old", "why", "old"),
        RejectedMessage("bad", "why", "bad"),
    ]


def test_the_oldest_messages_are_dropped_and_go_on_being_counted(world: World) -> None:
    messages = RejectedMessages(world.client, world.keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rejected, "KEPT_MAX", 3)
        for body in "abcde":
            messages.put("bad", "why", body)

    assert [one.body for one in messages.newest(10)] == ["e", "d", "c"]
    assert messages.counts() == {"bad": 5}
