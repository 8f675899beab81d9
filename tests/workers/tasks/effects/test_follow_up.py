"""What a task's way out carries to others, and what its parts and its owner's trust make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record, partition_of
from interlock.kernel.store.leases import Lease
from interlock.workers.client import Client
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.sweeps.stalls import run
from interlock.workers.engine.work import Handler, Outcome, Work
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from interlock.workers.tasks.agents import Agents
from interlock.workers.tasks.claims import claim
from interlock.workers.tasks.client import Claim, Tasks
from interlock.workers.tasks.effects.follow_up import aftermath
from tests.end_to_end.engine.test_stranding import due
from tests.workers.tasks.claims import fire
from tests.workers.threads.threads import client_of

CHECKED = {"results": [{"type": "path_exists", "passed": True}]}


class Here:
    """Tasks over a store of the test's own, and a runner that does what they owe when told so."""

    def __init__(self, client: Client) -> None:
        self.client, self.tasks, self.agents = client, Tasks(client), Agents(client)
        self.runner = Runner(client.dispatch, Resources(client.settings))

    def submit(self, name: str, **more: Any) -> str:
        return self.tasks.submit({"title": name, **more}, backlog="b", name=name).id

    def begun(self, name: str, **more: Any) -> Claim:
        """Submit a task, and begin it as an agent of others."""
        claimed = self.tasks.claim(self.submit(name, **more), owner="ann")
        self.tasks.report(claimed.key, claimed.token, "started")
        return claimed

    def report(self, claimed: Claim, trigger: str, **payload: Any) -> Record:
        return self.tasks.report(claimed.key, claimed.token, trigger, payload)

    def trusted(self, claimed: Claim, levels: int) -> None:
        for _ in range(levels):
            self.agents.promote(claimed.record.data["claim"]["identity"])

    def does(self, of: str, name: str, run: Handler | None = None) -> str:
        """Do what a task owes."""
        entry = next(one for one in self.client.show(of).entries if one.name == name)
        handler = run or handlers()[name]
        return self.runner.perform(MACHINES["task"], name, handler, entry.key(of))

    def judged(self, name: str, verified: dict[str, Any], **more: Any) -> Record:
        """Bring a task to its end, with this verdict, and return its owner's identity."""
        claimed = self.begun(name, **more)
        self.report(claimed, "completed", summary="done")
        self.does(claimed.task, "verification", lambda _: Outcome("verified", verified))
        self.does(claimed.task, "merge")
        self.does(claimed.task, "aftermath", twice)
        return self.client.show(claimed.record.data["claim"]["identity"])


def twice(work: Work) -> None:
    """Do the aftermath as a worker that was lost in the middle, and the next."""
    aftermath(work)
    aftermath(work)


@pytest.fixture
def here(server: EmbeddedServer, prefix: str) -> Here:
    return Here(client_of(server.url, prefix))


def test_work_that_was_verified_earns_trust_once(here: Here) -> None:
    assert here.judged("good", CHECKED).data["successes"] == 1
    assert here.judged("unchecked", {}).data["successes"] == 1
    assert here.judged("again", CHECKED).data["successes"] == 2


@pytest.mark.parametrize(
    ("code", "counts"), [("", (1, 0)), ("spawn_error", (1, 0)), ("scope_violation", (0, 1))]
)
def test_a_failure_is_counted_and_a_violation_is_one(
    here: Here, code: str, counts: tuple[int, int]
) -> None:
    claimed = here.begun("one")
    here.trusted(claimed, 2)
    here.report(claimed, "failed", reason="no", code=code)
    here.does(claimed.task, "aftermath", twice)

    identity = here.client.show(claimed.record.data["claim"]["identity"])
    assert (identity.data["failures"], identity.data["violations"]) == counts
    assert identity.state == ("probationary" if counts[1] else "trusted")


def blocked(here: Here, on: str) -> Record:
    claimed = here.begun("waits")
    here.trusted(claimed, 1)
    here.report(claimed, "blocked", on=on, kind="task")
    here.does(claimed.task, "aftermath")
    return here.client.show(claimed.task)


def cancelled(here: Here) -> None:
    here.client.cancel(here.submit("other"))


def given_up(here: Here) -> None:
    here.report(here.begun("other", max_retries=0), "failed", reason="no")


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (lambda _: None, "it waits for other, which does not exist"),
        (cancelled, "it waits for other, which is cancelled for good"),
        (given_up, "it waits for other, which is failed for good"),
    ],
)
def test_what_is_blocked_on_what_can_never_come_is_shown_to_a_person(
    here: Here, before: Callable[[Here], None], why: str
) -> None:
    before(here)

    record = blocked(here, "other")

    assert (record.state, record.data["blocked_on"]["on"]) == ("blocked", why)
    assert [card.record_id for card in here.client.cards() if card.record_id == record.id]


def test_what_is_blocked_on_work_in_progress_waits(here: Here) -> None:
    here.begun("other")

    record = blocked(here, "other")

    assert record.data["blocked_on"] == {"on": "other", "kind": "task"}
    assert [timer.name for timer in record.timers] == ["look"]


def test_an_owner_that_earned_it_ends_parts_of_its_own_and_no_others(
    here: Here, client: redis.Redis
) -> None:
    whole = here.submit("whole")
    here.client.fire(whole, "split", {"subtasks": [{"title": "part"}]})
    here.does(whole, "spawn")
    (part,) = here.client.dispatch.views.children(whole)
    stranger = here.submit("stranger")
    # Its parts do not end in time; a person opens it again, and somebody claims it.
    due(here.client.dispatch, client, whole, "wait")
    run(here.client.dispatch, partition_of(whole))
    here.client.fire(whole, "unblocked", {"reason": "look again"})
    claimed = here.tasks.claim(whole, owner="ann")
    here.report(claimed, "started")
    here.trusted(claimed, 3)

    for child in (stranger, part):
        here.report(claimed, "child_cancelled", child=child)
        here.does(whole, "aftermath")

    assert here.client.show(stranger).state == "open"
    assert here.client.show(part).state == "cancelled"
    assert here.client.show(whole).state == "in_progress"


def test_a_part_of_a_cancelled_task_is_not_merged(here: Here) -> None:
    given = {"repo": "/nowhere", "agent": "true"}
    whole = here.client.submit({"title": "whole", **given}, id="b/whole", machine="task").id
    here.client.fire(whole, "split", {"subtasks": [{"title": "part"}]})
    here.does(whole, "spawn")
    (part,) = here.client.dispatch.views.children(whole)
    lease = claim(here.client.dispatch, here.client.show(part), agent="b/agent~x")
    assert isinstance(lease, Lease)
    fire(here.client, lease, "started")
    fire(here.client, lease, "completed", {"summary": "done"})
    here.does(part, "verification", lambda _: Outcome("verified", CHECKED))
    here.does(part, "merge")
    here.client.cancel(whole)

    here.does(part, "merge")

    record = here.client.show(part)
    why = "b/whole, which it is a part of, was cancelled"
    assert (record.state, record.data["failure"]["reason"]) == ("failed", why)
    assert record.data["given_up"]


def test_what_waits_for_itself_in_a_ring_is_shown_to_a_person(here: Here) -> None:
    for name, on in (("one", "two"), ("two", "one")):
        claimed = here.begun(name)
        here.trusted(claimed, 0 if name == "two" else 1)
        here.report(claimed, "blocked", on=on, kind="task")

    here.does("b/two", "aftermath")

    record = here.client.show("b/two")
    assert record.data["blocked_on"]["on"] == "it waits for one, which waits for it in turn"
    here.submit("a", depends_on=["b"])
    here.submit("b", depends_on=["a"])
    why = {row["id"]: row["why"] for row in here.tasks.of("b")}
    assert why["b/a"] == "it depends on b, which waits for it in turn"
