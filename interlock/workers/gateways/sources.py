"""The sources of inciting events, and how each cleans an event up.

Cleaning up removes a request whose work is done from its source, so that it is not proposed again.
It succeeds if the request is already gone, and fails if the source cannot be read.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeAlias

from interlock.workers.config import Settings
from interlock.workers.files.atomic import locked, replace_bytes
from interlock.workers.gateways.capabilities.extension import ExtensionError, read_extensions
from interlock.workers.text import one_line

DEADLINE_S = 30.0
DONE = "done"
LEDGER_LINES_MAX = 1000


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """The request is gone from its source: removed now, or `already_gone` before."""

    detail: str
    already_gone: bool = False
    failed: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class CleanUpFailed:
    """The request is still in its source, or may be."""

    detail: str
    already_gone: ClassVar[bool] = False
    failed: ClassVar[bool] = True


CleanUpOutcome: TypeAlias = CleanedUp | CleanUpFailed


class IncitingSource(Protocol):
    """One kind of source."""

    @property
    def name(self) -> str:
        """The name of the source, as in `inciting["source"]`."""

    def can_clean_up(self, inciting: Mapping[str, Any]) -> bool:
        """Tell whether the event has the fields by which the source can find it."""

    async def clean_up(self, inciting: Mapping[str, Any], *, key: str) -> CleanUpOutcome:
        """Remove the request; a repetition with the same key removes nothing further."""


class Sources:
    """All sources of this process, by name. Of two with the same name the later is used."""

    __slots__ = ("_by_name",)

    def __init__(self, sources: Iterable[IncitingSource]) -> None:
        self._by_name = MappingProxyType({source.name: source for source in sources})

    def can_clean_up(self, inciting: Mapping[str, Any]) -> bool:
        """Tell whether some source can clean this event up; a source that raises cannot."""
        source = self._by_name.get(str(inciting.get("source")))
        try:
            return source is not None and source.can_clean_up(inciting)
        except Exception:  # noqa: BLE001 - a source is user code: it must not break the card
            return False

    async def clean_up(self, inciting: Mapping[str, Any], *, key: str) -> CleanUpOutcome:
        """Clean an event up within 30 s. An exception of the source becomes a CleanUpFailed."""
        name = str(inciting.get("source"))
        source = self._by_name.get(name)
        if source is None or not self.can_clean_up(inciting):
            why = f"no source of this deployment can clean up a request from {name!r}"
            return CleanUpFailed(one_line(why))
        try:
            async with asyncio.timeout(DEADLINE_S):
                outcome: object = await source.clean_up(inciting, key=key)
        except TimeoutError:
            return CleanUpFailed(f"cleaning up {name} did not end within {DEADLINE_S:g} s")
        # As with a capability: an error of user code is an outcome that a person sees.
        except Exception as error:  # noqa: BLE001
            return CleanUpFailed(one_line(f"{type(error).__name__}: {error}"))
        if isinstance(outcome, CleanedUp | CleanUpFailed):
            return outcome
        return CleanUpFailed(
            f"the source {name} returned a {type(outcome).__name__}, not a CleanUpOutcome"
        )


def open_sources(settings: Settings) -> Sources:
    """Open the sources that the settings name. See `load_sources`."""
    return load_sources(
        settings.capabilities, settings.capabilities_root, root=settings.sources_root
    )


def load_sources(
    specification: str | None = None, modules_root: Path = Path(), *, root: Path | None = None
) -> Sources:
    """Return the shipped sources, and those of the modules in INTERLOCK_CAPABILITIES (SOURCES).

    Relative files and modules are found in the folder `modules_root`. With a `root`, the shipped
    sources change nothing outside that folder. Raises ExtensionError.
    """
    found: list[IncitingSource] = [Inbox(root), NoteLine(root)]
    for module in read_extensions(specification, modules_root).modules:
        for source in getattr(module, "SOURCES", ()):
            if not isinstance(getattr(source, "name", None), str):
                raise ExtensionError(module.__name__, "SOURCES has a member without a name")
            found.append(source)
    return Sources(found)


@dataclass(frozen=True, slots=True)
class Inbox:
    """Requests that came as files: the file moves to the folder `done` beside it."""

    root: Path | None
    name: str = "inbox"

    def can_clean_up(self, inciting: Mapping[str, Any]) -> bool:
        """Tell whether the event has the absolute path and the sha256 of its file."""
        if not _has_texts(inciting, "request_path", "request_sha256"):
            return False
        path = Path(inciting["fields"]["request_path"])
        # A relative path would depend on the folder in which this worker was started.
        return path.is_absolute() and _inside(self.root, path)

    async def clean_up(self, inciting: Mapping[str, Any], *, key: str) -> CleanUpOutcome:
        """Move the file, if it has not changed since it was read."""
        del key  # a repetition finds the file moved, so no key need be remembered
        fields = inciting["fields"]
        path, digest = Path(fields["request_path"]), fields["request_sha256"]
        return await asyncio.to_thread(_move_to_done, path, digest)


@dataclass(frozen=True, slots=True)
class NoteLine:
    """Requests that came as one line of a note: the first line with that text is deleted."""

    root: Path | None
    name: str = "note_line"

    def can_clean_up(self, inciting: Mapping[str, Any]) -> bool:
        """Tell whether the event names the note and the line."""
        complete = _has_texts(inciting, "note_path", "line_text")
        return complete and _inside(self.root, _note_of(inciting["fields"]))

    async def clean_up(self, inciting: Mapping[str, Any], *, key: str) -> CleanUpOutcome:
        """Delete the line."""
        fields = inciting["fields"]
        line = fields["line_text"].strip()
        return await asyncio.to_thread(_delete_line, _note_of(fields), line, key)


def _has_texts(inciting: Mapping[str, Any], *names: str) -> bool:
    fields = inciting.get("fields")
    if not isinstance(fields, Mapping):
        return False
    return all(isinstance(fields.get(name), str) and fields[name].strip() for name in names)


def _inside(root: Path | None, path: Path) -> bool:
    return root is None or path.resolve().is_relative_to(root.resolve())


def _note_of(fields: Mapping[str, Any]) -> Path:
    """Return the note's path; a relative one counts from the folder of the request's file."""
    return Path(fields.get("request_path", "")).parent / str(fields["note_path"])


def _move_to_done(path: Path, digest: str) -> CleanUpOutcome:
    try:
        # First, because a file is known to be gone only if its folder can be listed.
        if path.name not in {other.name for other in path.parent.iterdir()}:
            return CleanedUp(f"{path.name} is no longer in {path.parent.name}", already_gone=True)
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            why = f"{path} has changed since it was read; look at it, then move it yourself"
            return CleanUpFailed(one_line(why))
        done = path.parent / DONE
        done.mkdir(exist_ok=True)
        target = done / path.name
        if target.exists():
            target = done / f"{path.stem}.{digest[:12]}{path.suffix}"
        path.replace(target)
    except OSError as error:
        return CleanUpFailed(one_line(f"cannot move {path} away: {error.strerror or error}"))
    return CleanedUp(f"moved {path.name} to {DONE}/{target.name}")


def _delete_line(note: Path, line: str, key: str) -> CleanUpOutcome:
    try:
        with locked(note):
            lines = note.read_bytes().splitlines(keepends=True)
            matches = [index for index, other in enumerate(lines) if _plain(other) == line]
            before = _count_at_first_try(note, key, len(matches))
            if not matches or len(matches) < before:
                return CleanedUp(f"the line is no longer in {note.name}", already_gone=True)
            del lines[matches[0]]
            replace_bytes(note, b"".join(lines))
    except FileNotFoundError as error:
        return CleanUpFailed(one_line(f"there is no {error.filename}; is its folder mounted?"))
    except OSError as error:
        return CleanUpFailed(one_line(f"cannot change {note}: {error.strerror or error}"))
    return CleanedUp(f"deleted the line from {note.name}")


def _plain(line: bytes) -> str:
    return line.decode(errors="replace").strip()


def _count_at_first_try(note: Path, key: str, matches: int) -> int:
    """Return how many such lines the note had at the first try with this key.

    The number is written down before the first line is deleted: a repetition after a crash would
    otherwise delete the next line with the same text.
    """
    ledger = note.parent / f".{note.name}.cleaned"
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    known = ledger.read_text(encoding="ascii").split("\n") if ledger.exists() else []
    for entry in known:
        if entry.startswith(digest):
            return int(entry.partition(" ")[2])
    kept = [*filter(None, known), f"{digest} {matches}"][-LEDGER_LINES_MAX:]
    replace_bytes(ledger, ("\n".join(kept) + "\n").encode())
    return matches
