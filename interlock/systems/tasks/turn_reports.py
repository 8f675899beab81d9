"""Applies an agent's reports to the record of its turn, and keeps some for its supervisor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from interlock import ConflictError, KernelError, Outcome, StoreError
from interlock.system.agents import AgentFailed, ReportListener, UsageAdded
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.system.text import one_line
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.agent.table import Trigger as AgentTrigger
from interlock.systems.tasks.machines.task.limits import REASON_LENGTH_MAX
from interlock.systems.tasks.machines.task.names import Trigger
from interlock.systems.tasks.machines.turn.table import State as TurnState
from interlock.systems.tasks.machines.turn.table import Trigger as TurnTrigger

COMPONENT = "supervision"
OPEN_TOOLS_MAX = 1_000  # tool calls of an agent that may run at once
# An agent whose context window is fuller than this is compacting.
COMPACT_AT = 0.9
# For each state: the trigger that leads to the next state, and the payload of that trigger.
Way = Mapping[str, tuple[str, Mapping[str, Any]]]
# The way of a turn when its agent begins to work.
TO_WORK: Way = {
    TurnState.CLAIMING: (TurnTrigger.AGENT_SPAWNED, {}),
    TurnState.SPAWNING: (TurnTrigger.AGENT_SPAWNED, {}),
}
# The same for the time when its agent has completed its work. The end of a compaction is published
# as `verify_requested`, and leads back to `running`.
TO_VERIFICATION: Way = {
    **TO_WORK,
    TurnState.TOOL_USE: (TurnTrigger.TOOL_COMPLETED, {"tool": "(unfinished)"}),
    TurnState.COMPACTING: (TurnTrigger.VERIFY_REQUESTED, {}),
    TurnState.RUNNING: (TurnTrigger.VERIFY_REQUESTED, {}),
}
# How the agent ended its work: that it failed, or the outcome that its task is blocked or split.
EndReport = AgentFailed | Outcome


class TurnReports(ReportListener):
    """The reports of one turn. A report that the turn's machine refuses becomes a note.

    `end_report` is how the agent ended its work, `requests` are the outcomes that it asks for while
    the work goes on. `refused_end` says why a report that the work ends without success could not
    be read; a report that it succeeded takes that back.
    """

    def __init__(self, records: Records, turn: str, agent: Record[AgentData]) -> None:
        self.records, self.turn_id, self.agent = records, turn, agent
        self.summary: str | None = None
        self.end_report: EndReport | None = None
        self.refused_end = ""
        self.requests: list[Outcome] = []
        self.spent_micro = 0
        self.tools_ended = 0
        self.failures_in_row = 0
        self._tools: set[str] = set()
        self._compacting = self._verifying = False
        # Usage that no call has sent yet; and the op-id and usage of a call without an answer yet.
        self._uncounted = UsageAdded()
        self._unanswered: tuple[str, dict[str, int]] | None = None

    def fire(self, trigger: str, **payload: Any) -> None:
        """Fire a trigger at the turn."""
        fields = {name: value for name, value in payload.items() if value is not None}
        try:
            fire_turn(self.records, self.turn_id, trigger, fields)
        except KernelError as refusal:
            # An error of the store is noted as well: the end of the task ends its turn anyway.
            self._note("report_refused", {"trigger": trigger, "reason": str(refusal)})

    def finish(self) -> None:
        """Lead the turn to its verification, even if the agent left a report out."""
        try:
            lead_turn(self.records, self.turn_id, TO_VERIFICATION)
        except KernelError as refusal:
            self._note(
                "report_refused", {"trigger": TurnTrigger.VERIFY_REQUESTED, "reason": str(refusal)}
            )

    def on_tool_started(self, tool: str, call: str) -> None:
        """Fire when the first of several parallel tool calls starts."""
        if len(self._tools) >= OPEN_TOOLS_MAX:
            reason = f"more than {OPEN_TOOLS_MAX} tool calls run at once"
            self._note("report_refused", {"reason": reason})
            return
        if not self._tools and not self._verifying:
            self.fire(TurnTrigger.TOOL_STARTED, tool=tool)
        self._tools.add(call)

    def on_tool_completed(self, tool: str, call: str, *, success: bool) -> None:
        """Fire when the last of several parallel tool calls ends."""
        self.tools_ended += 1
        self.failures_in_row = 0 if success else self.failures_in_row + 1
        was_running = bool(self._tools)
        self._tools.discard(call)
        if was_running and not self._tools and not self._verifying:
            self.fire(TurnTrigger.TOOL_COMPLETED, tool=tool, success=success)

    def on_compact_needed(self) -> None:
        """Fire that the context is summarized, unless that goes on already or a tool runs."""
        if self._verifying:
            # The turn is running again, and must be verified once more.
            self._verifying = False
            self.fire(TurnTrigger.COMPACT_NEEDED)
        elif not self._compacting and not self._tools:
            self._compacting = True
            self.fire(TurnTrigger.COMPACT_NEEDED)

    def on_compacted(self) -> None:
        """Fire that the context was summarized, which is published as a request to verify."""
        if self._compacting:
            self._compacting = False
            self.fire(TurnTrigger.VERIFY_REQUESTED)

    def on_finished(self, summary: str) -> None:
        """Begin the verification once. An agent that a stop hook sent back is still in it."""
        self.summary, self.refused_end = summary, ""
        if not (self._verifying or self._tools or self._compacting):
            self._verifying = True
            self.fire(TurnTrigger.VERIFY_REQUESTED)

    def on_failed(self, failure: AgentFailed) -> None:
        """Keep the first report that ended the work."""
        self.end_report = self.end_report or failure

    def on_blocked(self, task: str | None, text: str | None) -> None:
        """Keep the first report that ended the work."""
        self.end_report = self.end_report or blocked_outcome(task, text)

    def on_split(self, subtasks: Sequence[Mapping[str, Any]]) -> None:
        """Keep the first report that ended the work."""
        self.end_report = self.end_report or Outcome(Trigger.SPLIT, {"subtasks": subtasks})

    def on_abort(self, scope: str, reason: str) -> None:
        """Keep that a tool call or the siblings are aborted."""
        aborts_tool = scope == "tool"
        trigger = AgentTrigger.TOOL_ABORTED if aborts_tool else AgentTrigger.SIBLINGS_ABORTED
        self.requests.append(Outcome(trigger, {"reason": reason[:REASON_LENGTH_MAX]}))

    def on_cancel_child(self, child: str, reason: str) -> None:
        """Keep that a subtask is to be cancelled."""
        payload = {"child": child, "reason": reason[:REASON_LENGTH_MAX]}
        self.requests.append(Outcome(Trigger.CHILD_CANCELLED, payload))

    def on_progress(self, message: str, percent: int | None) -> None:
        """Note the progress."""
        self._note("progress", {"message": message, "percent": percent})

    def on_message(self, text: str, *, continues: bool, own: bool) -> None:
        """Note a message as progress."""
        del continues, own
        if message := one_line(text):
            self.on_progress(message, None)

    def on_rejected(self, reason: str, *, ends: bool) -> None:
        """Note a refused report."""
        self.refused_end = reason if ends else self.refused_end
        self._note("report_refused", {"reason": reason})

    def on_used(self, usage: UsageAdded) -> None:
        """Count what was used. A context window that is nearly full is about to be summarized."""
        self.spent_micro += usage.cost_micro
        self._uncounted = self._uncounted.plus(usage)
        self.count_usage()
        if usage.context_size and (usage.context_used or 0) > COMPACT_AT * usage.context_size:
            self.on_compact_needed()

    def count_usage(self) -> None:
        """Count the usage that is not counted yet on the agent's record.

        What the store does not take is counted with the next usage, or at the end of the task. The
        same call is then repeated, so that one whose answer was lost counts once.
        """
        while self._unanswered or self._uncounted.deltas:
            if self._unanswered is None:
                self._unanswered = (uuid4().hex, self._uncounted.deltas)
                self._uncounted = UsageAdded()
            op_id, deltas = self._unanswered
            try:
                self.records.note(self.agent, "usage", {}, op_id=op_id, deltas=deltas)
            except (StoreError, ConflictError):
                return
            except KernelError:
                pass  # The record takes no more notes.
            self._unanswered = None

    def _note(self, kind: str, detail: dict[str, Any]) -> None:
        with suppress(KernelError):
            self.records.note(self.agent, kind, detail)


def blocked_outcome(task: str | None, text: str | None) -> Outcome:
    """Return the outcome of a task that waits for another one, or for the thing in a text."""
    if task is not None:
        return Outcome(Trigger.BLOCKED, {"on": task, "kind": "task"})
    return Outcome(Trigger.BLOCKED, {"on": str(text)[:REASON_LENGTH_MAX], "kind": "text"})


def lead_turn(records: Records, turn: str, way: Way) -> None:
    """Lead a turn on from the state that it is in, until it is in a state that `way` does not name.

    `way` has for each state a trigger and its payload. So a turn comes to its verification even if
    its agent did not report the end of a tool call or of a compaction.
    """
    for _ in way:
        state = records.views.record(turn).state
        if state not in way:
            return
        fire_turn(records, turn, *way[state])


def fire_turn(
    records: Records,
    turn: str,
    trigger: str,
    payload: Mapping[str, Any],
    *,
    op_id: str | None = None,
) -> None:
    """Fire a trigger at a turn, as its agent's supervisor: once for each op-id that is given."""
    records.named(COMPONENT).fire(turn, trigger, payload, op_id=op_id)
