"""Makes the table of a workflow: a stage for each state, and a row for each way out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from interlock.kernel.effect import AWAITING, CASCADE, NOTIFICATION, RESOLUTION, Effect
from interlock.kernel.machine import Machine
from interlock.kernel.payload import ChildLost, RecordEnd, Tally
from interlock.kernel.rows import Row, by, move, reenter, stay
from interlock.kernel.table import (
    ORPHANS,
    PERSON,
    STALLS,
    UNBOUND,
    Active,
    Ask,
    AwaitedEnd,
    Bounds,
    Terminal,
    Waiting,
    always,
)
from interlock.kernel.timer import Timer
from interlock.kernel.traits import Bookkeeping, Children
from interlock.workflow.changing import (
    ONCE,
    WHY,
    Begun,
    Lost,
    answered,
    begun,
    lost,
    settled,
    unfit,
    unless_begun,
)
from interlock.workflow.data import Change, JsonData, checked
from interlock.workflow.durations import DAY, HOUR, as_ms, delay_of, minutes
from interlock.workflow.hand_rows import rows_by_hand
from interlock.workflow.migrating import migration_of
from interlock.workflow.names import (
    AGAIN,
    BEGIN,
    CANCEL,
    CANCELLED,
    GIVE_UP,
    LOST,
    OVER,
    RECORD_ENDED,
    SAYS,
    TIMEOUT,
    UNTIL,
    after,
    after_end,
    all_in,
    one_lost,
    renamed_states,
    retired_states,
)
from interlock.workflow.parts import Declared, EachPart, QuestionPart, State, StepPart, WaitPart
from interlock.workflow.result import results_of
from interlock.workflow.ways import ANYBODY, Ways

RECHECK = minutes(10)  # after which a wait for a record looks again, should a message be lost


def machine_of(flow: Declared) -> Machine:
    """Return the checked table of a workflow."""
    return _Table(flow).machine()


def effect_of(flow: Declared, step: StepPart) -> Effect:
    """Return the effect that runs a step."""
    return Effect(
        step.name,
        timeout_ms=as_ms(step.timeout),
        attempts_max=step.max_attempts,
        retry_delay_ms=as_ms(step.retry_delay),
        # The steps of a pool are done by workers of their own, so they have queues of their own.
        queue=step.queue or ("" if step.pool else flow.name),
        pool=step.pool,
        concurrency=step.concurrency or 0,
    )


def cleanup_effect(end: str) -> Effect:
    """Return the effect that cleans up after an end."""
    return Effect(after_end(end), timeout_ms=as_ms(HOUR))


def _as_it_is(data: JsonData, entry: Any, ids: Sequence[str]) -> tuple[JsonData, Bounds]:
    """Return what a child is created from: its item of the list, without a cap of its own."""
    del data, ids
    return entry, UNBOUND


class _Table(Ways):
    """The stages and rows of a workflow, gathered state by state."""

    def machine(self) -> Machine:
        flow = self.flow
        for state in sorted(flow.states.values(), key=lambda each: each.name != flow.start):
            self._stage(state)
        for end, is_success in self.closed.items():
            cleanup = cleanup_effect(end) if end in flow.cleanups else None
            self.stages.append(
                Terminal(
                    self.state[end],
                    outlook=self.of_data.unread,
                    cleanup=cleanup,
                    is_success=is_success,
                )
            )
        for hand in flow.by_hand:
            self.payloads |= hand.payloads
        self.rows = [*rows_by_hand(flow), *self.rows]
        used = {str(row.trigger) for row in self.rows}
        return Machine(
            name=flow.name,
            model=flow.data,
            initial_data=lambda payload: checked(flow.data, flow.name, payload),
            title=self.of_data.title(),
            stages=tuple(self.stages),
            transitions=tuple(self.rows),
            payloads={name: model for name, model in self.payloads.items() if name in used},
            says={name: says for name, says in SAYS.items() if name in used},
            cancel_triggers=(CANCEL,),
            bookkeeping=Bookkeeping(bounds=self.of_data.bounds() if flow.budget else None),
            children=self._children(),
            close_trigger=CANCEL,
            renamed=renamed_states(flow),
            renamed_triggers={after(old): after(new) for old, new in flow.past.renamed.items()},
            retired=retired_states(flow),
            schema=flow.past.schema,
            migrate=migration_of(flow),
        )

    # --- states ------------------------------------------------------------------------------

    def _stage(self, state: State) -> None:
        if isinstance(state, StepPart):
            self._step(state)
        elif isinstance(state, QuestionPart):
            self._question(state)
        elif isinstance(state, EachPart):
            self._each(state)
        else:
            self._wait(state)

    def _step(self, step: StepPart) -> None:
        state, effect = self.state[step.name], effect_of(self.flow, step)
        outcomes = [self.trigger[after(target)] for target in step.targets]
        over = self.flow.budget.over if self.flow.budget else step.on_failure
        unclear = self.state[step.unclear] if step.unclear else None
        if step.marks_once:
            outcomes.append(self.trigger[LOST])
        self.stages.append(
            Active(
                state,
                effect=effect,
                outcomes=tuple(outcomes),
                once=always if step.once else None,
                crash=self.trigger[LOST] if unclear else None,
                exhausted=self.trigger[GIVE_UP] if step.on_failure else None,
                over=self.trigger[OVER] if over else None,
                slot_key=self.of_data.key(step),
            )
        )
        if over:
            self.payloads[OVER] = Lost
            self._add(step.name, self._into(OVER, step.name, over, by(effect)))
        if step.on_failure:
            self.payloads[GIVE_UP] = Lost
            self._add(step.name, self._into(GIVE_UP, step.name, step.on_failure, by(ORPHANS)))
        for target in step.targets:
            self.payloads[after(target)] = Change
            self._add(step.name, *self._outcome(step, effect, target))
        if unclear is None:
            self._cancel(step.name)
        else:
            self._once(step, effect, unclear)
        self._calls(step.name, is_once=step.once, marks_once=step.marks_once)

    def _once(self, step: StepPart, effect: Effect, unclear: StrEnum) -> None:
        """Add the rows of what may be done once: it begins, is lost, and is not cancelled then."""
        if step.marks_once:
            self.payloads[BEGIN] = Begun
            begins = stay(
                self.trigger[BEGIN],
                by(effect),
                guard=lambda ask: ask.payload["seen"] == settled(self.flow.data, ask.data),
                refusal="a call has changed the data since the step began",
                update=begun,
            )
            self._add(step.name, begins)
        self.payloads[LOST] = Lost
        self._add(
            step.name,
            move(self.trigger[LOST], unclear, by(ORPHANS, effect), update=lost),
        )
        self._cancel(
            step.name,
            guard=lambda ask: not step.once and ONCE not in ask.data,
            refusal=f"{step.name} may be done once and may have begun: wait for its end",
        )
        self._unclear(step)

    def _outcome(self, step: StepPart, effect: Effect, target: str) -> list[Row]:
        trigger, actors = self.trigger[after(target)], by(effect)
        says = f"{step.name} has ended: {target} follows"
        found: list[Row] = []
        if self.flow.calls and not step.once:
            why = f"a call changed what {step.name} has changed too, so it begins again"
            found.append(
                reenter(trigger, actors, guard=unless_begun(self.of_data.is_overtaken), says=why)
            )
        if self.flow.calls and step.unclear:
            why = f"{step.name} has ended, and what it has set does not fit what calls have changed"
            found.append(
                move(
                    trigger,
                    self.state[step.unclear],
                    actors,
                    guard=self.of_data.is_misfit,
                    update=unfit(self.of_data.misfit),
                    says=why,
                )
            )
        if target in self.closed and self.of_data.inboxes and not step.once:
            why = f"a call came while {step.name} was at work, so it begins again"
            guard = unless_begun(self.of_data.has_new_mail)
            found.append(reenter(trigger, actors, guard=guard, update=answered, says=why))
        return [
            *found,
            self._into(after(target), step.name, target, actors, update=answered, says=says),
        ]

    def _question(self, question: QuestionPart) -> None:
        choices = {
            name: (self.choices[question.name, name], target, model)
            for name, (target, model) in question.choices.items()
        }
        self._asking(
            question.name, self.of_data.text(question.text, question.place), choices, question
        )
        self._cancel(question.name)

    def _unclear(self, step: StepPart) -> None:
        results = results_of(self.flow, step)
        choices: dict[str, tuple[str, str, type[BaseModel] | None]] = {
            target: (f"{step.unclear}_{target}", target, model) for target, model in results.items()
        }
        choices[AGAIN] = (f"{step.unclear}_{AGAIN}", step.name, None)
        choices.setdefault(CANCELLED, (f"{step.unclear}_{CANCELLED}", CANCELLED, None))

        done = " or ".join(
            f"{target} (with {', '.join(model.model_fields)}, as it would have set)"
            if model
            else target
            for target, model in results.items()
        )
        ways = f"{done} if it was done, again if it was not, {CANCELLED} if it never shall be"

        def text(data: JsonData) -> str:
            why = f" ({data[WHY]})" if data.get(WHY) else ""
            begun = f"{step.name} was begun, and whether it was done is not known{why}."
            return f"{begun} Answer {ways}."

        self._asking(step.unclear, text, choices)
        self._cancel(
            step.unclear,
            guard=lambda _: False,
            refusal=f"whether {step.name} was done is not known: answer its card first",
        )

    def _asking(
        self,
        name: str,
        text: Callable[[JsonData], str],
        choices: Mapping[str, tuple[str, str, type[BaseModel] | None]],
        question: QuestionPart | None = None,
    ) -> None:
        timers = [self._reminder(question.remind if question else timedelta(days=1))]
        if question and question.timeout:
            timers.append(self._timer(TIMEOUT, question.timeout))
            late = {"says": "nobody answered in time"}
            self._add(name, self._into(TIMEOUT, name, question.on_timeout, by(STALLS), **late))
        offered = self.of_data.offered(question) if question else {}
        self.stages.append(
            Waiting(
                self.state[name],
                (*timers, *(self._expiry(name) if question else ())),
                notifies=RESOLUTION,
                card=name,
                question=text,
                affordances=tuple((choice, trigger) for choice, (trigger, *_) in choices.items()),
                offered_if={choices[choice][0]: agrees for choice, agrees in offered.items()},
            )
        )
        for choice, (trigger, target, model) in choices.items():
            fields: dict[str, Any] = {"names_proposal": True, "says": f"the answer was {choice}"}
            fields |= self.of_data.while_offered(choice, offered)
            if model:
                self.payloads[trigger] = model
            if model or question is None:
                fields["update"] = self.of_data.answer
            self._add(name, self._into(trigger, name, target, by(PERSON), **fields))
        self._calls(name, text)

    def _wait(self, wait: WaitPart) -> None:
        timers: list[Timer] = []
        # What the wait is for. A call that changes it begins the wait anew.
        subject: Callable[[JsonData], object] | None = None
        awaited: AwaitedEnd | None = None
        if wait.until:
            subject = moment = self.of_data.moment(wait.until, wait.place)
            timers.append(Timer(UNTIL, moment, self.trigger[UNTIL], since="epoch"))
            self._add(wait.name, self._into(UNTIL, wait.name, wait.then, by(STALLS)))
        if wait.record:
            subject = record_id = self.of_data.awaited(wait.record, wait.place)
            awaited = AwaitedEnd(record_id, self.trigger[RECORD_ENDED])
            timers.append(Timer("recheck", delay_of(RECHECK), effect=AWAITING))
            self._record_end(wait, record_id)
        if wait.timeout:
            timers.append(self._timer(TIMEOUT, wait.timeout))
            late, target = {"says": "nothing that it waited for came in time"}, wait.on_timeout
            self._add(wait.name, self._into(TIMEOUT, wait.name, target, by(STALLS), **late))
        timers += self._expiry(wait.name)
        outlook = self.of_data.waits(wait)
        self.stages.append(
            Waiting(self.state[wait.name], tuple(timers), outlook=outlook, awaited=awaited)
        )
        for call, (target, model) in wait.calls.items():
            fields: dict[str, Any] = {"says": f"{call} was called"}
            if model:
                self.payloads[call] = model
                fields["update"] = self.of_data.answer
            self._add(wait.name, self._into(call, wait.name, target, ANYBODY, **fields))
        self._cancel(wait.name)
        self._calls(wait.name, subject=subject)

    def _record_end(self, wait: WaitPart, record_id: Callable[[JsonData], str]) -> None:
        """Add the rows by which the end of the record that a state waits for moves it on."""
        self.payloads[RECORD_ENDED] = RecordEnd

        def is_awaited(ask: Ask) -> bool:
            return record_id(ask.data) == str(ask.payload["record"])

        def is_success(ask: Ask) -> bool:
            return is_awaited(ask) and bool(ask.payload["is_success"])

        def row(target: str, **fields: Any) -> Row:
            actors = by(NOTIFICATION, AWAITING)
            says = "what became of record {record}: {state}"
            return self._into(RECORD_ENDED, wait.name, target, actors, says=says, **fields)

        refusal = "it waits for another record by now"
        self._add(
            wait.name,
            row(wait.then, guard=is_success),
            row(wait.on_failure, guard=is_awaited, refusal=refusal),
        )

    def _each(self, each: EachPart) -> None:
        """Add the state in which a record waits for its children."""
        name = each.name
        timers = (Timer("recheck", delay_of(DAY), effect=CASCADE), *self._expiry(name))
        self.stages.append(Waiting(self.state[name], timers, countdown=name))
        self.payloads[all_in(name)] = Tally
        ended = f"all children of {name} have ended"
        self._add(name, self._into(all_in(name), name, each.then, by(CASCADE), says=ended))
        if each.early:
            self.payloads[one_lost(name)] = ChildLost
            lost = f"a child of {name} has failed for good"
            self._add(name, self._into(one_lost(name), name, each.early, by(CASCADE), says=lost))
        self._cancel(name)
        self._calls(name)

    def _children(self) -> tuple[Children, ...]:
        return tuple(
            Children(
                countdown=each.name,
                payload=_as_it_is,
                advance_trigger=all_in(each.name),
                lost_trigger=one_lost(each.name) if each.early else "",
                machine=each.child.name,
                listed_in=each.field,
            )
            for each in self.families.values()
        )
