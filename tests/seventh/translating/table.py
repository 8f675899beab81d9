"""The table of translations: what a record has, its states, and what moves it."""

from enum import StrEnum
from typing import Any, NotRequired, TypedDict

import interlock as il
from interlock.system.tables import MICRO, ChoiceWords, Placement, Triggers

TRANSLATION = il.Effect("translation", local=True)
READING = il.Effect("reading")
DAY_S = 86_400


class State(StrEnum):
    TRANSLATING = "translating"
    READING = "reading"
    TRANSLATED = "translated"
    STUCK = "stuck"
    ACCEPTED = "accepted"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


OPEN = (State.TRANSLATING, State.READING, State.TRANSLATED, State.STUCK)


class Term(il.Shape):
    term: str
    translation: str


class Request(il.Shape):
    """What a record is created from: what is translated, from which commit, where and by whom."""

    title: str
    source: str
    language: str
    glossary: list[Term]
    budget_micro: int = 0
    answer_within_s: int = 7 * DAY_S
    repository: str
    base: str
    host: str
    agent: str


class Done(il.Shape):
    translated: str


class Read(il.Shape):
    remark: str = ""


class Failed(il.Shape):
    error: str


class Rejection(il.CardAnswer):
    reason: str


class Trigger(Triggers):
    DONE = "done", "the agent has translated it", Done
    READ = "read", "it was read", Read
    FAILED = "failed", "the agent failed: {error}", Failed
    LOST = "lost", "the agent was lost"
    ACCEPT = "accept", "a person accepted it"
    REJECT = "reject", "a person rejected it", Rejection
    RETRY = "retry", "a person let the agent try again"
    EXPIRE = "expire", "nobody answered in time"
    CANCEL = "cancel", "a person cancelled it"


class TranslationData(TypedDict):
    """What a record has: the fields of its `Request`, and what came of the last attempt."""

    title: str
    source: str
    language: str
    glossary: list[dict[str, str]]
    budget_micro: int
    answer_within_s: int
    repository: str
    base: str
    host: str
    agent: str
    attempt: int
    reason: NotRequired[str]
    error: NotRequired[str]
    translated: NotRequired[str]
    remark: NotRequired[str]


def done(ask: il.Ask) -> dict[str, Any]:
    return {**ask.data, **ask.payload}


def ended(ask: il.Ask) -> dict[str, Any]:
    return {**ask.data, "error": "its process was lost", **ask.payload}


def again(ask: il.Ask) -> dict[str, Any]:
    old = ("error", "translated", "remark")
    kept = {name: value for name, value in ask.data.items() if name not in old}
    return {**kept, **ask.payload, "attempt": ask.data["attempt"] + 1}


WORDS = {
    "accept": ChoiceWords("Yes, it is good"),
    "reject": ChoiceWords("No, translate it again"),
    "retry": ChoiceWords("Try it again"),
    "cancel": ChoiceWords("Give it up", "It is cancelled for good."),
}


def asks(state: State, question: str, **choices: Trigger) -> il.Waiting:
    return il.Waiting(
        state,
        (il.Timer("reminder", lambda _: 1_000 * DAY_S, effect=il.RESOLUTION),),
        notifies=il.RESOLUTION,
        card=f"translation_{state}",
        question=lambda data: question.format(**data),
        affordances=tuple(choices.items()),
        words=WORDS,
    )


PERSON = il.by(il.PERSON)
MACHINE = il.Machine(
    name="translation",
    initial_data=lambda it: {**il.validated(Request, "the translation", it), "attempt": 1},
    stages=(
        il.Active(
            State.TRANSLATING,
            (il.Timer("stall", lambda _: 1_000 * DAY_S, Trigger.LOST),),
            effect=TRANSLATION,
            outcomes=(Trigger.DONE, Trigger.FAILED),
            once=il.always,
            crash=Trigger.LOST,
        ),
        il.Active(
            State.READING,
            (il.Timer("stall", lambda _: DAY_S * 1_000, Trigger.READ),),
            effect=READING,
            outcomes=(Trigger.READ,),
            exhausted=Trigger.READ,
            over=Trigger.READ,
        ),
        asks(
            State.TRANSLATED,
            "Accept the translation of {title} to {language}?",
            accept=Trigger.ACCEPT,
            reject=Trigger.REJECT,
        ),
        asks(
            State.STUCK,
            "The translation of {title} has failed: {error}. Try again?",
            retry=Trigger.RETRY,
            cancel=Trigger.CANCEL,
        ),
        il.Terminal(State.ACCEPTED, is_success=True),
        il.Terminal(State.EXPIRED),
        il.Terminal(State.CANCELLED),
    ),
    transitions=(
        *il.rows(
            State.TRANSLATING,
            il.move(Trigger.DONE, State.READING, il.by(TRANSLATION), update=done),
            il.move(Trigger.FAILED, State.STUCK, il.by(TRANSLATION), update=ended),
            il.move(Trigger.LOST, State.STUCK, il.by(il.ORPHANS, il.STALLS), update=ended),
        ),
        *il.rows(
            State.READING,
            il.move(
                Trigger.READ, State.TRANSLATED, il.by(READING, il.ORPHANS, il.STALLS), update=done
            ),
        ),
        *il.rows(
            State.TRANSLATED,
            il.move(Trigger.ACCEPT, State.ACCEPTED, PERSON, names_proposal=True),
            il.move(Trigger.REJECT, State.TRANSLATING, PERSON, names_proposal=True, update=again),
        ),
        *il.rows(State.STUCK, il.move(Trigger.RETRY, State.TRANSLATING, PERSON, update=again)),
        *il.rows(
            (State.TRANSLATED, State.STUCK),
            il.move(Trigger.EXPIRE, State.EXPIRED, il.by(sweep="translations")),
        ),
        *il.rows(OPEN, il.move(Trigger.CANCEL, State.CANCELLED, PERSON)),
    ),
    payloads=Trigger.payloads(),
    says=Trigger.sentences(created="it was handed in"),
    cancel_triggers=(Trigger.CANCEL,),
    placement=Placement(host=lambda data: data["host"], commands=("agent",)),
    bookkeeping=il.Bookkeeping(
        bounds=lambda data: il.amounts(usd=data["budget_micro"] / MICRO or None)
    ),
)
