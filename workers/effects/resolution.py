"""Makes the surfaces show what a record asks a person now, or nothing; it reads the record afresh."""

from __future__ import annotations

from workers.card import card_of
from workers.work import Work


def resolution(work: Work) -> None:
    """Publish the record's card, or withdraw it. Repeating it changes nothing."""
    record = work.dispatch.views.record(work.record.id)
    card = card_of(work.machine, record)
    surfaces = work.equipment.surfaces
    if card is None:
        surfaces.withdraw(record.id, work.key)
        work.audit("card_withdrawn", {})
        return
    surfaces.show(card.as_data(), work.key)
    work.audit("card_delivered", {"kind": card.kind, "proposal": card.proposal})
