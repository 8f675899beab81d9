"""Prints cards: each question, what it is about, and the commands that answer it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.padding import Padding
from rich.text import Text

from interlock.workers.terminal.screen import command_line, out, short, state_text

GAP = "  "
QUESTION_INDENT = 4
TITLE_LENGTH_MIN = 20
CONSENT = "consent"


def cards(
    found: Sequence[Mapping[str, Any]], *, otherwise: str = "nobody is asked anything"
) -> None:
    """Print cards, or what is said if there are none. Their texts are visible already."""
    if not found:
        out.print(otherwise, style="dim")
    for card in found:
        record_id, state = card["record_id"], card["state"]
        room = max(out.width - len(record_id) - len(state) - 2 * len(GAP), TITLE_LENGTH_MIN)
        # A record without a title has its id as the title of its card.
        title = "" if card["title"] == record_id else GAP + short(card["title"], room)
        out.print(Text.assemble((record_id, "bold"), title, GAP, state_text(state)))
        # A long question is folded with its indent, so that no part of it looks like a command.
        question = Padding(Text(card["question"]), (0, 0, 0, QUESTION_INDENT), expand=False)
        out.print(question, highlight=False)
        action = card["proposed"].get("payload") or {}
        if card["kind"] == CONSENT and "irreversibility" in action:
            out.print(Text(f"  irreversibility: {action['irreversibility']}", "dim"))
        if card["tags"]:
            out.print(Text(f"  tags: {', '.join(card['tags'])}", "dim"))
        if card["deciders"]:
            out.print(Text(f"  only these may answer: {', '.join(card['deciders'])}", "dim"))
        if claim := card["claim"]:
            out.print(Text(f"  {claim['holder']} is on it", "dim"))
        if escalation := card["escalation"]:
            at = _minute(escalation["due_ms"])
            out.print(Text(f"  from {at} on it is escalated to {escalation['to']}", "dim"))
        if deadline := card["deadline"]:
            target = f"{deadline['trigger']} -> {deadline['target']}"
            out.print(Text(f"  answer it by {_minute(deadline['due_ms'])}, then {target}", "dim"))
        for line in filter(None, (card["inspect"], *(c["command"] for c in card["affordances"]))):
            command_line(line)


def _minute(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1_000, UTC):%Y-%m-%d %H:%M} UTC"
