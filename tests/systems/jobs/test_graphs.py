"""Graphs of jobs as producers and stewards use them: created, commanded and read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import CallError, InvalidPayloadError, StaleDecisionError
from interlock.kernel.event import Note
from interlock.kernel.record import Record
from interlock.systems.jobs.admission import CycleError, UnknownDependencyError
from interlock.systems.jobs.client import Graphs, JobCommandError
from interlock.systems.jobs.file.file import GraphFile, read_graph
from interlock.systems.jobs.status import GraphView
from interlock.systems.jobs.verbs import VERBS, at_gate
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.races.in_process_worker import InProcessWorker

NewWorker = Callable[[], InProcessWorker]
COMMAND = [{"worker": {"command": "true"}}]
CHAIN = """\
graph: g
description: three in a row
slots: 2
stewards: [ann]
limits: {cost: 1.50, time: 10m, iterations: 9}
dir: out
defaults: {auto_approve: true, health: {recoveries: 1}}
steps:
  - {name: c, depends_on: [b, a], worker: {command: echo c}, priority: 2}
  - {name: a, worker: {command: echo a}, auto_approve: false}
  - name: b
    depends_on: [a]
    acceptance: ["b is there", "and b is right"]
    phases:
      - {name: plan, worker: {model: "Plan b.\\nIn two lines."}}
      - {name: build, worker: {capability: jot, parameters: {text: b}}}
    review: {command: "true"}
"""
# The payloads of jobs that reach each state.
RECIPES: dict[str, dict[str, Any]] = {
    "draft": {},
    "pending": {"depends_on": ["g/never"]},
    "suspended": {"depends_on": ["g/never"]},
    "running": {},
    "paused": {},
    "review_required": {"manual": True},
    "reviewing": {"review": {"command": "true"}},
    "intervention_required": {
        "phases": [{"worker": {"command": "exit 3"}}],
        "review": {"command": "true"},
    },
    "approval_required": {},
    "success": {"auto_approve": True},
    "canceled": {},
}
WORDS: dict[str, dict[str, Any]] = {
    "reject": {"reason": "no"},
    "force-success": {"reason": "enough"},
    "restep": {"phase": "default"},
}
P, B = "person", "person or producer"
# The commands that are legal in each state, with who may use them; all others are refused.
LEGAL: dict[str, dict[str, str]] = {
    "draft": {"config": B, "activate": B, "suspend": P, "cancel": B},
    "pending": {
        "step": P,
        "run": P,
        "suspend": P,
        "cancel": B,
        "force-success": "ann",
        "restep": "ann",
    },
    "suspended": {"resume": P, "cancel": B, "force-success": "ann", "restep": "ann"},
    "running": {"suspend": P, "pause": P, "cancel": B, "force-success": "ann"},
    "paused": {"suspend": P, "unpause": P, "cancel": B, "force-success": "ann"},
    "review_required": {
        "step": P,
        "run": P,
        "suspend": P,
        "cancel": B,
        "force-success": "ann",
        "restep": "ann",
    },
    "reviewing": {"suspend": P, "cancel": B, "force-success": "ann"},
    "intervention_required": {
        "suspend": P,
        "cancel": B,
        "resubmit": "ann",
        "resubmit --to review": "ann",
        "terminate": "ann",
        "force-success": "ann",
        "restep": "ann",
    },
    "approval_required": {
        "suspend": P,
        "cancel": B,
        "approve": "ann",
        "reject": "ann",
        "force-success": "ann",
        "restep": "ann",
    },
    "success": {},
    "canceled": {},
}

# The sentences of the guards where a state has a row for a command that does not apply now.
REFUSED = {
    ("pending", "waive"): "refused: it has lost no dependency",
    ("suspended", "suspend"): "refused: it is suspended already, until a person resumes it",
}


@pytest.fixture
def worker(server: EmbeddedServer, prefix: str, tmp_path: Path) -> InProcessWorker:
    return InProcessWorker(server.url, prefix, tmp_path / "home")


@pytest.fixture
def graphs(worker: InProcessWorker) -> Graphs:
    return worker.graphs


def written(file: Path, text: str = CHAIN) -> GraphFile:
    file.write_text(text)
    return read_graph(file)


def as_ann(worker: InProcessWorker) -> Graphs:
    return Graphs(Client(worker.client.settings, actor="ann"))


def settle(worker: InProcessWorker, *ids: str, but: Collection[str] = ()) -> None:
    """Perform the due effects, except some, until no other is due."""
    while True:
        owed = [
            (job_id, e.name)
            for job_id in ids
            for e in worker.due_effects(job_id)
            if e.name not in but
        ]
        if not owed:
            return
        for job_id, name in dict.fromkeys(owed):
            worker.perform(job_id, name)


def brought(worker: InProcessWorker, job_id: str, state: str, **more: Any) -> Record:
    """Create a job and bring it to a state."""
    graphs = worker.graphs
    if "g/never" not in graphs.client.dispatch.views.records(["g/never"]):
        graphs.create("g/never", {"phases": COMMAND})
    graphs.create(job_id, {"phases": COMMAND, **RECIPES[state], **more})
    if state == "canceled":
        graphs.command(job_id, "cancel")
    if state not in ("draft", "canceled"):
        graphs.command(job_id, "activate")
        at = {"running": "worker", "paused": "worker", "reviewing": "reviewer"}
        settle(worker, job_id, but=[at[state]] if state in at else [])
    if state == "review_required":
        graphs.step(job_id)
        settle(worker, job_id)
    if state in ("suspended", "paused"):
        graphs.command(job_id, "suspend" if state == "suspended" else "pause")
    record = graphs.job(job_id)
    assert record.state == state
    return record


def stored(worker: InProcessWorker) -> dict[bytes | str, Any]:
    """Return everything that is stored under the prefix of this test, but what is counted."""
    client = worker.dispatch.client
    names: Any = client.keys(f"*{worker.client.settings.prefix}*")
    return {key: client.dump(key) for key in names if not key.endswith(b":metrics")}


@pytest.mark.parametrize("state", LEGAL)
def test_a_command_that_is_not_legal_names_the_state_and_the_legal_ones(
    worker: InProcessWorker, state: str
) -> None:
    ann, before = as_ann(worker), brought(worker, "g/j", state, stewards=["ann"])
    expected = ", ".join(f"{verb} ({who})" for verb, who in LEGAL[state].items())
    legal = f"legal now: {expected}" if expected else "nothing is legal here: it has ended"

    for verb in VERBS:
        if verb in LEGAL[state]:
            continue
        with pytest.raises(JobCommandError) as refused:
            ann.command("g/j", verb, WORDS.get(verb))
        why = REFUSED.get((state, verb), "not allowed")
        assert str(refused.value) == f"g/j is {state}: {verb} is {why}; {legal}"

    assert worker.record("g/j") == before
    assert GraphView(worker.graphs).show("g/j")["legal"] == list(LEGAL[state])


@pytest.mark.parametrize("state", LEGAL)
def test_exactly_the_named_commands_are_legal_and_stewards_decide(
    worker: InProcessWorker, state: str
) -> None:
    ann = as_ann(worker)
    for number, (verb, who) in enumerate(LEGAL[state].items()):
        job_id = f"g/j{number}"
        before = brought(worker, job_id, state, stewards=["ann"])
        if who == "ann":
            with pytest.raises(
                JobCommandError, match=f"{verb} is refused: person is no steward; only ann may"
            ) as refused:
                worker.graphs.command(job_id, verb, WORDS.get(verb))
            assert f"g/j{number} is {state}: " in str(refused.value)
            assert f"{verb} (ann)" in str(refused.value)
            assert worker.record(job_id) == before

        now = ann.command(job_id, verb, WORDS.get(verb))

        assert now.version > before.version
        last = worker.client.history(job_id)
        assert any(getattr(line, "version", 0) == now.version for line in last)


def test_a_verb_that_does_not_exist_is_refused_with_those_that_do(worker: InProcessWorker) -> None:
    with pytest.raises(CallError, match="'aprove' is no command of a job; there are: config, act"):
        worker.graphs.command("g/j", "aprove")


def test_the_actor_who_decides_is_recorded_and_not_the_one_in_the_payload(
    worker: InProcessWorker,
) -> None:
    brought(worker, "g/j", "approval_required", stewards=["ann"])

    with pytest.raises(JobCommandError, match="only ann may decide: add --as ann"):
        worker.graphs.command("g/j", "approve", {"by": "ann"})
    record = as_ann(worker).command("g/j", "approve", {"reason": "well done"})

    assert record.data["end"] == {"by": "ann", "reason": "well done"}


@pytest.mark.parametrize("verb", ["reject", "force-success"])
@pytest.mark.parametrize("reason", [{}, {"reason": ""}, {"reason": " \n"}])
def test_a_rejection_and_a_forced_success_need_a_reason(
    worker: InProcessWorker, verb: str, reason: dict[str, str]
) -> None:
    before = brought(worker, "g/j", "approval_required")

    with pytest.raises(InvalidPayloadError, match="reason"):
        worker.graphs.command("g/j", verb, reason)

    assert worker.record("g/j") == before


def test_a_decision_is_refused_if_the_job_has_changed_since_it_was_seen(
    worker: InProcessWorker,
) -> None:
    brought(worker, "g/j", "approval_required")
    seen = GraphView(worker.graphs).show("g/j")["proposal"]
    worker.graphs.command("g/j", "reject", {"reason": "again"}, proposal=seen)
    settle(worker, "g/j")
    now = GraphView(worker.graphs).show("g/j")["proposal"]

    with pytest.raises(StaleDecisionError, match=f"proposal {seen}, but the current one is {now}"):
        worker.graphs.command("g/j", "approve", proposal=seen)
    with pytest.raises(StaleDecisionError):
        worker.graphs.command("g/j", "approve", proposal="g/other:3")

    assert worker.graphs.command("g/j", "approve", proposal=now).state == "success"


def test_a_command_repeated_with_its_op_id_is_done_once(worker: InProcessWorker) -> None:
    brought(worker, "g/j", "approval_required")
    first = worker.graphs.command("g/j", "reject", {"reason": "no"}, op_id="once")

    again = worker.graphs.command("g/j", "reject", {"reason": "no"}, op_id="once")

    assert again.version == first.version
    assert worker.count_events("g/j", "reject") == 1


def test_a_job_goes_back_only_to_a_phase_that_it_has(
    worker: InProcessWorker,
) -> None:
    phases = [{"name": name, "worker": {"command": "true"}} for name in ("plan", "build")]
    brought(worker, "g/j", "approval_required", phases=phases)

    with pytest.raises(JobCommandError, match="restep is refused: 'ship' is none of the phases"):
        worker.graphs.command("g/j", "restep", {"phase": "ship"})
    record = worker.graphs.command("g/j", "restep", {"phase": "plan", "reason": "as you plan"})

    assert (record.state, record.data["phase"]) == ("pending", 0)
    assert record.data["guidance"] == [{"from": "steward", "by": "person", "text": "as you plan"}]


def test_a_command_to_a_graph_reaches_each_job_for_which_it_is_legal(
    worker: InProcessWorker,
) -> None:
    states = ("draft", "running", "approval_required", "success", "canceled", "suspended")
    for state in states:
        brought(worker, f"g/{state}", state)

    moved = worker.graphs.command_all("g", "suspend", {"reason": "a holiday"})

    taken = ("approval_required", "draft", "never", "running")
    assert moved == {f"g/{name}": "suspended" for name in taken}
    assert worker.graphs.job("g/success").state == "success"


def test_a_job_at_a_gate_needs_a_decision(worker: InProcessWorker) -> None:
    graphs = worker.graphs
    gates = {state: at_gate(brought(worker, f"g/{state}", state)) for state in RECIPES}
    moving = ("pending", "running", "review_required", "reviewing")
    assert gates == {state: state not in moving for state in RECIPES}

    assert not at_gate(brought(worker, "g/signed", "running", auto_approve=True))
    brought(worker, "g/limited", "running")
    assert not at_gate(graphs.command("g/limited", "pause", {"for_s": 60}))
    graphs.command("g/never", "cancel")
    settle(worker, "g/never", "g/pending")
    assert at_gate(graphs.job("g/pending"))


def test_an_id_that_is_no_job_or_graph_is_named(worker: InProcessWorker) -> None:
    graphs = worker.graphs
    graphs.open("g")

    with pytest.raises(CallError, match="there is no record 'g/none'"):
        graphs.command("g/none", "activate")
    with pytest.raises(CallError, match="g is a graph, not a job"):
        graphs.command("g", "activate")
    with pytest.raises(CallError, match="there is no graph 'none'; `interlock job list` names"):
        graphs.jobs("none")
    with pytest.raises(CallError, match="there is no graph 'none'"):
        graphs.configure_graph("none", {"slots": 1})
    with pytest.raises(CallError, match="'x' names no job: write it as <graph>/<job>"):
        graphs.create("x", {"phases": COMMAND})


def crossed(graphs: Graphs) -> None:
    """Create drafts in two graphs, and configure them as a cycle."""
    graphs.create("g/a", {"phases": COMMAND})
    graphs.create("h/b", {"phases": COMMAND, "depends_on": ["g/a"]})
    graphs.create("g/c", {"phases": COMMAND, "depends_on": ["h/b"]})
    graphs.configure("g/a", {"depends_on": ["g/c"]})


CYCLE = r"g/a -> g/c -> h/b -> g/a|g/c -> h/b -> g/a -> g/c|h/b -> g/a -> g/c -> h/b"


def test_a_configured_cycle_over_two_graphs_is_never_activated(graphs: Graphs) -> None:
    crossed(graphs)

    for job_id in ("g/a", "h/b", "g/c"):
        with pytest.raises(
            CycleError, match=f"({CYCLE}) is a cycle; remove one of these dependencies"
        ):
            graphs.command(job_id, "activate")
    with pytest.raises(CycleError):
        graphs.command_all("g", "activate", {})
    assert {graphs.job(job_id).state for job_id in ("g/a", "h/b", "g/c")} == {"draft"}

    graphs.configure("g/a", {"depends_on": []})
    assert graphs.command_all("g", "activate", {}) == {"g/a": "pending", "g/c": "pending"}
    assert graphs.command("h/b", "activate").state == "pending"


def test_a_suspended_cycle_is_not_resumed(graphs: Graphs) -> None:
    crossed(graphs)

    for job_id in ("g/a", "h/b", "g/c"):
        graphs.command(job_id, "suspend")
        with pytest.raises(CycleError):
            graphs.command(job_id, "resume")


def test_a_suspended_job_is_resumed_although_its_dependency_was_deleted(
    worker: InProcessWorker,
) -> None:
    graphs = worker.graphs
    brought(worker, "g/j", "suspended")
    graphs.command("g/never", "cancel")
    keys = worker.dispatch.keys
    worker.dispatch.client.delete(keys.record("g/never"), keys.subscribers("g/never"))

    graphs.command("g/j", "resume")
    settle(worker, "g/j")

    assert graphs.job("g/j").data["lost"] == {"g/never": "missing"}


def test_a_job_that_depends_on_itself_or_on_an_unknown_job_is_never_activated(
    graphs: Graphs,
) -> None:
    graphs.create("g/a", {"phases": COMMAND})
    graphs.configure("g/a", {"depends_on": ["g/a"]})
    with pytest.raises(CycleError, match="g/a -> g/a is a cycle"):
        graphs.command("g/a", "activate")
    graphs.configure("g/a", {"depends_on": ["h/nobody"]})
    with pytest.raises(UnknownDependencyError, match="g/a depends on 'h/nobody', and there is no"):
        graphs.command("g/a", "activate")
    with pytest.raises(InvalidPayloadError, match="depends_on"):
        graphs.configure("g/a", {"depends_on": ["g"]})

    assert graphs.job("g/a").state == "draft"


def test_a_status_has_counts_and_the_jobs_that_need_a_person_and_why(
    worker: InProcessWorker,
) -> None:
    states = ("pending", "running", "approval_required", "intervention_required", "success")
    for state in states:
        brought(worker, f"g/{state}", state)

    status = GraphView(worker.graphs).status("g")

    assert status["counts"] == {"draft": 1, **dict.fromkeys(states, 1)}
    assert status["jobs"] == 6
    assert [row["id"] for row in status["running"]] == ["g/running"]
    assert {row["id"]: row["why"] for row in status["asks"]} == {
        "g/approval_required": "no reviewer is configured",
        "g/intervention_required": "exit code 3: no output",
        "g/never": "",
    }
    assert status["stands"] == "in progress"


def test_the_condition_of_a_graph_is_one_of_few_texts(worker: InProcessWorker) -> None:
    graphs, view = worker.graphs, GraphView(worker.graphs)

    def condition(graph: str) -> str:
        return str(view.status(graph)["stands"])

    graphs.open("g")
    assert condition("g") == "empty"
    brought(worker, "g/a", "approval_required")
    assert condition("g") == "waits for a person"
    graphs.command("g/never", "cancel")
    graphs.command("g/a", "approve")
    assert condition("g") == "ended"
    graphs.create("g/b", {"phases": COMMAND, "depends_on": ["g/never"]}, held=False)
    settle(worker, "g/b", "g/never", "g/a")
    assert condition("g") == "starves"
    graphs.command("g/b", "waive")
    settle(worker, "g/b", but=["worker"])
    assert condition("g") == "in progress"


def whys(worker: InProcessWorker) -> Iterator[tuple[str, str]]:
    """Bring jobs to states in which they wait; yield each with the reason that is shown."""
    graphs = worker.graphs
    brought(worker, "g/waits", "pending")
    yield "g/waits", "waits for never"
    many = [f"g/d{n}" for n in range(5)]
    for one in many:
        graphs.create(one, {"phases": COMMAND})
    brought(worker, "g/many", "pending", depends_on=[*many, "g/never"])
    yield "g/many", "waits for d0, d1, d2 and 3 more"
    graphs.create("g/fresh", {"phases": COMMAND, "depends_on": many}, held=False)
    yield "g/fresh", "waits for d0, d1, d2 and 2 more"
    brought(worker, "g/over", "canceled")
    graphs.create("g/after", {"phases": COMMAND, "depends_on": ["g/over"]}, held=False)
    yield "g/after", "waits for its dependencies to be counted"
    brought(worker, "g/lost", "pending", depends_on=["g/d0", "g/d1"])
    for one in ("g/d0", "g/d1"):
        graphs.command(one, "cancel")
        settle(worker, one)
    yield "g/lost", "starved: g/d0 is canceled, g/d1 is canceled"
    graphs.create("g/by-hand", {"phases": COMMAND, "manual": True}, held=False)
    settle(worker, "g/by-hand")
    yield "g/by-hand", "waits for a command: step or run"
    again = [{"worker": {"command": "echo busy; exit 75"}}]
    graphs.create("g/again", {"phases": again, "retry_delay_s": 9}, held=False)
    settle(worker, "g/again")
    yield "g/again", "is tried again in 9 s: exit code 75: busy"
    brought(worker, "g/paused", "paused")
    yield "g/paused", "paused until somebody lifts it"
    brought(worker, "g/ended", "canceled")
    yield "g/ended", "person"
    brought(worker, "g/signed", "approval_required")
    graphs.command("g/signed", "approve", {"reason": "well done"})
    yield "g/signed", "well done, person"


def test_a_job_says_in_one_sentence_what_it_waits_for(worker: InProcessWorker) -> None:
    view = GraphView(worker.graphs)
    for job_id, expected in whys(worker):
        assert view.why(worker.graphs.job(job_id)) == expected, job_id
    many = worker.graphs.job("g/many")  # of its dependencies, two were canceled meanwhile
    waived = replace(many, data={**many.data, "lost": {}, "waived": ["g/d2"]})
    assert view.why(waived) == "waits for d3, d4, never"


def test_a_job_says_which_slot_it_waits_for(worker: InProcessWorker) -> None:
    worker.graphs.open("s", {"slots": 1})
    for name in ("a", "b"):
        worker.graphs.create(f"s/{name}", {"phases": COMMAND}, held=False)
    settle(worker, "s/a", but=["worker"])
    settle(worker, "s/b", but=["worker"])

    rows = {row["id"]: row["why"] for row in GraphView(worker.graphs).rows("s")}

    assert rows == {"s/a": "", "s/b": "waits for a slot: graph:s"}


def test_a_halted_graph_is_shown_as_halted_and_goes_on_with_higher_limits(
    worker: InProcessWorker,
) -> None:
    graphs, view = worker.graphs, GraphView(worker.graphs)
    graphs.open("l", {"limits": {"iterations": 1}})
    graphs.create("l/a", {"phases": COMMAND, "auto_approve": True}, held=False)
    settle(worker, "l/a")
    graphs.create("l/b", {"phases": COMMAND, "auto_approve": True}, held=False)
    settle(worker, "l/b", "l")
    expected = "the graph's limit of iterations is reached: 1 of 1 runs; none of its jobs starts"

    status = view.status("l")
    assert (status["stands"], status["halted"]) == ("halted", expected)
    assert status["limits"] == [
        {"limit": "iterations", "used": 1, "allowed": 1.0, "warns": True, "reached": True}
    ]
    assert view.why(graphs.job("l/b")) == "waits for its graph, which has reached a limit"
    with pytest.raises(CallError, match="l is halted: raise the limit that it has reached, alone"):
        graphs.configure_graph("l", {"slots": 3})
    assert graphs.configure_graph("l", {"limits": {"iterations": 9}}).state == "open"
    settle(worker, "l", "l/b")
    assert graphs.job("l/b").state == "success"


def test_every_graph_is_listed_by_its_name(worker: InProcessWorker) -> None:
    for name in ("beta", "alpha"):
        worker.graphs.open(name)
    worker.graphs.create("gamma/a", {"phases": COMMAND})

    assert worker.graphs.names() == ["alpha", "beta", "gamma"]


def test_a_graph_is_configured_once_however_often_it_is_opened_with_the_same_fields(
    graphs: Graphs,
) -> None:
    graphs.open("g")
    fields = {"limits": {"iterations": 4}}
    assert not graphs.open("g", fields).replayed
    graphs.client.fire("g", "configure", {"limits": {"iterations": 9}, "by": "ann"})

    assert graphs.open("g", fields).replayed
    assert graphs.client.show("g").data["limits"]["iterations"] == 9


def test_a_job_alone_has_three_effects(worker: InProcessWorker) -> None:
    job = {"phases": COMMAND, "auto_approve": True}
    worker.client.submit(job, machine="job", id="g/j")
    settle(worker, "g/j", but=["manifest"])  # has no message while the job goes on
    settle(worker, "g/j")

    notes = [line for line in worker.client.history("g/j") if isinstance(line, Note)]
    claimed = [note.detail["effect"].partition(".")[0] for note in notes if note.kind == "claim"]
    assert worker.graphs.job("g/j").state == "success"
    assert claimed == ["3", "4", "8"], "its start, its worker, and the manifest of its end"
