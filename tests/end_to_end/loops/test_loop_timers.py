"""Timers of long-lived agents fire on time, and at once after an outage. All agents resume."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from interlock.kernel.record import TimerEntry
from interlock.systems.loops.paths import AgentPaths
from interlock.workers.gateways.server import free_port
from tests.conftest import NewServer
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import LEASE_S, Deployment
from tests.end_to_end.engine.test_store import crash
from tests.end_to_end.engine.test_stranding import due
from tests.end_to_end.loops.agents import Agents
from tests.processes import is_alive
from tests.servers import EACH_WRITE_ON_DISK

SOON_MS = 2_000
# Sourced by bash: an agent with such a file waits before it reports that its session is ready.
HOLD = 'while [ -e "$DEPLOYMENT_FOLDER/held-$INTERLOCK_AGENT" ]; do sleep 0.1; done\n'
TIMERS: Mapping[str, tuple[str, str]] = {  # by agent: its state, and the timer of that state
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
    """How long agents stay in their states, in seconds."""

    backoff: int = 600
    grace: int = 600
    limit: int = 600


class TimedAgents(Agents):
    """Agents, each in a state that only a timer ends."""

    def hold(self, name: str) -> Path:
        """Keep an agent's sessions from starting while this file exists."""
        held = self.deployment.folder / f"held-{name}"
        held.touch()
        return held

    def worker(self) -> None:
        """Start a worker whose sessions can be held back."""
        script = self.folder / "hold.sh"
        script.write_text(HOLD)
        self.deployment.worker(BASH_ENV=str(script), INTERLOCK_PASS_VARIABLES="BASH_ENV")

    def start_all(self, delays: Delays) -> Path:
        """Start the agents. Return the file that keeps the prompt of `astray` from being stored."""
        rate_limit = {"type": "failed", "error": "later", "retry_after_s": delays.backoff}
        self.start("cool", *([rate_limit] if delays.backoff > 2 else []), {"exit": 1}, parks=True)
        never = {"wait": str(self.folder / "never")}
        self.start("deaf", {"stubborn": True}, never, grace_s=delays.grace)
        self.hold("slow")
        self.start("slow", spawning_s=delays.limit)
        self.start("astray", building_s=delays.limit)
        (self.folder / "lost").mkdir()
        lost = Agents(self.deployment, self.folder / "lost")
        lost.start("seeker", host="elsewhere", initializing_s=delays.limit)
        lost.repo.rename(lost.folder / "away")
        record = self.reaches("astray", "session_complete")
        in_the_way = AgentPaths(record.id, self.deployment.client.settings).session(2)
        in_the_way.touch()
        return in_the_way

    def bring_to_their_states(self) -> None:
        """Send the mail that brings `astray` and `deaf` to the states in which they wait."""
        self.send("astray")
        self.wait_for("deaf")
        self.reaches("deaf", "running")
        self.send("deaf", urgent=True)

    def timers(self) -> Mapping[str, TimerEntry]:
        """Wait until every agent is in its state, and return the timer of each."""
        found: dict[str, TimerEntry] = {}

        def all_waiting() -> bool:
            for name in TIMERS.keys() - found.keys():
                (state, timer), record = TIMERS[name], self.record(name)
                if record.state == state:
                    found[name] = next(one for one in record.timers if one.name == timer)
            return found.keys() == TIMERS.keys()

        try:
            self.deployment.sees(all_waiting, what="every timer")
        except AssertionError as late:
            left = [
                self.deployment.story(self.record(name).id) for name in TIMERS.keys() - found.keys()
            ]
            raise AssertionError("\n".join([str(late), *left])) from None
        return found

    def fired_at(self, name: str, timer: TimerEntry) -> int:
        """Wait until a timer has fired, and return when, on the store's clock."""
        life = self.record(name).id

        def fired() -> int:
            events = [
                line for line in self.deployment.events(life) if line.version > timer.set_at_version
            ]
            fired_by = [one for one in events if one.cause.reason == f"{timer.name} is due"]
            assert [one.trigger for one in fired_by[:1]] in ([], [FIRES[name]])
            return fired_by[0].at_ms if fired_by else 0

        return int(self.deployment.sees(fired, what=f"{timer.name} of {name}"))


def test_every_timer_fires_when_it_is_due_and_never_before(
    new_deployment: NewDeployment, tmp_path: Path, client: redis.Redis
) -> None:
    deployment = new_deployment(INTERLOCK_SWEEP_PERIOD_S="1")
    agents = TimedAgents(deployment, tmp_path)
    deployment.beat()
    agents.worker()
    agents.start_all(Delays())
    agents.bring_to_their_states()

    timers = agents.timers()
    due_at = {
        name: due(
            deployment.client.dispatch, client, agents.record(name).id, one.name, in_ms=SOON_MS
        )
        for name, one in timers.items()
    }
    late = {name: agents.fired_at(name, one) - due_at[name] for name, one in timers.items()}

    assert min(late.values()) >= 0, late


def test_timers_that_were_due_during_an_outage_of_all_workers_fire_when_they_return(
    new_deployment: NewDeployment, tmp_path: Path, client: redis.Redis
) -> None:
    deployment = new_deployment(INTERLOCK_SWEEP_PERIOD_S="1")
    agents = TimedAgents(deployment, tmp_path)
    deployment.beat()
    agents.worker()
    agents.start_all(Delays())
    agents.bring_to_their_states()
    agents.timers()
    kill(deployment)
    set_before = agents.timers()
    for name, timer in set_before.items():
        due(deployment.client.dispatch, client, agents.record(name).id, timer.name)

    deployment.beat()
    agents.worker()

    for name, timer in set_before.items():
        agents.fired_at(name, timer)


def kill(deployment: Deployment) -> None:
    """Kill every worker and beat."""
    for process in deployment.processes:
        if process.alive:
            process.kill()


def states(agents: TimedAgents, names: Iterable[str]) -> Mapping[str, str]:
    """Return the states of agents."""
    return {name: agents.record(name).state for name in names}


@pytest.mark.proof
def test_after_all_processes_were_killed_every_agent_goes_on_from_its_state(
    new_server: NewServer, new_deployment: NewDeployment, tmp_path: Path
) -> None:
    store = new_server(port=free_port(), settings=EACH_WRITE_ON_DISK)
    deployment = new_deployment(store.url)
    agents = TimedAgents(deployment, tmp_path)
    deployment.beat()
    agents.worker()
    in_the_way = agents.start_all(Delays(backoff=5))
    go = tmp_path / "go"
    agents.start("busy", {"wait": str(go)})
    agents.start("idle")
    agents.reaches("idle", "session_complete")
    busy = agents.wait_for("busy")
    agents.reaches("busy", "running")
    agents.bring_to_their_states()
    expected = {name: state for name, (state, _) in TIMERS.items() if name != "cool"}
    expected |= {"busy": "running", "idle": "session_complete"}
    for name, state in expected.items():
        agents.reaches(name, state)

    kill(deployment)
    states_before = states(agents, expected)
    crash(store)
    assert states_before == expected
    assert states(agents, expected) == expected, "every acknowledged write is in the store's files"
    deployment.beat()
    agents.worker()

    in_the_way.unlink()
    go.touch()
    (deployment.folder / "held-slow").unlink()
    agents.make_due("deaf", "grace")
    agents.send("idle")
    agents.wait_for("idle", 2)
    for name in ("busy", "slow", "astray", "idle"):
        agents.reaches(name, "session_complete")
    agents.wait_for("deaf", 2)
    agents.wait_for("cool", 2)
    assert "grace_exceeded" in agents.triggers("deaf")
    assert [one["pid"] for one in agents.journal("busy")] == [busy["pid"]], (
        "its session was not restarted"
    )
    assert agents.triggers("slow").count("session_started") == 1
    for name in (*expected, "cool"):
        assert agents.record(name).data["total_errors"] == 0
    assert agents.record("seeker").state == "initializing", "its computer does not exist"


@pytest.mark.slow
def test_an_outage_of_the_store_that_is_shorter_than_the_lease_ends_no_session_and_loses_no_mail(
    new_server: NewServer, new_deployment: NewDeployment, tmp_path: Path
) -> None:
    store = new_server(port=free_port())
    deployment = new_deployment(store.url).full()
    agents = Agents(deployment, tmp_path)
    go, call, called = (tmp_path / name for name in ("go", "call", "called"))
    mail = {"type": "mail", "to": "bat", "text": "the barn is open"}
    agents.start("bat")
    agents.reaches("bat", "session_complete")
    steps = {"wait": str(call)}, mail, {"sh": f"touch {called}"}, {"wait": str(go)}
    agents.start("owl", *steps)
    first = agents.wait_for("owl")
    before = agents.reaches("owl", "running")
    log = deployment.folder / "home" / "agents" / before.id / "000001" / "supervisor.log"

    store.stop()
    missed = "leases are not renewed"
    deployment.sees(lambda: missed in log.read_text(), what="its supervisor has noticed the outage")
    call.touch()
    deployment.sees(called.exists, what="it has reported its mail")
    times = log.read_text().count(missed)
    deployment.sees(
        lambda: log.read_text().count(missed) > times,
        what="its supervisor tries again to send the mail",
    )
    store.start()

    away_until = deployment.client.dispatch.views.now_ms()
    deployment.sees(
        lambda: agents.record("owl").entries[0].lease_until > away_until + LEASE_S * 1_000,
        what="the lease is renewed after the outage",
    )
    [message_id] = agents.wait_for("bat", 2)["mail"]
    assert [one["id"] for one in agents.loops.mailbox.newest("bat")] == [message_id]
    now = agents.record("owl")
    assert (now.state, now.version) == ("running", before.version)
    assert is_alive(first["pid"])
    go.touch()
    agents.reaches("owl", "session_complete")
    assert len(agents.journal("owl")) == 1
    assert "session_error" not in agents.triggers("owl")
