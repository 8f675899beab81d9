"""Runs a step: gives its function a copy of the data, and makes its end the effect's outcome."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from interlock.kernel.blame import PlacedError, blamed
from interlock.kernel.errors import FencedError, InvalidPayloadError, StoreError
from interlock.kernel.store.codec import encode
from interlock.workers.engine.work import EffectWork, Handler, Outcome
from interlock.workers.engine.work_results import UnusableResultError
from interlock.workers.redaction import holds_secret, without_secrets
from interlock.workflow.changing import ONCE
from interlock.workflow.data import (
    Data,
    JsonData,
    Merge,
    as_json,
    changes,
    fields_merged_by,
    lost_in_json,
    short,
    visible,
)
from interlock.workflow.decorators import finished, is_async
from interlock.workflow.names import LOST, after_end
from interlock.workflow.names import after as after_step
from interlock.workflow.parts import Cleanup, Declared, StepPart
from interlock.workflow.secret import grant_secrets, has_secrets
from interlock.workflow.work import UnclearError, Work, once_key, unclear


class StepResultError(PlacedError, UnusableResultError):
    """A step returned no state of its own, or left data that cannot be kept."""


def handlers_of(flow: Declared) -> dict[str, Handler]:
    """Return what runs each effect of a workflow."""
    steps = (state for state in flow.states.values() if isinstance(state, StepPart))
    found = {step.name: handler_of(step, flow) for step in steps}
    cleanups = flow.cleanups.values()
    return found | {after_end(part.end): cleanup_of(part, flow) for part in cleanups}


def handler_of(step: StepPart, flow: Declared) -> Handler:
    """Return the handler that runs a step and fires what its function returns."""
    running = _Running(step, flow)
    return running.run_async if is_async(step.function) else running.run


def cleanup_of(part: Cleanup, flow: Declared) -> Handler:
    """Return the handler of what is done after an end. It changes no data."""

    def run(work: EffectWork) -> None:
        arguments = _arguments(work, flow, takes_work=part.takes_work)
        before = arguments[0].model_copy(deep=True)
        if is_async(part.function):
            asyncio.run(finished(part.function, *arguments))
        else:
            part.function(*arguments)
        if arguments[0] != before:
            name = part.function.__name__
            lost = f"what {name} has changed is not kept: the data of an end do not change"
            work.note("note", {"text": f"{lost} ({part.place})"})

    return run


@dataclass(frozen=True, slots=True)
class _Running:
    """A step as the engine calls it."""

    step: StepPart
    flow: Declared

    def run(self, work: EffectWork) -> Outcome:
        before = visible(work.record.data)
        work.limit.outcome = partial(self._late, work)
        try:
            arguments = self._begin(work)
            return self._end(before, arguments[0], self.step.function(*arguments))
        except BaseException as failure:  # noqa: BLE001 - whatever the function raises
            return self._failed(work, failure)

    async def run_async(self, work: EffectWork) -> Outcome:
        before = visible(work.record.data)
        work.limit.outcome = partial(self._late, work)
        try:
            arguments = self._begin(work)
            return self._end(before, arguments[0], await finished(self.step.function, *arguments))
        except BaseException as failure:  # noqa: BLE001 - as above
            return self._failed(work, failure)

    def _begin(self, work: EffectWork) -> tuple[Any, ...]:
        for begun in _unknown(work):
            unclear(begun)
        return _arguments(work, self.flow, takes_work=self.step.takes_work)

    def _end(self, before: JsonData, data: Data, result: Any) -> Outcome:
        """Return the outcome of what a step returned and changed. Raises StepResultError."""
        step, target = self.step, result.value if isinstance(result, Enum) else result
        if inspect.iscoroutine(result):
            result.close()
            problem = f"{step.name} returned a coroutine: write it with async def"
            raise StepResultError(f"{problem} ({step.place})")
        if target not in step.targets:
            problem = f"{step.name} returned {result!r}; its return type names "
            raise StepResultError(f"{problem}{', '.join(step.targets)} ({step.place})")
        try:
            if data.model_dump(mode="json", warnings=False) == before:
                return Outcome(after_step(target), self._seen(before))
            # A nested value can be changed without a check: here the whole is checked.
            whole = self.flow.data.model_validate(data.model_dump(warnings=False))
            if lost := next(lost_in_json(whole), ""):
                raise ValueError(lost)  # noqa: TRY301 - one sentence for all that is wrong with data
            after = as_json(whole)
            change = changes(self.flow.data, before, after)
        except ValueError as failure:
            problem = f"{step.name} left data that cannot be kept: {short(failure)}"
            raise StepResultError(f"{problem} ({step.place})") from failure
        if kept := [name for name, value in after.items() if holds_secret(value)]:
            problem = f"{step.name} left the value of a secret in {kept[0]}"
            raise StepResultError(f"{problem}: data are stored and shown; name it ({step.place})")
        try:
            encode(change, f"what {step.name} has set")
        except InvalidPayloadError as refusal:  # it has the size, and the most that is taken
            raise StepResultError(f"{refusal} ({step.place})") from refusal
        return Outcome(after_step(target), {**change, **self._seen(before)})

    def _seen(self, before: JsonData) -> JsonData:
        """Return how much of each inbox the step has seen: what came later begins it again."""
        inboxes = fields_merged_by(self.flow.data, Merge.INBOX)
        return {"seen": {name: len(before.get(name, [])) for name in inboxes}} if inboxes else {}

    def _late(self, work: EffectWork, why: str) -> Outcome | None:
        """Return the outcome of a step that takes too long, if it has begun what is done once."""
        begun = next(_unknown(work), "")
        return Outcome(LOST, {"code": "unclear", "detail": f"{begun}: {why}"}) if begun else None

    def _failed(self, work: EffectWork, failure: BaseException) -> Outcome:
        """Return the outcome of a step that may have been done, or raise what it raised."""
        may_be_done = self.step.once or isinstance(failure, UnclearError)
        if not may_be_done or _is_of_the_lease(work, failure):
            raise failure
        why = without_secrets(blamed(failure, otherwise=str(self.step.place)))
        return Outcome(LOST, {"code": "unclear", "detail": why})


def _unknown(work: EffectWork) -> Iterator[str]:
    """Yield what a step has begun that may not be done twice, and whose end is not known."""
    for begun in work.record.data.get(ONCE, []):
        if work.results.find(once_key(begun)) is None:
            yield begun


def _is_of_the_lease(work: EffectWork, failure: BaseException) -> bool:
    """Whether a step ended because it shall stop, or cannot report, and not of itself."""
    orders = (work.stopped, work.giving_back, work.lost)
    if isinstance(failure, CancelledError | asyncio.CancelledError):
        return any(order.is_set() for order in orders)
    return isinstance(failure, FencedError | StoreError | KeyboardInterrupt)


def _arguments(work: EffectWork, flow: Declared, *, takes_work: bool) -> tuple[Any, ...]:
    data = flow.data.model_validate(visible(work.record.data))
    if has_secrets(flow.data):
        grant_secrets(data, work.dispatch.settings.secrets, work.dispatch.holder)
    return (data, Work(work, flow)) if takes_work else (data,)
