"""Who must hear of an abort, and as what; it tells nobody and aborts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import assert_never

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.reason import AbortReason

# Each session and its parent. One that appears only as a parent is a root, like one under None.
Tree = Mapping[str, str | None]
Children = Mapping[str, list[str]]


class AbortScope(StrEnum):
    """What was aborted, and so how far the news goes."""

    TOOL = auto()
    SIBLING = auto()
    SESSION = auto()


@dataclass(frozen=True, slots=True)
class AbortPolicy:
    """Whether a scope escalates into the next; the published default is that none does."""

    tool_to_sibling: bool = False
    sibling_to_session: bool = False


CONTAINED = AbortPolicy()


def told(
    tree: Tree, *, session: str, scope: AbortScope, policy: AbortPolicy = CONTAINED
) -> Mapping[str, AbortReason]:
    """Return who must hear of an abort that began in `session`, every parent before its children.

    Children keep the order of the tree. A session that the tree lacks has nobody to tell. Raises
    InvalidPayloadError for a tree in which a session is its own ancestor.
    """
    _refuse_cycles(tree)
    children = _children(tree)
    match scope:
        case AbortScope.TOOL:
            return _beside(tree, children, session, policy) if policy.tool_to_sibling else {}
        case AbortScope.SIBLING:
            return _beside(tree, children, session, policy)
        case AbortScope.SESSION:
            # The originator ends for a reason of its own.
            return dict.fromkeys(_below([session], children), AbortReason.PARENT_ABORTED)
        case _:
            assert_never(scope)


def _beside(
    tree: Tree, children: Children, session: str, policy: AbortPolicy
) -> Mapping[str, AbortReason]:
    parent = tree.get(session)
    if parent is None:
        # Roots are strangers to each other, not siblings.
        return {}
    siblings = [child for child in children[parent] if child != session]
    as_siblings = dict.fromkeys(siblings, AbortReason.SIBLING_ABORTED)
    if not policy.sibling_to_session:
        # A sibling that is told ends as a session, so what it started ends with it.
        below = dict.fromkeys(_below(siblings, children), AbortReason.PARENT_ABORTED)
        return as_siblings | below
    # The session that is torn down is the parent's, so the parent hears of it too, and so does the
    # originator, now as a child; otherwise the parent would go on, alone and unaware.
    below = dict.fromkeys(_below([parent], children), AbortReason.PARENT_ABORTED)
    return {parent: AbortReason.SIBLING_ABORTED, **below, **as_siblings}


def _children(tree: Tree) -> Children:
    children: dict[str, list[str]] = {}
    for child, parent in tree.items():
        if parent is not None:
            children.setdefault(parent, []).append(child)
    return children


def _below(sessions: Iterable[str], children: Children) -> Iterator[str]:
    level = list(sessions)
    while level:
        level = [child for parent in level for child in children.get(parent, ())]
        yield from level


def _refuse_cycles(tree: Tree) -> None:
    ended: set[str] = set()  # from here a root is reached
    for start in tree:
        path: dict[str, None] = {}
        session: str | None = start
        while session is not None and session not in ended:
            if session in path:
                line = [*path][[*path].index(session) :]
                shown = " under ".join([*line, session])
                raise InvalidPayloadError("the tree of sessions", [f"{shown} is a cycle"])
            path[session] = None
            session = tree.get(session)
        ended.update(path)
