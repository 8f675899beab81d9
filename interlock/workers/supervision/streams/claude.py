"""Reads the output of Claude Code with `--output-format stream-json --verbose` into reports.

Lines of an unknown kind are skipped, because that program often adds kinds. Where a line of a known
kind has another shape, the reports before that place are kept, and the fault is a RejectedLine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from interlock.kernel.reason import TransitionReason
from interlock.workers.specs.json_line import (
    NAME_LENGTH_MAX,
    LineError,
    plain_text,
    read_object,
    shown,
)
from interlock.workers.supervision.reports import (
    OPEN_TOOLS_MAX,
    AgentFailed,
    AgentReady,
    Compacted,
    CompactNeeded,
    MessageWritten,
    RejectedLine,
    Report,
    SessionOpened,
    ToolCompleted,
    ToolStarted,
    WorkFinished,
)
from interlock.workers.supervision.streams.claude_usage import ClaudeUsage
from interlock.workers.text import one_line

# A line holds all that a tool read or wrote, so 64 KiB would cut many tool calls.
LINE_BYTES_MAX = 4 * 1024 * 1024
# The program gives this as the model of its own notices.
_NO_MODEL = "<synthetic>"

# fmt: off
_BY_STATUS: Mapping[object, TransitionReason] = {
    413: TransitionReason.PROVIDER_413,
    529: TransitionReason.PROVIDER_529,
}
_BY_LABEL: Mapping[object, TransitionReason] = {
    "error_max_turns":     TransitionReason.MAX_TURNS,
    "max_turns":           TransitionReason.MAX_TURNS,
    "prompt_too_long":     TransitionReason.PROMPT_TOO_LONG,
    "stop_hook_prevented": TransitionReason.STOP_HOOK_BLOCKED,
    "aborted_streaming":   TransitionReason.ABORTED,
    "aborted_tools":       TransitionReason.ABORTED,
    "max_tokens":          TransitionReason.MAX_OUTPUT_TOKENS,
    "max_output_tokens":   TransitionReason.MAX_OUTPUT_TOKENS,
    "overloaded":          TransitionReason.PROVIDER_529,
}
# fmt: on


class ClaudeStream:
    """Reads one process's output. Tools that subagents use are reported like all others."""

    line_bytes_max = LINE_BYTES_MAX
    reports_result = True

    def __init__(self) -> None:
        self._usage = ClaudeUsage()
        self._session: str | None = None
        self._message: object = None
        self._tools: dict[str, str] = {}
        self._compaction: Literal["none", "running", "ended"] = "none"
        self._error: object = None

    def feed(self, line: bytes) -> Sequence[Report]:
        """Return the reports in a line in their order, with what could not be read of it."""
        return tuple(_with_fault(self._reports(line))) if line.strip() else ()

    def _reports(self, line: bytes) -> Iterator[Report]:
        message = read_object(line, bytes_max=LINE_BYTES_MAX)
        match message.get("type"):
            case "system":
                yield from self._system(message)
            case "assistant":
                yield from self._assistant(message)
            case "user":
                yield from self._user(message)
            case "result":
                yield from self._result(message)
            case str():
                return
            case other:
                raise LineError(f"the line has no type, it is {shown(other)}")

    def _system(self, message: dict[str, Any]) -> Iterator[Report]:
        match message.get("subtype"):
            case "init":
                self._error = None
                yield from _with_fault(self._opened(message))
                yield AgentReady()
            case "status":
                yield from self._status(message)
            case "compact_boundary":
                if self._compaction == "none":
                    yield CompactNeeded()
                if self._compaction != "ended":
                    yield Compacted()
                self._compaction = "none"

    def _opened(self, message: dict[str, Any]) -> Iterator[Report]:
        session = message.get("session_id")
        if not isinstance(session, str) or not 1 <= len(session.strip()) <= NAME_LENGTH_MAX:
            span = f"1 to {NAME_LENGTH_MAX} characters"
            raise LineError(f"session_id must be a text of {span}, it is {shown(session)}")
        # The program repeats it at each turn of the conversation.
        if session == self._session:
            return
        if self._session is not None:
            self._usage.restart()
        self._session = session
        yield SessionOpened(plain_text(session))

    def _status(self, message: dict[str, Any]) -> Iterator[Report]:
        """Report a compaction. The boundary line that follows a successful one adds nothing."""
        if message.get("status") == "compacting" and self._compaction != "running":
            self._compaction = "running"
            yield CompactNeeded()
        elif message.get("compact_result") == "success" and self._compaction == "running":
            self._compaction = "ended"
            yield Compacted()
        elif message.get("compact_result") == "failed" and self._compaction == "running":
            self._compaction = "none"
            why = message.get("compact_error") or "no reason was given"
            error = one_line(f"the context could not be compacted: {why}")
            yield AgentFailed(plain_text(error), TransitionReason.COMPACTION_FAILED)

    def _assistant(self, message: dict[str, Any]) -> Iterator[Report]:
        inner = _inner(message)
        self._error = message.get("error")
        main = message.get("parent_tool_use_id") is None
        is_notice = inner.get("model") == _NO_MODEL
        if not is_notice:
            yield from _with_fault(self._usage.of_message(inner, main=main))
        yield from self._text(inner, own=main and not is_notice)
        for block in _blocks(inner):
            if block.get("type") == "tool_use":
                yield self._started(_name(block, "id"), _name(block, "name"))

    def _text(self, inner: Mapping[str, Any], *, own: bool) -> Iterator[MessageWritten]:
        """Report a message; further lines with the same id continue it."""
        content = inner.get("content")
        blocks = content if isinstance(content, list) else []
        texts = [
            str(block.get("text", ""))
            for block in blocks
            if isinstance(block, Mapping) and block.get("type") == "text"
        ]
        message_id, continues = inner.get("id"), False
        if own:
            continues = message_id is not None and message_id == self._message
            self._message = message_id
        # A message of the agent counts, even if it only calls tools.
        if texts or (own and not continues):
            yield MessageWritten(plain_text("\n".join(texts)), continues=continues, own=own)

    def _started(self, call_id: str, tool: str) -> Report:
        if call_id in self._tools:
            return RejectedLine(f"the tool call {shown(call_id)} was started twice")
        if len(self._tools) >= OPEN_TOOLS_MAX:
            return RejectedLine(f"more than {OPEN_TOOLS_MAX} tool calls run at once")
        self._tools[call_id] = tool
        return ToolStarted(tool, call_id)

    def _user(self, message: dict[str, Any]) -> Iterator[Report]:
        inner = _inner(message)
        if isinstance(inner.get("content"), str):
            return
        for block in _blocks(inner):
            if block.get("type") == "tool_result":
                call_id = _name(block, "tool_use_id")
                tool = self._tools.pop(call_id, None)
                if tool is None:
                    yield RejectedLine(f"the tool call {shown(call_id)} ended without a start")
                else:
                    yield ToolCompleted(tool, call_id, success=block.get("is_error") is not True)

    def _result(self, message: dict[str, Any]) -> Iterator[Report]:
        # A tool call without a result has ended with the process, and did not succeed.
        open_tools, self._tools = self._tools, {}
        for call_id, tool in open_tools.items():
            yield ToolCompleted(tool, call_id, success=False)
        yield from _with_fault(self._usage.of_result(message))
        yield self._outcome(message)

    def _outcome(self, message: dict[str, Any]) -> Report:
        """Report the work as done only if no field of the result contradicts that."""
        last_error, self._error = self._error, None
        subtype, ended = message.get("subtype"), message.get("terminal_reason") or "completed"
        if not isinstance(subtype, str):
            raise LineError(f"the result line has no subtype, it is {shown(subtype)}")
        if subtype == "success" and ended == "completed" and message.get("is_error") is not True:
            text = message.get("result")
            return WorkFinished(plain_text(text) if isinstance(text, str) else "")
        labels = [ended, subtype, message.get("stop_reason"), last_error]
        return AgentFailed(_error(message, subtype, str(ended)), _reason(message, labels))


def _with_fault(reports: Iterator[Report]) -> Iterator[Report]:
    """Yield the reports up to an error, and then the error as a RejectedLine."""
    try:
        yield from reports
    except LineError as error:
        yield RejectedLine(str(error))


def _error(message: dict[str, Any], subtype: str, ended: str) -> str:
    errors = message.get("errors")
    details = errors if isinstance(errors, list) else [message.get("result")]
    labels = [label for label in (subtype, ended) if label not in {"success", "completed"}]
    parts = [*labels[:1], *(str(detail) for detail in details if detail)]
    return plain_text(one_line(": ".join(parts))) or "no reason was given"


def _reason(message: dict[str, Any], labels: list[object]) -> TransitionReason | None:
    status = message.get("api_error_status")
    if isinstance(status, int) and status in _BY_STATUS:
        return _BY_STATUS[status]
    known = (label for label in labels if isinstance(label, str) and label in _BY_LABEL)
    return next((_BY_LABEL[label] for label in known), None)


def _inner(message: dict[str, Any]) -> Mapping[str, Any]:
    inner = message.get("message")
    if not isinstance(inner, dict):
        raise LineError(f"the {message['type']} line has no message, it is {shown(inner)}")
    return inner


def _blocks(inner: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    content = inner.get("content")
    if not isinstance(content, list):
        raise LineError(f"the message's content must be a list, it is {shown(content)}")
    for block in content:
        if not isinstance(block, dict):
            raise LineError(f"a block of the content must be an object, it is {shown(block)}")
        yield block


def _name(block: Mapping[str, Any], field: str) -> str:
    name = block.get(field)
    if not isinstance(name, str) or not name.strip():
        raise LineError(f"a {block.get('type')} block needs the field {field!r}")
    return plain_text(name)[:NAME_LENGTH_MAX]
