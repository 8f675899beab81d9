"""Capabilities and a source that write a line for each of their calls."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities.capability import (
    Capability,
    CapabilityError,
    capability,
)
from interlock.workers.gateways.sources import CleanedUp, CleanUpFailed


def folder() -> Path:
    """Return the folder of the deployment to which this process belongs."""
    return Path(os.environ.get("DEPLOYMENT_FOLDER", "."))


def record_call(what: str, record_id: str, key: str, **more: Any) -> None:
    """Append a line to the file of all calls, in one write, so that other lines cannot mix in."""
    line = {"what": what, "record": record_id, "key": key, "pid": os.getpid()}
    written = json.dumps({**line, "at": time.monotonic(), **more}) + "\n"
    descriptor = os.open(folder() / "recorded.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, written.encode())
    finally:
        os.close(descriptor)


def first_time(what: str) -> bool:
    """Return whether this is the first call with this text in the whole deployment."""
    try:
        (folder() / f"once-{what.replace('/', '_')}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def declared(
    name: str, call: Any, *, idempotent: bool, deadline_s: float = 600, **more: Any
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
    record_call("start", record_id, key, token=token_number)
    record_call("end", record_id, key, token=token_number)
    return text or "written"


async def file_exists(file: str) -> None:
    """Wait until the file exists."""
    while not os.path.exists(file):  # noqa: ASYNC110, ASYNC240, PTH110 - another process makes it
        await asyncio.sleep(0.02)


async def slow(
    *, record_id: str, key: str, token_number: int, seconds: float = 1.0, go: str = ""
) -> str:
    """Take a while, or until there is the file `go`, and stop when cancelled."""
    record_call("start", record_id, key, token=token_number)
    try:
        await (file_exists(go) if go else asyncio.sleep(seconds))
    except asyncio.CancelledError:
        record_call("stopped", record_id, key, token=token_number)
        raise
    record_call("end", record_id, key, token=token_number)
    return "slept"


def stubborn(
    *, record_id: str, key: str, token_number: int, seconds: float = 1.0, go: str = ""
) -> str:
    """Take a while, or until there is the file `go`, in a thread, which cannot be stopped."""
    record_call("start", record_id, key, token=token_number)
    if not go:
        time.sleep(seconds)
    while go and not Path(go).exists():
        time.sleep(0.02)
    record_call("end", record_id, key, token=token_number)
    return "slept"


def deadly(*, record_id: str, key: str, token_number: int) -> str:
    """Kill the worker at the first run."""
    record_call("start", record_id, key, token=token_number)
    if first_time(f"deadly-{record_id}"):
        die()
    record_call("end", record_id, key, token=token_number)
    return "survived"


def always_deadly(*, record_id: str, key: str) -> str:
    """Kill the worker at every run."""
    record_call("start", record_id, key)
    die()
    return "never"


class Paper(StrEnum):
    """The paper of a press."""

    THICK = "thick"
    THIN = "thin"


def press(*, copies: int, paper: Paper = Paper.THIN, text: str = "") -> str:
    """Press some copies."""
    return f"{copies} copies of {text} on {paper} paper"


async def endless(*, record_id: str, key: str) -> str:
    """Hang beyond every deadline."""
    record_call("start", record_id, key)
    await asyncio.Event().wait()
    return "never"


def broken(*, record_id: str, key: str, why: str = "it is broken") -> str:
    """Fail."""
    record_call("start", record_id, key)
    raise CapabilityError(why)


async def program(*, record_id: str, key: str) -> str:
    """Run a program for ten minutes; when cancelled, kill it before the call ends."""
    child = await asyncio.create_subprocess_exec("sleep", "600")
    record_call("start", record_id, key, child=child.pid)
    try:
        await child.wait()
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        record_call("stopped", record_id, key, child=child.pid)
    return "slept"


CAPABILITIES = (
    declared("jot", jot, idempotent=True, cost=lambda text: 0.06 * len(text)),
    declared("jot_once", jot, idempotent=False),
    declared("jot_reviewed", jot, idempotent=True, requires_post_review=True),
    declared("slow", slow, idempotent=True),
    declared("slow_once", slow, idempotent=False),
    declared("stubborn", stubborn, idempotent=True),
    declared("deadly", deadly, idempotent=True),
    declared("deadly_once", deadly, idempotent=False),
    declared("always_deadly", always_deadly, idempotent=True),
    declared("endless", endless, idempotent=True, deadline_s=1),
    declared("broken", broken, idempotent=True),
    declared("press", press, idempotent=True),
    declared("program", program, idempotent=True),
)


class Witnessed:
    """A source that can be cleaned up, fails while its event says so, or kills its worker once."""

    name = "witnessed"

    def can_clean_up(self, inciting: Mapping[str, Any]) -> bool:
        """Return True for every event."""
        del inciting
        return True

    async def clean_up(self, inciting: Mapping[str, Any], *, key: str) -> CleanedUp | CleanUpFailed:
        """Write a line; fail or kill the worker if the event asks for it."""
        fields, record_id = inciting.get("fields", {}), key.partition(":")[0]
        record_call("clean", record_id, key)
        if fields.get("deadly") and first_time(f"clean-{record_id}"):
            die()
        if fields.get("fails") and first_time(f"unclean-{record_id}"):
            return CleanUpFailed("it is nailed to the floor")
        if "go" in fields:
            await file_exists(fields["go"])
        return CleanedUp("swept")


SOURCES = (Witnessed(),)
