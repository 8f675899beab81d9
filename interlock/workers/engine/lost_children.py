"""Says which children of a record ended without success, and why, for its log and its page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from interlock.kernel.event import Event
from interlock.kernel.record import RecordId
from interlock.kernel.store.views import Views

LINES = 10  # of a child's log, among which the event that ended it is: notes may follow it
REASONS_MAX = 3


class Child(Protocol):
    """A child, read or listed."""

    @property
    def id(self) -> RecordId:
        """Its id."""
        ...

    @property
    def state(self) -> str:
        """The state that it ended in."""
        ...


def why_lost(views: Views, lost: Iterable[Child]) -> str:
    """Return for each reason the first of the children that ended with it, and how many more did.

    It is '' where there is none.
    """
    of_reason: dict[tuple[str, str], list[str]] = {}
    found: dict[str, Child] = {child.id: child for child in lost}
    for child_id, lines in views.latest(found, LINES).items():
        ended = next((line for line in lines if isinstance(line, Event)), None)
        words = ended.words if ended else ()
        why = "; ".join(words) or (ended.because if ended else "")
        of_reason.setdefault((found[child_id].state, why), []).append(child_id)
    said = [_sentence(ids, *reason) for reason, ids in of_reason.items()]
    left = sum(len(ids) for ids in [*of_reason.values()][REASONS_MAX:])
    more = [f"{left} more ended for other reasons"] if left else []
    return "; ".join([*said[:REASONS_MAX], *more])


def _sentence(ids: list[str], state: str, why: str) -> str:
    others = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    reason = f": {why}" if why else ""
    return f"{ids[0]}{others} ended as {state}{reason}"
