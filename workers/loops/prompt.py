"""What a session is told: who it is, what is asked of it, where it stands, its mail. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kernel.machines.loop.payloads import PROMPT_LENGTH_MAX
from kernel.store.inboxes import Mail
from kernel.table import Data

# What comes of a repository is for orientation; its whole is a command away.
SEEN_LENGTH_MAX = 4_000
YOURS, LOST = "# Your mail", "# What the session before you had been sent"
# Both, with the number of letters: a letter that is claimed is never cut to make room for them.
HEADINGS_LENGTH = len(f"{YOURS} (999999)\n\n{LOST}\n\n")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a worktree shows: its folder, its branch, what is not committed, the last commits."""

    folder: str
    branch: str
    status: str
    commits: str


@dataclass(frozen=True, slots=True)
class Composed:
    """A prompt, and the last mail in it; the mail that did not fit waits for the next."""

    text: str
    claimed: str
    mails: int


def compose(
    name: str,
    data: Data,
    *,
    around: Surroundings,
    mail: Sequence[Mail],
    lost: Sequence[Mail] = (),
) -> Composed:
    """Return a prompt for the next session; every one is made from scratch.

    `mail` is what nobody was given yet, the oldest first. `lost` is what the session before was
    given, where it did not come to a good end.
    """
    head = [_identity(name, data), _instructions(data), _environment(around), _session(data)]
    sections = [section for section in head if section]
    room = PROMPT_LENGTH_MAX - HEADINGS_LENGTH - sum(len(section) + 2 for section in sections)
    # The first always goes in: one that is too long for the rest would never be read.
    given = _fitting(mail, room, least=1)
    again = _fitting(lost, room - sum(len(text) + 2 for text in given), least=0)
    if again:
        sections.append("\n\n".join([LOST, *again]))
    if given:
        sections.append("\n\n".join([f"{YOURS} ({len(given)})", *given]))
    claimed = mail[len(given) - 1].id if given else str(data["acknowledged"])
    return Composed("\n\n".join(sections)[:PROMPT_LENGTH_MAX], claimed, len(given))


def _fitting(mail: Sequence[Mail], room: int, *, least: int) -> list[str]:
    """Return the letters that there is room for, up to the first that does not fit."""
    found: list[str] = []
    for text in map(letter, mail):
        room -= len(text) + 2
        if room < 0 and len(found) >= least:
            break
        found.append(text)
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
    changed = around.status.strip()[:SEEN_LENGTH_MAX] or "nothing"
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
