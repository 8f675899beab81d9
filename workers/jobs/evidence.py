"""Files that show what was done: hashed and kept, so that a later run cannot change them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from interlock.workers.files.folder import FolderError, UntrustedFolder
from interlock.workers.jobs.reply import ReplyError
from interlock.workers.text import sentence

KEPT = ".evidence"


def keep(folder: Path, files: Sequence[str]) -> list[dict[str, Any]]:
    """Copy files below a job's directory to where nobody rewrites them; return path, hash, size.

    Raises ReplyError for what is not there, no plain file, too large, or outside.
    """
    source, kept = UntrustedFolder(folder), folder / KEPT
    found = []
    for path in dict.fromkeys(files):
        try:
            content = source.content(path)
        except FolderError as refusal:
            shown = sentence(path, length_max=80)
            raise ReplyError(f"evidence_files: {shown}: {refusal}") from None
        digest = sha256(content).hexdigest()
        _write(kept, digest, content)
        found.append({"path": path, "sha256": digest, "bytes": len(content)})
    return found


def kept_file(folder: Path, digest: str) -> Path:
    """Return where the content with this hash is kept."""
    return folder / KEPT / digest


def _write(kept: Path, digest: str, content: bytes) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    place = kept / digest
    if place.exists() and sha256(place.read_bytes()).hexdigest() == digest:
        return
    # Whole or not there: a kill in the middle leaves a name that nobody asks for.
    torn = kept / f"{digest}.{uuid4().hex[:8]}"
    torn.write_bytes(content)
    torn.chmod(0o444)
    torn.replace(place)
