"""Graphs from files: created completely or not at all, repeated, and exported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.kernel.errors import IdTakenError
from interlock.systems.jobs.admission import CycleError, UnknownDependencyError
from interlock.systems.jobs.file.writer import graph_text
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.specs.problems import FileError
from tests.races.in_process_worker import Calls, InProcessWorker, LostError
from tests.systems.jobs.test_graphs import CHAIN, COMMAND, as_ann, stored, written

NewWorker = Callable[[], InProcessWorker]


@pytest.fixture
def new_worker(server: EmbeddedServer, prefix: str, tmp_path: Path) -> NewWorker:
    """Return a function that makes a worker on a store of its own, with a home in this folder."""
    made: list[InProcessWorker] = []

    def make() -> InProcessWorker:
        made.append(InProcessWorker(server.url, f"{prefix}{len(made)}", tmp_path / "home"))
        return made[-1]

    return make


@pytest.fixture
def worker(new_worker: NewWorker) -> InProcessWorker:
    return new_worker()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "graph.yaml"


def test_a_graph_is_created_whole_and_active_and_again_changes_nothing(
    worker: InProcessWorker, file: Path
) -> None:
    graph_file = written(file)

    done = worker.graphs.submit(graph_file)
    before = stored(worker)
    again = worker.graphs.submit(graph_file)

    assert [(one.id, one.replayed) for one in done.jobs] == [
        ("g/c", False),
        ("g/a", False),
        ("g/b", False),
    ]
    assert all(one.replayed for one in again.jobs)
    assert stored(worker) == before
    assert {job.state for job in worker.graphs.jobs("g")} == {"pending"}
    c = worker.graphs.job("g/c")
    assert (c.priority, c.data["depends_on"], c.data["recoveries_max"]) == (2, ["g/b", "g/a"], 1)
    assert c.data["stewards"] == ["ann"]
    assert c.data["dir"] == str(file.parent / "out" / "c")
    own = worker.graphs.graph("g")
    assert own is not None
    limits = {"cost_micro": 1_500_000, "time_s": 600, "iterations": 9}
    assert (own.data["slots"], own.data["limits"], own.counters["cap.spent"]) == (
        2,
        limits,
        1_500_000,
    )


def test_a_file_with_errors_names_each_with_its_line_and_nothing_is_written(
    worker: InProcessWorker, file: Path
) -> None:
    text = (
        "graph: g\n"
        "slot: 2\n"
        "steps:\n"
        "  - {name: a, worker: {command: x}, retries: many}\n"
        "  - {name: a, worker: {command: x}}\n"
        "  - {name: b, depends_on: [aa], worker: {}}\n"
        "  - {name: c, depends_on: [d], worker: {command: x}}\n"
        "  - {name: d, depends_on: [c], worker: {command: x}}\n"
        "  - {name: e}\n"
    )
    before = stored(worker)

    with pytest.raises(FileError) as refused:
        worker.graphs.submit(written(file, text))

    lines = str(refused.value).splitlines()
    assert {problem.line for problem in refused.value.problems} == {2, 4, 5, 6, 7, 9}
    assert any("c -> d -> c is a cycle" in line for line in lines)
    assert any("did you mean 'a'?" in line for line in lines)
    assert stored(worker) == before


def test_dependencies_in_other_graphs_are_checked_before_anything_is_written(
    worker: InProcessWorker, file: Path
) -> None:
    graphs = worker.graphs
    graphs.create("h/x", {"phases": COMMAND, "depends_on": []})
    before = stored(worker)
    steps = "steps:\n  - {name: a, worker: {command: x}}\n  - {name: b, worker: {command: x}, "

    with pytest.raises(UnknownDependencyError, match="g/b depends on 'h/y', and there is no such"):
        graphs.submit(written(file, f"graph: g\n{steps}depends_on: [a, h/y]}}\n"))
    assert stored(worker) == before

    graphs.submit(written(file, f"graph: g\n{steps}depends_on: [a, h/x]}}\n"))
    assert graphs.job("g/b").data["depends_on"] == ["g/a", "h/x"]


def test_a_cycle_through_another_graph_is_refused_before_anything_is_written(
    worker: InProcessWorker, file: Path
) -> None:
    graphs = worker.graphs
    graphs.create("g/b", {"phases": COMMAND})
    graphs.create("h/x", {"phases": COMMAND, "depends_on": ["g/b"]})
    graphs.create("h/y", {"phases": COMMAND, "depends_on": ["h/x"]})
    graphs.configure("g/b", {"depends_on": ["h/y"]})
    before = stored(worker)
    text = "graph: f\nsteps: [{name: a, worker: {command: x}, depends_on: [h/y]}]\n"

    with pytest.raises(CycleError):
        graphs.submit(written(file, text))

    assert stored(worker) == before


def test_another_payload_for_a_known_job_is_refused_before_anything_is_written(
    worker: InProcessWorker, file: Path
) -> None:
    worker.graphs.submit(written(file))
    before = stored(worker)
    new = "steps:\n  - {name: d, worker: {command: x}}\n"
    more = CHAIN.replace("echo a", "echo b").replace("steps:\n", new)

    with pytest.raises(IdTakenError, match="the name 'g/a' is taken"):
        worker.graphs.submit(written(file, more))
    with pytest.raises(IdTakenError, match="the name 'g' is taken"):
        worker.graphs.submit(written(file, CHAIN.replace("slots: 2", "slots: 3")))

    assert stored(worker) == before


def test_a_submission_that_was_killed_anywhere_is_completed_by_repeating_it(
    new_worker: NewWorker, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph_file, calls, cut = written(file), Calls(monkeypatch), 0
    killed = True
    while killed:
        worker = new_worker()
        killed = False
        try:
            with calls.lost_after(cut):
                worker.graphs.submit(graph_file)
        except LostError:
            killed = True

        worker.graphs.submit(graph_file)

        assert {job.id: job.state for job in worker.graphs.jobs("g")} == {
            f"g/{name}": "pending" for name in "abc"
        }
        assert [worker.count_events(f"g/{name}", "activate") for name in "abc"] == [1, 1, 1]
        cut += 1
    # At least one graph, three jobs and three activations are written.
    assert cut > 7


def test_a_graph_comes_back_from_its_export_as_it_was(new_worker: NewWorker, file: Path) -> None:
    source, target = new_worker(), new_worker()
    source.graphs.submit(written(file), activate=False)
    source.graphs.configure("g/a", {"description": "changed", "review": {"command": "true"}})
    as_ann(source).configure_graph("g", {"slots": 5})
    text = graph_text("g", *source.graphs.exported("g"))

    target.graphs.submit(written(file, text), activate=False)

    assert graph_text("g", *target.graphs.exported("g")) == text
    for job in source.graphs.jobs("g"):
        assert target.record(job.id).data == job.data
        assert target.record(job.id).priority == job.priority
    own, other = source.record("g"), target.record("g")
    assert own.data == other.data
    assert own.data["slots"] == 5


def test_a_cycle_is_not_started_by_repeating_a_file(worker: InProcessWorker, file: Path) -> None:
    graphs = worker.graphs
    steps = "steps: [{name: a, worker: {command: x}}, {name: b, worker: {command: x}}]"
    graph_file = written(file, f"graph: g\n{steps}\n")
    graphs.submit(graph_file, activate=False)
    graphs.configure("g/a", {"depends_on": ["g/b"]})
    graphs.configure("g/b", {"depends_on": ["g/a"]})

    with pytest.raises(CycleError):
        graphs.submit(graph_file)

    assert {graphs.job(job_id).state for job_id in ("g/a", "g/b")} == {"draft"}
