"""Reads what a person says about a call that failed, or that the person did not want.

The words may name a parameter with its value ("the name must be Mr Okafor"), or be the value where
the capability has one parameter only. Where they are neither, they count as any remark does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from interlock.system.models import OfferedCapability
from interlock.systems.threads.inference.question import Question
from interlock.systems.threads.inference.reading import dates
from interlock.systems.threads.inference.reading.doubts import DoubtKind
from interlock.systems.threads.inference.reading.meaning import Meanings
from interlock.systems.threads.inference.reading.pieces import HINT
from interlock.systems.threads.inference.reading.request import (
    is_pick,
    mapping,
    read,
    stripped,
)
from interlock.systems.threads.inference.reading.understanding import Understanding, understand
from interlock.systems.threads.inference.reading.values import Filled, properties, value_in

# How sure a call is of which a person's words are taken as a value without being understood.
TAKEN = 0.5
# A value alone is no sentence, so these doubts say nothing against it.
_OF_A_VALUE = frozenset({DoubtKind.STATES, DoubtKind.UNCLEAR, DoubtKind.SEVERAL})
_BE = r"(?:(?:must|should|has to|ought to) (?:be|say|read)|is|reads|says|to)\b|[:=]"
_IT_IS = re.compile(
    rf"^(?:no\W+|sorry\W+|please\W+)*(?:it|this|that)(?:'s\b|\s+(?:{_BE}))\s*(?P<value>.+)$",
    re.IGNORECASE | re.DOTALL,
)
_AGAIN = re.compile(r"\b(?:again|retry|once more|the same|as before)\b", re.IGNORECASE)
_AROUND = " \t\n.'\"\u2018\u2019\u201c\u201d"


def corrected(question: Question, understood: Understanding, model: Meanings) -> Understanding:
    """Return what a request asks for after a person's words about a call that was turned down."""
    call = question.turned_down[-1] if question.turned_down else {}
    newest = question.feedback[-1] if question.feedback else {}
    choice, said = question.choice(call.get("capability")), stripped(newest.get("text"))
    if choice is None or not said or is_pick(said, {each.name for each in question.catalog}):
        return understood
    alone = understand(_about(question, said), model)
    if {found.name for found in (alone.choice, understood.choice) if found} - {choice.name}:
        return understood
    reasons = {one.why for one in alone.doubts} - _OF_A_VALUE
    known = mapping(call.get("parameters"))
    changed = {} if reasons - {DoubtKind.UNABLE} else next(_changes(question, choice, said), {})
    if not changed and not reasons and not _has_changed(question, understood, known, model):
        changed = _whole(question, choice, said)
    if not changed:
        return understood
    sure = max(understood.of_action, TAKEN)
    filled = Filled({**known, **changed}, (), ())
    return replace(
        understood, choice=choice, of_action=sure, filled=filled, doubts=(), unused=(), nearest=()
    )


def _has_changed(
    question: Question, understood: Understanding, known: Mapping[str, Any], model: Meanings
) -> bool:
    """Whether the call is another one than it was before the newest words."""
    if understood.filled is None or understood.filled.parameters == known:
        return False
    before = understand(replace(question, feedback=question.feedback[:-1]), model)
    return before.filled is None or understood.filled.parameters != before.filled.parameters


def _changes(
    question: Question, choice: OfferedCapability, said: str
) -> Iterator[Mapping[str, Any]]:
    """Yield the parameters that the words give a value, the surest reading first."""
    for name in properties(choice):
        words = re.escape(name.replace("_", " "))
        pattern = rf"\b{words}\b[^.:=]*?(?:\b{_BE})\s*(?P<value>.+)$"
        if match := re.search(pattern, said, re.IGNORECASE | re.DOTALL):
            yield from _read(question, choice, name, match["value"])
    if (only := _only(choice)) and (match := _IT_IS.match(said)):
        yield from _read(question, choice, only, match["value"])
    paths = read(_about(question, said)).paths
    for name, described in properties(choice).items():
        if mapping(described).get(HINT) == "path" and len(paths) == 1:
            yield {name: paths[0]}


def _whole(question: Question, choice: OfferedCapability, said: str) -> Mapping[str, Any]:
    """Return the words as the value of the one parameter, unless they ask for the same again."""
    only = _only(choice)
    if not only or _AGAIN.search(said):
        return {}
    return next(_read(question, choice, only, said), {})


def _only(choice: OfferedCapability) -> str:
    """Return the name of a capability's parameter if it has only one, else ''."""
    names = list(properties(choice))
    return names[0] if len(names) == 1 else ""


def _read(
    question: Question, choice: OfferedCapability, name: str, said: str
) -> Iterator[Mapping[str, Any]]:
    text = said.strip(_AROUND)
    value = value_in(choice, name, text, dates.find([text], question.inciting.get("at")))
    if value is not None:
        yield {name: value}


def _about(question: Question, said: str) -> Question:
    """Return the question as if the words were the whole request."""
    inciting: Mapping[str, Any] = {
        "title": said,
        "text": "",
        "at": question.inciting.get("at"),
        "fields": {},
    }
    return replace(
        question,
        inciting=inciting,
        items=(),
        feedback=(),
        intent=None,
        previous=None,
        turned_down=(),
    )
