"""Prints cards: each question, what it is about, and the commands that answer it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from interlock.workers.terminal.screen import command_line, out, state_text

CONSENT = "consent"


def cards(found: Sequence[Mapping[str, Any]]) -> None:
    """Print cards. Their texts are visible already."""
    if not found:
        out.print("nobody is asked anything", style="dim")
    for card in found:
        out.print(Text.assemble((card["title"], "bold"), "  ", state_text(card["state"])))
        out.print(Text(f"  {card['question']}"), highlight=False)
        action = card["proposed"].get("payload") or {}
        if card["kind"] == CONSENT and "irreversibility" in action:
            out.print(Text(f"  irreversibility: {action['irreversibility']}", "dim"))
        if card["deciders"]:
            out.print(Text(f"  only these may answer: {', '.join(card['deciders'])}", "dim"))
        for line in filter(None, (card["inspect"], *(c["command"] for c in card["affordances"]))):
            command_line(line)
