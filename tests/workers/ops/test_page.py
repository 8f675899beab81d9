"""The log of a record as a person reads it."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.event import Cause, Event
from interlock.kernel.machines import MACHINES
from interlock.workers.ops import page
from interlock.workers.ops.history_page import reasons_of, without_routine
from interlock.workers.ops.page import (
    counter_text,
    counters_shown,
    shown_fields,
    verdict,
)
from interlock.workers.terminal.printed_page import PagePrinter
from tests.kernel.samples import DECLARED, action
from tests.systems.threads.machines.pure_threads import PureThread, at_action

CONFIRM = "its policy wants a person to confirm the proposal"
AHEAD = "its policy lets the proposal go ahead without a person"


def event_of(case: PureThread, **payload: Any) -> dict[str, Any]:
    """Return the last event of a thread, as the log has it."""
    last = case.last
    event = Event(
        last.after.id,
        last.after.version,
        last.trigger,
        last.before.state,
        last.after.state,
        payload,
        Cause("person"),
        explanation=last.explanation,
        says=last.says,
    )
    return {"line": "event", **asdict(event), "because": event.because}


def note(kind: str, **detail: str) -> dict[str, Any]:
    return {"line": "note", "kind": kind, "detail": detail}


def test_a_policy_that_asks_is_named_once() -> None:
    case = at_action("plan_then_review").infer(action(), declared=DECLARED)

    reason = reasons_of(event_of(case))
    assert reason == f"{CONFIRM}; the policy “plan then review” asks a person about every action"


def test_what_a_model_lacks_is_the_reason_of_its_question() -> None:
    case = at_action().infer(action("clarification", blocked_on="I need: price (number)"))

    assert reasons_of(event_of(case)) == (
        "the model needs an answer before it can propose an action; "
        "the model lacks something: I need: price (number)"
    )


def test_what_went_wrong_and_what_was_answered_are_shown() -> None:
    case = at_action("end_to_end")
    failure = event_of(case, code="out_of_domain", detail="nothing fits")
    answer = event_of(case, capability="jot", parameters={"price": 20}, declared=DECLARED)

    assert reasons_of(failure) == f"{AHEAD}: nothing fits"
    assert reasons_of(answer) == f"{AHEAD}; capability: jot; parameters: price=20"


def test_words_of_a_person_are_shown_also_where_the_sentence_of_the_row_has_them() -> None:
    redirect = event_of(at_action("end_to_end"), text="the proposal")

    assert reasons_of(redirect) == f"{AHEAD}; the proposal"


def test_a_diagnosis_begins_with_its_verdict() -> None:
    value = {"workers": ["a", "b"], "problems": [], "depths": {"waits": 1}}
    value |= {"rejected": {"refused at intake": 2}, "left_out": {}}
    sick: dict[str, Any] = value | {"problems": ["no beat"]}

    assert verdict(value) == (
        "all is well: 2 workers, sweeps on time, 1 record waits for a person, 2 rejected messages"
    )
    assert verdict(sick) == "1 problem, at the end; 1 record waits for a person"
    assert verdict(value | {"workers": []}).startswith("no worker answers, and no work waits")


def test_up_asks_for_an_export_only_where_it_is_needed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ("store", "api", "console", "flower", "login", "logs")
    addresses = {name: f"http://{name}" for name in names}
    PagePrinter().print(page.up(addresses, Path("/here/.interlock"), named=False))
    PagePrinter().print(page.up(addresses, Path("/chosen"), named=True))

    here, named = capsys.readouterr().out.split("Interlock is up")[1:]
    assert here.index(" submit --title") < here.index("# first, from another folder")
    assert named.index("export INTERLOCK_HOME=/chosen") < named.index(" submit --title")
    assert all(shown in here for shown in addresses.values())
    assert re.search(r"^console +http://api$", here, re.MULTILINE)


@pytest.mark.parametrize("named", [None, "mine"])
def test_a_list_of_capabilities_says_where_none_is_named(
    capsys: pytest.CaptureFixture[str], named: str | None
) -> None:
    PagePrinter().print(page.capabilities({"named": named, "capabilities": [], "left_out": {}}))

    assert ("INTERLOCK_CAPABILITIES is not set" in capsys.readouterr().out) is (named is None)


@pytest.mark.parametrize(
    ("phase", "payload", "shown"),
    [
        ("intent", {"intent": "buy paint"}, "buy paint"),
        ("context", {"item_ids": [], "reasoning": "none is near"}, "no items; none is near"),
        ("action", action(), "notes.append(text='x'), irreversibility low"),
        ("action", action("clarification", blocked_on="which?"), "which?"),
    ],
)
def test_a_proposal_is_shown_in_words(phase: str, payload: dict[str, Any], shown: str) -> None:
    proposals = {phase: {"payload": payload, "confidence": 1, "id": "x-1"}}
    data = MACHINES["thread"].first_data({"inciting": {"title": "Paint"}})
    data = {**data, "proposals": proposals}

    assert dict(shown_fields("thread", data))[phase] == f"{shown}  (confidence 1.00)"


def test_money_is_shown_in_dollars_and_time_in_its_unit() -> None:
    assert counter_text("tree.time_ms", 90_000) == "90 s"
    assert (counter_text("cap.spent", 500_000), counter_text("spent", 1)) == ("$0.50", "$0.0000010")
    assert counter_text("spent", -12_340_000) == "-$12.34", "a reservation that was not needed"
    assert counter_text("tokens_in", 12) == "12"


def test_counters_are_shown_by_what_they_say_and_what_is_said_twice_is_left_out() -> None:
    counters = {
        "cap.spent": 5_000_000,
        "cap.tokens": 100,
        "spent": 1,
        "tree.spent": 1,
        "tokens": 7,
        "tree.tokens": 9,
        "residue.tokens": 3,
        "reserved.spent": 0,
        "reserved.tokens": 4,
        "runs": 2,
        "tree.runs": 2,
    }

    assert {label: name for label, (name, _) in counters_shown(counters).items()} == {
        "may spend at most": "cap.spent",
        "tokens at most": "cap.tokens",
        "spent": "spent",
        "spent, with all below it": "tree.spent",
        "tokens": "tokens",
        "tokens, with all below it": "tree.tokens",
        "tokens that lost work may have used": "residue.tokens",
        "tokens reserved for work that goes on": "reserved.tokens",
        "runs": "runs",
    }


@pytest.mark.parametrize("kind", ["card_delivered", "card_listed"])
def test_a_log_leaves_out_claims_withdrawn_cards_and_a_card_that_is_shown_again(kind: str) -> None:
    card, later = note(kind, proposal="a:4"), note(kind, proposal="a:6")
    refused = note("refused", why="stale")
    lines = [note("claim"), card, note("card_withdrawn"), card, refused, later]

    assert without_routine(lines) == [card, refused, later]
