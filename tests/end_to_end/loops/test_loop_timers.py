"""Timers of long-lived agents fire on time, after an outage at once; all resume where they were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from interlock.kernel.record import TimerEntry
from interlock.workers.gateways.server import free_port
from interlock.workers.loops.paths import Home
from tests.conftest import NewServer
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.engine.test_store import crash
from tests.end_to_end.engine.test_stranding import due
from tests.end_to_end.loops.agents import Colony
from tests.processes import is_alive

pytestmark = pytest.mark.timeout(240)

LATE_MS_MAX = 1_500
RETURN_MS_MAX = 2_000
# An agent that this names waits before it says that its session can begin.
HOLD = 'while [ -e "$DEPLOYMENT_FOLDER/held-$INTERLOCK_AGENT" ]; do sleep 0.1; done\n'
TIMERS: Mapping[str, tuple[str, str]] = {  # an agent, where it stands, what is due there
    "cool": ("cooling_down", "backoff"),
    "deaf": ("interrupting", "grace"),
    "seeker": ("initializing", "limit"),
    "astray": ("building_prompt", "limit"),
    "slow": ("spawning", "limit"),
}
FIRES: Mapping[str, str] = {
    "cool": "backoff_elapsed",
    "deaf": "grace_exceeded",
    "seeker": "overdue",
    "astray": "overdue",
    "slow": "session_timeout",
}


@dataclass
class Delays:
    """How long agents stay where they are brought, in seconds."""

    backoff: int = 600
    grace: int = 60
    limit: int = 600


class Waiters(Colony):
    """Agents, each in a state that only time leads out of."""

    def hold(self, name: str) -> Path:
        """Keep an agent's launches from coming to an end while this file is there."""
        held = self.deployment.folder / f"held-{name}"
        held.touch()
        return held

    def worker(self) -> None:
        """Start a worker whose sessions can be held."""
        script = self.folder / "hold.sh"
        script.write_text(HOLD)
        self.deployment.worker(BASH_ENV=str(script))

    def begin(self, delays: Delays) -> Path:
        """Start them; return what keeps the prompt of one of them from being built."""
        wish = {"type": "failed", "error": "later", "retry_after_s": delays.backoff}
        self.start("cool", *([wish] if delays.backoff > 2 else []), {"exit": 1}, parks=True)
        never = {"wait": str(self.folder / "never")}
        self.start("deaf", {"stubborn": True}, never, grace_s=delays.grace)
        self.hold("slow")
        self.start("slow", spawning_s=delays.limit)
        self.start("astray", building_s=delays.limit)
        (self.folder / "lost").mkdir()
        lost = Colony(self.deployment, self.folder / "lost")
        lost.start("seeker", host="elsewhere", initializing_s=delays.limit)
        lost.repo.rename(lost.folder / "away")
        record = self.reaches("astray", "session_complete")
        in_the_way = Home(record.id, self.deployment.client.settings).session(2)
        in_the_way.touch()
        return in_the_way

    def bring(self) -> None:
        """Bring those that need to be told something to where they wait."""
        self.send("astray")
        self.sees("deaf")
        self.reaches("deaf", "running")
        self.send("deaf", urgent=True)

    def timers(self) -> Mapping[str, TimerEntry]:
        """Meet every agent where it waits for its timer, and return that."""
        found: dict[str, TimerEntry] = {}

        def met() -> bool:
            for name in TIMERS.keys() - found.keys():
                (state, timer), record = TIMERS[name], self.record(name)
                if record.state == state:
                    found[name] = next(one for one in record.timers if one.name == timer)
            return found.keys() == TIMERS.keys()

        try:
            self.deployment.sees(met, what="every timer", within_s=60)
        except AssertionError as late:
            left = [
                self.deployment.story(self.record(name).id) for name in TIMERS.keys() - found.keys()
            ]
            raise AssertionError("\n".join([str(late), *left])) from None
        return found

    def fired_at(self, name: str, timer: TimerEntry) -> int:
        """Wait until a timer is fired, and return when, on the store's clock."""
        of = self.record(name).id

        def fired() -> int:
            events = [one for one in self.deployment.events(of) if one.version > timer.born]
            told = [one for one in events if one.cause.reason == f"{timer.name} is due"]
            assert [one.trigger for one in told[:1]] in ([], [FIRES[name]])
            return told[0].at_ms if told else 0

        return int(self.deployment.sees(fired, what=f"{timer.name} of {name}"))


def outliers(late: Mapping[str, int], most: int) -> Mapping[str, int]:
    """Return what was early, or later than that."""
    return {name: ms for name, ms in late.items() if not 0 <= ms < most}


def test_every_timer_fires_when_it_is_due_and_never_before(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment(INTERLOCK_SWEEP_PERIOD_S="1")
    waiters = Waiters(deployment, tmp_path)
    deployment.beat()
    waiters.worker()
    waiters.begin(Delays(backoff=2, grace=2, limit=4))
    waiters.bring()

    due_by = waiters.timers()
    late = {name: waiters.fired_at(name, one) - one.due_at for name, one in due_by.items()}

    assert outliers(late, LATE_MS_MAX) == {}


def test_what_was_due_during_an_outage_of_all_workers_fires_at_their_return(
    new_deployment: NewDeployment, tmp_path: Path, client: redis.Redis
) -> None:
    deployment = new_deployment(INTERLOCK_SWEEP_PERIOD_S="1")
    waiters = Waiters(deployment, tmp_path)
    deployment.beat()
    waiters.worker()
    waiters.begin(Delays())
    waiters.bring()
    waiters.timers()
    kill(deployment)
    for name, (_, timer) in TIMERS.items():
        due(deployment.client.dispatch, client, waiters.record(name).id, timer)
    due_by = waiters.timers()

    deployment.beat()
    waiters.worker()
    returned_at = deployment.client.dispatch.views.now_ms()

    late = {name: waiters.fired_at(name, one) - one.due_at for name, one in due_by.items()}
    assert min(late.values()) >= 0
    after = {name: due_by[name].due_at + ms - returned_at for name, ms in late.items()}
    assert {name: ms for name, ms in after.items() if ms >= RETURN_MS_MAX} == {}


def kill(deployment: Deployment) -> None:
    """Kill every worker and beat."""
    for process in deployment.processes:
        if process.alive:
            process.kill()


def resumed(waiters: Waiters, names: Iterable[str]) -> Mapping[str, str]:
    """Return where agents stand."""
    return {name: waiters.record(name).state for name in names}


@pytest.mark.proof
def test_all_is_killed_and_started_again_and_every_agent_goes_on_where_its_table_says(
    new_server: NewServer, new_deployment: NewDeployment, tmp_path: Path
) -> None:
    store = new_server(port=free_port())
    # Longer than all this is away, and than what is started takes to be there.
    deployment = new_deployment(store.url, INTERLOCK_LEASE_S="8")
    waiters = Waiters(deployment, tmp_path)
    deployment.beat()
    waiters.worker()
    in_the_way = waiters.begin(Delays(backoff=5, grace=10))
    go = tmp_path / "go"
    waiters.start("busy", {"wait": str(go)})
    waiters.start("idle")
    waiters.reaches("idle", "session_complete")
    busy = waiters.sees("busy")
    waiters.reaches("busy", "running")
    waiters.bring()
    stands = {name: state for name, (state, _) in TIMERS.items() if name != "cool"}
    stands |= {"busy": "running", "idle": "session_complete"}
    for name, state in stands.items():
        waiters.reaches(name, state)

    kill(deployment)
    waiters_before = resumed(waiters, stands)
    crash(store)
    assert waiters_before == stands
    assert resumed(waiters, stands) == stands, "what was acknowledged is in the files"
    deployment.beat()
    waiters.worker()

    in_the_way.unlink()
    go.touch()
    (deployment.folder / "held-slow").unlink()
    waiters.send("idle")
    waiters.sees("idle", 2)
    for name in ("busy", "slow", "astray", "idle"):
        waiters.reaches(name, "session_complete")
    waiters.sees("deaf", 2)
    waiters.sees("cool", 2)
    assert "grace_exceeded" in waiters.triggers("deaf")
    assert [one["pid"] for one in waiters.saw("busy")] == [busy["pid"]], "it was let be"
    assert waiters.triggers("slow").count("session_started") == 1
    for name in (*stands, "cool"):
        assert waiters.record(name).data["total_errors"] == 0
    assert waiters.record("seeker").state == "initializing", "its machine is not there"


@pytest.mark.slow
def test_an_outage_of_the_store_that_is_shorter_than_the_lease_ends_no_session_and_loses_no_mail(
    new_server: NewServer, new_deployment: NewDeployment, tmp_path: Path
) -> None:
    store = new_server(port=free_port())
    deployment = new_deployment(store.url, INTERLOCK_LEASE_S="8").full()
    colony = Colony(deployment, tmp_path)
    go, call, called = (tmp_path / name for name in ("go", "call", "called"))
    mail = {"type": "mail", "to": "bat", "text": "the barn is open"}
    colony.start("bat")
    colony.reaches("bat", "session_complete")
    steps = {"wait": str(call)}, mail, {"sh": f"touch {called}"}, {"wait": str(go)}
    colony.start("owl", *steps)
    first = colony.sees("owl")
    before = colony.reaches("owl", "running")
    log = deployment.folder / "home" / "agents" / before.id / "000001" / "keeper.log"

    store.stop()
    missed = "leases are not renewed"
    deployment.sees(lambda: missed in log.read_text(), what="its keeper has missed the store")
    call.touch()
    deployment.sees(called.exists, what="its mail is on its way")
    times = log.read_text().count(missed)
    deployment.sees(
        lambda: log.read_text().count(missed) > times, what="its keeper has it, and waits"
    )
    store.start()

    # Renewed after the outage, and looked at by a sweep after the lease that it had before.
    [held] = before.entries
    deployment.sees(
        lambda: deployment.client.dispatch.views.now_ms() > held.lease_until + 1_000,
        what="its lease of before the outage is over",
    )
    [letter] = colony.sees("bat", 2)["mail"]
    assert [one["id"] for one in colony.loops.mailbox.listed("bat")] == [letter]
    now = colony.record("owl")
    assert (now.state, now.version) == ("running", before.version)
    assert is_alive(first["pid"])
    go.touch()
    colony.reaches("owl", "session_complete")
    assert len(colony.saw("owl")) == 1
    assert "session_error" not in colony.triggers("owl")
