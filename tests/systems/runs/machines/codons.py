"""A codon that a test drives without a store, by the published events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from interlock.kernel.decision import Decision
from interlock.kernel.errors import CallError
from interlock.kernel.event import Cause, Event
from interlock.kernel.record import Record, RecordId, Version
from interlock.systems.runs.machines.codon.table import CODON
from interlock.systems.runs.machines.codon_types import Codon, codon_of
from interlock.systems.runs.machines.events import CodonStarted, RunStarted, run_event
from interlock.systems.runs.machines.translation import wanted
from tests.kernel.samples import FAILURE, SENTINEL, TOKENS

RUN_ID = "data/1"
CODON_ID = "data/1/1"
CREATED_MS, MOVED_MS = 1_000, 2_000
CHAIN = ("preparing", "starting", "initializing", "running", "completing_sentinels")
ENDS = ("completed", "failed", "skipped")
AT_WORK = ("running", "completing_sentinels")
WATCHED = ("starting", "initializing", *AT_WORK)
STATES = (*CHAIN, *ENDS)
LOOP = {"loop_id": "tidy", "iteration": 2, "index": 0}
NO_TOKENS = dict.fromkeys(TOKENS, 0)
# All metadata that a transition to a state may have.
METADATA: Mapping[str, Mapping[str, Any]] = {
    "starting": {"checkpoint_sha": "rig"},
    "initializing": {"pid": 7, "log_path": "clean.log", "previous_session_id": "before"},
    "running": {"session_id": "s"},
    "completing_sentinels": {},
    "completed": {"checkpoint_sha": "done", "result_message_received": True},
    "failed": {"exit_code": -1, "failure_reason": FAILURE, "checkpoint_sha": "broken"},
    "skipped": {"checkpoint_sha": "left"},
}
# The published required metadata.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "initializing": ("pid", "log_path"),
    "running": ("session_id",),
    "completed": ("checkpoint_sha",),
    "failed": ("exit_code", "failure_reason", "failed_during"),
    "skipped": ("skipped_during",),
}
# By state: the fields that are always there, and those that may be.
ALWAYS, LOOPED = "codon_id start_time", "loop_context"
READY = f"{LOOPED} rig_setup_checkpoint sentinels"
LAUNCHED = "pid log_path previous_session_id session_id"
COUNT = "assistant_message_count"
FINAL = f"final_cost final_tokens {COUNT} result_message_received completion_checkpoint"
FIELDS: dict[str, tuple[str, str]] = {
    "preparing": (ALWAYS, LOOPED),
    "starting": (ALWAYS, READY),
    "initializing": (f"{ALWAYS} pid log_path", f"{READY} previous_session_id"),
    "running": (
        f"{ALWAYS} pid log_path session_id current_cost current_tokens {COUNT}",
        f"{READY} previous_session_id",
    ),
    "completed": (
        f"{ALWAYS} end_time log_path session_id exit_code {FINAL}",
        f"{READY} previous_session_id budget_exceeded context_exceeded",
    ),
    "failed": (
        f"{ALWAYS} end_time failed_during exit_code failure_reason partial_cost partial_tokens",
        f"{READY} {LAUNCHED} {COUNT} error_checkpoint ignored",
    ),
    "skipped": (
        f"{ALWAYS} end_time skipped_during partial_cost partial_tokens",
        f"{READY} {LAUNCHED} {COUNT} skip_checkpoint",
    ),
}
FIELDS["completing_sentinels"] = FIELDS["running"]


def paths() -> Iterator[tuple[str, ...]]:
    """Yield every path of states from the first one on."""
    for length in range(1, len(CHAIN) + 1):
        path = CHAIN[:length]
        yield path
        for end in ENDS:
            if end != "completed" or path[-1] in ("running", "completing_sentinels"):
                yield (*path, end)


class PureCodon:
    """A codon without a store, and what its decisions add to the counters."""

    def __init__(self, *path: str, **fields: Any) -> None:
        data = CODON.initial_data({"codon_id": "clean", **fields})
        record_id = RecordId(CODON_ID)
        self.record: Record[Any] = Record(
            record_id, "codon", "preparing", Version(1), data, created_ms=CREATED_MS
        )
        self.counted: Counter[str] = Counter()
        for state in path:
            self.to(state)

    @property
    def state(self) -> str:
        return self.record.state

    @property
    def data(self) -> Mapping[str, Any]:
        return dict(self.record.data)

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

    def post(self, name: str, **data: Any) -> PureCodon:
        """Fire the trigger of a published event."""
        ids = {"run_id": RUN_ID, "codon_id": "clean"}
        event = run_event({"type": name, "data": {**ids, **data}})
        assert not isinstance(event, RunStarted | CodonStarted)
        trigger, payload = wanted(event, self.state)
        self.fire(trigger, **payload)
        return self

    def move(self, source: str, to: str, metadata: Mapping[str, Any]) -> PureCodon:
        """Post a transition with exactly these metadata."""
        return self.post("CodonTransitioned", **{"from": source, "to": to, "metadata": metadata})

    def to(self, state: str, **more: Any) -> PureCodon:
        """Post a transition to a state with all metadata that it may have."""
        return self.move(self.state, state, {**metadata(self.state, state), **more})

    def refused(self, name: str, **data: Any) -> str:
        """Post an event that is refused and changes nothing; return why."""
        before = self.record
        try:
            self.post(name, **data)
        except CallError as refusal:
            assert self.record == before
            return str(refusal)
        raise AssertionError(f"{name} was accepted")


def metadata(source: str, to: str) -> dict[str, Any]:
    """Return all metadata that a transition may have."""
    during = {"failed": "failed_during", "skipped": "skipped_during"}
    state = {during[to]: source} if to in during else {}
    return {**METADATA.get(to, {}), **state}


def bare(source: str, to: str) -> dict[str, Any]:
    """Return the metadata that a transition requires."""
    every = metadata(source, to)
    return {name: every[name] for name in REQUIRED.get(to, ())}


def sentinel(cost: int, **more: Any) -> dict[str, Any]:
    return {**SENTINEL, "total_cost": cost, **more}


def at(state: str) -> PureCodon:
    """Return a codon in this state, by the shortest way."""
    return PureCodon(*min((path for path in paths() if path[-1] == state), key=len)[1:])


def fields(state: str) -> tuple[set[str], set[str]]:
    """Return the fields that a codon always has in a state, and those that it may have."""
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
