"""Sentinels run beside the codon: they never delay it, and are drained within a limit."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from interlock.systems.runs.machines.values import UnloadReason
from interlock.systems.runs.sentinels.call import BookCost, FatalSentinelError, SentinelCallError
from interlock.systems.runs.sentinels.host import SentinelHost
from tests.systems.runs.sentinels.sentinel_hosts import (
    calls_in,
    command_in,
    ends,
    host_in,
    no_thread_left,
    notify,
    pid_in,
    sentinel,
    state,
    wait_for_calls,
)

APPENDS_CALLS = "cat >> calls"
WAITS = f"{APPENDS_CALLS}; until [ -e go ]; do sleep 0.01; done"
WITH_MODEL: dict[str, Any] = {"command": None, "model": "some:model", "prompt": "I am $sentinel."}


def numbers(file: Path) -> list[list[int]]:
    """Return the numbers of each call's events."""
    return [[event["data"]["n"] for event in call["events"]] for call in calls_in(file)]


class Models:
    """Models that answer by a script, with a text or an error."""

    def __init__(self, *script: str | SentinelCallError, cost_micro: int = 30) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.closed = False
        self._script, self._cost_micro = list(script), cost_micro

    def open(self, model: str) -> None:
        """Accept one model."""
        if model != "some:model":
            raise FatalSentinelError(f"there is no {model}")

    async def ask(
        self, model: str, instructions: str, material: str, *, timeout_s: float, book: BookCost
    ) -> str:
        """Return the next answer; without one, wait forever."""
        del timeout_s
        self.asked.append((model, instructions, material))
        book(self._cost_micro)
        if not self._script:
            await asyncio.Event().wait()
        if isinstance(answer := self._script.pop(0), SentinelCallError):
            raise answer
        return answer

    async def close(self) -> None:
        """Remember that they were closed."""
        self.closed = True


def test_a_state_tells_the_whole_story(tmp_path: Path) -> None:
    with host_in(tmp_path, sentinel(command="true --all", strategy={"count": 2})) as host:
        host.load()
        loaded = state(host)
        notify(host, 4)
        wait_for_calls(host, 2)
        notify(host, 3, name="other")
        host.drain(60)

    found = state(host)
    assert (loaded.status, loaded.unloaded_at, loaded.unload_reason) == ("active", None, None)
    assert (found.model, found.status) == ("true", "unloaded")
    assert (found.total_triggers, found.llm_call_count, found.failed_llm_calls) == (4, 2, 0)
    assert found.unload_reason == UnloadReason.CODON_COMPLETE
    assert found.last_llm_call_at is not None
    assert found.unloaded_at is not None
    assert found.loaded_at < found.last_llm_call_at < found.unloaded_at


def test_changes_are_told_once(tmp_path: Path) -> None:
    with host_in(tmp_path, sentinel(command="true")) as host:
        host.load()
        assert host.take_changes() == host.states()
        assert host.take_changes() is None
        notify(host, name="other")
        notify(host)
        host.drain(60)
        assert host.take_changes() == host.states()
        assert host.take_changes() is None


def test_what_waits_for_silence_is_handed_over_by_itself(tmp_path: Path) -> None:
    runner = sentinel(command=APPENDS_CALLS, strategy={"debounce_s": 0.05})
    with host_in(tmp_path, runner) as host:
        host.load()
        notify(host, 3)
        wait_for_calls(host, 1)
        notify(host, 1, first=3)
        wait_for_calls(host, 2)
        host.drain(60)

    assert [number for call in numbers(tmp_path / "calls") for number in call] == [0, 1, 2, 3]


@pytest.mark.parametrize("strategy", [{"debounce_s": 300}, {"count": 1_000}, {"window_s": 3_600}])
def test_a_drain_hands_over_what_has_accumulated(
    tmp_path: Path, strategy: dict[str, float]
) -> None:
    with host_in(tmp_path, sentinel(command=APPENDS_CALLS, strategy=strategy)) as host:
        host.load()
        notify(host, 3)
        assert host.drain(60)
        notify(host)

    assert numbers(tmp_path / "calls") == [[0, 1, 2]]
    assert state(host).total_triggers == 3


def test_a_drain_ends_at_its_limit_and_kills_what_runs(tmp_path: Path) -> None:
    slow = sentinel("slow", "echo $$ > pid; exec sleep 300")
    with host_in(tmp_path, slow, sentinel(command="true")) as host:
        host.load()
        notify(host, 3)
        pid = pid_in(tmp_path / "pid")
        assert not host.drain(0.05)
        assert no_thread_left()
        ends(pid)

    found = state(host, "slow")
    assert found.unload_reason == state(host).unload_reason == UnloadReason.CODON_COMPLETE
    assert (found.llm_call_count, found.failed_llm_calls) == (1, 1)
    assert host.left_out["slow"] == 2


def test_a_shutdown_from_elsewhere_ends_a_drain(tmp_path: Path) -> None:
    with host_in(tmp_path, sentinel(command="echo $$ > pid; exec sleep 300")) as host:
        host.load()
        notify(host)
        pid_in(tmp_path / "pid")
        elsewhere = threading.Thread(target=host.shutdown)
        elsewhere.start()
        assert not host.drain(300)
        elsewhere.join()

    assert state(host).unload_reason == UnloadReason.SHUTDOWN


def test_after_a_drain_nothing_is_left_to_shut_down(tmp_path: Path) -> None:
    with host_in(tmp_path, sentinel(command="true")) as host:
        host.load()
        assert host.drain(60)
        assert no_thread_left()
        assert host.drain(60)
        host.shutdown()

    assert state(host).unload_reason == UnloadReason.CODON_COMPLETE


def test_a_slow_sentinel_delays_neither_who_tells_nor_the_others(tmp_path: Path) -> None:
    slow, quick = sentinel("slow", WAITS), sentinel("quick", "true")
    with host_in(tmp_path, slow, quick) as host:
        host.load()
        notify(host, 5)
        wait_for_calls(host, 5, "quick")
        # The slow sentinel waits for this test, so a host that waited for it would hang.
        assert state(host, "slow").llm_call_count == 1
        (tmp_path / "go").touch()
        assert host.drain(60)

    assert numbers(tmp_path / "calls") == [[number] for number in range(5)]


def test_sentinels_run_at_the_same_time(tmp_path: Path) -> None:
    def meets(mine: str, other: str) -> str:
        return f"touch {mine}; until [ -e {other} ]; do sleep 0.01; done"

    one, two = sentinel("one", meets("a", "b")), sentinel("two", meets("b", "a"))
    with host_in(tmp_path, one, two) as host:
        host.load()
        notify(host)
        assert host.drain(60)


def test_a_sentinel_is_called_once_at_a_time(tmp_path: Path) -> None:
    alone = "mkdir busy || exit 3; sleep 0.01; rmdir busy"
    with host_in(tmp_path, sentinel(command=alone)) as host:
        host.load()
        notify(host, 10)
        assert host.drain(60)

    assert (state(host).llm_call_count, state(host).failed_llm_calls) == (10, 0)


def test_a_sequence_calls_with_the_events_that_made_it_up(tmp_path: Path) -> None:
    runner = sentinel(command=APPENDS_CALLS, on=None, sequence=["a", "b"])
    with host_in(tmp_path, runner) as host:
        host.load()
        for number, name in enumerate("abxaxb"):
            notify(host, name=name, first=number)
        assert host.drain(60)

    assert numbers(tmp_path / "calls") == [[0, 1], [3, 5]]
    assert state(host).total_triggers == 2


def test_a_model_is_asked_with_its_prompt_and_the_events(tmp_path: Path) -> None:
    models = Models("all is well", SentinelCallError("it is busy"))
    with host_in(tmp_path, sentinel(**WITH_MODEL), models=models) as host:
        assert host.load() == []
        notify(host, 2)
        assert host.drain(60)

    first, second = host.take_remarks()
    assert (first.text, first.problem) == ("all is well", "")
    assert (second.text, second.problem) == ("", "it is busy")
    assert models.asked[0] == (
        "some:model",
        "I am eye.",
        '{"name": "e", "at_ms": 0, "data": {"n": 0}}',
    )
    found = state(host)
    assert (found.model, found.total_cost) == ("some:model", 60)
    assert (found.llm_call_count, found.failed_llm_calls) == (2, 1)
    assert models.closed


def test_a_model_that_does_not_answer_in_time_has_failed_and_its_cost_counts(
    tmp_path: Path,
) -> None:
    with host_in(tmp_path, sentinel(**WITH_MODEL, timeout_s=0.05), models=Models()) as host:
        host.load()
        notify(host)
        assert host.drain(60)

    assert (state(host).failed_llm_calls, state(host).total_cost) == (1, 30)
    assert [one.problem for one in host.take_remarks()] == [
        "some:model did not answer within 0.05 s"
    ]


def refusal(folder: Path, models: Models | None, **changes: str) -> str:
    host = SentinelHost(
        [sentinel(**{**WITH_MODEL, **changes})],
        codon="tidy",
        command=command_in(folder),
        models=models,
        clock_ms=lambda: 1,
    )
    with host:
        [failure] = host.load()
    return failure.problem


def test_a_model_that_cannot_be_asked_is_not_loaded(tmp_path: Path) -> None:
    assert refusal(tmp_path, Models(), model="other:model") == "there is no other:model"
    assert (
        refusal(tmp_path, None) == "it needs the model some:model, but no models are available here"
    )
    assert refusal(tmp_path, Models(), prompt="$everything").startswith("the prompt names $every")
