"""Reads our own JSON lines, one report each. A line has a type, and the fields of that type.

A supervisor accepts only the types that have a meaning for its process: the table at the end of
this module says which. A line of another type is rejected with a sentence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum, auto
from functools import partial
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model

from interlock.kernel.errors import InvalidIdError
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.kernel.record import record_id
from interlock.workers.specs.document import Document
from interlock.workers.specs.json_line import (
    COUNT_MAX,
    NAME_LENGTH_MAX,
    TEXT_LENGTH_MAX,
    LineError,
    check_plain,
    read_object,
    shown,
)
from interlock.workers.specs.problems import FileError
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
    SessionOpened,
    SplitRequested,
    Subtask,
    ToolCompleted,
    ToolStarted,
    UsageAdded,
    UsageTotal,
    UsedTokens,
    WorkFinished,
)

LINE_BYTES_MAX = 64 * 1024
# Of one line, which has a limit of its bytes; a person or a program may split a task into more.
LINE_SUBTASKS_MAX = 50
ITEMS_MAX = 100  # in a list of a subtask
WAIT_S_MAX = 86_400


class AbortReach(StrEnum):
    """Whether the agent aborts a tool call or its siblings."""

    TOOL = auto()
    SIBLING = auto()


class ReportKinds(StrEnum):
    """Which types of lines a supervisor accepts.

    AGENT has those about work that a record describes: its splitting, its blocking, mail. SESSION
    has those of a process whose session, messages and costs are recorded.
    """

    AGENT = auto()
    SESSION = auto()


class InterlockStream:
    """Reads each line by itself."""

    line_bytes_max = LINE_BYTES_MAX
    reports_result = True

    def __init__(self, kinds: ReportKinds, only: Collection[str] = ()) -> None:
        self._kinds, self._only = kinds, only

    def feed(self, line: bytes) -> Sequence[Report]:
        """Return the line's report, or the reason why it has none; nothing for a blank line."""
        return (parse_line(line, self._kinds, self._only),) if line.strip() else ()


def parse_line(line: bytes, kinds: ReportKinds, only: Collection[str] = ()) -> Report:
    """Read one line, of one of these types if any is given.

    Never raises: a faulty line becomes a RejectedLine with one sentence.
    """
    message: dict[str, Any] = {}
    try:
        message = read_object(line, bytes_max=LINE_BYTES_MAX)
        check_plain(message)
        return _report(message, kinds, only)
    except LineError as error:
        return RejectedLine(str(error), ends=message.get("type") in _ENDS_WITHOUT_SUCCESS)


def _report(message: dict[str, Any], kinds: ReportKinds, only: Collection[str]) -> Report:
    if "type" not in message:
        raise LineError("the line has no type")
    name = message["type"]
    accepted = [known for known, (of_kinds, _, _) in _LINES.items() if kinds in of_kinds]
    known = [known for known in accepted if not only or known in only]
    if not isinstance(name, str) or name not in known:
        raise LineError(f"{shown(name)} is no type of report; known: {', '.join(known)}")
    _, make, _ = _LINES[name]
    given = {field: value for field, value in message.items() if field != "type"}
    try:
        return make(**_given(Document.of(given, name).model(_MODELS[name])))
    except FileError as error:
        raise LineError(str(error)) from error


def _as_text(value: Any) -> Any:
    """Return a number, true or false as it is written in JSON.

    A shell has no other way to write the text `1`, since `interlock report` reads a value as JSON
    where it can.
    """
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty; write a text")
    return text


def _record(text: str) -> str:
    try:
        return record_id(text)
    except InvalidIdError as error:
        raise ValueError(str(error).replace(repr(text), "it", 1)) from error


class _ReportLine(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


Fields: TypeAlias = Mapping[str, Any]


def _model(name: str, fields: Fields) -> type[BaseModel]:
    """Return the model of a line or object; a field with a question mark may be left out."""
    found: dict[str, Any] = {
        field.removesuffix("?"): (shape, None if field.endswith("?") else ...)
        for field, shape in fields.items()
    }
    return create_model(name, __base__=_ReportLine, **found)


def _given(found: BaseModel) -> dict[str, Any]:
    given = found.model_fields_set
    return {name: getattr(found, name) for name in type(found).model_fields if name in given}


def _object(fields: Fields, make: Callable[..., Any]) -> Any:
    model = _model("object", fields)
    return Annotated[model, AfterValidator(lambda found: make(**_given(found)))]


def _list_of(shape: Any, maximum: int, *, minimum: int = 0) -> Any:
    size = Field(min_length=minimum, max_length=maximum)
    return Annotated[list[shape], size, AfterValidator(tuple)]


Remark = Annotated[str, Field(max_length=TEXT_LENGTH_MAX), BeforeValidator(_as_text)]
Text = Annotated[Remark, AfterValidator(_filled)]
Name = Annotated[
    str, Field(max_length=NAME_LENGTH_MAX), BeforeValidator(_as_text), AfterValidator(_filled)
]
Record = Annotated[Text, AfterValidator(_record)]
Number = Annotated[int, Field(ge=0, le=COUNT_MAX)]
Size = Annotated[int, Field(ge=1, le=COUNT_MAX)]
Percent = Annotated[int, Field(ge=0, le=100)]
PartNumber = Annotated[int, Field(ge=1, le=LINE_SUBTASKS_MAX)]
Wait = Annotated[int, Field(ge=0, le=WAIT_S_MAX)]
_OF_JSON = Field(strict=False)
Reason = Annotated[TransitionReason, _OF_JSON] | None
Abort = Annotated[AbortReason, _OF_JSON] | None
Reach = Annotated[AbortReach, _OF_JSON]


def _usage_added(
    *,
    cost_micro: int | None = None,
    context_used: int | None = None,
    context_size: int | None = None,
    **tokens: int,
) -> UsageAdded:
    if not tokens and cost_micro is None and context_used is None and context_size is None:
        raise LineError("usage has no number; give tokens, context or cost")
    kinds = {_USAGE_NAMES.get(name, name): number for name, number in tokens.items()}
    return UsageAdded(cost_micro or 0, UsedTokens(**kinds), context_used, context_size)


def _context_exceeded(detail: str = "") -> AgentFailed:
    return AgentFailed(detail, TransitionReason.PROMPT_TOO_LONG)


def _result(text: str = "") -> WorkFinished:
    return WorkFinished(text)


def _blocked(**cause: str) -> AgentBlocked:
    if len(cause) != 1:
        raise LineError("blocked needs either 'task' or 'text'")
    return AgentBlocked(**cause)


_SIGNAL: Fields = {"type": Name, "value": Text}
_SUBTASK: Fields = {
    "title": Name,
    "text?": Remark,
    "scope?": Name,
    "signals?": _list_of(_object(_SIGNAL, dict), ITEMS_MAX),
    "owned_files?": _list_of(Text, ITEMS_MAX),
    "after?": _list_of(PartNumber, ITEMS_MAX),
}
_subtasks = _list_of(_object(_SUBTASK, Subtask), LINE_SUBTASKS_MAX, minimum=1)
# In a usage line two kinds of tokens have other names than in a line of total costs.
_USAGE_NAMES = {"tokens_in": "input_tokens", "tokens_out": "output_tokens"}
_TOKENS: Fields = {
    "input_tokens?": Number,
    "output_tokens?": Number,
    "cache_creation_tokens?": Number,
    "cache_read_tokens?": Number,
}
_FINAL_TOTAL = partial(UsageTotal, final=True)
_COSTS: Fields = {"cost_micro": Number, "tokens?": _object(_TOKENS, UsedTokens)}

_ENDS_WITHOUT_SUCCESS = ("failed", "blocked", "split")
_AGENT, _SESSION, _BOTH = (ReportKinds.AGENT,), (ReportKinds.SESSION,), tuple(ReportKinds)
# The types of lines: where they are accepted, the report that they become, and their fields. A
# field with a question mark may be left out.
# fmt: off
_LINES: Mapping[str, tuple[tuple[ReportKinds, ...], Callable[..., Report], Fields]] = {
    "session":          (_SESSION, SessionOpened,     {"id": Name}),
    "message":          (_SESSION, MessageWritten,    {"text": Remark,
                                                       "continues?": bool}),
    "costs":            (_SESSION, UsageTotal,        _COSTS),
    "final_costs":      (_SESSION, _FINAL_TOTAL,      _COSTS),
    "result":           (_SESSION, _result,           {"text?": Remark}),
    "context_exceeded": (_SESSION, _context_exceeded, {"detail?": Remark}),
    "ready":            (_BOTH,    AgentReady,        {}),
    "tool_started":     (_BOTH,    ToolStarted,       {"tool": Name, "id": Name}),
    "tool_completed":   (_BOTH,    ToolCompleted,     {"tool": Name, "id": Name,
                                                       "success": bool}),
    "compact_needed":   (_BOTH,    CompactNeeded,     {}),
    "compacted":        (_BOTH,    Compacted,         {}),
    "verify_requested": (_BOTH,    WorkFinished,      {"summary": Remark}),
    "failed":           (_BOTH,    AgentFailed,       {"error": Text,
                                                       "reason?": Reason,
                                                       "abort?": Abort,
                                                       "retry_after_s?": Wait}),
    "abort":            (_AGENT,   AbortRaised,       {"scope": Reach,
                                                       "reason?": Remark}),
    "cancel_child":     (_AGENT,   CancelRequested,   {"child": Record, "reason?": Remark}),
    "progress":         (_BOTH,    Progress,          {"message": Text, "percent?": Percent}),
    "usage":            (_BOTH,    _usage_added,      {"tokens_in?": Number,
                                                       "tokens_out?": Number,
                                                       "cache_creation_tokens?": Number,
                                                       "cache_read_tokens?": Number,
                                                       "context_used?": Number,
                                                       "context_size?": Size,
                                                       "cost_micro?": Number}),
    "mail":             (_AGENT,   MailSent,          {"to": Name, "text": Text,
                                                       "kind?": Name, "urgent?": bool,
                                                       "thread?": Name,
                                                       "reply_to?": Name, "id?": Name}),
    "blocked":          (_AGENT,   _blocked,          {"task?": Record, "text?": Text}),
    "split":            (_AGENT,   SplitRequested,    {"subtasks": _subtasks}),
}
# fmt: on
_MODELS = {name: _model(name, fields) for name, (_, _, fields) in _LINES.items()}
