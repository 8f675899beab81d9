"""The prompt of a session as a file of its machine; the record keeps its name and its digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from interlock.workers.files.atomic import write_private


class PromptLostError(OSError):
    """A stored prompt is gone or is another. A new one has to be built."""


def store_prompt(folder: Path, text: str) -> tuple[str, str]:
    """Store a prompt; return its file's name and its digest. Raises OSError.

    Whoever stores another one meanwhile stores it beside this one.
    """
    written = text.encode()
    digest = hashlib.sha256(written).hexdigest()
    name = f"prompt-{digest[:16]}.md"
    write_private(folder / name, text)
    return name, digest


def read_prompt(folder: Path, name: str, digest: str) -> str:
    """Return a stored prompt. Raises PromptLostError."""
    file = folder / name
    try:
        written = file.read_bytes()
    except OSError as refusal:
        told = f"the prompt {file} cannot be read: {refusal.strerror or refusal}"
        raise PromptLostError(told) from refusal
    if hashlib.sha256(written).hexdigest() != digest:
        raise PromptLostError(f"the prompt {file} is not the one that was stored")
    return written.decode()
