"""The test kit: a refund at work in a test, with crashes, lost messages and a time of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal
from unittest.mock import AsyncMock, Mock

import pytest
import refund
from refund import Refund

from interlock import Data, Workflow, hours, seconds
from interlock.kernel.errors import CallError, StoreMisconfiguredError
from interlock.kernel.store.format import refuse_another_format
from interlock.kernel.store.keys import Keys
from interlock.testing import Kit, KitError
from interlock.testing.store import KitStore
from interlock.workers.config import SettingsError
from interlock.workers.engine.store_client import open_safe_store
from interlock.workers.gateways import server

NewKit = Callable[..., Kit[Any]]
LARGE = Refund(order="o-1", cents=200_00)
SMALL = Refund(order="o-2", cents=5_00)


def pay(r: Refund) -> str:
    r.payment = "p-1"
    return "done"


@pytest.fixture
def refunds(kit: NewKit) -> Any:
    """Return the refund at work, whose payment is a fake."""
    made: Kit[Refund] = kit(refund.refund)
    with made.replaced(pay=pay):
        yield made


def test_a_large_refund_is_paid_once_a_person_approves_it(refunds: Kit[Refund]) -> None:
    refunds.submit(LARGE)
    refunds.run()
    assert refunds.card.question == "Refund 20000 cents of order o-1?"

    refunds.answer("approve")
    refunds.run()

    assert refunds.state == "done"
    assert refunds.data.payment == "p-1"
    assert refunds.calls("pay") == 1
    refunds.check()


def test_time_passes_only_when_the_test_says_so(refunds: Kit[Refund]) -> None:
    refunds.submit(LARGE)
    refunds.run()
    began, card = refunds.now, refunds.card
    assert refunds.advance(days=2.9).state == "approval"

    assert refunds.advance(days=0.1).state == "expired"

    assert refunds.now - began == timedelta(days=3)
    assert refunds.history[-1].at_ms == int(began.timestamp() * 1_000) + 3 * 86_400_000
    with pytest.raises(CallError):
        refunds.answer("approve", card=card)


@pytest.mark.parametrize(
    ("moment", "calls", "state"),
    [
        ({"before": "call"}, 0, "pay_unclear"),
        ({"after": "call"}, 1, "pay_unclear"),
        ({"before": "commit"}, 1, "pay_unclear"),
        ({"after": "commit"}, 1, "done"),
    ],
)
def test_a_worker_is_lost_where_the_test_says_so(
    refunds: Kit[Refund], moment: dict[str, str], calls: int, state: str
) -> None:
    refunds.submit(SMALL)
    refunds.crash("pay", **moment)

    refunds.run()

    assert (refunds.state, refunds.calls("pay")) == (state, calls)
    refunds.check()


def test_a_step_that_may_be_repeated_is_called_again_after_a_crash(refunds: Kit[Refund]) -> None:
    refunds.submit(SMALL)
    refunds.crash("check", before="commit")
    refunds.crash("check", after="call")

    assert refunds.run().state == "done"
    assert refunds.calls("check") == 3


def test_lost_and_doubled_messages_and_lost_replies_change_nothing(kit: NewKit) -> None:
    refunds = kit(refund.refund)
    refunds.lose_message("check")
    refunds.double_message("pay")
    refunds.lose_reply("pay")
    with refunds.replaced(pay=pay):
        refunds.submit(SMALL)
        began = refunds.now
        assert refunds.run().state == "done"

    assert refunds.now - began >= timedelta(seconds=1), "a sweep has sent the message again"
    assert refunds.calls("pay") == 1
    assert any("not owed any more" in line for line in refunds.lines), refunds.lines


class Item(Data):
    name: str


class Parcel(Data):
    items: list[Item]
    seen: str = ""


parcel = Workflow("kit_parcel", Parcel, start="look")


@parcel.step
def look(p: Parcel) -> Literal["pack"]:
    p.seen = "looked"
    return "pack"


@parcel.each("items", then="wait", on_failure="skip")
def pack(item: Item) -> None:
    item.name = f"packed {item.name}"


parcel.wait("wait", arrived="thank", timeout=hours(5), on_timeout="lost")


@parcel.step(max_attempts=3, retry_delay=seconds(20))
async def thank(p: Parcel) -> Literal["done"]:
    p.seen = "thanks"
    return "done"


parcel.ends(done=True, lost=False)


def test_children_calls_and_async_steps_run_in_the_test(kit: NewKit) -> None:
    parcels = kit(parcel)
    parcels.submit(Parcel(items=[Item(name="tea"), Item(name="cup")]))
    assert parcels.run().state == "wait"

    parcels.tell("arrived")

    assert parcels.run().state == "done"
    assert parcels.data.seen == "thanks"
    parcels.check()


def test_a_retry_comes_after_its_delay_and_no_timer_is_passed(kit: NewKit) -> None:
    parcels, failures = kit(parcel), [RuntimeError("busy")]

    def thank_late(p: Parcel) -> str:
        p.seen += ", thanked late"
        if failures:
            raise failures.pop()
        return "done"

    parcels.submit(Parcel(items=[]))
    assert parcels.run().state == "wait"
    parcels.tell("arrived")
    began = parcels.now
    with parcels.replaced(thank=thank_late):
        assert parcels.run().state == "done"

    assert parcels.now - began >= timedelta(seconds=10)
    assert parcels.calls("thank") == 2


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda kit: kit.crash("pya", before="call"), "no step 'pya'; there is check, pay"),
        (lambda kit: kit.crash("pay"), "one of before= and after="),
        (lambda kit: kit.crash("pay", before="lunch"), "no moment 'lunch'; there is call, commit"),
        (lambda kit: kit.calls("approval"), "no step of refund 'approval'; there is check, pay"),
        (lambda kit: kit.answer("approve"), "is in check and asks nobody; steps are due: run()"),
        (lambda kit: (kit.run(), kit.answer("yes")), "there is approve, reject"),
        (lambda kit: kit.advance(days=-1), "time only goes on"),
        (lambda kit: kit.replaced(pya=pay).__enter__(), "no step 'pya'"),
        (lambda kit: kit.replaced(pay="done").__enter__(), "pay cannot be replaced by 'done'"),
        (lambda kit: kit.replaced(pay=lambda: "done").__enter__(), "give a function of the data"),
    ],
)
def test_what_cannot_be_done_is_told(
    refunds: Kit[Refund], act: Callable[[Kit[Refund]], Any], said: str
) -> None:
    refunds.submit(LARGE)

    with pytest.raises(KitError) as refusal:
        act(refunds)

    assert said in str(refusal.value)


@pytest.mark.parametrize(
    "fake",
    [
        lambda _: "done",
        lambda _, work: work.id and "done",
        Mock(return_value="done"),
        AsyncMock(return_value="done"),
    ],
)
def test_a_fake_may_be_any_function(refunds: Kit[Refund], fake: Callable[..., Any]) -> None:
    refunds.submit(SMALL)

    with refunds.replaced(pay=fake):
        assert refunds.run().state == "done"

    assert refunds.calls("pay") == 1


def no_sync(_: Refund) -> str:
    raise AssertionError("not now")


async def no_async(_: Refund) -> str:
    pytest.fail("not now")


def no_kit(_: Refund) -> str:
    raise KitError("not now")


@pytest.mark.parametrize("fake", [no_sync, no_async, no_kit])
def test_what_a_fake_asserts_is_asserted_by_the_test(
    refunds: Kit[Refund], fake: Callable[..., Any]
) -> None:
    refunds.submit(SMALL)

    with refunds.replaced(pay=fake), pytest.raises((AssertionError, pytest.fail.Exception)) as said:
        refunds.run()

    assert "not now" in str(said.value)


def test_nothing_was_submitted(refunds: Kit[Refund]) -> None:
    with pytest.raises(KitError, match="no record was submitted"):
        assert refunds.record


def test_no_other_process_works_in_the_time_of_a_test(
    refunds: Kit[Refund], interlock_store: KitStore
) -> None:
    keys = Keys(refunds.client.settings.prefix)

    with pytest.raises(StoreMisconfiguredError, match="is one of a test, which sets its time"):
        open_safe_store(interlock_store.url, keys, connections_max=2, patient=False)
    with pytest.raises(StoreMisconfiguredError):
        refuse_another_format(refunds._redis, keys)


def test_a_kit_takes_no_other_store_than_its_own(kit: NewKit) -> None:
    with pytest.raises(KitError, match="leave INTERLOCK_STORE_URL and INTERLOCK_PREFIX out"):
        kit(
            refund.refund,
            settings={"INTERLOCK_STORE_URL": "redis://shop", "INTERLOCK_PREFIX": "interlock"},
        )


def test_a_kit_that_cannot_start_says_why_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "find_spec", lambda _: None)

    with pytest.raises(SettingsError, match="INTERLOCK_LEASE is no setting"):
        Kit(refund.refund, settings={"INTERLOCK_LEASE": "1"})
    with pytest.raises(KitError, match=r"pip install 'interlock\[server\]'"):
        Kit(refund.refund)


def test_a_kit_leaves_nothing_in_the_store(interlock_store: KitStore) -> None:
    with Kit(refund.refund, store=interlock_store) as refunds:
        refunds.submit(SMALL)
        client, prefix = refunds._redis, refunds.client.settings.prefix
        assert client.keys(f"{prefix}:*")

    assert not client.keys(f"{prefix}:*")
    client.close()


def test_the_plugin_costs_nothing_where_it_is_not_used() -> None:
    looked = "import interlock.testing.plugin, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", looked], capture_output=True, text=True, check=True
    )

    engine = ("celery", "redis", "pydantic", "interlock.kernel", "interlock.workers")
    assert not [name for name in done.stdout.split() if name.startswith(engine)]


hasty = Workflow("kit_hasty", Item)


@hasty.step(retry_delay=seconds(60))
def fetch(item: Item) -> Literal["rest"]:
    if item.name == "busy":
        raise RuntimeError(item.name)
    return "rest"


hasty.wait("rest", timeout=seconds(5), on_timeout="done")
hasty.ends(done=True)


def test_a_run_waits_for_no_retry_that_comes_after_a_timer(kit: NewKit) -> None:
    items = kit(hasty)
    items.submit(Item(name="idle"), id="idle")
    items.submit(Item(name="busy"), id="busy")
    began = items.now

    items.run()

    assert (items.now, items.calls("fetch")) == (began, 1)


gift = Workflow("kit_gift", Item)


@gift.step(name="thank")
def thank_for(item: Item) -> Literal["done"]:
    item.name = "thanked"
    return "done"


gift.ends(done=True)


def test_steps_of_two_workflows_may_have_one_name(kit: NewKit) -> None:
    gifts = kit(gift, parcel)
    with pytest.raises(KitError, match=r"say kit_gift\.thank or kit_parcel\.thank"):
        gifts.crash("thank", before="call")
    gifts.crash("kit_parcel.thank", before="call")
    gifts.lose_message("kit_parcel.thank")
    gifts.submit(Item(name="tea"))
    began = gifts.now

    with gifts.replaced(**{"kit_parcel.thank": lambda _: pytest.fail("it is the other's")}):
        gifts.run()

    assert (gifts.data.name, gifts.calls("thank")) == ("thanked", 1)
    assert gifts.now == began, "no sweep has had to send the message again"
