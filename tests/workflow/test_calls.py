"""Calls from outside: mail before, during and after a step, and answers to changed questions."""

from __future__ import annotations

import sys
from typing import Any, Literal

import pytest

from interlock import Because, Data, Inbox, Log, Refuse, Sum, Work, Workflow
from interlock.kernel.errors import (
    CallError,
    GuardRefusedError,
    InvalidPayloadError,
    StaleDecisionError,
    TableFunctionError,
)
from interlock.workers.engine.work import EffectWork, Outcome
from tests.workflow.at_work import AtWork, Start


class Mail(Data):
    text: str


class Agent(Data):
    goal: str
    said: Log[str] = []
    mail: Inbox[str] = []
    heard: Sum[int] = 0
    tool: str = ""
    reason: str = ""


def agents() -> Workflow[Agent]:
    agent = Workflow("assistant", Agent, start="think")

    @agent.step
    def think(a: Agent) -> Literal["consent", "done"]:
        a.said += [f"read {text}" for text in a.mail]
        a.heard += len(a.mail)
        a.mail = []
        if a.goal == "ask" and not a.reason:
            a.tool = a.tool or "delete_files"
            return "consent"
        return "done"

    agent.ask("consent", "May it call {tool}?", approve="act", refuse=("think", Because))

    @agent.step
    def act(a: Agent, work: Work) -> Literal["think"]:
        a.said.append(work.once(a.tool, str.upper, a.tool))
        a.reason = "done"
        return "think"

    @agent.on("tell")
    def tell(a: Agent, mail: Mail) -> None:
        if mail.text == "stop":
            raise Refuse("it does not stop")
        if mail.text == "exit":
            sys.exit("it is over")
        a.mail.append(mail.text)
        a.heard += 100

    @agent.on("use")
    def use(a: Agent, mail: Mail) -> None:
        a.tool = mail.text

    agent.ends(done=True)
    return agent


@pytest.fixture
def worker(at_work: Start) -> AtWork:
    return at_work(agents())


def during(worker: AtWork, record_id: str, *calls: tuple[str, str]) -> str:
    """Perform the effect that is due, and make calls while its step is at work."""
    entry, record = worker.entries(record_id)[0], worker.client.show(record_id)
    handler = worker.flows[record.machine].handlers[entry.name]

    def called(work: EffectWork) -> Outcome:
        outcome = handler(work)
        for name, text in calls:
            worker.client.fire(record_id, name, {"text": text})
        assert isinstance(outcome, Outcome)
        return outcome

    return worker.perform(record_id, called)


def test_mail_that_comes_before_during_and_after_a_step_is_read_once(worker: AtWork) -> None:
    worker.client.submit({"goal": "rest"}, machine="assistant", id="one")
    worker.client.fire("one", "tell", {"text": "before"})

    during(worker, "one", ("tell", "during"))
    assert worker.client.show("one").state == "think", "it begins again, for the mail"
    ended = worker.work("one")

    assert ended.state == "done"
    assert ended.data["said"] == ["read before", "read during"]
    assert (ended.data["mail"], ended.data["heard"]) == ([], 202)
    with pytest.raises(CallError):
        worker.client.fire("one", "tell", {"text": "after"})


def test_an_answer_to_a_question_that_has_changed_is_refused(worker: AtWork) -> None:
    worker.client.submit({"goal": "ask"}, machine="assistant", id="one")
    worker.work("one")
    seen = worker.client.card("one")
    assert seen
    worker.client.fire("one", "tell", {"text": "hello"})
    unchanged = worker.client.card("one")
    assert unchanged
    assert unchanged.proposal == seen.proposal, "mail changes nothing that the question shows"

    worker.client.fire("one", "use", {"text": "copy_files"})

    with pytest.raises(StaleDecisionError):
        worker.client.decide("one", "approve", proposal=seen.proposal)
    card = worker.client.card("one")
    assert card
    assert card.question == "May it call copy_files?"
    worker.answer("one", "approve")
    assert worker.work("one").data["said"] == ["COPY_FILES", "read hello"]


def test_an_answer_brings_the_fields_of_its_model(worker: AtWork) -> None:
    worker.client.submit({"goal": "ask"}, machine="assistant", id="one")
    worker.work("one")

    worker.answer("one", "refuse", reason="too risky")

    assert worker.client.show("one").data["reason"] == "too risky"
    assert worker.work("one").state == "done"


def test_a_call_may_refuse_with_a_sentence_and_changes_nothing(worker: AtWork) -> None:
    worker.client.submit({"goal": "rest"}, machine="assistant", id="one")

    with pytest.raises(GuardRefusedError, match="it does not stop"):
        worker.client.fire("one", "tell", {"text": "stop"})
    with pytest.raises(CallError, match="text: this field is missing"):
        worker.client.fire("one", "tell", {})

    assert worker.client.show("one").version == 1


def test_a_step_begins_again_if_a_call_changed_what_it_changes_too(worker: AtWork) -> None:
    worker.client.submit({"goal": "ask"}, machine="assistant", id="one")

    during(worker, "one", ("use", "copy_files"))

    assert worker.client.show("one").state == "think"
    assert worker.work("one").data["tool"] == "copy_files", "the call came first"


def test_nothing_that_a_step_has_read_changes_once_it_has_begun_what_is_done_once(
    worker: AtWork,
) -> None:
    worker.client.submit({"goal": "ask"}, machine="assistant", id="one")
    worker.work("one")
    worker.answer("one", "approve")

    line = during(worker, "one", ("tell", "hello"), ("use", "copy_files"))

    assert "tool cannot be changed while a step is at work that may be done once" in line
    assert worker.client.show("one").data["mail"] == ["hello"], "mail is taken all the same"


def test_a_call_may_bring_its_model_and_what_is_no_object_is_refused(worker: AtWork) -> None:
    worker.client.submit({"goal": "rest"}, machine="assistant", id="one")

    worker.client.fire("one", "tell", dict(Mail(text="as a dict")))
    call: Any = worker.client.fire
    call("one", "tell", Mail(text="as a model"))

    assert worker.client.show("one").data["mail"] == ["as a dict", "as a model"]
    with pytest.raises(InvalidPayloadError, match="tell is invalid: it is str, not an object"):
        call("one", "tell", "hello")


def test_a_call_that_exits_ends_nobody_else(worker: AtWork) -> None:
    worker.client.submit({"goal": "rest"}, machine="assistant", id="one")

    with pytest.raises(TableFunctionError, match=r"SystemExit: it is over \(.*test_calls.py, line"):
        worker.client.fire("one", "tell", {"text": "exit"})
