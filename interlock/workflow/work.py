"""What a step may use of its work: its id, its key, whether it shall stop, what it saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from interlock.workers.engine.work import Outcome, Work
from interlock.workflow.changing import ONCE
from interlock.workflow.names import BEGIN

Given = ParamSpec("Given")
Result = TypeVar("Result")


class UnclearError(RuntimeError):
    """What may be done once was begun, and it is not known whether it was done."""


class StepWork:
    """The work of one step, as its function may use it."""

    def __init__(self, work: Work, seen: str) -> None:
        self._work, self._seen = work, seen

    @property
    def id(self) -> str:
        """The id of the record."""
        return self._work.record.id

    @property
    def key(self) -> str:
        """A key of idempotency: every attempt has the same, until the record leaves the state."""
        return self._work.key

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._work.attempt

    def raise_if_stopped(self) -> None:
        """End this work if the record was cancelled, or the worker shuts down. Call it in loops.

        Raises CancelledError.
        """
        self._work.raise_if_stopped()

    def note(self, text: str) -> None:
        """Write a sentence into the log of the record, where `interlock history` shows it."""
        self._work.note("note", {"text": text})

    def once(
        self,
        name: str,
        call: Callable[Given, Result],
        /,
        *arguments: Given.args,
        **options: Given.kwargs,
    ) -> Result:
        """Call what must not be done twice, and return its result.

        From here on a failure is no reason to try again: if the call raises, or its worker is lost
        before the result is stored, a person is asked. A result that was stored is given back
        without a second call.
        """
        if self._work.record.data.get(ONCE) != name:
            self._work.fire(Outcome(BEGIN, {"name": name, "seen": self._seen}))
        try:
            return call(*arguments, **options)
        except Exception as failure:
            raise UnclearError(f"{name}: {type(failure).__name__}: {failure}") from failure
