"""The store made a change and its reply was lost: repeating the call changes nothing."""

from __future__ import annotations

from tests.fakes.proxy import FaultProxy
from tests.kernel.store.kernel_at_a_fixed_time import Text, World, token


def losing(proxy: FaultProxy, text: Text, script: str, times: int = 1) -> None:
    """Lose the next replies to a script that the server has loaded."""
    for _ in range(times):
        proxy.lose_reply(text.sha_of(script).encode())


def test_a_lost_claim_reply_is_answered_by_the_same_lease(
    world: World, remote: World, proxy: FaultProxy, text: Text
) -> None:
    world.at("working")
    world.at("working", "other")
    world.claim(of="other")
    losing(proxy, text, "claim")
    lease = remote.claim(nonce="mine")

    assert proxy.replies_lost == 1
    assert lease.attempt == 1
    assert world.entry().token == lease.token
    assert [note.kind for note in world.notes()].count("claim") == 1
    assert world.fire("r", "done", warrant=token(lease)).version == 3


def test_a_reply_lost_after_the_commit_gets_the_first_outcome(
    world: World, remote: World, proxy: FaultProxy, text: Text
) -> None:
    record = world.at("working")
    lease = world.claim()
    losing(proxy, text, "commit", times=2)
    fired = remote.fire(
        record, "done", {"value": 1}, warrant=token(lease), op="mine", deltas={"spent": 5}
    )

    assert proxy.replies_lost == 2
    assert (fired.version, fired.replayed) == (3, True)
    assert world.record().version == 3
    assert world.counter("spent") == 5


def test_a_creation_whose_reply_was_lost_is_one_creation(
    world: World, remote: World, proxy: FaultProxy, text: Text
) -> None:
    world.create("other")
    losing(proxy, text, "create")
    fired = remote.create("r", {"value": 1})

    assert proxy.replies_lost == 1
    assert fired.replayed
    assert len(world.events()) == 1


def test_deltas_are_not_doubled_by_lost_replies(
    world: World, remote: World, proxy: FaultProxy, text: Text
) -> None:
    world.at("working")
    world.note(deltas={"spent": 1}, op="warm")
    losing(proxy, text, "note", times=3)
    remote.note(deltas={"spent": 10}, op="bill")

    assert proxy.replies_lost == 3
    assert world.counter("spent") == 11
    assert world.counter("tree.spent") == 11


def test_a_settling_whose_reply_was_lost_ends_the_countdown_once(
    world: World, remote: World, proxy: FaultProxy, text: Text
) -> None:
    spawn = world.split()
    world.create_child("r", "a")
    world.fire("r/a", "cancel")
    world.at("asking", "other")
    world.settle(world.claim("notify", of="other"))
    losing(proxy, text, "settle")
    word = remote.settle(spawn).status

    assert proxy.replies_lost == 1
    assert word == "lost"
    assert world.state_of("cascade") == "owed"
    assert world.counted() == set()


def test_a_release_whose_reply_was_lost_gives_back_once(
    world: World, remote: World, proxy: FaultProxy, text: Text
) -> None:
    world.at("working", "other")
    world.leases.release(world.claim(of="other"), counted=False)
    world.at("working")
    lease = world.claim()
    losing(proxy, text, "release")

    assert remote.leases.release(lease, counted=False) == "lost"
    assert world.state_of() == "owed"
    assert world.entry().attempts == 0


def test_a_lost_reply_of_a_slot_script_costs_nobody_the_wake_up(
    world: World, remote: World, proxy: FaultProxy, text: Text
) -> None:
    for of in ("g/a", "g/b", "g/c"):
        world.create(of, machine="node")
        world.slots.acquire("graph", world.record(of), 1)
    world.slots.release("another", "", 1)
    losing(proxy, text, "release_slot")
    to_wake = remote.slots.release("graph", "g/a", 1)
    losing(proxy, text, "acquire_slot")
    raised = remote.slots.acquire("graph", world.record("g/b"), 2)

    assert proxy.replies_lost == 2
    assert to_wake == ("g/b",)
    assert (raised.held, raised.to_wake) == (True, ("g/c",))
