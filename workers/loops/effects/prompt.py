"""Builds the prompt of a long-lived agent's next session, with the mail that nobody was given."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from interlock.workers.engine.work import Outcome, Work
from interlock.workers.gateways.git.errors import GitError, RefusedError
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.gateways.git.worktree import Worktree, git_in
from interlock.workers.loops.mailbox import Mailbox
from interlock.workers.loops.paths import Home, ready
from interlock.workers.loops.prompt import Surroundings, compose, store_prompt

MAILS_MAX = 200  # of each kind in one prompt
COMMITS = 8


def prompt(work: Work) -> Outcome:
    """Claim the mail and compose; it is delivered when the session starts, and not before."""
    record, data = work.record, work.record.data
    home = Home(record.id, work.dispatch.settings)
    try:
        repository = Repository.open(Path(str(data["repo"])))
        tree = ready(home, repository, base=str(data["base"]))
    except RefusedError as refusal:
        return Outcome("fatal_error", {"code": "worktree", "detail": str(refusal)})
    unread = Mailbox(work.dispatch).unread(record)
    mail = list(islice(unread, MAILS_MAX))
    made = compose(
        home.name,
        data,
        around=_around(repository, tree),
        mail=mail,
        urgent=list(islice((one for one in unread if one.said["urgent"]), MAILS_MAX)),
        lost=work.dispatch.inboxes.some(record.id, data.get("given", ())),
    )
    attempt = int(data["attempt"]) + 1
    name, digest = store_prompt(home.session(attempt), made.text)
    home.forget(attempt)
    told = {"prompt": name, "digest": digest, "claimed": made.claimed}
    return Outcome("prompt_ready", {**told, "ahead": made.ahead, "letters": made.letters})


def _around(repository: Repository, tree: Worktree) -> Surroundings:
    log = ("log", "--oneline", "--no-decorate", f"--max-count={COMMITS}")
    status, commits = (_said(repository, tree, *words) for words in (("status", "--short"), log))
    return Surroundings(str(tree.folder), tree.branch, status, commits)


def _said(repository: Repository, tree: Worktree, *words: str) -> str:
    """Return what git says of a worktree; what it cannot say is no reason to stop an agent."""
    try:
        return git_in(repository, tree).run(*words).output.decode(errors="replace")
    except GitError as failure:
        return f"git cannot tell: {failure}"
