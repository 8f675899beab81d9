"""The evidence beside the card of a job: its objective, its reviews, and the files that it kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from interlock import Client
from interlock.system.pages import Section, Sentence, Verbatim
from interlock.system.tables import Record
from interlock.systems.jobs.evidence import kept_file
from interlock.systems.jobs.machines.job.data import EvidenceData, JobData

FILES_MAX = 6  # files that a card shows, the newest
FILE_BYTES_MAX = 8_000  # of each of them


def evidence(client: Client, record: Record[JobData]) -> Iterator[Section]:
    """Yield what was asked, what worker and reviewer said, and the newest files of evidence."""
    data = record.data
    texts = (data["objective"], data["details"], data["acceptance"])
    if asked := "\n\n".join(str(text) for text in texts if text):
        yield Section("What was asked", [Sentence(asked)], place="first")
    if summary := data.get("summary"):
        yield Section("What the worker says it did", [Sentence(summary)])
    if review := data.get("review_result"):
        said = "\n".join(filter(None, (review["summary"], *review["reasons"])))
        yield Section(f"What the reviewer says: {review['verdict']}", [Sentence(said)])
    files = {file["sha256"]: file for file in data.get("evidence", ())}
    for file in list(files.values())[-FILES_MAX:]:
        yield _file(client, data.get("host"), Path(str(data.get("dir") or "")), file)


def _file(client: Client, host: str | None, folder: Path, file: EvidenceData) -> Section:
    kept = kept_file(folder, file["sha256"])
    if host not in (None, client.settings.host):
        where = Sentence(f"It is on the computer {host}, in this file:", "soft")
        return Section(file["path"], [where, Sentence(Verbatim(str(kept)))])
    try:
        content = kept.read_bytes()
    except OSError as failure:
        return Section(file["path"], [Sentence(f"It cannot be read here: {failure}", "soft")])
    text = content[:FILE_BYTES_MAX].decode(errors="replace")
    parts: list[Verbatim | Sentence] = [Verbatim(text)]
    if len(content) > FILE_BYTES_MAX:
        cut = f"{FILE_BYTES_MAX} of {len(content)} bytes are shown. The whole file:"
        parts += [Sentence(cut, "soft"), Sentence(Verbatim(str(kept)))]
    return Section(file["path"], parts)
