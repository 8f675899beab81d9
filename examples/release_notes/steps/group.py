"""Step: sort the commits by kind and area into `groups.json`, each commit once.

A conventional prefix ("fix: ...") decides the kind, else the names of the files, else the subject.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from entry import ROOT_AREA, Entry, Groups, Kind, dump_groups
from history import Commit, load_history
from job import Brief, Reply, perform
from prose import counted

PREFIX = re.compile(r"(?P<type>[a-z]+)(?:\([^)]*\))?!?: +(?=\S)", re.IGNORECASE)
OF_TYPE = {
    "feat": Kind.FEATURES,
    "feature": Kind.FEATURES,
    "perf": Kind.FEATURES,
    "fix": Kind.FIXES,
    "bugfix": Kind.FIXES,
    "docs": Kind.DOCS,
    "doc": Kind.DOCS,
    **dict.fromkeys(("build", "chore", "ci", "refactor", "style", "test"), Kind.INTERNALS),
}
FIXING = re.compile(
    r"(?:fix|mend|repair|correct|resolve|prevent|avoid|settle|bound)(?:e?[sd]|ing)?\b"
    r"|.*\b(?:bugs?|regressions?|deadlocks?|leaks?|no longer|instead of)\b",
    re.IGNORECASE,
)
INNER = re.compile(
    r"(?:fixup|squash)!"
    r"|(?:test|move|rename|refactor|reformat|format|share|split|extract|tidy|bump)(?:e?[sd]|ing)?\b"
    r"|.*\b(?:tests?|test suite|the suite)\b",
    re.IGNORECASE,
)
DOCUMENT = re.compile(r"(?:docs?|documentation)/|.*\.(?:md|rst|adoc)$|(?:LICEN[CS]E|AUTHORS)\b")
BUILT = re.compile(
    r"(?:.*/)?(?:tests?|testing|spec|bench|benchmarks|requirements)/"
    r"|\.|(?:.*/)?(?:Makefile|Dockerfile|setup\.(?:py|cfg)|pyproject\.toml|package\.json)$"
    r"|.*(?:\.lock|-lock\.json|[._-]test\.\w+|/conftest\.py|test_[^/]*\.py)$"
)
REVERTS = re.compile(r"This reverts commit ([0-9a-f]{7,64})")
SOURCE_FOLDERS = frozenset({"src", "lib", "packages", "crates", "pkg", "cmd", "apps"})


def group(brief: Brief) -> Reply:
    """Write the groups of all commits."""
    history = load_history(brief.given("collect", "history.json"))
    groups = sort(history.commits)
    file = brief.hand_in("groups.json", dump_groups(groups))
    kinds = ", ".join(f"{len(entries)} {kind}" for kind, entries in groups.items())
    commits = counted(len(history.commits), "commit")
    return Reply(f"{kinds}; from {commits}", evidence_files=(file,))


def sort(commits: Iterable[Commit]) -> Groups:
    """Return the entries of each kind; those with one subject are one entry."""
    found: dict[tuple[Kind, str], Entry] = {}
    for commit, kind, subject, reverted in with_reverts(tuple(commits)):
        key = (kind, subject.casefold())
        entry = Entry(
            subject=subject,
            body=commit.body if reverted is None else "",
            area=area(commit.files, kind),
            commits=(commit.short, *([reverted.short] if reverted else [])),
            files=len(commit.files),
        )
        found[key] = joined(found[key], entry) if key in found else entry
    return {
        kind: [entry for (its_kind, _), entry in found.items() if its_kind is kind] for kind in Kind
    }


def with_reverts(
    commits: tuple[Commit, ...],
) -> Iterable[tuple[Commit, Kind, str, Commit | None]]:
    """Return each commit with its kind and subject; one that was reverted comes with its revert."""
    paired: set[str] = set()
    for commit in commits:
        if commit.hash in paired:
            continue
        undone = reverted_commit(commit, commits)
        if undone and undone.hash not in paired:
            paired.add(undone.hash)
            yield commit, Kind.INTERNALS, f"Made and taken back: {undone.subject}", undone
        else:
            yield commit, kind_of(commit), plain_subject(commit.subject), None


def reverted_commit(commit: Commit, commits: tuple[Commit, ...]) -> Commit | None:
    """Return the commit of the history that this one reverts."""
    named = REVERTS.search(commit.body)
    if not named:
        return None
    return next((other for other in commits if other.hash.startswith(named[1])), None)


def joined(newer: Entry, older: Entry) -> Entry:
    """Return one entry for two of the same subject."""
    return Entry(
        subject=newer.subject,
        body=newer.body or older.body,
        area=newer.area,
        commits=newer.commits + older.commits,
        files=newer.files + older.files,
    )


def kind_of(commit: Commit) -> Kind:
    """Return the kind of a commit for a reader of release notes."""
    prefix = PREFIX.match(commit.subject)
    if prefix and (kind := OF_TYPE.get(prefix["type"].lower())):
        return kind
    documents = sum(bool(DOCUMENT.match(name)) for name in commit.files)
    built = sum(bool(BUILT.match(name)) for name in commit.files if not DOCUMENT.match(name))
    if commit.files and documents + built == len(commit.files):
        return Kind.DOCS if documents >= built else Kind.INTERNALS
    if FIXING.match(commit.subject):
        return Kind.FIXES
    if INNER.match(commit.subject):
        return Kind.INTERNALS
    return Kind.FEATURES


def plain_subject(subject: str) -> str:
    """Return a subject without a conventional prefix and a full stop, beginning with a capital."""
    prefix = PREFIX.match(subject)
    if prefix and prefix["type"].lower() in OF_TYPE:
        subject = subject[prefix.end() :]
    subject = subject.removesuffix(".").strip()
    return subject[:1].upper() + subject[1:] or "No subject"


def area(files: Iterable[str], kind: Kind) -> str:
    """Return the folder that most files are in; tests and documents count little beside others."""
    weights: Counter[str] = Counter()
    for name in files:
        beside = bool(DOCUMENT.match(name) or BUILT.match(name))
        weights[folder(name)] += 1 if beside or kind is Kind.INTERNALS else 1000
    return min(weights, key=lambda path: (-weights[path], path), default=ROOT_AREA)


def folder(name: str) -> str:
    """Return the folder below the root that a file is in, one deeper for `src` and its like."""
    parts = name.split("/")[:-1]
    deep = 2 if parts[:1] and parts[0] in SOURCE_FOLDERS else 1
    return "/".join(parts[:deep]) or ROOT_AREA


if __name__ == "__main__":
    perform(group)
