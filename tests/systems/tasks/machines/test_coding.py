"""The published tables of task, agent and turn, and the guards and updates of a task."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.decision import Decision
from interlock.kernel.errors import GuardRefusedError, IllegalTransitionError, InvalidPayloadError
from interlock.kernel.families import check_children
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.table import Mode, Terminal
from interlock.systems.tasks.machines.agent.table import AGENT
from interlock.systems.tasks.machines.task.changes import backoff_ms
from interlock.systems.tasks.machines.task.limits import (
    BACKOFF_S_MAX,
    CLAIMS_SINCE_RETRY_MAX,
    SUBTASKS_MAX,
)
from interlock.systems.tasks.machines.task.parts import child_payload
from interlock.systems.tasks.machines.task.questions import (
    approve_merge,
    diff_command,
    is_still_blocked,
    next_try,
)
from interlock.systems.tasks.machines.task.table import TASK
from interlock.systems.tasks.machines.turn.table import TURN

GOLDEN = Path(__file__).parents[1] / "golden"
CLAIM = {"owner": "ann", "identity": "ann/any/make"}


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    return found


class PureTask:
    """A task without a store, driven by one trigger after the other."""

    def __init__(self, **given: Any) -> None:
        data = TASK.initial_data({"title": "mend it", **given})
        stage = TASK.initial_stage(data)
        self.record: Record = Record(RecordId("b/t"), "task", str(stage.state), Version(1), data)
        self._last: Decision | None = None

    def fire(
        self,
        trigger: str,
        payload: Mapping[str, Any] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> PureTask:
        admitted = TASK.admit(trigger, payload or {})
        self._last = TASK.decide(self.record, trigger, admitted, facts or {})
        check_children({"task": TASK}, self._last)
        self.record = replace(self.last.after, version=Version(self.record.version + 1))
        return self

    def to(self, *triggers: str) -> PureTask:
        for trigger in triggers:
            self.fire(trigger, SAMPLES.get(trigger, {}))
        return self

    @property
    def last(self) -> Decision:
        assert self._last is not None, "nothing was fired yet"
        return self._last

    @property
    def state(self) -> str:
        return self.record.state

    @property
    def owed(self) -> list[str]:
        return [owed.effect.name for owed in self.last.owes]


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


def test_each_subtask_that_is_given_up_is_listed_once_and_the_newest_are_kept() -> None:
    task = PureTask().to("claimed", "started")
    for number in (1, 1, *range(2, SUBTASKS_MAX + 2)):
        task.fire("child_cancelled", {"child": f"b/t/{number}"})

    newest = [f"b/t/{number}" for number in range(2, SUBTASKS_MAX + 2)]
    assert task.record.data["cancel_children"] == newest


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


def test_a_task_is_claimed_worked_on_verified_merged_and_closed() -> None:
    task = PureTask().to("claimed", "started")
    assert (task.state, task.last.mode) == ("in_progress", Mode.CARRY)
    assert (task.to("completed").state, task.owed) == ("done", ["verification"])
    assert (task.to("verified").state, task.owed) == ("done", ["merge"])
    assert (task.to("merged").state, task.owed) == ("closed", ["follow_up"])
    assert task.record.data["merged"] == "abc"


def test_a_planned_task_is_offered_only_after_its_approval() -> None:
    task = PureTask(plan="p1")
    with pytest.raises(IllegalTransitionError):
        task.to("claimed")

    assert (task.to("approved").state, task.owed) == ("open", ["assignment", "resolution"])


def test_verified_work_waits_for_approval_where_that_was_asked_for() -> None:
    task = PureTask(needs_approval=True).to("claimed", "completed", "verified")
    assert task.state == "pending_approval"

    assert (task.to("approved").state, task.owed) == ("done", ["merge", "resolution"])


def test_only_a_person_moves_work_on_that_waits_for_approval() -> None:
    ways = [row for row in TASK.transitions if str(row.source) == "pending_approval"]

    assert {str(row.target) for row in ways} == {"done", "failed", "cancelled"}
    assert {row.by for row in ways} == {("person",)}


def test_the_command_that_shows_a_merge_is_quoted_for_a_shell() -> None:
    counts = {"files": 1, "added": 0, "removed": 3, "binary": 1}
    found = {"branch": "interlock/b/one@1", "changes": counts}
    data: Any = {"target": "it's", "repo": "/a b", **found}
    unchanged: Any = {"target": "main"}

    assert diff_command(data) == """git -C '/a b' diff 'it'"'"'s...interlock/b/one@1'"""
    assert "(1 file, 1 of them binary, +0 -3, on" in approve_merge(data)
    assert diff_command(unchanged) == ""


@pytest.mark.parametrize(
    ("level", "is_said"), [("none", True), ("bubblewrap", False), (None, False)]
)
def test_the_card_says_that_it_does_not_hold_against_an_agent_without_a_sandbox(
    level: str | None, *, is_said: bool
) -> None:
    data: Any = {"target": "m", "claim": {"sandbox": level} if level else {}}
    assert ("could have answered this itself" in approve_merge(data)) is is_said


@pytest.mark.parametrize(
    ("given", "claim", "facts", "agreed"),
    [
        ({"depends_on": ["a"]}, {}, {"b/a": {"state": "closed"}}, True),
        ({"depends_on": ["a"]}, {}, {"b/a": {"state": "done"}}, False),
        ({"depends_on_done": ["a"]}, {}, {"b/a": {"state": "done"}}, True),
        ({"depends_on_done": ["a"]}, {}, {"b/a": {"state": "closed"}}, True),
        ({"depends_on_done": ["a"]}, {}, {"b/a": {"state": "in_progress"}}, False),
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
def test_a_claim_needs_the_dependencies_the_time_the_role_and_the_tenant(
    given: dict[str, Any], claim: dict[str, Any], facts: dict[str, Any], *, agreed: bool
) -> None:
    task = PureTask(**given)
    if agreed:
        assert task.fire("claimed", {**CLAIM, **claim}, facts).state == "claimed"
        return
    with pytest.raises(GuardRefusedError):
        task.fire("claimed", {**CLAIM, **claim}, facts)


def test_each_claim_has_its_own_number_and_no_data_of_the_claim_before() -> None:
    task = PureTask().to("claimed", "completed", "verified", "verification_rejected", "retried")
    task.to("claimed")

    assert task.record.data["claim"]["number"] == 2
    left = {"summary", "verified", "failure", "checked"} & set(task.record.data)
    assert left == set()


def test_a_task_that_is_released_again_and_again_fails() -> None:
    task = PureTask(max_retries=0)
    for _ in range(CLAIMS_SINCE_RETRY_MAX - 1):
        assert task.to("claimed", "released").state == "open"

    assert task.to("claimed", "released").state == "failed"


def test_a_claim_holds_the_owned_files_until_the_work_is_done() -> None:
    task = PureTask(owned_files=["src/a.py"]).to("claimed")
    taken = task.last.shares
    kept = task.to("started").last.shares
    freed = task.to("completed").last.shares

    assert taken is not None
    assert taken.takes == ("src/a.py",)
    assert kept is None
    assert freed is not None
    assert freed.frees == ("src/a.py",)


def test_a_failed_task_is_retried_after_doubling_waits_and_then_asks_a_person() -> None:
    task, waits = PureTask(max_retries=5), []
    for _ in range(5):
        task.to("claimed", "failed")
        assert not task.last.waits
        assert not task.last.counts_as_ended
        waits.append(backoff_ms(task.record.data))
        task.to("retried")
    task.to("claimed", "failed")

    assert waits == [30_000, 60_000, 120_000, 240_000, BACKOFF_S_MAX * 1_000]
    assert backoff_ms(task.record.data) is None
    assert (task.last.waits, task.last.counts_as_ended) == (True, True)
    assert task.to("retried").record.data["retries"] == 6, "a person may, and it is counted"


def test_a_final_failure_is_not_retried() -> None:
    task = PureTask().to("claimed").fire("failed", {"reason": "no such repository", "final": True})

    assert task.last.counts_as_ended
    assert task.record.data["failure"] == {"reason": "no such repository"}


@pytest.mark.parametrize(
    ("fields", "followed"),
    [
        ({}, 2),
        ({"max_retries": 0}, 0),
        ({"max_retries": 1}, 1),
        ({"max_retries": 9}, 2),
        ({"max_lost": 0}, 0),
        ({"max_retries": 0, "max_lost": 1}, 1),
        ({"max_lost": 4}, 4),
    ],
)
def test_as_many_lost_agents_are_followed_as_the_task_says(
    fields: dict[str, int], followed: int
) -> None:
    task = PureTask(**fields)
    for _ in range(followed):
        assert task.to("claimed", "started", "orphaned", "requeued").state == "open"

    task.to("claimed", "started", "orphaned", "requeued")
    assert (task.state, task.record.data["given_up"]) == ("failed", True)
    times = ", and no other may follow it" if followed == 0 else f" {followed + 1} times"
    assert f"its agent was lost{times}" in task.record.data["failure"]["reason"]


@pytest.mark.parametrize("ways", [("unrecoverable",), ("recovered", "verification_rejected")])
def test_what_the_last_lost_agent_left_is_not_tried_again_when_it_fails(
    ways: tuple[str, ...],
) -> None:
    task = PureTask(max_lost=0).to("claimed", "started", "orphaned", *ways)

    assert (task.state, task.record.data["given_up"]) == ("failed", True)


def test_a_subtask_is_repeated_no_more_often_than_the_task_that_was_split() -> None:
    whole = PureTask(max_retries=1, max_lost=0).to("split").record.data
    parts = [{"title": "some", "max_retries": 5}, {"title": "none", "max_retries": 0}]
    some, none = (child_payload(whole, part, ())[0] for part in parts)

    assert (some["max_retries"], none["max_retries"]) == (1, 0)
    assert some["max_lost"] == none["max_lost"] == 0


def test_the_recovered_work_of_a_lost_agent_is_verified() -> None:
    task = PureTask().to("claimed", "started", "orphaned", "recovered")

    assert (task.state, task.owed) == ("done", ["verification"])


@pytest.mark.parametrize(
    ("tally", "state"),
    [
        ({"closed": 2}, "done"),
        ({"closed": 1, "failed": 1}, "blocked"),
        ({"cancelled": 1}, "blocked"),
    ],
)
def test_a_task_is_done_when_all_its_subtasks_succeeded(tally: dict[str, int], state: str) -> None:
    task = PureTask().to("split")
    assert (task.state, task.owed) == ("waiting_for_subtasks", ["spawn"])
    task.fire("subtasks_ended", {"tally": tally})

    assert task.state == state
    if state == "blocked":
        assert task.record.data["blocked_on"] == {"kind": "subtasks", "on": "its subtasks"}


def test_a_task_waits_for_its_subtasks_as_long_as_it_says_or_as_their_sizes_need() -> None:
    def limit_s(task: PureTask, *parts: dict[str, Any]) -> int:
        task.fire("split", {"subtasks": [{"title": "part", **part} for part in parts]})
        return next(timer.delay_ms for timer in task.last.timers if timer.name == "wait") // 1_000

    small, xl = {"scope": "small", "max_retries": 0}, {"scope": "xl", "max_retries": 1}
    assert limit_s(PureTask(subtasks_s=90), small) == 90
    assert limit_s(PureTask(), small) == 1_800, "never less than half an hour"
    # One after the other, each with all its tries, and ten minutes around each try.
    assert limit_s(PureTask(), small, xl) == 1_500 + 2 * 7_800
    assert limit_s(PureTask(), *([xl] * 1_000)) == 7 * 86_400


def test_a_task_that_is_blocked_on_its_subtasks_names_them_and_goes_on() -> None:
    for trigger, payload in (("timeout", {}), ("subtasks_ended", {"tally": {"failed": 1}})):
        task = PureTask().to("split").fire(trigger, payload)
        assert (task.state, task.last.waits, task.owed) == (
            "blocked",
            True,
            ["follow_up", "resolution"],
        )
        found = {"tally": {"closed": 1, "failed": 2}, "unfinished": ["b/t/1.2 failed"]}
        assert task.fire("subtasks_checked", found).owed == ["resolution"]
        assert "for 2 of its 3 subtasks: b/t/1.2 failed and 1 more. It goes on by itself" in (
            is_still_blocked(task.record.data)
        )
        with pytest.raises(GuardRefusedError, match="the same ones"):
            task.fire("subtasks_checked", found)
        cancelled = {"tally": {"closed": 1, "cancelled": 2}, "unfinished": ["b/t/1.2 failed"]}
        assert task.fire("subtasks_checked", cancelled).owed == ["resolution"]
        assert "It does not go on by itself" in is_still_blocked(task.record.data)
        assert task.fire("subtasks_checked", {"tally": {"closed": 3}}).state == "done"
        assert "blocked_on" not in task.record.data
    with pytest.raises(GuardRefusedError, match="not blocked on its subtasks"):
        PureTask().to("claimed", "blocked").fire("subtasks_checked", {"tally": {"closed": 3}})


def test_only_a_block_on_another_task_asks_no_person() -> None:
    by_task = PureTask().to("claimed").fire("blocked", {"on": "b/other", "kind": "task"})
    by_text = PureTask().to("claimed", "blocked")
    by_subtasks = PureTask().to("split", "timeout")

    blocked = (by_task, by_text, by_subtasks)
    assert [task.last.waits for task in blocked] == [False, True, True]
    assert [[timer.name for timer in task.last.timers] for task in blocked] == [
        ["recheck"],
        ["reminder"],
        ["reminder", "recheck"],
    ]
    assert [task.fire("unblocked").last.says for task in blocked] == [
        "it no longer waits for another task",
        "a person opened it again",
        "a person opened it again",
    ]


def test_a_stage_fails_as_a_whole_only_where_that_was_asked_for() -> None:
    with pytest.raises(GuardRefusedError, match="only where that was asked for"):
        PureTask().fire("stage_failed")

    assert PureTask(stage_failures=True).fire("stage_failed", {"final": True}).state == "failed"


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a//b", ".git/config", "a/./b", "a\\b", ""]
)
def test_a_file_outside_the_repository_is_refused(path: str) -> None:
    with pytest.raises(InvalidPayloadError, match="owned_files"):
        PureTask(owned_files=[path])


def test_a_task_for_an_agent_needs_a_repository() -> None:
    with pytest.raises(InvalidPayloadError, match="an agent needs a repo"):
        PureTask(agent="make")
    with pytest.raises(InvalidPayloadError, match="names a task twice"):
        PureTask(depends_on=["a", "a"])
    with pytest.raises(InvalidPayloadError, match="names a task twice"):
        PureTask(depends_on=["a"], depends_on_done=["a"])


def test_a_subtask_inherits_approval_and_owned_files() -> None:
    whole = PureTask(needs_approval=True, owned_files=["src"]).record.data
    part, _ = child_payload(whole, {"title": "half"}, ())
    narrower, _ = child_payload(whole, {"title": "x", "owned_files": ["src/a"]}, ())

    assert (part["needs_approval"], part["owned_files"]) == (True, ["src"])
    assert narrower["owned_files"] == ["src/a"]
    assert TASK.initial_data(part)["title"] == "half"


@pytest.mark.parametrize(
    ("agent", "signals", "asks"), [(None, True, False), (None, False, True), ("b/a", True, True)]
)
def test_a_part_of_a_task_with_signals_is_approved_unless_a_person_gave_it_signals(
    agent: str | None, *, signals: bool, asks: bool
) -> None:
    signal = {"type": "path_exists", "value": "a"}
    given = PureTask(signals=[signal], repo="/r", agent="make").record.data

    own = {"title": "one", "signals": [signal] if signals else []}
    part, _ = child_payload({**given, "split_by": agent}, own, ())

    assert part["needs_approval"] is asks


def test_a_part_starts_when_the_parts_that_it_is_after_are_merged() -> None:
    parts = [{"title": "one"}, {"title": "two"}, {"title": "three", "after": [1, 2]}]
    whole = PureTask().fire("split", {"subtasks": parts}).record.data
    ids = ["b/t/2.1", "b/t/2.2", "b/t/2.3"]

    made = [TASK.initial_data(child_payload(whole, each, ids)[0]) for each in whole["children"]]

    assert [each["depends_on"] for each in made] == [[], [], ["t/2.1", "t/2.2"]]


@pytest.mark.parametrize("after", [[2], [3], [1, 1], [0]])
def test_a_part_can_only_be_after_an_earlier_part_and_once(after: list[int]) -> None:
    parts = [{"title": "one"}, {"title": "two", "after": after}, {"title": "three"}]

    with pytest.raises(InvalidPayloadError, match="after"):
        PureTask().fire("split", {"subtasks": parts})


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (
            {"signals": [{"type": "path_exists", "value": "a"}]},
            "number 2 of the subtasks is invalid: .*signals are checked in a repository",
        ),
        (
            {"owned_files": ["src/a", "srcs", "docs"]},
            "part 2 owns srcs, docs: the whole owns only src",
        ),
    ],
)
def test_a_split_with_a_part_that_could_not_be_created_is_refused(
    part: dict[str, Any], problem: str
) -> None:
    parts = [{"title": "one"}, {"title": "two", **part}]

    with pytest.raises(InvalidPayloadError, match=problem):
        PureTask(owned_files=["src"]).fire("split", {"subtasks": parts})


@pytest.mark.parametrize("ways", [("claimed", "failed"), ("claimed", "started", "orphaned")])
def test_a_task_that_would_be_retried_can_be_cancelled(ways: tuple[str, ...]) -> None:
    assert PureTask().to(*ways).fire("cancelled", {"reason": "enough"}).state == "cancelled"


def test_a_merge_may_take_a_day() -> None:
    task = PureTask().to("claimed", "completed")
    judged = task.last.timers[0].delay_ms

    assert task.to("verified").last.timers[0].delay_ms == 24 * judged


def test_rejected_work_is_tried_again_and_says_so_with_the_reason() -> None:
    asked = PureTask(needs_approval=True).to("claimed", "completed", "verified")
    data = asked.fire("rejected", {"reason": "use tabs"}).record.data

    assert data["failure"]["reason"] == "a person rejected its work: use tabs"
    assert next_try(data) == (
        "It is tried again 30 s after it failed; 3 tries are left. Cancel it to end it."
    )
    again = asked.to("retried", "claimed", "completed", "verified").fire("rejected", {})
    assert again.record.data["rejections"] == ["use tabs", "no reason was given"]
    given_up = PureTask(needs_approval=True, max_retries=0).to("claimed", "completed", "verified")
    assert next_try(given_up.fire("rejected", {}).record.data) == ""
