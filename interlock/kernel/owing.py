"""Which effects a record owes when it enters and leaves states, and what it shares then."""

from __future__ import annotations

from urllib.parse import quote, unquote

from interlock.kernel.calling import called
from interlock.kernel.effect import AWAITING, Effect, Kind
from interlock.kernel.errors import TableFunctionError
from interlock.kernel.table import Active, Data, Owed, Shares, Stage, Terminal, Waiting

Shared = tuple[str, frozenset[str]]  # the queue a record waits in ('' is none), the names it holds
NOTHING: Shared = ("", frozenset())
SLOT_KEY_MAX = 200  # characters


def entered_effects(
    machine: str, stage: Stage, data: Data, *, carried: bool = False
) -> tuple[Owed, ...]:
    """Return the effects that a record owes because it enters a state."""
    if isinstance(stage, Active) and not carried:
        effect = stage.effect_for(data)
        once = stage.once(data) if stage.once else False
        slots = _slots(machine, stage, effect, data) if effect and effect.concurrency else ""
        return (Owed(effect, Kind.STATE, once, slots=slots),) if effect else ()
    if isinstance(stage, Waiting):
        offers = stage.offers if stage.offered(data) else None
        offered = (Owed(offers, Kind.TRANSITION),) if offers else ()
        awaited = (Owed(AWAITING, Kind.TRANSITION),) if stage.awaited else ()
        return (*asked(stage, data), *offered, *awaited)
    if isinstance(stage, Terminal):
        return tuple(Owed(effect, Kind.TRANSITION) for effect in stage.owes() if effect)
    return ()


def _slots(machine: str, stage: Active, effect: Effect, data: Data) -> str:
    """Return the name of the slots of which an effect needs one: a word without blanks."""
    name = f"{machine}.{effect}"
    if stage.slot_key is None:
        return name
    what = f"slot_key of {stage.state}"
    key: object = called(machine, what, stage.slot_key, data)
    if not isinstance(key, str):
        wrong = TypeError(f"it returned {key!r}, and a key is a text")
        raise TableFunctionError(machine, what, wrong)
    if len(key) > SLOT_KEY_MAX:
        long = ValueError(f"its key has {len(key)} characters; at most {SLOT_KEY_MAX} are allowed")
        raise TableFunctionError(machine, what, long)
    return f"{name}:{quote(key, safe='', errors='replace')}"


def slots_named(slots: str) -> tuple[str, str, str | None]:
    """Return whose slots these are: the machine, the effect, and the key, None without one."""
    name, colon, key = slots.partition(":")
    machine, _, effect = name.partition(".")
    return machine, effect, unquote(key) if colon else None


def goes_on(stage: Stage, data: Data) -> bool:
    """Whether an effect that a state owes is to move the record on from it."""
    if isinstance(stage, Waiting):
        return stage.offers is not None and stage.offered(data)
    return isinstance(stage, Active)


def asked(stage: Stage, data: Data) -> tuple[Owed, ...]:
    """Return the effect that shows the card of a state, if the state asks a person."""
    if not (isinstance(stage, Waiting) and stage.notifies and stage.waits_for_person(data)):
        return ()
    return (Owed(stage.notifies, Kind.TRANSITION),)


def left_effects(left: Stage, before: Data, entered: Stage, data: Data) -> tuple[Owed, ...]:
    """Return the effects that a record owes because it leaves a state for another."""
    owed: tuple[Owed, ...] = ()
    if left.slot_release and left.has_slot(before) and not entered.has_slot(data):
        owed = (Owed(left.slot_release, Kind.TRANSITION),)
    # The card of the stage that is left must be withdrawn; the card of the next replaces it.
    return owed if asked(entered, data) else (*owed, *asked(left, before))


def shares_changed(before: Shared, after: Shared) -> Shares | None:
    """Return what a record stops sharing with its family and what it shares from now on."""
    if before == after:
        return None
    (old_queue, held), (new_queue, wanted) = before, after
    return Shares(old_queue, new_queue, tuple(sorted(held - wanted)), tuple(sorted(wanted - held)))
