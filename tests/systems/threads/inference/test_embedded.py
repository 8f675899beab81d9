from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.judge_embedded import ASKS, TUNING, Report, catalog, judge
from interlock.system.models import OfferedCapability
from interlock.systems.threads.inference.embedded import EmbeddedModel
from interlock.systems.threads.inference.outcome import ModelProposal
from interlock.systems.threads.inference.question import Question, Target
from interlock.systems.threads.inference.reading import meaning
from interlock.systems.threads.inference.reading.meaning import Meanings
from interlock.systems.threads.inference.reading.nearest import UNDERSTOOD
from interlock.systems.threads.inference.reading.understanding import NOT_UNDERSTOOD_MAX
from interlock.workers.gateways.capabilities.result import fit
from interlock.workers.gateways.llm.outcome import Answered, FailureCode, TokenUsage, Unanswered
from tests.systems.threads.inference.questions import ask, question

AT = "2026-03-10T09:00:00+01:00"


def wish(title: str, text: str = "", target: Target = Target.ACTION, **changes: Any) -> Question:
    inciting = {"source": "inbox", "title": title, "text": text, "at": AT, "fields": {}}
    given = {"inciting": inciting, "items": (), "catalog": catalog()}
    return question(target, **(given | changes))


def remark(text: str = "", kind: str = "provided", **values: Any) -> dict[str, Any]:
    return {"phase": "action", "kind": kind, "text": text, "values": values}


def proposal(asked: Question) -> ModelProposal:
    outcome = ask(EmbeddedModel(), asked)
    assert isinstance(outcome, Answered), outcome
    fit(dict(outcome.answer[asked.target].payload))
    return outcome.answer[asked.target]


@pytest.fixture(scope="module")
def report() -> Report:
    return judge()


def test_it_is_better_than_guessing_on_requests_it_was_not_tuned_on(report: Report) -> None:
    # Measured: 78.3 % against 33.3 %; the rest ends in a question.
    assert report.accuracy >= 0.75
    assert report.accuracy >= report.baseline + 0.4
    assert [row.title for row in report.judged if row.proposed not in {row.expected, ASKS}] == []
    assert report.parameters_right == 1.0


def test_what_no_capability_does_ends_in_a_question_always(report: Report) -> None:
    assert [row.title for row in report.judged if row.expected == ASKS != row.proposed] == []


def test_the_judged_requests_are_sixty_and_none_of_them_is_tuned_on(report: Report) -> None:
    judged = {row.title for row in report.judged}

    assert len(report.judged) == 60
    assert sum(row.expected == ASKS for row in report.judged) == 20
    tuning = json.loads(TUNING.read_text(encoding="utf-8"))["requests"]
    assert not judged & {row["title"] for row in tuning}


def test_it_costs_nothing() -> None:
    asked = wish("buy milk")
    outcome = ask(EmbeddedModel(), asked)

    assert EmbeddedModel().estimate_micro(asked) == outcome.cost_micro == 0
    assert outcome.usage == TokenUsage()


def test_a_command_is_taken_from_its_fence() -> None:
    found = proposal(wish("tidy up", "Please run\n```sh\nrm -rf build\n```\nthanks"))

    assert found.payload["kind"] == "standard"
    assert found.payload["capability"] == "run_command"
    assert found.payload["parameters"] == {"command": "rm -rf build"}
    assert found.confidence >= UNDERSTOOD


def test_what_is_missing_is_asked_for_by_name() -> None:
    found = proposal(wish("schedule a call with the customer")).payload

    assert (found["kind"], found["capability"]) == ("clarification", "add_appointment")
    assert found["parameters"] == {"title": "Call with the customer"}
    assert found["blocked_on"].endswith(": for this I still need: start (date and time)")


@pytest.mark.parametrize("text", ["", "One is light, the other has the better keyboard."])
def test_a_question_is_not_taken_for_a_note(text: str) -> None:
    title = "Jot down which of these two laptops you would get?"

    assert proposal(wish(title.rstrip("?"), text)).payload["capability"] == "append_note"
    assert proposal(wish(title, text)).payload["kind"] == "clarification"
    assert proposal(wish(f"Could you {title}", text)).payload["capability"] == "append_note"


def test_a_question_whose_answer_is_a_command_runs_it() -> None:
    asked = wish("How full is the disk?", "```\ndf -h\n```\nrun this command, please")

    assert proposal(asked).payload["parameters"] == {"command": "df -h"}


def test_an_answer_to_what_was_missing_completes_the_action() -> None:
    asked = wish(
        "schedule a call with the customer on Friday", feedback=(remark("at 16:30 would be fine"),)
    )
    found = proposal(asked).payload

    assert found["kind"] == "standard"
    assert found["parameters"]["start"] == "2026-03-13T16:30:00"


def test_values_that_a_person_gives_override_what_was_found() -> None:
    asked = wish("dentist appointment tomorrow at 10:30")
    asked_again = wish(
        "dentist appointment tomorrow at 10:30",
        feedback=(remark(kind="edited", start="2026-05-01T08:00:00"),),
    )

    assert proposal(asked).payload["parameters"]["start"] == "2026-03-11T10:30:00"
    assert proposal(asked_again).payload["parameters"]["start"] == "2026-05-01T08:00:00"


def test_values_that_do_not_fit_are_asked_for_again() -> None:
    asked = wish("dentist appointment", feedback=(remark(start="whenever"),))
    found = proposal(asked).payload

    assert found["kind"] == "clarification"
    wrong = "start must be given as date and time, as in 2026-11-24 10:00; 'whenever' is not a"
    assert wrong in found["blocked_on"]


def test_the_newest_remark_decides_alone_if_it_is_understood() -> None:
    title = "meeting with Bob on Tuesday at 15:00"
    redirected = wish(title, feedback=(remark("no, add this to my list of things to do"),))
    back = wish(
        title,
        feedback=(
            remark("no, add this to my list of things to do", "redirected"),
            remark("sorry, put this date in my diary after all", "redirected"),
        ),
    )

    assert proposal(wish(title)).payload["capability"] == "add_appointment"
    assert proposal(redirected).payload["capability"] == "add_task"
    assert proposal(redirected).payload["parameters"]["item"] == "Meeting with Bob at 15:00"
    assert proposal(back).payload["capability"] == "add_appointment"


@pytest.mark.parametrize(
    ("title", "text"), [("", ""), ("?", "!"), ("Who wrote this book?", ""), ("zxcv", "qwer")]
)
def test_what_is_not_understood_is_asked_about(title: str, text: str) -> None:
    found = proposal(wish(title, text))

    assert (found.payload["kind"], found.payload["capability"]) == ("clarification", None)
    assert found.payload["blocked_on"].startswith("I did not understand")
    assert found.confidence < UNDERSTOOD


def test_an_empty_request_takes_its_words_from_the_answer() -> None:
    found = proposal(wish("", feedback=(remark("I need to buy milk"),))).payload

    assert (found["kind"], found["capability"]) == ("standard", "add_task")
    assert found["parameters"] == {"item": "Buy milk"}


def asks_for(capability: str | None, **parameters: Any) -> dict[str, Any]:
    return {"kind": "clarification", "capability": capability, "parameters": parameters}


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        ("2026-11-24 10:00", "standard", None),
        ("some day", "clarification", "start must be given as date and time"),
    ],
)
def test_an_answer_with_one_value_stays_with_the_capability(
    answer: str, kind: str, says: str | None
) -> None:
    asks = asks_for("add_appointment", title="the roof")
    found = proposal(wish("the roof", previous=asks, feedback=(remark(answer),))).payload

    assert (found["kind"], found["capability"]) == (kind, "add_appointment")
    assert found["parameters"]["title"] == "Roof"
    assert found["parameters"].get("start") == ("2026-11-24T10:00:00" if says is None else None)
    assert says is None or says in found["blocked_on"]


def test_the_one_missing_value_is_not_read_as_another_wish() -> None:
    asked = wish("Write that down", previous=asks_for("append_note"))
    alone = proposal(wish("Buy milk")).payload

    found = proposal(replace(asked, feedback=(remark("Buy milk"),))).payload

    assert alone["capability"] == "add_task"
    assert (found["kind"], found["capability"]) == ("standard", "append_note")
    assert found["parameters"]["text"] == "Buy milk"


def test_what_is_not_understood_lists_the_nearest_to_pick_from() -> None:
    options = proposal(wish("Mow the meadow", target=Target.INTENT)).payload["options"]

    assert len(options) == 5
    assert all(one["says"] and ":" not in one["says"] for one in options), "what a button says"
    for number, name in enumerate((one["text"] for one in options), 1):
        for answer in (str(number), name, name.replace("_", " ").title()):
            picks = ({**remark(answer), "phase": "intent"},)
            found = proposal(wish("Mow the meadow", feedback=picks)).payload
            assert found["capability"] == name
            assert answer not in found["parameters"].values()


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ("Put 'give the thing back to Sam' on my todo list.", "Give the thing back to Sam"),
        ("I need to buy it again, twice", "Buy it again, twice"),
    ],
)
def test_a_persons_new_words_replace_those_of_the_request(said: str, taken: str) -> None:
    words = ({**remark(said), "phase": "intent"},)
    request = ("Can you do the thing like last time?", "But not quite as much.")

    intent = proposal(wish(*request, target=Target.INTENT, feedback=words)).payload["intent"]
    found = proposal(wish(*request, feedback=words)).payload

    assert intent == f"put an item on the todo list: {taken}"
    assert found["parameters"]["item"] == taken


def test_without_a_catalog_nothing_is_understood() -> None:
    assert proposal(wish("buy milk", catalog=())).payload["kind"] == "clarification"
    assert proposal(wish("buy milk", catalog=(), target=Target.INTENT)).confidence == 0.0


def test_an_intent_says_the_capability_and_the_title() -> None:
    found = proposal(wish("I need to buy milk", target=Target.INTENT))

    assert found.payload == {"intent": "put an item on the todo list: I need to buy milk"}
    assert found.confidence >= UNDERSTOOD


def test_an_intent_that_is_not_understood_is_hardly_believed() -> None:
    found = proposal(wish("How tall is that tower?", target=Target.INTENT))

    assert found.payload["intent"] == "How tall is that tower?"
    assert found.payload["blocked_on"].startswith("I did not understand")
    assert found.confidence <= NOT_UNDERSTOOD_MAX


def test_an_intent_that_a_person_wrote_is_followed() -> None:
    title = "two litres of varnish"
    asked = wish(title, intent=f"put an item on the todo list: {title}")

    assert proposal(wish(title)).payload["kind"] == "clarification"
    assert proposal(asked).payload["capability"] == "add_task"


def test_context_is_what_is_near_in_meaning() -> None:
    items = (
        {"id": "a", "source": "f", "type": "file", "label": "shopping list: milk, bread, butter"},
        {"id": "b", "source": "f", "type": "file", "label": "tax return 2019", "payload": {}},
        {"id": "c", "source": "f", "type": "file", "label": "x", "payload": {"n": 1, "t": "milk"}},
    )
    found = proposal(wish("buy milk and bread", target=Target.CONTEXT, items=items))

    assert found.payload["item_ids"] == ["a", "c"]
    assert found.payload["reasoning"] == "2 of its 3 items are near in meaning"
    assert 0.5 <= found.confidence <= 1


def test_no_items_is_a_sure_context() -> None:
    found = proposal(wish("buy milk", target=Target.CONTEXT))

    assert (found.payload["item_ids"], found.confidence) == ([], 1.0)


def test_combined_answers_all_three_alike() -> None:
    outcome = ask(EmbeddedModel(), wish("I need to buy milk", target=Target.COMBINED))
    assert isinstance(outcome, Answered)

    assert list(outcome.answer) == [Target.INTENT, Target.CONTEXT, Target.ACTION]
    for target, found in outcome.answer.items():
        assert found == proposal(wish("I need to buy milk", target=target))


def test_it_declares_no_risk_of_its_own() -> None:
    payload = proposal(wish("tidy up", "```\nrm -rf /\n```")).payload

    assert payload["irreversibility"] == payload["regret_potential"] == "low"
    assert payload["risk_amplifier"] is False


def test_confidence_rises_with_likeness_and_with_the_margin() -> None:
    near = OfferedCapability("near", "feed the cat", ("give food to the cat",), {"type": "object"})
    rival = OfferedCapability(
        "rival", "feed the dog", ("give food to the dog",), {"type": "object"}
    )
    far = OfferedCapability("far", "compile the kernel", (), {"type": "object"})

    def sure(*choices: OfferedCapability) -> float:
        return proposal(wish("feed the cat please", catalog=choices)).confidence

    assert sure(near, far) > sure(near, rival)
    assert sure(near) > sure(rival) > sure(far)


def test_a_capability_may_do_what_is_background_elsewhere() -> None:
    send = OfferedCapability(
        "send_email", "send an email", ("write an email to Bob",), {"type": "object"}
    )

    assert proposal(wish("send an email to Anna")).payload["kind"] == "clarification"
    found = proposal(wish("send an email to Anna", catalog=(*catalog(), send)))
    assert found.payload["capability"] == "send_email"


def test_it_is_loaded_once_however_many_threads_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    load = meaning._load

    def counted() -> Any:
        loaded.append(1)
        return load()

    monkeypatch.setattr(meaning, "_load", counted)
    model = Meanings()
    with ThreadPoolExecutor(8) as threads:
        rows = list(threads.map(lambda n: model.vectors([f"text {n % 3}"])[0], range(24)))

    assert loaded == [1]
    assert all(np.array_equal(row, rows[n % 3]) for n, row in enumerate(rows))


def test_an_answer_that_takes_too_long_is_a_timeout() -> None:
    outcome = ask(EmbeddedModel(), wish("x", "buy milk. " * 20_000), timeout_s=0.0)

    assert isinstance(outcome, Unanswered)
    assert outcome.code is FailureCode.TIMEOUT


def test_a_quarter_megabyte_of_text_is_answered() -> None:
    proposal(wish("x", "at 3 on the 3rd we may, " * 11_000))
