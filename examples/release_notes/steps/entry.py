"""An entry of the release notes before it is written, with the commits that it is from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

ROOT_AREA = "."


class Kind(StrEnum):
    """The kinds of changes, in the order in which the release notes list them."""

    FEATURES = "features"
    FIXES = "fixes"
    DOCS = "docs"
    INTERNALS = "internals"


@dataclass(frozen=True, slots=True)
class Entry:
    """One change: `commits` are short hashes, `files` counts what they changed together."""

    subject: str
    body: str
    area: str
    commits: tuple[str, ...]
    files: int


Groups = dict[Kind, list[Entry]]


def dump_groups(groups: Groups) -> str:
    """Return the groups as JSON."""
    fields = {kind: [asdict(entry) for entry in entries] for kind, entries in groups.items()}
    return json.dumps(fields, indent=1)


def load_groups(text: str) -> Groups:
    """Return the groups that `dump_groups` wrote."""
    return {
        Kind(kind): [Entry(**{**fields, "commits": tuple(fields["commits"])}) for fields in entries]
        for kind, entries in json.loads(text).items()
    }
