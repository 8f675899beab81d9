"""What follows the end of a task: its owner's trust, its subtasks, and tasks that wait for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import redis

from interlock.kernel.errors import FencedError, InvalidPayloadError
from interlock.kernel.event import Cause, Event
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record, partition_of, split_key
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.leases import Lease
from interlock.systems.tasks import external_claim
from interlock.systems.tasks.agents import Agents
from interlock.systems.tasks.claims import claim
from interlock.systems.tasks.client import TaskClaim, Tasks
from interlock.systems.tasks.effects.follow_up import follow_up
from interlock.systems.tasks.waits import Waits
from interlock.workers.client import Client
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.sweeps.stalls import run
from interlock.workers.engine.work import EffectWork, Handler, Outcome
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from tests.end_to_end.engine.test_stranding import due
from tests.sweeping import sweeping
from tests.systems.tasks.claims import fire
from tests.systems.threads.threads import client_of
from tests.workers.engine.running import perform

CHECKED = {"results": [{"type": "path_exists", "passed": True}]}


class Scene:
    """Tasks in a store of the test, and a runner that performs their effects on demand."""

    def __init__(self, client: Client) -> None:
        self.client, self.tasks, self.agents = client, Tasks(client), Agents(client)
        self.runner = Runner(client.dispatch, Resources(client.settings))

    def submit(self, name: str, **more: Any) -> str:
        return self.tasks.submit({"title": name, **more}, backlog="b", name=name).id

    def start(self, name: str, **more: Any) -> TaskClaim:
        """Submit a task, then claim and start it as an external agent."""
        claimed = self.tasks.claim(self.submit(name, **more), owner="ann")
        self.tasks.report(claimed.key, claimed.token, "started")
        return claimed

    def report(self, claimed: TaskClaim, trigger: str, **payload: Any) -> Record:
        return self.tasks.report(claimed.key, claimed.token, trigger, payload)

    def promote(self, claimed: TaskClaim, levels: int) -> None:
        for _ in range(levels):
            self.agents.promote(claimed.record.data["claim"]["identity"])

    def perform(self, task_id: str, name: str, run: Handler | None = None) -> str:
        """Perform an effect of a task or of a turn."""
        record = self.client.show(task_id)
        entry = next(one for one in record.entries if one.name == name)
        machine = MACHINES[record.machine]
        handler = run or handlers()[f"{machine.name}.{name}"]
        return perform(self.runner, machine, name, handler, entry.key(task_id))

    def finish(self, name: str, verified: dict[str, Any], **more: Any) -> Record:
        """Close a task with this verdict, and return the identity of its owner."""
        claimed = self.start(name, **more)
        self.report(claimed, "completed", summary="done")
        self.perform(claimed.task, "verification", lambda _: Outcome("verified", verified))
        self.perform(claimed.task, "merge")
        self.perform(claimed.task, "follow_up", twice)
        return self.client.show(claimed.record.data["claim"]["identity"])


def twice(work: EffectWork) -> None:
    """Perform the follow-up twice, as if the first worker was lost before it could settle."""
    follow_up(work)
    follow_up(work)


@pytest.fixture
def scene(server: EmbeddedServer, prefix: str) -> Scene:
    return Scene(client_of(server.url, prefix))


def test_verified_work_earns_trust_once(scene: Scene) -> None:
    assert scene.finish("good", CHECKED).data["successes"] == 1
    assert scene.finish("unchecked", {}).data["successes"] == 1
    assert scene.finish("again", CHECKED).data["successes"] == 2


def test_the_turn_of_an_external_agent_follows_its_reports(scene: Scene) -> None:
    claimed, turn = scene.start("one"), "b/turn~one~1"
    tool = {"tool": "bash"}
    for name, payload, state in (
        ("tool_started", tool, "tool_use"),
        ("tool_completed", {**tool, "success": True}, "running"),
        ("compact_needed", {}, "compacting"),
        ("compacted", {}, "running"),
    ):
        assert scene.tasks.report_turn(claimed.key, claimed.token, name, payload).state == state
    with pytest.raises(InvalidPayloadError, match="no compaction was reported before"):
        scene.tasks.report_turn(claimed.key, claimed.token, "compacted")
    with pytest.raises(InvalidPayloadError, match="'agent_reaped' is unknown"):
        scene.tasks.report_turn(claimed.key, claimed.token, "agent_reaped")
    with pytest.raises(FencedError):
        scene.tasks.report_turn(claimed.key, "1-forged", "compact_needed")

    scene.report(claimed, "completed", summary="done")
    scene.perform(claimed.task, "verification", lambda _: Outcome("verified", {}))
    scene.perform(claimed.task, "merge")
    scene.perform(claimed.task, "follow_up")
    scene.perform(turn, "turn_cleanup")

    states = [line.target for line in scene.client.history(turn) if isinstance(line, Event)]
    assert states[:4] == ["idle", "claiming", "spawning", "running"]
    assert states[-3:] == ["verifying", "completing", "reaped"]


@pytest.mark.parametrize("report", ["tool_started", "compact_needed"])
def test_the_turn_of_an_external_agent_that_completes_its_task_meanwhile_ends_well(
    scene: Scene, report: str
) -> None:
    claimed = scene.start("one")
    payload = {"tool": "bash"} if report == "tool_started" else {}
    scene.tasks.report_turn(claimed.key, claimed.token, report, payload)

    scene.report(claimed, "completed", summary="done")

    assert scene.client.show("b/turn~one~1").state == "verifying"


def test_a_repeated_report_moves_the_turn_that_the_first_one_did_not_reach(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = scene.tasks.claim(scene.submit("one"), owner="ann")
    states = []
    for trigger, payload in (("started", {}), ("completed", {"summary": "done"})):
        with monkeypatch.context() as crash:
            crash.setattr(external_claim, "follow", lambda *_: None)
            scene.report(claimed, trigger, **payload)
        scene.report(claimed, trigger, **payload)
        states.append(scene.client.show("b/turn~one~1").state)

    assert states == ["running", "verifying"]


def test_a_repeated_report_does_not_move_the_turn_of_the_next_claim(scene: Scene) -> None:
    first = scene.start("one")
    scene.report(first, "failed", reason="no luck")
    scene.client.fire(first.task, "retried")
    scene.tasks.claim(first.task, owner="bob")

    scene.report(first, "failed", reason="no luck")

    assert scene.client.show("b/turn~one~2").state == "spawning"


@pytest.mark.parametrize("started", [True, False])
def test_the_turn_of_an_external_agent_that_has_failed_or_was_fast_ends_too(
    scene: Scene, *, started: bool
) -> None:
    fast, fails = (scene.tasks.claim(scene.submit(name), owner="ann") for name in ("fast", "fails"))
    if started:
        scene.report(fails, "started")

    scene.report(fast, "completed", summary="done")
    scene.report(fails, "failed", reason="no luck")

    failed = scene.client.show("b/turn~fails~1")
    assert scene.client.show("b/turn~fast~1").state == "verifying"
    assert (failed.state, failed.data["failure"]) == ("failed", {"reason": "no luck"})


@pytest.mark.parametrize(
    ("code", "counts"), [("", (1, 0)), ("spawn_error", (1, 0)), ("scope_violation", (0, 1))]
)
def test_a_failure_is_counted_as_a_violation_only_for_files_not_owned(
    scene: Scene, code: str, counts: tuple[int, int]
) -> None:
    claimed = scene.start("one")
    scene.promote(claimed, 2)
    scene.report(claimed, "failed", reason="no", code=code)
    scene.perform(claimed.task, "follow_up", twice)

    identity = scene.client.show(claimed.record.data["claim"]["identity"])
    assert (identity.data["failures"], identity.data["violations"]) == counts
    assert identity.state == ("probationary" if counts[1] else "trusted")


def blocked(scene: Scene, blocker: str) -> Record:
    claimed = scene.start("waits")
    scene.promote(claimed, 1)
    scene.report(claimed, "blocked", on=blocker, kind="task")
    scene.perform(claimed.task, "follow_up")
    return scene.client.show(claimed.task)


def cancelled(scene: Scene) -> None:
    scene.client.cancel(scene.submit("other"))


def given_up(scene: Scene) -> None:
    scene.report(scene.start("other", max_retries=0), "failed", reason="no")


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda _: None, "it waits for other, which does not exist"),
        (cancelled, "it waits for other, which is cancelled and is not tried again"),
        (given_up, "it waits for other, which is failed and is not tried again"),
    ],
)
def test_a_task_blocked_on_one_that_will_never_be_done_is_shown_to_a_person(
    scene: Scene, prepare: Callable[[Scene], None], why: str
) -> None:
    prepare(scene)

    record = blocked(scene, "other")

    assert (record.state, record.data["blocked_on"]["on"]) == ("blocked", why)
    assert [card.record_id for card in scene.client.cards() if card.record_id == record.id]


def test_a_task_blocked_on_a_planned_one_learns_that_its_plan_was_rejected(
    scene: Scene, client: redis.Redis
) -> None:
    planned = scene.submit("other", plan="p")
    record = blocked(scene, "other")
    assert record.data["blocked_on"] == {"on": "other", "kind": "task"}

    for _ in range(2):
        assert scene.client.cancel(planned, op_id="c").state == "cancelled"
    due(scene.client.dispatch, client, record.id, "recheck")
    run(sweeping(scene.client.dispatch), partition_of(record.id))
    scene.perform(record.id, "follow_up")

    why = "it waits for other, which is cancelled and is not tried again"
    assert scene.client.show(record.id).data["blocked_on"] == {"kind": "text", "on": why}


def test_a_task_blocked_on_one_that_is_at_work_waits(scene: Scene) -> None:
    scene.start("other")

    record = blocked(scene, "other")

    assert record.data["blocked_on"] == {"on": "other", "kind": "task"}
    assert [timer.name for timer in record.timers] == ["recheck"]


def test_only_subtasks_are_cancelled_of_what_an_elevated_owner_lists(
    scene: Scene, client: redis.Redis
) -> None:
    whole = scene.submit("whole")
    scene.client.fire(whole, "split", {"subtasks": [{"title": "part"}]})
    scene.perform(whole, "spawn")
    (part,) = scene.client.dispatch.views.children(whole)
    stranger = scene.submit("stranger")
    # Its subtasks do not end in time; a person opens the task again, and it is claimed.
    due(scene.client.dispatch, client, whole, "wait")
    run(sweeping(scene.client.dispatch), partition_of(whole))
    scene.client.fire(whole, "unblocked", {"reason": "look again"})
    claimed = scene.tasks.claim(whole, owner="ann")
    scene.report(claimed, "started")
    scene.promote(claimed, 3)

    # The doors refuse a stranger, and the effect does not rely on that.
    warrant = Warrant.token(split_key(claimed.key)[1], claimed.token)
    for child in (stranger, part):
        call = Call(Cause("agent"), child, warrant)
        scene.client.dispatch.lifecycle.fire(whole, "child_cancelled", {"child": child}, call)
        scene.perform(whole, "follow_up")

    assert scene.client.show(stranger).state == "open"
    assert scene.client.show(part).state == "cancelled"
    assert scene.client.show(whole).state == "in_progress"


def split(
    scene: Scene,
    *names: str,
    whole: Mapping[str, Any] | None = None,
    retries: Mapping[str, int] | None = None,
) -> list[str]:
    """Split a task into parts that have no second try but as told, and return their ids."""
    task_id = scene.submit("whole", **(whole or {}))
    parts = [{"title": name, "max_retries": (retries or {}).get(name, 0)} for name in names]
    scene.client.fire(task_id, "split", {"subtasks": parts})
    scene.perform(task_id, "spawn")
    return sorted(map(str, scene.client.dispatch.views.children(task_id)))


def end(scene: Scene, task_id: str, *, well: bool) -> None:
    """End a subtask, and what follows its end."""
    claimed = scene.tasks.claim(task_id, owner="ann")
    if not well:
        scene.report(claimed, "started")
        scene.report(claimed, "failed", reason="no")
    else:
        scene.report(claimed, "completed", summary="done")
        scene.perform(task_id, "verification", lambda _: Outcome("verified", {}))
        scene.perform(task_id, "merge")
    scene.perform(task_id, "follow_up", twice)


def test_a_task_that_waited_too_long_goes_on_once_its_subtasks_are_closed(
    scene: Scene, client: redis.Redis
) -> None:
    one, two = split(scene, "one", "two")
    due(scene.client.dispatch, client, "b/whole", "wait")
    run(sweeping(scene.client.dispatch), partition_of("b"))
    scene.perform("b/whole", "follow_up")
    why = f"it waits for 2 of its 2 subtasks: {one} has not ended, {two} has not ended"
    whole = scene.client.show("b/whole")
    assert Waits(scene.client.records, [whole]).why(whole) == why

    version = scene.client.show("b/whole").version
    end(scene, one, well=True)
    assert scene.client.show("b/whole").version == version, "it is looked at when all have ended"
    end(scene, two, well=True)

    assert scene.client.show("b/whole").state == "done"


@pytest.mark.parametrize("before_the_last", [True, False])
def test_a_task_with_a_failed_subtask_goes_on_once_that_was_retried_and_closed(
    scene: Scene, *, before_the_last: bool
) -> None:
    one, two = split(scene, "one", "two")
    end(scene, one, well=False)
    if before_the_last:
        scene.client.fire(one, "retried")
        end(scene, one, well=True)
    end(scene, two, well=True)
    scene.perform("b/whole", "cascade")
    assert scene.client.show("b/whole").state == "blocked"
    scene.perform("b/whole", "follow_up")
    if not before_the_last:
        card = scene.client.card("b/whole")
        assert card is not None
        assert f"1 of its 2 subtasks: {one} failed. It goes on by itself" in card.question
        scene.client.fire(one, "retried")
        end(scene, one, well=True)

    assert scene.client.show("b/whole").state == "done"


@pytest.mark.parametrize(
    ("end_one", "says"), [("cancelled", "was cancelled"), ("stage_failed", "failed")]
)
def test_the_card_of_a_task_that_waited_too_long_names_the_subtask_that_a_person_ended(
    scene: Scene, client: redis.Redis, end_one: str, says: str
) -> None:
    one, two = split(scene, "one", "two", whole={"stage_failures": True}, retries={"two": 1})
    due(scene.client.dispatch, client, "b/whole", "wait")
    run(sweeping(scene.client.dispatch), partition_of("b"))
    scene.perform("b/whole", "follow_up")

    scene.client.fire(one, end_one)
    scene.perform(one, "follow_up")

    card = scene.client.card("b/whole")
    assert card is not None
    assert f"2 of its 2 subtasks: {one} {says}, {two} has not ended" in card.question
    version = scene.client.show("b/whole").version
    claimed = scene.tasks.claim(two, owner="ann")
    scene.report(claimed, "started")
    scene.report(claimed, "failed", reason="no")
    due(scene.client.dispatch, client, "b/whole", "recheck")
    run(sweeping(scene.client.dispatch), partition_of("b"))
    scene.perform("b/whole", "follow_up")
    assert scene.client.show(two).state == "failed"
    assert scene.client.show("b/whole").version == version, "a try that failed is no news"


def test_the_parts_of_a_task_that_a_person_opened_again_are_cancelled_with_it(
    scene: Scene, client: redis.Redis
) -> None:
    parts = split(scene, "one", "two")
    due(scene.client.dispatch, client, "b/whole", "wait")
    run(sweeping(scene.client.dispatch), partition_of("b"))
    scene.client.fire("b/whole", "unblocked")

    scene.client.cancel("b/whole")
    scene.perform("b/whole", "cascade")

    assert [scene.client.show(part).state for part in parts] == ["cancelled", "cancelled"]


def test_a_subtask_that_is_cancelled_after_it_failed_is_named_as_such(scene: Scene) -> None:
    (part,) = split(scene, "one")
    end(scene, part, well=False)
    scene.perform("b/whole", "cascade")
    scene.client.cancel(part)
    scene.perform(part, "follow_up")

    why = f"it waits for 1 of its 1 subtasks: {part} was cancelled"
    whole = scene.client.show("b/whole")
    assert Waits(scene.client.records, [whole]).why(whole) == why


@pytest.mark.parametrize("well", [True, False])
def test_only_the_subtasks_of_the_last_split_count(
    scene: Scene, client: redis.Redis, *, well: bool
) -> None:
    (old,) = split(scene, "old")
    end(scene, old, well=well)
    scene.perform("b/whole", "cascade")
    if well:
        scene.perform("b/whole", "verification", lambda _: Outcome("verification_rejected"))
    scene.client.fire("b/whole", "retried" if well else "unblocked")
    scene.client.fire("b/whole", "split", {"subtasks": [{"title": "new"}]})
    due(scene.client.dispatch, client, "b/whole", "wait")
    run(sweeping(scene.client.dispatch), partition_of("b"))

    scene.perform("b/whole", "follow_up", twice)
    assert scene.client.show("b/whole").state == "blocked", "the new one is not created yet"
    scene.perform("b/whole", "spawn")
    new = max(map(str, scene.client.dispatch.views.children("b/whole")))
    end(scene, new, well=True)

    assert scene.client.show("b/whole").state == "done"


def test_a_subtask_of_a_cancelled_task_is_not_merged(scene: Scene) -> None:
    fields = {"repo": "/nowhere", "agent": "true"}
    whole = scene.client.submit({"title": "whole", **fields}, id="b/whole", machine="task").id
    scene.client.fire(whole, "split", {"subtasks": [{"title": "part"}]})
    scene.perform(whole, "spawn")
    (part,) = scene.client.dispatch.views.children(whole)
    lease = claim(scene.client.records, scene.client.show(part), agent="b/agent~x")
    assert isinstance(lease, Lease)
    fire(scene.client, lease, "started")
    fire(scene.client, lease, "completed", {"summary": "done"})
    scene.perform(part, "verification", lambda _: Outcome("verified", CHECKED))
    scene.client.cancel(whole)

    scene.perform(part, "merge")

    record = scene.client.show(part)
    why = "b/whole, which it is a part of, was cancelled"
    assert (record.state, record.data["failure"]["reason"]) == ("failed", why)
    assert record.data["given_up"]


def test_tasks_that_wait_for_each_other_are_shown_to_a_person(scene: Scene) -> None:
    for name, blocker in (("one", "two"), ("two", "one")):
        claimed = scene.start(name)
        scene.promote(claimed, 0 if name == "two" else 1)
        scene.report(claimed, "blocked", on=blocker, kind="task")

    scene.perform("b/two", "follow_up")

    record = scene.client.show("b/two")
    assert record.data["blocked_on"]["on"] == "it waits for one, which waits for it in turn"
    scene.submit("a", depends_on=["b"])
    scene.submit("b", depends_on=["a"])
    why = {row["id"]: row["why"] for row in scene.tasks.of("b")}
    assert why["b/a"] == "it depends on b, which waits for it in turn"
