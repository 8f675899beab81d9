"""A codon that is led by hand, by the published events and by nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from interlock.kernel.errors import CallError
from interlock.kernel.event import Cause, Event
from interlock.kernel.machine import Decision
from interlock.kernel.machines.runs.codon.table import CODON
from interlock.kernel.machines.runs.codon_types import Codon, codon_of
from interlock.kernel.machines.runs.events import CodonStarted, RunStarted, run_event
from interlock.kernel.machines.runs.translation import wanted
from interlock.kernel.record import Record, RecordId, Version
from tests.kernel.samples import FAILURE, SENTINEL, TOKENS

RUN_ID = "data/1"
CODON_ID = "data/1/1"
BORN_MS, MOVED_MS = 1_000, 2_000
CHAIN = ("preparing", "starting", "initializing", "running", "completing_sentinels")
ENDS = ("completed", "failed", "skipped")
AT_WORK = ("running", "completing_sentinels")
WATCHED = ("starting", "initializing", *AT_WORK)
STATES = (*CHAIN, *ENDS)
LOOP = {"loop_id": "tidy", "iteration": 2, "index": 0}
NO_TOKENS = dict.fromkeys(TOKENS, 0)
# All that a transition to a state may say.
METADATA: Mapping[str, Mapping[str, Any]] = {
    "starting": {"checkpoint_sha": "rig"},
    "initializing": {"pid": 7, "log_path": "clean.log", "previous_session_id": "before"},
    "running": {"session_id": "s"},
    "completing_sentinels": {},
    "completed": {"checkpoint_sha": "done", "result_message_received": True},
    "failed": {"exit_code": -1, "failure_reason": FAILURE, "checkpoint_sha": "broken"},
    "skipped": {"checkpoint_sha": "left"},
}
# Of that, what it must say: the page's guards.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "initializing": ("pid", "log_path"),
    "running": ("session_id",),
    "completed": ("checkpoint_sha",),
    "failed": ("exit_code", "failure_reason", "failed_during"),
    "skipped": ("skipped_during",),
}
# By state: what is always there, and what may be.
ALWAYS, LOOPED = "codon_id start_time", "loop_context"
READY = f"{LOOPED} rig_setup_checkpoint sentinels"
LAUNCHED = "pid log_path previous_session_id session_id"
FINAL = "final_cost final_tokens result_message_received completion_checkpoint"
FIELDS: dict[str, tuple[str, str]] = {
    "preparing": (ALWAYS, LOOPED),
    "starting": (ALWAYS, READY),
    "initializing": (f"{ALWAYS} pid log_path", f"{READY} previous_session_id"),
    "running": (
        f"{ALWAYS} pid log_path session_id current_cost current_tokens assistant_message_count",
        f"{READY} previous_session_id",
    ),
    "completed": (
        f"{ALWAYS} end_time log_path session_id exit_code {FINAL}",
        f"{READY} previous_session_id budget_exceeded context_exceeded",
    ),
    "failed": (
        f"{ALWAYS} end_time failed_during exit_code failure_reason partial_cost partial_tokens",
        f"{READY} {LAUNCHED} error_checkpoint ignored",
    ),
    "skipped": (
        f"{ALWAYS} end_time skipped_during partial_cost partial_tokens",
        f"{READY} {LAUNCHED} assistant_message_count skip_checkpoint",
    ),
}
FIELDS["completing_sentinels"] = FIELDS["running"]


def paths() -> Iterator[tuple[str, ...]]:
    """Yield every way from a codon's birth to wherever it can stand."""
    for length in range(1, len(CHAIN) + 1):
        way = CHAIN[:length]
        yield way
        for end in ENDS:
            if end != "completed" or way[-1] in ("running", "completing_sentinels"):
                yield (*way, end)


class Led:
    """A codon, and the sums that its commits add up to."""

    def __init__(self, *way: str, **birth: Any) -> None:
        data = CODON.initial_data({"codon_id": "clean", **birth})
        of = RecordId(CODON_ID)
        self.record = Record(of, "codon", "preparing", Version(1), data, created_ms=BORN_MS)
        self.counted: Counter[str] = Counter()
        for state in way:
            self.to(state)

    @property
    def state(self) -> str:
        return self.record.state

    @property
    def data(self) -> Mapping[str, Any]:
        return self.record.data

    @property
    def codon(self) -> Codon:
        return codon_of(self.record)

    def fire(self, trigger: str, **payload: Any) -> Decision:
        """Fire a trigger as a commit would."""
        decision = CODON.decide(self.record, trigger, CODON.admit(trigger, payload))
        moved = decision.after.state != self.record.state
        since = MOVED_MS if moved else self.record.since_ms
        self.record = replace(decision.after, since_ms=since)
        self.counted.update(decision.deltas)
        return decision

    def tell(self, name: str, **data: Any) -> Led:
        """Tell it a published event."""
        about = {"run_id": RUN_ID, "codon_id": "clean"}
        event = run_event({"type": name, "data": {**about, **data}})
        assert not isinstance(event, RunStarted | CodonStarted)
        trigger, payload = wanted(event, self.state)
        self.fire(trigger, **payload)
        return self

    def move(self, source: str, to: str, metadata: Mapping[str, Any]) -> Led:
        """Tell it of a transition, just as it is said."""
        return self.tell("CodonTransitioned", **{"from": source, "to": to, "metadata": metadata})

    def to(self, state: str, **more: Any) -> Led:
        """Lead it on, with all that this must say."""
        return self.move(self.state, state, {**metadata(self.state, state), **more})

    def refused(self, name: str, **data: Any) -> str:
        """Tell it what it refuses, which changes nothing; return why."""
        before = self.record
        try:
            self.tell(name, **data)
        except CallError as refusal:
            assert self.record == before
            return str(refusal)
        raise AssertionError(f"{name} was accepted")


def metadata(source: str, to: str) -> dict[str, Any]:
    """Return all that a transition may say."""
    during = {"failed": "failed_during", "skipped": "skipped_during"}
    said = {during[to]: source} if to in during else {}
    return {**METADATA.get(to, {}), **said}


def bare(source: str, to: str) -> dict[str, Any]:
    """Return what a transition must say, and no more."""
    said = metadata(source, to)
    return {name: said[name] for name in REQUIRED.get(to, ())}


def sentinel(cost: int, **more: Any) -> dict[str, Any]:
    return {**SENTINEL, "total_cost": cost, **more}


def at(state: str) -> Led:
    """Return a codon that stands in a state, by the shortest way."""
    return Led(*min((way for way in paths() if way[-1] == state), key=len)[1:])


def fields(state: str) -> tuple[set[str], set[str]]:
    """Return what is always known of a codon in a state, and what may be."""
    always, perhaps = FIELDS[state]
    return set(always.split()), set(perhaps.split())


def event_of(decision: Decision) -> Event:
    """Return a decision as the log keeps it."""
    return Event(
        decision.after.id,
        decision.after.version,
        decision.trigger,
        decision.before.state,
        decision.after.state,
        decision.payload,
        Cause("test"),
        at_ms=MOVED_MS,
    )
