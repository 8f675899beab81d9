"""The tables of task, agent and turn: the published ones, and what a task's rows ask and change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import GuardRefusedError, IllegalTransitionError, InvalidPayloadError
from interlock.kernel.machine import Decision, Machine
from interlock.kernel.machines.tasks.agent.table import AGENT
from interlock.kernel.machines.tasks.task.changes import BACKOFF_S_MAX, CLAIMS_MAX, backoff_ms
from interlock.kernel.machines.tasks.task.table import TASK
from interlock.kernel.machines.tasks.turn.table import TURN
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.table import Mode, Terminal

GOLDEN = Path(__file__).parents[2] / "golden"
CLAIM = {"owner": "ann", "identity": "ann/any/make"}


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    return found


class Told:
    """A task that is told what happens, one trigger after the other."""

    def __init__(self, **given: Any) -> None:
        data = TASK.initial_data({"title": "mend it", **given})
        stage = TASK.initial_stage(data)
        self.record = Record(RecordId("b/t"), "task", str(stage.state), Version(1), data)
        self._last: Decision | None = None

    def fire(
        self,
        trigger: str,
        payload: Mapping[str, Any] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Told:
        admitted = TASK.admit(trigger, payload or {})
        self._last = TASK.decide(self.record, trigger, admitted, facts or {})
        self.record = replace(self.last.after, version=Version(self.record.version + 1))
        return self

    def to(self, *triggers: str) -> Told:
        for trigger in triggers:
            self.fire(trigger, SAMPLES.get(trigger, {}))
        return self

    @property
    def last(self) -> Decision:
        assert self._last is not None, "nothing was told yet"
        return self._last

    @property
    def state(self) -> str:
        return self.record.state

    @property
    def owed(self) -> list[str]:
        return [one.effect.name for one in self.last.owes]


SAMPLES: dict[str, dict[str, Any]] = {
    "claimed": CLAIM,
    "completed": {"summary": "mended"},
    "blocked": {"on": "the key of the safe"},
    "split": {"subtasks": [{"title": "one"}, {"title": "two"}]},
    "subtasks_ended": {"tally": {"closed": 2}},
    "verified": {"results": [{"type": "test_passes", "passed": True}]},
    "merged": {"commit": "abc"},
    "recovered": {"commit": "def"},
}


# --- the published tables ----------------------------------------------------------------------


@pytest.mark.parametrize("machine", [TASK, AGENT], ids=["task", "agent"])
def test_the_published_edges_are_all_there_and_ours_are_marked(machine: Machine) -> None:
    kept = golden(machine.name)
    rows = [row for row in machine.transitions if not row.ours]

    assert Counter((str(row.source), str(row.target)) for row in rows) == Counter(
        (source, target) for source, target in kept["edges"]
    )
    ends = [str(stage.state) for stage in machine.stages if isinstance(stage, Terminal)]
    assert sorted(ends) == kept["terminal"]
    assert [row for row in machine.transitions if not row.by] == []


def test_the_published_task_has_thirty_edges_and_no_other_state() -> None:
    kept = golden("task")
    named = {state for edge in kept["edges"] for state in edge} | set(kept["outside"])

    assert len(kept["edges"]) == 30
    assert {str(stage.state) for stage in TASK.stages} == named
    assert [str(TASK.initial_stage({"plan": plan}).state) for plan in (None, "p")] == kept["births"]


def test_the_turn_is_the_published_one_row_by_row() -> None:
    kept = golden("turn")

    assert sorted((str(r.source), str(r.trigger), str(r.target)) for r in TURN.transitions) == (
        sorted(tuple(row) for row in kept["rows"])
    )
    assert len(kept["rows"]) == 18
    assert not any(row.ours for row in TURN.transitions)
    assert [row for row in TURN.transitions if not row.by] == []


@pytest.mark.parametrize("machine", [TASK, AGENT, TURN], ids=["task", "agent", "turn"])
def test_what_the_sweeps_fire_is_admitted(machine: Machine) -> None:
    lost = {"code": "lost_worker", "detail": "gone"}
    for stage in machine.stages:
        for name in ("crash", "exhausted"):
            trigger = getattr(stage, name, None)
            if trigger:
                assert machine.admit(str(trigger), lost)["code"] == "lost_worker"
        for timer in stage.timers:
            if timer.trigger:
                machine.admit(str(timer.trigger), timer.payload)


# --- ways through ------------------------------------------------------------------------------


def test_a_task_is_claimed_worked_on_verified_merged_and_closed() -> None:
    told = Told().to("claimed", "started")
    assert (told.state, told.last.mode) == ("in_progress", Mode.CARRY)
    assert (told.to("completed").state, told.owed) == ("done", ["verification"])
    assert (told.to("verified").state, told.owed) == ("done", ["merge"])
    assert (told.to("merged").state, told.owed) == ("closed", ["aftermath"])
    assert told.record.data["merged"] == "abc"


def test_a_plan_is_approved_before_anything_is_offered() -> None:
    told = Told(plan="p1")
    with pytest.raises(IllegalTransitionError):
        told.to("claimed")

    assert (told.to("approved").state, told.owed) == ("open", ["assignment", "resolution"])


def test_verified_work_waits_for_a_person_where_that_was_asked_for_and_is_then_merged() -> None:
    told = Told(needs_approval=True).to("claimed", "completed", "verified")
    assert told.state == "pending_approval"

    assert (told.to("approved").state, told.owed) == ("done", ["merge", "resolution"])


# --- claims ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "claim", "facts", "agreed"),
    [
        ({"depends_on": ["a"]}, {}, {"b/a": {"state": "closed"}}, True),
        ({"depends_on": ["a"]}, {}, {"b/a": {"state": "done"}}, True),
        ({"depends_on": ["a"]}, {}, {"b/a": {"state": "failed"}}, False),
        ({"depends_on": ["a"]}, {}, {}, False),
        ({"depends_on": ["x/2.1"]}, {}, {"b/x/2.1": {"state": "closed"}}, True),
        ({"not_before": 1_000}, {"at_ms": 999}, {}, False),
        ({"not_before": 1_000}, {"at_ms": 1_000}, {}, True),
        ({"role": "writer"}, {"role": "painter"}, {}, False),
        ({"role": "writer"}, {"role": "writer"}, {}, True),
        ({"tenant": "acme"}, {"tenant": "other"}, {}, False),
    ],
)
def test_a_claim_is_for_whom_and_when_it_may_be(
    given: dict[str, Any], claim: dict[str, Any], facts: dict[str, Any], *, agreed: bool
) -> None:
    told = Told(**given)
    if agreed:
        assert told.fire("claimed", {**CLAIM, **claim}, facts).state == "claimed"
        return
    with pytest.raises(GuardRefusedError):
        told.fire("claimed", {**CLAIM, **claim}, facts)


def test_each_claim_has_a_number_of_its_own_and_nothing_of_the_one_before() -> None:
    told = Told().to("claimed", "completed", "verified", "verification_rejected", "retried")
    told.to("claimed")

    assert told.record.data["claim"]["number"] == 2
    left = {"summary", "verified", "failure", "checked"} & set(told.record.data)
    assert left == set()


def test_a_claim_that_comes_to_nothing_again_and_again_ends_with_a_person() -> None:
    told = Told(max_retries=0)
    for _ in range(CLAIMS_MAX - 1):
        assert told.to("claimed", "released").state == "open"

    assert told.to("claimed", "released").state == "failed"


def test_only_one_may_work_on_a_file() -> None:
    told = Told(owned_files=["src/a.py"]).to("claimed")
    taken = told.last.shares
    kept = told.to("started").last.shares
    freed = told.to("completed").last.shares

    assert taken is not None
    assert taken.takes == ("src/a.py",)
    assert kept is None
    assert freed is not None
    assert freed.frees == ("src/a.py",)


# --- failures ----------------------------------------------------------------------------------


def test_a_failed_task_is_tried_again_at_doubling_distances_and_then_given_to_a_person() -> None:
    told, waits = Told(max_retries=5), []
    for _ in range(5):
        told.to("claimed", "failed")
        assert not told.last.waits
        assert not told.last.counts_as_ended
        waits.append(backoff_ms(told.record.data))
        told.to("retried")
    told.to("claimed", "failed")

    assert waits == [30_000, 60_000, 120_000, 240_000, BACKOFF_S_MAX * 1_000]
    assert backoff_ms(told.record.data) is None
    assert (told.last.waits, told.last.counts_as_ended) == (True, True)
    assert told.to("retried").record.data["retries"] == 6, "a person may, and it is counted"


def test_what_no_try_can_help_is_not_tried_again() -> None:
    told = Told().to("claimed").fire("failed", {"reason": "no such repository", "final": True})

    assert told.last.counts_as_ended
    assert told.record.data["failure"] == {"reason": "no such repository"}


def test_a_lost_agent_is_followed_by_two_others_at_most() -> None:
    told = Told()
    for _ in range(2):
        assert told.to("claimed", "started", "orphaned", "requeued").state == "open"

    assert told.to("claimed", "started", "orphaned", "requeued").state == "failed"


def test_what_a_lost_agent_left_behind_is_verified_like_any_work() -> None:
    told = Told().to("claimed", "started", "orphaned", "recovered")

    assert (told.state, told.owed) == ("done", ["verification"])


@pytest.mark.parametrize(
    ("tally", "state"),
    [
        ({"closed": 2}, "done"),
        ({"closed": 1, "failed": 1}, "blocked"),
        ({"cancelled": 1}, "blocked"),
    ],
)
def test_a_parent_is_done_when_all_its_parts_are_good(tally: dict[str, int], state: str) -> None:
    told = Told().to("split")
    assert (told.state, told.owed) == ("waiting_for_subtasks", ["spawn"])
    told.fire("subtasks_ended", {"tally": tally})

    assert told.state == state
    if state == "blocked":
        assert "not every subtask" in told.record.data["blocked_on"]["on"]


def test_a_block_on_a_task_is_no_persons_matter_and_one_on_a_text_is() -> None:
    by_task = Told().to("claimed").fire("blocked", {"on": "b/other", "kind": "task"})
    by_text = Told().to("claimed", "blocked")

    assert (by_task.last.waits, by_text.last.waits) == (False, True)
    assert [timer.name for timer in by_task.last.timers] == ["look"]
    assert [timer.name for timer in by_text.last.timers] == ["reminder"]


def test_a_stage_is_failed_at_once_only_where_that_was_set() -> None:
    with pytest.raises(GuardRefusedError, match="only where that was asked for"):
        Told().fire("stage_failed")

    assert Told(stage_failures=True).fire("stage_failed", {"final": True}).state == "failed"


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a//b", ".git/config", "a/./b", "a\\b", ""]
)
def test_a_file_outside_the_repository_is_refused(path: str) -> None:
    with pytest.raises(InvalidPayloadError, match="owned_files"):
        Told(owned_files=[path])


def test_a_task_for_an_agent_needs_a_repository() -> None:
    with pytest.raises(InvalidPayloadError, match="an agent needs a repo"):
        Told(agent="make")
    with pytest.raises(InvalidPayloadError, match="names a task twice"):
        Told(depends_on=["a", "a"])


def test_a_part_is_bound_by_what_binds_the_whole() -> None:
    whole = Told(needs_approval=True, owned_files=["src"]).record.data
    assert TASK.child_payload is not None
    part, _ = TASK.child_payload(whole, {"title": "half"})
    narrower, _ = TASK.child_payload(whole, {"title": "x", "owned_files": ["src/a"]})

    assert (part["needs_approval"], part["owned_files"]) == (True, ["src"])
    assert narrower["owned_files"] == ["src/a"]
    assert TASK.initial_data(part)["title"] == "half"


@pytest.mark.parametrize("ways", [("claimed", "failed"), ("claimed", "started", "orphaned")])
def test_what_would_be_tried_again_can_be_ended(ways: tuple[str, ...]) -> None:
    assert Told().to(*ways).fire("cancelled", {"reason": "enough"}).state == "cancelled"


def test_verified_work_is_given_a_day_to_be_merged() -> None:
    told = Told().to("claimed", "completed")
    judged = told.last.timers[0].delay_ms

    assert told.to("verified").last.timers[0].delay_ms == 24 * judged
