"""How the outcome of a task is reported, also if it is invalid or comes too late."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.git.repository import Repository
from interlock.git.worktree import add_worktree
from interlock.kernel.errors import ConflictError, InvalidPayloadError
from interlock.kernel.machines import MACHINES
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.kernel.table import Active
from interlock.systems.tasks.agent_outcome import WORK_OVER
from interlock.systems.tasks.agents import Agents
from interlock.systems.tasks.claims import claim as claim_for_agent
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.current_task import (
    CurrentTask,
    ended_by_signal,
    failure_outcome,
    report_outcome,
    stop_hook_refusal,
)
from interlock.systems.tasks.launch_spec import PreparedClaim, TaskLaunchSpec
from interlock.systems.tasks.supervisor import TaskSupervisor
from interlock.systems.tasks.turn_reports import blocked_outcome
from interlock.systems.tasks.verification.task_check import check_task_without_models, rejection
from interlock.workers.client import Client
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.processes.agent.process import KILL_BY_PASSED, Exit
from interlock.workers.supervision.reports import AgentFailed
from interlock.workers.systems import handlers
from tests.git.scene import make_repository
from tests.systems.tasks.claims import Claimed, claimed, fire, submitted, taken
from tests.systems.tasks.supervised import held, reports, supervised
from tests.systems.threads.threads import client_of


@pytest.fixture
def client(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    return client_of(server.url, prefix, home=tmp_path / "home")


def test_an_invalid_outcome_fails_the_task_with_the_reason(client: Client) -> None:
    claim = claimed(client, "b/one").alive()

    report_outcome(
        held(client, claim.task),
        Outcome("completed", {"summary": " "}),
        fallback="failed",
    )

    record = client.show("b/one")
    assert record.state == "failed"
    reason = record.data["failure"]["reason"]
    assert reason.startswith("its report is refused: completed is invalid: summary")


def test_an_outcome_that_comes_too_late_settles_the_lease_and_changes_nothing(
    client: Client,
) -> None:
    claim = claimed(client, "b/one").alive()
    work = held(client, claim.task)
    client.cancel("b/one")
    assert "agent" in [entry.name for entry in client.show("b/one").entries]

    report_outcome(work, Outcome("completed", {"summary": "late"}), fallback="failed")

    record = client.show("b/one")
    assert record.state == "cancelled"
    assert "agent" not in [entry.name for entry in record.entries]


def test_a_report_that_the_store_cannot_take_now_does_not_end_the_supervisor(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = claimed(client, "b/one").alive()
    prepared = PreparedClaim(claim.task.key, claim.task.token, claim.names.turn, "", "", "", "")
    task = CurrentTask(held(client, claim.task), prepared, client.show(claim.names.agent))

    def conflict(*_: object) -> None:
        raise ConflictError("others changed the record first")

    monkeypatch.setattr(EffectWork, "fire", conflict)
    report_outcome(task.work, Outcome("completed", {"summary": "x"}), fallback="failed")
    assert task.report_end(blocked_outcome(None, "a question")) == ""
    assert client.show("b/one").state == "in_progress"


def reported(
    client: Client, code: int, abort: AbortReason, *, started: bool, by_us: str | None = None
) -> Claimed:
    """Report that an agent ended without its work, before or after its task was started."""
    claim = claimed(client, "b/one")
    prepared = PreparedClaim(claim.task.key, claim.task.token, claim.names.turn, "", "", "", "")
    task = CurrentTask(held(client, claim.task), prepared, client.show(claim.names.agent))
    if started:
        task.report_started()
    ended = Exit(code, by_us, 0, "", "", cut=False, wall_s=1.0, cpu_s=0.1, max_rss_bytes=1)
    task.report(task.failure(ended, abort, None))
    return claim


def reported_as_killed(client: Client, *, started: bool) -> Claimed:
    """Report that an agent was killed, before or after its task was started."""
    return reported(client, -9, AbortReason.UNKNOWN, started=started)


@pytest.mark.parametrize(
    ("code", "abort", "words"),
    [
        (3, AbortReason.UNKNOWN, "its agent ended with exit code 3: no output"),
        (124, AbortReason.TIMEOUT, "its agent ended with timeout, exit code 124: no output"),
    ],
)
def test_a_failure_names_the_cause_of_the_end_where_it_is_known(
    client: Client, code: int, abort: AbortReason, words: str
) -> None:
    reported(client, code, abort, started=True)

    assert client.show("b/one").data["failure"]["reason"] == words


def test_the_turn_of_a_killed_agent_goes_on_until_the_task_is_recovered(
    client: Client,
) -> None:
    claim = reported_as_killed(client, started=True)

    assert client.show("b/one").state == "orphaned"
    assert client.show(claim.names.turn).state == "running"


@pytest.mark.parametrize("started", [True, False])
def test_an_agent_whose_lease_was_not_renewed_in_time_is_lost_and_costs_no_retry(
    client: Client, *, started: bool
) -> None:
    reported(client, -9, AbortReason.TIMEOUT, started=started, by_us=KILL_BY_PASSED)

    task = client.show("b/one")
    assert task.state == "orphaned"
    away = "its lease could not be renewed in time: the store or this computer was away"
    assert task.data["lost"] == {"reason": away}


def test_a_task_whose_agent_is_killed_before_it_started_has_failed(
    client: Client,
) -> None:
    claim = reported_as_killed(client, started=False)

    record = client.show("b/one")
    assert record.state == "failed"
    assert "exit code -9" in record.data["failure"]["reason"]
    assert "refused" not in record.data["failure"]["reason"]
    assert client.show(claim.names.turn).state == "failed"


@pytest.mark.parametrize(
    ("code", "by_signal"), [(0, False), (3, False), (128, False), (-9, True), (137, True)]
)
def test_an_exit_code_shows_whether_a_signal_ended_the_process(
    code: int, *, by_signal: bool
) -> None:
    assert ended_by_signal(code) is by_signal


@pytest.mark.parametrize(
    ("report", "abort"),
    [
        (AgentFailed("no"), None),
        (AgentFailed("no", TransitionReason.MAX_TURNS), None),
        (AgentFailed("no", TransitionReason.PROVIDER_413), AbortReason.PROVIDER_ERROR),
        (AgentFailed("no", TransitionReason.COMPACTION_FAILED), AbortReason.COMPACT_FAILURE),
        (AgentFailed("no", None, AbortReason.BASH_ERROR), AbortReason.BASH_ERROR),
    ],
)
def test_a_reported_failure_is_recorded_with_the_published_reasons(
    report: AgentFailed, abort: AbortReason | None
) -> None:
    payload = failure_outcome(report).payload

    assert (payload["why"], payload["abort"]) == (report.reason, abort)


BLOCKED = {"type": "blocked", "text": "the key of the safe"}
SPLIT = {"type": "split", "subtasks": [{"title": "a half"}]}
NEEDS = "needs the trust level"


def ends_well(supervisor: TaskSupervisor) -> None:
    """Let the agent's process end with exit code 0."""
    supervisor._report_end(
        Exit(0, None, 0, "", "", cut=False, wall_s=1.0, cpu_s=0.1, max_rss_bytes=0)
    )


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (BLOCKED, f"its report blocked (the key of the safe) was refused: blocked {NEEDS}"),
        (SPLIT, f"its report split was refused: split {NEEDS}"),
    ],
)
def test_a_command_whose_end_its_trust_does_not_allow_has_not_succeeded(
    client: Client, tmp_path: Path, report: Mapping[str, Any], words: str
) -> None:
    supervisor = supervised(client, claimed(client, "b/one"), tmp_path)

    # Nothing tells a command that it was refused, so this is no report of success.
    reports(supervisor, report, {"type": "verify_requested", "summary": "I am blocked"})
    assert supervisor._why_end() == WORK_OVER
    ends_well(supervisor)

    record = client.show("b/one")
    failure = record.data["failure"]
    assert (record.state, failure["why"]) == ("failed", "permission_denied")
    assert failure["reason"].startswith(words)
    assert "`interlock agent promote unknown`" in failure["reason"]
    card = client.card("b/one")
    assert card is not None
    assert "It failed and is not tried again by itself" in card.question
    assert words in card.question


def test_a_session_whose_end_its_trust_does_not_allow_is_told_and_goes_on(
    client: Client, tmp_path: Path
) -> None:
    claim = claimed(client, "b/one", session=True)
    supervisor = supervised(client, claim, tmp_path, session=True)

    process = reports(supervisor, BLOCKED)

    (sent,) = process.send.call_args.args
    assert json.loads(sent)["reason"].startswith(f"blocked {NEEDS}")
    assert (supervisor._why_end(), client.show("b/one").state) == ("", "in_progress")


@pytest.mark.parametrize("wrong", [{"type": "failed"}, {"type": "split", "subtasks": "none"}])
def test_exit_code_0_after_an_unreadable_report_of_an_end_is_no_success(
    client: Client, tmp_path: Path, wrong: Mapping[str, Any]
) -> None:
    supervisor = supervised(client, claimed(client, "b/one"), tmp_path)

    reports(supervisor, wrong)
    assert supervisor._why_end() == ""
    ends_well(supervisor)

    record = client.show("b/one")
    assert record.state == "failed"
    assert "a report of its agent is refused: " in record.data["failure"]["reason"]


def test_an_unreadable_report_of_an_end_may_be_followed_by_one_of_success(
    client: Client, tmp_path: Path
) -> None:
    supervisor = supervised(client, claimed(client, "b/one"), tmp_path)

    reports(supervisor, {"type": "split"}, {"type": "verify_requested", "summary": "done"})

    assert supervisor.task is not None
    assert supervisor.task.reports.refused_end == ""


@pytest.mark.parametrize(
    ("hooks", "refusal"),
    [
        ([], ""),
        (["true", "test -e here"], ""),
        (["true", "echo why; false"], "a stop hook refused: echo why; false: exit code 1"),
        (["sleep 600"], "it did not end within 0.5 s"),
        (["test -z $INTERLOCK_STORE_URL"], ""),
    ],
)
def test_a_stop_hook_refuses_by_its_exit_code(
    hooks: list[str], refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_STORE_URL", "redis://secret@nowhere")
    (tmp_path / "here").touch()
    # Only the hook that does not end needs a short limit.
    within_s = 0.5 if "0.5 s" in refusal else 60.0
    refusal_found: Any = stop_hook_refusal(hooks, tmp_path, None, within_s=within_s)

    assert (refusal in refusal_found) if refusal else refusal_found == ""


def test_a_task_whose_worktree_is_gone_is_orphaned_and_has_not_failed(
    client: Client, tmp_path: Path
) -> None:
    claim = claimed(client, "b/one")
    gone = str(tmp_path / "gone")
    prepared = PreparedClaim(claim.task.key, claim.task.token, claim.names.turn, "", gone, "", "")
    task = CurrentTask(held(client, claim.task), prepared, client.show(claim.names.agent))
    task.report_started()

    task.report(task.finish("done"))

    record = client.show("b/one")
    assert (record.state, record.data["lost"]["reason"]) == ("orphaned", "its worktree is gone")


def test_the_parts_that_an_agent_reports_have_scope_signals_files_and_order(
    client: Client,
) -> None:
    lease = claim_for_agent(client.records, client.show(submitted(client, "b/one")), agent="b/a")
    assert lease is not None
    identity = client.show("b/one").data["claim"]["identity"]
    for _ in range(2):
        Agents(client).promote(identity)
    prepared = PreparedClaim(lease.key, lease.token, "b/turn~one~1", "", "", "", "")
    task = CurrentTask(held(client, lease), prepared, client.show("b/one"))
    signal = {"type": "path_exists", "value": "a"}
    fields = {"text": "more", "scope": "xl", "signals": [signal], "owned_files": ["src"]}
    parts = [{"title": "a"}, {"title": "b", **fields, "after": [1]}]

    assert task.report_end(Outcome("split", {"subtasks": parts})) == ""
    (entry,) = [each for each in client.show("b/one").entries if each.name == "spawn"]
    runner = Runner(client.dispatch, Resources(client.settings))
    runner.perform(MACHINES["task"], "spawn", handlers()["task.spawn"], entry.key("b/one"))

    first, second = sorted(client.dispatch.views.children("b/one"))
    data = client.show(second).data
    assert (data["text"], data["scope"], data["signals"]) == ("more", "xl", [signal])
    assert (data["owned_files"], data["depends_on"]) == (["src"], [first.removeprefix("b/")])


def test_a_split_with_a_signal_that_nothing_judges_is_refused(client: Client) -> None:
    fields = {"repo": "/nowhere", "agent": "true"}
    client.submit({"title": "x", **fields}, id="b/open", machine="task")
    lease = claim_for_agent(client.records, client.show(submitted(client, "b/one")), agent="b/a")
    assert lease is not None
    prepared = PreparedClaim(lease.key, lease.token, "b/turn~one~1", "", "", "", "")
    task, tasks = CurrentTask(held(client, lease), prepared, client.show("b/one")), Tasks(client)
    wrong = {"type": "wish", "value": "a"}
    problem = "part 2, signal 0, 'a': 'wish' is not a type of signal"

    parts: list[dict[str, Any]] = [{"title": "a"}, {"title": "b", "signals": [wrong]}]
    assert task.report_end(Outcome("split", {"subtasks": parts})) == ""
    assert isinstance(task.reports.end_report, AgentFailed)
    assert problem in task.reports.end_report.error
    with pytest.raises(InvalidPayloadError, match=problem):
        tasks.split("b/open", parts)
    with pytest.raises(InvalidPayloadError, match=problem):
        tasks.report(lease.key, lease.token, "split", {"subtasks": parts})
    assert [client.show(f"b/{name}").state for name in ("one", "open")] == ["claimed", "open"]


@pytest.mark.parametrize("other", ["b/two", "b/one", "b/one/2.1/2.1"])
def test_an_owner_that_gives_up_what_is_no_subtask_of_its_task_is_told(
    client: Client, other: str
) -> None:
    claim = claimed(client, "b/one").alive()
    prepared = PreparedClaim(claim.task.key, claim.task.token, claim.names.turn, "", "", "", "")
    task = CurrentTask(held(client, claim.task), prepared, client.show(claim.names.agent))
    problem = f"{other} is not a subtask of b/one"

    request = Outcome("child_cancelled", {"child": other, "reason": "no longer wanted"})
    assert problem in task.cancel_child(request)
    with pytest.raises(InvalidPayloadError, match=problem):
        Tasks(client).report(claim.task.key, claim.task.token, "child_cancelled", {"child": other})


def test_an_outcome_has_the_time_that_the_agent_took_in_a_session_too(
    client: Client, tmp_path: Path
) -> None:
    claim, repo = claimed(client, "b/one", session=True), make_repository(tmp_path / "repo")
    tree = add_worktree(
        Repository.open(repo), branch="interlock/b/x", folder=tmp_path / "x", base="main"
    )
    where = (claim.names.turn, str(repo), str(tree.folder), tree.branch, tree.base)
    prepared = PreparedClaim(claim.task.key, claim.task.token, *where)
    task = CurrentTask(held(client, claim.task), prepared, client.show(claim.names.agent))
    task.begun_at -= 900
    task.reports.summary = "done"

    outcome = task.finish("")

    assert outcome.trigger == "completed"
    assert 900 <= outcome.payload["took_s"] < 1_200


def test_a_task_that_a_session_claimed_and_was_not_given_is_not_failed_with_it(
    client: Client, tmp_path: Path
) -> None:
    first, following = (claimed(client, f"b/{name}", session=True) for name in ("one", "next"))

    def prepared(claim: Claimed) -> PreparedClaim:
        where = ("/nowhere", str(tmp_path), "branch", "base")
        return PreparedClaim(claim.task.key, claim.task.token, claim.names.turn, *where)

    spec = TaskLaunchSpec(
        key=first.agent.key,
        token=first.agent.token,
        work_folder=str(tmp_path),
        command="true",
        stream="interlock",
        session=True,
        claim=prepared(first),
    )
    supervisor = TaskSupervisor(spec, client.records)
    supervisor.alive, supervisor.task = True, None
    supervisor.claiming = Future()
    agent = client.show(first.names.agent)
    supervisor.claiming.set_result(
        CurrentTask(held(client, following.task), prepared(following), agent)
    )

    supervisor._report_end(
        Exit(0, None, 0, "", "", cut=False, wall_s=1.0, cpu_s=0.1, max_rss_bytes=0)
    )

    record = client.show("b/next")
    assert (record.state, client.show(following.names.turn).state) == ("claimed", "spawning")
    crash = client.dispatch.lifecycle.machine("task").stage("claimed")
    assert isinstance(crash, Active)
    assert crash.crash == "released", "what the sweep fires when its lease has lapsed"


def test_the_agent_of_the_next_try_is_told_why_a_person_rejected_the_work(client: Client) -> None:
    claim = claimed(client, "b/one", needs_approval=True, text="Mind the docs.", retry_delay_s=1)
    claim.alive().delivered()
    fire(client, taken(client, "b/one"), "verified", {"commit": "0" * 40})
    card = client.card("b/one")
    assert card is not None
    assert [each.name for each in card.affordances] == ["approve", "reject", "cancel"]
    client.decide("b/one", "reject", {"reason": "use tabs"}, proposal=card.proposal)
    client.fire("b/one", "retried")

    record = client.show("b/one")
    prepared = PreparedClaim(claim.task.key, claim.task.token, claim.names.turn, "", "", "", "")
    lease, agent = replace(claim.task, record=record), client.show(claim.names.agent)
    task = CurrentTask(held(client, lease), prepared, agent)

    told = "Mind the docs.\n\nA person rejected the work of earlier tries:\n- use tabs"
    assert task.prompt == f"b/one\n\n{told}\n"
    assert task.variables["TASK_TEXT"] == told


@pytest.mark.parametrize(
    ("line", "code", "why"),
    [
        ({"type": "failed", "error": "no"}, -15, "failed"),
        ({"type": "failed", "error": "no", "reason": "max_turns"}, -15, "max_turns"),
        ({"type": "failed", "error": "no", "reason": "completed"}, -15, "failed"),
        (BLOCKED, 0, "permission_denied"),
        ({"type": "failed"}, 0, "failed"),
        (None, 3, "failed"),
        (None, 130, "aborted"),
        (None, 124, "timed_out"),
    ],
)
def test_an_agent_whose_task_failed_has_not_completed(
    client: Client, tmp_path: Path, line: Mapping[str, Any] | None, code: int, why: str
) -> None:
    claim = claimed(client, "b/one")
    claim.agent_fires("confirmed_alive")
    supervisor = supervised(client, claim, tmp_path)
    reports(supervisor, *([line] if line else []))
    by_us = WORK_OVER if code == -15 else None

    supervisor._report_end(
        Exit(code, by_us, 0, "", "", cut=False, wall_s=1.0, cpu_s=0.1, max_rss_bytes=0)
    )

    assert client.show(claim.names.agent).state == "dead"
    assert client.show(claim.names.agent).data["end"]["why"] == why


def next_try(client: Client, claim: Claimed) -> CurrentTask:
    """Return the task of a claim as its next agent has it."""
    client.fire("b/one", "retried")
    lease = claim_for_agent(client.records, client.show("b/one"), agent="b/agent~one~2")
    assert lease is not None
    prepared = PreparedClaim(lease.key, lease.token, claim.names.turn, "", "", "", "")
    return CurrentTask(held(client, lease), prepared, client.show(claim.names.agent))


def test_the_next_try_is_told_which_command_failed_with_the_end_of_its_output(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "open-sesame-7")
    long, key, odd = "printf '%05000d' 0", 'echo "key: $MY_API_KEY"', "printf 'bad \\377 byte'"
    command = f"{long}; {key}; {odd}; exit 3"
    claim = claimed(client, "b/one", signals=[{"type": "test_passes", "value": command}])
    claim.alive().delivered()
    lease = taken(client, "b/one")
    verdict = asyncio.run(check_task_without_models(lease.record, tmp_path, client.records))
    fire(client, lease, "verification_rejected", rejection(verdict))

    task = next_try(client, claim)

    for told in (task.prompt, task.variables["TASK_TEXT"], task.variables["TASK_LAST_TRY"]):
        assert f"test_passes {command}\n    exit code 3; the last output:\n" in told
        assert "\n    bad \N{REPLACEMENT CHARACTER} byte" in told
        assert "key: *************" in told
        assert len(told.encode()) < 8_000
    assert json.loads(task.line)["last_try"] == task.last_try
    assert "open-sesame" not in str(client.history("b/one"))


def test_the_next_try_is_told_what_a_failed_agent_printed_last(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "open-sesame-7")
    claim = claimed(client, "b/one", deadline_s=60)
    claim.alive().task_fires("failed", {"reason": "it took longer than its deadline"})
    folder = claim.names.work_folder(client.dispatch.settings)
    folder.mkdir(parents=True)
    (folder / "output.log").write_bytes(b"x" * 100_000 + b"\nopen-sesame-7\n\xff waits for a key\n")
    (folder / "errors.log").write_text("deprecated!\n")

    told = next_try(client, claim).last_try

    assert told.startswith("The last try: it took longer than its deadline\n")
    assert "\n    ************" in told
    assert "waits for a key" in told
    assert told.endswith("The end of the errors of its agent:\n    deprecated!")
    assert len(told) < 3_000


def test_a_conflict_is_told_with_its_files_and_without_what_the_agent_printed(
    client: Client,
) -> None:
    claim = claimed(client, "b/one").alive().delivered()
    conflict = {"reason": "it conflicts", "why": "merge_failed", "paths": ["a", "b"]}
    fire(client, taken(client, "b/one"), "verification_rejected", conflict)
    folder = claim.names.work_folder(client.dispatch.settings)
    folder.mkdir(parents=True)
    (folder / "output.log").write_text("all is well\n")

    assert next_try(client, claim).last_try == "The last try: it conflicts\nIts files: a, b"


def test_no_secret_that_an_agent_prints_is_stored(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "open-sesame-7")
    claim = claimed(client, "b/one")
    claim.agent_fires("confirmed_alive")
    supervisor = supervised(client, claim, tmp_path)

    printed = "my key is open-sesame-7"
    supervisor._report_end(
        Exit(1, None, 0, printed, printed, cut=False, wall_s=1.0, cpu_s=0.1, max_rss_bytes=0)
    )

    ids = ("b/one", claim.names.agent, claim.names.turn)
    stored = str([(client.show(each), client.history(each)) for each in ids])
    assert "my key is *" in stored
    assert "open-sesame" not in stored
