"""Refuses calls at once while so many are at work that the answers would take seconds."""

from __future__ import annotations

from collections import Counter

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.workers.api.problems import BUSY, TOO_MANY_AT_ONCE, answer

# One process makes its answers one after another, some dozens a second where each is long: a call
# that finds this many before it is answered within about a second.
AT_ONCE_OF_ONE = 12
AT_ONCE_OF_ALL = 48
WHO = ("authorization", "cookie", "x-interlock-actor")


class LoadLimit:
    """Bounds how many calls are at work, of one caller and of all. A stream is one until it begins.

    A caller is who shows the same token or cookie, or calls under the same name, from one address.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._at_work: Counter[tuple[str, ...]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, if there is room for it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        who = _who(scope)
        if self._at_work[who] >= AT_ONCE_OF_ONE:
            detail = f"{AT_ONCE_OF_ONE} of your calls are at work; send the next when one is done"
            await answer(TOO_MANY_AT_ONCE, detail)(scope, receive, send)
            return
        if self._at_work.total() >= AT_ONCE_OF_ALL:
            detail = f"{AT_ONCE_OF_ALL} calls are at work in this process"
            await answer(BUSY, detail)(scope, receive, send)
            return
        self._at_work[who] += 1
        is_counted = True

        def end() -> None:
            nonlocal is_counted
            if is_counted:
                is_counted = False
                self._at_work[who] -= 1
                self._at_work += Counter()  # forgets who has none

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                end()
            await send(message)

        try:
            await self.app(scope, receive, sent)
        finally:
            end()


def _who(scope: Scope) -> tuple[str, ...]:
    headers, client = Headers(scope=scope), scope.get("client")
    shown = tuple(headers.get(name, "") for name in WHO)
    # Behind a proxy all may share an address, but not a token.
    return shown if any(shown[:2]) else (*shown, client[0] if client else "")
