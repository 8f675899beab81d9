"""The names, states and units of the published page, beside ours: one table, read both ways. Pure.

An event in the page's form is read by `from_published`, and any value that Interlock writes about
runs is written in the page's form by `to_published`. docs/runs.md has them listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from interlock import CallError
from interlock.system.errors import InvalidPayloadError
from interlock.system.tables import MICRO
from interlock.systems.runs.machines.codon.names import State
from interlock.systems.runs.machines.errors import InvalidTransitionError, MetadataValidationError

# The end of the year 9999, the last that can be written; a sender may name a later time.
TIME_MS_MAX = 253_402_300_799_000
# The only state whose published name is not ours.
STATES = {str(State.COMPLETING_SENTINELS): "completing-sentinels"}
_STATES_READ = {published: ours for ours, published in STATES.items()}
# The fields of a used-up budget whose unit depends on its currency: money, a time, or tokens.
AMOUNTS = ("limit", "used")
COST = "cost"
# The fields whose value is a codon's state.
STATE_FIELDS = ("from", "to", "status", "failed_during", "skipped_during", "last_codon_status")


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that the page writes otherwise: its name, and the converters both ways.

    `read` raises ValueError with the form that is expected.
    """

    ours: str
    published: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _micro_dollars(dollars: Any) -> int:
    if isinstance(dollars, int | float) and not isinstance(dollars, bool):
        try:
            return round(Decimal(repr(dollars)) * MICRO)
        except (InvalidOperation, OverflowError, ValueError):
            pass
    raise ValueError(f"{dollars!r} is not a number of dollars, such as 0.0234")


def _milliseconds(text: Any) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{text!r} is not a time with its zone, such as 2026-11-23T08:00:00.000Z")
    return round(moment.timestamp() * 1_000)


def _iso_time(ms: Any) -> str:
    moment = datetime.fromtimestamp(min(ms, TIME_MS_MAX) / 1_000, UTC)
    text = moment.isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


DOLLARS = Unit("micro-dollars", "dollars", lambda micro: micro / MICRO, _micro_dollars)
TIME = Unit("milliseconds", "ISO 8601", _iso_time, _milliseconds)


@dataclass(frozen=True, slots=True)
class Name:
    """One name: ours, the published one, its unit where that differs, and whether the page has it.

    A name that the page lacks is written in camelCase, as the page writes its own.
    """

    ours: str
    published: str
    unit: Unit | None = None
    on_page: bool = True


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def _ours(*names: str) -> tuple[Name, ...]:
    """Return rows for names that the page lacks."""
    return tuple(Name(name, _camel_case(name), on_page=False) for name in names)


NAMES = (
    Name("run_id", "runId"),
    Name("codon_id", "codonId"),
    Name("pid", "claudePid"),
    Name("log_path", "claudeLogPath"),
    Name("session_id", "claudeSessionId"),
    Name("previous_session_id", "previousSessionId"),
    Name("exit_code", "exitCode"),
    Name("failure_reason", "failureReason"),
    Name("failed_during", "failedDuring"),
    Name("skipped_during", "skippedDuring"),
    Name("result_message_received", "resultMessageReceived"),
    Name("checkpoint_sha", "checkpointSha"),
    Name("cost", "cost", DOLLARS),
    Name("cost_delta", "costDelta", DOLLARS),
    Name("current_cost", "currentCost", DOLLARS),
    Name("partial_cost", "partialCost", DOLLARS),
    Name("final_cost", "finalCost", DOLLARS),
    Name("total_cost", "totalCost", DOLLARS),
    Name("tokens_delta", "tokensDelta"),
    Name("current_tokens", "currentTokens"),
    Name("final_tokens", "finalTokens"),
    Name("input_tokens", "inputTokens"),
    Name("output_tokens", "outputTokens"),
    Name("assistant_message_count", "assistantMessageCount"),
    Name("start_time", "startTime", TIME),
    Name("loop_context", "loopContext"),
    Name("rig_setup_checkpoint", "rigSetupCheckpoint"),
    Name("completion_checkpoint", "completionCheckpoint"),
    Name("error_checkpoint", "errorCheckpoint"),
    Name("skip_checkpoint", "skipCheckpoint"),
    Name("loaded_at", "loadedAt", TIME),
    Name("unloaded_at", "unloadedAt", TIME),
    Name("llm_call_count", "llmCallCount"),
    Name("failed_llm_calls", "failedLLMCalls"),
    Name("unload_reason", "unloadReason"),
    Name("detected_at", "detectedAt", TIME),
    Name("end_time", "endTime", TIME, on_page=False),
    Name("last_llm_call_at", "lastLLMCallAt", TIME, on_page=False),
    *_ours(
        "after_codon",
        "budget_exceeded",
        "cache_creation_tokens",
        "cache_read_tokens",
        "checkpoint_type",
        "context_exceeded",
        "initial_checkpoint",
        "last_codon_status",
        "loop_id",
        "new_count",
        "partial_tokens",
        "retry_after_ms",
        "run_folder",
        "sentinel_refs",
        "sentinel_states",
        "starting_conditions",
        "total_triggers",
    ),
)
_BY_OURS = {name.ours: name for name in NAMES}
_BY_PUBLISHED = {name.published: name for name in NAMES}


def to_published(value: Any) -> Any:
    """Return a value about runs in the page's names, states and units. `value` is JSON-able."""
    if isinstance(value, Mapping):
        return {published_name(key): _written(key, field, value) for key, field in value.items()}
    if isinstance(value, list | tuple):
        return [to_published(each) for each in value]
    return value


def from_published(value: Any) -> Any:
    """Return a value in the page's form in our names, states and units.

    Raises InvalidPayloadError for a cost or a time that is written otherwise.
    """
    return with_our_states(_converted(value, ""))


def with_our_states(value: Any) -> Any:
    """Return a value with our names of states, whichever of both it has; its fields are ours."""
    if isinstance(value, Mapping):
        return {key: _our_state(key, field) for key, field in value.items()}
    if isinstance(value, list):
        return [with_our_states(each) for each in value]
    return value


def is_published(value: Any) -> bool:
    """Return whether a value is in the page's form: by a name in it that only the page has.

    Raises InvalidPayloadError where it has names of ours as well: the unit of a cost is unknown.
    """
    keys = list(_keys(value))
    theirs = [key for key in keys if key in _BY_PUBLISHED and key not in _BY_OURS]
    ours = [key for key in keys if key in _BY_OURS and key not in _BY_PUBLISHED]
    if theirs and ours:
        problem = f"{theirs[0]} is a name of the page, {ours[0]} is not; write all in one form"
        raise InvalidPayloadError("the event", [problem])
    return bool(theirs)


def published_name(name: str) -> str:
    """Return the published name of a field; one that has none stays."""
    return _BY_OURS[name].published if name in _BY_OURS else name


def published_error(error: CallError) -> CallError:
    """Return the refusal of a transition with the page's names; any other error stays."""
    match error:
        case InvalidTransitionError(source=source, target=target):
            return InvalidTransitionError(STATES.get(source, source), STATES.get(target, target))
        case MetadataValidationError(target=target, names=names):
            target = STATES.get(target, target)
            return MetadataValidationError(target, [published_name(name) for name in names])
        case _:
            return error


def names_list() -> str:
    """Return as Markdown which names and units differ, by the way in which they do."""
    renamed = [f"`{ours}` is `{theirs}`" for ours, theirs in STATES.items()]
    plain = []
    for name in NAMES:
        if name.published == _camel_case(name.ours):
            plain.append(name)
        else:
            renamed.append(f"`{name.ours}` is `{name.published}`")
    amounts = f"where `currency` is `{COST}` {', '.join(f'`{amount}`' for amount in AMOUNTS)}"
    ways = {
        "Another name": ", ".join(renamed),
        "The same in camelCase": _listed(name for name in plain if name.on_page),
        "In camelCase, and not on the page": _listed(name for name in plain if not name.on_page),
        f"In {DOLLARS.published}, not {DOLLARS.ours}": f"{_listed_in(DOLLARS)}; {amounts}",
        f"In {TIME.published}, not {TIME.ours}": _listed_in(TIME),
    }
    return "\n".join(f"- **{way}:** {names}." for way, names in ways.items())


def _listed_in(unit: Unit) -> str:
    return _listed(name for name in NAMES if name.unit is unit)


def _listed(names: Iterable[Name]) -> str:
    return ", ".join(f"`{name.ours}`" for name in names)


def _written(key: str, value: Any, beside: Mapping[str, Any]) -> Any:
    unit = _unit(_BY_OURS.get(key), key, beside)
    if unit is not None and value is not None:
        return unit.write(value)
    if key in STATE_FIELDS and isinstance(value, str):
        return STATES.get(value, value)
    return to_published(value)


def _unit(name: Name | None, key: str, beside: Mapping[str, Any]) -> Unit | None:
    """Return the unit of a field that is written otherwise; that of an amount is `beside` it."""
    if key in AMOUNTS and beside.get("currency") == COST:
        return DOLLARS
    return name.unit if name is not None else None


def _converted(value: Any, where: str) -> Any:
    if isinstance(value, Mapping):
        return {
            _our_name(key): _read(key, field, f"{where}{key}", value)
            for key, field in value.items()
        }
    if isinstance(value, list):
        return [_converted(each, f"{where}{index}.") for index, each in enumerate(value)]
    return value


def _our_name(published: str) -> str:
    return _BY_PUBLISHED[published].ours if published in _BY_PUBLISHED else published


def _read(key: str, value: Any, where: str, beside: Mapping[str, Any]) -> Any:
    unit = _unit(_BY_PUBLISHED.get(key), key, beside)
    if unit is not None and value is not None:
        try:
            return unit.read(value)
        except ValueError as refusal:
            raise InvalidPayloadError("the event", [f"{where}: {refusal}"]) from None
    return _converted(value, f"{where}.")


def _our_state(key: str, value: Any) -> Any:
    if key in STATE_FIELDS and isinstance(value, str):
        return _STATES_READ.get(value, value)
    return with_our_states(value)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, field in value.items():
            yield key
            yield from _keys(field)
    elif isinstance(value, list):
        for each in value:
            yield from _keys(each)
