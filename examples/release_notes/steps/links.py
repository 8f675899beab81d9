"""Checks every link of a document against its headings, the tree and the commits, offline.

A fault is a sentence. One about an anchor names the right anchor, so that a draft can be corrected.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from urllib.parse import unquote

from document import Document, parse, slug
from repository import GitError, Repository

ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
COMMIT = re.compile(r"https?://.*/commit/([0-9a-f]{7,64})")
HASH = re.compile(r"[0-9a-f]{7,64}")
WRONG_ANCHOR = re.compile(r"the link (#\S+) leads to no heading; the nearest is (#[\w-]+)")


@dataclass(frozen=True, slots=True)
class LinkRoot:
    """The root to which a document's links are relative: the tree of one commit."""

    repository: Repository
    head: str
    paths: Collection[str]

    @classmethod
    def at(cls, repository: Repository, head: str) -> LinkRoot:
        """Return the root of a commit, with the paths of its tree."""
        return cls(repository, head, repository.paths(head))


def faults(document: Document, root: LinkRoot) -> list[str]:
    """Return a sentence for every link that leads nowhere."""
    found = [*anchor_faults(document), *_path_faults(document, root)]
    return [*found, *_commit_faults(document, root.repository)]


def anchor_faults(document: Document) -> list[str]:
    """Return a sentence for every link within the document that leads to no heading."""
    anchors = document.anchors()
    problems = []
    for link in document.links:
        target = unquote(link.text)
        if not target.startswith("#") or target[1:] in anchors:
            continue
        near = get_close_matches(slug(target[1:]), anchors, n=1)
        hint = f"; the nearest is #{near[0]}" if near else ""
        problems.append(f"line {link.number}: the link {target} leads to no heading{hint}")
    return problems


def with_correct_anchors(text: str, reasons: Iterable[str]) -> str:
    """Return a document with the anchors that the reasons name instead of the wrong ones."""
    for reason in reasons:
        for wrong, right in WRONG_ANCHOR.findall(reason):
            text = text.replace(f"]({wrong})", f"]({right})")
    return text


def _path_faults(document: Document, root: LinkRoot) -> Iterator[str]:
    for link in document.links:
        if ELSEWHERE.match(link.text) or link.text.startswith("#"):
            continue
        path, _, anchor = unquote(link.text).partition("#")
        if path.rstrip("/") not in root.paths:
            yield f"line {link.number}: the link {link.text} leads to nothing in the repository"
        elif anchor and not _has_anchor(root, path, anchor):
            yield f"line {link.number}: {path} has no heading for #{anchor}"


def _has_anchor(root: LinkRoot, path: str, anchor: str) -> bool:
    try:
        return anchor in parse(root.repository.text(root.head, path)).anchors()
    except GitError:
        return False


def _commit_faults(document: Document, repository: Repository) -> Iterator[str]:
    linked = [
        (link.number, found[1]) for link in document.links if (found := COMMIT.fullmatch(link.text))
    ]
    named = [(code.number, code.text) for code in document.code if HASH.fullmatch(code.text)]
    known = {commit: repository.has(commit) for commit in {text for _, text in linked + named}}
    for number, commit in sorted({*linked, *named}):
        if not known[commit]:
            yield f"line {number}: there is no commit {commit}"
