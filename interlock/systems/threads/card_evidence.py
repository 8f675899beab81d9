"""The evidence beside the card of a thread: the request, and what the model concluded from it."""

from __future__ import annotations

from collections.abc import Iterator

from interlock import Client
from interlock.system.commands import sure_words
from interlock.system.pages import Section, Sentence
from interlock.system.tables import Record
from interlock.system.text import one_line
from interlock.systems.threads.described import proposal_text, request_text, words_for
from interlock.systems.threads.machines.thread import questions
from interlock.systems.threads.machines.thread.data import ProposalData, ThreadData

ITEMS_MAX = 20
FIRST = 1  # the version of the event by which a record was created
NAMELESS = "producer"  # the source of a request whose producer gave none
UNDERSTOOD = {
    questions.INTENT: "What seems to be wanted",
    questions.CONTEXT: "What seems to belong to it",
    questions.ACTION: "What to do about it",
}


def evidence(client: Client, record: Record[ThreadData]) -> Iterator[Section]:
    """Yield the request, each proposal with how sure the model was, and the result."""
    data = record.data
    text = request_text(data)
    source = data.get("inciting", {}).get("source") or NAMELESS
    if source == NAMELESS:
        created = client.records.views.events([(record.id, FIRST)])
        source = next((event.cause.actor for event in created), f"a {NAMELESS}")
    yield Section(f"The request, from {source}", [Sentence(text)], place="first")
    for phase, proposal in (data.get("proposals") or {}).items():
        if proposal.get("cleared"):
            continue
        said = _said(phase, proposal)
        if not said:
            continue
        sure = sure_words(proposal["confidence"])
        by = f" (the model is {sure})" if sure else ""
        if words_for(data, phase):
            by = " (from the words of a person)"
        yield Section(f"{UNDERSTOOD[phase]}{by}", [Sentence(said)], is_once=True)
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
    if (result := data.get("result")) is not None:
        yield Section("The result", [Sentence(one_line(result, length_max=4_000))])


def _said(phase: str, proposal: ProposalData) -> str:
    """Return what a proposal says beside the question, where the values of an action are."""
    payload = proposal["payload"]
    if phase == questions.ACTION and payload.get("kind") != "clarification":
        return str(payload.get("summary") or "")
    if phase == questions.CONTEXT and not payload.get("item_ids"):
        return ""
    return proposal_text(phase, proposal)
