"""Finds effects that do not go on as they should: late, failing, or of a worker that is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from interlock.kernel.store.owed import OwedEffect
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.terminal.screen import counted
from interlock.workers.text import age

LATE_S = 60.0  # that an effect waits for a worker
FAILED_MIN = 2  # attempts at an effect that is to be tried again
ATTEMPTS_MIN = 3  # of an effect that runs again after it failed
# Holders renew a lease each third of it, so one that is silent for half of it has missed one.
SILENT_SHARE = 2


def waits_of(dispatch: Dispatch, effects: Iterable[OwedEffect]) -> Iterator[str]:
    """Yield a sentence about effects that no worker begins, and one about those that fail.

    `effects` are those that nobody has at work. The message of such an effect may be in its queue,
    be lost, or be kept by a worker that does not begin it.
    """
    now_ms = dispatch.views.now_ms()
    owed = [one for one in effects if one.machine in dispatch.machines]
    late = [one for one in owed if not one.attempts and now_ms - one.since_ms > LATE_S * 1_000]
    for name, those in _by_name(late).items():
        first = those[0]
        yield (
            f"no worker has begun {name} of {counted(len(those), 'record')}, that of"
            f" {first.record_id} for {age(now_ms - first.since_ms)}: start more workers for"
            " its queue, or look whether something holds up those that are there"
        )
    for name, those in _by_name([one for one in owed if one.attempts >= FAILED_MIN]).items():
        first = those[0]
        yield (
            f"{name} of {counted(len(those), 'record')} failed more than once, that of"
            f" {first.record_id} for {age(now_ms - first.since_ms)}: it is tried again"
            f"{_when(first.not_before - now_ms)}; `interlock history {first.record_id}` says why it"
            f" failed{_at_last(first)}"
        )


def endangered(dispatch: Dispatch, effects: Iterable[OwedEffect]) -> Iterator[str]:
    """Yield a sentence about effects whose worker is silent or lost, or that failed twice before.

    Each says of one record what follows, and when.
    """
    now_ms = dispatch.views.now_ms()
    known = [one for one in effects if one.machine in dispatch.machines]
    at_work = [one for one in known if one.lease_until]
    silent = [one for one in at_work if _silent_ms(dispatch, one, now_ms)]
    for name, those in _by_name(silent).items():
        first = those[0]
        silence, left = _silent_ms(dispatch, first, now_ms), age(first.lease_until - now_ms)
        yield (
            f"the worker of {name} of {_whose(those)} has given no sign for {age(silence)}: if it"
            f" gives none for {left} more, {_after_loss(dispatch, first)}"
        )
    for name, those in _by_name([one for one in known if one.has_lapsed]).items():
        yield (
            f"the worker of {name} of {_whose(those)} was lost: a sweep has seen it, and"
            f" {_after_loss(dispatch, those[0])} as soon as a worker is free"
        )
    again = [one for one in at_work if one.attempts >= ATTEMPTS_MIN and one not in silent]
    for name, those in _by_name(again).items():
        first = those[0]
        yield (
            f"{name} of {_whose(those)} is at work for the {_ordinal(first.attempts)} time, since"
            f" {age(now_ms - first.since_ms)}: `interlock history {first.record_id}` says why it"
            f" ended before{_at_last(first)}"
        )


def _silent_ms(dispatch: Dispatch, one: OwedEffect, now_ms: int) -> int:
    """Return for how long the holder of an effect has renewed no lease; 0 if that is as usual."""
    lease_ms = dispatch.effect(one.machine, one.name).lease_ms
    silent_ms = lease_ms - (one.lease_until - now_ms)
    return silent_ms if silent_ms > lease_ms / SILENT_SHARE else 0


def _after_loss(dispatch: Dispatch, one: OwedEffect) -> str:
    if one.no_restart:
        return "it is not started again, as it may be done once: it fails, or a person is asked"
    # The sweep that finds the loss gives one more, as part/poll.lua says.
    gets_one = one.attempts_max > 1 and one.losses < dispatch.limits.losses_max
    attempts_max = one.attempts_max + (gets_one and not one.has_lapsed)
    if one.attempts >= attempts_max:
        return "no attempt is left: it fails, or a person is asked"
    return f"another one begins attempt {one.attempts + 1} of {attempts_max}"


def _at_last(one: OwedEffect) -> str:
    left = one.attempts_max - one.attempts
    return (
        f"; {counted(left, 'more attempt')} may follow" if left > 0 else "; it is the last attempt"
    )


def _when(left_ms: int) -> str:
    return f" in {age(left_ms)}" if left_ms > 0 else " now"


def _whose(effects: Sequence[OwedEffect]) -> str:
    first = effects[0].record_id
    return first if len(effects) == 1 else f"{len(effects)} records, such as {first},"


def _ordinal(number: int) -> str:
    return "third" if number == ATTEMPTS_MIN else f"{number}th"


def _by_name(effects: Sequence[OwedEffect]) -> dict[str, list[OwedEffect]]:
    """Return these effects by machine and name, in their order."""
    found: dict[str, list[OwedEffect]] = {}
    for one in effects:
        found.setdefault(f"{one.machine}.{one.name}", []).append(one)
    return found
