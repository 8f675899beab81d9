"""The pipeline of docs/workflows.md, whose worker is killed while it asks a model about chunks."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tests.comparison.rounds import HERE, Round, as_user, counted, kill_workers, running, shown
from tests.end_to_end.up import Up
from tests.fakes.counting_service import CountingService, counting_service
from tests.waiting import until

CHUNKS = [f"chunk {number} of it" for number in range(200)]
WORDS, RESERVED, BUDGET = 4, 100, 20_000
KILL_AT, TAKES_S, SETTLED_S = 60, 0.5, 600.0
ONCE = {'on_failure="skip")': 'on_failure="skip", once=True)'}


def pipeline(*, once: bool) -> Round:
    """Run 200 chunks; with `once`, a call that a kill has cut off asks a person."""
    with (
        counting_service(lambda request: request["key"], takes_s=TAKES_S) as model,
        running(
            "pipeline.py",
            HERE / "world" / "model.py",
            changes=ONCE if once else None,
            WORLD_URL=model.url,
        ) as up,
    ):
        document = {"text": "\n\n".join(CHUNKS), "tokens": BUDGET}
        assert as_user(
            up, "shop", ["submit", "pipeline", "document", "Document", document, "d"]
        ) == [""]
        until(lambda: model.asked.total() >= KILL_AT, what="the model is asked")
        kill_workers(up)
        done = {chunk for chunk, state in states(up).items() if state == "done"}
        people = answer(up, model) if once else 0
        until(lambda: shown(up, "d")["state"] == "done", what="it is joined", within_s=SETTLED_S)
        return judged(up, model, done, people, once=once)


def judged(up: Up, model: CountingService, done: set[str], people: int, *, once: bool) -> Round:
    """Return the figures of a document that has ended, and what must not have happened."""
    record, children = shown(up, "d"), listed(up)
    counters, times = record["counters"], Counter(model.asked[chunk] for chunk in CHUNKS)
    spent, lost = counters["tree.tokens"], counters.get("residue.tokens", 0)
    left = BUDGET - spent - lost
    lines = json.loads(up.command("history", "d", "--json"))
    joined = next(line["at_ms"] for line in lines if line.get("target") == "join")
    late_s = (joined - max(child["since_ms"] for child in children)) / 1_000
    asked = f"of {len(CHUNKS)} chunks {counted(times, 'asked about')}"
    cut_off = f" ({people} were cut off, and a person said what is so)" if once else ""
    figures = (
        f"{asked}{cut_off}; "
        f"of {BUDGET:,} tokens {spent:,} spent, {lost:,} counted as used by the killed worker, "
        f"{left:,} unspent; joined {late_s:.2f} s after the end of the last of "
        f"{len(children)} children"
    )
    repeated = {chunk for chunk in CHUNKS if model.asked[chunk] > 1}
    promises = {
        "a chunk was asked twice whose summary was saved": not repeated & done,
        "a chunk was asked twice that may be asked once": not (once and repeated),
        "a chunk was never asked": 0 not in times,
        "the summary lacks a chunk": record["data"]["summary"] == " ".join(CHUNKS),
        "more tokens are spent than calls were made for": spent <= WORDS * model.asked.total(),
        "tokens of a call are neither spent nor lost": spent + lost >= WORDS * model.asked.total(),
        "the budget is overdrawn": left >= 0,
    }
    broken = [what for what, kept in promises.items() if not kept]
    name = "pipeline.py, each(once=True)" if once else "pipeline.py"
    return Round("Interlock", name, figures, broken)


def answer(up: Up, model: CountingService) -> int:
    """Let a person say of each call that was cut off whether the model was asked."""

    def asks() -> list[str]:
        return [child["id"] for child in listed(up) if child["waits_for_person"]]

    def at_work() -> list[str]:
        return [child["id"] for child in listed(up) if child["state"] == "summarise"]

    until(lambda: not at_work(), what="each chunk is done, or asks", within_s=SETTLED_S)
    calls, asking = [], asks()
    for child in asking:
        chunk = chunk_of(child)
        proposal = shown(up, child)["cards"][0]["proposal"]
        summary: dict[str, Any] = {"summary": chunk} if model.asked[chunk] else {}
        calls.append(["decide", child, "done" if summary else "again", summary, proposal])
    assert not any(told := as_user(up, "ann", *calls)), told
    return len(asking)


def listed(up: Up) -> list[Any]:
    """Return the children of the document."""
    command = ("list", "--parent", "d", "--limit", "1000", "--json")
    rows: list[Any] = json.loads(up.command(*command))["records"]
    return rows


def states(up: Up) -> dict[str, str]:
    """Return the state of each chunk."""
    return {chunk_of(child["id"]): child["state"] for child in listed(up)}


def chunk_of(child: str) -> str:
    """Return the chunk that a child has, by its number."""
    return CHUNKS[int(child.rpartition(".")[2]) - 1]
