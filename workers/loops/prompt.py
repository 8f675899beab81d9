"""What a session is told: who it is, what is asked of it, where it stands, its mail. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

from interlock.kernel.machines.loops.loop.payloads import LETTERS_MAX, PROMPT_LENGTH_MAX
from interlock.kernel.store.inboxes import Mail, position
from interlock.kernel.table import Data
from interlock.workers.files.atomic import write_private

# What comes of a repository is for orientation; its whole is a command away.
SEEN_LENGTH_MAX = 4_000
YOURS, LOST = "# Your mail", "# What the session before you had been sent"
# Both, with the number of letters: a letter that is claimed is never cut to make room for them.
HEADINGS_LENGTH = len(f"{YOURS} (999999)\n\n{LOST}\n\n(999999 older letters are left out.)\n\n")
LOST_SHARE = 4


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a worktree shows: its folder, its branch, what is not committed, the last commits."""

    folder: str
    branch: str
    status: str
    commits: str


@dataclass(frozen=True, slots=True)
class Composed:
    """A prompt, and the mail in it.

    All mail up to `claimed` is given with it, and what is `ahead` of that; `letters` are those in
    this very prompt. What did not fit waits for the next.
    """

    text: str
    claimed: str
    ahead: tuple[str, ...]
    letters: tuple[str, ...]


def compose(
    name: str,
    data: Data,
    *,
    around: Surroundings,
    mail: Sequence[Mail],
    urgent: Sequence[Mail] = (),
    lost: Sequence[Mail] = (),
) -> Composed:
    """Return a prompt for the next session; every one is made from scratch.

    `mail` is what nobody was given yet, the oldest first, and `urgent` what is urgent behind that.
    `lost` is what sessions were given that came to no good end.
    """
    head = [_identity(name, data), _instructions(data), _environment(around), _session(data)]
    sections = [section for section in head if section]
    room = PROMPT_LENGTH_MAX - HEADINGS_LENGTH - sum(len(section) + 2 for section in sections)
    # The newest: who is told of them again may know the older ones from its own notes.
    again = _fitting(lost[::-1], room // LOST_SHARE, least=0)[::-1]
    room -= sum(len(letter(one)) + 2 for one in again)
    # What is ahead is remembered by the record: where that grows too long, all has its turn again.
    crowded = len(data["ahead"]) + len(mail) + len(urgent) > LETTERS_MAX
    given = _fitting(mail, room, least=1) if crowded else _chosen(mail, urgent, room)
    if again:
        left_out = len(lost) - len(again)
        more = [f"({left_out} older letters are left out.)"] if left_out else []
        sections.append("\n\n".join([LOST, *more, *map(letter, again)]))
    if given:
        sections.append("\n\n".join([f"{YOURS} ({len(given)})", *map(letter, given)]))
    letters = tuple(one.id for one in given)
    whole = list(takewhile(lambda one: one.id in letters, mail))
    claimed = whole[-1].id if whole else str(data["acknowledged"])
    known = {*data["ahead"], *letters}
    ahead = sorted((one for one in known if position(one) > position(claimed)), key=position)
    return Composed("\n\n".join(sections)[:PROMPT_LENGTH_MAX], claimed, tuple(ahead), letters)


def _chosen(mail: Sequence[Mail], urgent: Sequence[Mail], room: int) -> list[Mail]:
    """Return the letters that there is room for, in their order; urgent ones have it first."""
    pressing = [one for one in (*mail, *urgent) if one.said["urgent"]]
    # The first always goes in: one that is too long for the rest would never be read.
    first = _fitting(pressing, room, least=1)
    room -= sum(len(letter(one)) + 2 for one in first)
    rest = [one for one in mail if not one.said["urgent"]]
    found = [*first, *_fitting(rest, room, least=0 if first else 1)]
    return sorted(found, key=lambda one: position(one.id))


def _fitting(mail: Sequence[Mail], room: int, *, least: int) -> list[Mail]:
    """Return the letters that there is room for, up to the first that does not fit."""
    found: list[Mail] = []
    for one in mail:
        room -= len(letter(one)) + 2
        if room < 0 and len(found) >= least:
            break
        found.append(one)
    return found


def letter(one: Mail) -> str:
    """Return one message as it is read."""
    said = one.said
    when = datetime.fromtimestamp(one.at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    kind = f"{'urgent ' if said['urgent'] else ''}{said['kind']}"
    about = [f"## {kind} {one.id} from {said['sender']}, {when}"]
    about += [f"Thread: {said['thread']}"] if said.get("thread") else []
    about += [f"In reply to: {said['reply_to']}"] if said.get("reply_to") else []
    return "\n".join([*about, "", said["text"]])


def _identity(name: str, data: Data) -> str:
    own = str(data["identity"]).strip()
    return f"# You are {name}" + (f"\n\n{own}" if own else "")


def _instructions(data: Data) -> str:
    own = str(data["instructions"]).strip()
    return f"# Your instructions\n\n{own}" if own else ""


def _environment(around: Surroundings) -> str:
    changed = around.status.rstrip()[:SEEN_LENGTH_MAX] or "nothing"
    lines = [
        "# Where you are",
        "",
        f"Folder: {around.folder}",
        f"Branch: {around.branch}",
        f"Not committed:\n{changed}",
        f"Last commits:\n{around.commits.strip()[:SEEN_LENGTH_MAX] or 'none'}",
    ]
    return "\n".join(lines)


def _session(data: Data) -> str:
    told = [f"# Session {data['session_seq']}, attempt {data['attempt'] + 1}"]
    last = data.get("last")
    if last:
        why = f": {last['detail'].strip()}" if last.get("detail") else ""
        how = "was interrupted, and ended" if last.get("interrupted") else "ended"
        told.append(f"The session before {how} with {last['outcome']}{why[:SEEN_LENGTH_MAX]}")
    return "\n\n".join(told)


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
