"""The evidence beside the card of a thread: the request, and what the model concluded from it."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.kernel.machines.threads.thread import questions
from interlock.kernel.record import Record
from interlock.workers.client import Client
from interlock.workers.terminal.page import Section, Sentence
from interlock.workers.terminal.screen import short
from interlock.workers.threads.screen import proposal_text

ITEMS_MAX = 20


def evidence(client: Client, record: Record) -> Iterator[Section]:
    """Yield the request, each proposal with how sure the model was, and the result."""
    del client
    data = record.data
    inciting = data.get("inciting") or {}
    text = "\n\n".join(filter(None, (inciting.get("title"), inciting.get("text"))))
    source = inciting.get("source") or "a producer"
    yield Section(f"The request, from {source}", [Sentence(text)])
    for phase, proposal in (data.get("proposals") or {}).items():
        if proposal.get("cleared"):
            continue
        said = proposal_text(phase, proposal)
        if phase == questions.ACTION and proposal["payload"].get("summary"):
            said = f"{proposal['payload']['summary']}\n{said}"
        # What a person or a producer said has the whole confidence, which measures nothing.
        sure = f"{proposal['confidence']:.0%}"
        sure = "" if sure == "100%" else f", {sure} sure"
        yield Section(f"What was understood as the {phase}{sure}", [Sentence(said)])
    if items := data.get("items"):
        chosen = set(questions.proposed(data, questions.CONTEXT).get("item_ids") or ())
        listed = []
        for each in items[:ITEMS_MAX]:
            belongs = "chosen" if each["id"] in chosen else "not chosen"
            listed.append(f"{belongs}: {each.get('label') or each['id']}")
        more = len(items) - ITEMS_MAX
        if more > 0:
            listed.append(f"{more} more items are not shown.")
        yield Section("What was known", [Sentence("\n".join(listed))])
    if data.get("result") is not None:
        yield Section("The result", [Sentence(short(data["result"], 4_000))])
