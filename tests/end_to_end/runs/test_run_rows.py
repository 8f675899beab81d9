"""Every row of workspaces, runs and codons is fired by each whom its table names, and every event.

What is told from outside, and what a conductor does, is met in yards that work at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import pytest

from interlock.kernel.machines.runs.codon.names import LIVE
from interlock.kernel.machines.runs.codon.table import CODON
from interlock.kernel.machines.runs.events import RunEvent
from interlock.kernel.machines.runs.run.table import RUN
from interlock.kernel.machines.runs.workspace.table import WORKSPACE
from interlock.kernel.table import Transition
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.runs.workspaces import CUE_OF, NewYard, Yard, each_state, holding

Fired = tuple[str, str, str, str, str]  # machine, from, trigger, to, by whom
MACHINES = (WORKSPACE, RUN, CODON)
EVENTS = {str(one.model_fields["type"].default) for one in get_args(RunEvent)}
# Whose process is over has said all that it says: later costs are told by others.
OVER = {
    ("codon", "completing_sentinels", trigger, "completing_sentinels", "step")
    for trigger in (
        "costs_updated",
        "costs_incremented",
        "codon_final_cost_set",
        "assistant_message_count_updated",
    )
}


def named(machine: str, row: Transition, who: str) -> Fired:
    """Return a row as it is compared."""
    return machine, str(row.source), str(row.trigger), str(row.target), who


TABLE = {
    named(machine.name, row, who)
    for machine in MACHINES
    for row in machine.transitions
    for who in row.by
}


@dataclass
class Seen:
    """What was fired in all yards, and which events were heard."""

    rows: set[Fired] = field(default_factory=set)
    types: set[str] = field(default_factory=set)

    def take(self, yard: Yard) -> None:
        """Take in all that happened in a yard, whose records equal their logs."""
        of = [yard.opened, *yard.every_run()]
        of += [codon for run in of[1:] for codon in yard.codons(run.id)]
        for record in of:
            yard.deployment.checked(record.id)
            for event in yard.deployment.events(record.id)[1:]:
                moved = (str(event.source), event.trigger, event.target, event.cause.actor)
                self.rows.add((record.machine, *moved))
        self.types |= set(yard.types())


def in_each_state(
    new_yard: NewYard, name: str, act: Callable[[Yard], object], *states: str
) -> list[Yard]:
    """Do something to a run in each live state, and wait for its end."""
    found = each_state(lambda state: new_yard(f"{name}-{state}"))
    for yard in found.values():
        act(yard)
    held = found["starting"]
    if held.deployment.client.show(held.last.id).state == "running":
        held.renewed(held.codon().id)
    held.go("starting")
    for yard in found.values():
        yard.ends(yard.last, *states)
    return list(found.values())


METADATA: dict[str, dict[str, Any]] = {
    "starting": {},
    "initializing": {"pid": 1, "log_path": "/x"},
    "running": {"session_id": "s"},
    "completing_sentinels": {},
    "completed": {"checkpoint_sha": "abc"},
    "failed": {"exit_code": 3, "failure_reason": {"type": "unknown", "retriable": False}},
    "skipped": {},
}
TOLD: dict[str, dict[str, Any]] = {
    "CheckpointCreated": {"checkpoint_type": "completed", "sha": "abc", "branch": "b"},
    "SentinelStatesUpdated": {"sentinel_states": [{"id": "e", "model": "m", "loaded_at": 1}]},
    "CostsUpdated": {"cost": 5},
    "CostsIncremented": {"cost_delta": 5},
    "AssistantMessageCountUpdated": {"new_count": 3},
    "CodonFinalCostSet": {"final_cost": 9},
}
# How many of these are told in a state; after the last of them no costs are news.
TAKES = {"preparing": 1, "starting": 2, "initializing": 2, "running": 5}
ALL = len(TOLD)


def leads(yard: Yard, codon: str, source: str, target: str) -> None:
    """Tell from outside that a codon goes to another state."""
    said = METADATA[target]
    if target in ("failed", "skipped"):
        said = {**said, f"{target}_during": source}
    moved: dict[str, Any] = {"from": source, "to": target, "metadata": said}
    answer = yard.answer(yard.tells("CodonTransitioned", codon=codon, **moved))
    assert answer.kind == "event_applied", answer.detail


def from_outside(yard: Yard) -> None:
    """Lead codons, which wait in their rig, through all of their lives by events alone."""
    ways = [(state, end) for state in LIVE for end in ("failed", "skipped")]
    ways += [(state, "completed") for state in LIVE[3:]]
    names = [f"c{n}" for n in range(len(ways))]
    lines = [
        f"  - {{codon: {name}, rig: [{{command: {{run: hold {name}}}}}], command: did, "
        "on_failure: ignore}"
        for name in names
    ]
    run = yard.start("\n".join(["codons:", *lines]))
    for name, (last, end) in zip(names, ways, strict=True):
        yard.meets(name)
        for number, state in enumerate(LIVE):
            takes = ALL if state == last == "running" else TAKES.get(state, ALL)
            for kind in list(TOLD)[:takes]:
                answer = yard.answer(yard.tells(kind, codon=name, **TOLD[kind]))
                assert answer.kind == "event_applied", answer.detail
            if state == last:
                leads(yard, name, state, end)
                break
            leads(yard, name, state, LIVE[number + 1])
    yard.answer(yard.tells("InitialCheckpointSet", sha="abc"))
    yard.answer(yard.tells("RunFailed", reason="so it is"))
    yard.ends(run, "failed")


def begun_from_outside(yard: Yard) -> None:
    """Begin a run by an event, and tell its crash."""
    began = yard.tells("RunStarted", run_folder=str(yard.workspace), branch="run-2")
    assert yard.answer(began).kind == "event_applied"
    refused = yard.answer(yard.tells("RunCompleted"))
    assert refused.kind == "event_refused", "whether all is done is not for others to say"
    yard.meets("c0", 2)
    assert yard.answer(yard.tells("RunCrashed", reason="seen by a monitor")).kind == "event_applied"
    run = yard.ends(yard.last, "crashed")
    assert run.data["ended"] == {"code": "told", "detail": "seen by a monitor"}
    yard.runs_of("producer").close(yard.workspace)


NATURAL = """
sentinels: {eye: {on: [codon_transitioned], command: "cat > /dev/null"}}
codons:
  - codon: one
    rig: [{command: {run: "true"}}]
    sentinels: [eye]
    speaks: interlock
    command: |
      hold early; session; cost 1; message hi; hold later
      costs costs 5; costs final_costs 9; cost 3; result
  - {codon: two, command: did}
"""


def naturally(yard: Yard) -> None:
    """Let a run come to its end by itself, with a sentinel that is called at every step."""
    run = yard.start(NATURAL)
    yard.meets("early")

    def watched() -> bool:
        events = yard.deployment.events(yard.codon().id)
        return ("sentinel_states_updated", "initializing") in {
            (event.trigger, event.target) for event in events
        }

    yard.sees(watched, what="a sentinel was called before there was a session")
    yard.go("early")
    yard.meets("later")
    yard.go("later")
    yard.ends(run)
    assert yard.codon().data["final_cost"] == 9, "what comes after the last word is no news"
    yard.runs.close(yard.workspace)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_every_row_is_fired_by_each_of_its_producers_and_every_event_is_heard(
    new_yard: NewYard, new_deployment: NewDeployment, tmp_path: Path
) -> None:
    seen = Seen()
    outside, natural = new_yard("outside"), new_yard("natural")
    from_outside(outside)
    begun_from_outside(outside)
    naturally(natural)
    found = [outside, natural]
    for who in ("person", "producer"):

        def skip(yard: Yard, who: str = who) -> None:
            yard.runs_of(who).skip(yard.workspace)

        def stop(yard: Yard, who: str = who) -> None:
            yard.runs_of(who).stop(yard.workspace)

        def force(yard: Yard, who: str = who) -> None:
            yard.runs_of(who).stop(yard.workspace, force=True)

        found += in_each_state(new_yard, f"skip-{who}", skip)
        found += in_each_state(new_yard, f"stop-{who}", stop, "failed")
        found += in_each_state(new_yard, f"force-{who}", force, "failed")
    # Where nobody clears up, it is the orphans' sweep that finds each codon.
    alone = new_deployment(DEPLOYMENT_WITHOUT="clearance", **holding(tmp_path)).full(concurrency=12)
    lost = each_state(lambda state: Yard(alone, tmp_path / f"lost-{state}"))
    for state, yard in lost.items():
        yard.kill_conductor()
        yard.go(CUE_OF[state])
    for yard in lost.values():
        yard.crashes(yard.last)
    for yard in (*found, *lost.values()):
        seen.take(yard)
        yard.sees(yard.is_quiet, what="nothing is left")

    assert TABLE - OVER - seen.rows == set(), "fired by nobody"
    assert seen.rows - TABLE == set(), "fired by one whom the table does not name"
    assert seen.types == EVENTS
    assert len(EVENTS) == 13
