"""An end that is carried up, down, and to who waits for it in another family."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from interlock.kernel.effect import CASCADE
from interlock.kernel.event import Cause
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.store import scripts
from interlock.kernel.store.commands import Call, Jot, Warrant
from interlock.workers.client import Client
from interlock.workers.engine.effects.cascade import advance
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.work import Work
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from tests.kernel.samples import job, thread
from tests.workers.threads.threads import CONSENT, client_of, step, thread_payload

WORKER = {"phases": [{"worker": {"command": "true"}}], "manual": True}


class Here:
    """Records of a store of the test's own, and a runner that does what they owe when told so."""

    def __init__(self, client: Client) -> None:
        self.client, self.dispatch = client, client.dispatch
        self.runner = Runner(client.dispatch, Resources(client.settings))

    def show(self, of: str) -> Record:
        return self.client.show(of)

    def owed(self, of: str, name: str) -> list[str]:
        """Return the keys of what a record is owed by this name."""
        record = self.show(of)
        return [entry.key(record.id) for entry in record.entries if entry.name == name]

    def does(self, of: str, name: str) -> str:
        (key,) = self.owed(of, name)
        return self.runner.perform(MACHINES[self.show(of).machine], name, handlers()[name], key)

    def fire(self, of: str, trigger: str, payload: Any = None) -> None:
        seen = Warrant.person(self.show(of).entered)
        call = Call(Cause("ann"), uuid4().hex, seen)
        self.dispatch.fire(of, trigger, payload or {}, call)

    def job(self, of: str, *depends_on: str) -> str:
        """Bear an active job; what it depends on is registered."""
        self.dispatch.create("job", of, {**WORKER, "depends_on": depends_on}, Call(Cause("test")))
        self.fire(of, "activate")
        self.does(of, "registration")
        return of

    def ends(self, of: str, trigger: str = "force_success") -> None:
        """End a job, and tell who waits for it."""
        self.fire(of, trigger, {"reason": "so it is"})
        self.does(of, "tell")

    def splits(self, of: str = "p") -> None:
        """Split a thread into two, which are still to be borne."""
        self.client.submit(thread_payload(), machine="thread", id=of)
        for trigger, payload in CONSENT:
            step(self.client, of, trigger, payload)
        parts = [{"title": title} for title in ("one", "two")]
        self.fire(of, "decomposed", {"children": parts})

    def family(self, of: str = "p") -> list[str]:
        """Split a thread into two, and bear both; return their ids."""
        self.splits(of)
        self.does(of, "spawn")
        return [str(child) for child in self.dispatch.views.children(of)]

    def rechecks(self, of: str) -> str:
        """Look again at a countdown, as its timer has it done."""
        jot = Jot("reminder", {}, owes=(CASCADE,))
        self.dispatch.note(self.show(of), jot, op_id=uuid4().hex)
        return self.does(of, "cascade")


@pytest.fixture
def here(server: EmbeddedServer, prefix: str) -> Here:
    return Here(client_of(server.url, prefix))


# --- a countdown that lasts ------------------------------------------------------------------


def test_the_last_end_in_another_family_leads_a_job_on(here: Here) -> None:
    first, second = here.job("a/one"), here.job("b/two")
    of = here.job("c/waits", first, second)
    here.ends(first)
    assert here.owed(of, "cascade") == []
    here.ends(second)

    assert here.does(of, "cascade") == "dependencies_met -> pending"
    assert here.show(of).data["met"]
    assert here.owed(of, "cascade") == []


def test_a_countdown_that_lasts_goes_on_while_its_record_is_elsewhere(here: Here) -> None:
    first = here.job("a/one")
    of = here.job("c/waits", first)
    here.fire(of, "suspend")
    here.ends(first)

    assert here.does(of, "cascade") == "dependencies_met -> suspended"
    assert here.show(of).data["met"]


def test_a_countdown_of_before_a_suspension_counts_and_the_later_one_finds_it_done(
    here: Here,
) -> None:
    first = here.job("a/one")
    of = here.job("c/waits", first)
    for trigger in ("suspend", "resume"):
        here.fire(of, trigger)
    here.does(of, "registration")
    here.ends(first)
    before, after = sorted(here.owed(of, "cascade"))

    def does(key: str) -> str:
        return here.runner.perform(MACHINES["job"], "cascade", handlers()["cascade"], key)

    assert does(before) == "dependencies_met -> pending"
    version = here.show(of).version
    assert does(after) == "settled"
    assert (here.show(of).version, here.owed(of, "cascade")) == (version, [])


@pytest.mark.parametrize("trigger", ["cancel", "force_success"])
def test_who_waits_for_nothing_any_more_is_not_led_on(here: Here, trigger: str) -> None:
    first = here.job("a/one")
    of = here.job("c/waits", first)
    here.ends(first)
    here.fire(of, trigger, {"reason": "so it is"})

    assert here.does(of, "cascade") == "settled"
    assert not here.show(of).data["met"]


def test_a_countdown_with_a_loss_leads_nobody_on(here: Here) -> None:
    first = here.job("a/one")
    of = here.job("c/waits", first)
    here.ends(first, "cancel")

    assert here.show(of).data["lost"] == {first: "canceled"}
    assert here.does(of, "cascade") == "settled"
    assert not here.show(of).data["met"]


# --- children --------------------------------------------------------------------------------


def test_the_last_child_leads_its_parent_on(here: Here) -> None:
    one, two = here.family()
    here.fire(one, "dismissed_by_user")
    assert here.owed("p", "cascade") == []
    here.fire(two, "dismissed_by_user")

    assert here.does("p", "cascade") == "children_done -> done"


def test_a_parent_that_left_its_countdown_is_not_led_on_by_it(here: Here) -> None:
    for child in here.family():
        here.fire(child, "dismissed_by_user")
    (advance,) = here.owed("p", "cascade")
    here.fire("p", "dismissed_by_user")
    machine = MACHINES["thread"]

    assert here.runner.perform(machine, "cascade", handlers()["cascade"], advance) == "settled"
    assert here.show("p").state == "dismissed"


def test_a_closed_parent_closes_its_children(here: Here) -> None:
    children = here.family()
    here.fire("p", "dismissed_by_user")
    assert here.does("p", "cascade") == "settled"

    assert {here.show(child).state for child in children} == {"dismissed"}


def test_a_recheck_takes_out_who_ended_and_who_never_was(here: Here) -> None:
    one, two = here.family()
    here.fire(one, "dismissed_by_user")
    countdown = f"children:{here.show('p').entered}"
    members = here.dispatch.keys.members("p", countdown)
    scripts.read(here.dispatch.client, "SADD", members, one, "p/never")
    here.fire(two, "dismissed_by_user")
    assert here.dispatch.views.counted("p", countdown) == {one, "p/never"}

    assert here.rechecks("p") == "settled"
    assert here.dispatch.views.counted("p", countdown) == set()
    assert here.dispatch.views.tally("p", countdown) == {"dismissed": 3, "missing": 1}
    assert here.does("p", "cascade") == "children_done -> done"


def test_a_recheck_leaves_a_countdown_open_that_is_still_being_filled(here: Here) -> None:
    here.splits()
    countdown = f"children:{here.show('p').entered}"

    assert here.rechecks("p") == "settled"
    assert here.dispatch.views.counted("p", countdown) == {"*"}


@pytest.mark.parametrize(
    ("machine", "state", "generation", "advances"),
    [
        ("thread", "monitoring", 7, True),
        ("thread", "monitoring", 5, False),
        ("thread", "done", 7, False),
        ("job", "pending", 5, True),
        ("job", "suspended", 7, True),
        ("job", "running", 7, False),
        ("job", "success", 7, False),
    ],
)
def test_an_end_counts_for_the_stay_that_began_it_unless_it_lasts(
    machine: str, state: str, generation: int, *, advances: bool
) -> None:
    name, data = {"thread": ("children", thread()), "job": ("dependencies", job())}[machine]
    record = Record(RecordId("p"), machine, state, Version(9), data, entered=Version(7))
    counts = SimpleNamespace(tally=lambda *_: {"done": 1} if machine == "thread" else {})
    work = SimpleNamespace(
        lease=SimpleNamespace(suffix=f"{generation}.advance.{name}:abc"),
        machine=MACHINES[machine],
        record=record,
        dispatch=SimpleNamespace(views=counts),
    )

    assert (advance(cast(Work, work)) is not None) is advances


def test_a_recheck_leaves_who_lives(here: Here) -> None:
    here.family()
    before = here.show("p").version

    assert here.rechecks("p") == "settled"
    assert (here.show("p").state, here.show("p").version) == ("monitoring", before)
    assert here.owed("p", "cascade") == []
