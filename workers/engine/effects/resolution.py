"""Makes the surfaces show what a record asks a person now, or nothing; it decides nothing."""

from __future__ import annotations

from interlock.kernel.record import Record
from interlock.workers.engine.card import card_of
from interlock.workers.engine.work import Work
from interlock.workers.gateways.cards import open_surfaces


def resolution(work: Work) -> None:
    """Publish the record's card, or withdraw it. Repeating it changes nothing.

    Whoever wrote last has looked again since: of two at once, none leaves an outdated card behind.
    """
    shown: Record | None = None
    while True:
        record = work.dispatch.views.record(work.record.id)
        if shown is not None and record.version == shown.version:
            return
        work.raise_if_stopped()
        show(work, record)
        shown = record


def show(work: Work, record: Record) -> None:
    """Make the surfaces agree with one version of the record."""
    card = card_of(work.machine, record)
    surfaces = work.resources.get(open_surfaces)
    # One piece of work may show several versions: a receiver tells them apart by this.
    key = f"{work.key}@{record.version}"
    if card is None:
        surfaces.withdraw(record.id, key)
        work.audit("card_withdrawn", {})
        return
    surfaces.show(card.as_data(), key)
    work.audit("card_delivered", {"kind": card.kind, "proposal": card.proposal})
