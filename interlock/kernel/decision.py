"""What a machine answers: a decision to commit, or what firing a trigger would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from interlock.kernel.record import Record
from interlock.kernel.table import Bounds, Data, Mode, Owed, Shares
from interlock.kernel.timer import TimerDue
from interlock.kernel.traits import Children, NewChild


@dataclass(frozen=True, slots=True)
class Decision:
    """A transition, and the effects that the record owes by it: committed whole or not at all."""

    before: Record
    after: Record
    trigger: str
    payload: Data
    facts: Data
    mode: Mode
    owes: tuple[Owed, ...]
    timers: tuple[TimerDue, ...]
    waits: bool
    ends: bool
    interrupts: bool
    explanation: Data | None
    by: tuple[str, ...] = ()
    names_proposal: bool = False
    asks_anew: bool = False
    shares: Shares | None = None
    counts_as_ended: bool = False
    # What the record and all below it may use from now on, where that changes.
    bounds: Bounds = field(default_factory=dict)
    deltas: Mapping[str, int] = field(default_factory=dict)  # how the record's counters change
    spawns: Children | None = None  # the kind of children that an effect is to create
    children: tuple[NewChild, ...] = ()  # what each of them is created from
    says: str = ""  # the reason in words, as the row says it
    own: tuple[Owed, ...] = ()  # those of `owes` that the row itself names
    # The transitions that it is made of, where rows follow from the data alone: the first is the
    # one that was asked for. Empty where it is one transition.
    path: tuple[Decision, ...] = ()

    @property
    def hops(self) -> tuple[Decision, ...]:
        """Each transition that is committed, in order."""
        return self.path or (self,)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of firing a trigger: `target` is the next state, or '' for a refusal.

    `by` are those who may fire it in this state, as the rows of the table name them.
    """

    trigger: str
    state: str
    target: str
    sentence: str
    by: tuple[str, ...] = ()
