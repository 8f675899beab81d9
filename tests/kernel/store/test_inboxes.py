"""Inboxes: mail is in order, once for each call, and owes one effect; ended records get none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from interlock.kernel.errors import (
    HeldError,
    InvalidIdError,
    InvalidPayloadError,
    MailRefusedError,
    OpIdReusedError,
    UnknownRecordError,
)
from interlock.kernel.store import inboxes
from interlock.kernel.store.commands import Answer
from interlock.kernel.store.inboxes import Mail
from interlock.kernel.store.leases import Lease, Order
from interlock.systems.loops.machines.effects import MAIL_CHECK
from tests.kernel.store.kernel_at_a_fixed_time import World, token

OWL = "owl/1"
BIRTH = {"repo": "/r", "command": "work", "host": "here"}


def agent(world: World, of: str = OWL, **more: Any) -> str:
    world.create(of, {**BIRTH, **more}, machine="loop")
    return of


def post(world: World, text: str, *, of: str = OWL, op: str = "", **about: Any) -> Answer:
    mail = {"sender": "bat", "recipient": of.partition("/")[0], "text": text, **about}
    return world.lifecycle.post(of, mail, op or world.op())


def inbox(world: World, after: str = "0-0", of: str = OWL) -> list[Mail]:
    return world.lifecycle.inboxes.after(of, after, 100)


def drains(world: World, of: str = OWL) -> list[str]:
    """Return the states of the drains that an agent is owed."""
    return [entry.state for entry in world.record(of).entries if entry.name == "mail_check"]


def read(world: World, upto: str, of: str = OWL) -> Lease:
    """Lead an agent to a session that is given its mail up to one; return who holds it."""
    at_work: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("worktree", "worktree_ready", {"host": "here"}),
        ("prompt", "prompt_ready", {"prompt": "p.md", "digest": "0" * 64, "claimed": upto}),
        ("session", "session_started", {"session_seq": 1}),
    )
    for effect, trigger, payload in at_work:
        lease = world.claim(effect, of=of)
        world.fire(of, trigger, payload, warrant=token(lease))
    return lease


def test_mail_is_read_in_the_order_in_which_it_came_from_any_place_on(world: World) -> None:
    agent(world)
    ids = [post(world, f"letter {n}").detail for n in range(5)]

    found = inbox(world)

    assert [one.id for one in found] == ids
    assert ids == sorted(ids, key=Mail.order)
    assert [one.fields["text"] for one in found] == [f"letter {n}" for n in range(5)]
    assert [one.id for one in inbox(world, ids[2])] == ids[3:]
    assert [one.id for one in world.lifecycle.inboxes.latest(OWL, 2)] == ids[:2:-1]
    assert found[0].fields["kind"] == "message"
    assert found[0].at_ms > 0


def test_a_post_that_is_repeated_gets_the_first_ones_receipt_and_no_second_letter(
    world: World,
) -> None:
    agent(world)
    first = post(world, "once", op="mine")

    again = post(world, "once", op="mine")

    assert (again.status, again.detail) == ("replayed", first.detail)
    assert len(inbox(world)) == 1
    with pytest.raises(OpIdReusedError):
        post(world, "another", op="mine")
    assert len(inbox(world)) == 1


def test_a_thousand_letters_are_one_look_until_somebody_looks(world: World) -> None:
    agent(world)
    posted = [post(world, str(n)) for n in range(20)]
    assert drains(world) == ["owed"]
    assert [len(one.owed) for one in posted] == [1] + [0] * 19, "one message to the broker"

    lease = world.claim("mail_check", of=OWL)
    late = post(world, "while it was looked at")
    assert [note.kind for note in world.notes(OWL)].count("mail") == 21, "each is in the log"

    assert drains(world) == ["leased", "owed"], "a sweep may have polled it already"
    assert len(late.owed) == 1
    world.settle(lease)
    assert drains(world) == ["owed"]


def test_what_has_ended_takes_no_mail_and_says_so(world: World) -> None:
    agent(world)
    post(world, "in time")
    world.fire(OWL, "operator_stop")
    before = world.dump()

    with pytest.raises(MailRefusedError, match="owl/1 takes no mail: it is stopped"):
        post(world, "too late")

    assert world.dump() == before


def test_who_lives_next_under_a_name_reads_on_in_the_same_inbox(world: World) -> None:
    agent(world)
    seen, left = (post(world, text).detail for text in ("seen", "left"))
    read(world, seen)
    world.fire(OWL, "operator_stop")

    agent(world, "owl/2")

    assert [one.id for one in inbox(world, seen, "owl/2")] == [left]
    assert post(world, "hello again", of="owl/2").status == "posted"


@pytest.mark.parametrize("of", ["owl/abc", "Owl/1", "owl/0", "owl/01", "owl", "owl/1/2"])
def test_an_id_that_is_no_life_of_a_name_is_refused_with_what_it_should_be(
    world: World, of: str
) -> None:
    with pytest.raises(InvalidIdError, match="write it as <agent>/"):
        agent(world, of)
    assert world.dump() == {}


def test_a_look_that_waits_after_a_failure_does_not_hold_up_what_comes(world: World) -> None:
    agent(world)
    post(world, "first")
    lease = world.claim("mail_check", of=OWL)
    world.leases.release(lease, delay_ms=600_000, counted=True)

    post(world, "fire!", urgent=True)

    assert drains(world) == ["owed", "owed"]


def test_letters_are_found_by_their_ids(world: World) -> None:
    agent(world)
    ids = [post(world, str(n)).detail for n in range(3)]

    found = world.lifecycle.inboxes.some([(OWL, ids[2]), (OWL, "1-1"), ("bat/1", ids[0])])

    assert {pair: one.fields["text"] for pair, one in found.items()} == {(OWL, ids[2]): "2"}
    assert world.lifecycle.inboxes.some([]) == {}


def test_only_one_lives_under_a_name(world: World) -> None:
    agent(world)
    with pytest.raises(HeldError, match="owl/1 holds what it needs"):
        agent(world, "owl/2")

    world.fire(OWL, "operator_stop")
    agent(world, "owl/2")

    assert world.views.holds("owl") == {"self": "owl/2"}


def test_mail_is_delivered_by_the_commit_that_starts_the_session_and_by_nothing_else(
    world: World,
) -> None:
    agent(world)
    first = post(world, "first").detail

    for effect, trigger, payload in (
        ("worktree", "worktree_ready", {"host": "here"}),
        ("prompt", "prompt_ready", {"prompt": "p.md", "digest": "0" * 64, "claimed": first}),
    ):
        world.fire(OWL, trigger, payload, warrant=token(world.claim(effect, of=OWL)))
        assert world.record(OWL).data["acknowledged"] == "0-0"
    lease = world.claim("session", of=OWL)
    world.fire(OWL, "session_started", {"session_seq": 1}, warrant=token(lease))

    assert world.record(OWL).data["acknowledged"] == first
    assert drains(world) == ["owed", "owed"], "what came meanwhile may be urgent"


def test_an_interrupt_reaches_who_holds_the_session_that_goes_on(world: World) -> None:
    agent(world)
    session = read(world, "0-0")
    post(world, "fire!", urgent=True)
    drain = world.claim_key(world.key("mail_check", of=OWL))

    world.fire(OWL, "urgent_message", warrant=token(drain))

    assert world.renew(session) is Order.INTERRUPT
    assert world.renew(session, acknowledged=1) is Order.GO
    world.settle(drain)


def test_what_was_read_makes_room_and_what_was_not_is_never_thrown_away(world: World) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inboxes, "MAILS_MAX", 3)
        makes_room(world)


def makes_room(world: World) -> None:
    agent(world)
    ids = [post(world, str(n)).detail for n in range(3)]
    before = world.dump()
    with pytest.raises(MailRefusedError, match="3 messages wait for it already"):
        post(world, "one too many")
    assert world.dump() == before

    read(world, ids[1])
    newest = post(world, "room again").detail

    # The last that was read stays, as the place from which the next is read.
    assert [one.id for one in inbox(world)] == [ids[1], ids[2], newest]
    with pytest.raises(MailRefusedError):
        post(world, "full again")


def test_mail_to_nobody_to_a_record_without_an_inbox_or_of_no_shape_changes_nothing(
    world: World,
) -> None:
    agent(world)
    world.create("r")
    before = world.dump()

    with pytest.raises(UnknownRecordError):
        post(world, "hello", of="cat/1")
    with pytest.raises(MailRefusedError, match="a life has no inbox"):
        post(world, "hello", of="r")
    with pytest.raises(InvalidPayloadError, match="owl cannot write to itself"):
        post(world, "hello", sender="owl")
    with pytest.raises(InvalidPayloadError, match="the op-id"):
        world.lifecycle.post(OWL, {"sender": "b", "recipient": "owl", "text": "x"}, "")

    assert world.dump() == before


def test_mail_to_what_was_forgotten_meanwhile_is_kept_nowhere(world: World) -> None:
    agent(world)
    record = world.record(OWL)
    world.client.unlink(world.keys.record(OWL))
    before = world.dump()

    answer = world.lifecycle.inboxes.post(
        record, {"text": "x"}, MAIL_CHECK, read_upto="0-0", op_id="p", render=lambda _: None
    )

    assert answer.status == "missing"
    assert world.dump() == before


def test_letters_that_come_side_by_side_are_all_there(world: World) -> None:
    agent(world)
    with ThreadPoolExecutor(8) as pool:
        posted = list(pool.map(lambda n: post(world, str(n), op=f"p{n}").detail, range(200)))

    found = world.lifecycle.inboxes.after(OWL, "0-0", 1_000)

    assert {one.id for one in found} == set(posted)
    assert sorted(int(one.fields["text"]) for one in found) == list(range(200))
    assert drains(world) == ["owed"]


def test_a_paused_agent_is_posted_to_and_looks_when_it_goes_on(world: World) -> None:
    agent(world)
    world.flag("pause", OWL)

    assert post(world, "for later").status == "posted"
    key = world.key("mail_check", of=OWL)
    assert world.score(key) is None

    world.flag("resume", OWL)
    assert world.score(key) is not None


def test_what_a_table_ignores_is_noted_once_a_call_and_changes_nothing(world: World) -> None:
    agent(world)
    world.fire(OWL, "operator_stop")
    stopped = world.record(OWL)

    for _ in range(2):
        fired = world.fire(OWL, "operator_stop", op="again")
        assert (fired.ignored, fired.version) == ("it has stopped already", stopped.version)

    now = world.record(OWL)
    assert (now.version, now.data) == (stopped.version, stopped.data)
    assert [note.kind for note in world.notes(OWL)].count("ignored") == 1


def test_mail_that_was_read_stays_until_its_room_is_needed(world: World) -> None:
    agent(world)
    ids = [post(world, str(n)).detail for n in range(3)]
    read(world, ids[1])
    newest = post(world, "more").detail

    assert [one.id for one in inbox(world)] == [*ids, newest]
