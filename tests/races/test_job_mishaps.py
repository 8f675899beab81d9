"""Regressions of jobs: lost ends, slots that were kept, exceeded limits, cycles, lost messages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from interlock.kernel.errors import CallError
from interlock.kernel.machines import MACHINES
from interlock.kernel.machines.jobs.effects import SCHEDULING
from interlock.kernel.machines.jobs.job.changes import UNBEGUN_MAX
from interlock.kernel.record import partition_of
from interlock.workers.engine.sweeps import stalls
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.intake import receive
from interlock.workers.jobs.attempt import AttemptResult, run_attempt
from interlock.workers.jobs.dependencies import unmet_dependencies
from interlock.workers.jobs.file.file import read_graph
from interlock.workers.jobs.graphs import Graphs, JobCommandError
from interlock.workers.jobs.slots import acquire_slots
from interlock.workers.jobs.view import STARVES, GraphView
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text
from tests.races.in_process_worker import Hands, done
from tests.races.test_job_slots import holders, job, queued_jobs, rest, states

UNHEARD_MS = 11_000
RUNNING_S = 1_800
RECHECK_MS = 900_000
# The package of effects has functions with the names of these modules.
SCHEDULER, WORKER = (
    import_module(f"interlock.workers.jobs.effects.{one}") for one in ("scheduling", "worker")
)


@pytest.fixture
def hands(server: EmbeddedServer, prefix: str, tmp_path: Path, text: Text) -> Hands:
    """Return a worker of this process, under a clock that stands still until the test moves it."""
    text.now_us = START_US
    given = {"INTERLOCK_QUEUE_SLOTS": "q=1", "INTERLOCK_DISK_FREE_MIN_MB": "0"}
    return Hands(server.url, prefix, tmp_path / "home", text=text, **given)


def now_us(hands: Hands) -> int:
    assert hands.text is not None
    return hands.text.now_us or START_US


def later(hands: Hands, ms: int) -> None:
    assert hands.text is not None
    hands.text.now_us = now_us(hands) + ms * 1_000


def sweep(hands: Hands, *ids: str) -> None:
    """Run the sweep of timers for these records."""
    for partition in {partition_of(one) for one in ids}:
        stalls.run(hands.dispatch, partition)


def due_in_ms(hands: Hands, job_id: str, name: str) -> int:
    timer = next(one for one in hands.record(job_id).timers if one.name == name)
    return timer.due_at - now_us(hands) // 1_000


def waits_for(hands: Hands, job_id: str) -> set[str]:
    return unmet_dependencies(hands.dispatch, MACHINES["job"], hands.record(job_id))


def resumed(hands: Hands, job_id: str) -> None:
    hands.graphs.command(job_id, "suspend")
    hands.graphs.command(job_id, "resume")


# --- dependencies ----------------------------------------------------------------------------


def test_a_job_that_is_resumed_after_a_success_was_pruned_waits_only_for_the_other(
    hands: Hands,
) -> None:
    gone, other = hands.job("a/gone"), hands.job("b/other")
    waits = hands.job("c/waits", depends_on=[gone, other], on_cancel="cancel", manual=False)
    hands.settle(gone, other, waits)
    hands.over(gone)
    hands.settle(gone, waits)
    assert hands.dispatch.indexes.prune(hands.record(gone), [], age_ms=0) == "pruned"

    resumed(hands, waits)
    hands.settle(waits)
    assert (hands.record(waits).state, waits_for(hands, waits)) == ("pending", {other})
    hands.over(other)
    hands.settle(other, waits, worker=done)
    record = hands.record(waits)
    assert (record.state, record.data["lost"]) == ("approval_required", {})
    assert hands.count(waits, "dependencies_met") == 1
    hands.sound()


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("draft", [True, False])
def test_a_job_that_was_suspended_before_anything_ended_waits_for_all_when_it_is_resumed(
    hands: Hands, *, draft: bool, settled: bool
) -> None:
    needed = [hands.job("a/one"), hands.job("b/two")]
    waits = hands.job("c/waits", activate=not draft, depends_on=needed)
    if settled:
        hands.settle(*needed, waits)
    resumed(hands, waits)
    hands.settle(*needed, waits)
    assert waits_for(hands, waits) == set(needed)

    hands.over(needed[0])
    hands.settle(*needed, waits)
    assert waits_for(hands, waits) == {needed[1]}
    assert not hands.record(waits).data["met"]
    hands.over(needed[1])
    hands.settle(*needed, waits)
    assert hands.record(waits).data["met"]
    assert hands.count(waits, "dependencies_met") == 1


def test_a_cycle_that_was_activated_by_its_cards_is_starved_and_asks_a_person(hands: Hands) -> None:
    ids = [hands.job("r/a", activate=False), hands.job("r/b", activate=False, depends_on=["r/a"])]
    behind = hands.job("s/behind", activate=False, depends_on=["r/b"])
    hands.graphs.configure("r/a", {"depends_on": ["r/b"]})
    for one in (*ids, behind):
        hands.client.decide(one, "activate", proposal=hands.record(one).proposal)
    hands.settle(*ids, behind)
    assert [hands.record(one).data["lost"] for one in ids] == [{}, {}]

    later(hands, RECHECK_MS)
    sweep(hands, *ids, behind)
    hands.settle(*ids, behind)
    lost = [hands.record(one).data["lost"] for one in (*ids, behind)]
    assert lost == [{"r/b": "cycle"}, {"r/a": "cycle"}, {}]
    status = GraphView(hands.graphs).status("r")
    assert (status["stands"], status["starved"]) == (STARVES, 2)
    assert [(one["id"], one["why"]) for one in status["asks"]] == [
        ("r/a", "starved: r/b is part of a cycle"),
        ("r/b", "starved: r/a is part of a cycle"),
    ]
    assert sorted(card.record_id for card in hands.client.cards()) == ids


def test_a_job_of_a_cycle_goes_on_when_a_person_waives_its_dependency(hands: Hands) -> None:
    ids = [hands.job("r/a", activate=False), hands.job("r/b", activate=False, depends_on=["r/a"])]
    hands.graphs.configure("r/a", {"depends_on": ["r/b"]})
    for one in ids:
        hands.client.decide(one, "activate", proposal=hands.record(one).proposal)
    hands.settle(*ids)
    later(hands, RECHECK_MS)
    sweep(hands, *ids)
    hands.settle(*ids)

    hands.graphs.command("r/a", "waive", {"reason": "goes first"})
    hands.settle(*ids)
    assert hands.record("r/a").data["met"]
    hands.over("r/a")
    hands.settle(*ids)
    hands.graphs.command("r/b", "waive", {"reason": "it is there by now"})
    hands.settle(*ids)
    assert hands.record("r/b").data["met"]
    assert [hands.countdowns(one) for one in ids] == [set(), set()]
    hands.sound()


def test_a_long_chain_of_waiting_jobs_is_no_cycle(hands: Hands) -> None:
    chain = [f"{'cd'[n % 2]}/{n:02}" for n in range(50)]
    for n, one in enumerate(chain):
        hands.job(one, depends_on=chain[n - 1 : n] if n else [])
    hands.settle(*chain)
    later(hands, RECHECK_MS)
    sweep(hands, *chain)
    assert all(hands.owed(one, "scheduling") for one in chain[1:]), "all are scheduled again"
    hands.settle(*chain)
    assert [hands.record(one).data["lost"] for one in chain] == [{}] * 50
    assert waits_for(hands, chain[-1]) == {chain[-2]}


# --- slots -----------------------------------------------------------------------------------


def spent(work: Work) -> Outcome:
    """Complete a job's work at a cost of one dollar."""
    del work
    return Outcome("agent_completed", {"summary": "done"}, {"spent": 1_000_000})


def test_a_job_of_a_halted_graph_passes_its_offered_slot_to_a_job_of_another_graph(
    hands: Hands,
) -> None:
    hands.graphs.open("g", {"limits": {"cost_micro": 1_000_000}})
    first, second = job(hands, "g/first", queue="q"), job(hands, "g/second", queue="q")
    other = job(hands, "h/other", queue="q")
    assert states(hands, first, second, other) == ["running", "pending", "pending"]

    hands.do(first, "worker", spent)
    rest(hands, first, second, other)
    assert hands.record("g").state == "halted"
    assert states(hands, second, other) == ["pending", "running"]
    assert hands.record(second).data["slots"] == ["limit:g"]
    assert (holders(hands, "queue:q"), queued_jobs(hands, "queue:q")) == ([other], [])

    hands.graphs.configure_graph("g", {"limits": {"cost_micro": 9_000_000}})
    rest(hands, "g", second)
    assert hands.record(second).data["slots"] == ["queue:q"]
    hands.do(other, "worker", done)
    rest(hands, other, second)
    assert states(hands, second) == ["running"]


def test_a_paused_job_in_a_queue_lets_the_next_one_pass_and_queues_again_afterwards(
    hands: Hands,
) -> None:
    ids = [job(hands, f"{graph}/x", queue="q") for graph in "abc"]
    hands.client.pause(ids[1])
    hands.do(ids[0], "worker", done)
    rest(hands, ids[0], ids[2])
    assert states(hands, *ids[1:]) == ["pending", "running"]
    assert holders(hands, "queue:q") == [ids[2]]

    hands.client.resume(ids[1])
    rest(hands, ids[1])
    assert states(hands, ids[1]) == ["pending"]
    hands.do(ids[2], "worker", done)
    rest(hands, ids[2], ids[1])
    assert states(hands, ids[1]) == ["running"]
    assert holders(hands, "queue:q") == [ids[1]]


def test_a_slot_offered_to_a_job_that_was_just_paused_goes_on_at_the_next_wake(
    hands: Hands,
) -> None:
    ids = [job(hands, f"{graph}/x", queue="q") for graph in "abc"]
    hands.do(ids[0], "worker", done)
    hands.do(ids[0], "vacancy")
    assert hands.owed(ids[1], "scheduling"), "it was woken"
    hands.client.pause(ids[1])
    rest(hands, ids[0])

    later(hands, UNHEARD_MS)
    hands.dispatch.owe(ids[2], SCHEDULING, {"why": "a test"}, "look")
    rest(hands, ids[2])
    assert states(hands, *ids[1:]) == ["pending", "running"]
    assert holders(hands, "queue:q") == [ids[2]]


def test_the_slots_are_given_back_before_a_review_begins(hands: Hands) -> None:
    hands.graphs.open("g", {"slots": 1})
    first = job(hands, "g/first", queue="q", review={"command": "true"})
    second = job(hands, "g/second", queue="q")
    hands.do(first, "worker", done)
    hands.do(first, "scheduling")
    assert states(hands, first) == ["reviewing"]
    # The slot release uses the job's directory as the review does, and waits for its end.
    rest(hands, second)
    assert states(hands, first, second) == ["reviewing", "running"]
    assert (holders(hands, "graph:g"), holders(hands, "queue:q")) == ([second], [second])

    hands.do(first, "reviewer")
    rest(hands, first, second)
    assert states(hands, first, second) == ["approval_required", "running"]
    assert (holders(hands, "graph:g"), holders(hands, "queue:q")) == ([second], [second])


# --- time ------------------------------------------------------------------------------------


def test_work_that_no_worker_began_counts_as_no_run_and_no_recovery_until_a_person_is_asked(
    hands: Hands,
) -> None:
    job_id = job(hands, "g/a", limits={"iterations": 1}, recoveries_max=0, queue="q")
    for time_no in range(1, UNBEGUN_MAX + 1):
        assert states(hands, job_id) == ["running"]
        assert hands.record(job_id).counters["tree.runs"] == 1
        later(hands, RUNNING_S * 1_000)
        sweep(hands, job_id)
        record = hands.record(job_id)
        assert (record.state, record.data["unbegun"]) == ("pending", time_no)
        assert (record.data["recoveries"], record.counters["tree.runs"]) == (0, 0)
        rest(hands, job_id)

    later(hands, RUNNING_S * 1_000)
    sweep(hands, job_id)
    rest(hands, job_id)
    record = hands.record(job_id)
    assert (record.state, record.data["failure"]["code"]) == ("intervention_required", "unbegun")
    assert record.counters["tree.runs"] == 0
    assert [card.record_id for card in hands.client.cards()] == [job_id]
    assert holders(hands, "queue:q") == []

    # After the person's decision the count starts again.
    hands.graphs.command(job_id, "resubmit", {"reason": "there are workers now"})
    rest(hands, job_id)
    assert hands.do(job_id, "worker", done) == ["agent_completed -> review_required"]
    assert (
        hands.record(job_id).data.get("unbegun", 0),
        hands.record(job_id).counters["tree.runs"],
    ) == (
        0,
        1,
    )


def test_the_start_and_each_phase_are_signs_of_life_and_waiting_is_no_time_at_work(
    hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phases = [{"name": name, "worker": {"command": "true"}} for name in "abcd"]
    options = {"folder": str(tmp_path), "limits": {"time_s": 600}, "running_s": 300}
    job_id = job(hands, "g/a", phases=phases, **options)
    seen: list[tuple[int, int]] = []

    async def slow(
        work: Work, executor: Mapping[str, Any], role: str, folder: Path
    ) -> AttemptResult:
        """Wait nearly as long as a job may be silent, first in the queue, then in each phase."""
        later(hands, 290_000)
        sweep(hands, job_id)
        result = await run_attempt(work, executor, role, folder)
        left_ms = due_in_ms(hands, job_id, "limit")
        assert 0 <= 600_000 - left_ms < 60_000, "only its own time of work counts"
        seen.append((due_in_ms(hands, job_id, "stall"), work.record.data["phase"]))
        return result

    monkeypatch.setattr(WORKER, "run_attempt", slow)
    assert hands.do(job_id, "worker") == ["agent_completed -> review_required"]
    assert seen == [(300_000, n) for n in range(4)]
    record = hands.record(job_id)
    assert (hands.count(job_id, "recovered"), hands.count(job_id, "limit_reached")) == (0, 0)
    assert record.counters["tree.time_ms"] < 60_000


# --- limits ----------------------------------------------------------------------------------


def test_jobs_that_are_scheduled_side_by_side_never_pass_a_limit_of_iterations(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands.graphs.open("g", {"limits": {"iterations": 1}})
    ids = [hands.job(f"g/{name}", manual=False) for name in "ab"]
    for one in ids:
        hands.do(one, "registration")
        hands.do(one, "cascade")
    both_looked = Barrier(2)

    def acquire_together(work: Work, slots: Mapping[str, int]) -> list[str]:
        both_looked.wait(10)
        return acquire_slots(work, slots)

    monkeypatch.setattr(SCHEDULER, "acquire_slots", acquire_together)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: hands.do(one, "scheduling"), ids))
    assert sorted(states(hands, *ids)) == ["pending", "running"]
    assert hands.record("g").counters["tree.runs"] == 1

    monkeypatch.setattr(SCHEDULER, "acquire_slots", acquire_slots)
    late = next(one for one in ids if hands.record(one).state == "pending")
    later(hands, UNHEARD_MS)
    hands.do(late, "scheduling")
    assert (hands.record("g").state, states(hands, late)) == ("halted", ["pending"])
    assert hands.record(late).data["slots"] == ["limit:g"]
    hands.graphs.configure_graph("g", {"limits": {"iterations": 2}})
    rest(hands, "g", late)
    assert states(hands, *ids) == ["running", "running"]
    assert hands.record("g").counters["tree.runs"] == 2


def test_a_run_that_was_given_back_is_in_the_log_as_in_the_counters(hands: Hands) -> None:
    limits = {"limits": {"iterations": 2}}
    hands.graphs.open("g", limits)
    job_id = job(hands, "g/a", **limits)
    later(hands, RUNNING_S * 1_000)
    sweep(hands, job_id)
    rest(hands, job_id)
    hands.do(job_id, "worker", done)
    rest(hands, job_id)
    assert [hands.record(one).counters["tree.runs"] for one in (job_id, "g")] == [1, 1]
    hands.sound()


def test_jobs_whose_cost_may_exceed_the_graphs_limit_halt_the_graph_with_one_card(
    hands: Hands, tmp_path: Path
) -> None:
    hands.graphs.open("g", {"limits": {"cost_micro": 1_000_000}})
    phases = [{"worker": {"command": "echo >> runs", "cost_micro": 2_000_000}}]
    ids = [job(hands, f"g/{name}", phases=phases, folder=str(tmp_path)) for name in "ab"]
    for one in ids:
        hands.do(one, "worker")
    rest(hands, "g", *ids)
    assert (hands.record("g").state, states(hands, *ids)) == ("halted", ["pending"] * 2)
    assert [card.record_id for card in hands.client.cards()] == ["g"]
    assert not (tmp_path / "runs").exists(), "no worker was started"

    # The jobs wait as long as the graph is halted, however often they are scheduled.
    later(hands, 3_600_000)
    sweep(hands, *ids)
    rest(hands, *ids)
    assert states(hands, *ids) == ["pending"] * 2
    assert [hands.record(one).data["slots"] for one in ids] == [["limit:g"]] * 2
    hands.graphs.configure_graph("g", {"limits": {"cost_micro": 9_000_000}})
    rest(hands, "g", *ids)
    assert states(hands, *ids) == ["running"] * 2
    assert [line for one in ids for line in hands.do(one, "worker")] == [
        "agent_completed -> review_required"
    ] * 2
    assert (tmp_path / "runs").read_text() == "\n\n"


# --- going back ------------------------------------------------------------------------------


def stuck_in_b(work: Work) -> Outcome:
    """Complete the first phase, and be stuck in the second."""
    work.fire(Outcome("phase_completed", {"summary": "a is done"}))
    return Outcome("stuck", {"summary": "b cannot be done"})


def test_a_job_cannot_be_sent_to_a_phase_that_it_has_not_reached(hands: Hands) -> None:
    phases = [{"name": name, "worker": {"command": "true"}} for name in "abc"]
    job_id = hands.job("g/a", phases=phases)
    hands.settle(job_id)

    def refused(verb: str, phase: str) -> None:
        was = hands.record(job_id)
        with pytest.raises(JobCommandError, match="names a phase that it has"):
            hands.graphs.command(job_id, verb, {"phase": phase, "reason": "on"})
        assert hands.record(job_id) == was

    refused("restep", "b")
    refused("restep", "c")
    hands.graphs.command(job_id, "suspend")
    refused("restep", "c")
    hands.graphs.command(job_id, "resume")
    hands.graphs.command(job_id, "step")
    hands.settle(job_id, worker=stuck_in_b)
    assert states(hands, job_id) == ["intervention_required"]
    refused("restep", "c")
    refused("resubmit", "c")
    hands.graphs.command(job_id, "resubmit", {"phase": "b", "reason": "it can"})
    assert hands.record(job_id).data["phase"] == 1

    hands.graphs.command(job_id, "run", {"to": "gate"})
    hands.settle(job_id, worker=done)
    assert states(hands, job_id) == ["approval_required"]
    refused("reject", "d")
    hands.graphs.command(job_id, "reject", {"phase": "a", "reason": "all of it"})
    assert hands.record(job_id).data["phase"] == 0
    refused("restep", "b")


def test_work_that_was_done_before_a_suspension_is_not_repeated_and_counts_no_run(
    hands: Hands, tmp_path: Path
) -> None:
    phases = [{"worker": {"command": "echo >> runs"}}]
    limits = {"iterations": 1}
    hands.graphs.open("g", {"limits": limits})
    job_id = hands.job("g/a", phases=phases, manual=False, folder=str(tmp_path), limits=limits)
    hands.settle(job_id)
    assert states(hands, job_id) == ["approval_required"]

    resumed(hands, job_id)
    hands.settle(job_id, "g")
    assert (states(hands, job_id), hands.record("g").state) == (["approval_required"], "open")
    assert (tmp_path / "runs").read_text() == "\n"
    assert [hands.record(one).counters["tree.runs"] for one in (job_id, "g")] == [1, 1]


# --- create ----------------------------------------------------------------------------------


def message_for(job_id: str, **more: Any) -> dict[str, Any]:
    payload = {"phases": [{"worker": {"command": "true"}}], **more}
    return {"id": job_id, "machine": "job", "payload": payload}


def test_a_message_that_arrives_before_that_of_its_dependency_is_accepted(hands: Hands) -> None:
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(receive, hands.client, [message_for("t/b", depends_on=["t/a"])], {})
        time.sleep(0.3)  # the workload: the message of the dependency comes this much later
        assert not early.done(), "it was refused at once"
        assert receive(hands.client, [message_for("t/a")], {}) == "accepted: t/a"
        assert early.result(10) == "accepted: t/b"
    assert sum(hands.dispatch.aside.counts().values()) == 0


def test_a_graphs_own_message_is_accepted_after_one_of_its_jobs(hands: Hands) -> None:
    graph = {"id": "t", "machine": "graph", "payload": {"slots": 2}}
    assert receive(hands.client, [message_for("t/a")], {}) == "accepted: t/a"
    assert receive(hands.client, [graph], {}) == "accepted: t"
    assert hands.record("t").data["slots"] == 2


def test_a_job_that_is_refused_opens_no_graph(hands: Hands) -> None:
    phases = [{"worker": {"command": "true"}}]
    for payload in ({"phases": phases, "bogus": 1}, {"phases": phases, "depends_on": ["g/none"]}):
        with pytest.raises(CallError):
            hands.graphs.create("g/a", payload, held=False)
    with pytest.raises(CallError):
        hands.graphs.create("g/a b", {"phases": phases})
    assert hands.dispatch.views.records(["g"]) == {}
    assert Graphs(hands.client).names() == []


def test_two_jobs_of_a_file_may_not_share_a_directory(hands: Hands, tmp_path: Path) -> None:
    steps = "".join(f"  - {{name: {name}, worker: 'true', dir: out}}\n" for name in "ab")
    path = tmp_path / "graph.yaml"
    path.write_text(f"graph: g\nsteps:\n{steps}")
    file = read_graph(path)
    with pytest.raises(CallError, match=f"two jobs would share the directory {tmp_path}/out"):
        hands.graphs.submit(file)
    assert hands.graphs.names() == []
