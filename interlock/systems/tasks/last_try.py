"""Tells the agent of the next try how the last one failed, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlock.system.records import Records
from interlock.system.tables import Record, TransitionReason
from interlock.systems.tasks.claim_names import agent_of
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.work_folders import work_folder_of

PATHS_MAX = 50  # files of the last try that the next agent is told
PRINTED_BYTES_MAX = 2 * 1024  # of each of output and errors
# After these the reason says what was wrong with the work, and what its agent printed does not.
JUDGED = (
    TransitionReason.VERIFICATION_FAILED,
    TransitionReason.MERGE_FAILED,
    TransitionReason.PERMISSION_DENIED,
    TransitionReason.STOP_HOOK_BLOCKED,
)


def told_of_last_try(record: Record[TaskData], records: Records) -> str:
    """Return how the last try of a claimed task failed, with what was printed at its end, or ''.

    What an agent printed is read from its files, which are on this computer: all claims of a task
    are made on the computer that has its repository.
    """
    last_try = record.data.get("last_try") or {}
    by_agent = last_try.get("reason") and last_try.get("why") not in JUDGED
    told = [*_in_words(last_try)]
    if by_agent and not last_try.get("signals") and not record.data["session"]:
        folder = work_folder_of(agent_of(record, int(record.data["claimed"]) - 1), records.settings)
        told += _printed(folder, records)
    if answer := last_try.get("answer"):
        told.append(f"A person says to that: {answer}")
    return "\n".join(told)


def rejections_of(data: TaskData) -> str:
    """Return why a person rejected the work of earlier tries, or ''."""
    reasons = "\n".join(f"- {reason}" for reason in data.get("rejections", ()))
    return f"A person rejected the work of earlier tries:\n{reasons}" if reasons else ""


def _in_words(last_try: Mapping[str, Any]) -> Iterator[str]:
    signals = last_try.get("signals", ())
    if reason := str(last_try.get("reason", "")):
        # The output follows with the signals, whole.
        yield f"The last try: {reason.partition(chr(10))[0] if signals else reason}"
    if paths := last_try.get("paths"):
        yield f"Its files: {', '.join(paths[:PATHS_MAX])}"
    for signal in signals:
        yield f"{signal['type']} {signal['value']}\n{_quoted(signal['detail'])}"


def _printed(folder: Path, records: Records) -> Iterator[str]:
    redaction = records.redaction
    for name in ("output", "errors"):
        with suppress(OSError):
            end = _end_of(folder / f"{name}.log", PRINTED_BYTES_MAX + redaction.longest)
            if text := redaction.end_of(end, PRINTED_BYTES_MAX).strip():
                yield f"The end of the {name} of its agent:\n{_quoted(text)}"


def _end_of(file: Path, bytes_max: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - bytes_max))
        return opened.read(bytes_max)


def _quoted(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines())
