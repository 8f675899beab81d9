"""Runs of codons, every day: plans, failures, limits, orders, going back and going on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.record import Record
from interlock.workers.runs.checkpoints import CheckpointError
from interlock.workers.runs.start import RunRefusedError
from tests.end_to_end.runs.workspaces import NewYard, Yard, each_state
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
      env | grep INTERLOCK_ | sort > told.txt; result
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
    yard: Yard,
) -> None:
    (yard.workspace / "raw").mkdir()
    (yard.workspace / "raw" / "a.csv").write_text("1\n")
    run = yard.does(EVERYTHING)

    loops = [f"{name}#{n}" for n in (0, 1) for name in ("clean", "check")]
    names = ["load", *loops, "read#0", "never-again#0", "read#1"]
    assert yard.shape() == [f"{name} completed" for name in names]
    third = yard.codon(3).data["session_id"]
    assert yard.did() == [
        *("load", "clean#0:0:one", "check#0:0", f"clean#1:1:{third}", "check#1:1"),
        *("read#0", "never-again#0", "read#1"),
    ]
    load = yard.codon()
    assert (yard.workspace / "work" / "raw" / "b.csv").read_text() == "1\n"
    assert '"text": "hello"' in (yard.workspace / "seen.jsonl").read_text()
    [problem] = yard.notes(load.id, "rig_item_failed")
    assert problem.detail["problem"] == "item 3 of the rig: it ended with 1"
    assert load.data["sentinels"]["total_cost"] == 7
    assert load.data["final_cost"] == 5
    assert load.data["final_tokens"]["output_tokens"] == 3
    [last] = yard.codons()[-1:]
    assert last.data["context_exceeded"] is True
    kinds = [known.type for known in yard.runs.checkpoints(yard.workspace)]
    assert kinds == ["initial", "rig-setup", *["completed"] * 8]
    told_nothing_of_ours(yard, run, load)
    costs = {"run": 5, "run_spent": 12, "total": 5, "total_spent": 12, "run_late": 0}
    assert yard.costs_hold() == costs
    chain = [one["data"]["to"] for one in moves(yard, "load")]
    assert chain == ["starting", "initializing", "running", "completing_sentinels", "completed"]
    assert (yard.types()[0], yard.types()[-1]) == ("RunStarted", "RunCompleted")


def told_nothing_of_ours(yard: Yard, run: Record, load: Record) -> None:
    told = (yard.workspace / "told.txt").read_text().splitlines()
    assert told == sorted(
        [
            f"INTERLOCK_AGENT_MARK={load.id}:1.0:{told[0].rpartition(':')[2]}",
            "INTERLOCK_CODON=load",
            "INTERLOCK_ITERATION=",
            "INTERLOCK_PREVIOUS_SESSION=",
            f"INTERLOCK_REPORT_FD={told[4].rpartition('=')[2]}",
            "INTERLOCK_REPORT_KINDS=session",
            f"INTERLOCK_RUN={run.id}",
            f"INTERLOCK_WORKSPACE={yard.workspace}",
        ]
    ), "no setting of ours, and no address of a store"


def moves(yard: Yard, codon: str) -> list[Any]:
    """Return the transitions of a codon as they were told."""
    told = [one.event for one in yard.heard() if one.event["type"] == "CodonTransitioned"]
    return [one for one in told if one["data"]["codon_id"] == codon]


WAYS = """
codons:
  - {codon: nothing, command: no-such-command, on_failure: ignore}
  - {codon: shot, command: 'did; kill -9 $$', on_failure: ignore}
  - {codon: worse, command: 'did; echo "it is broken" >&2; exit 3', on_failure: ignore}
  - {codon: nameless, speaks: interlock, command: 'did; result', on_failure: ignore}
  - {codon: idle, idle_s: 1, command: 'did; never', on_failure: ignore}
  - codon: slow
    timeout_s: 1
    command: did; while :; do echo; read -rt 0.1 _ <> "$CUES/never"; done
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


def test_each_way_to_fail_is_told_as_it_is_and_what_is_ignored_is_passed(yard: Yard) -> None:
    run = yard.does(WAYS, "failed")

    found = {one.data["codon_id"]: one for one in yard.codons()}
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
            ("unknown", "its process ended without naming its session"),
        ),
        "idle": (
            *(143, "running"),
            ("timeout", "the agent was ended because it said nothing for too long"),
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
    done = ["shot", "worse", "nameless", "idle", "slow", "mute", "loud"]
    assert yard.did() == done


def reason(codon: Any) -> tuple[str, str]:
    """Return why a codon failed."""
    told = codon.data["failure_reason"]
    return told["type"], told["message"]


def test_a_retry_is_a_new_codon_after_its_delay_or_as_long_as_the_provider_wished(
    yard: Yard,
) -> None:
    run = yard.does(
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
      - codon: hopeless
        speaks: interlock
        on_failure: {retry: {attempts: 3, delay_ms: 0}}
        command: session; did; failed "your credit is used up"; exit 1
    """,
        "failed",
    )

    assert yard.shape() == ["flaky failed"] * 3 + ["flaky completed", "hopeless failed"]
    assert yard.did() == ["flaky"] * 4 + ["hopeless"]
    first, second, third, fourth, hopeless = yard.codons()
    assert first.data["failure_reason"]["retry_after_ms"] == 1_000
    assert "retry_after_ms" not in second.data["failure_reason"], "nobody waits for days"
    ends = [yard.deployment.events(one.id)[-1].at_ms for one in (first, second, third)]
    waits = [
        after.created_ms - end for end, after in zip(ends, (second, third, fourth), strict=True)
    ]
    assert waits[0] >= 1_000
    assert 400 <= waits[1] < 5_000, "twice as long as the first delay"
    assert 800 <= waits[2] < 5_000
    assert hopeless.data["failure_reason"]["retriable"] is False
    assert "trying again cannot mend" in run.data["ended"]["reason"]
    assert yard.costs_hold()["run"] == 15


def test_attempts_that_are_used_up_end_the_run_and_to_continue_starts_them_anew(
    yard: Yard,
) -> None:
    run = yard.does(
        """
    codons:
      - {codon: first, command: did}
      - codon: flaky
        on_failure: {retry: {attempts: 2, delay_ms: 0}}
        command: did; [ -e ../cues/mended ] || { echo "connection reset" >&2; exit 1; }
      - {codon: last, command: did}
    """,
        "failed",
    )
    assert yard.shape() == ["first completed", "flaky failed", "flaky failed"]
    assert run.data["ended"]["codon"] == "flaky"
    assert "at attempt 2 of 2" in run.data["ended"]["reason"]
    assert yard.did() == ["first", "flaky", "flaky"]

    (yard.cues / "mended").touch()
    again = yard.runs.proceed(yard.workspace)
    yard.ends(again)

    assert again.id.endswith("/2")
    assert yard.shape() == ["flaky completed", "last completed"]
    assert yard.did() == ["first", "flaky", "last"], "what failed is not in the workspace"
    rescued = yard.notes(again.id, "rescued")[0].detail["branch"]
    assert at_branch(yard, rescued, "done.txt") == "first\nflaky\nflaky"


def at_branch(yard: Yard, branch: str, path: str) -> str:
    """Return a file as it is on a branch of the checkpoints."""
    return git(yard.workspace / ".interlock" / "checkpoints", "show", f"{branch}:{path}")


def test_a_budget_that_is_used_up_ends_its_codon_its_loop_and_its_run(new_yard: NewYard) -> None:
    yard, strict, lenient = (new_yard(name) for name in ("yard", "strict", "lenient"))
    for whole, policy in ((strict, "fail"), (lenient, "complete")):
        whole.start(f"""
        budget: {{cost_usd: 0.00001, exceeded: {policy}}}
        codons:
          - {{codon: cheap, speaks: interlock, command: session; cost 8; result}}
          - {{codon: dear, speaks: interlock, command: session; cost 8; never}}
          - {{codon: last, command: did}}
        """)
    yard.does("""
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
      - {codon: time, budget: {duration_s: 1}, command: did; never}
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
    assert yard.shape() == [
        *("cost completed", "tokens failed"),
        *(f"{name} completed" for name in names),
    ]
    assert yard.did() == names
    cost, tokens, time, _, _, full, _ = yard.codons()
    assert cost.data["budget_exceeded"] == {"currency": "cost", "limit": 10, "used": 11}
    assert tokens.data["failure_reason"]["message"] == "the codon's budget is exceeded"
    assert (time.data["budget_exceeded"]["currency"], full.data["final_cost"]) == ("duration", 12)
    for whole, came_to in ((strict, "failed"), (lenient, "completed")):
        ended = whole.ends(whole.last, "failed")
        assert whole.shape() == ["cheap completed", f"dear {came_to}"]
        assert ended.data["ended"]["codon"] == ("dear" if whole is strict else "last")
        assert whole.costs_hold()["run"] == 16
    assert ended.data["ended"]["reason"] == "cost is used up: 16 of 10"


def let_go(yard: Yard) -> None:
    """Let a codon that is held at its start go on, once its conductor has heard the order."""
    yard.renewed(yard.codon().id)
    yard.go("starting")


def test_a_codon_can_be_skipped_in_each_live_state_and_the_run_goes_on(new_yard: NewYard) -> None:
    yards = each_state(new_yard)
    for yard in yards.values():
        yard.runs.skip(yard.workspace, reason="not today")
    let_go(yards["starting"])

    for state, yard in yards.items():
        yard.ends(yard.last)
        assert yard.shape() == ["one skipped", "two completed"], yard.story()
        skipped = yard.codon()
        assert (skipped.data["skipped_during"], skipped.data["skip_checkpoint"] != "") == (
            state,
            True,
        )
        did = ["one", "two"] if state not in ("preparing", "starting") else ["two"]
        assert yard.did() == did, "what it did stays"
    paid = yards["completing_sentinels"].costs_hold()
    assert (paid["run"], paid["run_spent"]) == (0, 3), "skipped it counts nothing, and was paid"


def test_a_run_can_be_stopped_in_each_live_state_of_its_codon(new_yard: NewYard) -> None:
    yards = each_state(new_yard)
    for yard in yards.values():
        yard.runs.stop(yard.workspace, reason="enough")
    let_go(yards["starting"])

    for state, yard in yards.items():
        run = yard.ends(yard.last, "failed")
        assert run.data["ended"]["reason"] == "enough"
        assert yard.shape() == ["one failed"], yard.story()
        failed = yard.codon()
        assert failed.data["failed_during"] == state
        assert failed.data["ignored"] is False, "a stop is not gone past"
        assert failed.data["error_checkpoint"]
        with pytest.raises(RunRefusedError, match="no run is at work"):
            yard.runs.stop(yard.workspace)


def test_stopped_by_force_a_run_has_ended_at_once_and_the_next_waits_for_its_processes(
    yard: Yard,
) -> None:
    run = yard.start("codons: [{codon: one, command: did; hold agent}, {codon: two, command: did}]")
    agent = yard.meets("agent")

    stopped = yard.runs.stop(yard.workspace, reason="at once", force=True)

    assert stopped.state == "failed"
    assert stopped.data["ended"]["reason"] == "at once"
    yard.ends(run, "failed")
    assert not is_alive(agent)
    assert yard.triggers(yard.codon().id)[-1] == ("run_ended", "clearance")
    yard.go("agent")
    yard.ends(yard.runs.proceed(yard.workspace))
    assert yard.did() == ["one", "two"], "the first try left nothing"


def test_a_run_can_be_stopped_while_it_waits_to_try_again(yard: Yard) -> None:
    yard.start("""
    codons:
      - {codon: one, command: did; exit 1, on_failure: {retry: {attempts: 3, delay_ms: 60000}}}
    """)
    yard.stands("failed")

    stopped = yard.runs.stop(yard.workspace, wait_s=20)

    assert (stopped.state, stopped.data["ended"]["reason"]) == ("failed", "stopped by a person")
    assert yard.did() == ["one"]


GOING = """
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


def test_a_workspace_goes_back_to_any_checkpoint_byte_for_byte_and_what_was_there_is_kept(
    yard: Yard,
) -> None:
    (yard.workspace / "mine.txt").write_text("from before")
    run = yard.start(GOING)
    yard.meets("two-1")
    after_one = yard.files()
    for refused in (
        partial(yard.runs.rollback, yard.workspace, "initial"),
        partial(yard.runs.redo, yard.workspace),
        partial(yard.runs.proceed, yard.workspace),
    ):
        with pytest.raises(RunRefusedError, match="is at work; stop it first"):
            refused()
    yard.go("two-1")
    yard.ends(run)
    after_all = yard.files()
    known = yard.runs.checkpoints(yard.workspace)
    [sha] = [one.sha for one in known if (one.codon, one.type) == ("one", "completed")]
    ways: list[Callable[[], Any]] = [
        lambda: yard.runs.rollback(yard.workspace, "one:completed"),
        lambda: yard.runs.rollback(yard.workspace, sha[:9]),
        lambda: yard.runs.redo(yard.workspace, "two"),
    ]

    for number, way in enumerate(ways, start=2):
        (yard.workspace / "stray").write_text(f"stray {number}")
        again = way()
        yard.meets(f"two-{number}")
        assert yard.files() == after_one
        assert [one["codon_id"] for one in again.data["done"]] == ["one"]
        branch = yard.notes(again.id, "rescued")[0].detail["branch"]
        assert at_branch(yard, branch, "stray") == f"stray {number}"
        yard.go(f"two-{number}")
        yard.ends(again)
        assert yard.files() == after_all
        assert yard.shape() == ["two completed", "three completed"]
        assert yard.costs_hold()["total"] == 12 * number
    last = yard.ends(yard.runs.rollback(yard.workspace, "last-success"))
    assert (len(last.data["done"]), yard.shape(), yard.files()) == (3, [], after_all)
    assert yard.runs.costs(yard.workspace, since=3)["since"] == 24
    with pytest.raises(CheckpointError, match="there is no checkpoint nine:completed"):
        yard.runs.rollback(yard.workspace, "nine:completed")
    first = yard.runs.rollback(yard.workspace, "initial")
    yard.go("two-6")
    yard.ends(first)
    assert yard.shape() == [f"{name} completed" for name in ("one", "two", "three")]
    assert first.data["done"] == []
    assert yard.did() == ["one", "two", "three"]
    assert (yard.workspace / "mine.txt").read_text() == "from before"


def test_events_from_outside_are_applied_in_their_order_and_bad_ones_are_answered_and_passed(
    yard: Yard,
) -> None:
    yard.start("""
    codons:
      - {codon: one, speaks: interlock, command: session; did; hold agent}
      - {codon: two, command: did}
    """)
    agent = yard.meets("agent")
    yard.stands("running")
    with pytest.raises(InvalidPayloadError, match="type"):
        yard.tells("CodonVanished", codon="one")
    moved: dict[str, Any] = {"codon": "one", "from": "running"}
    skipped: dict[str, Any] = {"to": "skipped", "metadata": {"skipped_during": "running"}}
    sent = [
        yard.tells("CostsUpdated", codon="one", cost=100),
        yard.tells("CostsIncremented", codon="one", cost_delta=1, run="99"),
        yard.tells("CostsIncremented", codon="nine", cost_delta=1),
        yard.tells("CodonTransitioned", **{**moved, "from": "completed", "to": "running"}),
        yard.tells("CodonTransitioned", **moved, to="completed"),
        yard.tells("CodonTransitioned", **moved, to="starting"),
        yard.tells("CodonStarted", codon="three"),
        yard.tells("RunStarted", run_folder="/x", branch="b"),
        yard.tells("CostsIncremented", codon="one", cost_delta=20, op_id="twenty"),
        yard.tells("CostsIncremented", codon="one", cost_delta=20, op_id="twenty"),
        yard.tells("AssistantMessageCountUpdated", codon="one", new_count=9),
        yard.tells("CodonFinalCostSet", codon="one", final_cost=77),
        yard.tells("CostsIncremented", codon="one", cost_delta=5),
        yard.tells("CodonTransitioned", **moved, **skipped),
    ]
    yard.answer(sent[-1])

    told = [yard.runs.answer(one) for one in sent]
    answers = [str(one.detail.get("why", "")) if one else "unread" for one in told]
    run = yard.last.id
    assert answers == [
        "",
        f"there is no run 99 of {yard.opened.id}",
        f"there is no codon nine in run {run}",
        "Invalid transition from running to running",
        "Missing required metadata for transition to completed: checkpoint_sha",
        "Invalid transition from running to starting",
        answers[6],
        answers[7],
        *("", "", "", ""),
        answers[12],
        "",
    ]
    assert "conductor starts its codons" in answers[6]
    assert "is at work there" in answers[7]
    assert "final" in answers[12]
    assert sent[8].id == sent[9].id
    assert {one.detail["sender"] for one in told if one} == {"outside"}
    yard.ends(yard.last)
    assert yard.shape() == ["one skipped", "two completed"]
    assert not is_alive(agent)
    assert yard.codon().data["partial_cost"] == 77
    of_one = [one.trigger for one in yard.deployment.events(yard.codon().id)]
    assert of_one[4:] == [
        *("costs_updated", "costs_incremented", "assistant_message_count_updated"),
        *("codon_final_cost_set", "skip"),
    ]
    late = yard.answer(yard.tells("CostsIncremented", codon="one", cost_delta=5))
    assert late.kind == "event_refused"
    assert yard.costs_hold()["run_spent"] == 77


def test_costs_that_come_while_sentinels_finish_count_and_those_after_the_end_do_not(
    yard: Yard,
) -> None:
    yard.start("""
    sentinels: {slow: {on: [codon_transitioned], command: "true; hold sentinel"}}
    codons:
      - {codon: one, sentinels: [slow], speaks: interlock, command: session; cost 10; result}
    """)
    yard.stands("completing_sentinels")
    late = [yard.tells("CostsIncremented", codon="one", cost_delta=n) for n in (1, 2, 4)]
    assert yard.answer(late[-1]).kind == "event_applied"
    yard.go("sentinel")
    yard.ends(yard.last)

    after = yard.answer(yard.tells("CostsIncremented", codon="one", cost_delta=100))

    assert after.kind == "event_refused"
    assert yard.codon().data["final_cost"] == 17
    assert yard.costs_hold()["total"] == 17


def test_a_follower_that_begins_again_from_its_last_position_misses_nothing_and_repeats_nothing(
    yard: Yard,
) -> None:
    run = yard.start(GOING.replace("hold ", ": "))
    heard: list[Any] = []
    position = "0-0"
    while not (heard and heard[-1].ends):
        for one in yard.runs.follow(yard.opened, position):
            position = one.position
            heard.append(one)
            if len(heard) % 3 == 0 or one.ends:
                break
    yard.ends(run)

    assert heard == yard.heard()
    rows = yard.deployment.client.dispatch.views.chronicle(yard.opened.id, "0-0", 1_000)
    assert [one.position for one in heard] == [row[0] for row in rows]
    versions: dict[str, list[int]] = {}
    for _, of, version in rows:
        versions.setdefault(of, []).append(version)
    for name, found in versions.items():
        assert found == [event.version for event in yard.deployment.events(name)]
