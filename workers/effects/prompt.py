"""Builds the prompt of a long-lived agent's next session, with the mail that nobody was given."""

from __future__ import annotations

from pathlib import Path

from kernel.store.inboxes import Mail, position
from kernel.table import Data
from workers.gateways.git.repository import Repository
from workers.gateways.git.worktree import Worktree, git_in
from workers.loops.place import Home, ready
from workers.loops.prompt import Surroundings, compose
from workers.loops.stored import store_prompt
from workers.work import Outcome, Work

MAILS_MAX = 200
COMMITS = 8


def prompt(work: Work) -> Outcome:
    """Claim the mail and compose; it is delivered when the session starts, and not before."""
    data = work.record.data
    home = Home(work.record.id, work.dispatch.settings)
    repository = Repository.open(Path(str(data["repo"])))
    tree = ready(home, repository, base=str(data["base"]))
    inboxes, acknowledged = work.dispatch.inboxes, str(data["acknowledged"])
    made = compose(
        home.name,
        data,
        around=_around(repository, tree),
        mail=inboxes.after(work.record.id, acknowledged, MAILS_MAX),
        lost=_lost(work, data),
    )
    name, digest = store_prompt(home.session(int(data["attempt"]) + 1), made.text)
    told = {"prompt": name, "digest": digest, "claimed": made.claimed, "mails": made.mails}
    return Outcome("prompt_ready", told)


def _lost(work: Work, data: Data) -> list[Mail]:
    """Return what the session before was given, where it came to no good end with it."""
    given, last = data.get("given"), data.get("last") or {}
    if not given or (last.get("outcome") == "success" and not last.get("interrupted")):
        return []
    mails = work.dispatch.inboxes.after(work.record.id, str(given["after"]), MAILS_MAX)
    return [one for one in mails if position(one.id) <= position(str(given["upto"]))]


def _around(repository: Repository, tree: Worktree) -> Surroundings:
    git = git_in(repository, tree)
    status = git.run("status", "--short").output.decode(errors="replace")
    log = ("log", "--oneline", "--no-decorate", f"--max-count={COMMITS}")
    commits = git.run(*log).output.decode(errors="replace")
    return Surroundings(str(tree.folder), tree.branch, status, commits)
