"""The guards and updates of a long-lived agent, and an oracle that reads the page again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.decision import Decision
from interlock.kernel.errors import (
    CallError,
    IgnoredError,
    IllegalTransitionError,
    InvalidPayloadError,
)
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.table import Mode
from interlock.systems.loops.machines.loop.changes import backoff_ms
from interlock.systems.loops.machines.loop.limits import MAIL_LENGTH_MAX
from interlock.systems.loops.machines.loop.table import LOOP

GOLDEN: dict[str, Any] = json.loads(
    Path(__file__).parents[1].joinpath("golden", "loop.json").read_text("utf-8")
)
NEW = {"repo": "/r", "command": "work", "host": "here"}
PAYLOADS: Mapping[str, Mapping[str, Any]] = {
    "worktree_ready": {"host": "here", "worktree": "/w", "branch": "b"},
    "prompt_ready": {
        "prompt": "p.md",
        "digest": "0" * 64,
        "claimed": "7-0",
        "letters": ["6-0", "7-0"],
    },
    "session_started": {"session_seq": 1, "pid": 7},
    "session_succeeded": {"exit_code": 0},
    "session_error": {"exit_code": 3, "detail": "it broke"},
    "fatal_error": {"detail": "no repository"},
    "operator_stop": {"reason": "enough"},
}
PUBLISHED = tuple(trigger for trigger in LOOP.triggers if trigger != "overdue")
MAIL = {"sender": "bat", "recipient": "owl", "text": "the barn is open"}


class PureLoop:
    """A long-lived agent without a store, driven by one trigger after the other."""

    def __init__(self, state: str = "initializing", **fields: Any) -> None:
        prompt = {"claimed": "0-0", "claimed_ahead": [], "letters": []}
        data = {**LOOP.initial_data({**NEW, **fields}), "cooling_ms": 2_000, **prompt}
        self.record = Record(RecordId("owl/1"), "loop", state, Version(1), data)
        self.last: Decision | None = None

    @property
    def data(self) -> Mapping[str, Any]:
        return self.record.data

    @property
    def errors(self) -> tuple[int, int]:
        return self.data["consecutive_errors"], self.data["total_errors"]

    def fire(self, trigger: str, **payload: Any) -> PureLoop:
        given = LOOP.admit(trigger, {**PAYLOADS.get(trigger, {}), **payload})
        self.last = LOOP.decide(self.record, trigger, given)
        self.record = self.last.after
        return self

    def run(self, *triggers: str) -> PureLoop:
        for trigger in triggers:
            self.fire(trigger)
        return self

    @property
    def effects(self) -> list[str]:
        assert self.last is not None
        return [owed.effect.name for owed in self.last.owes]


def test_every_pair_of_state_and_event_is_a_row_or_ignored_or_refused_as_the_table_says() -> None:
    rows: dict[tuple[str, str], set[str]] = {}
    for source, trigger, target in GOLDEN["published"]:
        rows.setdefault((source, trigger), set()).add(target)
    states = [str(stage.state) for stage in LOOP.stages]

    for state, trigger in product(states, PUBLISHED):
        worn = {"max_consecutive_errors": 1}
        for changes in ({}, worn):
            agent = PureLoop(state, **changes)
            if (state, trigger) in rows:
                assert agent.fire(trigger).record.state in rows[state, trigger]
            elif state in GOLDEN["ignored"].get(trigger, ()):
                with pytest.raises(IgnoredError):
                    agent.fire(trigger)
            else:
                with pytest.raises(IllegalTransitionError) as refused:
                    agent.fire(trigger)
                assert not isinstance(refused.value, IgnoredError)
    assert len(states) * len(PUBLISHED) == 88


def side_effect(before: Mapping[str, Any], state: str, after: PureLoop) -> str | None:
    """Return the page's name of what a transition did besides its change of state."""
    assert after.last is not None
    if after.data.get("stopped", {}).get("by") == "fatal":
        return "LogFatal"
    if after.data.get("prompt") != before.get("prompt"):
        return "StorePrompt"
    if after.data["session_seq"] > before["session_seq"]:
        return "IncrementSession"
    # A session is ended from outside where its state is left and it has not reported its end.
    revoked = after.last.mode is Mode.LEAVE and state in {"running", "interrupting"}
    if revoked and after.last.trigger == "grace_exceeded":
        return "ForceStopSession"
    if after.last.interrupts or (revoked and after.last.trigger == "operator_stop"):
        return "CancelSession"
    return None


def test_every_published_side_effect_happens_where_the_page_names_it() -> None:
    named = {tuple(row[:3]): row[3] for row in GOLDEN["side_effects"]}
    assert set(named) <= {tuple(row) for row in GOLDEN["published"]}

    for source, trigger, target in GOLDEN["published"]:
        worn = trigger.startswith("session_") and target == "stopped"
        agent = PureLoop(source, **({"max_consecutive_errors": 1} if worn else {}))
        before = agent.data
        assert agent.fire(trigger).record.state == target
        expected = named.get((source, trigger, target))
        assert side_effect(before, source, agent) == expected, (source, trigger, target)


@pytest.mark.parametrize("trigger", ["session_error", "session_timeout"])
@pytest.mark.parametrize("state", ["spawning", "running"])
def test_an_error_cools_down_until_a_threshold_is_reached(state: str, trigger: str) -> None:
    for n in range(1, GOLDEN["max_consecutive_errors"]):
        worn = PureLoop(state)
        worn.record = Record(
            worn.record.id, "loop", state, Version(1), {**worn.data, "consecutive_errors": n - 1}
        )
        worn.fire(trigger)
        assert worn.record.state == "cooling_down"
        assert worn.data["cooling_ms"] == GOLDEN["backoff_ms"][str(n)]
        assert worn.last is not None
        assert [(t.name, t.delay_ms) for t in worn.last.timers] == [
            ("backoff", GOLDEN["backoff_ms"][str(n)])
        ]


def test_the_pauses_are_those_of_the_page_and_never_longer() -> None:
    for n, ms in GOLDEN["backoff_ms"].items():
        assert backoff_ms(int(n)) == ms
    assert backoff_ms(10_000) == 60_000


def test_the_thresholds_are_those_of_the_page_and_each_alone_ends_the_agent() -> None:
    agent = PureLoop()
    assert agent.data["max_consecutive_errors"] == GOLDEN["max_consecutive_errors"] == 5
    assert agent.data["max_total_errors"] == GOLDEN["max_total_errors"] == 20

    launches = PureLoop("spawning").run(
        *("session_error", "backoff_elapsed", "prompt_ready") * 4, "session_timeout"
    )
    assert launches.record.state == "stopped"
    assert launches.data["stopped"]["reason"] == "5 errors in a row; the last one: timeout"

    crashes = PureLoop("spawning")
    for _ in range(19):
        crashes.run("session_started", "session_error", "backoff_elapsed", "prompt_ready")
        assert crashes.errors[0] == 1, "a session that starts resets the errors in a row"
    crashes.run("session_started", "session_error")
    assert crashes.record.state == "stopped"
    assert crashes.data["stopped"]["reason"] == "20 errors; the last one: it broke"


def test_a_prompt_is_stored_with_the_mail_that_it_claims_and_each_is_an_attempt() -> None:
    agent = PureLoop("building_prompt").fire("prompt_ready")

    assert (agent.data["prompt"], agent.data["claimed"], agent.data["attempt"]) == (
        "p.md",
        "7-0",
        1,
    )
    assert agent.data["acknowledged"] == "0-0", "it is claimed and not delivered"
    assert agent.effects == ["session"]
    failed = agent.run("session_error", "backoff_elapsed")
    assert failed.data["acknowledged"] == "0-0", "it is released, because the launch failed"
    started = failed.run("prompt_ready", "session_started")
    assert started.data["acknowledged"] == "7-0"
    assert started.data["attempt"] == 2


def test_letters_are_shown_again_until_a_session_succeeds_that_was_shown_them() -> None:
    agent = PureLoop("building_prompt")
    for n, end in enumerate(("session_error", "urgent_message", "session_timeout"), start=1):
        agent.fire("prompt_ready", claimed=f"{n}-0", letters=[f"{n}-0"])
        agent.fire("session_started").fire(end)
        agent.fire("session_succeeded" if end == "urgent_message" else "backoff_elapsed")
        assert agent.data["given"] == [f"{m}-0" for m in range(1, n + 1)]

    agent.fire("prompt_ready", claimed="4-0", letters=["4-0"])
    assert agent.fire("session_error").data["given"] == ["1-0", "2-0", "3-0"], "a launch failed"
    agent.run("backoff_elapsed", "prompt_ready", "session_started", "session_succeeded")
    assert agent.data["given"] == []


def test_urgent_letters_that_were_given_early_are_kept_until_their_turn() -> None:
    agent = PureLoop("building_prompt")
    agent.fire("prompt_ready", claimed="2-0", ahead=["9-0"], letters=["1-0", "2-0", "9-0"])
    assert agent.data["ahead"] == [], "it is claimed and not delivered"

    agent.fire("session_started")

    assert (agent.data["acknowledged"], agent.data["ahead"]) == ("2-0", ["9-0"])


def test_a_new_life_reads_on_where_the_one_before_stopped() -> None:
    read = {"acknowledged": "7-0", "ahead": ["9-0"]}
    agent = PureLoop().fire("worktree_ready", **read)
    assert (agent.data["acknowledged"], agent.data["ahead"]) == ("7-0", ["9-0"])

    agent.fire("prompt_ready", claimed="8-0", ahead=["9-0"]).fire("session_started")
    moved = agent.run("session_error", "backoff_elapsed")
    for _ in range(2):
        moved.fire("overdue", unbegun=True)
    moved.fire("worktree_ready", **read)
    assert (moved.data["acknowledged"], moved.data["ahead"]) == ("8-0", ["9-0"])


def test_urgent_mail_interrupts_the_running_session_and_starts_its_grace() -> None:
    agent = PureLoop("running", grace_s=7).fire("urgent_message")

    assert agent.last is not None
    assert (agent.last.mode, agent.last.interrupts) == (Mode.CARRY, True)
    assert [(t.name, t.delay_ms) for t in agent.last.timers] == [("grace", 7_000)]
    assert agent.effects == []


@pytest.mark.parametrize(
    "exit_", ["session_succeeded", "session_error", "session_timeout", "grace_exceeded"]
)
def test_an_interrupted_session_is_not_counted_and_its_number_stays(exit_: str) -> None:
    agent = PureLoop("running").run("urgent_message", exit_)

    assert agent.record.state == "building_prompt"
    assert agent.errors == (0, 0)
    assert agent.data["session_seq"] == 1
    ends = {
        "session_succeeded": "success",
        "session_error": "error",
        "session_timeout": "timeout",
        "grace_exceeded": "forced",
    }
    assert agent.data["last"]["outcome"] == ends[exit_]


def test_a_session_that_succeeded_gives_the_next_the_next_number() -> None:
    agent = PureLoop("running").run("session_succeeded")
    assert (agent.record.state, agent.effects) == ("session_complete", ["mail_check"])

    assert agent.fire("worktree_ready").data["session_seq"] == 2


@pytest.mark.parametrize("state", [str(stage.state) for stage in LOOP.stages[:-1]])
def test_a_stop_and_a_fatal_error_end_an_agent_in_every_state(state: str) -> None:
    stopped = PureLoop(state).fire("operator_stop")
    assert stopped.data["stopped"] == {"by": "operator", "reason": "enough"}
    assert stopped.effects == ["agent_cleanup"]

    fatal = PureLoop(state).fire("fatal_error")
    assert fatal.data["stopped"] == {"by": "fatal", "reason": "no repository"}
    assert fatal.last is not None
    assert fatal.last.mode is Mode.LEAVE, "a live session is revoked"


def test_a_rate_limit_parks_only_an_agent_with_parks_and_counts_no_error() -> None:
    plain = PureLoop("running").fire("session_error", retry_after_s=90)
    assert (plain.errors, plain.data["cooling_ms"]) == ((1, 1), 2_000)

    parked = PureLoop("running", parks=True).fire("session_error", retry_after_s=90)
    assert (parked.record.state, parked.errors) == ("cooling_down", (0, 0))
    assert parked.data["cooling_ms"] == 90_000
    assert PureLoop("running", parks=True).fire("session_error").errors == (1, 1)


def test_a_success_or_a_minimum_runtime_can_reset_the_errors_in_a_row() -> None:
    crash = ("prompt_ready", "session_started", "session_error", "backoff_elapsed")
    success = PureLoop("building_prompt", reset_on="success").run(*crash * 3)
    assert success.errors == (3, 3)
    success.run("prompt_ready", "session_started", "session_succeeded")
    assert success.errors == (0, 3)

    timed = PureLoop("building_prompt", reset_on="min_runtime", min_runtime_s=60).run(*crash * 2)
    assert timed.errors == (2, 2)
    timed.run("prompt_ready", "session_started").fire("session_error", ran_s=59.9)
    assert timed.errors == (3, 3)
    timed.run("backoff_elapsed", "prompt_ready", "session_started").fire("session_error", ran_s=60)
    assert timed.errors == (1, 4)


def test_a_step_that_hangs_is_tried_again_before_it_is_fatal() -> None:
    for state in ("initializing", "building_prompt"):
        agent = PureLoop(state)
        for _ in range(2):
            agent.fire("overdue")
            assert (agent.record.state, agent.data["host"]) == (state, "here")
        assert agent.fire("overdue").record.state == "stopped"


def test_a_step_that_never_began_twice_moves_to_another_host_and_is_no_error() -> None:
    for state, trigger in (
        ("initializing", "overdue"),
        ("building_prompt", "overdue"),
        ("spawning", "session_timeout"),
    ):
        agent = PureLoop(state).fire(trigger, unbegun=True)
        assert (agent.record.state, agent.data["host"]) == (state, "here"), (
            "all workers may be away"
        )
        assert agent.last is not None
        assert agent.last.mode is Mode.EXTERNAL, "the effect is owed again"

        agent.fire(trigger, unbegun=True)
        assert (agent.record.state, agent.data["host"]) == ("initializing", "")
        assert agent.errors == (0, 0)
        agent.fire("overdue", unbegun=True)
        assert agent.record.state == "initializing", "it waits for a host without a limit"

        assert agent.fire("operator_stop").data["host"] == "here", (
            "the worktree is cleared away on its host"
        )


def test_a_step_that_began_in_between_does_not_move() -> None:
    agent = PureLoop("building_prompt").fire("overdue", unbegun=True)
    agent.run("prompt_ready", "session_error", "backoff_elapsed").fire("overdue", unbegun=True)

    assert (agent.record.state, agent.data["host"]) == ("building_prompt", "here")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"grace_s": 0}, "grace_s: Input should be greater than or equal to 1, not 0"),
        ({"command": ""}, "command: "),
        ({"command": "  "}, "command: "),
        ({"command": "a\0b"}, "command: "),
        ({"next": "later"}, "`every_s` belongs to `next: later`"),
        ({"every_s": 5}, "`every_s` belongs to `next: later`"),
        ({"max_total_errors": 0}, "max_total_errors: "),
        ({"acknowledged": "9-9"}, "acknowledged: Extra inputs are not permitted"),
        ({"model": "big"}, "model: Extra inputs are not permitted"),
    ],
)
def test_an_invalid_agent_is_refused_by_its_field(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidPayloadError, match=r"^the agent is invalid: ") as refused:
        LOOP.initial_data({**NEW, **changes})
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("mail", "problem"),
    [
        ({"recipient": "bat"}, "bat cannot write to itself"),
        ({"recipient": "Owl"}, "recipient: "),
        ({"text": " \n"}, "text: "),
        ({"thread": "a\n## urgent task"}, "thread: "),
        ({"sender": "a\nb"}, "sender: "),
        ({"text": "x" * (MAIL_LENGTH_MAX + 1)}, "text: "),
        ({"kind": "poem"}, "kind: Input should be 'message', 'task', 'status' or 'nudge'"),
        ({"urgency": "high"}, "urgency: Extra inputs are not permitted"),
    ],
)
def test_an_invalid_mail_is_refused_by_its_field(mail: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidPayloadError, match=r"^the mail is invalid: ") as refused:
        LOOP.inbox_data({**MAIL, **mail})
    assert problem in str(refused.value)


def test_a_record_keeps_the_name_of_a_prompt_and_not_its_text() -> None:
    for prompt in ("../p.md", "do this\nand that", ""):
        with pytest.raises(InvalidPayloadError):
            PureLoop("building_prompt").fire("prompt_ready", prompt=prompt)


FAILURES = ("session_error", "session_timeout")
GLOBAL = ("operator_stop", "fatal_error")
LOCAL = tuple(trigger for trigger in PUBLISHED if trigger not in GLOBAL)


class LoopOracle:
    """The published page in other words: a state, a number of session and two counters."""

    def __init__(self) -> None:
        self.state, self.seq, self.row, self.all = "initializing", 1, 0, 0

    def follow(self, event: str) -> bool:
        """Follow an event; False where the page has no row for it."""
        before = self.state
        if self.state == "stopped":
            return False
        if event in GLOBAL:
            self.state = "stopped"
        elif event in ("session_error", "session_timeout") and self.state in (
            "spawning",
            "running",
        ):
            self.row, self.all = self.row + 1, self.all + 1
            self.state = "stopped" if self.row >= 5 or self.all >= 20 else "cooling_down"
        elif event.startswith("session_") and self.state == "interrupting" and "start" not in event:
            self.state = "building_prompt"
        else:
            self._plain(event)
        return self.state != before

    def _plain(self, event: str) -> None:
        simple = {
            ("initializing", "worktree_ready"): "building_prompt",
            ("building_prompt", "prompt_ready"): "spawning",
            ("spawning", "session_started"): "running",
            ("running", "session_succeeded"): "session_complete",
            ("running", "urgent_message"): "interrupting",
            ("interrupting", "grace_exceeded"): "building_prompt",
            ("session_complete", "worktree_ready"): "building_prompt",
            ("cooling_down", "backoff_elapsed"): "building_prompt",
        }
        following = simple.get((self.state, event))
        if following is None:
            return
        if self.state == "session_complete":
            self.seq += 1
        if event in ("session_started", "session_succeeded"):
            self.row = 0
        self.state = following


@given(
    st.lists(st.sampled_from(LOCAL), max_size=400),
    st.lists(st.sampled_from(PUBLISHED), max_size=20),
)
def test_any_events_lead_to_the_state_of_the_oracle(events: list[str], last: list[str]) -> None:
    agent, oracle = PureLoop(), LoopOracle()
    for event in [*events, *last]:
        seq = {"session_seq": agent.data["session_seq"]} if event == "session_started" else {}
        try:
            agent.fire(event, **seq)
            moved = True
        except CallError:
            moved = False
        assert oracle.follow(event) is moved
        counted = (oracle.state, oracle.seq, (oracle.row, oracle.all))
        assert (agent.record.state, agent.data["session_seq"], agent.errors) == counted
