"""One run of a worker or reviewer: a command, a capability or a model. What it said is checked."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any
from uuid import uuid4

from interlock.kernel.errors import CallError
from interlock.kernel.store.commands import Jot
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.gateways.capabilities.call import call_capability
from interlock.workers.gateways.capabilities.registry import open_registry
from interlock.workers.gateways.capabilities.result import Failed, SplitWork, Succeeded
from interlock.workers.gateways.llm.ledger import Ledger
from interlock.workers.gateways.llm.outcome import Unanswered
from interlock.workers.jobs.brief import brief_of, write_brief
from interlock.workers.jobs.command import Errand
from interlock.workers.jobs.halt import halt, warn
from interlock.workers.jobs.limits import Usage, time_left_ms, used
from interlock.workers.jobs.model import JobQuestion, open_job_model
from interlock.workers.jobs.reply import (
    PAUSE_S,
    RETRY_S_MAX,
    Action,
    ReplyError,
    ReviewReply,
    WorkerReply,
    parse,
    read_reply,
)
from interlock.workers.jobs.slots import graph_of
from interlock.workers.text import sentence

WORKER, REVIEWER = "worker", "reviewer"
TRY_AGAIN = (75, 124)  # what programs say of a failure that may pass, or of a time limit
OUTPUT_TOLD_MAX = 800
LATE_MAX = 2_000
MICRO = 1_000_000
RESULT = "result.md"
MATERIAL_BYTES_MAX = 64_000


@dataclass(frozen=True, slots=True)
class Said:
    """What a worker or reviewer said, and what it cost. `unfit` tells why it could not be taken."""

    reply: WorkerReply
    deltas: Mapping[str, int]
    unfit: str = ""


class OverBudgetError(Exception):
    """What is left of a limit does not do. Nothing was spent; `reached` says which limit."""

    def __init__(self, **reached: Any) -> None:
        self.reached = reached
        super().__init__(f"the {reached['of']}'s limit of {reached['limit']}")


async def labour(work: Work, doer: Mapping[str, Any], role: str, folder: Path) -> Said:
    """Let a job's worker or reviewer do its part once. Raises OverBudgetError before it spends."""
    await asyncio.to_thread(look_at_limits, work, role)
    if estimate := int(doer["cost_micro"]):
        await asyncio.to_thread(reserve, work, estimate)
    if doer.get("capability"):
        return await _capability(work, doer, role)
    brief = await asyncio.to_thread(brief_of, work.dispatch, work.record, role)
    if doer.get("command"):
        try:
            return await _command(work, doer["command"], role, folder, brief)
        except OSError as refusal:
            why = f"it could not be started: {refusal.strerror or refusal}: {refusal.filename}"
            model = ReviewReply if role == REVIEWER else WorkerReply
            return Said(model(action=Action.STUCK, summary=sentence(why)), {})
    return await _model(work, doer["model"], role, folder, brief)


def look_at_limits(work: Work, role: str) -> None:
    """Look again before each spend: since it was scheduled it may have paused, or done a phase.

    To begin is a sign of life. What is left of its time counts from here: until now it may have
    waited for a free worker. Raises OverBudgetError.
    """
    record, found = work.record, _limits(work)
    warn(work, found)
    for one in found:
        if one.reached:
            raise OverBudgetError(of=one.of, **one.payload())
    silence_ms = record.data["running_s" if role == WORKER else "reviewing_s"] * 1_000
    left_ms = time_left_ms(found)
    limited = () if left_ms is None else (("limit", left_ms, 0),)
    timers = (("stall", silence_ms, 0), *limited)
    jot = Jot("sign_of_life", {"effect": work.lease.suffix, "began": role}, timers=timers)
    work.dispatch.note(record, jot, op_id=uuid4().hex, warrant=work.warrant)


def reserve(work: Work, estimate_micro: int) -> None:
    """Reserve what a call may cost. Raises OverBudgetError, which names the tightest limit."""
    if work.reserve(estimate_micro):
        return
    costs = [one for one in _limits(work) if one.limit == "cost"]
    tightest = min(costs, key=lambda one: one.allowed - one.used)
    raise OverBudgetError(of=tightest.of, **tightest.payload())


def over(work: Work, refused: OverBudgetError) -> Outcome:
    """Return what becomes of a job that may not spend; a graph's limit halts the graph instead."""
    graph = graph_of(work.dispatch, work.record)
    if refused.reached["of"] != "graph" or graph is None:
        return Outcome("limit_reached", refused.reached, reason=str(refused))
    words = {name: refused.reached[name] for name in ("limit", "used", "allowed")}
    halt(work, graph, Usage(of="graph", **words))
    # Its graph asks the steward; this one goes on when that is raised.
    return Outcome("retry", {"summary": f"{refused} is reached"}, reason=str(refused))


def took_ms(began: float) -> int:
    """Return how long it took, at least 1 ms."""
    return max(1, round((time.monotonic() - began) * 1_000))


def stopped(work: Work, began: float) -> None:
    """Keep the time of work that was stopped: it was used all the same."""
    work.note_late(Outcome("stopped", deltas={"time_ms": took_ms(began)}))


def _limits(work: Work) -> list[Usage]:
    """Return what is used of money and time by now. Runs are counted before they begin."""
    record = work.dispatch.views.record(work.record.id)
    found = used(record, graph_of(work.dispatch, record))
    return [one for one in found if one.limit != "iterations"]


async def _command(
    work: Work, command: str, role: str, folder: Path, brief: Mapping[str, Any]
) -> Said:
    errand = Errand(work, role, folder)
    await asyncio.to_thread(write_brief, errand.place, brief)
    task = asyncio.ensure_future(asyncio.to_thread(errand.run, command))
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue  # it has heard the order itself, and says when its command is really gone
    model = ReviewReply if role == REVIEWER else WorkerReply
    try:
        code = task.result()
    except asyncio.CancelledError:
        await asyncio.to_thread(_late_cost, work, model, errand.reply)
        raise
    try:
        reply = read_reply(model, errand.reply)
    except ReplyError as refusal:
        return _unfit(model, f"its reply cannot be taken: {refusal}")
    if reply is not None:
        return Said(reply, _cost(reply))
    told = errand.last_output(OUTPUT_TOLD_MAX)
    if code == 0:
        return Said(_silent(model, told), {})
    how = sentence(f"exit code {code}: {told or 'no output'}", length_max=1_000)
    action = Action.RETRY if code in TRY_AGAIN else Action.STUCK
    return Said(model(action=action, summary=how), {})


def _late_cost(work: Work, model: type[WorkerReply], file: Path) -> None:
    """Book what a command says that it has spent, though it was stopped and its reply is late."""
    with suppress(ReplyError):
        reply = read_reply(model, file)
        if reply is not None and reply.cost:
            work.note_late(Outcome("late_reply", deltas=_cost(reply)))


async def _capability(work: Work, doer: Mapping[str, Any], role: str) -> Said:
    model = ReviewReply if role == REVIEWER else WorkerReply
    registry = work.resources.get(open_registry)
    name, parameters = doer["capability"], doer["parameters"]
    try:
        one = registry[name]
        registry.check(name, parameters)
        runtime: dict[str, Any] = {"record_id": work.record.id, "key": work.key, "item_ids": []}
        runtime |= {"token_number": work.lease.token_number}
        bound = registry.bind(name, parameters, runtime)
    except CallError as refusal:
        return Said(model(action=Action.STUCK, summary=sentence(str(refusal))), {})
    call = asyncio.ensure_future(call_capability(one, bound, deadline_s=one.deadline_s))
    ordered = False
    while not call.done():
        try:
            await asyncio.wait({call})
        except asyncio.CancelledError:
            # A thread cannot be stopped: who revoked it hears when it is really over.
            if inspect.iscoroutinefunction(one.call) and not ordered:
                call.cancel()
            ordered = True
    if ordered and not call.cancelled():
        await asyncio.to_thread(_late_result, work, role, call.result())
    if call.cancelled() or ordered:
        raise asyncio.CancelledError
    match call.result():
        case Failed() as failed:
            again = failed.code in ("unavailable", "deadline") and one.idempotent
            action = Action.RETRY if again else Action.STUCK
            return Said(model(action=action, summary=sentence(failed.detail)), {})
        case SplitWork():
            return _unfit(model, f"{name} splits its work, which a job does not")
        case succeeded:
            return _answered(model, succeeded.value)


def _late_result(work: Work, role: str, result: object) -> None:
    """Note what a capability gave although it was stopped, and book what it says that it cost."""
    if not isinstance(result, Succeeded):
        return
    told = json.dumps(result.value, ensure_ascii=False)[:LATE_MAX]
    work.audit("late_reply", {"role": role, "reply": told})
    said = _answered(ReviewReply if role == REVIEWER else WorkerReply, result.value)
    if said.deltas:
        work.note_late(Outcome("late_reply", deltas=said.deltas))


def _answered(model: type[WorkerReply], value: object) -> Said:
    """Return what a capability gave as a reply: as one, or as the summary of a good end."""
    if isinstance(value, Mapping) and "action" in value:
        try:
            reply = parse(model, value)
        except ReplyError as refusal:
            return _unfit(model, f"its reply cannot be taken: {refusal}")
        return Said(reply, _cost(reply))
    told = "" if value is None else json.dumps(value, ensure_ascii=False)
    return Said(_silent(model, told), {})


async def _model(
    work: Work, prompt: str, role: str, folder: Path, brief: Mapping[str, Any]
) -> Said:
    shape = ReviewReply if role == REVIEWER else WorkerReply
    model = work.resources.get(open_job_model)
    if model is None:
        why = "no model can answer: set INTERLOCK_MODEL to a language model"
        return Said(shape(action=Action.STUCK, summary=why), {})
    material = await asyncio.to_thread(_material, brief)
    question = JobQuestion(role == REVIEWER, prompt, material)
    ledger = model.ledger(question)
    estimate = ledger.bound.micro()
    if estimate:
        await asyncio.to_thread(reserve, work, estimate)
    try:
        timeout_s = work.dispatch.settings.model_timeout_s
        answer = await model.answer(question, ledger, timeout_s=timeout_s)
    except asyncio.CancelledError:
        # What was asked may be billed, though nobody waits for the answer.
        await asyncio.to_thread(work.note_late, Outcome("late_answer", deltas=_booked(ledger)))
        raise
    deltas = _booked(ledger)
    if isinstance(answer, Unanswered):
        return Said(_unanswered(shape, answer), deltas)
    if role == REVIEWER:
        try:
            return Said(parse(shape, {"action": "COMPLETED", **answer}), deltas)
        except ReplyError as refusal:
            return replace(_unfit(shape, f"its answer cannot be taken: {refusal}"), deltas=deltas)
    kept: list[str] = []
    if answer["result"]:
        await asyncio.to_thread((folder / RESULT).write_text, answer["result"], "utf-8")
        kept = [RESULT]
    words = {"action": answer["action"], "summary": answer["summary"], "evidence_files": kept}
    return Said(parse(shape, words), deltas)


def _booked(ledger: Ledger) -> dict[str, int]:
    """Return what a model cost so far."""
    used = ledger.usage
    tokens = {"tokens_in": used.input_tokens, "tokens_out": used.output_tokens}
    return {k: v for k, v in {"spent": ledger.cost_micro, **tokens}.items() if v}


def _unanswered(shape: type[WorkerReply], failed: Unanswered) -> WorkerReply:
    limited = failed.retry_after_s is not None
    # Never before the time that it names, but for one that nobody would wait for.
    after = min(max(1, ceil(failed.retry_after_s or 0)), RETRY_S_MAX) if limited else None
    told = sentence(failed.detail)
    return shape(action=Action.RETRY, summary=told, retry_after_s=after, rate_limited=limited)


def _material(brief: Mapping[str, Any]) -> dict[str, str]:
    """Return what a model is shown: the brief, and the text of its evidence."""
    words = {k: v for k, v in brief.items() if k not in ("evidence", "dependencies")}
    found = {"job": json.dumps(words, ensure_ascii=False, indent=1)}
    named = {f"evidence {one['name']}": one for one in brief["evidence"]}
    for name, other in brief["dependencies"].items():
        found[f"dependency {name}"] = other["summary"]
        named |= {f"dependency {name} {one['name']}": one for one in other["evidence"]}
    for name, one in named.items():
        try:
            content = Path(one["path"]).read_bytes()[:MATERIAL_BYTES_MAX]
        except OSError:
            found[name] = "it is on another machine"
            continue
        found[name] = content.decode(errors="replace")
    return found


def _silent(model: type[WorkerReply], told: str) -> WorkerReply:
    """Return the reply of one that did its part and said nothing of it."""
    words: dict[str, Any] = {"action": Action.COMPLETED}
    words["summary"] = sentence(told, length_max=1_000)
    if model is ReviewReply:
        words["verdict"] = "APPROVAL_REQUIRED"
    return model.model_validate(words)


def _unfit(model: type[WorkerReply], why: str) -> Said:
    told = sentence(why, length_max=1_000)
    return Said(model(action=Action.STUCK, summary=told), {}, unfit=told)


def _cost(reply: WorkerReply) -> dict[str, int]:
    return {"spent": round(reply.cost * MICRO)} if reply.cost else {}


def pause_s(reply: WorkerReply) -> int:
    """Return for how long a provider that limits its rate is to be left alone."""
    return max(1, reply.retry_after_s or PAUSE_S)
