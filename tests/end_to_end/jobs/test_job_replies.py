"""Valid and invalid replies of workers and reviewers, by real commands.

The tests share a deployment, and each has a graph of its own there.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.event import Note
from interlock.systems.jobs.manifest import manifest_now
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.engine.test_stranding import due
from tests.end_to_end.jobs.bench import (
    ASKS_A_PERSON,
    HANGS,
    Bench,
    answers,
    first_run,
    last,
    triggers,
)
from tests.processes import is_alive

REPLY = '"$INTERLOCK_JOB_REPLY"'
DIR = '"$INTERLOCK_JOB_DIR"'
QUIET_S = 80
WRONG = "its reply is invalid: "


def wrote(*files: str) -> str:
    """Return a command that replies with these evidence files, as worker or as reviewer."""
    shown = {"action": "COMPLETED", "evidence_files": list(files)}
    as_reviewer = answers(verdict="APPROVAL_REQUIRED", **shown)
    return f"if [ $INTERLOCK_JOB_ROLE = worker ]; then {answers(**shown)}; else {as_reviewer}; fi"


# A command, and the fault that is shown to a person.
FAULTS: Mapping[str, tuple[str, str]] = {
    "no JSON": (f"echo done > {REPLY}", "it is not JSON: Expecting value"),
    "half a reply": (f"echo '{{\"action\": ' > {REPLY}", "it is not JSON: "),
    "no text": (f"printf '\\377\\376\\0' > {REPLY}", "it is not JSON: "),
    "a list": (f"echo '[]' > {REPLY}", "it is list, not a JSON object"),
    "too deep": (f"printf '[%.0s' $(seq 100000) > {REPLY}", "it is not JSON: "),
    "too large": (f"yes | head -c 262145 > {REPLY}", "it has more than 262144 bytes"),
    "a folder": (f"mkdir {REPLY}", "it cannot be read: it is no plain file"),
    "a pipe": (f"mkfifo {REPLY}", "it cannot be read: it is no plain file"),
    "a device": (f"ln -s /dev/zero {REPLY}", "it cannot be read: it is no plain file"),
    "nothing in it": (f"echo '{{}}' > {REPLY}", "it has no action; write it"),
    "another field": (
        answers(action="COMPLETED", sumary="x"),
        "'sumary' is not a field here; did you mean 'summary'?",
    ),
    "another action": (
        answers(action="DONE"),
        "action: 'DONE': write COMPLETED, STUCK or RETRY",
    ),
    "another status": (
        answers(action="STUCK", status="success"),
        "status: 'success': it is none of DRAFT, PENDING",
    ),
    "a cost in words": (
        answers(action="STUCK", cost="much"),
        "cost: 'much': write a number",
    ),
    "a cost below 0": (
        answers(action="STUCK", cost=-1),
        "cost: -1: write 0 or more",
    ),
    "no number": (
        answers(action="STUCK", cost=float("nan")),
        "cost: nan: write a number",
    ),
    "a limit that is none": (
        answers(action="STUCK", rate_limited=True),
        "rate_limited: only a RETRY may set it",
    ),
    "a long summary": (
        answers(action="STUCK", summary="x" * 1_001),
        f"summary: '{'x' * 29}…{'x' * 28}': it has 1001 characters, at most 1000",
    ),
    "two faults": (
        answers(action="STUCK", retry_after_s=-1, cost=-1),
        "cost: -1: write 0 or more; retry_after_s: -1: write 0 or more",
    ),
    "too much evidence": (
        wrote(*map(str, range(201))),
        "evidence_files: ['0', '1', '2', '3', ",
    ),
    "evidence above": (
        wrote("../made"),
        "evidence_files: ../made: the path has '..', which leads out of the folder",
    ),
    "evidence elsewhere": (
        wrote("/etc/hostname"),
        "evidence_files: /etc/hostname: the path is absolute",
    ),
    "evidence of nothing": (
        wrote("made"),
        "evidence_files: made: no such file or directory",
    ),
    "evidence by a link": (
        f"ln -s /etc/hostname {DIR}/made; {wrote('made')}",
        "evidence_files: made: the path leads out of the folder by a link",
    ),
    "evidence in a pipe": (
        f"mkfifo {DIR}/made; {wrote('made')}",
        "evidence_files: made: the path is no plain file",
    ),
    "a folder as evidence": (
        f"mkdir {DIR}/made; {wrote('made')}",
        "evidence_files: made: the path is no plain file",
    ),
    "huge evidence": (
        f"truncate -s 67108865 {DIR}/made; {wrote('made')}",
        "evidence_files: made: the file has more than 67108864 bytes",
    ),
}
# One that cannot be read, one that is refused, and one whose evidence is refused: the replies of
# workers and reviewers are read by the same functions, and workers get all of these faults.
OF_BOTH = ("no JSON", "another action", "evidence by a link")
OF_REVIEWERS: Mapping[str, tuple[str, str]] = {
    "no verdict": (
        answers(action="COMPLETED"),
        "verdict: a COMPLETED review needs one: APPROVAL_REQUIRED or INTERVENTION_REQUIRED",
    ),
    "another verdict": (
        answers(action="COMPLETED", verdict="SUCCESS"),
        "verdict: 'SUCCESS': it is none of APPROVAL_REQUIRED, INTERVENTION_REQUIRED",
    ),
    "a verdict in small letters": (
        answers(action="COMPLETED", verdict="approval_required"),
        "verdict: 'approval_required': it is none of APPROVAL_REQUIRED",
    ),
    "no reasons": (
        answers(action="COMPLETED", verdict="INTERVENTION_REQUIRED"),
        "reasons: say why an intervention is required",
    ),
    "a reason that is no list": (
        answers(action="COMPLETED", verdict="INTERVENTION_REQUIRED", reasons="no"),
        "reasons: 'no': write a list",
    ),
}


@pytest.fixture
def bench(joint_deployment: Deployment, tmp_path: Path) -> Bench:
    return Bench(joint_deployment, tmp_path)


def read(file: Path) -> Any:
    return json.loads(file.read_text())


def test_an_invalid_reply_of_a_worker_asks_a_person_and_names_the_fault(bench: Bench) -> None:
    jobs = {name: bench.new(f"w{n}", FAULTS[name][0]) for n, name in enumerate(FAULTS)}

    found = {name: bench.stops(job_id) for name, job_id in jobs.items()}

    wrong = {
        name: (code, detail)
        for name, (code, detail) in found.items()
        if code != "invalid_reply" or not detail.startswith(WRONG + FAULTS[name][1])
    }
    assert wrong == {}
    for job_id in jobs.values():
        card = bench.deployment.client.card(job_id)
        assert card is not None
        assert WRONG in card.question
        assert bench.graphs.job(job_id).data["runs"] == 1


def test_an_invalid_reply_of_a_reviewer_asks_a_person_and_names_the_fault(bench: Bench) -> None:
    faults = {**{name: FAULTS[name] for name in OF_BOTH}, **OF_REVIEWERS}
    reviews = {name: {"command": command} for name, (command, _) in faults.items()}
    jobs = {name: bench.new(f"r{n}", review=reviews[name]) for n, name in enumerate(faults)}

    found = {name: bench.stops(job_id)[1] for name, job_id in jobs.items()}

    wrong = {
        name: detail
        for name, detail in found.items()
        if faults[name][1] not in detail or "reply is invalid: " not in detail
    }
    assert wrong == {}
    for job_id in jobs.values():
        assert bench.graphs.job(job_id).data["review_result"]["verdict"] == ASKS_A_PERSON
        assert bench.graphs.job(job_id).data["runs"] == 1


def test_a_reply_of_the_run_before_does_not_count_for_this_run(bench: Bench) -> None:
    job_id = bench.new(
        "a", f"test $INTERLOCK_JOB_RUN = 2 || {answers(action='STUCK', summary='no')}"
    )
    bench.stops(job_id)
    bench.graphs.command(job_id, "resubmit")

    record = bench.reaches(job_id, "success")

    assert record.data["runs"] == 2


def test_a_reviewer_that_retries_runs_again_later_and_its_old_reply_does_not_count(
    bench: Bench,
) -> None:
    again = answers(action="RETRY", summary="the model is busy", retry_after_s=2)
    review = {"command": f"test -e asked || {{ touch asked; {again}; }}"}
    job_id = bench.new("a", review=review, retry_delay_s=1)

    bench.reaches(job_id, "success")

    reviews = [one for one in bench.deployment.events(job_id) if one.source == "reviewing"]
    assert [one.trigger for one in reviews] == ["retry", "review_completed"]
    assert reviews[1].at_ms - reviews[0].at_ms >= 2_000
    assert bench.graphs.job(job_id).data["runs"] == 1


def test_without_a_reply_the_exit_code_decides(bench: Bench) -> None:
    once = {"retries_max": 0}
    completed = bench.new("zero", "echo first; echo made it")
    failed = bench.new("three", "echo boom >&2; exit 3")
    silent = bench.new("four", "exit 4")
    killed = bench.new("killed", "kill -KILL $$")
    ended = bench.new("ended", "kill -TERM $$")
    again = bench.new("again", "echo busy; exit 75", retries_max=1, retry_delay_s=1)
    late = bench.new("late", "exit 124", **once)

    assert bench.reaches(completed, "success").data["summary"] == "first made it"
    assert bench.stops(failed) == ("stuck", "exit code 3: boom")
    assert bench.stops(silent) == ("stuck", "exit code 4: no output")
    assert bench.stops(killed) == ("stuck", "exit code 137: no output")
    assert bench.stops(ended) == ("stuck", "exit code 143: no output")
    assert bench.stops(again) == ("stuck", "exit code 75: busy")
    assert triggers(bench.deployment, again).count("scheduled") == 2
    assert bench.stops(late) == ("stuck", "exit code 124: no output")
    assert last(bench.deployment, late, "retry").target == ASKS_A_PERSON


def test_a_reply_counts_whatever_the_exit_code_says(bench: Bench) -> None:
    completed = bench.new("completed", f"{answers(action='COMPLETED', summary='it is')}; exit 3")
    stuck = bench.new("stuck", answers(action="STUCK", summary="which key?"))
    again = answers(action="RETRY", summary="the disk is away", retry_after_s=3)
    retried = bench.new("retried", f"test $INTERLOCK_JOB_RUN = 2 || {again}", retry_delay_s=1)

    assert bench.reaches(completed, "success").data["summary"] == "it is"
    assert bench.stops(stuck) == ("stuck", "which key?")
    bench.reaches(retried, "success")
    waited_ms = last(bench.deployment, retried, "backoff_elapsed").at_ms
    waited_ms -= last(bench.deployment, retried, "retry").at_ms
    assert waited_ms >= 3_000


def test_processes_that_a_command_leaves_behind_end_with_it(bench: Bench) -> None:
    job_id = bench.new("a", "sleep 600 & echo $! > left; exit 0")

    bench.reaches(job_id, "success")

    left = int((bench.folder / "left").read_text())
    bench.deployment.sees(lambda: not is_alive(left), what="the process that it left has ended")


def test_a_command_knows_its_job_and_no_setting_of_the_deployment(bench: Bench) -> None:
    bench.reaches(bench.new("a", "env > env; cp $INTERLOCK_JOB_BRIEF brief"), "success")

    lines = (bench.folder / "env").read_text().splitlines()
    env = dict(line.split("=", 1) for line in lines if line.startswith("INTERLOCK_"))
    run = bench.dir(f"{bench.graph}/a") / "runs" / "001-default-worker"
    names = env.pop("INTERLOCK_WORK_VARIABLES")
    assert set(names.split(",")) == set(env), "they are no settings for a command of ours"
    assert env.pop("INTERLOCK_JOB_KEY").startswith(f"{bench.graph}/a:")
    assert env == {
        "INTERLOCK_JOB_ID": f"{bench.graph}/a",
        "INTERLOCK_JOB_PHASE": "default",
        "INTERLOCK_JOB_ROLE": "worker",
        "INTERLOCK_JOB_DIR": str(bench.dir(f"{bench.graph}/a")),
        "INTERLOCK_JOB_BRIEF": str(run / "brief.json"),
        "INTERLOCK_JOB_REPLY": str(run / "reply.json"),
        "INTERLOCK_JOB_RUN": "1",
    }
    assert (run / "brief.json").read_text() == (bench.folder / "brief").read_text()


def test_a_missing_folder_asks_a_person_and_is_named(bench: Bench) -> None:
    gone = str(bench.folder / "gone")
    job_id = bench.new("a")
    lost = bench.new("b", "true", folder=gone)

    bench.reaches(job_id, "success")

    code, detail = bench.stops(lost)
    assert (code, gone in detail) == ("stuck", True), detail
    assert bench.graphs.job(lost).data["recoveries"] == 0


def test_a_suspended_worker_is_stopped_and_its_late_reply_is_noted(bench: Bench) -> None:
    late = answers(action="COMPLETED", summary="just in time", cost=0.5)
    plan = answers(action="COMPLETED", summary="planned", evidence_files=["plan"], cost=0.25)
    build = f"trap {shlex.quote(f'{late}; exit 0')} TERM; touch begun; sleep 600 & wait"
    phases = {"plan": f"echo 1 >> {DIR}/plan; {plan}", "build": first_run(build)}
    job_id = bench.new(
        "a", phases=[{"name": n, "worker": {"command": c}} for n, c in phases.items()]
    )
    bench.sees("begun")

    bench.graphs.command(job_id, "suspend", {"reason": "wait"})

    late_reply = "its late reply is noted"
    bench.deployment.sees(lambda: bench.deployment.notes(job_id, "late_reply"), what=late_reply)
    bench.deployment.comes_to_rest(job_id)
    record = bench.deployment.checked(job_id)
    assert "just in time" in bench.deployment.notes(job_id, "late_reply")[0].detail["reply"]
    assert (record.state, record.data["phase"], record.data["summary"]) == (
        "suspended",
        1,
        "planned",
    )
    assert [one["path"] for one in record.data["evidence"]] == ["plan"]
    metrics = manifest_now(bench.deployment.client.records, job_id)["metrics"]
    assert metrics["cumulative_time_seconds"] > 0
    # The reported cost is booked, however late the reply is.
    assert metrics["cumulative_cost"] == 75

    bench.graphs.command(job_id, "resume")

    bench.reaches(job_id, "success")
    assert (bench.dir(job_id) / "plan").read_text() == "1\n"


def test_a_late_reply_that_cannot_be_read_blocks_nothing(bench: Bench) -> None:
    late = f"mkfifo {REPLY}; exit 0"
    job_id = bench.new("a", f"trap {shlex.quote(late)} TERM; touch begun; sleep 600 & wait")
    bench.sees("begun")

    bench.graphs.command(job_id, "suspend")

    bench.deployment.comes_to_rest(job_id)
    [noted] = bench.deployment.notes(job_id, "late_reply")
    assert noted.detail["reply"] == "it cannot be read: it is no plain file"


def test_evidence_is_hashed_and_kept_whatever_a_later_run_writes(bench: Bench) -> None:
    worker = f"echo run $INTERLOCK_JOB_RUN > {DIR}/made; {wrote('made')}"
    review = answers(action="COMPLETED", verdict="INTERVENTION_REQUIRED", reasons=["no"])
    job_id = bench.new("a", worker, review={"command": first_run(review)})
    bench.stops(job_id)
    first = bench.graphs.job(job_id).data["evidence"]
    bench.graphs.command(job_id, "resubmit")

    second = bench.reaches(job_id, "success").data["evidence"]

    for number, shown in ((1, first), (2, second)):
        content = f"run {number}\n".encode()
        digest = sha256(content).hexdigest()
        assert shown == [
            {"path": "made", "sha256": digest, "bytes": len(content), "phase": "default"}
        ]
        kept = bench.dir(job_id) / ".evidence" / digest
        assert kept.read_bytes() == content
        assert kept.stat().st_mode & 0o777 == 0o444
    shown_first = [event.payload for event in bench.deployment.events(job_id)]
    assert [one["evidence"][0]["sha256"] for one in shown_first if one.get("evidence")] == [
        first[0]["sha256"],
        second[0]["sha256"],
    ]


def test_kept_evidence_that_was_changed_is_restored(bench: Bench) -> None:
    tampered = f"for kept in {DIR}/.evidence/*; do chmod +w $kept; echo no > $kept; done"
    phases = {"a": "true", "b": tampered}
    worker = f"echo same > {DIR}/made; {wrote('made')}"
    job_id = bench.new(
        "a",
        phases=[{"name": n, "worker": {"command": f"{c}; {worker}"}} for n, c in phases.items()],
    )

    record = bench.reaches(job_id, "success")

    digest = record.data["evidence"][0]["sha256"]
    assert (bench.dir(job_id) / ".evidence" / digest).read_text() == "same\n"


def test_reasons_of_reviewers_and_stewards_are_in_the_next_brief(bench: Bench) -> None:
    keep = f'cp "$INTERLOCK_JOB_BRIEF" {DIR}/brief$INTERLOCK_JOB_RUN'
    worker = f"{keep}; {answers(action='COMPLETED', summary='here it is')}"
    no = answers(action="COMPLETED", verdict="INTERVENTION_REQUIRED", reasons=["ä is wrong", "b"])
    seen = f'cp "$INTERLOCK_JOB_BRIEF" {DIR}/for-review'
    review = {"command": first_run(no, seen)}
    job_id = bench.new("a", worker, review=review, auto_approve=False, acceptance=["all is named"])
    bench.stops(job_id)
    bench.graphs.command(job_id, "resubmit", {"reason": "mind the ä"})
    bench.reaches(job_id, "approval_required")
    bench.graphs.command(job_id, "reject", {"reason": "once more"})
    bench.deployment.sees((bench.dir(job_id) / "brief3").exists, what="the third brief")

    first, second, third = (read(bench.dir(job_id) / f"brief{run}") for run in (1, 2, 3))

    reviewer = {"from": "reviewer", "by": "reviewer", "text": "ä is wrong; b"}
    steward = {"from": "steward", "by": "person", "text": "mind the ä"}
    assert (first["guidance"], first["role"], first["phase"]) == ([], "worker", "default")
    assert first["acceptance"] == ["all is named"]
    assert second["guidance"] == [reviewer, steward]
    assert third["guidance"] == [reviewer, steward, {**steward, "text": "once more"}]
    shown = read(bench.dir(job_id) / "for-review")
    assert (shown["role"], shown["summary"]) == ("reviewer", "here it is")


@pytest.mark.parametrize("place", ["a directory of its own", "none that it names"])
def test_a_brief_has_the_results_of_the_dependencies(bench: Bench, place: str) -> None:
    own = {} if place.startswith("a ") else {"dir": None}
    made = answers(action="COMPLETED", summary="two commits", evidence_files=["made"])
    before = bench.new("before", f"echo found > {DIR}/made; {made}", **own)
    job_id = bench.new("after", 'cp "$INTERLOCK_JOB_BRIEF" brief', depends_on=[before])
    bench.reaches(job_id, "success")

    [found] = read(bench.folder / "brief")["dependencies"].values()

    assert (found["state"], found["summary"]) == ("success", "two commits")
    assert Path(found["evidence"][0]["path"]).read_text() == "found\n"
    assert (Path(found["dir"]) / "made").read_text() == "found\n"


def test_a_rate_limit_pauses_a_job_until_its_time_and_no_longer(bench: Bench) -> None:
    limited = answers(action="RETRY", rate_limited=True, retry_after_s=2, summary="429")
    job_id = bench.new("a", f"test -e paused || {{ touch paused; {limited}; }}")
    paused = bench.goes_on(job_id, "pause")
    # A pause that ends by itself asks no person.
    assert bench.deployment.client.card(job_id) is None

    bench.reaches(job_id, "success")

    assert (paused.cause.actor, paused.payload["code"]) == ("worker", "rate_limit")
    waited_ms = last(bench.deployment, job_id, "unpause").at_ms - paused.at_ms
    assert waited_ms >= 2_000
    assert triggers(bench.deployment, job_id).count("scheduled") == 1
    assert "retry" not in triggers(bench.deployment, job_id)


def test_output_is_a_sign_of_life_and_silence_is_counted_from_the_last(bench: Bench) -> None:
    talks = f"echo $$ >> pids; echo here; {HANGS}"
    # Its output is noted every twentieth part of this time.
    quiet = bench.new("quiet", talks, running_s=QUIET_S, recoveries_max=1)
    review = {"command": f"echo >> reviews; {HANGS}"}
    unread = bench.new("unread", review=review, reviewing_s=600, recoveries_max=1)
    waits = bench.new("waits", depends_on=[quiet], running_s=1, reviewing_s=1)

    for number in (1, 2):
        stays_silent(bench, quiet, unread, number)
    first = last(bench.deployment, quiet, "recovered")
    assert (first.cause.actor, first.payload["code"]) == ("stalls", "stalled")
    assert bench.stops(quiet) == ("stalled", "it gave no sign of life for too long")
    assert triggers(bench.deployment, quiet).count("recovered") == 2
    pids = [int(pid) for pid in (bench.folder / "pids").read_text().split()]
    assert len(pids) == 2
    bench.deployment.sees(lambda: not any(map(is_alive, pids)), what="both have ended")
    assert bench.stops(unread) == ("stalled", "it gave no sign of life for too long")
    targets = [e.target for e in bench.deployment.events(unread) if e.trigger == "recovered"]
    assert targets == ["review_required", ASKS_A_PERSON]
    # A job that only waits does not need signs of life.
    assert bench.graphs.job(waits).state == "pending"


def test_nothing_starts_at_a_limit_that_is_reached(bench: Bench) -> None:
    spends = answers(action="COMPLETED", cost=1)
    dear: dict[str, Any] = {"limits": {"cost_micro": 1_000_000}}
    phases = [
        {"name": name, "worker": {"command": f"touch {name}; {spends}"}} for name in ("one", "two")
    ]
    phased = bench.new("phased", phases=phases, **dear)
    limited = answers(action="RETRY", rate_limited=True, retry_after_s=1, cost=1)
    paused = bench.new("paused", f"echo >> asked; {limited}", **dear)

    detail = "the job's limit of cost is reached: 1 of 1 $"
    assert bench.stops(phased) == ("limit_reached", detail)
    assert not (bench.folder / "two").exists()
    assert bench.stops(paused) == ("limit_reached", detail)
    assert (bench.folder / "asked").read_text() == "\n"


def test_a_limit_of_time_counts_what_was_used_before_a_pause(bench: Bench) -> None:
    limited = answers(action="RETRY", rate_limited=True, retry_after_s=1)
    first = f"sleep 2; touch paused; {limited}; exit"
    job_id = bench.new(
        "a", f"test -e paused || {{ {first}; }}; touch again; {HANGS}", limits={"time_s": 600}
    )
    bench.sees("again")

    signs = bench.deployment.notes(job_id, "sign_of_life")
    began = [one for one in signs if "began" in one.detail][-1]
    assert timer(bench, job_id, "limit") - began.at_ms <= 598_000
    make_due(bench, job_id, "limit")

    assert bench.stops(job_id)[0] == "limit_reached"


def stays_silent(bench: Bench, quiet: str, unread: str, number: int) -> None:
    """Let a job's worker and another's reviewer stay silent for too long, for the n-th time."""
    deployment, reviews = bench.deployment, bench.folder / "reviews"
    deployment.sees(lambda: len(said(bench, quiet)) == number, what="its output")
    assert timer(bench, quiet, "stall") >= said(bench, quiet)[-1].at_ms + QUIET_S * 1_000
    make_due(bench, quiet, "stall")
    deployment.sees(
        lambda: reviews.exists() and len(reviews.read_text()) == number, what="a review"
    )
    make_due(bench, unread, "stall")

    def recovered() -> bool:
        found = (triggers(deployment, job_id).count("recovered") for job_id in (quiet, unread))
        return all(count == number for count in found)

    deployment.sees(recovered, what="both are recovered")


def timer(bench: Bench, job_id: str, name: str) -> int:
    """Return when a timer of a job is due, in ms."""
    return next(one.due_at for one in bench.graphs.job(job_id).timers if one.name == name)


def make_due(bench: Bench, job_id: str, name: str) -> None:
    """Make a timer of a job due."""
    dispatch: Any = bench.deployment.client.dispatch
    due(dispatch, dispatch.client, job_id, name)


def said(bench: Bench, job_id: str) -> list[Note]:
    """Return the signs of life that a job's output was."""
    signs = bench.deployment.notes(job_id, "sign_of_life")
    return [one for one in signs if "output_bytes" in one.detail]


def test_most_of_a_limit_warns_once_and_stops_nothing(bench: Bench) -> None:
    job_id = bench.new("a", answers(action="STUCK", summary="no"), limits={"iterations": 4})
    for _ in range(4):
        bench.stops(job_id)
        bench.graphs.command(job_id, "resubmit")

    bench.goes_on(job_id, "limit_reached")

    # The warning was noted before the fourth run, when three of four were used.
    [warned] = bench.deployment.notes(job_id, "limit_warning")
    assert warned.detail == {"limit": "iterations", "used": 3, "allowed": 4, "of": "job"}
    detail = "the job's limit of iterations is reached: 4 of 4 runs"
    assert bench.stops(job_id) == ("limit_reached", detail)
    assert bench.graphs.job(job_id).data["runs"] == 4
