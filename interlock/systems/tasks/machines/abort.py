"""Decides which other sessions end when one is aborted, each with its reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import assert_never

from interlock.system.errors import InvalidPayloadError
from interlock.system.tables import AbortReason, Dependencies

# Each session and its parent. A session whose parent is None, or which is only a parent, is a root.
Tree = Mapping[str, str | None]
Children = Mapping[str, list[str]]


class AbortScope(StrEnum):
    """The scope in which an abort begins; it decides how far the abort goes."""

    TOOL = auto()
    SIBLING = auto()
    SESSION = auto()


@dataclass(frozen=True, slots=True)
class AbortPolicy:
    """Whether an abort in one scope escalates to the next scope; by default it does not."""

    tool_to_sibling: bool = False
    sibling_to_session: bool = False


CONTAINED = AbortPolicy()


def aborts(
    tree: Tree, *, session: str, scope: AbortScope, policy: AbortPolicy = CONTAINED
) -> Mapping[str, AbortReason]:
    """Return the sessions that end by an abort of `session`, every parent before its children.

    Children keep the order of the tree. An abort of a session that the tree lacks ends no other.
    Raises InvalidPayloadError for a tree in which a session is its own ancestor.
    """
    _refuse_cycles(tree)
    children = _children(tree)
    match scope:
        case AbortScope.TOOL:
            return _beside(tree, children, session, policy) if policy.tool_to_sibling else {}
        case AbortScope.SIBLING:
            return _beside(tree, children, session, policy)
        case AbortScope.SESSION:
            # The aborted session itself is not among them: it ends with its own reason.
            return dict.fromkeys(_below([session], children), AbortReason.PARENT_ABORTED)
        case _:
            assert_never(scope)


def _beside(
    tree: Tree, children: Children, session: str, policy: AbortPolicy
) -> Mapping[str, AbortReason]:
    parent = tree.get(session)
    if parent is None:
        # Two roots are not siblings.
        return {}
    siblings = [child for child in children[parent] if child != session]
    as_siblings = dict.fromkeys(siblings, AbortReason.SIBLING_ABORTED)
    if not policy.sibling_to_session:
        # A sibling ends as a session does, so the sessions that it started end with it.
        below = dict.fromkeys(_below(siblings, children), AbortReason.PARENT_ABORTED)
        return as_siblings | below
    # The parent ends and all sessions below it, also the session in which the abort began.
    # Otherwise that session would be lost, and the parent would continue without it.
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
    parents = {child: () if parent is None else (parent,) for child, parent in tree.items()}
    cycles = [f"{' under '.join(cycle)} is a cycle" for cycle in Dependencies(parents).cycles()]
    if cycles:
        raise InvalidPayloadError("the tree of sessions", cycles)
