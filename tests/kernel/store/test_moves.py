"""A move takes a record to another version of its table in one step, or changes nothing."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum, auto
from typing import Any

import pytest

from interlock.kernel.effect import Effect
from interlock.kernel.errors import HeldError
from interlock.kernel.event import Cause
from interlock.kernel.machine import Machine
from interlock.kernel.mover import Mover
from interlock.kernel.moving import move_of
from interlock.kernel.record import partition_of
from interlock.kernel.rows import by, move, rows
from interlock.kernel.store.commands import Warrant
from interlock.kernel.store.leases import Lease
from interlock.kernel.store.metrics import MetricsReader
from interlock.kernel.store.titles import names_of
from interlock.kernel.table import ORPHANS, PERSON, Active, Data, Terminal, Waiting
from tests.kernel.store.kernel_at_a_fixed_time import World, token
from tests.kernel.store.machines_limited import LONG, T
from tests.kernel.store.slot_users import begun, check, needs, owing
from tests.kernel.store.tables import GRACE_MS, LEASE_MS, LIFE

TRANSFER = Effect("transfer", lease_ms=LEASE_MS, grace_ms=GRACE_MS, concurrency=2)
WHY = Cause("ann", "a new table")


class S(StrEnum):
    IDLE = auto()
    TRANSFERRING = auto()
    POSTING = auto()
    WONDERING = auto()
    DONE = auto()


def newer_data(old: Data, schema: int) -> dict[str, Any]:
    assert schema == 1
    return {"customer": old["tenant"], "title": f"for {old['tenant']}"}


NEWER = Machine(
    name="limited",
    schema=2,
    renamed={"paying": "transferring"},
    migrate=newer_data,
    stages=(
        Waiting(S.IDLE, (LONG,)),
        Active(
            S.TRANSFERRING,
            (LONG,),
            effect=TRANSFER,
            outcomes=(T.PAID,),
            slot_key=lambda data: data["customer"],
        ),
        Terminal(S.DONE),
    ),
    transitions=(
        *rows(S.IDLE, move(T.PAY, S.TRANSFERRING, ()), move(T.CANCEL, S.DONE, ())),
        *rows(
            S.TRANSFERRING,
            move(T.PAID, S.DONE, by(TRANSFER)),
            move(T.CANCEL, S.DONE, (), abandons=True),
        ),
    ),
)


POST = Effect("post", lease_ms=LEASE_MS)
# The effect has another name, needs no slot, is done once for one tenant, and its exhaustion fires.
POSTING = Machine(
    name="limited",
    renamed={"paying": "posting"},
    stages=(
        Waiting(S.IDLE, (LONG,)),
        Active(
            S.POSTING,
            (LONG,),
            effect=POST,
            outcomes=(T.PAID,),
            once=lambda data: data["tenant"] == "acme",
            crash=T.LOST,
            exhausted=T.LOST,
        ),
        Terminal(S.DONE),
    ),
    transitions=(
        *rows(S.IDLE, move(T.PAY, S.POSTING, ()), move(T.CANCEL, S.DONE, ())),
        *rows(
            S.POSTING,
            move(T.PAID, S.DONE, by(POST)),
            move(T.LOST, S.DONE, by(ORPHANS, PERSON)),
            move(T.CANCEL, S.DONE, (), abandons=True),
        ),
    ),
)


def with_state(machine: Machine, before: str, after: StrEnum) -> Machine:
    """Return a table in which a state has another name."""

    def now(state: StrEnum) -> StrEnum:
        return after if state == before else state

    return replace(
        machine,
        renamed={before: str(after)},
        stages=tuple(replace(stage, state=now(stage.state)) for stage in machine.stages),
        transitions=tuple(
            replace(row, source=now(row.source), target=now(row.target))
            for row in machine.transitions
        ),
    )


def mover(world: World, machine: Machine = NEWER) -> Mover:
    return Mover(world.lifecycle.store, {"limited": machine})


def at(world: World, state: str) -> int:
    index = world.keys.state_index_of(partition_of("r"), "limited", state)
    found: Any = world.client.zscore(index, "r")
    return int(found or 0)


def test_a_move_changes_names_and_data_and_leaves_the_rest(world: World) -> None:
    key = owing(world, "r", "acme")
    before, entry = world.record(), world.entry("pay")
    world.later(5_000)

    moved = mover(world).move("r", cause=WHY)

    assert moved == world.record()
    assert (moved.state, moved.schema, moved.version) == ("transferring", 2, before.version + 1)
    assert (moved.data["customer"], moved.title) == ("acme", "for acme")
    assert (moved.entered, moved.since_ms, moved.timers) == (
        before.entered,
        before.since_ms,
        before.timers,
    )
    (now,) = moved.entries
    assert (now.name, now.key("r"), now.slots) == ("transfer", key, "limited.transfer:acme")
    assert (now.attempts, now.attempts_max) == (entry.attempts, entry.attempts_max)
    assert (at(world, "paying"), at(world, "transferring")) == (0, before.since_ms)
    assert names_of(moved)[0].encode() in world.client.zrange(
        world.keys.search_index(partition_of("r")), 0, -1
    )
    event = world.events()[-1]
    assert (event.trigger, event.source, event.target) == ("moved", "paying", "transferring")
    assert (event.cause, event.version) == (WHY, moved.version)
    assert mover(world).move("r") == moved
    assert len(world.events()) == moved.version


def test_what_is_owed_by_another_name_is_due_at_once(world: World) -> None:
    key = owing(world, "r", "acme")
    later = world.score(key)
    assert later
    assert later > world.now
    mover(world).move("r")
    assert world.score(key) == world.now


def test_the_effect_of_a_paused_record_is_not_due(world: World) -> None:
    key = owing(world, "r", "acme")
    world.flag("pause")
    mover(world).move("r")
    assert world.score(key) is None


def test_an_effect_that_is_at_work_is_waited_for(world: World) -> None:
    lease, _ = begun(world, owing(world, "r", "acme"))
    before = world.dump()
    with pytest.raises(HeldError, match="pay is at work by an older version"):
        mover(world).move("r")
    assert world.dump() == before
    held = Warrant("token", (lease.key.partition(":")[2], lease.token))
    moved = mover(world).move("r", warrant=held)
    (now,) = moved.entries
    assert (now.name, now.state, now.token) == ("transfer", "leased", lease.token)


def test_a_record_that_has_changed_is_not_moved(world: World) -> None:
    owing(world, "r", "acme")
    found = move_of(NEWER, world.record())
    assert found
    world.fire("r", "poke")
    before = world.dump()
    store = world.lifecycle.store
    assert store.move(NEWER, found, token="", cause=WHY).status == "conflict"
    assert world.dump() == before


def test_a_record_that_is_gone_is_not_moved(world: World) -> None:
    owing(world, "r", "acme")
    found = move_of(NEWER, world.record())
    assert found
    world.client.delete(world.keys.record("r"))
    assert world.lifecycle.store.move(NEWER, found, token="", cause=WHY).status == "missing"
    assert not world.client.exists(world.keys.record("r"))


def test_a_move_is_counted_where_it_changes_the_state(world: World) -> None:
    owing(world, "r")
    world.create("s", {"tenant": "acme"}, machine="limited")
    mover(world).move("s")
    mover(world).move("r")
    found = MetricsReader(world.client, world.keys).read().transitions

    assert found["limited", "paying", "transferring"] == 1
    assert ("limited", "idle", "idle") not in found


def test_an_effect_that_is_at_work_stays_in_the_index_as_it_is(world: World) -> None:
    lease, _ = begun(world, owing(world, "r"))
    before = world.score(lease.key)
    mover(world).move("r", warrant=token(lease))
    assert world.score(lease.key) == before == world.now + LEASE_MS


def test_a_person_who_is_asked_about_an_effect_is_not_taken_by_surprise(world: World) -> None:
    lease, _ = begun(world, owing(world, "r"))
    world.leases.release(lease, delay_ms=LEASE_MS, counted=True, asks=True)
    mover(world).move("r")
    assert world.entry("transfer").asks_person
    assert world.score(lease.key) == world.now + LEASE_MS


def post(world: World, key: str, nonce: str) -> Lease:
    lease = world.leases.claim(key, POST, nonce=nonce, holder="here", schema=1)
    assert isinstance(lease, Lease), lease
    return lease


def test_an_effect_that_needs_no_slot_by_the_present_table_gets_none(world: World) -> None:
    key = owing(world, "r")
    mover(world, POSTING).move("r")
    assert (world.entry("post").slots, world.entry("post").no_restart) == ("", False)
    fields: Any = world.client.hkeys(world.keys.record("r"))
    assert not [field for field in fields if field.startswith(b"s:")]
    post(world, key, "a")
    assert world.entry("post").no_restart, "by the present table it is done once"


def test_the_present_table_says_what_follows_when_all_attempts_have_failed(world: World) -> None:
    key = owing(world, "r", "others")
    mover(world, POSTING).move("r")
    for nonce in ("a", "b"):
        world.leases.release(post(world, key, nonce), counted=True)
    assert world.poll_status(key) == "exhausted"


def test_a_slot_of_the_former_name_is_free_for_others(world: World) -> None:
    key = owing(world, "r")
    needs(world, key)
    mover(world).move("r")
    assert check(world, key) == "free"


def test_the_effect_of_a_transition_that_is_at_work_is_not_waited_for(world: World) -> None:
    world.at("asking")
    world.claim("notify")
    later = with_state(LIFE, "asking", S.WONDERING)
    moved = Mover(world.lifecycle.store, {"life": later}).move("r")
    assert (moved.state, moved.title) == ("wondering", "Life: nothing")
    assert world.state_of("notify") == "leased"
