"""What pages show of the work of an agent: its output, and the difference of its files."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.git.diff import Diff
from interlock.kernel.record import Record
from interlock.workers.client import Client
from interlock.workers.engine.agent_output import AgentOutput, look_at
from interlock.workers.engine.printed_calls import output_source
from interlock.workers.engine.record_diff import DiffState, RecordDiff
from interlock.workers.supervision.record_diffs import is_final
from interlock.workers.terminal.page import LivePart, Part, Sentence, Time, Verbatim
from interlock.workers.terminal.page_parts import diff_parts
from interlock.workers.text import moment

LINES_MAX = 100  # of the output, and of the errors


def agent_output(client: Client, record: Record) -> LivePart:
    """Look at the output of a record's agent, and return it as a part of a page.

    It is the end of what the last run has printed; the row `outputs` of the system says where.
    """
    found = look_at(client.dispatch, {record.id: output_source(client, record)})
    return shown_output(record.id, found[record.id])


def shown_output(record_id: str, found: AgentOutput) -> LivePart:
    """Return the output of a record's agent as a part of a page."""
    parts: list[Part] = []
    if found.source is not None:
        printed_ms, facts = found.printed_ms, dict[str, object]()
        facts["computer"] = found.source.host
        if printed_ms is not None:
            facts["silent for"] = Time(printed_ms)
        parts.append(facts)
    if found.sentence:
        parts.append(Sentence(found.sentence, "soft"))
    if found.part is not None:
        named = {"output": found.part.output, "errors": found.part.errors}
        parts += [Verbatim(_last_lines(text), name) for name, text in named.items() if text]
    return LivePart("output", record_id, found.stamp, parts)


def _last_lines(text: bytes) -> str:
    return "\n".join(text.decode("utf-8", "replace").splitlines()[-LINES_MAX:])


def shown_diff(client: Client, record_id: str, found: RecordDiff, between: str = "") -> LivePart:
    """Return the difference of a record as a part of a page."""
    query = {"between": between} if between else {}
    is_here = found.host == client.settings.host
    parts = list(_diff_parts(found, is_here=is_here))
    is_followed = not (is_here or is_final(found))
    return LivePart("diff", record_id, found.stamp, parts, query, is_followed=is_followed)


def _diff_parts(found: RecordDiff, *, is_here: bool) -> Iterator[Part]:
    if not is_here:
        at_ms = found.compared_ms
        # The page is not renewed after the answer, so how long ago it was would soon be wrong.
        at = "" if at_ms is None else moment(at_ms)
        yield {"computer": found.host, "compared": at}
    if found.state is DiffState.NONE and is_here:
        yield Sentence(f"It cannot be shown: {found.detail}", "soft")
    elif found.detail:
        yield Sentence(found.detail, "soft")
    if found.files or found.state is DiffState.KNOWN:
        yield from diff_parts(Diff(found.files, found.unnamed))
