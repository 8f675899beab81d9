"""The guards and updates of a long-lived agent's rows, and its first data. Pure functions."""

from __future__ import annotations

from typing import Any

from interlock import Ask, validated
from interlock.system.tables import RecordData as Data
from interlock.systems.loops.machines.loop import limits
from interlock.systems.loops.machines.loop.data import LoopData, SessionEnd
from interlock.systems.loops.machines.loop.payloads import NOTHING_READ, LoopMail, NewLoop, ResetOn

SUCCESS, ERROR, TIMEOUT, FORCED = "success", "error", "timeout", "forced"


def initial_data(payload: Data) -> Data:
    """Check what an agent is started with; it begins with no errors and its first session."""
    data = validated(NewLoop, "the agent", payload)
    counts = {"session_seq": 1, "attempt": 0}
    counts |= {"consecutive_errors": 0, "total_errors": 0, "overdue": 0, "unbegun": 0}
    return {**data, **counts, "acknowledged": NOTHING_READ, "ahead": []}


def mail_data(payload: Data) -> Data:
    """Check one message to an agent."""
    return validated(LoopMail, "the mail", payload)


def backoff_ms(consecutive_errors: int) -> int:
    """Return how long an agent cools down after so many errors in a row; there is at least one."""
    # From the sixth error on the wait is the same: limiting the shift keeps the number small.
    return min(limits.BACKOFF_MS_FIRST << min(consecutive_errors, 10) - 1, limits.BACKOFF_MS_MAX)


def worktree_ready(ask: Ask[LoopData]) -> Data:
    """Keep where the worktree is, and which mail an earlier life was given already."""
    data = {**ask.data, **ask.payload, "overdue": 0, "unbegun": 0}
    if ask.data["attempt"]:
        data |= {"acknowledged": ask.data["acknowledged"], "ahead": ask.data["ahead"]}
    return data


def next_session(ask: Ask[LoopData]) -> Data:
    """IncrementSession: give the next session the next number."""
    return {**ask.data, "session_seq": ask.data["session_seq"] + 1}


def prompt_ready(ask: Ask[LoopData]) -> Data:
    """StorePrompt: keep the prompt and the mail in it, for one attempt to launch a session."""
    stored = {name: ask.payload[name] for name in ("prompt", "digest", "claimed", "letters")}
    stored |= {"claimed_ahead": ask.payload["ahead"], "overdue": 0, "unbegun": 0}
    return {**ask.data, **stored, "attempt": ask.data["attempt"] + 1}


def step_overdue(ask: Ask[LoopData]) -> Data:
    """Count a step that took too long; forget the host where it seems to be gone."""
    if not ask.payload["unbegun"]:
        return {**ask.data, "overdue": ask.data["overdue"] + 1}
    counted: LoopData = {**ask.data, "unbegun": ask.data["unbegun"] + 1}
    # The former host is kept for the effect that clears away the worktree there.
    return {**counted, "former": ask.data["host"], "host": ""} if host_is_gone(ask) else counted


def may_try_again(ask: Ask[LoopData]) -> bool:
    """Whether a step that took too long is tried again; one that never began is no failure."""
    return bool(ask.payload["unbegun"] or ask.data["overdue"] + 1 < limits.OVERDUE_MAX)


def is_unbegun(ask: Ask[LoopData]) -> bool:
    """Whether no worker began the step."""
    return bool(ask.payload["unbegun"])


def host_is_gone(ask: Ask[LoopData]) -> bool:
    """Whether no worker of the agent's host began the step for the second time in a row."""
    again = ask.data["unbegun"] + 1 >= limits.UNBEGUN_MAX
    return bool(ask.payload["unbegun"] and again and ask.data["host"])


def started(ask: Ask[LoopData]) -> Data:
    """Keep which session runs; the mail in its prompt is delivered."""
    data = {**ask.data, **ask.payload}
    data |= {"acknowledged": ask.data["claimed"], "ahead": ask.data["claimed_ahead"]}
    # Letters stay until a session succeeds: that one has answered all that it was shown.
    data["given"] = [*ask.data.get("given", ()), *ask.data["letters"]][-limits.GIVEN_MAX :]
    if ask.data["reset_on"] == ResetOn.SESSION_STARTED:
        data["consecutive_errors"] = 0
    return data


def succeeded(ask: Ask[LoopData]) -> Data:
    """Keep that the session succeeded, and clear the errors in a row."""
    return {**_ended(ask, SUCCESS), "consecutive_errors": 0, "given": []}


def _errors(ask: Ask[LoopData]) -> tuple[int, int]:
    """Return the errors in a row and altogether, with this one."""
    data, ran_s = ask.data, ask.payload.get("ran_s", 0)
    recovered = data["reset_on"] == ResetOn.MIN_RUNTIME and ran_s >= data["min_runtime_s"]
    return (0 if recovered else data["consecutive_errors"]) + 1, data["total_errors"] + 1


def is_one_too_many(ask: Ask[LoopData]) -> bool:
    """Whether a count of errors reaches its limit with this error."""
    in_a_row, in_all = _errors(ask)
    reached = in_a_row >= ask.data["max_consecutive_errors"]
    return bool(reached or in_all >= ask.data["max_total_errors"])


def _counted(ask: Ask[LoopData], outcome: str) -> LoopData:
    in_a_row, in_all = _errors(ask)
    return {**_ended(ask, outcome), "consecutive_errors": in_a_row, "total_errors": in_all}


def failed(ask: Ask[LoopData]) -> Data:
    """Count an error, and cool down."""
    data = _counted(ask, ERROR)
    return {**data, "cooling_ms": backoff_ms(data["consecutive_errors"])}


def timed_out(ask: Ask[LoopData]) -> Data:
    """Count a timeout as an error, and cool down."""
    data = _counted(ask, TIMEOUT)
    return {**data, "cooling_ms": backoff_ms(data["consecutive_errors"])}


def stopped_by_error(ask: Ask[LoopData]) -> Data:
    """LogFatal: count the error that was one too many."""
    return _fatal(_counted(ask, ERROR))


def stopped_by_timeout(ask: Ask[LoopData]) -> Data:
    """LogFatal: count the timeout that was one too many."""
    return _fatal(_counted(ask, TIMEOUT))


def is_parked(ask: Ask[LoopData]) -> bool:
    """Whether a provider limited the rate, and this agent waits as long as the provider asks."""
    return bool(ask.data["parks"] and ask.payload.get("retry_after_s"))


def parked(ask: Ask[LoopData]) -> Data:
    """Wait as long as the provider asks; that counts as no error."""
    return {**_ended(ask, ERROR), "cooling_ms": int(ask.payload["retry_after_s"]) * 1_000}


def interrupted(ask: Ask[LoopData]) -> Data:
    """Keep how an interrupted session ended; it counts neither as success nor as error."""
    return _interrupted(_ended(ask, SUCCESS))


def interrupted_by_error(ask: Ask[LoopData]) -> Data:
    """Keep that an interrupted session ended with an error; it does not count."""
    return _interrupted(_ended(ask, ERROR))


def interrupted_by_timeout(ask: Ask[LoopData]) -> Data:
    """Keep that an interrupted session reached its time limit; it does not count."""
    return _interrupted(_ended(ask, TIMEOUT))


def force_stopped(ask: Ask[LoopData]) -> Data:
    """ForceStopSession: the grace is over; the session is killed when its lease ends."""
    last: SessionEnd = {"outcome": FORCED, "session_seq": ask.data["session_seq"]}
    return _interrupted({**ask.data, "last": last})


def _ended(ask: Ask[LoopData], outcome: str) -> LoopData:
    kept = {name: value for name, value in ask.payload.items() if name != "unbegun" and value}
    last: Any = {"outcome": outcome, "session_seq": ask.data["session_seq"], **kept}
    return {**ask.data, "last": last}


def _interrupted(data: LoopData) -> Data:
    """Note that we stopped the session, whatever its exit code."""
    return {**data, "last": {**data["last"], "interrupted": True}}


def stopped(ask: Ask[LoopData]) -> Data:
    """Keep why an operator stopped the agent."""
    return _with_host({**ask.data, "stopped": {"by": "operator", "reason": ask.payload["reason"]}})


def fatal(ask: Ask[LoopData]) -> Data:
    """LogFatal(message): keep why it does not help to try again."""
    return _with_host({**ask.data, "stopped": {"by": "fatal", "reason": ask.payload["detail"]}})


def stopped_by_overdue(ask: Ask[LoopData]) -> Data:
    """LogFatal: a step took too long too often."""
    reason = (
        f"a step of it took too long {limits.OVERDUE_MAX} times in a row; its history says which"
    )
    return _with_host({**ask.data, "stopped": {"by": "fatal", "reason": reason}})


def _with_host(data: LoopData) -> Data:
    """Name the host where the worktree was, so that it is cleared away there."""
    return data if data["host"] else {**data, "host": data.get("former", "")}


def _fatal(data: LoopData) -> Data:
    in_a_row, in_all = data["consecutive_errors"], data["total_errors"]
    reached = in_a_row >= data["max_consecutive_errors"]
    errors = f"{in_a_row} errors in a row" if reached else f"{in_all} errors"
    last = data["last"].get("detail") or data["last"]["outcome"]
    return {**data, "stopped": {"by": "fatal", "reason": f"{errors}; the last one: {last}"}}
