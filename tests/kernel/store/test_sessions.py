"""Sessions of browsers: found by a digest of their secret until they end."""

from __future__ import annotations

import pytest
import redis

from interlock.kernel.errors import TokenRefusedError
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.sessions import Sessions, Shown
from tests.waiting import until

ANN, BOB = Shown("owner", "aa"), Shown("0123456789ab", "bb")
DAY_MS = 86_400_000


@pytest.fixture
def sessions(client: redis.Redis, prefix: str) -> Sessions:
    return Sessions(client, Keys(prefix))


def is_valid(sessions: Sessions, digest: str) -> bool:
    try:
        sessions.find(digest)
    except TokenRefusedError:
        return False
    return True


def test_a_session_is_of_the_token_that_began_it_until_it_is_ended(sessions: Sessions) -> None:
    sessions.keep("d1", ANN, DAY_MS)
    sessions.keep("d2", BOB, DAY_MS)

    assert (sessions.find("d1"), sessions.find("d2")) == (ANN, BOB)
    assert (sessions.count_ended(), sessions.end("d1"), sessions.count_ended()) == (0, ANN, 1)
    for again in (sessions.find, sessions.end):
        with pytest.raises(TokenRefusedError, match="this session has ended"):
            again("d1")
    assert (sessions.find("d2"), sessions.count_ended()) == (BOB, 1)


def test_a_session_ends_with_its_time_and_is_forgotten_when_another_begins(
    sessions: Sessions, client: redis.Redis, prefix: str
) -> None:
    sessions.keep("long", ANN, DAY_MS)
    sessions.keep("short", ANN, 1)

    until(lambda: not is_valid(sessions, "short"), what="its time is over")
    assert is_valid(sessions, "long")
    with pytest.raises(TokenRefusedError):
        sessions.end("short")
    assert client.hlen(Keys(prefix).sessions()) == 2
    sessions.keep("new", BOB, DAY_MS)
    assert {*client.hkeys(Keys(prefix).sessions())} == {b"long", b"new"}


@pytest.mark.parametrize("damaged", ["", "x", "99999999999999 owner", "x owner aa", "9 9 owner aa"])
def test_a_session_that_is_damaged_in_the_store_is_refused(
    sessions: Sessions, client: redis.Redis, prefix: str, damaged: str
) -> None:
    client.hset(Keys(prefix).sessions(), "d", damaged)

    assert not is_valid(sessions, "d")
    sessions.keep("other", ANN, DAY_MS)
    assert is_valid(sessions, "other")
