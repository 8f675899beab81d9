"""Renews what people look at: the store is looked at once a second for all who see the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from fastapi import Request

from interlock.workers.client import Client
from interlock.workers.engine.kept import Kept

Value = TypeVar("Value")
KEPT_S = 1.0
# Values that take long to read: one that is younger than SLOW_BEHIND_S is returned at once, and one
# that is older than SLOW_KEPT_S is then read anew in the background.
SLOW_KEPT_S, SLOW_BEHIND_S = 5.0, 20.0
LOOKS_MAX = 500  # values that are kept: those asked for longest ago are dropped
RENEWS = "HX-Request"  # the header of a page that renews a part of itself


class Looks(Generic[Value]):
    """Values by key. Each is read anew when it is older than KEPT_S. Safe in threads."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Kept[Value]] = {}
        self._lock = Lock()

    def value(self, key: Hashable, read: Callable[[], Value], *, is_slow: bool = False) -> Value:
        """Return the value of a key. One that `is_slow` to read may be up to SLOW_BEHIND_S old.

        Raises what reading it raises.
        """
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is None and is_slow:
                kept = Kept(read, SLOW_KEPT_S, behind_s=SLOW_BEHIND_S)
            kept = kept or Kept(read, KEPT_S)
            self._kept[key] = kept
            while len(self._kept) > LOOKS_MAX:
                del self._kept[next(iter(self._kept))]
        return kept.value()


def is_renewal(request: Request) -> bool:
    """Whether a page that is open renews a part of itself. Acts never are, whatever they claim."""
    return request.method == "GET" and RENEWS in request.headers


def looked_up(
    request: Request, client: Client, read: Callable[[], Value], *, what: str = "", by: str = ""
) -> Value:
    """Return what `read` returns, which depends on the address and on the viewer's machines only.

    A page that renews itself gets what was read for anybody within the last second, at the same
    address with the same query. A page that a person opens is read anew: so it has what that person
    has just done. `what` tells several values of one page apart; `by` is the viewer's name, where
    the value depends on it.
    """
    return _kept(request, client, read, what, by) if is_renewal(request) else read()


def looked_up_slowly(
    request: Request, client: Client, read: Callable[[], Value], *, what: str
) -> Value:
    """Return what `read` returns, for a page that is opened too, as it was up to SLOW_BEHIND_S ago.

    It is for what takes long to read and seldom changes.
    """
    return _kept(request, client, read, what, "", is_slow=True)


def _kept(
    request: Request,
    client: Client,
    read: Callable[[], Value],
    *names: str,
    is_slow: bool = False,
) -> Value:
    key = (*names, request.url.path, request.url.query, tuple(client.machines))
    looks: Looks[Value] = request.app.state.looks
    return looks.value(key, read, is_slow=is_slow)
