"""The commits of a release, as data that the steps pass on."""

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
    """The commits up to `head`, newest first, and how many older ones are left out."""

    repository: str
    head: str
    since: str | None
    forge: str | None
    shallow: bool
    left_out: int
    commits: tuple[Commit, ...]

    def dump(self) -> str:
        """Return the history as JSON."""
        return json.dumps(asdict(self), indent=1)


def load_history(text: str) -> History:
    """Return the history that `dump` wrote."""
    fields = json.loads(text)
    commits = (Commit(**{**item, "files": tuple(item["files"])}) for item in fields.pop("commits"))
    return History(**fields, commits=tuple(commits))
