"""Keeps the files that show a job's work, as copies that no later run can change."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from interlock.system.files import UntrustedFolder
from interlock.system.text import one_line
from interlock.systems.jobs.machines.job.names import EVIDENCE_FOLDER
from interlock.systems.jobs.reply import ReplyError


def keep_evidence(folder: Path, files: Sequence[str]) -> list[dict[str, Any]]:
    """Copy files of a job's directory into its evidence folder; return path, hash and size of each.

    Raises ReplyError for a file that is missing, not a plain file, too large, or outside.
    """
    source, evidence_folder = UntrustedFolder(folder), folder / EVIDENCE_FOLDER
    found = []
    for path in dict.fromkeys(files):
        try:
            content = source.content(path)
        except OSError as refusal:
            shown = one_line(path, length_max=80)
            raise ReplyError(f"evidence_files: {shown}: {refusal}") from None
        digest = sha256(content).hexdigest()
        _write(evidence_folder, digest, content)
        found.append({"path": path, "sha256": digest, "bytes": len(content)})
    return found


def kept_file(folder: Path, digest: str) -> Path:
    """Return the file in which the content with this hash is kept."""
    return folder / EVIDENCE_FOLDER / digest


def _write(evidence_folder: Path, digest: str, content: bytes) -> None:
    evidence_folder.mkdir(parents=True, exist_ok=True)
    file = evidence_folder / digest
    if file.exists() and sha256(file.read_bytes()).hexdigest() == digest:
        return
    # The file is complete or not there: a kill while writing leaves only a name that is never read.
    torn = evidence_folder / f"{digest}.{uuid4().hex[:8]}"
    torn.write_bytes(content)
    torn.chmod(0o444)
    torn.replace(file)
