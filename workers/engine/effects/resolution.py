"""Shows a record's card on the surfaces where people see cards, or withdraws it."""

from __future__ import annotations

from interlock.kernel.record import Record
from interlock.workers.engine.card import card_of
from interlock.workers.engine.work import Work
from interlock.workers.gateways.capabilities.registry import open_registry
from interlock.workers.gateways.card_delivery import open_surfaces


def resolution(work: Work) -> None:
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


def show(work: Work, record: Record) -> None:
    """Publish the card of one version of the record."""
    card = card_of(work.machine, record, lambda: work.resources.get(open_registry))
    surfaces = work.resources.get(open_surfaces)
    # One effect may publish several versions, so the receiver's key has the version in it.
    key = f"{work.key}@{record.version}"
    if card is None:
        surfaces.withdraw(record.id, key)
        work.audit("card_withdrawn", {})
        return
    surfaces.show(card.as_data(), key)
    shown = {"kind": card.kind, "proposal": card.proposal}
    if surfaces.names:
        work.audit("card_delivered", {**shown, "surfaces": surfaces.names})
    else:
        # It waits in `interlock cards` until somebody looks there.
        work.audit("card_listed", shown)
