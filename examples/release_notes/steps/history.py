"""The commits that release notes tell about, as data that the steps hand on; it asks no git."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, with the files that it changed."""

    hash: str
    short: str
    date: str
    author: str
    subject: str
    body: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class History:
    """What is told about: the commits up to `head`, newest first, and what is not among them."""

    repository: str
    head: str
    since: str | None
    forge: str | None
    shallow: bool
    left_out: int
    commits: tuple[Commit, ...]

    def dump(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self), indent=1)


def load_history(text: str) -> History:
    """Return what `dump` wrote."""
    told = json.loads(text)
    commits = (Commit(**{**one, "files": tuple(one["files"])}) for one in told.pop("commits"))
    return History(**told, commits=tuple(commits))
