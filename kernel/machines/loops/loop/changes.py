"""How a loop's data follow from what it is told: sessions, errors, pauses, mail. Pure."""

from __future__ import annotations

from typing import Any

from interlock.kernel.machines.loops.loop.names import ResetOn
from interlock.kernel.table import Ask, Data

BACKOFF_MS_FIRST = 2_000
BACKOFF_MS_MAX = 60_000
OVERDUE_MAX = 3
UNBEGUN_MAX = 2
# Letters of sessions that came to no good end, to be shown again.
GIVEN_MAX = 400
SUCCESS, ERROR, TIMEOUT, FORCED = "success", "error", "timeout", "forced"


def backoff_ms(consecutive_errors: int) -> int:
    """Return how long an agent cools down after so many errors in a row, from 1."""
    # Beyond the sixth it is the same; powers of large numbers are not.
    return min(BACKOFF_MS_FIRST << min(consecutive_errors, 10) - 1, BACKOFF_MS_MAX)


# --- its worktree and prompt ---------------------------------------------------------------------


def settled_in(ask: Ask) -> Data:
    """Keep where its worktree is; mail that an earlier life was given is not given again."""
    data = {**ask.data, **ask.payload, "overdue": 0, "unbegun": 0}
    if ask.data["attempt"]:
        data |= {name: ask.data[name] for name in ("acknowledged", "ahead")}
    return data


def next_session(ask: Ask) -> Data:
    """IncrementSession: the next session has the next number."""
    return {**ask.data, "session_seq": ask.data["session_seq"] + 1}


def prompted(ask: Ask) -> Data:
    """StorePrompt: keep it and the mail in it, for one attempt to launch a session."""
    stored = {name: ask.payload[name] for name in ("prompt", "digest", "claimed", "letters")}
    stored |= {"claimed_ahead": ask.payload["ahead"], "overdue": 0, "unbegun": 0}
    return {**ask.data, **stored, "attempt": ask.data["attempt"] + 1}


def left_waiting(ask: Ask) -> Data:
    """Count a step that took too long; what nobody took up again may be done elsewhere."""
    if not ask.payload["unbegun"]:
        return {**ask.data, "overdue": ask.data["overdue"] + 1}
    counted = {**ask.data, "unbegun": ask.data["unbegun"] + 1}
    # Kept for who clears away what is left there.
    return {**counted, "former": ask.data["host"], "host": ""} if is_gone(ask) else counted


def has_patience(ask: Ask) -> bool:
    """Whether a step that took too long is tried again; what nobody tried is no failure."""
    return bool(ask.payload["unbegun"] or ask.data["overdue"] + 1 < OVERDUE_MAX)


def is_unbegun(ask: Ask) -> bool:
    """Whether nobody took up what was owed."""
    return bool(ask.payload["unbegun"])


def is_gone(ask: Ask) -> bool:
    """Whether nobody took it up once more: not all workers were away, but its machine is."""
    again = ask.data["unbegun"] + 1 >= UNBEGUN_MAX
    return bool(ask.payload["unbegun"] and again and ask.data["host"])


# --- a session -----------------------------------------------------------------------------------


def started(ask: Ask) -> Data:
    """A session runs: the mail in its prompt is delivered."""
    data = {**ask.data, **ask.payload}
    data |= {"acknowledged": ask.data["claimed"], "ahead": ask.data["claimed_ahead"]}
    # What nobody answered stays; a session that succeeds answers all that it was shown.
    data["given"] = [*ask.data.get("given", ()), *ask.data["letters"]][-GIVEN_MAX:]
    if ask.data["reset_on"] == ResetOn.SESSION_STARTED:
        data["consecutive_errors"] = 0
    return data


def succeeded(ask: Ask) -> Data:
    """A session did its work."""
    return {**_over(ask, SUCCESS), "consecutive_errors": 0, "given": []}


def _errors(ask: Ask) -> tuple[int, int]:
    """Return the errors in a row and altogether, with the one that is told."""
    data, ran_s = ask.data, ask.payload.get("ran_s", 0)
    recovered = data["reset_on"] == ResetOn.MIN_RUNTIME and ran_s >= data["min_runtime_s"]
    return (0 if recovered else data["consecutive_errors"]) + 1, data["total_errors"] + 1


def is_last_straw(ask: Ask) -> bool:
    """Whether a counter reaches its threshold with this error."""
    in_a_row, in_all = _errors(ask)
    most, most_in_all = ask.data["max_consecutive_errors"], ask.data["max_total_errors"]
    return bool(in_a_row >= most or in_all >= most_in_all)


def _counted(ask: Ask, outcome: str) -> dict[str, Any]:
    in_a_row, in_all = _errors(ask)
    return {**_over(ask, outcome), "consecutive_errors": in_a_row, "total_errors": in_all}


def failed(ask: Ask) -> Data:
    """Count an error, and cool down."""
    data = _counted(ask, ERROR)
    return {**data, "cooling_ms": backoff_ms(data["consecutive_errors"])}


def timed_out(ask: Ask) -> Data:
    """Count a timeout as an error, and cool down."""
    data = _counted(ask, TIMEOUT)
    return {**data, "cooling_ms": backoff_ms(data["consecutive_errors"])}


def failed_for_good(ask: Ask) -> Data:
    """LogFatal: count the error that was one too many."""
    return _fatal(_counted(ask, ERROR))


def timed_out_for_good(ask: Ask) -> Data:
    """LogFatal: count the timeout that was one too many."""
    return _fatal(_counted(ask, TIMEOUT))


def is_parked(ask: Ask) -> bool:
    """Whether a provider limited the rate, and this agent waits as long as it wishes."""
    return bool(ask.data["parks"] and ask.payload.get("retry_after_s"))


def parked(ask: Ask) -> Data:
    """Wait as long as a provider wishes; no counter knows of it."""
    return {**_over(ask, ERROR), "cooling_ms": int(ask.payload["retry_after_s"]) * 1_000}


def interrupted(ask: Ask) -> Data:
    """An interrupted session ended: it counts nowhere, and its end is kept."""
    return _broken_off(_over(ask, SUCCESS))


def interrupted_by_error(ask: Ask) -> Data:
    """An interrupted session ended with an error: it counts nowhere."""
    return _broken_off(_over(ask, ERROR))


def interrupted_by_timeout(ask: Ask) -> Data:
    """An interrupted session ended by its time limit: it counts nowhere."""
    return _broken_off(_over(ask, TIMEOUT))


def forced(ask: Ask) -> Data:
    """ForceStopSession: the grace is over; what still lives is killed with its lease."""
    last = {"outcome": FORCED, "session_seq": ask.data["session_seq"]}
    return _broken_off({**ask.data, "last": last})


def _over(ask: Ask, outcome: str) -> dict[str, Any]:
    kept = {name: value for name, value in ask.payload.items() if name != "unbegun" and value}
    last = {"outcome": outcome, "session_seq": ask.data["session_seq"], **kept}
    return {**ask.data, "last": last}


def _broken_off(data: dict[str, Any]) -> Data:
    """Keep that the session did not come to an end of its own, whatever it ended with."""
    return {**data, "last": {**data["last"], "interrupted": True}}


# --- the end -------------------------------------------------------------------------------------


def stopped(ask: Ask) -> Data:
    """Keep why an operator stopped it."""
    return _at_home({**ask.data, "stopped": {"by": "operator", "reason": ask.payload["reason"]}})


def fatal(ask: Ask) -> Data:
    """LogFatal(message): keep what cannot be mended by trying again."""
    return _at_home({**ask.data, "stopped": {"by": "fatal", "reason": ask.payload["detail"]}})


def overdue_for_good(ask: Ask) -> Data:
    """LogFatal: a step took too long too often."""
    told = f"a step of it took too long {OVERDUE_MAX} times in a row; its history says which"
    return _at_home({**ask.data, "stopped": {"by": "fatal", "reason": told}})


def _at_home(data: dict[str, Any]) -> Data:
    """Name the machine where its worktree was: what is left there is cleared away there."""
    return data if data["host"] else {**data, "host": data.get("former", "")}


def _fatal(data: dict[str, Any]) -> Data:
    in_a_row, most = data["consecutive_errors"], data["max_consecutive_errors"]
    which = f"{in_a_row} errors in a row" if in_a_row >= most else f"{data['total_errors']} errors"
    said = data["last"].get("detail") or data["last"]["outcome"]
    return {**data, "stopped": {"by": "fatal", "reason": f"{which}; the last one: {said}"}}
