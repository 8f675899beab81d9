"""Runs of codons, every day: plans, failures, limits, orders, going back and going on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from kernel.errors import InvalidPayloadError
from tests.end_to_end.conftest import FAILED
from tests.end_to_end.house import House, Preloaded
from tests.end_to_end.yard import Yard
from workers.gateways.server import EmbeddedServer
from workers.run_client import Runs
from workers.runs.beginning import RunRefusedError
from workers.runs.checkpoints import CheckpointError

NewYard = Callable[[str], Yard]
# What bash reads before it looks at a sentinel's command: there a codon can be held at its start.
CHECKS = """\
cues=$PWD/../cues
if [ -e "$cues/starting.wait" ]; then
  echo $$ >> "$cues/starting.here"
  while [ ! -e "$cues/starting.go" ]; do read -rt 0.05 _ <> "$cues/never"; done
fi
"""
WATCHED = """
sentinels:
  eye:
    on: [codon_started]
    command: "true"
"""


@pytest.fixture(scope="module")
def street(
    preloaded: Preloaded, server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """Return a house that all tests here share."""
    folder = tmp_path_factory.mktemp("street")
    (folder / "checks.sh").write_text(CHECKS)
    variables = {"BASH_ENV": str(folder / "checks.sh")}
    house = House(preloaded, folder, server.url, f"t{uuid4().hex[:12]}", variables)
    house.full(concurrency=12)
    yield house
    house.close(failed=False)


@pytest.fixture
def new_yard(
    request: pytest.FixtureRequest, street: House, tmp_path: Path
) -> Iterator[NewYard]:
    """Return what makes a workspace in the shared house, with a client of this test's own."""
    house = House(street.preloaded, street.folder, street.store_url, street.prefix)
    yards: list[Yard] = []

    def build(name: str) -> Yard:
        yards.append(Yard(house, tmp_path / name))
        return yards[-1]

    yield build
    for yard in yards:
        if not request.node.stash.get(FAILED, False):
            yard.rests()
            yard.costs_hold()
        yard.close()


@pytest.fixture
def yard(new_yard: NewYard) -> Yard:
    return new_yard("yard")


def test_a_plan_is_done_in_its_order_with_rig_loop_sentinel_and_a_session_that_is_continued(
    yard: Yard,
) -> None:
    (yard.workspace / "raw").mkdir()
    (yard.workspace / "raw" / "a.csv").write_text("1\n")
    run = yard.does("""
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
    """)

    names = ["load", "clean#0", "check#0", "clean#1", "check#1", "read#0", "never-again#0", "read#1"]
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
    told = (yard.workspace / "told.txt").read_text().splitlines()
    assert told == sorted(
        [
            f"INTERLOCK_AGENT_MARK={load.id}:1.0:{told[0].rpartition(':')[2]}",
            "INTERLOCK_CODON=load",
            "INTERLOCK_ITERATION=",
            "INTERLOCK_PREVIOUS_SESSION=",
            f"INTERLOCK_REPORT_FD={told[4].rpartition('=')[2]}",
            f"INTERLOCK_RUN={run.id}",
            f"INTERLOCK_WORKSPACE={yard.workspace}",
        ]
    ), "no setting of ours, and no address of a store"
    assert yard.costs_hold() == {"run": 5, "run_spent": 12, "total": 5, "total_spent": 12}
    chain = [one["data"]["to"] for one in moves(yard, "load")]
    assert chain == ["starting", "initializing", "running", "completing_sentinels", "completed"]
    assert (yard.types()[0], yard.types()[-1]) == ("RunStarted", "RunCompleted")


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
  - {codon: slow, timeout_s: 1, command: 'did; while :; do echo; read -rt 0.1 _ <> "$CUES/never"; done', on_failure: ignore}
  - {codon: mute, speaks: interlock, command: 'session; did', on_failure: ignore}
  - {codon: fast, command: ':'}
  - {codon: loud, command: 'head -c 20000000 /dev/zero | tr "\\0" x; did'}
  - codon: chatty
    speaks: interlock
    command: session; for n in {1..3000}; do cost 2; done; result
  - {codon: unrigged, rig: [{command: {run: 'echo "no disk" >&2; exit 9'}}], command: did, on_failure: ignore}
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
        "nothing": (127, "running", ("unknown", "bash: line 1: no-such-command: command not found")),
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
    assert (found["last"].data["ignored"], run.data["ended"]) == (
        False,
        {
            "codon": "last",
            "reason": "last failed, and on_failure is abort; continue the run to start it anew",
        },
    )
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
    ends = [yard.house.events(one.id)[-1].at_ms for one in (first, second, third)]
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
    assert at_branch(yard, rescued, "done.txt") == "first\nflaky\nflaky\n"


def at_branch(yard: Yard, branch: str, path: str) -> str:
    """Return a file as it is on a branch of the checkpoints."""
    from workers.gateways.git.shadow import Shadow

    return Shadow.open(yard.workspace)._read("show", f"{branch}:{path}")
