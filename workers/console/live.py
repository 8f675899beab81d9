"""Renews what people look at: the store is looked at once a second for all who see the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from fastapi import Request

from interlock.workers.client import Client
from interlock.workers.engine.kept import Kept

Value = TypeVar("Value")
LOOKS_MAX = 500  # values that are kept: those asked for longest ago are dropped
RENEWS = "HX-Request"  # the header of a page that renews a part of itself


class Looks(Generic[Value]):
    """Values by key. Each is read anew when it is older than a second. Safe in threads."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Kept[Value]] = {}
        self._lock = Lock()

    def value(self, key: Hashable, read: Callable[[], Value]) -> Value:
        """Return the value of a key. Raises what reading it raises."""
        with self._lock:
            kept = self._kept.pop(key, None) or Kept(read)
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
    if not is_renewal(request):
        return read()
    key = (what, request.url.path, request.url.query, tuple(client.machines), by)
    looks: Looks[Value] = request.app.state.looks
    return looks.value(key, read)
