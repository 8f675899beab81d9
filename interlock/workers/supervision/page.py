"""What pages show of the work of an agent: its output, and the difference of its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from interlock.git.diff import Diff
from interlock.workers.client import Client
from interlock.workers.engine.agent_output import AgentOutput, look_at
from interlock.workers.engine.diff_calls import diff_source, is_final, look_at_diff
from interlock.workers.engine.printed_calls import output_source
from interlock.workers.engine.record_diff import DiffLimits, DiffState, RecordDiff
from interlock.workers.terminal.page import LivePart, Part, Section, Sentence, Time, Verbatim
from interlock.workers.terminal.page_parts import diff_parts

LINES_MAX = 100  # of the output, and of the errors


def with_live_parts(
    client: Client, sections: Iterable[Section], limits: DiffLimits | None = None
) -> list[Section]:
    """Look at the live parts of sections, and return the sections with what these show now.

    Without limits of differences, those of a page apply.
    """
    return [
        replace(section, parts=[_live(client, part, limits) for part in section.parts])
        for section in sections
    ]


def _live(client: Client, part: Part, limits: DiffLimits | None) -> Part:
    match part:
        case LivePart():
            return looked_at(client, part, limits)
        case Section():
            return with_live_parts(client, [part], limits)[0]
    return part


def looked_at(client: Client, part: LivePart, limits: DiffLimits | None = None) -> LivePart:
    """Return a live part with what it shows now. Raises CallError if its machine has none."""
    record = part.record
    if part.what == "output":
        found = look_at(client.dispatch, {record.id: output_source(client, record)})
        return shown_output(part, found[record.id])
    source = diff_source(client.machines, record)
    compared = look_at_diff(client.dispatch, record, source, part.between, limits)
    return shown_diff(part, compared, is_here=compared.host == client.settings.host)


def shown_output(part: LivePart, found: AgentOutput) -> LivePart:
    """Return a part with the output that was found."""
    parts: list[Part] = []
    if found.source is not None:
        printed_ms, facts = found.printed_ms, dict[str, object]()
        facts["computer"] = found.source.host
        if printed_ms is not None:
            facts["since its last output"] = Time(printed_ms)
        parts.append(facts)
    if found.sentence:
        parts.append(Sentence(found.sentence, "soft"))
    if found.part is not None:
        named = {"output": found.part.output, "errors": found.part.errors}
        parts += [Verbatim(_last_lines(text), name) for name, text in named.items() if text]
    return replace(part, parts=parts, stamp=found.stamp, is_followed=True)


def _last_lines(text: bytes) -> str:
    return "\n".join(text.decode("utf-8", "replace").splitlines()[-LINES_MAX:])


def shown_diff(part: LivePart, found: RecordDiff, *, is_here: bool) -> LivePart:
    """Return a part with the difference that was found."""
    parts, is_followed = [*_diff_parts(found, is_here=is_here)], not (is_here or is_final(found))
    return replace(part, parts=parts, stamp=found.stamp, is_followed=is_followed)


def _diff_parts(found: RecordDiff, *, is_here: bool) -> Iterator[Part]:
    if not is_here:
        at_ms = found.compared_ms
        # The page is not renewed after the answer, so how long ago it was would soon be wrong.
        at = None if at_ms is None else Time(at_ms, "date")
        yield {"computer": found.host, "compared": at}
    if found.state is DiffState.NONE and is_here:
        yield Sentence(f"It cannot be shown: {found.detail}", "soft")
    elif found.detail:
        yield Sentence(found.detail, "soft")
    if found.files or found.state is DiffState.KNOWN:
        yield from diff_parts(Diff(found.files, found.unnamed))
