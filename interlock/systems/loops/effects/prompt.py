"""Builds the prompt of a long-lived agent's next session, with its unread mail."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from interlock import EffectWork, Outcome
from interlock.git.errors import GitError, RefusedError
from interlock.git.private_copy import bring_in, git_in
from interlock.git.repository import Repository
from interlock.git.worktree import Worktree
from interlock.system.agents import Sandbox
from interlock.systems.loops.machines.loop.data import LoopData
from interlock.systems.loops.machines.loop.names import Trigger
from interlock.systems.loops.mailbox import Mailbox
from interlock.systems.loops.paths import AgentPaths, prepare_worktree
from interlock.systems.loops.session_prompt import WorktreeSummary, compose_prompt, store_prompt

MAILS_MAX = 200  # in one prompt: so many in their order, and so many urgent ones
COMMITS = 8  # of the worktree, the newest, that a prompt shows


def prompt(work: EffectWork[LoopData]) -> Outcome:
    """Store the next prompt and claim its mail. Only the session's start delivers that mail."""
    record, data = work.record, work.record.data
    paths = AgentPaths(record.id, work.records.settings)
    try:
        repository = Repository.open(Path(data["repo"]), sandbox=Sandbox.open(paths.settings))
        tree = prepare_worktree(paths, repository, base=data["base"])
        bring_in(repository, tree)  # of a session whose supervisor was lost
    except RefusedError as refusal:
        return Outcome(Trigger.FATAL_ERROR, {"code": "worktree", "detail": str(refusal)})
    unread = Mailbox(work.records).unread(record)
    mail = list(islice(unread, MAILS_MAX))
    urgent = (message for message in unread if message.fields["urgent"])
    given = [(record.id, mail_id) for mail_id in data.get("given", ())]
    composed = compose_prompt(
        paths.name,
        data,
        worktree=_summary(repository, tree),
        mail=mail,
        urgent=list(islice(urgent, MAILS_MAX)),
        lost=list(work.records.inboxes.some(given).values()),
    )
    attempt = data["attempt"] + 1
    name, digest = store_prompt(paths.session(attempt), composed.text)
    paths.delete_old_attempt(attempt)
    fields = {"prompt": name, "digest": digest, "claimed": composed.claimed}
    mail_fields = {"ahead": composed.ahead, "letters": composed.letters}
    return Outcome(Trigger.PROMPT_READY, {**fields, **mail_fields})


def _summary(repository: Repository, tree: Worktree) -> WorktreeSummary:
    log = ("log", "--oneline", "--no-decorate", f"--max-count={COMMITS}")
    status = _output_of(repository, tree, "status", "--short")
    commits = _output_of(repository, tree, *log)
    return WorktreeSummary(str(tree.folder), tree.branch, status, commits)


def _output_of(repository: Repository, tree: Worktree, *arguments: str) -> str:
    """Return what git prints in a worktree. If it fails, the prompt shows its error instead."""
    try:
        return git_in(repository, tree).run(*arguments).output.decode(errors="replace")
    except GitError as failure:
        return f"git failed: {failure}"
