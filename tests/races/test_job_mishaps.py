"""Regression tests of jobs: lost ends, slots not given back, exceeded limits, cycles, messages."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from interlock.kernel.errors import CallError
from interlock.kernel.families import countdowns_begun
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import partition_of
from interlock.kernel.store.scripts import read
from interlock.kernel.store.subscriptions import PLACEHOLDER
from interlock.systems.jobs.attempt import AttemptResult, run_attempt
from interlock.systems.jobs.client import Graphs, JobCommandError
from interlock.systems.jobs.file.file import read_graph
from interlock.systems.jobs.machines.effects import SCHEDULING
from interlock.systems.jobs.machines.job.data import ExecutorData
from interlock.systems.jobs.machines.job.limits import UNBEGUN_MAX
from interlock.systems.jobs.slots import acquire_slots
from interlock.systems.jobs.status import STARVES, GraphView
from interlock.workers.engine.sweeps import stalls
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.producer_message import one_line, receive
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text
from tests.races.in_process_worker import InProcessWorker, done
from tests.races.test_job_slots import holders, job, queued_jobs, rest, states
from tests.sweeping import sweeping

UNHEARD_MS = 11_000
RUNNING_S = 1_800
RECHECK_MS = 900_000
# Nearly as long as the job of one test may be silent.
WAITS_MS = 290_000
# The package of effects has functions with the names of these modules.
SCHEDULER, WORKER = (
    import_module(f"interlock.systems.jobs.effects.{one}") for one in ("scheduling", "worker")
)


@pytest.fixture
def worker(server: EmbeddedServer, prefix: str, tmp_path: Path, text: Text) -> InProcessWorker:
    """Return a worker of this process, under a clock that stands still until the test moves it."""
    text.now_us = START_US
    given = {"INTERLOCK_QUEUE_SLOTS": "q=1", "INTERLOCK_DISK_FREE_MIN_MB": "0"}
    return InProcessWorker(server.url, prefix, tmp_path / "home", text=text, **given)


def now_us(worker: InProcessWorker) -> int:
    assert worker.text is not None
    return worker.text.now_us or START_US


def later(worker: InProcessWorker, ms: int) -> None:
    assert worker.text is not None
    worker.text.now_us = now_us(worker) + ms * 1_000


def sweep(worker: InProcessWorker, *ids: str) -> None:
    """Run the sweep of timers for these records."""
    for partition in {partition_of(one) for one in ids}:
        stalls.run(sweeping(worker.dispatch), partition)


def due_in_ms(worker: InProcessWorker, job_id: str, name: str) -> int:
    timer = next(one for one in worker.record(job_id).timers if one.name == name)
    return timer.due_at - now_us(worker) // 1_000


def waits_for(worker: InProcessWorker, job_id: str) -> set[str]:
    newest = countdowns_begun(MACHINES["job"], worker.client.history(job_id))[-1]
    return worker.dispatch.views.counted(job_id, newest) - {PLACEHOLDER}


def resumed(worker: InProcessWorker, job_id: str) -> None:
    worker.graphs.command(job_id, "suspend")
    worker.graphs.command(job_id, "resume")


def test_a_job_that_is_resumed_after_a_success_was_pruned_waits_only_for_the_other(
    worker: InProcessWorker,
) -> None:
    gone, other = worker.create_job("a/gone"), worker.create_job("b/other")
    waits = worker.create_job("c/waits", depends_on=[gone, other], on_cancel="cancel", manual=False)
    worker.run_until_idle(gone, other, waits)
    worker.end_job(gone)
    worker.run_until_idle(gone, waits)
    assert worker.dispatch.indexes.prune(worker.record(gone), [], age_ms=0) == "pruned"

    resumed(worker, waits)
    worker.run_until_idle(waits)
    assert (worker.record(waits).state, waits_for(worker, waits)) == ("pending", {other})
    worker.end_job(other)
    worker.run_until_idle(other, waits, worker=done)
    record = worker.record(waits)
    assert (record.state, record.data["lost"]) == ("approval_required", {})
    assert worker.count_events(waits, "dependencies_met") == 1
    worker.check_consistency()


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("draft", [True, False])
def test_a_job_that_was_suspended_before_anything_ended_waits_for_all_when_it_is_resumed(
    worker: InProcessWorker, *, draft: bool, settled: bool
) -> None:
    needed = [worker.create_job("a/one"), worker.create_job("b/two")]
    waits = worker.create_job("c/waits", activate=not draft, depends_on=needed)
    if settled:
        worker.run_until_idle(*needed, waits)
    resumed(worker, waits)
    worker.run_until_idle(*needed, waits)
    assert waits_for(worker, waits) == set(needed)

    worker.end_job(needed[0])
    worker.run_until_idle(*needed, waits)
    assert waits_for(worker, waits) == {needed[1]}
    assert not worker.record(waits).data["met"]
    worker.end_job(needed[1])
    worker.run_until_idle(*needed, waits)
    assert worker.record(waits).data["met"]
    assert worker.count_events(waits, "dependencies_met") == 1


def test_a_cycle_that_was_activated_by_its_cards_is_starved_and_asks_a_person(
    worker: InProcessWorker,
) -> None:
    ids = [
        worker.create_job("r/a", activate=False),
        worker.create_job("r/b", activate=False, depends_on=["r/a"]),
    ]
    behind = worker.create_job("s/behind", activate=False, depends_on=["r/b"])
    worker.graphs.configure("r/a", {"depends_on": ["r/b"]})
    for one in (*ids, behind):
        worker.client.decide(one, "activate", proposal=worker.record(one).proposal)
    worker.run_until_idle(*ids, behind)
    assert [worker.record(one).data["lost"] for one in ids] == [{}, {}]

    later(worker, RECHECK_MS)
    sweep(worker, *ids, behind)
    worker.run_until_idle(*ids, behind)
    lost = [worker.record(one).data["lost"] for one in (*ids, behind)]
    assert lost == [{"r/b": "cycle"}, {"r/a": "cycle"}, {}]
    status = GraphView(worker.graphs).status("r")
    assert (status["stands"], status["starved"]) == (STARVES, 2)
    assert [(one["id"], one["why"]) for one in status["asks"]] == [
        ("r/a", "starved: r/b is part of a cycle"),
        ("r/b", "starved: r/a is part of a cycle"),
    ]
    assert sorted(card.record_id for card in worker.client.cards()) == ids


def test_a_job_of_a_cycle_goes_on_when_a_person_waives_its_dependency(
    worker: InProcessWorker,
) -> None:
    ids = [
        worker.create_job("r/a", activate=False),
        worker.create_job("r/b", activate=False, depends_on=["r/a"]),
    ]
    worker.graphs.configure("r/a", {"depends_on": ["r/b"]})
    for one in ids:
        worker.client.decide(one, "activate", proposal=worker.record(one).proposal)
    worker.run_until_idle(*ids)
    later(worker, RECHECK_MS)
    sweep(worker, *ids)
    worker.run_until_idle(*ids)

    worker.graphs.command("r/a", "waive", {"reason": "goes first"})
    worker.run_until_idle(*ids)
    assert worker.record("r/a").data["met"]
    worker.end_job("r/a")
    worker.run_until_idle(*ids)
    worker.graphs.command("r/b", "waive", {"reason": "it is there by now"})
    worker.run_until_idle(*ids)
    assert worker.record("r/b").data["met"]
    assert [worker.countdowns(one) for one in ids] == [set(), set()]
    worker.check_consistency()


@pytest.mark.fuzz
def test_a_long_chain_of_waiting_jobs_is_no_cycle(
    worker: InProcessWorker, *, is_proof: bool
) -> None:
    chain = [f"{'cd'[n % 2]}/{n:02}" for n in range(50 if is_proof else 20)]
    for n, one in enumerate(chain):
        worker.create_job(one, depends_on=chain[n - 1 : n] if n else [])
    worker.run_until_idle(*chain)
    later(worker, RECHECK_MS)
    sweep(worker, *chain)
    assert all(worker.due_effects(one, "scheduling") for one in chain[1:]), (
        "all are scheduled again"
    )
    worker.run_until_idle(*chain)
    assert [worker.record(one).data["lost"] for one in chain] == [{}] * len(chain)
    assert waits_for(worker, chain[-1]) == {chain[-2]}


def spent(work: EffectWork) -> Outcome:
    """Complete a job's work at a cost of one dollar."""
    del work
    return Outcome("agent_completed", {"summary": "done"}, {"spent": 1_000_000})


def test_a_job_of_a_halted_graph_passes_its_offered_slot_to_a_job_of_another_graph(
    worker: InProcessWorker,
) -> None:
    worker.graphs.open("g", {"limits": {"cost_micro": 1_000_000}})
    first, second = job(worker, "g/first", queue="q"), job(worker, "g/second", queue="q")
    other = job(worker, "h/other", queue="q")
    assert states(worker, first, second, other) == ["running", "pending", "pending"]

    worker.perform(first, "worker", spent)
    rest(worker, first, second, other)
    assert worker.record("g").state == "halted"
    assert states(worker, second, other) == ["pending", "running"]
    assert worker.record(second).data["slots"] == ["limit:g"]
    assert (holders(worker, "queue:q"), queued_jobs(worker, "queue:q")) == ([other], [])

    worker.graphs.configure_graph("g", {"limits": {"cost_micro": 9_000_000}})
    rest(worker, "g", second)
    assert worker.record(second).data["slots"] == ["queue:q"]
    worker.perform(other, "worker", done)
    rest(worker, other, second)
    assert states(worker, second) == ["running"]


def test_a_paused_job_in_a_queue_lets_the_next_one_pass_and_queues_again_afterwards(
    worker: InProcessWorker,
) -> None:
    ids = [job(worker, f"{graph}/x", queue="q") for graph in "abc"]
    worker.client.pause(ids[1])
    worker.perform(ids[0], "worker", done)
    rest(worker, ids[0], ids[2])
    assert states(worker, *ids[1:]) == ["pending", "running"]
    assert holders(worker, "queue:q") == [ids[2]]

    worker.client.resume(ids[1])
    rest(worker, ids[1])
    assert states(worker, ids[1]) == ["pending"]
    worker.perform(ids[2], "worker", done)
    rest(worker, ids[2], ids[1])
    assert states(worker, ids[1]) == ["running"]
    assert holders(worker, "queue:q") == [ids[1]]


def test_a_slot_offered_to_a_job_that_was_just_paused_goes_on_at_the_next_wake(
    worker: InProcessWorker,
) -> None:
    ids = [job(worker, f"{graph}/x", queue="q") for graph in "abc"]
    worker.perform(ids[0], "worker", done)
    worker.perform(ids[0], "slot_release")
    assert worker.due_effects(ids[1], "scheduling"), "it was woken"
    worker.client.pause(ids[1])
    rest(worker, ids[0])

    later(worker, UNHEARD_MS)
    worker.dispatch.lifecycle.wake(ids[2], SCHEDULING, {"why": "a test"}, "look")
    rest(worker, ids[2])
    assert states(worker, *ids[1:]) == ["pending", "running"]
    assert holders(worker, "queue:q") == [ids[2]]


def test_the_slots_are_given_back_before_a_review_begins(worker: InProcessWorker) -> None:
    worker.graphs.open("g", {"slots": 1})
    first = job(worker, "g/first", queue="q", review={"command": "true"})
    second = job(worker, "g/second", queue="q")
    worker.perform(first, "worker", done)
    worker.perform(first, "scheduling")
    assert states(worker, first) == ["reviewing"]
    # The slot release uses the job's directory as the review does, and waits for its end.
    rest(worker, second)
    assert states(worker, first, second) == ["reviewing", "running"]
    assert (holders(worker, "graph:g"), holders(worker, "queue:q")) == ([second], [second])

    worker.perform(first, "reviewer")
    rest(worker, first, second)
    assert states(worker, first, second) == ["approval_required", "running"]
    assert (holders(worker, "graph:g"), holders(worker, "queue:q")) == ([second], [second])


def test_work_that_no_worker_began_counts_as_no_run_and_no_recovery_until_a_person_is_asked(
    worker: InProcessWorker,
) -> None:
    job_id = job(worker, "g/a", limits={"iterations": 1}, recoveries_max=0, queue="q")
    for time_no in range(1, UNBEGUN_MAX + 1):
        assert states(worker, job_id) == ["running"]
        assert worker.record(job_id).counters["tree.runs"] == 1
        later(worker, RUNNING_S * 1_000)
        sweep(worker, job_id)
        record = worker.record(job_id)
        assert (record.state, record.data["unbegun"]) == ("pending", time_no)
        assert (record.data["recoveries"], record.counters["tree.runs"]) == (0, 0)
        rest(worker, job_id)

    later(worker, RUNNING_S * 1_000)
    sweep(worker, job_id)
    rest(worker, job_id)
    record = worker.record(job_id)
    assert (record.state, record.data["failure"]["code"]) == ("intervention_required", "unbegun")
    assert record.counters["tree.runs"] == 0
    assert [card.record_id for card in worker.client.cards()] == [job_id]
    assert holders(worker, "queue:q") == []

    # After the person's decision the count starts again.
    worker.graphs.command(job_id, "resubmit", {"reason": "there are workers now"})
    rest(worker, job_id)
    assert worker.perform(job_id, "worker", done) == ["agent_completed -> approval_required"]
    assert (
        worker.record(job_id).data.get("unbegun", 0),
        worker.record(job_id).counters["tree.runs"],
    ) == (
        0,
        1,
    )


def test_an_effect_of_an_earlier_state_that_stops_is_no_beginning_of_this_one(
    worker: InProcessWorker,
) -> None:
    job_id = job(worker, "g/a")
    client, key = worker.dispatch.client, worker.dispatch.keys.record(job_id)
    [entry] = worker.due_effects(job_id, "worker")
    line = read(client, "HGET", key, f"e:{entry.suffix}").decode()
    name, kind, state, token, holder, countdown, reserved, attempts, *more = line.split(" ")
    assert (state, attempts) == ("owed", "0")
    stopping = [name, kind, "draining", token, holder, countdown, reserved, "1", *more]
    client.hset(key, "e:1.9", " ".join(stopping))

    later(worker, RUNNING_S * 1_000)
    sweep(worker, job_id)

    record = worker.record(job_id)
    assert (record.state, record.data["unbegun"]) == ("pending", 1)


def test_the_start_and_each_phase_are_signs_of_life_and_waiting_is_no_time_at_work(
    worker: InProcessWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phases = [{"name": name, "worker": {"command": "true"}} for name in "abcd"]
    options = {"folder": str(tmp_path), "limits": {"time_s": 600}, "running_s": 300}
    job_id = job(worker, "g/a", phases=phases, **options)
    seen: list[tuple[int, int]] = []

    async def slow(
        work: EffectWork, executor: ExecutorData, role: str, folder: Path
    ) -> AttemptResult:
        """Wait nearly as long as a job may be silent, first in the queue, then in each phase."""
        later(worker, WAITS_MS)
        sweep(worker, job_id)
        result = await run_attempt(work, executor, role, folder)
        left_ms = due_in_ms(worker, job_id, "limit")
        assert 0 <= 600_000 - left_ms < WAITS_MS, "only its own time of work counts"
        seen.append((due_in_ms(worker, job_id, "stall"), work.record.data["phase"]))
        return result

    monkeypatch.setattr(WORKER, "run_attempt", slow)
    assert worker.perform(job_id, "worker") == ["agent_completed -> approval_required"]
    assert seen == [(300_000, n) for n in range(4)]
    record = worker.record(job_id)
    assert (
        worker.count_events(job_id, "recovered"),
        worker.count_events(job_id, "limit_reached"),
    ) == (0, 0)
    assert record.counters["tree.time_ms"] < WAITS_MS


def test_jobs_that_are_scheduled_side_by_side_never_pass_a_limit_of_iterations(
    worker: InProcessWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.graphs.open("g", {"limits": {"iterations": 1}})
    ids = [worker.create_job(f"g/{name}", manual=False) for name in "ab"]
    for one in ids:
        worker.perform(one, "subscription")
        worker.perform(one, "cascade")
    both_looked = Barrier(2)

    def acquire_together(work: EffectWork, slots: Mapping[str, int]) -> list[str]:
        both_looked.wait(180)
        return acquire_slots(work, slots)

    monkeypatch.setattr(SCHEDULER, "acquire_slots", acquire_together)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: worker.perform(one, "scheduling"), ids))
    assert sorted(states(worker, *ids)) == ["pending", "running"]
    assert worker.record("g").counters["tree.runs"] == 1

    monkeypatch.setattr(SCHEDULER, "acquire_slots", acquire_slots)
    late = next(one for one in ids if worker.record(one).state == "pending")
    later(worker, UNHEARD_MS)
    worker.perform(late, "scheduling")
    assert (worker.record("g").state, states(worker, late)) == ("halted", ["pending"])
    assert worker.record(late).data["slots"] == ["limit:g"]
    worker.graphs.configure_graph("g", {"limits": {"iterations": 2}})
    rest(worker, "g", late)
    assert states(worker, *ids) == ["running", "running"]
    assert worker.record("g").counters["tree.runs"] == 2


def test_a_run_that_was_given_back_is_in_the_log_as_in_the_counters(
    worker: InProcessWorker,
) -> None:
    limits = {"limits": {"iterations": 2}}
    worker.graphs.open("g", limits)
    job_id = job(worker, "g/a", **limits)
    later(worker, RUNNING_S * 1_000)
    sweep(worker, job_id)
    rest(worker, job_id)
    worker.perform(job_id, "worker", done)
    rest(worker, job_id)
    assert [worker.record(one).counters["tree.runs"] for one in (job_id, "g")] == [1, 1]
    worker.check_consistency()


def test_jobs_whose_cost_may_exceed_the_graphs_limit_halt_the_graph_with_one_card(
    worker: InProcessWorker, tmp_path: Path
) -> None:
    worker.graphs.open("g", {"limits": {"cost_micro": 1_000_000}})
    phases = [{"worker": {"command": "echo >> runs", "cost_micro": 2_000_000}}]
    ids = [job(worker, f"g/{name}", phases=phases, folder=str(tmp_path)) for name in "ab"]
    for one in ids:
        worker.perform(one, "worker")
    rest(worker, "g", *ids)
    assert (worker.record("g").state, states(worker, *ids)) == ("halted", ["pending"] * 2)
    assert [card.record_id for card in worker.client.cards()] == ["g"]
    assert not (tmp_path / "runs").exists(), "no worker was started"

    # The jobs wait as long as the graph is halted, however often they are scheduled.
    later(worker, 3_600_000)
    sweep(worker, *ids)
    rest(worker, *ids)
    assert states(worker, *ids) == ["pending"] * 2
    assert [worker.record(one).data["slots"] for one in ids] == [["limit:g"]] * 2
    worker.graphs.configure_graph("g", {"limits": {"cost_micro": 9_000_000}})
    rest(worker, "g", *ids)
    assert states(worker, *ids) == ["running"] * 2
    assert [line for one in ids for line in worker.perform(one, "worker")] == [
        "agent_completed -> approval_required"
    ] * 2
    assert (tmp_path / "runs").read_text() == "\n\n"


def stuck_in_b(work: EffectWork) -> Outcome:
    """Complete the first phase, and be stuck in the second."""
    work.fire(Outcome("phase_completed", {"summary": "a is done"}))
    return Outcome("stuck", {"summary": "b cannot be done"})


def test_a_job_cannot_be_sent_to_a_phase_that_it_has_not_reached(worker: InProcessWorker) -> None:
    phases = [{"name": name, "worker": {"command": "true"}} for name in "abc"]
    job_id = worker.create_job("g/a", phases=phases)
    worker.run_until_idle(job_id)

    def refused(verb: str, phase: str) -> None:
        was = worker.record(job_id)
        with pytest.raises(JobCommandError, match="none of the phases that it has come to"):
            worker.graphs.command(job_id, verb, {"phase": phase, "reason": "on"})
        assert worker.record(job_id) == was

    refused("restep", "b")
    refused("restep", "c")
    worker.graphs.command(job_id, "suspend")
    refused("restep", "c")
    worker.graphs.command(job_id, "resume")
    worker.graphs.command(job_id, "step")
    worker.run_until_idle(job_id, worker=stuck_in_b)
    assert states(worker, job_id) == ["intervention_required"]
    refused("restep", "c")
    refused("resubmit", "c")
    worker.graphs.command(job_id, "resubmit", {"phase": "b", "reason": "it can"})
    assert worker.record(job_id).data["phase"] == 1

    worker.graphs.command(job_id, "run", {"to": "gate"})
    worker.run_until_idle(job_id, worker=done)
    assert states(worker, job_id) == ["approval_required"]
    refused("reject", "d")
    worker.graphs.command(job_id, "reject", {"phase": "a", "reason": "all of it"})
    assert worker.record(job_id).data["phase"] == 0
    refused("restep", "b")


def test_work_that_was_done_before_a_suspension_is_not_repeated_and_counts_no_run(
    worker: InProcessWorker, tmp_path: Path
) -> None:
    phases = [{"worker": {"command": "echo >> runs"}}]
    limits = {"iterations": 1}
    worker.graphs.open("g", {"limits": limits})
    job_id = worker.create_job(
        "g/a", phases=phases, manual=False, folder=str(tmp_path), limits=limits
    )
    worker.run_until_idle(job_id)
    assert states(worker, job_id) == ["approval_required"]

    resumed(worker, job_id)
    worker.run_until_idle(job_id, "g")
    assert (states(worker, job_id), worker.record("g").state) == (["approval_required"], "open")
    assert (tmp_path / "runs").read_text() == "\n"
    assert [worker.record(one).counters["tree.runs"] for one in (job_id, "g")] == [1, 1]


def message_for(job_id: str, **more: Any) -> dict[str, Any]:
    payload = {"phases": [{"worker": {"command": "true"}}], **more}
    return {"id": job_id, "machine": "job", "payload": payload}


def received(worker: InProcessWorker, request: dict[str, Any]) -> str:
    """Take a message in; return its answer as a line for people."""
    return one_line(receive(worker.client, "submit", [request], {}))


def test_a_graphs_own_message_is_accepted_after_one_of_its_jobs(worker: InProcessWorker) -> None:
    graph = {"id": "t", "machine": "graph", "payload": {"slots": 2}}
    assert received(worker, message_for("t/a")) == "accepted: t/a"
    assert received(worker, graph) == "accepted: t"
    assert worker.record("t").data["slots"] == 2


def test_a_job_that_is_refused_opens_no_graph(worker: InProcessWorker) -> None:
    phases = [{"worker": {"command": "true"}}]
    for payload in ({"phases": phases, "bogus": 1}, {"phases": phases, "depends_on": ["g/none"]}):
        with pytest.raises(CallError):
            worker.graphs.create("g/a", payload, held=False)
    with pytest.raises(CallError):
        worker.graphs.create("g/a b", {"phases": phases})
    assert worker.dispatch.views.records(["g"]) == {}
    assert Graphs(worker.client).names() == []


def test_two_jobs_of_a_file_may_not_share_a_directory(
    worker: InProcessWorker, tmp_path: Path
) -> None:
    steps = "".join(f"  - {{name: {name}, worker: 'true', dir: out}}\n" for name in "ab")
    path = tmp_path / "graph.yaml"
    path.write_text(f"graph: g\nsteps:\n{steps}")
    file = read_graph(path)
    with pytest.raises(CallError, match=f"two jobs would share the directory {tmp_path}/out"):
        worker.graphs.submit(file)
    assert worker.graphs.names() == []
