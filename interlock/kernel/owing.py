"""Which effects a record owes when it enters and leaves states, and what it shares then."""

from __future__ import annotations

from interlock.kernel.effect import Kind
from interlock.kernel.table import Active, Data, Owed, Shares, Stage, Terminal, Waiting

Shared = tuple[str, frozenset[str]]  # the queue a record waits in ('' is none), the names it holds
NOTHING: Shared = ("", frozenset())


def entered_effects(stage: Stage, data: Data, *, carried: bool = False) -> tuple[Owed, ...]:
    """Return the effects that a record owes because it enters a state."""
    if isinstance(stage, Active) and not carried:
        effect = stage.effect_for(data)
        once = stage.once(data) if stage.once else False
        return (Owed(effect, Kind.STATE, once),) if effect else ()
    if isinstance(stage, Waiting):
        offers = stage.offers if stage.offered(data) else None
        offered = (Owed(offers, Kind.TRANSITION),) if offers else ()
        return (*asked(stage, data), *offered)
    if isinstance(stage, Terminal):
        return tuple(Owed(effect, Kind.TRANSITION) for effect in stage.owes() if effect)
    return ()


def asked(stage: Stage, data: Data) -> tuple[Owed, ...]:
    """Return the effect that shows the card of a state, if the state asks a person."""
    if not (isinstance(stage, Waiting) and stage.notifies and stage.waits_for_person(data)):
        return ()
    return (Owed(stage.notifies, Kind.TRANSITION),)


def left_effects(left: Stage, before: Data, entered: Stage, data: Data) -> tuple[Owed, ...]:
    """Return the effects that a record owes because it leaves a state for another."""
    owed: tuple[Owed, ...] = ()
    if left.slot and left.slot.is_held(before) and not entered.has_slot(data):
        owed = (Owed(left.slot.release, Kind.TRANSITION),)
    # The card of the stage that is left must be withdrawn; the card of the next replaces it.
    return owed if asked(entered, data) else (*owed, *asked(left, before))


def shares_changed(before: Shared, after: Shared) -> Shares | None:
    """Return what a record stops sharing with its family and what it shares from now on."""
    if before == after:
        return None
    (old_queue, held), (new_queue, wanted) = before, after
    return Shares(old_queue, new_queue, tuple(sorted(held - wanted)), tuple(sorted(wanted - held)))
