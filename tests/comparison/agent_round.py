"""The agent of docs/workflows.md, whose worker is killed in its last step, while mail comes."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from tests.comparison.rounds import HERE, Round, as_user, kill_workers, running, shown
from tests.end_to_end.up import Up
from tests.fakes.counting_service import CountingService, counting_service
from tests.waiting import until

AGENTS = [f"a-{number}" for number in range(6)]
LAST = "the last word"


class Mind:
    """The model: it wants to delete the tray, and the desk if that is refused; then it ends."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.ended: Counter[str] = Counter()  # how often each agent asked for its last word

    def __call__(self, request: Any) -> Any:
        """Answer as the model, or as the tool."""
        if request["key"] != "model":
            return "deleted"
        messages, agent = request["messages"], request["goal"]
        asked = [message for message in messages if message["role"] == "model"]
        if any(message.get("output") == "deleted" for message in messages):
            self.ended[agent] += 1
            self.may_end.wait()
            return {"tool": "", "text": LAST, "tokens": 20}
        place = f"{'desk' if asked else 'tray'} of {agent}"
        return {"tool": "delete_files", "arguments": {"place": place}, "tokens": 40}


def agent() -> Round:
    """Run agents to their end, with mail at each time, and an answer to a changed question."""
    mind = Mind()
    with (
        counting_service(mind) as world,
        running("agent.py", HERE / "world" / "model.py", WORLD_URL=world.url) as up,
    ):
        try:
            return lived(up, world, mind)
        finally:
            mind.may_end.set()


def lived(up: Up, world: CountingService, mind: Mind) -> Round:
    """Let the agents live, and return what the world has counted."""
    created = [["submit", "agent", "agent", "Agent", {"goal": one}, one] for one in AGENTS]
    assert not any(as_user(up, "shop", *created))
    first = proposals(up, {})
    before = as_user(up, "bob", *mail("before"))
    refused = [["decide", one, "refuse", {"reason": "not this"}, first[one]] for one in AGENTS]
    assert not any(as_user(up, "ann", *refused))
    second = proposals(up, first)
    late = as_user(up, "eve", *(["decide", one, "approve", {}, first[one]] for one in AGENTS))
    called_too_early = sum(world.asked[f"delete desk of {one}"] for one in AGENTS)
    assert not any(
        as_user(up, "ann", *(["decide", one, "approve", {}, second[one]] for one in AGENTS))
    )
    until(lambda: len(mind.ended) == len(AGENTS), what="each agent is in its last step")
    during = as_user(up, "bob", *mail("during"))
    kill_workers(up)
    mind.may_end.set()
    until(lambda: all(shown(up, one)["state"] == "done" for one in AGENTS), what="all are done")
    after = as_user(up, "bob", *mail("after"))
    assert min(mind.ended.values()) > 1, "the kill cut off each last step"
    return judged(
        world, {"before": before, "during": during, "after": after}, late, called_too_early
    )


def judged(
    world: CountingService, told: dict[str, list[str]], late: list[str], early: int
) -> Round:
    """Return the figures of agents that have ended, and what must not have happened."""
    read: dict[str, int] = {}
    for when in told:
        read[when] = sum(f"{when} {one}" in letters(world, one) for one in AGENTS)
    taken = {when: answers.count("") for when, answers in told.items()}
    deleted = [world.asked[f"delete desk of {one}"] for one in AGENTS]
    mails = ", ".join(
        f"{when} the last step {taken[when]} of {len(AGENTS)} taken, {read[when]} read by the model"
        for when in told
    )
    refusals = len(AGENTS) - late.count("")
    figures = (
        f"mail: {mails}, the others refused to their sender; {refusals} of {len(AGENTS)} answers "
        f"to a changed question refused, {early} tools called by them; {sum(deleted)} tools called "
        f"for {len(AGENTS)} agents"
    )
    promises = {
        "mail was taken and never read": read == taken,
        "mail was refused before the end": taken["before"] == taken["during"] == len(AGENTS),
        "mail was taken after the end": taken["after"] == 0,
        "an answer to a changed question was taken": refusals == len(AGENTS) and not early,
        "a tool was called twice, or not at all": set(deleted) == {1},
    }
    broken = [what for what, kept in promises.items() if not kept]
    return Round("Interlock", "agent.py", figures, broken)


def proposals(up: Up, before: dict[str, str]) -> dict[str, str]:
    """Wait until each agent asks something else than before, and return what it proposes."""

    def found() -> dict[str, str]:
        cards = {one: shown(up, one)["cards"] for one in AGENTS}
        asked = {one: card[0]["proposal"] for one, card in cards.items() if card}
        new = {one: proposal for one, proposal in asked.items() if before.get(one) != proposal}
        return new if len(new) == len(AGENTS) else {}

    return until(found, what="each agent asks a person")


def mail(when: str) -> list[list[Any]]:
    """Return the calls that send each agent a letter."""
    return [["fire", one, "tell", {"text": f"{when} {one}"}] for one in AGENTS]


def letters(world: CountingService, agent: str) -> set[str]:
    """Return the letters that the model has seen in the last request of an agent."""
    seen = [one for one in world.requests if one["key"] == "model" and one["goal"] == agent]
    messages = seen[-1]["messages"]
    return {message["text"] for message in messages if message["role"] == "mail"}
