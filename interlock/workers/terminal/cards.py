"""Cards as commands show them: each question, what it is about, the commands that answer it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.kernel.scales import Level
from interlock.workers.terminal.page import Link, Part, Sentence, StateName, Verbatim
from interlock.workers.terminal.screen import out, state_text
from interlock.workers.text import moment, one_line

CONSENT = "consent"
UNDO: Mapping[Level, str] = {
    Level.HIGH: "It cannot be undone.",
    Level.MEDIUM: "It is hard to undo.",
    Level.LOW: "",
}
GAP = "  "
# How sure the model was, as a person says it: each word from this confidence on.
SURE = ((0.9, "sure"), (0.7, "fairly sure"), (0.5, "unsure"), (0.0, "only guessing"))
DOUBTS = ("unsure", "only guessing")
TITLE_LENGTH_MIN = 20


def cards(
    found: Sequence[Mapping[str, Any]], *, otherwise: str = "nobody is asked anything"
) -> Iterator[Part]:
    """Yield the parts of cards, or what is said if there are none."""
    if not found:
        yield Sentence(otherwise, "soft")
    for card in found:
        record_id = card["record_id"]
        state = StateName(card["machine"], card["state"], asks=True)
        # Cut to the width, so that no part of it begins a row, as a command of ours does.
        taken = len(record_id) + len(GAP) + len(state_text(state.words, state.meaning)) + len(GAP)
        room = max(out.width - taken, TITLE_LENGTH_MIN)
        # A record without a title has its id as the title of its card.
        title = "" if card["title"] == record_id else GAP + one_line(card["title"], length_max=room)
        yield Sentence((Link(record_id), title, GAP, state))
        yield Sentence(card["question"], is_quoted=True)
        for said in _about(card):
            yield Sentence(f"  {said}", "soft")
        if card["inspect"]:
            yield Sentence(Verbatim(card["inspect"]))
        suggestions = card.get("suggestions", ())
        for offer in card["affordances"]:
            of_it = [one for one in suggestions if one["choice"] == offer["name"]]
            for each in (*of_it, offer):
                yield Sentence(f"  {each['says']}", "soft")
                yield Sentence(Verbatim(each["command"]))


def sure_words(confidence: object) -> str:
    """Return how sure the model was of what it proposed; '' where nobody knows, or no model was."""
    if not isinstance(confidence, (int, float)) or not 0 <= confidence < 1:
        return ""
    return next(word for least, word in SURE if confidence >= least)


def doubt_words(confidence: object) -> str:
    """Return that the model was not sure of what it proposed, where that is so; else ''."""
    sure = sure_words(confidence)
    return f"the model is {sure}" if sure in DOUBTS else ""


def _about(card: Mapping[str, Any]) -> Iterator[str]:
    """Yield what has to be known of a card beside its question."""
    action = card["proposed"].get("payload") or {}
    level = Level(action["irreversibility"]) if "irreversibility" in action else Level.LOW
    if card["kind"] == CONSENT and UNDO[level]:
        yield UNDO[level]
    if doubt := doubt_words(card["proposed"].get("confidence")):
        yield doubt
    if card["tags"]:
        yield f"tags: {', '.join(card['tags'])}"
    if card["deciders"]:
        yield f"only these may answer: {', '.join(card['deciders'])}"
    if claim := card["claim"]:
        yield f"{claim['holder']} is on it"
    if escalation := card["escalation"]:
        yield f"from {moment(escalation['due_ms'])} on it is escalated to {escalation['to']}"
    if deadline := card["deadline"]:
        target = f"{deadline['trigger']} -> {deadline['target']}"
        yield f"answer it by {moment(deadline['due_ms'])}, then {target}"
