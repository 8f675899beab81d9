"""Capabilities and a source that testify: each run writes down when and where it was."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities.capability import (
    Capability,
    CapabilityError,
    capability,
)
from interlock.workers.gateways.sources import CleanedUp, CleanUpFailed

FOLDER = Path(os.environ.get("DEPLOYMENT_FOLDER", "."))


def testify(what: str, record_id: str, key: str, **more: Any) -> None:
    """Append a line to the witness; one write is whole, whoever else writes."""
    line = {"what": what, "record": record_id, "key": key, "pid": os.getpid()}
    written = json.dumps({**line, "at": time.monotonic(), **more}) + "\n"
    place = os.open(FOLDER / "recorded.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(place, written.encode())
    finally:
        os.close(place)


def first_time(what: str) -> bool:
    """Whether nobody asked this before, in any process of the deployment."""
    try:
        (FOLDER / f"once-{what.replace('/', '_')}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def made(
    name: str, call: Any, *, idempotent: bool, deadline_s: float = 60, **more: Any
) -> Capability:
    """Declare a function under a name."""
    declare = capability(
        name=name,
        idempotent=idempotent,
        irreversibility=Level.LOW,
        deadline_s=deadline_s,
        **more,
    )
    return declare(call)


def jot(*, record_id: str, key: str, token_number: int, text: str = "") -> str:
    """Write one line."""
    testify("start", record_id, key, token=token_number)
    testify("end", record_id, key, token=token_number)
    return text or "written"


async def slow(*, record_id: str, key: str, token_number: int, seconds: float = 1.0) -> str:
    """Take a while, and stop when told to."""
    testify("start", record_id, key, token=token_number)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        testify("stopped", record_id, key, token=token_number)
        raise
    testify("end", record_id, key, token=token_number)
    return "slept"


def stubborn(*, record_id: str, key: str, token_number: int, seconds: float = 1.0) -> str:
    """Take a while in a thread, which nobody can stop."""
    testify("start", record_id, key, token=token_number)
    time.sleep(seconds)
    testify("end", record_id, key, token=token_number)
    return "slept"


def deadly(*, record_id: str, key: str, token_number: int) -> str:
    """Kill the worker at the first run."""
    testify("start", record_id, key, token=token_number)
    if first_time(f"deadly-{record_id}"):
        die()
    testify("end", record_id, key, token=token_number)
    return "survived"


def always_deadly(*, record_id: str, key: str) -> str:
    """Kill the worker at every run."""
    testify("start", record_id, key)
    die()
    return "never"


async def endless(*, record_id: str, key: str) -> str:
    """Hang beyond every deadline."""
    testify("start", record_id, key)
    await asyncio.Event().wait()
    return "never"


def broken(*, record_id: str, key: str, why: str = "it is broken") -> str:
    """Fail."""
    testify("start", record_id, key)
    raise CapabilityError(why)


async def program(*, record_id: str, key: str) -> str:
    """Run a program for a minute; when stopped, end it before anybody is told."""
    child = await asyncio.create_subprocess_exec("sleep", "60")
    testify("start", record_id, key, child=child.pid)
    try:
        await child.wait()
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        testify("stopped", record_id, key, child=child.pid)
    return "slept"


CAPABILITIES = (
    made("jot", jot, idempotent=True),
    made("jot_once", jot, idempotent=False),
    made("jot_reviewed", jot, idempotent=True, requires_post_review=True),
    made("slow", slow, idempotent=True),
    made("slow_once", slow, idempotent=False),
    made("stubborn", stubborn, idempotent=True),
    made("deadly", deadly, idempotent=True),
    made("deadly_once", deadly, idempotent=False),
    made("always_deadly", always_deadly, idempotent=True),
    made("endless", endless, idempotent=True, deadline_s=1),
    made("broken", broken, idempotent=True),
    made("program", program, idempotent=True),
)


class Witnessed:
    """A source that can be cleaned up, fails while its event says so, or kills its worker once."""

    name = "witnessed"

    def can_clean_up(self, inciting: Mapping[str, Any]) -> bool:
        """Agree."""
        del inciting
        return True

    async def clean_up(self, inciting: Mapping[str, Any], *, key: str) -> CleanedUp | CleanUpFailed:
        """Testify."""
        fields, record_id = inciting.get("fields", {}), key.partition(":")[0]
        testify("clean", record_id, key)
        if fields.get("deadly") and first_time(f"clean-{record_id}"):
            die()
        if fields.get("fails") and first_time(f"unclean-{record_id}"):
            return CleanUpFailed("it is nailed to the floor")
        if fields.get("seconds"):
            await asyncio.sleep(fields["seconds"])
        return CleanedUp("swept")


SOURCES = (Witnessed(),)
