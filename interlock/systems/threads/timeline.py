"""A thread's log as people read it: what was proposed, corrected and answered, and what was done.

Each proposal and correction has its values, so that an error can be found later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock import Event, Note
from interlock.system.commands import sure_words
from interlock.system.pages import Part, Section, Sentence, Table
from interlock.system.tables import as_sentence
from interlock.systems.threads.machines.thread import questions
from interlock.systems.threads.machines.thread.names import State, Trigger

FOLDED = Section("")
ROUTINE = (Trigger.BEGIN_INFERENCE, Trigger.INFERENCE_STARTED)
PHASES: Mapping[str, str] = {
    State.INFERRING_INTENT: questions.INTENT,
    State.INFERRING_CONTEXT: questions.CONTEXT,
    State.INFERRING_ACTION: questions.ACTION,
}
PROPOSED = {
    questions.INTENT: "what is wanted",
    questions.CONTEXT: "what belongs to it",
    questions.ACTION: "what to do",
}
PROPOSERS = {"given": "The request came with a proposal of"}
EMPTY: Sequence[object] = ("", [], {})
FIELDS = {"intent": "what is wanted", "item_ids": "what belongs to it", "capability": "what to do"}

Values = Mapping[str, Any]


def timeline(lines: Sequence[Event | Note]) -> dict[str, Section]:
    """Return what the lines of a thread's log say, by their positions."""
    found: dict[str, Section] = {}
    values: dict[str, Any] = {}  # those proposed last: what a person changes
    for line in lines:
        if isinstance(line, Note):
            if line.kind.startswith("execution_"):
                found[line.position] = _of_run(line, values)
            continue
        match line.trigger:
            case Trigger.INFERENCE_DONE:
                proposed = line.payload.get("proposal") or {"payload": {}}
                found[line.position] = _proposed(line, proposed)
                values |= _values(proposed["payload"])
            case Trigger.EDITED:
                changed = _values(line.payload)
                found[line.position] = _edited(line, changed, values)
                values |= changed
            case Trigger.PROVIDED | Trigger.REDIRECTED:
                found[line.position] = _answered(line)
                values |= _values(line.payload)
            case Trigger.EXECUTION_DONE:
                found[line.position] = Section("The action was done", _result(line.payload))
            case _ if line.trigger in ROUTINE:
                found[line.position] = FOLDED
    return found


def _values(payload: Values) -> dict[str, Any]:
    """Return what a proposal or an answer sets: each parameter of an action by its own name."""
    found = {name: payload[name] for name in FIELDS if payload.get(name) is not None}
    parameters = payload.get("parameters")
    return found | ({"parameters": dict(parameters)} if parameters is not None else {})


def _flat(values: Values) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of what was set; without a value, None."""
    for name, value in values.items():
        if name == "parameters":
            yield from ((each, one if one not in EMPTY else None) for each, one in value.items())
        elif name == "capability":
            yield FIELDS[name], str(value).replace("_", " ")
        else:
            yield FIELDS[name], value if value not in EMPTY else None


def _proposed(line: Event, proposal: Values) -> Section:
    phase = PHASES.get(line.source, questions.ACTION)
    payload = proposal["payload"]
    sure = sure_words(proposal.get("confidence"))
    parts: list[Part] = []
    if phase == questions.INTENT:
        parts.append(Sentence(str(payload.get("intent", "")), is_quoted=True))
    elif phase == questions.CONTEXT:
        items = ", ".join(payload.get("item_ids", ())) or "nothing"
        reasoning = payload.get("reasoning")
        parts.append(Sentence(f"{items}: {reasoning}" if reasoning else items, is_quoted=True))
    else:
        parts.append(dict(_flat(_values(payload))))
        said = payload.get("blocked_on") or payload.get("summary")
        parts += [Sentence(str(said), "soft", is_quoted=True)] if said else []
    failed = [
        str(one["why"]) for one in (line.explanation or {}).get("checks", ()) if not one["passed"]
    ]
    why = "; ".join(filter(None, (line.says, *dict.fromkeys(failed))))
    parts.append(Sentence(as_sentence(f"{why[:1].upper()}{why[1:]}"), "soft"))
    who = PROPOSERS.get(str(line.payload.get("origin")), "The model proposed")
    doubt = f" (it is {sure})" if sure else ""
    return Section(f"{who} {PROPOSED[phase]}{doubt}", parts)


def _edited(line: Event, changed: Values, before: Values) -> Section:
    """Return the line of a correction: each value that it changed, before and after."""
    why: list[Part] = [Sentence(each, is_quoted=True) for each in line.words]
    if line.payload.get("clear"):
        return Section("A person took the proposal back", why)
    known = dict(_flat({name: before[name] for name in changed if name in before}))
    now = dict(_flat(changed))
    rows = [
        (name, known.get(name), now.get(name))
        for name in dict.fromkeys((*known, *now))
        if known.get(name) != now.get(name)
    ]
    if not rows:
        return Section("A person left the proposal as it was", why)
    return Section("A person changed the proposal", [Table(("", "Before", "After"), rows), *why])


def _answered(line: Event) -> Section:
    """Return the line of an answer in words: the words, and the values that came with them."""
    payload = line.payload
    words = [payload.get("text") or payload.get("feedback"), line.cause.reason]
    parts: list[Part] = [Sentence(str(each), is_quoted=True) for each in words if each]
    values = dict(_flat(_values(payload))) | payload.get("values", {})
    parts += [values] if values else []
    return Section(f"{line.says[:1].upper()}{line.says[1:]}", parts)


def _of_run(note: Note, known: Values) -> Section:
    """Return the line of a start of an action, with its values where no line before has them.

    Its end has the line of what that leads to.
    """
    if note.kind == "execution_started":
        called = _values(note.detail)
        is_known = all(known.get(name) == value for name, value in called.items())
        parts = [] if is_known else [dict(_flat(called))]
        said = f"Run {note.detail.get('attempt', 1)} began"
        return Section(f"{said}, with these values" if is_known else said, parts)
    if note.kind == "execution_finished":
        is_lost = note.detail.get("error") == "lost_worker"
        return Section("The run was cut off: its worker was lost") if is_lost else FOLDED
    steps = (str(each) for name, each in note.detail.items() if name != "effect" and each)
    return Section(f"Step: {', '.join(steps)}")


def _result(payload: Values) -> list[Part]:
    """Return the result of an action as a table of values, or as a text."""
    result = payload.get("result")
    if isinstance(result, Mapping):
        return [result]
    return [Sentence(result, is_quoted=True)] if result is not None else []
