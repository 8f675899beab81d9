"""What a handler saves while it is at work, so that a later attempt has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.store.leases import Lease
from interlock.kernel.store.saved_results import SavedResult, SavedResults, check_name
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.redaction import holds_secret

Retried = Callable[[Callable[[], Any]], Any]  # calls what may be repeated while the store is away


class UnusableResultError(RuntimeError):
    """What a handler has worked out cannot be used, and working it out again would not help.

    The effect is given up at once: the `crash` or `exhausted` of its state is fired, or a card asks
    a person.
    """


class WorkResults:
    """The results that attempts at one effect save. They are kept until the effect ends."""

    def __init__(self, dispatch: Dispatch, lease: Lease, retried: Retried) -> None:
        self.lease, self._retried = lease, retried
        self._store = SavedResults(dispatch.client, dispatch.keys)

    def find(self, name: str) -> SavedResult | None:
        """Return what an attempt has saved under this name. Raises InvalidPayloadError."""
        check_name(name)
        found: SavedResult | None = self._retried(lambda: self._store.find(self.lease, name))
        return found

    def save(self, name: str, result: Any) -> Any:
        """Save a result, and return it as JSON gives it back.

        Raises UnusableResultError if it is no JSON, too large, or holds a secret that a step has
        read; FencedError if the lease is lost.
        """
        if holds_secret(result):
            raise UnusableResultError(
                f"the result {name} has the value of a secret, and results are stored: leave it out"
            )
        try:
            saved: SavedResult = self._retried(lambda: self._store.save(self.lease, name, result))
        except InvalidPayloadError as refusal:
            raise UnusableResultError(str(refusal)) from refusal
        return saved.value

    def mark_hung(self) -> None:
        """Let later attempts know that this one goes on past its time. Raises as `save`."""
        try:
            self._retried(lambda: self._store.mark_hung(self.lease))
        except InvalidPayloadError as refusal:
            raise UnusableResultError(str(refusal)) from refusal

    def keep(self, outcome: Mapping[str, Any]) -> None:
        """Keep the outcome of the effect. Raises as `save` does."""
        try:
            self._retried(lambda: self._store.keep(self.lease, outcome))
        except InvalidPayloadError as refusal:
            raise UnusableResultError(str(refusal)) from refusal
