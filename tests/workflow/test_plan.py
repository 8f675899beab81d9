"""What `interlock plan` says of a changed workflow whose records are at work."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import uuid4

import pytest
from pydantic import Field

from interlock import Budget, Data, Work, Workflow, days, hours
from interlock.kernel.comparison import compare
from interlock.kernel.errors import StrandedError
from interlock.kernel.outline import outline_of
from interlock.kernel.table_change import Outlook
from interlock.workers.engine.table_check import check_tables
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.plan import is_refused, plan_of, plan_page
from interlock.workers.terminal.printed_page import PagePrinter
from tests.workflow.at_work import AtWork, registered


class Old(Data):
    order: str
    cents: int


class Paid(Old):
    by: str = ""


class Named(Old):
    customer: str


class Bare(Data):
    order: str


class Small(Data):
    order: str
    cents: Annotated[int, Field(le=5)]


class Large(Data):
    order: str
    cents: Annotated[int, Field(le=50)]


class Written(Data):
    order: str
    cents: str


def made(
    data: type[Data] = Old,
    *,
    asking: str = "asking",
    pay: str = "pay",
    step: dict[str, Any] | None = None,
    question: dict[str, Any] | None = None,
    **options: Any,
) -> Workflow[Any]:
    refund: Workflow[Any] = Workflow("refund", data, expires=days(3), start=asking, **options)
    more = {"reject": "failed"} if question is None else question
    refund.ask(asking, "Refund order {order}?", approve=pay, **more)

    @refund.step(name=pay, **(step or {}))
    def paying(r: Any) -> Literal["done", "failed"]:
        return "done" if r.order else "failed"

    refund.ends(done=True, failed=False)
    return refund


def asked_twice() -> Workflow[Any]:
    refund: Workflow[Any] = Workflow("refund", Old, expires=days(3), start="asking")
    refund.ask("asking", "Refund order {order}?", approve="pay", reject="failed")
    refund.ask("pay", "Pay order {order}?", done="done", failed="failed")
    refund.ends(done=True, failed=False)
    return refund


def named(old: Old) -> Named:
    return Named(order=old.order, cents=old.cents, customer="?")


STRANDED = "These tables would not start: records would be stranded."
CHANGES: dict[str, tuple[Workflow[Any], list[str]]] = {
    "a state that is renamed, unsaid": (
        made(asking="approval"),
        [
            "asking is gone",
            "3 records are stranded: say renamed={'asking': ...}, or keep it and say retired=(",
            "new: approval",
            STRANDED,
        ],
    ),
    "a state that is renamed": (
        made(asking="approval", renamed={"asking": "approval"}),
        [
            "asking is called approval now",
            "3 records are moved: each goes on with its question and its timers",
        ],
    ),
    "a step that is renamed to a question": (
        made(asking="approval", pay="payment", renamed={"asking": "payment", "pay": "payment"}),
        [
            "asking is waiting, and payment is active",
            "3 records are stranded: rename to a state of",
        ],
    ),
    "a new field with a default": (
        made(Paid),
        ["the data have a new field by", "4 records: older ones have its default"],
    ),
    "a new field without one": (
        made(Named),
        [
            "the data have a new field customer without a default",
            "4 records are stranded: give it a default, or say schema=2",
        ],
    ),
    "a new field by a migration": (
        made(Named, schema=2, migrate=named),
        ["the data are of schema 2 now", "4 records are moved: migrate= makes older ones newer"],
    ),
    "a field less": (
        made(Bare),
        [
            "the data have no field cents any more",
            "4 records are stranded: say schema=2 and migrate=",
        ],
    ),
    "a limit that some data exceed": (
        made(Small),
        ["cents was int, and is int (le 5)", "1 record is stranded: say schema=2 and migrate="],
    ),
    "a limit that all data keep": (
        made(Large),
        ["cents was int, and is int (le 50)", "4 records: the data of all that are there fit"],
    ),
    "a step that becomes a question": (
        asked_twice(),
        ["pay was a step, and is a question", "1 record is stranded: give it another name, and"],
    ),
    "a choice that leads elsewhere": (
        made(question={"reject": "done"}),
        [
            "the choice reject of asking leads to done instead of failed",
            "3 records: those that are there go there, too",
        ],
    ),
    "a field of another type": (
        made(Written),
        ["cents was int, and is str", "4 records are stranded"],
    ),
    "another effect": (
        made(step={"max_attempts": 7, "timeout": hours(2), "queue": "banks"}),
        [
            "pay has attempts_max 7, not 3",
            "1 record: those that are owed keep theirs",
            "pay has timeout_ms 7200000, not 3600000",
            "pay has queue 'banks', not 'refund'",
        ],
    ),
    "a timer and a choice": (
        made(question={"later": "failed", "timeout": days(1), "on_timeout": "failed"}),
        [
            "the timer timeout of asking is new",
            "3 records: it is not set for those that are there already",
            "the choice reject of asking is gone",
            "asking has a new choice later",
        ],
    ),
    "a reminder": (
        made(question={"reject": "failed", "remind": hours(2)}),
        ["the timer reminder of asking is due after 7,200 s instead of 86,400 s"],
    ),
    "nothing": (made(), ["nothing changes for the records that there are"]),
}


class Chunk(Data):
    text: str


class Chunks(Data):
    chunks: list[Chunk] = []


class Mail(Data):
    text: str


class Letter(Mail):
    sender: str


def chunk_work(name: str) -> Workflow[Chunk]:
    work = Workflow(name, Chunk)

    @work.step
    def read(c: Chunk) -> Literal["done"]:
        assert c.text
        return "done"

    work.ends(done=True)
    return work


def grown(child: Workflow[Chunk], message: type[Data] | None, **options: Any) -> Workflow[Chunks]:
    doc: Workflow[Chunks] = Workflow("doc", Chunks, start="split", **options)

    @doc.step
    def split(d: Chunks, work: Work) -> Literal["parts"]:
        work.reserve(tokens=len(d.chunks))
        return "parts"

    doc.each("chunks", then="rest", name="parts", workflow=child)
    doc.wait("rest", go="done", timeout=days(1), on_timeout="done")

    def tell(d: Chunks, mail: Any) -> None:
        d.chunks.append(Chunk(text=mail.text))

    if message:
        tell.__annotations__["mail"] = message
        doc.on("tell")(tell)
    doc.ends(done=True)
    return doc


def test_calls_children_budgets_and_older_schemas_are_compared() -> None:
    old = outline_of(grown(chunk_work("reading"), Mail).machine)
    other = grown(chunk_work("summing"), None, budget=Budget(tokens=5)).machine

    found = {change.what: (change.means, change.states) for change in compare(old, other)}

    refused = "who calls it is refused"
    assert found["tell is not taken any more"] == (refused, ("rest",))
    kept = "those that are there stay records of reading: keep that workflow"
    assert found["children of parts are records of summing"] == (kept, ("parts",))
    assert found["there is a budget now"] == ("records keep what they were created with", None)
    needing = compare(old, grown(chunk_work("reading"), Letter).machine)
    assert [change.what for change in needing] == ["tell needs sender"]
    older = compare(outline_of(made(Named, schema=2, migrate=named).machine), made(Named).machine)
    assert [(one.verdict, one.what) for one in older] == [
        (Outlook.STRANDED, "the data were of schema 2, and are of schema 1 here")
    ]


def test_what_is_done_once_now_or_has_a_timer_less_is_told() -> None:
    timed = made(question={"reject": "failed", "timeout": days(1), "on_timeout": "failed"})
    once = made(step={"once": True})

    found = {
        change.what: change.means for change in compare(outline_of(timed.machine), once.machine)
    }

    assert found["the timer timeout of asking is gone"] == (
        "those that are set move nothing: they remind"
    )
    assert found["pay is done once now"] == "one that was begun before may still be begun again"


@pytest.fixture(scope="module")
def worked(server: EmbeddedServer) -> str:
    """Return the prefix of a store with three refunds that ask and one that is to be paid."""
    prefix, old = f"t{uuid4().hex[:12]}", made()
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        check_tables(worker.client.dispatch, applied_by="worker")
        for number in range(4):
            payload = {"order": f"o-{number}", "cents": 5 if number else 6}
            worker.client.submit(payload, machine="refund", id=f"r-{number}")
        worker.answer("r-0", "approve")
    return prefix


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_told_with_what_it_means_for_how_many_records(
    name: str, worked: str, server: EmbeddedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    new, lines = CHANGES[name]
    with registered(new):
        plan = plan_of(AtWork(server.url, worked, new).client.dispatch)

    PagePrinter().print(plan_page(plan))

    printed = capsys.readouterr().out
    assert [line for line in lines if line not in printed] == [], printed
    assert is_refused(plan) == ("stranded" in printed)


def test_a_state_that_is_gone_and_has_no_record_needs_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone = {"what": "paid is gone", "means": "say renamed=", "records": 0}
    part = {"machine": "refund", "older": "", "changes": [{**gone, "verdict": Outlook.STRANDED}]}

    PagePrinter().print(plan_page([part]))

    lines = ["refund", "  paid is gone", "    no record is stranded"]
    assert capsys.readouterr().out.splitlines() == lines


def test_a_change_that_strands_records_by_their_data_or_their_state_starts_nothing(
    worked: str, server: EmbeddedServer
) -> None:
    for new, why in ((made(Small), "cents was int"), (asked_twice(), "pay was a step, and is a")):
        with registered(new), pytest.raises(StrandedError, match=f"1 record of refund .*{why}"):
            check_tables(AtWork(server.url, worked, new).client.dispatch)


def test_a_workflow_that_is_not_in_the_files_is_named_with_its_records(
    worked: str, server: EmbeddedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(AtWork(server.url, worked).client.dispatch)

    PagePrinter().print(plan_page(plan))

    assert not is_refused(plan)
    assert capsys.readouterr().out.splitlines() == [
        "refund",
        "  refund is not in these files",
        "    4 records: they stay as they are; name the file of that workflow too, to compare it",
    ]
