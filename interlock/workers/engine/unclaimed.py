"""Why this process does not claim an effect: its message is no good, or it is for others."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from celery.exceptions import Ignore
from kombu.exceptions import OperationalError

from interlock.kernel.errors import KernelError, StoreError, UnknownStateError
from interlock.kernel.machine import Machine
from interlock.kernel.record import split_key
from interlock.kernel.shown_stage import knows
from interlock.kernel.store.commands import EffectMessage
from interlock.kernel.store.leases import Refused
from interlock.kernel.table import Active
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.effect_ends import (
    EffectFailedError,
    EffectNotOwedError,
    EffectRetriedError,
)
from interlock.workers.engine.other_tables import known_elsewhere

log = logging.getLogger(__name__)

# Claims that are refused for now: a sweep publishes the effect again.
REFUSED_FOR_NOW = ("early", "busy", "paused", "slot")


def not_claimed(
    dispatch: Dispatch, machine: Machine, name: str, key: str, refused: Refused
) -> Exception:
    """Return what Celery shows for a claim that the store refused."""
    task = f"{machine.name}.{name}"
    if refused.status == "other":
        if refused.detail not in machine.effects:
            elsewhere: Exception = known_elsewhere(task, refused.detail)
            return elsewhere
        return rejected(dispatch, task, (key,), {"it is": refused.detail})
    if refused.status == "newer":
        why = f"its data are of schema {refused.detail}, a newer one"
        return left_to_others(dispatch, key, why)
    why = "it has begun once and may not start again" if refused.status == "carried" else ""
    line = f"not claimed: {why or refused.status} {refused.detail}".rstrip()
    if refused.status in REFUSED_FOR_NOW:
        return EffectRetriedError(line)
    return Ignore(line) if refused.status == "held" else EffectNotOwedError(line)


def rejected(
    dispatch: Dispatch, task: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> EffectFailedError:
    """Keep and count a message that names no effect, and return the error that says so."""
    reason = f"{task} takes the id of one effect"
    try:
        dispatch.rejected.put("wrong arguments", reason, f"{args!r} {kwargs!r}")
    except StoreError as refusal:
        log.warning("a message for %s is lost: %s", task, refusal)
    return EffectFailedError(f"rejected: {reason}")


def left_to_others(dispatch: Dispatch, key: str, why: str) -> EffectRetriedError:
    """Let a sweep publish an effect soon that this process cannot know, and return its end."""
    with suppress(StoreError):
        dispatch.indexes.poll_soon(dispatch.keys.effects, key)
    return EffectRetriedError(f"not claimed: {why}")


def unknown_state(
    dispatch: Dispatch, machine: Machine, name: str, key: str
) -> UnknownStateError | None:
    """Return why an effect must not be claimed here, or None.

    While no other table is applied, only one that may begin only once is looked at. Any other
    is given back after its claim, which needs no further read.
    """
    stages = (stage for stage in machine.stages if isinstance(stage, Active) and stage.once)
    once = any(name in (str(stage.effect), str(stage.later)) for stage in stages)
    try:
        if not (once or dispatch.tables_elsewhere.has(machine.name)):
            return None
        state = dispatch.views.record(split_key(key)[0]).state
    except KernelError:
        return None  # the claim that follows reports the error
    return None if knows(machine, state) else UnknownStateError(machine.name, state)


def send_to_its_host(dispatch: Dispatch, machine: Machine, key: str) -> str:
    """Send a local effect on to the host that has its files; '' if it is to be done here.

    No other host can do it. If that host is gone, the time limit of the record's stage ends it.
    """
    try:
        record = dispatch.views.record(split_key(key)[0])
        host = machine.placement.host(record.data)
        if host in ("", dispatch.settings.host):
            return ""
        name = next(each.name for each in record.entries if each.key(record.id) == key)
        dispatch.publisher.publish_to_host(
            EffectMessage(key, machine.name, name, record.priority), host
        )
    except (KernelError, OperationalError, StopIteration):
        # Ignored here: the claim that follows reports the error.
        return ""
    return host
