"""What the rows of a long-lived agent say: why it moved, by the trigger or for a row of its own."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.kernel.machines.loops.loop.names import Trigger
from interlock.kernel.table import CREATED

ONE_ERROR_TOO_MANY = "its session failed, which was one error too many"
ONE_TIMEOUT_TOO_MANY = "its session took too long, which was one error too many"
PARKED = "its provider limited the rate, which does not count as an error"
INTERRUPTED = "its session has ended after it was interrupted"
HOST_GONE = "no worker took it up twice, so its worktree is made on another computer"
NOT_TAKEN_UP = "no worker took up its session in time"
STEP_FAILED = "the step took too long, and no try is left"
NEXT_SESSION = "its next session is due"

SAYS: Mapping[str, str] = {
    CREATED: "a life of this agent was started",
    Trigger.WORKTREE_READY: "its worktree is ready",
    Trigger.PROMPT_READY: "the prompt of its next session is written",
    Trigger.SESSION_STARTED: "session {session_seq} has started",
    Trigger.SESSION_SUCCEEDED: "its session has succeeded",
    Trigger.SESSION_ERROR: "its session failed, and the next one waits for a while",
    Trigger.SESSION_TIMEOUT: "its session took too long, and the next one waits for a while",
    Trigger.URGENT_MESSAGE: "urgent mail has come, so its session is interrupted",
    Trigger.GRACE_EXCEEDED: "its session did not end in the grace after it was interrupted",
    Trigger.BACKOFF_ELAPSED: "the wait after an error is over",
    Trigger.OPERATOR_STOP: "an operator stopped it",
    Trigger.FATAL_ERROR: "another try cannot repair the error",
    Trigger.OVERDUE: "the step took too long, and is tried again",
}
