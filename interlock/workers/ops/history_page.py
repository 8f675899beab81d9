"""The log of a record as commands show it: a line for each event, with its reasons below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.kernel.event import words_of
from interlock.workers.terminal.page import Part, Sentence, StateName
from interlock.workers.text import LINE_LENGTH_MAX, clock, moment, one_line

REASON_LENGTH_MAX = 400
# The fields of an event's payload that a person or model said: sentences, and values with a name.
SENTENCES = ("detail", "text", "feedback", "reason")
ANSWERS = ("intent", "item_ids", "capability", "parameters", "values")
# Notes that only say how the work was carried out.
ROUTINE_NOTES = ("claim", "card_withdrawn")
# Notes that say where a card is: to people who are told of it, or for those who look.
CARD_NOTES = ("card_delivered", "card_listed")
DAY_LENGTH = len("2026-01-31")


def history(
    lines: Sequence[Mapping[str, Any]], machine: str, *, everything: bool
) -> Iterator[Part]:
    """Yield a log: a line for each event with its reasons below, the notes in grey, and the days.

    Notes that only say how the work was carried out are left out unless `everything` is asked for.
    """
    shown, day = lines if everything else without_routine(lines), ""
    for line in shown:
        if (its_day := moment(line["at_ms"])[:DAY_LENGTH]) != day:
            day = its_day
            yield Sentence(f"      {day}", "soft")
        yield from _event(line, machine) if line["line"] == "event" else _note(line)
    if left := len(lines) - len(shown):
        yield Sentence(f"{left} notes of workers and cards are left out: --all shows them", "soft")


def _event(line: Mapping[str, Any], machine: str) -> Iterator[Part]:
    roles = [code[3:] for code in line["cause"]["codes"] if code.startswith("as:")]
    as_roles = f" as {', '.join(roles)}" if roles else ""
    head = (f"{line['version']:>4}  ", Sentence(f"{clock(line['at_ms'])}  ", "soft"))
    states = [StateName(machine, line[end]) for end in ("source", "target") if line[end]]
    way = [cell for state in states for cell in ("  ", state)]
    by = Sentence(f"  by {line['cause']['actor']}{as_roles}", "soft")
    yield Sentence((*head, Sentence(line["trigger"], "strong"), *way, by))
    yield Sentence(one_line(reasons_of(line), length_max=REASON_LENGTH_MAX), "soft", is_quoted=True)


def _note(line: Mapping[str, Any]) -> Iterator[Part]:
    detail = {name: value for name, value in line["detail"].items() if name != "effect"}
    error = str(detail.pop("detail", "")) if line["kind"] == "effect_failed" else ""
    text = f"      {clock(line['at_ms'])}  {line['kind']}  {one_line(detail, length_max=90)}"
    yield Sentence(text, "soft")
    if error:
        # Whole, because it is the reason why a person is asked in the end.
        yield Sentence(error, "soft", is_quoted=True)


def without_routine(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the lines of a log but those of claims and withdrawn cards, each card's first only."""
    found: list[Mapping[str, Any]] = []
    cards_seen: set[str] = set()
    for line in lines:
        kind = line.get("kind")
        if line["line"] == "note" and kind in CARD_NOTES:
            proposal = str(line["detail"].get("proposal"))
            if proposal in cards_seen:
                continue
            cards_seen.add(proposal)
        if line["line"] == "event" or kind not in ROUTINE_NOTES:
            found.append(line)
    return found


def reasons_of(event: Mapping[str, Any]) -> str:
    """Return why an event happened: what its row says, what was said, policy checks that failed.

    Each sentence is in it once.
    """
    payload, checks = event["payload"] or {}, (event["explanation"] or {}).get("checks", [])
    texts = [str(payload[name]) for name in SENTENCES if payload.get(name)]
    told = words_of(payload, event["cause"]["reason"])  # they are in `because` already
    said = [one_line(text, length_max=REASON_LENGTH_MAX) for text in texts if text not in told]
    answers = {
        name: one_line(payload[name], length_max=LINE_LENGTH_MAX)
        for name in ANSWERS
        if payload.get(name)
    }
    said += [f"{name}: {answer}" for name, answer in answers.items() if answer]
    failed = [check["why"] for check in checks if not check["passed"]]
    return "; ".join(dict.fromkeys((event["because"], *said, *failed)))
