"""A sentinel's command reads events as JSON; its usage is booked, and its output is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.systems.runs.machines.values import UnloadReason
from interlock.systems.runs.sentinels.call import (
    MATERIAL_BYTES_MAX,
    OUTPUT_BYTES_MAX,
    FatalSentinelError,
    instructions,
    material,
)
from interlock.systems.runs.sentinels.runner import FAILURES_MAX
from interlock.systems.runs.sentinels.trigger import SentinelEvent
from interlock.workers.specs.json_line import COUNT_MAX
from tests.systems.runs.sentinels.sentinel_hosts import (
    calls_in,
    ends,
    host_in,
    no_thread_left,
    notify,
    pid_in,
    sentinel,
    state,
    wait_for_calls,
)
from tests.waiting import until

APPENDS_CALLS = "cat >> calls"
USAGE = """echo '{"type": "usage", "cost_micro": 70, "tokens_in": 5}'"""


def test_a_command_is_given_the_events_in_the_workspace(tmp_path: Path) -> None:
    command = f'{APPENDS_CALLS}; echo "$COLOUR in $PWD"'
    with host_in(tmp_path, sentinel(command=command)) as host:
        assert host.load() == []
        notify(host, 2)
        assert host.drain(60)

    assert calls_in(tmp_path / "calls") == [
        {
            "sentinel": "eye",
            "codon": "tidy",
            "events": [{"name": "e", "at_ms": number, "data": {"n": number}}],
        }
        for number in range(2)
    ]
    assert [one.text for one in host.take_remarks()] == [f"blue in {tmp_path}"] * 2
    assert host.take_remarks() == []


def test_what_a_command_says_of_its_usage_adds_up_and_the_rest_is_its_words(
    tmp_path: Path,
) -> None:
    command = f"echo before; {USAGE}; {USAGE}; echo after"
    with host_in(tmp_path, sentinel(command=command)) as host:
        host.load()
        notify(host, 2)
        host.drain(60)

    assert state(host).total_cost == 280
    assert {one.text for one in host.take_remarks()} == {"before\nafter"}


@pytest.mark.parametrize("cost", ["-5", "1.5", '"7"', "true"])
def test_a_usage_that_cannot_be_costs_nothing_and_shows(tmp_path: Path, cost: str) -> None:
    line = f'{{"type": "usage", "cost_micro": {cost}}}'
    with host_in(tmp_path, sentinel(command=f"echo '{line}'")) as host:
        host.load()
        notify(host)
        host.drain(60)

    assert state(host).total_cost == 0
    assert [one.text for one in host.take_remarks()] == [line]


def test_a_sum_that_no_record_takes_stays_at_the_highest_that_one_does(tmp_path: Path) -> None:
    line = f'{{"type": "usage", "cost_micro": {COUNT_MAX}}}'
    with host_in(tmp_path, sentinel(command=f"echo '{line}'; echo '{line}'")) as host:
        host.load()
        notify(host)
        host.drain(60)

    assert state(host).total_cost == COUNT_MAX


def test_a_last_line_without_its_end_counts(tmp_path: Path) -> None:
    line = '{"type": "usage", "cost_micro": 7}'
    with host_in(tmp_path, sentinel(command=f"printf %s '{line}'")) as host:
        host.load()
        notify(host)
        host.drain(60)

    assert state(host).total_cost == 7


def test_of_endless_words_the_last_are_kept(tmp_path: Path) -> None:
    command = "yes | head -c 300000; echo end"
    with host_in(tmp_path, sentinel(command=command)) as host:
        host.load()
        notify(host)
        host.drain(60)

    [remark] = host.take_remarks()
    assert remark.text.endswith("y\nend")
    assert OUTPUT_BYTES_MAX - 10 < len(remark.text) <= OUTPUT_BYTES_MAX


def test_a_command_need_not_read_what_it_is_given(tmp_path: Path) -> None:
    with host_in(tmp_path, sentinel(command="exec <&-; echo fine")) as host:
        host.load()
        host.notify(SentinelEvent("e", 0, {"text": "x" * 1_000_000}))
        assert host.drain(60)

    assert [one.text for one in host.take_remarks()] == ["fine"]


def test_three_failures_in_a_row_unload_a_sentinel_and_keep_its_cost(tmp_path: Path) -> None:
    command = f"{APPENDS_CALLS}; until [ -e go ]; do sleep 0.01; done; {USAGE}"
    command += "; echo broken >&2; exit 3"
    with host_in(tmp_path, sentinel(command=command)) as host:
        host.load()
        notify(host, FAILURES_MAX + 2)
        (tmp_path / "go").touch()
        until(lambda: state(host).status == "unloaded", what="it is unloaded")
        notify(host)
        assert host.drain(60)

    found = state(host)
    assert found.unload_reason == UnloadReason.CONSECUTIVE_FAILURES
    assert (found.llm_call_count, found.failed_llm_calls) == (FAILURES_MAX, FAILURES_MAX)
    assert found.total_cost == 70 * FAILURES_MAX
    assert len(calls_in(tmp_path / "calls")) == FAILURES_MAX
    assert host.left_out == {"eye": 2}
    *failed, last = host.take_remarks()
    assert {one.problem for one in failed} == {"the command ended with exit code 3: broken"}
    assert last.problem == "2 events were not passed to it (consecutive-failures)"


def test_a_success_in_between_forgives_the_failures_before(tmp_path: Path) -> None:
    # The third of every three calls succeeds.
    command = f"{APPENDS_CALLS}; exit $(( $(wc -l < calls) % 3 ))"
    with host_in(tmp_path, sentinel(command=command)) as host:
        host.load()
        notify(host, 3 * FAILURES_MAX)
        assert host.drain(60)

    found = state(host)
    assert found.unload_reason == UnloadReason.CODON_COMPLETE
    assert (found.llm_call_count, found.failed_llm_calls) == (9, 6)


@pytest.mark.parametrize("code", [126, 127])
def test_what_turns_out_to_be_no_command_is_unloaded_at_once(tmp_path: Path, code: int) -> None:
    with host_in(tmp_path, sentinel(command=f"exit {code}")) as host:
        host.load()
        notify(host, 3)
        host.drain(60)

    found = state(host)
    assert found.unload_reason == UnloadReason.FATAL_ERROR
    assert (found.llm_call_count, found.failed_llm_calls) == (1, 1)


def test_a_command_over_its_time_is_killed_with_its_grandchild_and_what_it_cost_counts(
    tmp_path: Path,
) -> None:
    grandchild = "(trap '' TERM; echo $BASHPID > pid; while :; do sleep 1; done) &"
    command = f"{USAGE}; {grandchild} wait"
    # A busy computer may not start the grandchild in time: try again with a longer limit.
    for timeout_s in (0.5, 5.0, 60.0):
        with host_in(tmp_path, sentinel(command=command, timeout_s=timeout_s)) as host:
            host.load()
            notify(host)
            assert host.drain(120)
        if (tmp_path / "pid").exists():
            break

    ends(pid_in(tmp_path / "pid"))
    found = state(host)
    assert (found.failed_llm_calls, found.total_cost) == (1, 70)
    assert [one.problem for one in host.take_remarks()] == [
        f"the command did not end within {timeout_s:g} s"
    ]


def test_a_folder_that_is_gone_is_a_failure_and_not_a_defect(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    with host_in(folder, sentinel(command="true")) as host:
        host.load()
        folder.rmdir()
        notify(host)
        assert host.drain(60)

    assert state(host).failed_llm_calls == 1
    [remark] = host.take_remarks()
    assert remark.problem.startswith("the command could not be started: ")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("no-such-program-here --now", "there is no command no-such-program-here"),
        ("./look.sh", "there is no command ./look.sh"),
        ("if true; then", "bash cannot read it"),
    ],
)
def test_a_command_that_cannot_run_is_not_loaded(
    tmp_path: Path, command: str, problem: str
) -> None:
    (tmp_path / "look.sh").write_text("echo fine\n")  # not executable
    broken = sentinel("broken", command, required=True)
    with host_in(tmp_path, broken, sentinel(command="echo fine")) as host:
        [failure] = host.load()
        notify(host)
        assert host.drain(60)

    assert (failure.sentinel, failure.required) == ("broken", True)
    assert problem in failure.problem
    found = state(host, "broken")
    assert (found.status, found.unload_reason) == ("unloaded", UnloadReason.FATAL_ERROR)
    assert found.llm_call_count == 0
    assert state(host).llm_call_count == 1
    assert [one["id"] for one in host.states()] == ["broken", "eye"]


def test_where_nobody_can_be_loaded_nothing_runs(tmp_path: Path) -> None:
    with host_in(tmp_path, sentinel(command="no-such-program-here")) as host:
        assert len(host.load()) == 1
        assert no_thread_left()
        assert host.take_changes() == host.states()
        notify(host)
        assert host.drain(60)
        assert host.take_changes() is None


def test_a_killed_call_is_a_failure_and_no_process_stays(tmp_path: Path) -> None:
    command = "sleep 300 & echo $! > pid; wait"
    with host_in(tmp_path, sentinel(command=command)) as host:
        host.load()
        notify(host, 2)
        pid = pid_in(tmp_path / "pid")
        wait_for_calls(host, 1)

    ends(pid)
    assert no_thread_left()
    found = state(host)
    assert found.unload_reason == UnloadReason.SHUTDOWN
    assert (found.llm_call_count, found.failed_llm_calls) == (1, 1)
    assert host.left_out == {"eye": 1}


def test_a_prompt_is_filled_in_with_the_names() -> None:
    filled_in = instructions(
        "You are $sentinel of ${codon}, for 5 $$.", sentinel="eye", codon="tidy"
    )

    assert filled_in == "You are eye of tidy, for 5 $."


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [("see $events", r"the prompt names \$events"), ("5 $ a day", r"write \$\$ for a dollar")],
)
def test_a_prompt_that_cannot_be_filled_in_is_refused(prompt: str, problem: str) -> None:
    with pytest.raises(FatalSentinelError, match=problem):
        instructions(prompt, sentinel="eye", codon="tidy")


def test_of_too_many_events_a_model_sees_the_newest_and_is_told_so() -> None:
    events = tuple(SentinelEvent("e", number, {"text": "x" * 60_000}) for number in range(8))

    first, *lines = material(events).splitlines()

    assert first == "[4 older events are left out]"
    assert [f'"at_ms": {number},' in line for number, line in enumerate(lines, 4)] == [True] * 4
    assert len(material(events)) < MATERIAL_BYTES_MAX + 100
