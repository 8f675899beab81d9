"""Jobs end to end: real workers, real commands, one graph at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import IdTakenError
from interlock.systems.jobs.client import Graphs
from interlock.systems.jobs.file.file import read_graph
from interlock.systems.jobs.manifest import manifest_now
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, written
from tests.processes import is_alive


@pytest.fixture
def jobs(joint_deployment: Deployment) -> Deployment:
    """Return a deployment that the tests of this module share, each with its own graphs."""
    return joint_deployment


def job(folder: Path, command: str = "true", *, name: str = "a", **more: Any) -> dict[str, Any]:
    found = {"phases": [{"worker": {"command": command}}], "folder": str(folder)}
    return {**found, "dir": str(folder / "out" / name), "auto_approve": True, **more}


def triggers(deployment: Deployment, job_id: str) -> list[str]:
    return [event.trigger for event in deployment.events(job_id)]


def test_a_job_runs_is_reviewed_and_signed_off(jobs: Deployment, tmp_path: Path) -> None:
    g = jobs.scope
    jobs.client.submit(job(tmp_path, "echo done > made.txt"), id=f"{g}/a", machine="job")
    jobs.reaches(f"{g}/a", "success")
    assert triggers(jobs, f"{g}/a") == [
        "created",
        "activate",
        "dependencies_met",
        "scheduled",
        "agent_completed",
        "step",
        "review_completed",
        "approve",
    ]
    assert (tmp_path / "made.txt").read_text() == "done\n"


def test_a_fan_out_and_a_fan_in_run_in_order_within_their_slots(
    jobs: Deployment, tmp_path: Path
) -> None:
    g = jobs.scope
    graphs = Graphs(jobs.client)
    graphs.open(g, {"slots": 2})
    note = 'echo "$INTERLOCK_JOB_ID" >> order.txt'
    fan = [f"{g}/b{n}" for n in range(6)]
    # The first waits until a second one runs beside it.
    meet = "until [ -e met ] || [ $(ls -d at* | wc -l) -ge 2 ]; do sleep 0.02; done; touch met"
    busy = f"mkdir at$$; {meet}; ls -d at* | wc -l >> most.txt; sleep 0.2; rmdir at$$"
    graphs.create(f"{g}/a", {**job(tmp_path, note, name="a")})
    for one in fan:
        graphs.create(
            one, job(tmp_path, f"{busy}; {note}", name=one.partition("/")[2], depends_on=[f"{g}/a"])
        )
    graphs.create(f"{g}/c", job(tmp_path, note, name="c", depends_on=fan))
    for one in (f"{g}/c", *fan, f"{g}/a"):
        graphs.command(one, "activate")
    jobs.reaches(f"{g}/c", "success")
    order = (tmp_path / "order.txt").read_text().split()
    assert order[0] == f"{g}/a"
    assert order[-1] == f"{g}/c"
    assert sorted(order[1:-1]) == sorted(fan)
    assert max(map(int, (tmp_path / "most.txt").read_text().split())) == 2
    for one in (f"{g}/a", *fan, f"{g}/c"):
        assert triggers(jobs, one).count("dependencies_met") == 1


def test_a_canceled_dependency_starves_until_a_person_waives_it(
    jobs: Deployment, tmp_path: Path
) -> None:
    g, h, other = (f"{jobs.scope}-{name}" for name in ("g", "h", "other"))
    graphs = Graphs(jobs.client)
    graphs.create(f"{other}/x", job(tmp_path, name="x"))
    graphs.create(f"{g}/y", job(tmp_path, name="y", depends_on=[f"{other}/x"]))
    graphs.create(f"{h}/z", job(tmp_path, name="z", depends_on=[f"{other}/x"], on_cancel="cancel"))
    graphs.command(f"{g}/y", "activate")
    graphs.command(f"{h}/z", "activate")
    graphs.command(f"{other}/x", "cancel", {"reason": "not wanted"})
    jobs.reaches(f"{h}/z", "canceled")
    jobs.sees(lambda: bool(jobs.client.show(f"{g}/y").data["lost"]), what="it is starved")
    shown = {card.record_id for card in jobs.client.cards()}
    assert shown & {f"{other}/x", f"{g}/y", f"{h}/z"} == {f"{g}/y"}
    graphs.command(f"{g}/y", "waive", {"reason": "goes without"})
    jobs.reaches(f"{g}/y", "success")
    assert triggers(jobs, f"{g}/y").count("dependencies_met") == 1


def test_a_suspended_job_stops_its_worker_and_goes_on_later(
    jobs: Deployment, tmp_path: Path
) -> None:
    g = jobs.scope
    graphs = Graphs(jobs.client)
    worker = "echo $$ > pid; test -e go || sleep 60; echo done > made.txt"
    graphs.create(f"{g}/a", job(tmp_path, worker, name="a"), held=False)
    jobs.reaches(f"{g}/a", "running")
    pid = int(jobs.sees(lambda: written(tmp_path / "pid"), what="its command runs"))
    graphs.command(f"{g}/a", "suspend", {"reason": "wait"})
    jobs.sees(lambda: not is_alive(pid), what="its command has ended")
    (tmp_path / "go").touch()
    graphs.command(f"{g}/a", "resume")
    jobs.reaches(f"{g}/a", "success")


def test_a_killed_worker_is_recovered_and_its_command_dies_with_it(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    jobs = new_deployment().full()
    graphs = Graphs(jobs.client)
    worker = "echo $$ >> pids; test $INTERLOCK_JOB_RUN = 2 || sleep 60"
    graphs.create("g/a", job(tmp_path, worker, name="a"), held=False)
    pid = int(jobs.sees(lambda: written(tmp_path / "pids"), what="its command runs"))
    jobs.processes[0].kill()
    jobs.sees(lambda: not is_alive(pid), what="its command has ended")
    jobs.worker()
    jobs.reaches("g/a", "success")
    assert triggers(jobs, "g/a").count("recovered") == 1


def test_a_time_limit_stops_a_worker_and_asks_a_person(jobs: Deployment, tmp_path: Path) -> None:
    g = jobs.scope
    graphs = Graphs(jobs.client)
    graphs.create(f"{g}/a", job(tmp_path, "sleep 60", name="a", limits={"time_s": 1}), held=False)
    jobs.reaches(f"{g}/a", "intervention_required")
    assert jobs.client.card(f"{g}/a") is not None
    graphs.command(f"{g}/a", "resubmit", {"limits": {"time_s": 100}, "reason": "again"})
    jobs.reaches(f"{g}/a", "running")
    graphs.command(f"{g}/a", "force-success", {"reason": "enough"})
    jobs.reaches(f"{g}/a", "success")


def test_the_manifest_says_what_the_log_says(jobs: Deployment, tmp_path: Path) -> None:
    g = jobs.scope
    graphs = Graphs(jobs.client)
    phases = [{"name": n, "worker": {"command": f"echo {n}"}} for n in ("plan", "build")]
    graphs.create(f"{g}/a", job(tmp_path, name="a", phases=phases), held=False)
    jobs.reaches(f"{g}/a", "success")
    path = tmp_path / "out" / "a" / "job_manifest.json"
    jobs.sees(
        lambda: (
            path.exists()
            and json.loads(path.read_text()) == manifest_now(jobs.client.records, f"{g}/a")
        ),
        what="the manifest says the same",
    )
    found = json.loads(path.read_text())
    assert found["status"] == "SUCCESS"
    assert [(e["phase"], e["status"]) for e in found["history"]] == [
        ("plan", "SUCCESS"),
        ("build", "REVIEW_REQUIRED"),
        ("build", "APPROVAL_REQUIRED"),
        ("build", "SUCCESS"),
    ]


def test_a_full_disk_suspends_a_job_before_it_begins(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment(INTERLOCK_DISK_FREE_MIN_MB=str(10**12)).full()
    Graphs(deployment.client).create("g/a", job(tmp_path, "touch made"), held=False)
    record = deployment.reaches("g/a", "suspended")
    assert not (tmp_path / "made").exists()
    event = deployment.events("g/a")[-1]
    assert (event.trigger, event.cause.actor) == ("suspend", "worker")
    assert "INTERLOCK_DISK_FREE_MIN_MB" in event.payload["reason"]
    assert record.data["phase"] == 0


def test_a_file_of_ten_jobs_is_created_whole_or_not_at_all(
    jobs: Deployment, tmp_path: Path
) -> None:
    f, h = (f"{jobs.scope}-{name}" for name in ("f", "h"))
    graphs = Graphs(jobs.client)
    text = f"graph: {f}\ndir: out\ndefaults: {{auto_approve: true}}\nsteps:\n"
    steps = [
        f"  - {{name: s{n}, worker: 'true', depends_on: [{deps}]}}\n"
        for n, deps in [(0, ""), (1, "s0"), (2, "s0"), (3, "s1, s2")]
    ]
    path = tmp_path / "graph.yaml"
    path.write_text(text + "".join(steps))
    file = read_graph(path)
    graphs.create(f"{f}/s3", job(tmp_path, "false", name="s3"))
    with pytest.raises(IdTakenError, match=f"{f}/s3"):
        graphs.submit(file)
    assert [one.id for one in graphs.jobs(f)] == [f"{f}/s3"]
    path.write_text((text + "".join(steps)).replace(f"graph: {f}", f"graph: {h}"))
    file = read_graph(path)
    graphs.submit(file)
    jobs.reaches(f"{h}/s3", "success")
    assert all(one.replayed for one in graphs.submit(file).jobs)
