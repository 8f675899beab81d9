"""What the store keeps of people: access tokens, sessions, saved views, acts, the key of links."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.kernel.errors import CallError, TokenRefusedError
from interlock.kernel.event import Cause
from interlock.kernel.store import people
from interlock.kernel.store.people import (
    USE_PERIOD_MS,
    AccessToken,
    AccessTokens,
    PersonActs,
    SavedView,
    SavedViews,
    Sessions,
    Shown,
    link_key,
)
from tests.kernel.store.kernel_at_a_fixed_time import World

ANN, BOB = Shown("owner", "aa"), Shown("0123456789ab", "bb")
DAY_MS = 86_400_000


def is_valid(sessions: Sessions, digest: str) -> bool:
    try:
        sessions.find(digest)
    except TokenRefusedError:
        return False
    return True


def keep(tokens: AccessTokens, token_id: str, *, lifetime_ms: int = 0) -> AccessToken:
    return tokens.keep(
        token_id,
        "aa",
        holder=f"holder of {token_id}",
        roles=["reader", "editor"],
        machines=["refund"],
        made_by="owner",
        lifetime_ms=lifetime_ms,
    )


def refusal(tokens: AccessTokens, token_id: str, digest: str = "aa") -> str:
    with pytest.raises(TokenRefusedError) as refused:
        tokens.find(token_id, digest)
    return str(refused.value).rpartition(" ")[2]


def test_a_token_is_found_by_the_digest_of_its_secret_until_its_time_is_over(world: World) -> None:
    tokens = AccessTokens(world.client, world.keys)
    short, endless = keep(tokens, "short", lifetime_ms=DAY_MS), keep(tokens, "endless")
    with pytest.raises(CallError, match="there is an access token 'short' already"):
        keep(tokens, "short")

    assert (short.created_ms, short.expires_ms) == (world.now, world.now + DAY_MS)
    assert endless.expires_ms == 0
    assert refusal(tokens, "other") == refusal(tokens, "short", "bb") == "unknown"
    world.later(DAY_MS - 1)
    assert (tokens.find("short", "aa"), tokens.find("endless", "aa")) == (short, endless)
    world.later(1)
    assert (refusal(tokens, "short"), tokens.find("endless", "aa")) == ("expired", endless)


def test_a_revoked_token_is_refused_for_good(world: World) -> None:
    tokens = AccessTokens(world.client, world.keys)
    first, second = keep(tokens, "first"), keep(tokens, "second")
    with pytest.raises(CallError, match="there is no access token 'third'"):
        tokens.revoke("third", "ann")
    tokens.revoke("first", "ann")
    world.later(5)
    tokens.revoke("first", "bob")

    assert (refusal(tokens, "first"), tokens.find("second", "aa")) == ("revoked", second)
    assert (tokens.count_revoked(), tokens.revoked_of(["first", "second"])) == (1, {"first"})
    revoked = replace(first, revoked_ms=world.now - 5, revoked_by="ann")
    assert tokens.all() == [revoked, replace(second, used_ms=world.now)]


def test_the_last_use_of_a_token_is_noted_once_in_a_period(world: World) -> None:
    tokens = AccessTokens(world.client, world.keys)
    began = keep(tokens, "one").created_ms
    for later_ms, noted_ms in ((0, 0), (USE_PERIOD_MS - 1, 0), (1, USE_PERIOD_MS)):
        world.later(later_ms)
        tokens.find("one", "aa")
        assert tokens.all()[0].used_ms == began + noted_ms


def test_a_session_is_of_the_token_that_began_it_until_it_is_ended(world: World) -> None:
    sessions = Sessions(world.client, world.keys)
    sessions.keep("d1", ANN, DAY_MS)
    sessions.keep("d2", BOB, DAY_MS)

    assert (sessions.find("d1"), sessions.find("d2")) == (ANN, BOB)
    assert (sessions.count_ended(), sessions.end("d1"), sessions.count_ended()) == (0, ANN, 1)
    for again in (sessions.find, sessions.end):
        with pytest.raises(TokenRefusedError, match="this session has ended"):
            again("d1")
    assert (sessions.find("d2"), sessions.count_ended()) == (BOB, 1)


def test_a_session_ends_with_its_time_and_is_forgotten_when_another_begins(world: World) -> None:
    sessions, key = Sessions(world.client, world.keys), world.keys.sessions()
    sessions.keep("long", ANN, DAY_MS)
    sessions.keep("short", ANN, 1_000)

    world.later(999)
    assert is_valid(sessions, "short")
    world.later(1)
    assert (is_valid(sessions, "short"), is_valid(sessions, "long")) == (False, True)
    with pytest.raises(TokenRefusedError):
        sessions.end("short")
    assert world.client.hlen(key) == 2
    sessions.keep("new", BOB, DAY_MS)
    assert {*world.client.hkeys(key)} == {b"long", b"new"}


@pytest.mark.parametrize("damaged", ["", "x", "99999999999999 owner", "x owner aa", "9 9 owner aa"])
def test_a_session_that_is_damaged_in_the_store_is_refused(world: World, damaged: str) -> None:
    sessions = Sessions(world.client, world.keys)
    world.client.hset(world.keys.sessions(), "d", damaged)

    assert not is_valid(sessions, "d")
    sessions.keep("other", ANN, DAY_MS)
    assert is_valid(sessions, "other")


def test_a_saved_view_takes_the_place_of_one_of_its_name(world: World) -> None:
    views = SavedViews(world.client, world.keys)
    late, mine = SavedView("late", "/records?late", "ann"), SavedView("Mine", "/records", "ann")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "VIEWS_MAX", 2)
        for view in (mine, late, replace(late, saved_by="bob")):
            views.keep(view)
        with pytest.raises(CallError, match="there are 2 saved views"):
            views.keep(replace(late, name="another"))
    assert views.all() == [replace(late, saved_by="bob"), mine]

    views.drop("late")
    with pytest.raises(CallError, match="there is no saved view 'late'"):
        views.drop("late")
    assert views.all() == [mine]


def test_the_acts_of_people_are_listed_and_about_the_newest_are_kept(world: World) -> None:
    acts = PersonActs(world.client, world.keys)
    acts.add("r", "approve", Cause("nobody"))
    cause = Cause("ann", "it is right", ("as:editor", "as:owner"))
    for number in range(250):
        acts.add(f"r{number}", "approve", cause)
    listed = acts.latest(1_000)

    assert len(listed) == 250
    newest = listed[0]
    assert (newest.record_id, newest.what, newest.by) == ("r249", "approve", "ann")
    assert (newest.roles, newest.reason) == ("editor, owner", "it is right")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "ACTS_KEPT_MIN", 110)
        acts.add("last", "pause", cause)
    assert 110 <= len(acts.latest(1_000)) < 250


def test_all_processes_sign_links_with_the_key_that_the_first_has_made(world: World) -> None:
    first, second = (link_key(world.client, world.keys) for _ in range(2))

    assert len(first) == people.KEY_BYTES
    assert first == second
    assert world.client.get(world.keys.link_key()) == first.hex().encode()
