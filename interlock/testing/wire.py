"""The connection of a kit to its store, on which replies are lost, workers die and time is set.

The scripts of the kit's store read a time that the kit has written. So nothing of the kernel knows
of a second clock: on the way to the store the name of each script becomes that of its twin.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import redis
from redis.exceptions import ConnectionError as LostConnectionError

from interlock.kernel.store import scripts

Moment = Literal["before", "after", "reply"]  # of the commit: when the worker is lost, or its reply
CLOCK = "local time = redis.call('TIME')"
KIT_CLOCK = "local time = redis.call('HMGET', {key}, 'seconds', 'micros')"
KEY_OF_SCRIPT = "string.match(KEYS[1], '^[^:]+') .. ':testing'"
ENDING = ("commit", "settle")  # the scripts that end an effect
_CALLED = re.compile(rb"\$7\r\nEVALSHA\r\n\$40\r\n([0-9a-f]{40})\r\n")
_TIME = b"*1\r\n$4\r\nTIME\r\n"


class CrashedError(KeyboardInterrupt):
    """The worker of a test was lost: what it has sent was sent, and nothing comes after it.

    An engine takes all but an interrupt for a failure of the step.
    """


@cache
def twins() -> Mapping[bytes, tuple[str, bytes, str]]:
    """Return, by the name of each script at a server, its name here, its twin's and the text."""
    folder = files("interlock.kernel.store") / "lua"
    names = sorted(each.name[:-4] for each in folder.iterdir() if each.name.endswith(".lua"))
    found: dict[bytes, tuple[str, bytes, str]] = {}
    for name in names:
        text = scripts.source_of(name).replace(CLOCK, KIT_CLOCK.format(key=KEY_OF_SCRIPT))
        sha = hashlib.sha1(text.encode()).hexdigest()  # noqa: S324 - the server's own name for it
        found[scripts.sha_of(name).encode()] = (name, sha.encode(), text)
    return found


class Wire:
    """What the connections of one kit do: they tell its time, and fail when a test says so."""

    def __init__(self, prefix: str) -> None:
        self.key = f"{prefix}:testing"
        self._moment: Moment | None = None
        self._is_due = False
        key = self.key.encode()
        self._time = b"*4\r\n$5\r\nHMGET\r\n$%d\r\n%s\r\n$7\r\nseconds\r\n$6\r\nmicros\r\n" % (
            len(key),
            key,
        )

    def fail_at_commit(self, moment: Moment) -> None:
        """Let the next commit fail: before it, after it, or so that only its reply is lost."""
        self._moment = moment

    def forget(self) -> None:
        """Let nothing fail any more."""
        self._moment, self._is_due = None, False

    def outgoing(self, packed: bytes) -> bytes:
        """Return what is sent instead of packed commands. Raises CrashedError."""
        if packed == _TIME:
            return self._time
        called = _CALLED.search(packed)
        if called is None:
            return packed
        name, _, _ = twins()[called[1]]
        if self._moment is not None and name in ENDING:
            if self._moment == "before":
                self.forget()
                raise CrashedError
            self._is_due = True
        return _CALLED.sub(lambda found: found[0].replace(found[1], twins()[found[1]][1]), packed)

    def incoming(self) -> None:
        """Raise CrashedError or LostConnectionError in place of the reply that has come."""
        if self._is_due:
            moment = self._moment
            self.forget()
            if moment == "after":
                raise CrashedError
            raise LostConnectionError("the reply was lost, as the test has it")


class WireConnection(redis.UnixDomainSocketConnection):
    """A connection on which a wire changes what is sent, and whether replies come."""

    def __init__(self, *, wire: Wire, **options: Any) -> None:
        self.wire = wire
        super().__init__(**options)  # type: ignore[no-untyped-call]

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 - redis-py's
        """Send what the wire makes of packed commands."""
        whole = command if isinstance(command, bytes) else b"".join(command)
        super().send_packed_command((self.wire.outgoing(whole),), check_health)  # type: ignore[no-untyped-call]

    def read_response(self, *given: Any, **named: Any) -> Any:
        """Read a reply, and lose it if the wire says so."""
        reply = super().read_response(*given, **named)
        self.wire.incoming()
        return reply
