"""Records in a state that the table no longer has are named wherever somebody looks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
import redis
from fastapi.testclient import TestClient

from interlock.kernel.errors import UnknownStateError
from interlock.kernel.record import partition_of
from interlock.workers.api.app import create_app
from interlock.workers.console.app import create_console
from interlock.workers.engine.sweeps import stalls
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.description import describe
from interlock.workers.ops.table_problems import problems_of_tables
from interlock.workers.ops.top.snapshot import SnapshotReader
from interlock.workers.ops.verify import verify_all
from tests.end_to_end.engine.test_stranding import due
from tests.sweeping import sweeping
from tests.workers.engine.payments import Payments, State, payment
from tests.workers.engine.renamed_states import Renamed, renamed
from tests.workers.engine.running import perform, settings_for

STRANDED = "1 record is in payment/approval, which the table no longer has (such as one)"
WHY = "the table of payment has no state 'approval'"


@pytest.fixture
def payments(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Payments:
    """Return a payment that waits for a person, and one that is to be paid, by the first table."""
    found = Payments(settings_for(server.url, prefix, INTERLOCK_AUTH="none"), monkeypatch)
    found.use(payment())
    states = [{"name": str(stage.state)} for stage in found.machine.stages]
    found.client.dispatch.tables.keep("payment", "first", {"states": states})
    found.client.submit({}, id="two", machine="payment")
    found.submit()
    found.work()
    return found


def test_a_record_in_a_state_that_the_table_lacks_is_in_no_list_left_out(
    payments: Payments,
) -> None:
    payments.use(renamed(State.APPROVAL, Renamed.APPROVAL))
    client = payments.client

    (card,) = client.cards()
    faults = verify_all(client.dispatch, None)["faults"]

    assert (card.record_id, card.kind, card.affordances) == ("one", "unknown_state", ())
    assert card.question.startswith(f"Nobody can answer this here: {WHY}")
    assert client.card("one") == card
    assert client.counts(machine="payment").machines["payment"] == {"approval": 1, "paying": 1}
    assert [row.id for row in client.list(machine="payment", state="approval")] == ["one"]
    assert describe(client, "one")["outlook"].startswith(WHY)
    assert any(fault.startswith(f"one: {WHY}") for fault in faults), faults
    assert list(problems_of_tables(client.dispatch)) == [
        f"{STRANDED}; `interlock plan` says what to do"
    ]
    assert SnapshotReader(client).read().asks == 1


def test_every_page_shows_such_a_record_and_says_why_nothing_can_be_done(
    payments: Payments,
) -> None:
    payments.use(renamed(State.APPROVAL, Renamed.APPROVAL))
    client = payments.client

    with TestClient(create_app(client), base_url="http://127.0.0.1") as http:
        listed = http.get("/v1/cards").json()["cards"]
        shown = http.get("/v1/records/one").json()
        records = http.get("/v1/records", params={"machine": "payment"}).json()["records"]
        refused = http.post("/v1/records/one:cancel", json={}, headers={"Idempotency-Key": "1"})
    with TestClient(create_console(client), base_url="http://127.0.0.1") as browser:
        paths = ("/inbox", "/inbox/one", "/records", "/records/one")
        pages = {path: browser.get(path) for path in paths}

    assert [card["kind"] for card in listed] == ["unknown_state"]
    assert shown.get("ended") is False, shown
    assert (shown["ended"], shown["outlook"].startswith(WHY)) == (False, True)
    assert {row["id"] for row in records} == {"one", "two"}
    assert (refused.status_code, WHY in refused.json()["detail"]) == (409, True)
    assert {path: page.status_code for path, page in pages.items()} == dict.fromkeys(paths, 200)
    assert "no state" in pages["/inbox/one"].text
    assert "no state" in pages["/records/one"].text


@pytest.mark.parametrize("act", ["decide", "cancel", "fire", "explain"])
def test_what_a_person_does_is_refused_with_the_cause(payments: Payments, act: str) -> None:
    proposal = payments.client.show("one").proposal
    payments.use(renamed(State.APPROVAL, Renamed.APPROVAL))
    client = payments.client
    acts: dict[str, Callable[[], object]] = {
        "decide": lambda: client.decide("one", "approve", proposal=proposal),
        "cancel": lambda: client.cancel("one"),
        "fire": lambda: client.fire("one", "reject"),
        "explain": lambda: client.explain("one", "reject"),
    }

    with pytest.raises(UnknownStateError, match=WHY):
        acts[act]()

    payments.use(payment())
    assert payments.client.decide("one", "approve", proposal=proposal).state == "done"


def test_a_worker_gives_the_effect_of_such_a_record_back(
    payments: Payments, caplog: pytest.LogCaptureFixture
) -> None:
    entry = payments.client.show("two").entries[0]
    payments.use(renamed(State.PAYING, Renamed.PAYING))

    line = perform(payments.runner, payments.machine, "pay", payments.pay, entry.key("two"))
    left = payments.client.show("two")

    assert line.startswith("retry: waits")
    assert "has no state 'paying'" in line
    assert (left.state, left.entries[0].attempts) == ("paying", entry.attempts)
    assert payments.paid == 1
    assert "is given back: the table of payment has no state 'paying'" in caplog.text


def test_what_may_begin_only_once_is_not_begun_by_a_worker_that_lacks_its_state(
    payments: Payments,
) -> None:
    payments.use(payment(once=True))
    payments.client.submit({}, id="three", machine="payment")
    entry = payments.client.show("three").entries[0]
    payments.use(renamed(State.PAYING, Renamed.PAYING, once=True))
    line = perform(payments.runner, payments.machine, "pay", payments.pay, entry.key("three"))
    payments.use(payment(once=True))

    paid = perform(payments.runner, payments.machine, "pay", payments.pay, entry.key("three"))

    assert line.startswith("retry: not claimed: the table of payment has no state 'paying'")
    assert paid == "paid -> approval"


def test_an_effect_whose_handler_needs_another_version_is_given_back(payments: Payments) -> None:
    entry = payments.client.show("two").entries[0]

    def needs_another(work: EffectWork) -> Outcome:
        raise UnknownStateError(work.machine.name, "gone")

    line = perform(payments.runner, payments.machine, "pay", needs_another, entry.key("two"))

    assert line.startswith("retry: waits (owed): the table of payment has no state 'gone'")
    assert payments.client.show("two").entries[0].attempts == 0


def test_an_effect_that_the_table_lacks_is_named(payments: Payments) -> None:
    with pytest.raises(UnknownStateError, match="the table of payment has no effect 'gone'"):
        payments.client.dispatch.effect("payment", "gone")


def test_sweeps_leave_such_a_record_to_a_process_that_knows_it(
    payments: Payments, caplog: pytest.LogCaptureFixture
) -> None:
    payments.use(renamed(State.PAYING, Renamed.PAYING))
    dispatch = payments.client.dispatch
    due(dispatch, cast(redis.Redis, dispatch.client), "two", "late")
    caplog.set_level("INFO")

    seen = stalls.run(sweeping(dispatch), partition_of("two"))

    assert seen["refused"] == 1
    assert "two:late is left to a process that knows it" in caplog.text
    assert payments.client.show("two").state == "paying"
