"""A process that starts compares its tables with those by which the workers work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel

from interlock.kernel.errors import AnotherTableError, StrandedError
from interlock.kernel.machine import Machine
from interlock.kernel.outline import outline_of
from interlock.kernel.store.tables import Process
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.presence import WORKER, Presence
from interlock.workers.engine.publisher import Publisher
from interlock.workers.engine.table_check import check_tables
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.deployment import Deployment
from interlock.workers.ops.table_problems import problems_of_tables
from tests.workers.engine.payments import Payments, State, payment
from tests.workers.engine.renamed_states import Renamed, renamed
from tests.workers.engine.running import settings_for

REFUSED = (
    r"^1 record is in payment/approval, which the table no longer has \(such as one\): say by "
    r"renamed= what"
)
REVIEW = renamed(State.APPROVAL, Renamed.APPROVAL)


@pytest.fixture
def payments(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Payments:
    """Return a payment that waits for a person, by the first table; no table is applied yet."""
    found = Payments(settings_for(server.url, prefix), monkeypatch)
    found.use(payment())
    found.submit()
    found.work()
    return found


def worker(payments: Payments, table: Machine) -> Dispatch:
    """Return the connection of a worker that has been started with this table."""
    payments.use(table)
    app = payments.client.dispatch.publisher.app
    machines = payments.client.dispatch.machines
    return Dispatch(payments.settings, machines, Publisher(payments.settings, app, machines))


def applied(payments: Payments) -> str:
    found = payments.client.dispatch.tables.applied().get("payment")
    return found.digest if found else ""


@pytest.mark.parametrize("noted", [True, False], ids=["table noted", "of a version before"])
def test_a_table_without_a_place_for_records_at_work_starts_nothing(
    payments: Payments, *, noted: bool
) -> None:
    first = worker(payments, payment())
    if noted:
        check_tables(first, applied_by="w1")
    before = applied(payments)

    with pytest.raises(StrandedError, match=REFUSED):
        check_tables(worker(payments, REVIEW), applied_by="w2")
    with pytest.raises(StrandedError, match=REFUSED):
        check_tables(payments.client.dispatch)

    assert applied(payments) == before == (payment().digest if noted else "")


def test_a_worker_makes_its_tables_those_of_the_deployment_and_their_outlines_are_kept(
    payments: Payments,
) -> None:
    later = replace(REVIEW, renamed={"approval": "review"})
    check_tables(worker(payments, payment()), applied_by="w1")
    tables = payments.client.dispatch.tables
    first = tables.applied()["payment"]

    check_tables(worker(payments, later), applied_by="w2")
    second = tables.applied()["payment"]

    assert (first.by, second.by, second.digest) == ("w1", "w2", later.digest)
    assert tables.outline("payment", first.digest) == outline_of(payment())
    assert tables.outline("payment", second.digest) == outline_of(later)
    assert "task" in tables.applied()


class Data(BaseModel):
    payment: str = ""


class MoreData(Data):
    bank: str


def test_data_that_do_not_fit_refuse_a_table_as_long_as_a_record_is_at_work(
    payments: Payments,
) -> None:
    more = replace(payment(), model=MoreData)
    check_tables(worker(payments, replace(payment(), model=Data)), applied_by="w1")

    with pytest.raises(
        StrandedError,
        match=r"^1 record of payment would be stranded, as the data have a new field bank without",
    ):
        check_tables(worker(payments, more), applied_by="w2")

    payments.use(replace(payment(), model=Data))
    payments.client.decide("one", "reject", proposal=payments.client.show("one").proposal)
    check_tables(worker(payments, more), applied_by="w2")
    assert applied(payments) == more.digest


def test_one_that_is_no_worker_only_compares(payments: Payments) -> None:
    check_tables(payments.client.dispatch)

    assert payments.client.dispatch.tables.applied() == {}


def test_what_another_worker_applies_meanwhile_is_compared_too(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = worker(payments, renamed(State.UNCLEAR, Renamed.UNCLEAR))
    tables = second.tables
    apply = tables.apply
    calls: list[str] = []

    def late(machine: str, digest: str, *, expected: str, by: str) -> bool:
        calls.append(expected)
        if machine == "payment" and calls.count("") <= 1:
            apply(machine, "faster", expected="", by="w1")
        return apply(machine, digest, expected=expected, by=by)

    monkeypatch.setattr(tables, "apply", late)
    monkeypatch.setattr(second, "machines", {"payment": second.machines["payment"]})
    check_tables(second, applied_by="w2")

    assert calls == ["", "faster"]
    assert applied(payments) == second.machines["payment"].digest


def test_up_starts_no_process_with_a_table_that_has_no_place(
    payments: Payments, tmp_path: Path
) -> None:
    payments.use(REVIEW)
    settings = payments.settings.model_copy(update={"home": tmp_path})

    with pytest.raises(StrandedError, match=REFUSED):
        Deployment(settings, pages=False).__enter__()

    assert list((tmp_path / "log").iterdir()) == []


def test_a_caller_with_another_table_than_the_workers_changes_nothing(payments: Payments) -> None:
    check_tables(worker(payments, payment()), applied_by="w1")
    proposal = payments.client.show("one").proposal
    payments.use(renamed(State.UNCLEAR, Renamed.UNCLEAR))
    client, other = payments.client, payments.machine.digest

    with pytest.raises(AnotherTableError, match=rf"{other}.*{payment().digest}, applied by w1"):
        client.submit({}, id="two", machine="payment")
    with pytest.raises(AnotherTableError):
        client.decide("one", "approve", proposal=proposal)
    with pytest.raises(AnotherTableError):
        client.cancel("one")
    seen = (client.show("one").state, len(client.cards()), len(client.list(machine="payment")))
    check_tables(worker(payments, payments.machine), applied_by="w2")
    done = client.decide("one", "approve", proposal=proposal)

    assert (*seen, done.state) == ("approval", 1, 1, "done")


def test_a_worker_goes_on_by_the_table_with_which_it_has_begun(payments: Payments) -> None:
    first = worker(payments, payment())
    check_tables(first, applied_by="w1")
    check_tables(worker(payments, renamed(State.UNCLEAR, Renamed.UNCLEAR)), applied_by="w2")

    first.lifecycle.check(payment())


def test_a_process_is_announced_with_its_tables_until_it_ends(payments: Payments) -> None:
    dispatch = payments.client.dispatch
    begun = Presence(dispatch)

    begun.begin(WORKER, "worker@north")
    (found,) = dispatch.tables.processes()
    begun.end()

    assert (found.kind, found.name) == (WORKER, "worker@north")
    assert found.tables["payment"] == applied(payments) == payment().digest
    assert dispatch.tables.processes() == []
    assert dispatch.tables.applied()["payment"].by.startswith("worker@north with Interlock ")


def test_only_a_worker_makes_its_tables_those_of_the_deployment(payments: Payments) -> None:
    begun = Presence(payments.client.dispatch)
    begun.begin("api", "api@north")
    begun.end()

    assert payments.client.dispatch.tables.applied() == {}


def test_a_refusal_of_the_tables_ends_a_process_and_a_store_that_is_away_does_not(
    payments: Payments, caplog: pytest.LogCaptureFixture
) -> None:
    payments.use(REVIEW)
    with pytest.raises(SystemExit, match="interlock: 1 record is in payment/approval"):
        Presence(payments.client.dispatch).begin_anyway("beat", "beat@north")
    away = payments.settings.model_copy(update={"store_url": "redis://127.0.0.1:1/0"})
    machines = payments.client.dispatch.machines

    Presence(Dispatch(away, machines, patient=False)).begin_anyway("beat", "beat@north")

    assert "beat@north begins without the store" in caplog.text


def test_doctor_names_processes_with_other_tables_and_those_that_lack_a_machine(
    payments: Payments,
) -> None:
    dispatch = payments.client.dispatch
    check_tables(worker(payments, payment()), applied_by="w1")
    digest, task = payment().digest, dispatch.machines["task"].digest
    tables = {"payment": digest, "task": task}
    for process in (
        Process("api@north", "api", "1", tables),
        Process("beat@north", "beat", "1", {"task": task}),
        Process("old@south", "worker", "1", tables | {"payment": "older"}),
        Process("bare@south", "worker", "1", {"task": task}),
    ):
        dispatch.tables.announce(process)
    here = list(problems_of_tables(dispatch))
    payments.use(renamed(State.UNCLEAR, Renamed.UNCLEAR))
    elsewhere = list(problems_of_tables(payments.client.dispatch))

    another = "another table of payment ({}, and " + digest + " is applied by w1): start it anew"
    assert [problem.partition(" with the")[0] for problem in here] == [
        "beat@north does not know payment, which other processes know: start it",
        f"old@south has {another.format('older')}",
    ]
    assert f"this command has {another.format(payments.machine.digest)}" in elsewhere[-1]
