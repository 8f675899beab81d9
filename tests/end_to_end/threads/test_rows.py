"""Every row of the thread's table is fired in the running system, by an actor of the table."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from interlock.kernel.event import Cause, Event
from interlock.kernel.record import Record, child_ids, partition_of
from interlock.kernel.store.children import children_listed
from interlock.systems.threads.client import Threads
from interlock.systems.threads.machines.thread.table import THREAD, WAITS
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.sweeps import orphans
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, thread
from tests.end_to_end.engine.test_stranding import due
from tests.fakes.openai_server import Asked, OpenAIServer, Reply, hangs, refuses, thinks
from tests.sweeping import sweeping

PHASES = ("intent", "context", "action")
INTENT_ONLY = {"composition": "end_to_end", "auto_advance_states": ["awaiting_intent_confirmation"]}
POOR = {"composition": "end_to_end", "budget_micro": 1}
HANDED = {"to": "the help desk", "kind": "system", "reference": "ticket 7"}
Row = tuple[str, str, str]


@pytest.fixture
def provider() -> Iterator[OpenAIServer]:
    """Return a model that hangs or refuses if the title of a thread says so."""

    def behave(asked: Asked) -> Reply:
        title = str((asked.data("inciting event") or {}).get("title"))
        if title == "hangs":
            return hangs()
        return refuses(400) if title == "refused" else thinks(asked)

    with OpenAIServer(otherwise=behave) as server:
        yield server


def with_phases(phases: int, title: str, **more: Any) -> dict[str, Any]:
    """Return a thread with the proposals of its first phases; the model is asked for the next."""
    payload = thread("jot", title=title, **more)
    names = ("intent", "item_ids", "action")[:phases]
    given = {name: payload["given"][name] for name in names}
    return (
        {**payload, "given": given} if given else {k: v for k, v in payload.items() if k != "given"}
    )


def recipes() -> dict[str, dict[str, Any]]:
    """Return, for each state that can last, a payload whose thread comes to that state."""
    made: dict[str, dict[str, Any]] = {
        "awaiting_intent_confirmation": thread("jot", policy="ask_every_step"),
        "awaiting_context_confirmation": thread("jot", policy=INTENT_ONLY),
        "awaiting_confirmation": thread("jot", policy="plan_then_review"),
        "awaiting_review": thread("jot_reviewed"),
        "awaiting_redirect": thread("broken"),
        "executing": thread("slow", seconds=600),
    }
    for number, phase in enumerate(PHASES):
        made[f"awaiting_{phase}_clarification"] = with_phases(number, "refused")
        made[f"inferring_{phase}"] = with_phases(number, "hangs")
    return made


class Stage:
    """A deployment in which a thread is brought to any state."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment, self.client = deployment, deployment.client
        self.recipes, self.count = recipes(), 0

    def submit(self, payload: dict[str, Any], **more: Any) -> str:
        """Submit a thread under a new id."""
        self.count += 1
        return self.client.submit({**payload, **more}, machine="thread", id=f"r{self.count}").id

    def bring_to(self, state: str, **more: Any) -> str:
        """Return the id of a thread that is in a state."""
        if state == "proposed":
            return self.submit(thread("jot"), hold=True, **more)
        if state in ("cleaning_up", "done_cleanup_unsuccessful"):
            return self.cleaned(state)
        if state == "monitoring":
            return self.parent([self.recipes["awaiting_review"]])[0]
        record_id = self.submit(self.recipes[state], **more)
        self.deployment.reaches(record_id, state)
        return record_id

    def queued(self, phase: str) -> str:
        """Return a thread whose inference of a phase is due but paused."""
        record_id = self.bring_to(f"awaiting_{phase}_clarification")
        self.queue(record_id)
        return record_id

    def queue(self, record_id: str) -> None:
        """Send a thread that needs clarification back to the model's queue, paused."""
        self.client.pause(record_id)
        self.provide(record_id)

    def provide(self, record_id: str) -> None:
        """Answer a card that asks for a text."""
        proposal = self.client.show(record_id).proposal
        self.client.decide(record_id, "provide", {"text": "as before"}, proposal=proposal)

    def cleaned(self, state: str) -> str:
        """Return a thread in a state of its clean-up."""
        fields = {"go": "/never"} if state == "cleaning_up" else {"fails": True}
        payload = thread("jot", policy="plan_then_review", source="witnessed")
        payload["inciting"]["fields"] = fields
        record_id = self.submit(payload)
        self.deployment.reaches(record_id, "awaiting_confirmation")
        self.client.fire(record_id, "cleanup_requested")
        self.deployment.reaches(record_id, state)
        return record_id

    def parent(
        self, payloads: list[dict[str, Any]], relationship: str = "decompose", record_id: str = ""
    ) -> tuple[str, list[str]]:
        """Return a thread that a person split, and the ids of its children."""
        if not record_id:
            record_id = self.submit(self.suggestion())
        asked = self.deployment.reaches(record_id, "awaiting_confirmation")
        parts = [
            {
                "title": payload["inciting"]["title"],
                "policy": payload["policy"],
                "fields": payload["inciting"].get("fields", {}),
                **({"given": payload["given"]} if "given" in payload else {}),
            }
            for payload in payloads
        ]
        parent = Threads(self.client).decompose(
            record_id, parts, proposal=asked.proposal, relationship=relationship
        )
        return record_id, [f"{record_id}/{parent.version}.{n}" for n in range(1, len(parts) + 1)]

    def suggestion(self) -> dict[str, Any]:
        """Return a thread that waits for consent under any policy."""
        payload = thread("jot", source="witnessed")
        payload["given"]["action"]["kind"] = "suggestion"
        return payload

    def answer(self, state: str, choice: str, answer: dict[str, Any] | None = None) -> str:
        """Answer the card of a thread in a state."""
        record_id = self.bring_to(state)
        proposal = self.client.show(record_id).proposal
        self.client.decide(record_id, choice, answer, proposal=proposal)
        return record_id


def answer_every_card(stage: Stage) -> None:
    """Choose each affordance of each card once, and fire the other triggers of each wait."""
    action = {"capability": "jot", "parameters": {"text": "x"}}
    edits: dict[str, dict[str, Any]] = {"intent": {"intent": "y"}, "context": {"item_ids": []}}
    for wait in map(str, WAITS):
        stage.answer(wait, "redirect", {"feedback": "not so"})
        for trigger, payload in (("dismissed_by_user", {}), ("handed_off", HANDED)):
            stage.client.fire(stage.bring_to(wait), trigger, payload)
        stage.client.fire(stage.bring_to(wait), "cleanup_requested")
        # It may expire before anybody sees that it waits.
        stage.submit(stage.recipes[wait], expires_s=1)
    for phase in ("intent", "context"):
        stage.answer(f"awaiting_{phase}_confirmation", "accept")
        stage.answer(f"awaiting_{phase}_confirmation", "edit", edits[phase])
    for phase in PHASES:
        stage.answer(f"awaiting_{phase}_clarification", "provide", {"text": "y"})
        stage.answer(f"awaiting_{phase}_clarification", "provide", action)
    stage.answer("awaiting_action_clarification", "provide", {"capability": "jot"})
    stage.answer("awaiting_confirmation", "edit", action)
    stage.answer("awaiting_confirmation", "approve")
    stage.answer("awaiting_confirmation", "reject")
    stage.answer("awaiting_review", "done")
    for answer in ({"text": "y"}, action, {"capability": "broken"}):
        stage.answer("awaiting_redirect", "provide", answer)
    stage.answer("done_cleanup_unsuccessful", "retry")
    stage.answer("done_cleanup_unsuccessful", "accept")


def end_by_hand(stage: Stage) -> None:
    """Dismiss and hand off in every state that waits for no person."""
    inferring = [f"inferring_{phase}" for phase in PHASES]
    for state in ("proposed", "monitoring", "done_cleanup_unsuccessful", *inferring):
        stage.client.fire(stage.bring_to(state), "dismissed_by_user")
        stage.client.fire(stage.bring_to(state), "handed_off", HANDED)
    stage.client.fire(stage.queued("intent"), "dismissed_by_user")
    stage.client.fire(stage.queued("intent"), "handed_off", HANDED)
    stage.client.fire(stage.bring_to("cleaning_up"), "dismissed_by_user")
    stage.client.cancel(stage.bring_to("executing"))
    stage.bring_to("proposed", expires_s=1)


def fail_and_split(stage: Stage) -> None:
    """Go over budget in each phase, be unclear, and split at an execution."""
    for number in range(3):
        stage.submit(with_phases(number, "dear", policy=POOR))
    unclear = thread("jot")
    unclear["given"]["action"] = {"kind": "clarification", "blocked_on": "which one"}
    stage.submit(unclear)
    parts = [{"title": "refused", "text": ""}]
    split = stage.submit(thread("decompose", children=parts, relationship="decompose"))
    stage.deployment.reaches(split, "monitoring")
    parent, [child] = stage.parent([stage.recipes["awaiting_review"]], "singular")
    stage.deployment.reaches(child, "awaiting_review")
    stage.client.fire(child, "dismissed_by_user")
    stage.deployment.reaches(parent, "dismissed")
    parent, [child] = stage.parent([thread("jot")])
    stage.deployment.reaches(parent, "done")


def close_families(stage: Stage) -> None:
    """Close a parent over children in every state."""
    states = list(stage.recipes)
    cleaning = [thread("jot", policy="plan_then_review") for _ in range(2)]
    for payload, fields in zip(cleaning, ({"go": "/never"}, {"fails": True}), strict=True):
        payload["inciting"]["fields"] = fields
    parent, children = stage.parent([*stage.recipes.values(), *cleaning, stage.suggestion()])
    *held, cleaned, unclean, middle = children
    queued = held[states.index("awaiting_intent_clarification")]
    for state, child in zip(states, held, strict=True):
        stage.deployment.reaches(child, state)
    for child, state in ((cleaned, "cleaning_up"), (unclean, "done_cleanup_unsuccessful")):
        stage.deployment.reaches(child, "awaiting_confirmation")
        stage.client.fire(child, "cleanup_requested")
        stage.deployment.reaches(child, state)
    stage.parent([stage.recipes["awaiting_review"]], record_id=middle)
    stage.client.cancel(parent)
    stage.deployment.ends(parent, *children)
    parent, [queued] = stage.parent([stage.recipes["awaiting_intent_clarification"]])
    stage.deployment.reaches(queued, "awaiting_intent_clarification")
    stage.queue(queued)
    stage.client.cancel(parent)
    parent, [clarified] = stage.parent([stage.recipes["awaiting_intent_clarification"]])
    stage.deployment.reaches(clarified, "awaiting_intent_clarification")
    stage.client.cancel(parent)


def close_a_new_child(stage: Stage) -> None:
    """Close a parent with a child that was created and did not begin.

    A worker of a version before this one made two calls of that, and could die between them.
    """
    deployment, name = stage.deployment, "kill-between_children-spawn"
    stage.client.submit(stage.suggestion(), machine="thread", id=name)
    deployment.reaches(name, "awaiting_confirmation")
    alive = [process for process in deployment.processes if process.alive]
    # Two seconds after its creation the sweep of stalls would begin the child. Another worker would
    # create it, once the lease of the dead worker ends.
    deployment.ends_lost_leases = False
    with stopped_beat(deployment):
        parent, [_, child] = stage.parent([thread("jot")] * 2, record_id=name)
        deployment.sees(lambda: not all(one.alive for one in alive), what="the worker has died")
        create_only(stage.client.dispatch, stage.client.show(parent), number=2)
        stage.client.cancel(parent)

        def dismissed_after_sweep() -> bool:
            # Beat is stopped: if the broker loses the cascade's message, only this publishes it
            # again.
            orphans.run(sweeping(stage.client.dispatch), partition_of(parent))
            return stage.client.show(child).state == "dismissed"

        try:
            deployment.sees(dismissed_after_sweep, what="the new child is dismissed")
        except AssertionError as late:
            stories = map(deployment.story, (parent, child))
            raise AssertionError("\n".join([str(late), *stories])) from None
    deployment.ends_lost_leases = True
    deployment.ends(parent, child)


def create_only(dispatch: Dispatch, parent: Record, number: int) -> None:
    """Create a child of those that a parent has listed, and do not begin it."""
    (spawn,) = (entry for entry in parent.entries if entry.name == "spawn")
    generation = int(spawn.suffix.partition(".")[0])
    listed = children_listed(dispatch.client, dispatch.keys, parent.id, generation)
    assert listed is not None
    child_id = child_ids(parent.id, generation, len(listed))[number - 1]
    countdown = f"{parent.spawning(spawn.suffix)}:{generation}"
    payload, cause = listed[number - 1].payload, Cause("spawn")
    dispatch.lifecycle.create("thread", child_id, payload, cause, countdown=countdown)


@contextmanager
def stopped_beat(deployment: Deployment) -> Iterator[None]:
    """Stop beat until the block ends, so that it sends no sweep meanwhile."""
    [beat] = [one for one in deployment.processes if one.name.startswith("beat") and one.alive]
    beat.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        beat.signal(signal.SIGCONT)


def starve_the_queue(stage: Stage, client: redis.Redis) -> None:
    """Leave threads in the model's queue, which no worker serves, until they give up."""
    deployment, waiting = (
        stage.deployment,
        [stage.bring_to(f"awaiting_{phase}_clarification") for phase in PHASES],
    )
    deployment.workers_wanted = 0
    for process in deployment.processes:
        process.kill()
    for record_id in waiting:
        stage.provide(record_id)
        due(deployment.client.dispatch, client, record_id, "stall")
    deployment.beat()
    deployment.worker(queues=("sweeps",))
    for record_id, phase in zip(waiting, PHASES, strict=True):
        deployment.reaches(record_id, f"awaiting_{phase}_clarification")


def fired_rows(deployment: Deployment) -> dict[Row, set[str]]:
    """Return every row that was fired, with all actors that fired it."""
    fired: dict[Row, set[str]] = {}
    for found in deployment.client.list(machine="thread", limit=10_000):
        for line in deployment.client.history(found.id):
            if isinstance(line, Event) and line.trigger != "created":
                row = (line.source, line.trigger, line.target)
                fired.setdefault(row, set()).add(line.cause.actor)
    return fired


@pytest.mark.slow(minutes=0.5)
def test_every_row_is_fired_by_its_natural_producer(
    new_deployment: NewDeployment, provider: OpenAIServer, client: redis.Redis
) -> None:
    deployment = new_deployment(
        INTERLOCK_MODEL="openai:gpt-4o-mini",
        INTERLOCK_MODEL_BASE_URL=provider.url,
        INTERLOCK_MODEL_API_KEY="none",
    )
    deployment.full(workers=2, concurrency=60)
    deployment.workers_wanted = 2
    stage = Stage(deployment)
    scenes: tuple[Callable[[Stage], None], ...] = (
        answer_every_card,
        end_by_hand,
        fail_and_split,
        close_families,
        close_a_new_child,
    )
    for scene in scenes:
        scene(stage)
    starve_the_queue(stage, client)
    deployment.full(concurrency=20)
    table = {(str(r.source), str(r.trigger), str(r.target)): r.by for r in THREAD.transitions}

    def missing() -> set[Row]:
        return set(table) - set(fired_rows(deployment))

    deployment.sees(
        lambda: not missing(), what=f"every row is fired; of {len(table)} not {missing()}"
    )
    strangers = {row: by - set(table[row]) for row, by in fired_rows(deployment).items()}
    assert not {row: by for row, by in strangers.items() if by}, "only actors of the table fire"
    assert set(fired_rows(deployment)) == set(table)
