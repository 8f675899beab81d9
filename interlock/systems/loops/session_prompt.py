"""Composes the prompt of a session, and stores it as a file that only its computer has."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from interlock.system.files import PrivateFile
from interlock.system.pages import Time
from interlock.system.records import Mail
from interlock.systems.loops.machines.loop.data import LoopData
from interlock.systems.loops.machines.loop.limits import LETTERS_MAX, PROMPT_LENGTH_MAX

# The state of the worktree is there for orientation; the agent can ask git for the rest.
WORKTREE_TEXT_LENGTH_MAX = 4_000
NEW_MAIL, SHOWN_AGAIN = "# Your mail", "# What the session before you had been sent"
# Reserved for both headings with their numbers, so that they never cut a message that is claimed.
HEADINGS_LENGTH = len(
    f"{NEW_MAIL} (999999)\n\n{SHOWN_AGAIN}\n\n(999999 older messages are left out.)\n\n"
)
# Mail that is shown again gets at most one part in so many of the room.
SHOWN_AGAIN_SHARE = 4


class PromptLostError(OSError):
    """A stored prompt is gone, or another file has its name. Build a new prompt."""


@dataclass(frozen=True, slots=True)
class WorktreeSummary:
    """A worktree's folder and branch, its uncommitted changes and its last commits."""

    folder: str
    branch: str
    status: str
    commits: str


@dataclass(frozen=True, slots=True)
class ComposedPrompt:
    """A prompt, and the mail that is delivered with it.

    With this prompt all mail up to `claimed` has been given, and so have the later messages in
    `ahead`. `letters` are the ids in this prompt. Mail that did not fit waits for the next prompt.
    """

    text: str
    claimed: str
    ahead: tuple[str, ...]
    letters: tuple[str, ...]


def compose_prompt(
    name: str,
    data: LoopData,
    *,
    worktree: WorktreeSummary,
    mail: Sequence[Mail],
    urgent: Sequence[Mail] = (),
    lost: Sequence[Mail] = (),
) -> ComposedPrompt:
    """Return the prompt of an agent's next session. `data` is the agent's record data.

    `mail` is the oldest unread mail, and `urgent` the urgent mail behind it. `lost` was given to
    sessions that failed, and is shown again.
    """
    head = [_identity(name, data), _instructions(data), _worktree(worktree), _session(data)]
    sections = [section for section in head if section]
    room = PROMPT_LENGTH_MAX - HEADINGS_LENGTH - sum(len(section) + 2 for section in sections)
    # The newest are shown again: the agent may know the older ones from its own notes.
    again = _fitting(lost[::-1], room // SHOWN_AGAIN_SHARE, minimum=0)[::-1]
    room -= sum(len(rendered(message)) + 2 for message in again)
    # The record keeps the ids in `ahead`. Where that list grows too long, all mail is given in
    # its order, urgent or not, until the list is short again.
    crowded = len(data["ahead"]) + len(mail) + len(urgent) > LETTERS_MAX
    given = _fitting(mail, room, minimum=1) if crowded else _urgent_first(mail, urgent, room)
    if again:
        left_out = len(lost) - len(again)
        more = [f"({left_out} older messages are left out.)"] if left_out else []
        sections.append("\n\n".join([SHOWN_AGAIN, *more, *map(rendered, again)]))
    if given:
        sections.append("\n\n".join([f"{NEW_MAIL} ({len(given)})", *map(rendered, given)]))
    letters = tuple(message.id for message in given)
    unbroken = list(takewhile(lambda message: message.id in letters, mail))
    claimed = unbroken[-1].id if unbroken else data["acknowledged"]
    known = {*data["ahead"], *letters}
    later = (message_id for message_id in known if Mail.order(message_id) > Mail.order(claimed))
    ahead = tuple(sorted(later, key=Mail.order))
    return ComposedPrompt("\n\n".join(sections)[:PROMPT_LENGTH_MAX], claimed, ahead, letters)


def _urgent_first(mail: Sequence[Mail], urgent: Sequence[Mail], room: int) -> list[Mail]:
    """Return the messages that fit, in their order. Urgent ones get the room first."""
    pressing = [message for message in (*mail, *urgent) if message.fields["urgent"]]
    # The first one always goes in: a message that is too long would otherwise never be read.
    first = _fitting(pressing, room, minimum=1)
    room -= sum(len(rendered(message)) + 2 for message in first)
    rest = [message for message in mail if not message.fields["urgent"]]
    found = [*first, *_fitting(rest, room, minimum=0 if first else 1)]
    return sorted(found, key=lambda message: Mail.order(message.id))


def _fitting(mail: Sequence[Mail], room: int, *, minimum: int) -> list[Mail]:
    """Return the messages up to the first that does not fit, but at least `minimum` of them."""
    found: list[Mail] = []
    for message in mail:
        room -= len(rendered(message)) + 2
        if room < 0 and len(found) >= minimum:
            break
        found.append(message)
    return found


def rendered(message: Mail) -> str:
    """Return the text of one message in a prompt."""
    fields = message.fields
    when = str(Time(message.at_ms))
    kind = f"{'urgent ' if fields['urgent'] else ''}{fields['kind']}"
    head = [f"## {kind} {message.id} from {fields['sender']}, {when}"]
    head += [f"Thread: {fields['thread']}"] if fields.get("thread") else []
    head += [f"In reply to: {fields['reply_to']}"] if fields.get("reply_to") else []
    return "\n".join([*head, "", fields["text"]])


def _identity(name: str, data: LoopData) -> str:
    text = data["identity"].strip()
    return f"# You are {name}" + (f"\n\n{text}" if text else "")


def _instructions(data: LoopData) -> str:
    text = data["instructions"].strip()
    return f"# Your instructions\n\n{text}" if text else ""


def _worktree(worktree: WorktreeSummary) -> str:
    changed = worktree.status.rstrip()[:WORKTREE_TEXT_LENGTH_MAX] or "nothing"
    lines = [
        "# Where you are",
        "",
        f"Folder: {worktree.folder}",
        f"Branch: {worktree.branch}",
        f"Not committed:\n{changed}",
        f"Last commits:\n{worktree.commits.strip()[:WORKTREE_TEXT_LENGTH_MAX] or 'none'}",
    ]
    return "\n".join(lines)


def _session(data: LoopData) -> str:
    paragraphs = [f"# Session {data['session_seq']}, attempt {data['attempt'] + 1}"]
    last = data.get("last")
    if last:
        why = f": {last['detail'].strip()}" if last.get("detail") else ""
        how = "was interrupted, and ended" if last.get("interrupted") else "ended"
        why = why[:WORKTREE_TEXT_LENGTH_MAX]
        paragraphs.append(f"The session before {how} with {last['outcome']}{why}")
    return "\n\n".join(paragraphs)


def store_prompt(folder: Path, text: str) -> tuple[str, str]:
    """Store a prompt and return its file's name and its SHA-256. Raises OSError.

    The name is made of the digest: two different prompts never overwrite each other.
    """
    content = text.encode()
    digest = hashlib.sha256(content).hexdigest()
    name = f"prompt-{digest[:16]}.md"
    PrivateFile(folder / name).write(text)
    return name, digest


def read_prompt(folder: Path, name: str, digest: str) -> str:
    """Return a stored prompt. Raises PromptLostError."""
    file = folder / name
    try:
        content = file.read_bytes()
    except OSError as refusal:
        problem = f"the prompt {file} cannot be read: {refusal.strerror or refusal}"
        raise PromptLostError(problem) from refusal
    if hashlib.sha256(content).hexdigest() != digest:
        raise PromptLostError(f"the prompt {file} is not the one that was stored")
    return content.decode()
