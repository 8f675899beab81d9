"""Which sessions an abort ends, on every small tree, against rules written as facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, product

import pytest

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.reason import AbortReason
from interlock.systems.tasks.machines.abort import CONTAINED, AbortPolicy, AbortScope, aborts

SIBLING, PARENT = AbortReason.SIBLING_ABORTED, AbortReason.PARENT_ABORTED
POLICIES = [AbortPolicy(tool, sibling) for tool, sibling in product((False, True), repeat=2)]
FORESTS = {1: 1, 2: 3, 3: 16, 4: 125, 5: 1_296}  # labelled rooted forests: (n + 1) ** (n - 1)

# grandparent g, parent p, its children a b c, their children, and a second root
FAMILY = {
    "g": None,
    "p": "g",
    "uncle": "g",
    "a": "p",
    "b": "p",
    "c": "p",
    "a1": "a",
    "b1": "b",
    "b11": "b1",
    "stranger": None,
}


@pytest.fixture
def sizes(*, is_proof: bool) -> range:
    """Return how many sessions the small trees have.

    A rule is about at most four: the session, its parent, a sibling and a child of that.
    """
    return range(1, 6 if is_proof else 5)


def maps(size: int) -> Iterator[Mapping[str, str | None]]:
    """Yield every way of giving each of `size` sessions a parent among them, or none."""
    names = "abcde"[:size]
    for parents in product((None, *names), repeat=size):
        yield dict(zip(names, parents, strict=True))


def ancestry(tree: Mapping[str, str | None]) -> set[tuple[str, str]]:
    """Return every pair (session, ancestor): the closure of the parents, as a relation."""
    pairs = {(child, parent) for child, parent in tree.items() if parent is not None}
    while more := {(x, z) for x, y in pairs for y2, z in pairs if y == y2} - pairs:
        pairs |= more
    return pairs


@cache
def small_maps(size: int) -> Sequence[tuple[Mapping[str, str | None], set[tuple[str, str]], bool]]:
    """Return each of these maps with its ancestry, and whether it has a cycle."""
    found = [(tree, ancestry(tree)) for tree in maps(size)]
    return [(tree, above, any(one == other for one, other in above)) for tree, above in found]


def oracle(
    tree: Mapping[str, str | None],
    above: set[tuple[str, str]],
    session: str,
    scope: AbortScope,
    policy: AbortPolicy,
) -> dict[str, AbortReason]:
    """Decide for each session by itself whether it ends, and with which reason."""
    parent = tree.get(session)
    widened = scope is AbortScope.SIBLING or (scope is AbortScope.TOOL and policy.tool_to_sibling)
    torn_down = parent is not None and widened and policy.sibling_to_session

    def is_sibling(one: str | None) -> bool:
        return one is not None and parent is not None and one != session and tree[one] == parent

    def reason(one: str) -> AbortReason | None:
        if scope is AbortScope.SESSION:
            return PARENT if (one, session) in above else None
        if not widened:
            return None
        if is_sibling(one) or (torn_down and one == parent):
            return SIBLING
        under_a_sibling = any(is_sibling(up) for down, up in above if down == one)
        if under_a_sibling or (torn_down and (one, parent) in above):
            return PARENT
        return None

    return {one: why for one in tree if (why := reason(one)) is not None}


@pytest.mark.fuzz
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_an_abort_ends_the_sessions_of_the_oracle_on_every_small_tree(
    policy: AbortPolicy, sizes: range
) -> None:
    seen = dict.fromkeys(sizes, 0)
    for tree, above, has_cycle in chain.from_iterable(map(small_maps, sizes)):
        if has_cycle:
            continue
        seen[len(tree)] += 1
        for session, scope in product(tree, AbortScope):
            ended = aborts(tree, session=session, scope=scope, policy=policy)
            assert ended == oracle(tree, above, session, scope, policy)
            order = list(ended)
            assert all(
                order.index(one) > order.index(tree[one] or "")
                for one in order
                if tree[one] in ended
            ), "a parent ends before its children"

    assert seen == {size: FORESTS[size] for size in sizes}


@pytest.mark.fuzz
def test_every_small_map_with_a_cycle_is_refused(sizes: range) -> None:
    refused = dict.fromkeys(sizes, 0)
    for tree, _, has_cycle in chain.from_iterable(map(small_maps, sizes)):
        if has_cycle:
            refused[len(tree)] += 1
            with pytest.raises(InvalidPayloadError, match="is a cycle"):
                aborts(tree, session="nobody", scope=AbortScope.TOOL)

    assert refused == {size: (size + 1) ** size - FORESTS[size] for size in sizes}


def test_a_cycle_is_shown_without_the_way_into_it() -> None:
    with pytest.raises(InvalidPayloadError, match="invalid: b under c under b is a cycle"):
        aborts({"a": "b", "b": "c", "c": "b"}, session="a", scope=AbortScope.SESSION)
    with pytest.raises(InvalidPayloadError, match="invalid: a under a is a cycle"):
        aborts({"a": "a"}, session="a", scope=AbortScope.SESSION)


def test_the_default_contains_an_abort_at_its_level() -> None:
    assert AbortPolicy(tool_to_sibling=False, sibling_to_session=False) == CONTAINED
    assert aborts(FAMILY, session="a", scope=AbortScope.TOOL) == {}
    assert "p" not in aborts(FAMILY, session="a", scope=AbortScope.SIBLING)


def test_an_abort_of_a_tool_escalates_only_as_far_as_the_policy_allows() -> None:
    both = AbortPolicy(tool_to_sibling=True, sibling_to_session=True)
    unopened = AbortPolicy(sibling_to_session=True)
    tool = partial(aborts, FAMILY, session="a", scope=AbortScope.TOOL)

    assert tool(policy=unopened) == {}
    assert tool(policy=AbortPolicy(tool_to_sibling=True)) == {
        "b": SIBLING,
        "c": SIBLING,
        "b1": PARENT,
        "b11": PARENT,
    }
    assert tool(policy=both) == aborts(FAMILY, session="a", scope=AbortScope.SIBLING, policy=both)


def test_an_abort_of_siblings_spares_the_session_its_parent_and_its_children() -> None:
    ended = aborts(FAMILY, session="a", scope=AbortScope.SIBLING)

    assert list(ended.items()) == [
        ("b", SIBLING),
        ("c", SIBLING),
        ("b1", PARENT),
        ("b11", PARENT),
    ]


def test_an_abort_of_siblings_that_escalates_ends_the_parents_session() -> None:
    policy = AbortPolicy(sibling_to_session=True)
    ended = aborts(FAMILY, session="a", scope=AbortScope.SIBLING, policy=policy)

    assert list(ended.items()) == [
        ("p", SIBLING),
        ("a", PARENT),
        ("b", SIBLING),
        ("c", SIBLING),
        ("a1", PARENT),
        ("b1", PARENT),
        ("b11", PARENT),
    ]


def test_an_only_child_that_escalates_ends_the_parents_session_too() -> None:
    policy = AbortPolicy(sibling_to_session=True)

    assert aborts({"a": "p"}, session="a", scope=AbortScope.SIBLING, policy=policy) == {
        "p": SIBLING,
        "a": PARENT,
    }


def test_an_abort_of_a_session_ends_all_sessions_below_it_and_no_other() -> None:
    ended = aborts(FAMILY, session="p", scope=AbortScope.SESSION)

    assert list(ended) == ["a", "b", "c", "a1", "b1", "b11"]
    assert set(ended.values()) == {PARENT}


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_roots_are_no_siblings(policy: AbortPolicy) -> None:
    assert aborts(FAMILY, session="g", scope=AbortScope.SIBLING, policy=policy) == {}


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("scope", AbortScope)
def test_an_abort_of_an_unknown_session_ends_no_other(
    scope: AbortScope, policy: AbortPolicy
) -> None:
    assert aborts(FAMILY, session="nobody", scope=scope, policy=policy) == {}
    assert aborts({}, session="nobody", scope=scope, policy=policy) == {}


def test_a_session_that_appears_only_as_a_parent_is_a_root() -> None:
    edges = {"a": "p", "b": "p"}
    policy = AbortPolicy(sibling_to_session=True)

    assert aborts(edges, session="p", scope=AbortScope.SESSION) == {"a": PARENT, "b": PARENT}
    assert aborts(edges, session="a", scope=AbortScope.SIBLING) == {"b": SIBLING}
    assert "p" in aborts(edges, session="a", scope=AbortScope.SIBLING, policy=policy)


def test_siblings_end_in_the_order_of_the_tree() -> None:
    tree = {"z": "p", "m": "p", "a": "p", "q": "p"}

    assert list(aborts(tree, session="m", scope=AbortScope.SIBLING)) == ["z", "a", "q"]


def test_an_abort_reaches_the_end_of_a_long_chain() -> None:
    # If the way to the root were walked from every session, this would not end within the limit
    # of a test.
    line = {str(n): str(n - 1) for n in range(1, 100_001)}

    assert len(aborts(line, session="0", scope=AbortScope.SESSION)) == 100_000
