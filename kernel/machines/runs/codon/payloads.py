"""What a codon is born from and told, each as a typed model; money is in micro-dollars."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from interlock.kernel.machines.runs.values import (
    BudgetExceeded,
    Detail,
    ExitCode,
    FailureReason,
    LoopContext,
    Name,
    Path,
    Sha,
    TokenCounts,
)
from interlock.kernel.payload import Shape, validated
from interlock.kernel.table import Data


class NewCodon(Shape):
    """Which step of the plan is executed. Its id is the plan's, with `#n` in a loop's iteration."""

    codon_id: Name
    loop_context: LoopContext | None = None


class CodonStart(Shape):
    """The rig is set up. `checkpoint_sha` is the workspace as it left it."""

    checkpoint_sha: Sha | None = None


class CodonInitialize(Shape):
    """The agent's process lives; it has not said its session's id yet."""

    pid: Annotated[int, Field(ge=1)]
    log_path: Path
    previous_session_id: Name | None = None


class CodonRun(Shape):
    """The agent is at work in this session."""

    session_id: Name


class CodonCompleteSentinels(Shape):
    """The agent has ended; its sentinels finish what waits for them."""


class CodonComplete(Shape):
    """The agent did its work. The checkpoint is of the workspace as it left it."""

    checkpoint_sha: Sha
    result_message_received: bool = False
    context_exceeded: bool = False
    budget_exceeded: BudgetExceeded | None = None


class CodonFail(Shape):
    """Why it failed. An exit code of -1 says that there was no process.

    While what it failed, and was skipped, is where the record stands; who says otherwise of a
    transition that he posts is refused before.
    """

    exit_code: ExitCode
    failure_reason: FailureReason
    checkpoint_sha: Sha | None = None
    ignored: bool = False


class CodonSkip(Shape):
    """Somebody skipped it. The checkpoint is of the workspace as it was left."""

    checkpoint_sha: Sha | None = None


class CodonSkipRequested(Shape):
    """Why it is to be skipped."""

    reason: Detail = ""


class CodonLost(Shape):
    """What is known of who was at work on it."""

    code: Annotated[str, Field(max_length=100)] = ""
    detail: Detail = ""


class CodonRunEnded(Shape):
    """Why its run has ended."""

    reason: Detail = ""


def birth(payload: Data) -> Data:
    """Check what a codon is executed from."""
    return validated(NewCodon, "the codon", payload)


def sums(data: Data) -> dict[str, int]:
    """Return what a codon adds to its run and its workspace.

    `cost` is what counts as the codon's: final, partial or current, and nothing once it is skipped.
    `spent` is all the money that went, that of its sentinels included.
    """
    cost = data.get("final_cost", data.get("partial_cost", data.get("current_cost", 0)))
    counts = 0 if "skipped_during" in data else cost
    watched = (data.get("sentinels") or {}).get("total_cost", 0)
    return {"cost": counts, "spent": cost + watched}


def no_tokens() -> dict[str, Any]:
    """Return no token of any kind."""
    return TokenCounts().model_dump()
