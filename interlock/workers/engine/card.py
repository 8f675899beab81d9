"""Makes a card: the question to a person about a record, with its possible answers. Pure.

What people read of it is visible: no text from outside can move a cursor or reverse letters there.
What an answer may repeat, such as parameters, is as it was proposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from interlock.kernel.choice_words import ChoiceWords, Words
from interlock.kernel.machine import Machine
from interlock.kernel.question import as_sentence, as_title, inner
from interlock.kernel.record import PRIORITY_DEFAULT, Record
from interlock.kernel.shown_stage import knows, shown_legal, shown_stage
from interlock.kernel.store.card_reads import CardClaim
from interlock.kernel.table import Waiting
from interlock.kernel.tags import as_tags
from interlock.workers.engine.answer_commands import decide_command, example_answer
from interlock.workers.engine.answer_schema import NO_FIELDS, answer_schema_of
from interlock.workers.engine.card_parts import CardParts
from interlock.workers.text import visible, visible_data, visible_line

if TYPE_CHECKING:  # imported where a card may name a capability
    from interlock.workers.gateways.capabilities.registry import Registry

BODY_MAX = 2_000
# The kinds of cards about effects: those that were given up, those that a person is in the way of.
QUARANTINE, OBSTACLE = "quarantine", "obstacle"
UNKNOWN_STATE = "unknown_state"  # of the card of a record whose state the table lacks: no choices
RETRY_CHOICE = "retry"  # of a card about effects
NO_WORDS: Words = {}
ENDS_FOR_GOOD = "It is ended, and cannot be started again."


@dataclass(frozen=True, slots=True)
class Affordance:
    """One possible answer: its name, the trigger that it fires, and the schema of its payload.

    `command` is the command line that gives it, with an example of what it needs. `says` is what a
    person says with it, and `final` says what cannot be undone, or is ''.
    """

    name: str
    trigger: str
    schema: Mapping[str, Any]
    command: str
    says: str = ""
    final: str = ""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An answer that a card suggests: the choice, with these fields. `says` is what it means."""

    says: str
    choice: str
    answer: Mapping[str, Any]
    command: str


@dataclass(frozen=True, slots=True)
class CardDeadline:
    """When a timer ends the wait for an answer, the trigger that it fires, and where that leads."""

    due_ms: int
    trigger: str
    target: str


@dataclass(frozen=True, slots=True)
class CardEscalation:
    """When a card is escalated if nobody answers it, and to whom: a name of a person or role."""

    due_ms: int
    to: str


@dataclass(frozen=True, slots=True)
class Card:
    """The card that a surface shows. A decision must name its `proposal`.

    `inspect` is a command line that shows what is decided about, or ''. Only `deciders` may answer;
    where it is empty, everybody may. The `suggestions` are answers that need no words.
    `priority` (0 is first) and `tags` are those of the record.
    The `claim` and the `escalation` are known to who reads open cards; of them, a webhook has the
    `escalation`.
    """

    record_id: str
    machine: str
    state: str
    kind: str
    proposal: str
    title: str
    question: str
    inspect: str
    deciders: tuple[str, ...]
    proposed: Mapping[str, Any]
    failure: Mapping[str, Any] | None
    since_ms: int
    affordances: tuple[Affordance, ...]
    priority: int = PRIORITY_DEFAULT
    tags: tuple[str, ...] = ()
    deadline: CardDeadline | None = None
    claim: CardClaim | None = None
    escalation: CardEscalation | None = None
    suggestions: tuple[Suggestion, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return the card as JSON-able data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CardPage:
    """Open cards, and the cursor of the page after them; '' where the list ends here."""

    cards: tuple[Card, ...]
    cursor: str


def card_of(
    machine: Machine, record: Record, registry: Callable[[], Registry | None]
) -> Card | None:
    """Return the card of a record that waits for a person, else None.

    `registry` is called if an answer may name a capability. With its capabilities the schema of
    the answer describes their parameters.
    """
    return _card_of_state(CardParts(machine, record), registry)


def faults_of(machine: Machine, record: Record) -> list[str]:
    """Return why parts of the card of a record's state cannot be shown."""
    parts = CardParts(machine, record)
    _card_of_state(parts, no_registry)
    return parts.faults


def _card_of_state(parts: CardParts, registry: Callable[[], Registry | None]) -> Card | None:
    machine, record = parts.machine, parts.record
    stage, data = shown_stage(machine, record.state), record.data
    if not knows(machine, record.state):
        said = f"Nobody can answer this here: {as_sentence(stage.outlook(data))}"
        return _card(parts, UNKNOWN_STATE, record.proposal, said, [])
    if not (isinstance(stage, Waiting) and stage.waits_for_person(data)):
        return None
    question = parts.made("the question", "", question_of, machine, record) or ""
    inspect = parts.made("inspect", "", lambda: visible_line(stage.inspect(data)))
    shown = parts.made("the proposal", {}, lambda: dict(_proposed(stage, data)))
    choices = parts.made("the choices", stage.affordances, stage.offered_choices, data)
    if not choices:
        question = f"{as_sentence(question)} None of its answers is offered now."
    offered = [
        (name, trigger, answer_schema_of(parts, stage, trigger, registry))
        for name, trigger in choices
    ]
    return _card(
        parts,
        stage.card,
        record.proposal,
        question,
        offered,
        words=parts.made("what its choices say", {}, stage.choice_words, data),
        inspect=inspect,
        deadline=deadline_of(machine, record),
        proposed=shown,
        failure=visible_data(data.get("failure")),
    )


def _proposed(stage: Waiting, data: Mapping[str, Any]) -> Mapping[str, Any]:
    proposed = inner(data, "proposals", stage.shows)
    return {} if proposed.get("cleared") else proposed


def question_of(machine: Machine, record: Record) -> str | None:
    """Return in one line what the state of a record asks a person, or None if it asks nobody."""
    stage = machine.stage(record.state)
    if not (isinstance(stage, Waiting) and stage.waits_for_person(record.data)):
        return None
    return visible(stage.question(record.data)).replace("\n", " ")[:BODY_MAX]


def asks_person(machine: Machine, record: Record) -> bool:
    """Return whether a record has a card: its state asks a person, or one of its effects does."""
    return bool(kinds_of(machine, record))


def kinds_of(machine: Machine, record: Record) -> list[str]:
    """Return the kinds of the cards that a record has now."""
    stage = shown_stage(machine, record.state)
    asks = isinstance(stage, Waiting) and stage.waits_for_person(record.data)
    found = [stage.card] if isinstance(stage, Waiting) and asks else []
    found += [] if knows(machine, record.state) else [UNKNOWN_STATE]
    found += [QUARANTINE] if record.quarantined else []
    return found + ([OBSTACLE] if record.obstructed else [])


def proposals_of(machine: Machine, record: Record) -> list[str]:
    """Return the names of the questions that a record asks people now."""
    asks = shown_stage(machine, record.state).waits_for_person(record.data)
    names = (record.proposal if asks else "", record.retry_proposal)
    return [name for name in names if name]


def may_cancel(machine: Machine, state: str) -> bool:
    """Return whether a record of a machine can be cancelled in a state."""
    return not set(machine.cancel_triggers).isdisjoint(shown_legal(machine, state))


def tags_of(machine: Machine, record: Record) -> tuple[str, ...]:
    """Return the tags of a record, by which its cards are found; none if they cannot be made."""
    return CardParts(machine, record).made("the tags", (), _tags, machine, record)


def _tags(machine: Machine, record: Record) -> tuple[str, ...]:
    return as_tags(machine.tags(record.data))


def deadline_of(machine: Machine, record: Record) -> CardDeadline | None:
    """Return the next deadline for an answer: the timer of the state that fires a trigger.

    The timers of a paused record do not run.
    """
    stage, found = machine.stage(record.state), []
    for each in record.timers:
        timer = stage.timer(each.name)
        if timer is None or timer.trigger is None or each.left_ms is not None:
            continue
        rows = machine.rows(record.state, str(timer.trigger))
        targets = dict.fromkeys(str(row.target) for row in rows)
        found.append(CardDeadline(each.due_at, str(timer.trigger), " or ".join(targets)))
    return min(found, key=lambda one: one.due_ms, default=None)


def deciders_of(record: Record) -> tuple[str, ...]:
    """Return who may answer the cards of a record; nobody named means everybody."""
    return tuple(record.data.get("stewards") or ())


def cards_of_effects(
    machine: Machine, record: Record, failures: Mapping[str, str]
) -> Iterator[Card]:
    """Yield a card of the effects that were given up, and one of those that wait for a person.

    `failures` are the errors of the last attempts, by the effect's suffix.
    """
    if record.quarantined:
        given_up = []
        for entry in record.quarantined:
            error = failures.get(entry.suffix, "").strip().partition("\n")[0]
            times = "1 attempt" if entry.attempts == 1 else f"{entry.attempts} attempts"
            after = f"{entry.name} (after {times})"
            given_up.append(f"{after}: {error}" if error else after)
        question = f"Given up: {as_sentence('; '.join(given_up))}"
        end = f", or end the record by `interlock cancel {record.id}`"
        is_live = may_cancel(machine, record.state)
        question += f" Repair the cause, then let it try again{end if is_live else ''}?"
        yield _card_of_effects(machine, record, QUARANTINE, question)
    if asking := record.obstructed:
        errors = [(entry.name, failures.get(entry.suffix, "")) for entry in asking]
        question = " ".join(_obstacle(record.id, name, error) for name, error in errors)
        question += " It is tried again by itself, or now if you say so. Is the cause removed?"
        yield _card_of_effects(machine, record, OBSTACLE, question)


def _obstacle(record_id: str, name: str, error: str) -> str:
    """Say what is in the way of an effect. Its error is '' where it is too old to be read."""
    if not error:
        return f"Something is in the way of the {name}; `interlock history {record_id}` says what."
    return as_sentence(f"The {name} waits: {error}")


def _card_of_effects(machine: Machine, record: Record, kind: str, question: str) -> Card:
    shown = visible_line(question)[:BODY_MAX]
    offered = [(RETRY_CHOICE, RETRY_CHOICE, NO_FIELDS)]
    words = {RETRY_CHOICE: ChoiceWords("Try it again now")}
    parts = CardParts(machine, record)
    return _card(parts, kind, record.retry_proposal, shown, offered, words=words)


def _card(
    parts: CardParts,
    kind: str,
    proposal: str,
    question: str,
    offered: Sequence[tuple[str, str, Mapping[str, Any]]],
    *,
    inspect: str = "",
    proposed: Mapping[str, Any] | None = None,
    failure: Mapping[str, Any] | None = None,
    deadline: CardDeadline | None = None,
    words: Words = NO_WORDS,
) -> Card:
    """Return the card of a record. `offered` are choices with their triggers and schemas."""
    machine, record = parts.machine, parts.record
    deciders = parts.made("who may answer", (), deciders_of, record)
    title = parts.made("the title", record.title, lambda: as_title(machine.title(record.data)))
    tags = parts.made("the tags", (), _tags, machine, record)

    def affordance(name: str, trigger: str, schema: Mapping[str, Any]) -> Affordance:
        answer = example_answer(name, schema, proposed or {})
        command = decide_command(record.id, name, proposal, answer, deciders)
        said = words.get(name) or _words_of(machine, name, trigger)
        return Affordance(
            name, trigger, schema, command, *map(visible_line, (said.says, said.final))
        )

    def suggestion(choice: str, says: str, answer: Mapping[str, Any]) -> Suggestion:
        command = decide_command(record.id, choice, proposal, answer, deciders)
        return Suggestion(visible_line(says), choice, answer, command)

    return Card(
        record_id=record.id,
        machine=machine.name,
        state=record.state,
        kind=kind,
        proposal=proposal,
        title=visible_line(title) or record.id,
        question=parts.whole(question),
        inspect=inspect,
        deciders=deciders,
        proposed=proposed or {},
        failure=failure,
        since_ms=record.since_ms,
        affordances=tuple(affordance(*choice) for choice in offered),
        priority=record.priority,
        tags=tags,
        deadline=deadline,
        suggestions=tuple(
            suggestion(choice, *suggested)
            for choice, _, _ in offered
            if choice in words
            for suggested in words[choice].suggests.items()
        ),
    )


def _words_of(machine: Machine, choice: str, trigger: str) -> ChoiceWords:
    """Return what a choice says that has no words in the table: its name."""
    final = ENDS_FOR_GOOD if trigger in machine.cancel_triggers else ""
    return ChoiceWords(choice.replace("_", " ").capitalize(), final)


def no_registry() -> None:
    """Answer `card_of` where only the question of a card is used."""
