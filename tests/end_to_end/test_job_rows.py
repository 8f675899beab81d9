"""Every row of job and graph is fired in a running house, by each one whom its table names.

One house plays all the scenes; what its logs say is compared with the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from kernel.event import Cause
from kernel.machines import MACHINES
from kernel.store.plan import Call
from tests.end_to_end.conftest import NewHouse
from tests.end_to_end.job_scenes import HANGS, Scenes, answers, first_run, job
from tests.end_to_end.test_stranding import due

Fired = tuple[str, str, str, str, str]  # machine, from, trigger, to, by whom
# A suspension has to come between two steps of one look at a pending job: others fire these rows.
RACES: set[Fired] = {
    ("job", "suspended", "dependencies_met", "suspended", "scheduling"),
    ("job", "suspended", "dependency_lost", "suspended", "scheduling"),
    ("job", "suspended", "dependency_lost", "canceled", "scheduling"),
}
REASON = {"reason": "so it is"}
# fmt: off
TOLD: tuple[tuple[str, str, dict[str, Any]], ...] = (  # where a job stands, and what a person says
    ("draft",                 "config",             {"description": "another"}),
    ("draft",                 "activate",           {}),
    ("suspended",             "resume",             {}),
    ("running",               "pause",              {}),
    ("paused",                "unpause",            {}),
    ("pending",               "run",                {}),
    ("review_required",       "run",                {}),
    ("review_required",       "step",               {}),
    ("approval_required",     "approve",            {}),
    ("approval_required",     "reject",             REASON),
    ("intervention_required", "resubmit",           {}),
    ("intervention_required", "resubmit --to review", {}),
    ("intervention_required", "terminate",          {}),
)
# fmt: on
SUSPENDABLE = (
    "draft",
    "pending",
    "running",
    "paused",
    "review_required",
    "reviewing",
    "intervention_required",
    "approval_required",
)
CANCELABLE = (*SUSPENDABLE, "suspended")
FORCED = tuple(state for state in CANCELABLE if state != "draft")
RESTEPPED = (
    "pending",
    "suspended",
    "review_required",
    "intervention_required",
    "approval_required",
)


@pytest.fixture
def scenes(new_house: NewHouse, tmp_path: Path) -> Scenes:
    """Return a house for scenes, in which nobody works yet."""
    return Scenes(new_house(), tmp_path)


class Play:
    """Scenes that go on at the same time: each waits, in turn, for what it needs to go on."""

    def __init__(self, scenes: Scenes, client: redis.Redis) -> None:
        self.scenes, self.redis = scenes, client
        self.house, self.graphs = scenes.house, scenes.graphs
        self.ends: dict[str, tuple[str, ...]] = {}

    def new(self, *ends: str, **more: Any) -> str:
        """Create a job that comes to one of these ends by itself."""
        of = self.scenes.new(**more)
        self.ends[of] = ends
        return of

    def sees(self, condition: Callable[[], Any], what: str) -> None:
        """Wait for something in this house."""
        self.house.sees(condition, what=what, within_s=60)

    def due(self, of: str, timer: str) -> None:
        """Make a timer due now."""
        due(self.house.client.dispatch, self.redis, of, timer)

    def registered(self, of: str) -> bool:
        """Whether somebody is to be told of a job's end."""
        return bool(list(self.house.client.dispatch.tells.dependents(of)))

    def settle(self) -> None:
        """Wait until every job that was begun has come to its end."""
        for of, ends in self.ends.items():
            self.scenes.reaches(of, *ends)


def before_anybody_works(play: Play) -> None:
    """Play what is only possible where an effect is late: its job is suspended by then."""
    lost = play.scenes.new(held=True)
    play.graphs.command(lost, "cancel")
    for choice, end in (("starve", "suspended"), ("cancel", "canceled")):
        of = play.new(end, depends_on=[lost], on_cancel=choice)
        play.graphs.command(of, "suspend")
    # Whoever made it died before it was activated.
    unborn = job(play.scenes.folder)
    play.house.client.dispatch.create("job", "g/unborn", unborn, Call(Cause("producer")))
    play.due("g/unborn", "kickoff")
    play.ends["g/unborn"] = ("success",)


def people(play: Play) -> Iterator[None]:
    """Tell jobs in every state what they can be told there."""
    told: list[tuple[str, str, str, dict[str, Any]]] = [
        (state, play.scenes.at(state), verb, words) for state, verb, words in TOLD
    ]
    told += [(state, play.scenes.at(state), "suspend", {}) for state in SUSPENDABLE]
    told += [(state, play.scenes.at(state), "cancel", {}) for state in CANCELABLE]
    told += [(state, play.scenes.at(state), "force-success", REASON) for state in FORCED]
    phase = {"phase": "default"}
    told += [(state, play.scenes.at(state), "restep", phase) for state in RESTEPPED]
    yield
    for state, of, verb, words in told:
        play.scenes.brought(of, state)
        play.graphs.command(of, verb, words)


def producers(play: Play) -> Iterator[None]:
    """Let a producer do what producers may."""
    canceled = [(state, play.scenes.at(state)) for state in CANCELABLE]
    draft, begun = play.scenes.at("draft"), f"g/{'begun'}"
    producer = play.scenes.producer
    producer.command(draft, "config", {"description": "another"})
    producer.client.submit(job(play.scenes.folder), id=begun, machine="job")
    play.ends[begun] = ("success",)
    yield
    for state, of in canceled:
        play.scenes.brought(of, state)
        producer.command(of, "cancel")


def workers(play: Play) -> Iterator[None]:
    """Let workers and reviewers say all that they can say."""
    first, second = ({"name": name, "worker": {"command": "true"}} for name in "ab")
    play.new("success", phases=[first, second])
    play.new("success", review={"command": "true"})
    wrong = answers(action="COMPLETED", verdict="INTERVENTION_REQUIRED", reasons=["no"])
    play.new("intervention_required", review={"command": wrong})
    again = {"retries_max": 1, "retry_delay_s": 1}
    play.new("intervention_required", command="exit 75", **again)
    play.new("intervention_required", review={"command": "exit 75"}, **again)
    limited = answers(action="RETRY", rate_limited=True, retry_after_s=1)
    play.new("success", command=f"test -e once || {{ touch once; {limited}; }}")
    yield


def limits(play: Play) -> Iterator[None]:
    """Reach each limit before each spend."""
    dear, poor = {"cost_micro": 10}, {"cost_micro": 5}
    stops = "intervention_required"
    play.new(stops, worker=dear, limits=poor)
    play.new(stops, review={"command": "true", **dear}, limits=poor)
    play.new(stops, limits={"cost_micro": 0})
    spends = answers(action="COMPLETED", cost=1)
    review = {"command": "true"}
    play.new(stops, command=spends, review=review, limits={"cost_micro": 1_000_000})
    play.new(stops, command=HANGS, limits={"time_s": 1})
    play.new(stops, review={"command": HANGS}, limits={"time_s": 2})
    yield


def silent(play: Play) -> Iterator[None]:
    """Say nothing for too long, and again."""
    once = {"recoveries_max": 1}
    play.new("intervention_required", command=HANGS, running_s=1, **once)
    play.new("intervention_required", review={"command": HANGS}, reviewing_s=1, **once)
    yield


def dependencies(play: Play) -> Iterator[None]:
    """End what others wait for, in each way in which they can hear of it."""
    lost, kept, forgotten, unheard = (play.scenes.new(held=True) for _ in range(4))
    told = [
        (play.scenes.new(depends_on=[lost], on_cancel=choice), suspended, end)
        for choice, suspended, end in (
            ("starve", False, "success"),
            ("cancel", False, "canceled"),
            ("starve", True, "suspended"),
            ("cancel", True, "canceled"),
        )
    ]
    met = [play.scenes.new(depends_on=[kept]) for _ in range(2)]
    starves = play.scenes.new(depends_on=[forgotten])
    dies = play.scenes.new(depends_on=[forgotten], on_cancel="cancel")
    play.new("success", depends_on=[unheard])
    yield
    for of in (lost, kept, forgotten, unheard):
        play.sees(lambda of=of: play.registered(of), f"somebody is told of {of}")
    play.sees(lambda: not play.house.client.show(starves).entries, f"{starves} has registered")
    play.sees(lambda: not play.house.client.show(dies).entries, f"{dies} has registered")
    for of, suspended, _ in told:
        play.sees(lambda of=of: not play.house.client.show(of).entries, f"{of} has registered")
        if suspended:
            play.graphs.command(of, "suspend")
    play.graphs.command(met[1], "suspend")
    # What is lost on its way is found by those who look again.
    keys = play.house.client.dispatch.keys
    play.redis.delete(keys.dependents(forgotten), keys.dependents(unheard))
    for of in (lost, forgotten):
        play.graphs.command(of, "cancel")
    for of in (kept, unheard):
        play.graphs.command(of, "activate")
    play.scenes.reaches(unheard, "success")
    for of in (starves, dies, *(o for o, ends in play.ends.items() if ends == ("success",))):
        if play.house.client.show(of).data["depends_on"]:
            play.due(of, "recheck")
    play.sees(lambda: play.graphs.job(told[0][0]).data["lost"], "it is starved")
    play.graphs.command(told[0][0], "waive")
    play.sees(lambda: play.graphs.job(starves).data["lost"], "it is starved")
    # Born after the end of what it waits for.
    for choice in ("starve", "cancel"):
        play.scenes.new(depends_on=[lost], on_cancel=choice)
    play.ends |= {of: (end,) for of, _, end in told}
    play.ends |= {dies: ("canceled",), met[0]: ("success",), met[1]: ("suspended",)}
