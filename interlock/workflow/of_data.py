"""The functions of a record's data that the table of a workflow has: texts, conditions, times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from interlock.kernel.amounts import amounts
from interlock.kernel.blame import PlacedError, blamed
from interlock.kernel.question import title_in
from interlock.kernel.rows import RowFields
from interlock.kernel.table import Ask, Bounds
from interlock.workers.text import moment
from interlock.workflow.data import (
    JsonData,
    Merge,
    checked,
    fields_merged_by,
    merged,
    overtaken,
    short,
    visible,
)
from interlock.workflow.moments import epoch_ms, zone_named
from interlock.workflow.parts import Declared, QuestionPart, StepPart, WaitPart
from interlock.workflow.place import SourceLine

T = TypeVar("T")


def as_id(value: object) -> str:
    """Return the id of a record that a function gives, '' for None. Raises TypeError."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{value!r} is no id: return the text that is the id of a record")
    return value or ""


class OfData:
    """Functions of the data of one workflow. Each reads them as the author's model."""

    def __init__(self, flow: Declared) -> None:
        self.flow = flow
        self.inboxes = fields_merged_by(flow.data, Merge.INBOX)

    def load(self, data: JsonData) -> Any:
        """Return the data as their model."""
        return self.flow.data.model_validate(visible(data))

    def text(self, template: str, place: SourceLine) -> Callable[[JsonData], str]:
        """Return what fills a text with fields of the data."""
        fields = tuple(self.flow.data.model_fields)
        return self._of(
            lambda data: template.format(**{name: getattr(data, name) for name in fields}), place
        )

    def title(self) -> Callable[[JsonData], str]:
        """Return what names a record in lists: without a text, its `title` or `description`."""
        return self.text(self.flow.title, self.flow.place) if self.flow.title else title_in

    def moment(self, until: Callable[[Any], Any], place: SourceLine) -> Callable[[JsonData], int]:
        """Return what gives the time that the data name, in ms since 1970."""
        zone = zone_named(self.flow.zone)
        return self._of(lambda data: epoch_ms(until(data), zone), place)

    def awaited(self, record: Callable[[Any], Any], place: SourceLine) -> Callable[[JsonData], str]:
        """Return what gives the id of the record whose end is awaited; '' while there is none."""
        return self._of(lambda data: as_id(record(data)), place)

    def key(self, step: StepPart) -> Callable[[JsonData], str] | None:
        """Return what the attempts of a step that are at work at one time are counted by."""
        return self._of(step.key, step.place) if step.key else None

    def bounds(self) -> Callable[[JsonData], Bounds]:
        """Return what gives the caps of a record with this data, and of all below it."""
        given = self.flow.budget.amounts if self.flow.budget else {}

        def bounds(value: Any) -> Bounds:
            found: dict[str, Any] = {
                name: amount(value) if callable(amount) else amount
                for name, amount in given.items()
            }
            return amounts(found.pop("usd", None), **found)

        return self._of(bounds, self.flow.place)

    def offered(self, question: QuestionPart) -> dict[str, Callable[[JsonData], bool]]:
        """Return the conditions of choices, by choice."""
        return {name: self._of(one, question.place) for name, one in question.offered.items()}

    def while_offered(
        self, choice: str, offered: Mapping[str, Callable[[JsonData], bool]]
    ) -> RowFields:
        """Return the guard of a choice that is not always offered.

        A condition that raises hides no choice on the card, so it refuses none either.
        """
        if choice not in offered:
            return {}

        def is_offered(ask: Ask) -> bool:
            try:
                return offered[choice](ask.data)
            except PlacedError:
                return True

        return {"guard": is_offered, "refusal": f"{choice} is not offered now"}

    def _of(self, function: Callable[[Any], T], place: SourceLine) -> Callable[[JsonData], T]:
        """Return a function of the record's data from one of the model. An error names the line."""

        def of_json(data: JsonData) -> T:
            try:
                return function(self.load(data))
            except Exception as failure:
                raise PlacedError(blamed(failure, otherwise=str(place))) from failure

        return of_json

    def is_overtaken(self, ask: Ask) -> bool:
        """Whether a call has changed what the step changes too, or both do not fit together."""
        return bool(overtaken(ask.data, ask.payload)) or self.is_misfit(ask)

    def is_misfit(self, ask: Ask) -> bool:
        """Whether the data would not fit their model with what the step has changed."""
        return bool(self.misfit(ask))

    def misfit(self, ask: Ask) -> str:
        """Return how the data would not fit their model with what the step has changed, or ''."""
        try:
            self.load(merged(ask.data, ask.payload))
        except ValueError as failure:
            return short(failure)
        return ""

    def has_new_mail(self, ask: Ask) -> bool:
        """Whether an inbox has items that came while the step was at work, which ends now."""
        seen = ask.payload.get("seen", {})
        return any(len(ask.data.get(name, [])) > seen.get(name, 0) for name in self.inboxes)

    def unread(self, data: JsonData) -> str:
        """Return what is said of mail that nobody will read, because the record has ended."""
        left = {name: len(data.get(name, [])) for name in self.inboxes}
        return "; ".join(
            f"{name} has {number} item{'s' if number > 1 else ''} that no step has read"
            for name, number in left.items()
            if number
        )

    def waits(self, wait: WaitPart) -> Callable[[JsonData], str]:
        """Return what says for which call a record waits, or until when."""
        until = self.moment(wait.until, wait.place) if wait.until else None
        calls = [f"for the call {' or '.join(wait.calls)}"] if wait.calls else []

        def waits(data: JsonData) -> str:
            parts = [*calls]
            if until:
                parts.append(f"until {moment(until(data))}, when {wait.then} follows")
            return f"It waits {', or '.join(parts)}." if parts else ""

        return waits

    def answer(self, ask: Ask) -> JsonData:
        """Return the data with the fields of an answer. Raises InvalidPayloadError."""
        known = self.flow.data.model_fields
        given = {name: value for name, value in ask.payload.items() if name in known}
        # What the workflow itself remembered of the state ends with the answer.
        return checked(self.flow.data, "the answer", {**visible(ask.data), **given})
