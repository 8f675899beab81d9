"""Tells what an agent reports: a listener has a method for each kind of report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, TypeAlias, assert_never

from interlock.workers.supervision.reports import (
    AbortRaised,
    AgentBlocked,
    AgentFailed,
    AgentReady,
    CancelRequested,
    Compacted,
    CompactNeeded,
    MailSent,
    MessageWritten,
    Progress,
    RejectedLine,
    Report,
    ReportStream,
    SessionOpened,
    SplitRequested,
    ToolCompleted,
    ToolStarted,
    UsageAdded,
    UsageTotal,
    WorkFinished,
)
from interlock.workers.supervision.streams import report_stream

# fmt: off
_OfProcess: TypeAlias = (
    AgentReady | SessionOpened | MessageWritten | ToolStarted | ToolCompleted | CompactNeeded
    | Compacted
)
# fmt: on
_OfOthers: TypeAlias = AbortRaised | AgentBlocked | CancelRequested | MailSent | SplitRequested


class ReportListener:
    """Reads and hears the reports of an agent: override the methods of those that you need.

    An agent reports by lines of JSON. `has_session = True` reads the reports of a session (its
    session, messages, costs) in place of those of a task (split, blocked, mail). `accepted` names
    the types of lines that count as reports (empty: all of these); any other line is rejected.
    `prints` is the form of what the agent prints: `plain` (no reports), `claude` (as Claude Code
    prints them) or `interlock` (lines of JSON). A listener does: `for line in process.reports():
    self.hear(*self.read_line(line))`.
    """

    accepted: Collection[str] = ()
    has_session = False
    prints = "plain"

    def read_line(self, line: bytes) -> Sequence[Report]:
        """Return the reports in a line that the agent has reported."""
        return self._reported.feed(line)

    def read_output(self, line: bytes) -> Sequence[Report]:
        """Return the reports in a line that the agent has printed."""
        return self._printed.feed(line)

    def on_ready(self) -> None:
        """Hear that the agent has started and begins its work."""

    def on_progress(self, message: str, percent: int | None) -> None:
        """Hear of a step forward."""

    def on_used(self, usage: UsageAdded) -> None:
        """Hear what was used since the last report of usage."""

    def on_total(self, total: UsageAdded | None, *, added: UsageAdded, final: bool) -> None:
        """Hear what the process has used so far, or with `final` in all.

        The total is None if its cost is unknown. `added` is the part of it that was not reported
        before, as far as the stream can tell: it is what `on_used` hears.
        """
        del total, final
        self.on_used(added)

    def on_finished(self, summary: str) -> None:
        """Hear that the work is done."""

    def on_failed(self, failure: AgentFailed) -> None:
        """Hear that the agent cannot go on."""

    def on_rejected(self, reason: str, *, ends: bool) -> None:
        """Hear why a line, or a part of one, cannot be read as a report: one sentence.

        With `ends` it was to report that the work ends without success: a process that goes on to
        exit with code 0 has not succeeded.
        """

    def on_session(self, session: str) -> None:
        """Hear the id of the session in which the agent works. It can be continued later."""

    def on_message(self, text: str, *, continues: bool, own: bool) -> None:
        """Hear a message, or with `continues` a further part of the message before.

        `own` is false if a subagent or the agent's program wrote it, and not the agent itself.
        """

    def on_tool_started(self, tool: str, call: str) -> None:
        """Hear that a tool call began. Several may run at once, so each has an id."""

    def on_tool_completed(self, tool: str, call: str, *, success: bool) -> None:
        """Hear that a tool call ended, with success or without."""

    def on_compact_needed(self) -> None:
        """Hear that the context window is near its limit and is being summarized."""

    def on_compacted(self) -> None:
        """Hear that the context window was summarized."""

    def on_blocked(self, task: str | None, text: str | None) -> None:
        """Hear what the work waits for: a task, named as in its backlog, or the thing in a text."""

    def on_split(self, subtasks: Sequence[Mapping[str, Any]]) -> None:
        """Hear the parts into which the agent asks to split its work.

        Each has a `title`, and may have `text`, `scope`, `owned_files`, `signals`, each with `type`
        and `value`, and in `after` the numbers, from 1, of the parts that have to be done before.
        """

    def on_abort(self, scope: str, reason: str) -> None:
        """Hear that the agent aborted a tool call, or asks to abort its siblings; it goes on."""

    def on_cancel_child(self, child: str, reason: str) -> None:
        """Hear the request to cancel a child of the work, by the child's whole id."""

    def on_mail(self, to: str, text: str, once: str, fields: Mapping[str, Any]) -> None:
        """Hear mail to another agent by its name: with an id (`once`) it is sent only once.

        The fields are those that are given of `kind`, `urgent`, `thread` and `reply_to`.
        """

    @cached_property
    def _reported(self) -> ReportStream:
        return report_stream(has_session=self.has_session, only=self.accepted)

    @cached_property
    def _printed(self) -> ReportStream:
        return report_stream(self.prints, has_session=self.has_session)

    def hear(self, *reports: Report) -> None:
        """Call the method of each report."""
        for report in reports:
            self._hear(report)

    def _hear(self, report: Report) -> None:
        match report:
            case Progress(message, percent):
                self.on_progress(message, percent)
            case UsageAdded():
                self.on_used(report)
            case UsageTotal(cost_micro, tokens, final, added):
                total = None if cost_micro is None else UsageAdded(cost_micro, tokens)
                self.on_total(total, added=added, final=final)
            case AgentFailed():
                self.on_failed(report)
            case WorkFinished(summary):
                self.on_finished(summary)
            case RejectedLine(reason, ends):
                self.on_rejected(reason, ends=ends)
            case AbortRaised() | AgentBlocked() | CancelRequested() | MailSent() | SplitRequested():
                self._hear_of_others(report)
            case _:
                self._hear_of_process(report)

    def _hear_of_process(self, report: _OfProcess) -> None:
        match report:
            case AgentReady():
                self.on_ready()
            case SessionOpened(session):
                self.on_session(session)
            case MessageWritten(text, continues, own):
                self.on_message(text, continues=continues, own=own)
            case ToolStarted(tool, call):
                self.on_tool_started(tool, call)
            case ToolCompleted(tool, call, success):
                self.on_tool_completed(tool, call, success=success)
            case CompactNeeded():
                self.on_compact_needed()
            case Compacted():
                self.on_compacted()
            case _:
                assert_never(report)

    def _hear_of_others(self, report: _OfOthers) -> None:
        match report:
            case AgentBlocked(task, text):
                self.on_blocked(task, text)
            case SplitRequested(subtasks):
                self.on_split([subtask.given() for subtask in subtasks])
            case AbortRaised(scope, reason):
                self.on_abort(scope, reason)
            case CancelRequested(child, reason):
                self.on_cancel_child(child, reason)
            case MailSent(to, text):
                others = {"to", "text", "id"}
                given = asdict(report).items()
                fields = {name: value for name, value in given if value and name not in others}
                self.on_mail(to, text, report.id, fields)
            case _:
                assert_never(report)
