"""Runs of codons in everyday use: plans, failures, limits, orders, rollbacks and resumes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.record import Record
from interlock.systems.runs.checkpoint_list import CheckpointError
from interlock.systems.runs.start import RunRefusedError
from tests.end_to_end.runs.workspaces import NewWorkspace, RunWorkspace
from tests.end_to_end.tasks.coding import git
from tests.processes import is_alive

EVERYTHING = """
sentinels:
  eye:
    on: [assistant_message]
    command: "cat >> seen.jsonl; echo '{\\"type\\": \\"usage\\", \\"cost_micro\\": 7}'"
codons:
  - codon: load
    rig:
      - copy: {from: raw, to: work/raw}
      - command: {run: "cat a.csv > b.csv", in: copied}
      - command: {run: "false"}
        allow_failure: true
    speaks: interlock
    sentinels: [eye]
    command: >
      session one; say '{"type": "message", "text": "hello"}'; cost 5 3; did;
      env | grep INTERLOCK_ | sort > variables.txt; result
  - loop: twice
    until: {iterations: 2}
    codons:
      - codon: clean
        continuation: continue_previous
        command: did "$INTERLOCK_CODON:$INTERLOCK_ITERATION:$INTERLOCK_PREVIOUS_SESSION"
      - codon: check
        command: did "$INTERLOCK_CODON:$INTERLOCK_ITERATION"
  - loop: full
    until: context_exceeded
    codons:
      - codon: read
        speaks: interlock
        command: |
          session; did; [ "$INTERLOCK_ITERATION" = 0 ] && { result; exit; }
          say '{"type": "context_exceeded"}'; exit 1
      - codon: never-again
        command: did
"""


def test_a_plan_is_done_in_its_order_with_rig_loop_sentinel_and_a_session_that_is_continued(
    workspace: RunWorkspace,
) -> None:
    (workspace.folder / "raw").mkdir()
    (workspace.folder / "raw" / "a.csv").write_text("1\n")
    run = workspace.run_to_end(EVERYTHING)

    loops = [f"{name}#{n}" for n in (0, 1) for name in ("clean", "check")]
    names = ["load", *loops, "read#0", "never-again#0", "read#1"]
    assert workspace.codon_states() == [f"{name} completed" for name in names]
    third = workspace.codon(3).data["session_id"]
    assert workspace.done() == [
        *("load", "clean#0:0:one", "check#0:0", f"clean#1:1:{third}", "check#1:1"),
        *("read#0", "never-again#0", "read#1"),
    ]
    load = workspace.codon()
    assert (workspace.folder / "work" / "raw" / "b.csv").read_text() == "1\n"
    assert '"text": "hello"' in (workspace.folder / "seen.jsonl").read_text()
    [problem] = workspace.notes(load.id, "rig_item_failed")
    assert problem.detail["problem"] == "item 3 of the rig: it ended with 1"
    assert load.data["sentinels"]["total_cost"] == 7
    assert load.data["final_cost"] == 5
    assert load.data["final_tokens"]["output_tokens"] == 3
    [last] = workspace.codons()[-1:]
    assert last.data["context_exceeded"] is True
    kinds = [known.type for known in workspace.runs.checkpoints(workspace.folder)]
    assert kinds == ["initial", "rig-setup", *["completed"] * 8]
    check_variables(workspace, run, load)
    costs = {"run": 5, "run_spent": 12, "total": 5, "total_spent": 12, "run_late": 0}
    assert workspace.check_costs() == costs
    chain = [one["data"]["to"] for one in moves(workspace, "load")]
    assert chain == ["starting", "initializing", "running", "completing_sentinels", "completed"]
    assert (workspace.types()[0], workspace.types()[-1]) == ("RunStarted", "RunCompleted")


# The variables that tell a codon's command about its work.
ABOUT_WORK = tuple(
    f"INTERLOCK_{name}"
    for name in ("RUN", "CODON", "ITERATION", "WORKSPACE", "REPORT_KINDS", "PREVIOUS_SESSION")
)


def check_variables(workspace: RunWorkspace, run: Record, load: Record) -> None:
    variables = (workspace.folder / "variables.txt").read_text().splitlines()
    assert variables == sorted(
        [
            f"INTERLOCK_AGENT_MARK={Path(load.data['log_path']).parent}",
            "INTERLOCK_CODON=load",
            "INTERLOCK_ITERATION=",
            "INTERLOCK_PREVIOUS_SESSION=",
            f"INTERLOCK_REPORT_FD={variables[4].rpartition('=')[2]}",
            "INTERLOCK_REPORT_KINDS=session",
            f"INTERLOCK_RUN={run.id}",
            f"INTERLOCK_WORKSPACE={workspace.folder}",
            f"INTERLOCK_WORK_VARIABLES={','.join(ABOUT_WORK)}",
        ]
    ), "a command gets no settings, so neither a store nor a key"


def moves(workspace: RunWorkspace, codon: str) -> list[Any]:
    """Return the transitions of a codon as published events."""
    transitions = [
        one.event for one in workspace.applied_events() if one.event["type"] == "CodonTransitioned"
    ]
    return [one for one in transitions if one["data"]["codon_id"] == codon]


WAYS = """
codons:
  - {codon: nothing, command: no-such-command, on_failure: ignore}
  - {codon: shot, command: 'did; kill -9 $$', on_failure: ignore}
  - {codon: worse, command: 'did; echo "it is broken" >&2; exit 3', on_failure: ignore}
  - {codon: nameless, speaks: interlock, command: 'did; result', on_failure: ignore}
  - {codon: idle, idle_s: 1, command: never, on_failure: ignore}
  - codon: slow
    timeout_s: 1
    command: while :; do echo; read -rt 0.1 _ <> "$CUES/never"; done
    on_failure: ignore
  - {codon: mute, speaks: interlock, command: 'session; did', on_failure: ignore}
  - {codon: fast, command: ':'}
  - {codon: loud, command: 'head -c 20000000 /dev/zero | tr "\\0" x; did'}
  - codon: chatty
    speaks: interlock
    command: session; for n in {1..3000}; do cost 2; done; result
  - codon: unrigged
    rig: [{command: {run: 'echo "no disk" >&2; exit 9'}}]
    command: did
    on_failure: ignore
  - {codon: hanging, rig: [{command: {run: never, timeout_s: 1}}], command: did, on_failure: ignore}
  - {codon: strange, rig: [{copy: {from: nowhere, to: here}}], command: did, on_failure: ignore}
  - {codon: last, speaks: interlock, command: 'session; failed "prompt is too long"; exit 1'}
"""


def test_each_kind_of_failure_is_recorded_and_ignored_failures_do_not_end_the_run(
    workspace: RunWorkspace,
) -> None:
    run = workspace.run_to_end(WAYS, "failed")

    found = {one.data["codon_id"]: one for one in workspace.codons()}
    fine = {"fast", "loud", "chatty"}
    assert {name for name, one in found.items() if one.state == "completed"} == fine
    failures = {
        name: (one.data["exit_code"], one.data["failed_during"], reason(one))
        for name, one in found.items()
        if one.state == "failed"
    }
    assert failures == {
        "nothing": (
            127,
            "running",
            ("unknown", "bash: line 1: no-such-command: command not found"),
        ),
        "shot": (137, "running", ("unknown", "the agent ended with 137, which is SIGKILL")),
        "worse": (3, "running", ("unknown", "it is broken")),
        "nameless": (
            *(0, "initializing"),
            ("unknown", "its process ended without reporting its session"),
        ),
        "idle": (
            *(143, "running"),
            ("timeout", "the agent was ended because it was silent for too long"),
        ),
        "slow": (143, "running", ("timeout", "the agent was ended because it took too long")),
        "mute": (0, "running", ("unknown", "the agent ended without a result")),
        "unrigged": (9, "preparing", ("unknown", "item 1 of the rig: it ended with 9: no disk")),
        "hanging": (
            *(143, "preparing"),
            ("unknown", "item 1 of the rig: it took more than 1 s"),
        ),
        "strange": (
            *(-1, "preparing"),
            ("unknown", "item 1 of the rig: there is no nowhere to copy"),
        ),
        "last": (1, "running", ("api-error", "prompt is too long")),
    }
    assert all(one.data["ignored"] for name, one in found.items() if name in {*failures} - {"last"})
    assert found["last"].data["ignored"] is False
    assert run.data["ended"]["codon"] == "last"
    assert run.data["ended"]["reason"].startswith("last failed, and on_failure is abort")
    assert found["chatty"].data["final_cost"] == 6_000, "no line of a fast talker is lost"
    logged = Path(str(found["loud"].data["log_path"]))
    assert 0 < logged.stat().st_size <= 8 * 1024 * 1024 + 100
    done = ["shot", "worse", "nameless", "mute", "loud"]
    assert workspace.done() == done


def reason(codon: Any) -> tuple[str, str]:
    """Return why a codon failed."""
    failure = codon.data["failure_reason"]
    return failure["type"], failure["message"]


def test_a_retry_is_a_new_codon_after_its_delay_or_that_of_the_provider(
    workspace: RunWorkspace,
) -> None:
    run = workspace.run_to_end(
        """
    codons:
      - codon: flaky
        speaks: interlock
        on_failure: {retry: {attempts: 4, delay_ms: 200}}
        command: |
          session; did; case $(wc -l < done.txt) in
            1) cost 1; failed "rate limit" 1; exit 1;;
            2) cost 2; failed "rate limit" 999999; exit 1;;
            3) cost 4; exit 1;;
          esac; cost 8; result
      - codon: unpaid
        speaks: interlock
        on_failure: {retry: {attempts: 3, delay_ms: 0}}
        command: session; did; failed "your credit is used up"; exit 1
    """,
        "failed",
    )

    assert workspace.codon_states() == ["flaky failed"] * 3 + ["flaky completed", "unpaid failed"]
    assert workspace.done() == ["flaky"] * 4 + ["unpaid"]
    first, second, third, fourth, unpaid = workspace.codons()
    assert first.data["failure_reason"]["retry_after_ms"] == 1_000
    assert "retry_after_ms" not in second.data["failure_reason"], "a delay of days is ignored"
    wait_for_end = [workspace.deployment.events(one.id)[-1].at_ms for one in (first, second, third)]
    waits = [
        after.created_ms - end
        for end, after in zip(wait_for_end, (second, third, fourth), strict=True)
    ]
    assert waits[0] >= 1_000
    assert waits[1] >= 400, "twice as long as the first delay"
    assert waits[2] >= 800
    assert unpaid.data["failure_reason"]["retriable"] is False
    assert "trying again cannot repair" in run.data["ended"]["reason"]
    assert workspace.check_costs()["run"] == 15


def test_used_up_attempts_end_the_run_and_a_resume_starts_them_anew(
    workspace: RunWorkspace,
) -> None:
    run = workspace.run_to_end(
        """
    codons:
      - {codon: first, command: did}
      - codon: flaky
        on_failure: {retry: {attempts: 2, delay_ms: 0}}
        command: did; [ -e ../cues/repaired ] || { echo "connection reset" >&2; exit 1; }
      - {codon: last, command: did}
    """,
        "failed",
    )
    assert workspace.codon_states() == ["first completed", "flaky failed", "flaky failed"]
    assert run.data["ended"]["codon"] == "flaky"
    assert "at attempt 2 of 2" in run.data["ended"]["reason"]
    assert workspace.done() == ["first", "flaky", "flaky"]

    (workspace.cues / "repaired").touch()
    again = workspace.runs.resume(workspace.folder)
    workspace.wait_for_end(again)

    assert again.id.endswith("/2")
    assert workspace.codon_states() == ["flaky completed", "last completed"]
    assert workspace.done() == ["first", "flaky", "last"], (
        "the failed attempts are not in the workspace"
    )
    rescued = workspace.notes(again.id, "rescued")[0].detail["branch"]
    assert at_branch(workspace, rescued, "done.txt") == "first\nflaky\nflaky"


def at_branch(workspace: RunWorkspace, branch: str, path: str) -> str:
    """Return a file as it is on a branch of the checkpoints."""
    return git(workspace.folder / ".interlock" / "checkpoints", "show", f"{branch}:{path}")


def test_a_budget_that_is_used_up_ends_its_codon_its_loop_and_its_run(
    new_workspace: NewWorkspace,
) -> None:
    workspace, strict, lenient = (new_workspace(name) for name in ("work", "strict", "lenient"))
    for each, policy in ((strict, "fail"), (lenient, "complete")):
        each.start(f"""
        budget: {{cost_usd: 0.00001, exceeded: {policy}}}
        codons:
          - {{codon: cheap, speaks: interlock, command: session; cost 8; result}}
          - {{codon: expensive, speaks: interlock, command: session; cost 8; never}}
          - {{codon: last, command: did}}
        """)
    workspace.run_to_end("""
    codons:
      - codon: cost
        speaks: interlock
        budget: {cost_usd: 0.00001}
        command: session; cost 11; never
      - codon: tokens
        speaks: interlock
        budget: {output_tokens: 5, exceeded: fail}
        on_failure: ignore
        command: session; cost 3 6; never
      - {codon: time, budget: {duration_s: 1}, command: never}
      - loop: more
        until: {iterations: 9}
        codons:
          - codon: round
            speaks: interlock
            budget: {cost_usd: 0.00001}
            command: session; did; [ "$INTERLOCK_ITERATION" = 0 ] || cost 12; result
          - {codon: other, command: did}
      - {codon: last, command: did}
    """)

    names = ["time", "round#0", "other#0", "round#1", "last"]
    assert workspace.codon_states() == [
        *("cost completed", "tokens failed"),
        *(f"{name} completed" for name in names),
    ]
    assert workspace.done() == names[1:]
    cost, tokens, time, _, _, full, _ = workspace.codons()
    assert cost.data["budget_exceeded"] == {"currency": "cost", "limit": 10, "used": 11}
    assert tokens.data["failure_reason"]["message"] == "the codon's budget is exceeded"
    assert (time.data["budget_exceeded"]["currency"], full.data["final_cost"]) == ("duration", 12)
    for each, status in ((strict, "failed"), (lenient, "completed")):
        ended = each.wait_for_end(each.last, "failed")
        assert each.codon_states() == ["cheap completed", f"expensive {status}"]
        assert ended.data["ended"]["codon"] == ("expensive" if each is strict else "last")
        assert each.check_costs()["run"] == 16
    assert ended.data["ended"]["reason"] == "cost is used up: 16 of 10"


def test_stopped_by_force_a_run_has_ended_at_once_and_the_next_waits_for_its_processes(
    workspace: RunWorkspace,
) -> None:
    run = workspace.start(
        "codons: [{codon: one, command: did; hold agent}, {codon: two, command: did}]"
    )
    agent = workspace.wait_for_cue("agent")

    stopped = workspace.stop_by_force(reason="at once")

    assert stopped.state == "failed"
    assert stopped.data["ended"]["reason"] == "at once"
    workspace.wait_for_end(run, "failed")
    assert not is_alive(agent)
    assert workspace.triggers(workspace.codon().id)[-1] == ("run_ended", "codon_cleanup")
    workspace.release("agent")
    workspace.wait_for_end(workspace.runs.resume(workspace.folder))
    assert workspace.done() == ["one", "two"], "the first attempt left nothing"


def test_a_run_can_be_stopped_while_it_waits_to_try_again(workspace: RunWorkspace) -> None:
    workspace.start("""
    codons:
      - {codon: one, command: did; exit 1, on_failure: {retry: {attempts: 3, delay_ms: 60000}}}
    """)
    workspace.wait_for_state("failed")

    stopped = workspace.runs.stop(workspace.folder, wait_s=120)

    assert (stopped.state, stopped.data["ended"]["reason"]) == ("failed", "stopped by a person")
    assert workspace.done() == ["one"]


THREE = """
codons:
  - codon: one
    rig: [{command: {run: "mkdir -p data; head -c 5000 /dev/urandom > data/noise"}}]
    command: did; printf 'a\\0b\\r\\n' > data/bytes; cost
  - codon: two
    speaks: interlock
    command: |
      session; hold "two-${INTERLOCK_RUN##*/}"; did; cost 5; rm data/bytes; echo 2 > data/noise
      mkdir -p more/and; echo x > more/and/more; result
  - {codon: three, speaks: interlock, command: session; did; cost 7; echo 3 > three; result}
"""


def test_a_workspace_is_restored_byte_for_byte_and_its_state_before_is_kept(
    workspace: RunWorkspace,
) -> None:
    (workspace.folder / "mine.txt").write_text("from before")
    run = workspace.start(THREE)
    workspace.wait_for_cue("two-1")
    after_one = workspace.files()
    for refused in (
        partial(workspace.runs.rollback, workspace.folder, "initial"),
        partial(workspace.runs.redo, workspace.folder),
        partial(workspace.runs.resume, workspace.folder),
    ):
        with pytest.raises(RunRefusedError, match="is running; stop it first"):
            refused()
    workspace.release("two-1")
    workspace.wait_for_end(run)
    after_all = workspace.files()
    known = workspace.runs.checkpoints(workspace.folder)
    [sha] = [one.sha for one in known if (one.codon, one.type) == ("one", "completed")]
    ways: list[Callable[[], Any]] = [
        lambda: workspace.runs.rollback(workspace.folder, "one:completed"),
        lambda: workspace.runs.rollback(workspace.folder, sha[:9]),
        lambda: workspace.runs.redo(workspace.folder, "two"),
    ]

    for number, restore in enumerate(ways, start=2):
        (workspace.folder / "stray").write_text(f"stray {number}")
        again = restore()
        workspace.wait_for_cue(f"two-{number}")
        assert workspace.files() == after_one
        assert [one["codon_id"] for one in again.data["done"]] == ["one"]
        branch = workspace.notes(again.id, "rescued")[0].detail["branch"]
        assert at_branch(workspace, branch, "stray") == f"stray {number}"
        workspace.release(f"two-{number}")
        workspace.wait_for_end(again)
        assert workspace.files() == after_all
        assert workspace.codon_states() == ["two completed", "three completed"]
        assert workspace.check_costs()["total"] == 12 * number
    last = workspace.wait_for_end(workspace.runs.rollback(workspace.folder, "last-success"))
    assert (len(last.data["done"]), workspace.codon_states(), workspace.files()) == (
        3,
        [],
        after_all,
    )
    assert workspace.runs.costs(workspace.folder, since=3)["since"] == 24
    with pytest.raises(CheckpointError, match="there is no checkpoint nine:completed"):
        workspace.runs.rollback(workspace.folder, "nine:completed")
    first = workspace.runs.rollback(workspace.folder, "initial")
    workspace.release("two-6")
    workspace.wait_for_end(first)
    assert workspace.codon_states() == [f"{name} completed" for name in ("one", "two", "three")]
    assert first.data["done"] == []
    assert workspace.done() == ["one", "two", "three"]
    assert (workspace.folder / "mine.txt").read_text() == "from before"
