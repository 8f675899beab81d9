"""Step: read a repository's history, since its last tag if it has one, into `history.json`.

RELEASE_NOTES_REPO names the repository; by default it is the one that contains this file.
RELEASE_NOTES_SINCE names a commit to begin after, instead of the last tag.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from history import Commit, History
from job import Brief, Reply, StuckError, perform
from prose import counted
from repository import GitError, Repository

COMMITS_MAX = 500
START = re.compile(r"\x01(?=[0-9a-f]{40,64}\0)")
FORMAT = "--format=%x01%H%x00%h%x00%cs%x00%aN%x00%s%x00%b"


def collect(brief: Brief) -> Reply:
    """Write the commits of the release."""
    repository = open_repository()
    try:
        history = read(repository)
    except GitError as refused:
        raise StuckError(f"git cannot read {repository.folder}: {refused}") from None
    file = brief.hand_in("history.json", history.dump())
    newest, oldest = history.commits[0], history.commits[-1]
    count = counted(len(history.commits), "commit")
    summary = f"{count}, from {oldest.short} to {newest.short}"
    return Reply(summary, evidence_files=(file,))


def open_repository() -> Repository:
    """Return the repository of the settings. Raises StuckError if it has no history."""
    named = os.environ.get("RELEASE_NOTES_REPO", "")
    folder = Path(named or Path(__file__).resolve().parent)
    if not shutil.which("git"):
        raise StuckError("git is not installed here, or not in PATH")
    if not folder.is_dir():
        raise StuckError(f"RELEASE_NOTES_REPO names {folder}, which does not exist")
    repository = Repository.at(folder)
    try:
        repository.ask("rev-parse", "--git-dir")
    except GitError as refused:
        raise StuckError(
            f"there is no git history at {folder} ({refused}): "
            "let RELEASE_NOTES_REPO name a git repository"
        ) from None
    if not repository.commit("HEAD"):
        raise StuckError(f"the repository at {folder} has no commit yet")
    return repository


def read(repository: Repository) -> History:
    """Read the commits. Raises StuckError if there is none."""
    head = str(repository.commit("HEAD"))
    since = begin(repository)
    span = f"{since}..{head}" if since else head
    count = int(repository.ask("rev-list", "--no-merges", "--count", span, "--"))
    if not count:
        raise StuckError(f"there is no commit since {since}" if since else "all commits are merges")
    return History(
        repository=str(repository.folder.resolve()),
        head=head,
        since=since,
        forge=repository.forge(),
        shallow=repository.ask("rev-parse", "--is-shallow-repository").strip() == "true",
        left_out=max(0, count - COMMITS_MAX),
        commits=read_commits(repository, span),
    )


def begin(repository: Repository) -> str | None:
    """Return where the notes begin: RELEASE_NOTES_SINCE, the last tag, or None for all commits."""
    named = os.environ.get("RELEASE_NOTES_SINCE", "")
    if named:
        if not repository.commit(named):
            raise StuckError(f"RELEASE_NOTES_SINCE names {named}, which is no commit here")
        return named
    try:  # if the newest commit itself is tagged, the notes begin at the tag before
        return repository.ask("describe", "--tags", "--abbrev=0", "HEAD^").strip()
    except GitError:
        return None


def read_commits(repository: Repository, span: str) -> tuple[Commit, ...]:
    """Return the newest commits of a span, newest first."""
    listed = repository.ask(
        "log", "-z", "--no-merges", "--name-only", f"--max-count={COMMITS_MAX}", FORMAT, span, "--"
    )
    commits = []
    for fields in START.split(listed)[1:]:
        full, short, date, author, subject, body, *files = fields.split("\0")
        names = tuple(name.lstrip("\n") for name in files if name.strip())
        commits.append(Commit(full, short, date, author, subject.strip(), body.strip(), names))
    return tuple(commits)


if __name__ == "__main__":
    perform(collect)
