"""A workflow may call its fields as Interlock's own machines do, with values of any kind."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from interlock import CardAnswer, Data, Workflow
from interlock.workers.console.record_look import look_at
from interlock.workers.ops import history_page, page
from interlock.workers.ops.description import describe, line_shown
from interlock.workers.terminal.printed_page import PagePrinter
from tests.workflow.at_work import Start


class Answer(CardAnswer):
    capability: str
    parameters: str


class Call(Data):
    capability: str = ""
    parameters: list[str] = []
    declared: str = ""
    reason: int = 1
    reasons: dict[str, str] = {}
    detail: int = 1
    values: int = 1
    payload: int = 1
    trigger: str = ""
    by: str = ""


class Named(Data):
    failure: Any = "none"
    proposals: Any = ["a"]
    inciting: Any = "it"
    title: Any = 1
    description: Any = 2
    tags: Any = 3
    policy: Any = "none"
    budget: Any = 5
    capability: str = "c"
    parameters: str = "p"
    declared: str = "d"
    values: Any = 1
    seen: Any = 1
    before: Any = 1
    appended: Any = 1
    taken: Any = 1
    added: Any = 1
    id: str = ""
    state: str = ""
    machine: str = ""
    version: str = ""
    parent: str = ""
    host: str = ""
    priority: str = ""


EMPTY = dict.fromkeys(("title", "description", "tags", "policy", "seen"), "")
OTHERS = {name: {"action": {"payload": 1}} for name in ("failure", "proposals", "inciting")}


@pytest.mark.parametrize("values", [{}, EMPTY, OTHERS], ids=["odd", "empty", "nested"])
def test_no_name_of_a_field_is_in_the_way(values: dict[str, Any], at_work: Start) -> None:
    flow = Workflow("named", Named)

    @flow.step
    def begin(n: Named) -> Literal["ask"]:
        n.taken, n.added, n.values = 2, {"x": 1}, [3]
        return "ask"

    flow.ask("ask", "Is {failure} {title}?", yes=("done", Answer))

    @flow.on("tell")
    def tell(n: Named, call: Call) -> None:
        n.parameters, n.declared = str(call.parameters), call.declared

    flow.ends(done=True)
    worker = at_work(flow)
    client = worker.client
    client.submit(flow, Named(**values), id="one")
    worker.work("one")
    client.fire("one", "tell", {"capability": "pay", "parameters": ["x"], "declared": "y"})

    def seen() -> None:
        PagePrinter().print(page.record(describe(client, "one")))
        lines = [line_shown(one) for one in client.history("one")]
        PagePrinter().print(history_page.history(lines, "named", everything=True))
        look_at(client, "one", 100)
        client.explain_all("one")
        assert [one.id for one in client.list(machine="named")] == ["one"]

    seen()
    assert client.card("one")
    ended = worker.answer("one", "yes", capability="pay", parameters="all")
    seen()

    assert (ended.state, ended.data["capability"], ended.data["parameters"]) == (
        "done",
        "pay",
        "all",
    )
    assert (ended.data["declared"], ended.data["taken"], ended.data["values"]) == ("y", 2, [3])
