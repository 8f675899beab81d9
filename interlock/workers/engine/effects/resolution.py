"""Shows a record's card in the folder where people see cards, or withdraws it."""

from __future__ import annotations

from interlock.kernel.record import Record
from interlock.workers.engine.card import card_of
from interlock.workers.engine.work import EffectWork
from interlock.workers.gateways.card_folder import open_card_folder


def resolution(work: EffectWork) -> None:
    """Publish the record's card, or withdraw it. Repeating it changes nothing.

    It reads the record again after each publication, so that two workers at once do not leave an
    outdated card behind.
    """
    shown: Record | None = None
    while True:
        record = work.dispatch.views.record(work.record.id)
        if shown is not None and record.version == shown.version:
            return
        work.raise_if_stopped()
        show(work, record)
        shown = record


def show(work: EffectWork, record: Record) -> None:
    """Publish the card of one version of the record."""
    card = card_of(work.machine, record, lambda: work.records.capabilities)
    folder = work.resources.get(open_card_folder)
    if card is None:
        if folder:
            folder.withdraw(record.id)
        work.audit("card_withdrawn", {})
        return
    if folder:
        # One effect may publish several versions at once.
        folder.show(card.as_data(), f"{work.key}@{record.version}")
    # Without a folder it waits in `interlock cards` until somebody looks there.
    kind = "card_delivered" if folder else "card_listed"
    work.audit(kind, {"kind": card.kind, "proposal": card.proposal})
