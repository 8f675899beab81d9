"""Documents: each chunk is summarised by a record of its own, then the summaries are joined."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import interlock as il

State = StrEnum("State", ["NEW", "SUMMARISING", "JOINING", "DONE", "FAILED"])
Trigger = StrEnum("Trigger", ["SPLIT", "ALL_IN", "LOST", "JOINED", "CANCEL", "STALL"])
ChunkState = StrEnum("ChunkState", ["ASKING", "DONE", "FAILED"])
ChunkTrigger = StrEnum("ChunkTrigger", ["SUMMARISED", "GIVE_UP", "CLOSE", "STALL"])


class Document(il.Shape):
    chunks: list[str]
    losses_max: int = 0
    tokens: int = 100_000


class Chunk(il.Shape):
    text: str


class Summary(il.Shape):
    summary: str


SUMMARY, JOIN = il.Effect("summary"), il.Effect("join")


def summarise(work: il.EffectWork) -> il.Outcome:
    words = work.record.data["text"].split()
    if not words:
        return il.Outcome(ChunkTrigger.GIVE_UP)
    work.reserve(tokens=2 * len(words))  # at most so many: waits, or raises il.OverBudgetError
    summary, used = words[0], len(words)  # here a model would be asked
    work.spend(tokens=used)
    return il.Outcome(ChunkTrigger.SUMMARISED, {"summary": summary})


def join(work: il.EffectWork) -> il.Outcome:
    chunks = work.children("chunks")  # in the order of the list
    done = [chunk.data["summary"] for chunk in chunks if chunk.state == ChunkState.DONE]
    return il.Outcome(Trigger.JOINED, {"summary": " ".join(done)})


def chunk(
    _document: Mapping[str, Any], text: str, _ids: Sequence[str]
) -> tuple[Mapping[str, Any], Mapping[str, int | None]]:
    return {"text": text}, {}


def kept(ask: il.Ask) -> dict[str, Any]:
    return {**ask.data, **ask.payload}


def lost(ask: il.Ask) -> dict[str, Any]:
    return {**ask.data, "lost": [*ask.data.get("lost", []), ask.payload["child"]]}


def too_many(ask: il.Ask) -> bool:
    return bool(len(ask.data.get("lost", [])) >= ask.data["losses_max"])


STALL = il.Timer("stall", lambda _: 3_600_000, Trigger.STALL)
DOCUMENT = il.Machine(
    name="document",
    initial_data=lambda payload: il.validated(Document, "the document", payload),
    first_trigger=Trigger.SPLIT,
    stages=(
        il.Waiting(State.NEW, (il.Timer("begin", lambda _: 5_000, Trigger.SPLIT),)),
        il.Waiting(
            State.SUMMARISING,
            (il.Timer("recheck", lambda _: 600_000, effect=il.CASCADE),),
            countdown="chunks",
        ),
        il.Active(State.JOINING, (STALL,), effect=JOIN, outcomes=(Trigger.JOINED,)),
        il.Terminal(State.DONE, is_success=True),
        il.Terminal(State.FAILED),
    ),
    transitions=(
        *il.rows(
            State.NEW,
            il.move(
                Trigger.SPLIT,
                State.SUMMARISING,
                il.by(il.PRODUCER, il.STALLS),
                effect=il.SPAWN,
                spawns="chunks",
            ),
        ),
        *il.rows(
            State.SUMMARISING,
            il.move(
                Trigger.LOST,
                State.FAILED,
                il.by(il.CASCADE),
                guard=too_many,
                update=lost,
                effect=il.CASCADE,
            ),
            il.stay(Trigger.LOST, il.by(il.CASCADE), update=lost),
            il.move(Trigger.ALL_IN, State.JOINING, il.by(il.CASCADE), update=kept),
            il.move(Trigger.CANCEL, State.FAILED, il.by(il.PERSON), effect=il.CASCADE),
        ),
        *il.rows(
            State.JOINING,
            il.move(Trigger.JOINED, State.DONE, il.by(JOIN), update=kept),
            il.reenter(Trigger.STALL, il.by(il.STALLS)),
        ),
        *il.rows(
            (State.NEW, State.JOINING), il.move(Trigger.CANCEL, State.FAILED, il.by(il.PERSON))
        ),
    ),
    payloads={Trigger.ALL_IN: il.Tally, Trigger.LOST: il.ChildLost, Trigger.JOINED: Summary},
    children=(
        il.Children(
            countdown="chunks",
            machine="chunk",
            listed_in="chunks",
            payload=chunk,
            advance_trigger=Trigger.ALL_IN,
            lost_trigger=Trigger.LOST,
        ),
    ),
    bookkeeping=il.Bookkeeping(bounds=lambda data: il.amounts(tokens=data["tokens"])),
    cancel_triggers=(Trigger.CANCEL,),
)

CHUNK = il.Machine(
    name="chunk",
    initial_data=lambda payload: il.validated(Chunk, "the chunk", payload),
    stages=(
        il.Active(
            ChunkState.ASKING,
            (il.Timer("stall", lambda _: 3_600_000, ChunkTrigger.STALL),),
            effect=SUMMARY,
            outcomes=(ChunkTrigger.SUMMARISED, ChunkTrigger.GIVE_UP),
            exhausted=ChunkTrigger.GIVE_UP,
            over=ChunkTrigger.GIVE_UP,
        ),
        il.Terminal(ChunkState.DONE, is_success=True),
        il.Terminal(ChunkState.FAILED),
    ),
    transitions=il.rows(
        ChunkState.ASKING,
        il.move(ChunkTrigger.SUMMARISED, ChunkState.DONE, il.by(SUMMARY), update=kept),
        il.move(ChunkTrigger.GIVE_UP, ChunkState.FAILED, il.by(SUMMARY, il.ORPHANS)),
        il.move(ChunkTrigger.CLOSE, ChunkState.FAILED, il.by(il.CASCADE)),
        il.reenter(ChunkTrigger.STALL, il.by(il.STALLS)),
    ),
    payloads={ChunkTrigger.SUMMARISED: Summary},
    close_trigger=ChunkTrigger.CLOSE,
)

HANDLERS = {"summary": summarise, "join": join}
SYSTEM = il.System(
    name="documents",
    machines={"document": "documents:DOCUMENT", "chunk": "documents:CHUNK"},
    effects="documents",
    counted=("document", "chunk"),
    shown=("tally", "lost", "summary"),
)
