"""The evidence beside the card of a job: its objective, its reviews, and the files that it kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from interlock.kernel.record import Record
from interlock.workers.client import Client
from interlock.workers.engine.evidence import Evidence, EvidenceKind
from interlock.workers.jobs.evidence import kept_file

FILES_MAX = 6
FILE_BYTES_MAX = 8_000
ASKED = ("objective", "details", "acceptance")


def evidence(client: Client, record: Record) -> Iterator[Evidence]:
    """Yield what was asked, what worker and reviewer said, and the newest files of evidence."""
    data = record.data
    if asked := "\n\n".join(str(data[name]) for name in ASKED if data.get(name)):
        yield Evidence("What was asked", asked)
    if data.get("summary"):
        yield Evidence("What the worker says it did", str(data["summary"]))
    if review := data.get("review"):
        said = "\n".join(filter(None, (review.get("summary"), *review.get("reasons", ()))))
        yield Evidence(f"What the reviewer says: {review.get('verdict', '')}", said)
    files = {file["sha256"]: file for file in data.get("evidence", ())}
    for file in list(files.values())[-FILES_MAX:]:
        yield _file(client, data.get("host"), Path(str(data.get("dir") or "")), file)


def _file(client: Client, host: str | None, folder: Path, file: dict[str, str]) -> Evidence:
    kept = kept_file(folder, file["sha256"])
    if host not in (None, client.settings.host):
        return Evidence(file["path"], missing=f"It is on the machine {host}: {kept}")
    try:
        content = kept.read_bytes()
    except OSError as failure:
        return Evidence(file["path"], missing=f"It cannot be read here: {failure}")
    text = content[:FILE_BYTES_MAX].decode(errors="replace")
    cut = f"{FILE_BYTES_MAX} of {len(content)} bytes are shown; the whole is {kept}"
    missing = cut if len(content) > FILE_BYTES_MAX else ""
    return Evidence(file["path"], text, EvidenceKind.OUTPUT, missing)
