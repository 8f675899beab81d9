"""What `interlock top` shows: each look, what waits, what is cut, what fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from interlock.kernel.machines.tasks.visual_state import VisualState
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.top.claim import Line
from interlock.workers.ops.top.screen import amount, brief, dollars, drawn, middle, verdict
from interlock.workers.ops.top.state import LINES_MAX, Picture, Top
from interlock.workers.runs.client import Runs
from interlock.workers.tasks.client import Tasks
from tests.workers.tasks.claims import (
    claimed,
    fire,
    noted,
    scene,
    submitted,
    taken,
    unsupervised,
    used,
)
from tests.workers.threads.threads import client_of

STALL_S = 30.0


@pytest.fixture
def here(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix, stall_s=STALL_S)


def one(client: Client, *, backlog: str = "") -> Line:
    picture = Top(client, backlog=backlog).look()
    assert len(picture.lines) == 1, picture.lines
    return picture.lines[0]


def text(picture: Picture, *, width: int = 200, height: int | None = None) -> str:
    console = Console(width=width, height=height or 100, force_terminal=False)
    with console.capture() as capture:
        console.print(drawn(picture, width=width, height=height))
    return capture.get()


# --- each look -------------------------------------------------------------------------------


def test_a_claim_whose_agent_is_about_to_start_is_spawning(here: Client) -> None:
    claimed(here, "b/one", role="tester")

    line = one(here)

    assert (line.look, line.state, line.doing) == (VisualState.SPAWNING, "claimed", "spawning")
    assert (line.agent, line.role, line.task) == ("one~1", "tester", "b/one")


def test_an_agent_at_work_runs_and_tells_what_it_does_and_used(here: Client) -> None:
    claim = claimed(here, "b/one").alive(pid=4711, host="anvil", containment="cgroup")
    claim.turn("tool_started", tool="grep")
    used(here, claim.names.agent, tokens_in=1_200, tokens_out=34, spent=31_000)
    noted(here, claim.names.agent, "said", message="reading\n\x1b[2Jthe tests", percent=40)
    noted(here, claim.names.agent, "progress")

    line = one(here)

    assert (line.look, line.state, line.doing) == (VisualState.RUNNING, "in_progress", "tool_use")
    assert (line.tokens, line.spent_micro) == (1_234, 31_000)
    assert line.said == "40 % reading [2Jthe tests", "nothing that a terminal would obey"
    assert (line.pid, line.host, line.containment) == (4711, "anvil", "cgroup")
    assert line.heartbeat_age_s is not None
    assert line.heartbeat_age_s < STALL_S


def test_an_agent_that_beat_a_whole_lease_ago_is_stalled(here: Client) -> None:
    claimed(here, "b/one").alive().silent()

    line = one(here)

    assert line.look is VisualState.STALLED
    assert line.heartbeat_age_s == pytest.approx(60, abs=10)


def test_an_agent_that_nobody_holds_or_names_is_unknown(here: Client) -> None:
    unsupervised(here, "b/one")

    assert one(here).look is VisualState.UNKNOWN


def test_a_claim_of_others_runs_on_its_own_lease(here: Client) -> None:
    tasks = Tasks(here)
    tasks.submit({"title": "one"}, backlog="b", name="one")
    claim = tasks.claim("b/one", owner="ann\x1b[1m")

    assert (one(here).look, one(here).agent) == (VisualState.RUNNING, "ann [1m")
    tasks.report(claim.key, claim.token, "started")
    here.dispatch.leases.renew({claim.key: (claim.token, 1, 0)})
    assert one(here).look is VisualState.STALLED


def test_an_agent_that_commits_shows_it_before_its_task_is_done(here: Client) -> None:
    claimed(here, "b/one").alive()
    noted(here, "b/one", "activity", word="committing")

    assert (one(here).look, one(here).doing) == (VisualState.MERGING, "committing")


def test_work_goes_on_when_its_agent_has_ended(here: Client) -> None:
    claim = claimed(here, "b/one").alive()
    noted(here, "b/one", "activity", word="committing")
    claim.delivered()
    assert here.show(claim.names.agent).state == "dead"

    judged = one(here)
    fire(here, taken(here, "b/one"), "verified", {"commit": "0" * 40})
    lease = taken(here, "b/one")
    words = []
    for word in ("merging", "pushing"):
        noted(here, "b/one", "activity", word=word)
        words.append((one(here).look, one(here).doing))
    noted(here, "b/one", "effect_failed", detail="main has changes")
    here.dispatch.leases.release(lease, delay_ms=60_000, counted=True)

    assert (judged.look, judged.state, judged.doing) == ("running", "done", "verifying")
    assert words == [("merging", "merging"), ("merging", "pushing")]
    assert one(here).said == "main has changes", "what holds it up"


def test_an_idle_agent_and_what_it_delivered_are_two_lines(here: Client) -> None:
    claim = claimed(here, "b/one").alive()
    claim.turn("verify_requested")
    claim.task_fires("completed", {"summary": "done"})
    claim.agent_fires("task_finished")

    looks = [(line.look, line.agent) for line in Top(here).look().lines]

    assert looks == [("running", "one~1"), ("idle", "one~1")]


def test_a_dead_agent_is_shown_for_a_minute_and_says_why(
    here: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = claimed(here, "b/one").alive()
    claim.agent_fires("ended", {"exit_code": 3})
    claim.task_fires("failed", {"reason": "no luck"})

    line = one(here)

    assert (line.look, line.state) == (VisualState.DEAD, "failed")
    assert line.said == "exit code 3"
    monkeypatch.setattr("interlock.workers.ops.top.state.DEAD_MS", 0)
    assert Top(here).look().lines == ()


# --- the whole -------------------------------------------------------------------------------


def test_each_look_is_seen_once_and_who_needs_a_look_is_on_top(here: Client) -> None:
    scene(here)

    picture = Top(here).look()

    assert picture.looks == {str(look): 1 for look in VisualState}
    assert [line.look for line in picture.lines][:3] == ["stalled", "unknown", "merging"]
    assert picture.lines[-1].look == "dead"
    assert {state: n for state, n in picture.tasks.items() if n} == {
        "open": 2,
        "claimed": 1,
        "in_progress": 4,
        "done": 1,
        "failed": 1,
    }
    assert (picture.asks, picture.asked[0].id, picture.asked[0].state) == (
        1,
        "b/crashed",
        "failed",
    )
    assert [(one.id, one.why) for one in picture.starved] == [
        ("b/never", "it depends on gone, which does not exist")
    ]
    assert picture.oldest is not None
    assert picture.oldest.id == "b/first"
    assert picture.queues["assignment"] > 0, "nobody serves it"
    assert str(verdict(picture)) == "1 stalled"
    assert picture.more == 0


def test_a_backlog_is_shown_alone(here: Client) -> None:
    scene(here)
    claimed(here, "other/one").alive()
    everything, mine = Top(here).look(), Top(here, backlog="b").look()
    other = Top(here, backlog="other").look()

    assert len(everything.lines) == len(mine.lines) + 1
    assert (mine.tasks["in_progress"], everything.tasks["in_progress"]) == (4, 5)
    assert [line.task for line in other.lines] == ["other/one"]
    assert (other.asks, other.starved, other.oldest) == (0, (), None)
    assert Top(here, backlog="nothing").look().lines == ()


def test_more_claims_than_lines_are_counted(here: Client) -> None:
    tasks = Tasks(here)
    for number in range(LINES_MAX + 5):
        tasks.submit({"title": "x"}, backlog=f"b{number % 7}", name=f"n{number}")
        tasks.claim(f"b{number % 7}/n{number}", owner="ann")

    picture = Top(here).look()

    assert (len(picture.lines), picture.more) == (LINES_MAX, 5)
    assert "at least 5 more are not read" in text(picture)
    assert f"{LINES_MAX - 9} more below" in text(picture, width=80, height=20)


def test_an_empty_store_says_so(here: Client) -> None:
    picture = Top(here).look()

    assert str(verdict(picture)) == "nothing to do"
    submitted(here, "b/one")
    assert str(verdict(Top(here).look())) == "tasks are open, nobody works"
    assert "no task is claimed" in text(picture)


def test_what_is_no_task_is_counted_by_where_it_stands(here: Client, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan: one\ncodons: [{codon: only, command: 'true'}]\n")
    Runs(here).start(plan, tmp_path)
    here.submit(
        {"inciting": {"title": "one", "text": "two"}, "policy": "plan_then_review"},
        machine="thread",
    )

    picture = Top(here).look()

    assert picture.others["run"] == {"running": 1}
    assert sum(picture.others["thread"].values()) == 1
    assert "runs     1 running" in text(picture)
    assert verdict(picture).plain == "work flows"


@pytest.mark.parametrize("width", [40, 60, 79, 80, 81, 119, 120, 160, 179, 180, 240])
def test_no_line_is_wider_than_the_terminal(here: Client, width: int) -> None:
    scene(here)
    claimed(here, "a-long-backlog/" + "with-a-very-long-name" * 3, role="role" * 8).alive()

    rows = text(Top(here).look(), width=width, height=40).splitlines()

    assert max(map(cell_len, rows)) <= width
    assert sum(row.startswith("○") for row in rows) == 1, "a line is a row"


def test_durations_numbers_and_names_keep_to_their_columns() -> None:
    seconds = (0, 59, 99, 100, 5_999, 6_000, 86_399, 86_400, 10**9)
    assert [brief(one) for one in seconds] == (
        ["0s", "59s", "99s", "1m", "99m", "1h", "23h", "1d", "99d"]
    )
    numbers = (0, 999, 1_000, 12_345, 99_960, 1_234_567, 10**9)
    assert [amount(one) for one in numbers] == ["0", "999", "1.0k", "12.3k", "100k", "1.2M", "1.0G"]
    micro = (0, 4_200, 999_499, 999_500, 12_340_000, 99_994_999, 99_996_000, 12_000_000_000)
    assert [dollars(one) for one in micro] == (
        ["$.000", "$.004", "$.999", "$1.00", "$12.34", "$99.99", "$100", "$12.0k"]
    )
    assert middle("make-the-tests-pass-a1b2c3~1", 12) == "make-t…2c3~1"
