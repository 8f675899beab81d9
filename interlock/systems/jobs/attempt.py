"""Runs a job's worker or reviewer once: a command, a capability or a model. Checks its reply."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

from interlock import CallError, EffectWork, Failed, Outcome, OverBudgetError, Succeeded, amounts
from interlock.system.models import CapabilityCall, Unanswered, open_model
from interlock.system.settings import SettingsError
from interlock.system.text import one_line
from interlock.systems.jobs.brief import brief_of, write_brief
from interlock.systems.jobs.command_run import LATE_REPLY_LENGTH_MAX, CommandRun
from interlock.systems.jobs.machines.job.data import ExecutorData, JobData
from interlock.systems.jobs.machines.job.limits import RETRY_AFTER_S_MAX
from interlock.systems.jobs.machines.job.names import Trigger
from interlock.systems.jobs.model import question_of
from interlock.systems.jobs.reply import (
    PAUSE_S_DEFAULT,
    ReplyAction,
    ReplyError,
    ReviewReply,
    WorkerReply,
    parse,
    read_reply,
)
from interlock.systems.jobs.slots import graph_of
from interlock.systems.jobs.usage import (
    GRAPH,
    LimitUsage,
    halt_graph,
    note_warnings,
    time_left_ms,
    usages_of_job,
)

WORKER, REVIEWER = "worker", "reviewer"
# By convention 75 (EX_TEMPFAIL) is a failure that may pass, and 124 a time limit of `timeout`.
RETRY_EXIT_CODES = (75, 124)
OUTPUT_LENGTH_MAX, OUTPUT_BYTES_READ = 800, 16 * 1024
RESULT_FILE = "result.md"
MATERIAL_BYTES_MAX = 64_000  # of each file that a model is given


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The reply of a worker or reviewer, and the costs. `invalid` is the fault of a bad reply."""

    reply: WorkerReply
    deltas: Mapping[str, int]
    invalid: str = ""


class LimitReachedError(Exception):
    """Too little is left of a limit, so nothing was started. `usage` is that of the limit."""

    def __init__(self, usage: LimitUsage) -> None:
        self.usage = usage
        super().__init__(f"the {usage.owner}'s limit of {usage.limit}")


async def run_attempt(
    work: EffectWork[JobData], executor: ExecutorData, role: str, folder: Path
) -> AttemptResult:
    """Run a job's worker or reviewer once. Raises LimitReachedError before anything is spent."""
    await asyncio.to_thread(check_limits, work, role)
    try:
        if estimate := int(executor["cost_micro"]):
            await asyncio.to_thread(partial(work.reserve, spent=estimate))
        return await _run(work, executor, role, folder)
    except OverBudgetError as refused:
        costs = [
            usage
            for usage in await asyncio.to_thread(_limits_of_spending, work)
            if usage.limit == "cost"
        ]
        tightest = min(costs, key=lambda usage: usage.allowed - usage.used)
        raise LimitReachedError(tightest) from refused


async def _run(
    work: EffectWork[JobData], executor: ExecutorData, role: str, folder: Path
) -> AttemptResult:
    if executor.get("capability"):
        return await _run_capability(work, executor, role)
    brief = await asyncio.to_thread(brief_of, work.records, work.record, role)
    if executor.get("command"):
        try:
            return await _run_command(work, executor["command"], role, folder, brief)
        except OSError as refusal:
            why = f"it could not be started: {refusal.strerror or refusal}: {refusal.filename}"
            model = _reply_model(role)
            return AttemptResult(model(action=ReplyAction.STUCK, summary=one_line(why)), {})
    return await _run_model(work, executor["model"], role, folder, brief)


def check_limits(work: EffectWork[JobData], role: str) -> None:
    """Check the limits again before an attempt, and start its timers. Raises LimitReachedError.

    Since the job was scheduled it may have been paused, or have finished a phase. The time limit
    counts from here, because the job may have waited for a free worker until now. The start of an
    attempt is a sign of life.
    """
    record, found = work.record, _limits_of_spending(work)
    note_warnings(work, found)
    for usage in found:
        if usage.reached:
            raise LimitReachedError(usage)
    silence_ms = record.data["running_s" if role == WORKER else "reviewing_s"] * 1_000
    left_ms = time_left_ms(found)
    timers = {"stall": silence_ms} | ({} if left_ms is None else {"limit": left_ms})
    detail = {"effect": work.lease.suffix, "began": role}
    held = (work.lease.suffix, work.lease.token)
    work.records.note(record, "sign_of_life", detail, timers=timers, held=held)


def stop_or_halt(work: EffectWork[JobData], refused: LimitReachedError) -> Outcome:
    """Return the outcome for a job at a limit; at a limit of its graph, halt the graph instead."""
    graph, usage = graph_of(work.records, work.record), refused.usage
    if usage.owner != GRAPH or graph is None:
        payload = {"of": usage.owner, **usage.payload()}
        return Outcome(Trigger.LIMIT_REACHED, payload)
    halt_graph(work, graph, usage)
    # The graph asks its steward; this job is tried again when the limit has been raised.
    return Outcome(Trigger.RETRY, {"summary": f"{refused} is reached"})


def elapsed_ms(began: float) -> int:
    """Return the time since `began`, at least 1 ms."""
    return max(1, round((time.monotonic() - began) * 1_000))


def book_stopped_time(work: EffectWork[JobData], began: float) -> None:
    """Book the time of an attempt that was stopped, because that time was used as well."""
    work.spend(time_ms=elapsed_ms(began))


def _limits_of_spending(work: EffectWork[JobData]) -> list[LimitUsage]:
    """Return the usage of money and time by now. Runs are counted when they are scheduled."""
    record = work.records.views.record(work.record.id)
    found = usages_of_job(record, graph_of(work.records, record))
    return [usage for usage in found if usage.limit != "iterations"]


def _reply_model(role: str) -> type[WorkerReply]:
    return ReviewReply if role == REVIEWER else WorkerReply


async def _run_command(
    work: EffectWork[JobData], command: str, role: str, folder: Path, brief: Mapping[str, Any]
) -> AttemptResult:
    run = CommandRun(work, role, folder)
    await asyncio.to_thread(write_brief, run.run_folder, brief)
    task = asyncio.ensure_future(asyncio.to_thread(run.run, command))
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue  # the run sees the order to stop itself, and ends when its command has ended
    model = _reply_model(role)
    try:
        code = task.result()
    except asyncio.CancelledError:
        await asyncio.to_thread(_book_late_cost, work, model, run.reply)
        raise
    try:
        reply = read_reply(model, run.reply)
    except ReplyError as refusal:
        return _invalid(model, f"its reply is invalid: {refusal}")
    if reply is not None:
        return AttemptResult(reply, _deltas_of_reply(reply))
    printed = run.last_output(OUTPUT_BYTES_READ)
    output = work.records.redaction.text(printed)[-OUTPUT_LENGTH_MAX:]
    if code == 0:
        return AttemptResult(_reply_of_output(model, output), {})
    how = one_line(f"exit code {code}: {output or 'no output'}", length_max=1_000)
    action = ReplyAction.RETRY if code in RETRY_EXIT_CODES else ReplyAction.STUCK
    return AttemptResult(model(action=action, summary=how), {})


def _book_late_cost(work: EffectWork[JobData], model: type[WorkerReply], file: Path) -> None:
    """Book the cost in the reply of a command that was stopped before it replied."""
    with suppress(ReplyError):
        reply = read_reply(model, file)
        if reply is not None and reply.cost:
            work.spend(**_deltas_of_reply(reply))


async def _run_capability(
    work: EffectWork[JobData], executor: ExecutorData, role: str
) -> AttemptResult:
    model, name = _reply_model(role), executor["capability"]
    try:
        call = await asyncio.to_thread(CapabilityCall, work, name, executor["parameters"])
    except CallError as refusal:
        return AttemptResult(model(action=ReplyAction.STUCK, summary=one_line(str(refusal))), {})
    result = await call.run()
    if call.was_stopped:
        await asyncio.to_thread(_book_late_result, work, role, result)
        raise asyncio.CancelledError
    match result:
        case Failed() as failed:
            again = failed.code in ("unavailable", "deadline") and call.capability.idempotent
            action = ReplyAction.RETRY if again else ReplyAction.STUCK
            return AttemptResult(model(action=action, summary=one_line(failed.detail)), {})
        case Succeeded() as succeeded:
            return _result_of_value(model, succeeded.value)
        case _:
            return _invalid(model, f"{name} splits its work, which a job does not")


def _book_late_result(work: EffectWork[JobData], role: str, result: object) -> None:
    """Note the result of a capability that was to be stopped, and book the cost that it reports."""
    if not isinstance(result, Succeeded):
        return
    reply = json.dumps(result.value, ensure_ascii=False)[:LATE_REPLY_LENGTH_MAX]
    work.audit("late_reply", {"role": role, "reply": reply})
    attempt = _result_of_value(_reply_model(role), result.value)
    if attempt.deltas:
        work.spend(**attempt.deltas)


def _result_of_value(model: type[WorkerReply], value: object) -> AttemptResult:
    """Return the result of a capability: its value is a reply, or the summary of a success."""
    if isinstance(value, Mapping) and "action" in value:
        try:
            reply = parse(model, value)
        except ReplyError as refusal:
            return _invalid(model, f"its reply is invalid: {refusal}")
        return AttemptResult(reply, _deltas_of_reply(reply))
    output = "" if value is None else json.dumps(value, ensure_ascii=False)
    return AttemptResult(_reply_of_output(model, output), {})


async def _run_model(
    work: EffectWork[JobData], prompt: str, role: str, folder: Path, brief: Mapping[str, Any]
) -> AttemptResult:
    shape = _reply_model(role)
    model = work.resources.get(open_model)
    if model is None:
        why = "no model can answer: set INTERLOCK_MODEL to a language model"
        return AttemptResult(shape(action=ReplyAction.STUCK, summary=why), {})
    material = await asyncio.to_thread(_material, brief)
    question = question_of(model, prompt, material, reviews=role == REVIEWER)
    try:
        found = await work.ask(question, timeout_s=work.records.settings.model_timeout_s)
    except SettingsError as unknown:  # the price, under a limit of costs
        return AttemptResult(shape(action=ReplyAction.STUCK, summary=str(unknown)), {})
    deltas = found.deltas
    if isinstance(found, Unanswered):
        return AttemptResult(_reply_of_failure(shape, found), deltas)
    answer = found.answer.model_dump(mode="json")
    if role == REVIEWER:
        try:
            return AttemptResult(parse(shape, {"action": "COMPLETED", **answer}), deltas)
        except ReplyError as refusal:
            return replace(_invalid(shape, f"its answer is invalid: {refusal}"), deltas=deltas)
    files: list[str] = []
    if answer["result"]:
        await asyncio.to_thread((folder / RESULT_FILE).write_text, answer["result"], "utf-8")
        files = [RESULT_FILE]
    reply = {"action": answer["action"], "summary": answer["summary"], "evidence_files": files}
    return AttemptResult(parse(shape, reply), deltas)


def _reply_of_failure(shape: type[WorkerReply], failed: Unanswered) -> WorkerReply:
    limited = failed.retry_after_s is not None
    # Wait as long as the provider says, up to RETRY_AFTER_S_MAX.
    after = min(max(1, ceil(failed.retry_after_s or 0)), RETRY_AFTER_S_MAX) if limited else None
    detail = one_line(failed.detail)
    return shape(
        action=ReplyAction.RETRY, summary=detail, retry_after_s=after, rate_limited=limited
    )


def _material(brief: Mapping[str, Any]) -> dict[str, str]:
    """Return the material for a model: the brief, and the texts of all evidence."""
    fields = {k: v for k, v in brief.items() if k not in ("evidence", "dependencies")}
    found = {"job": json.dumps(fields, ensure_ascii=False, indent=1)}
    files = {f"evidence {file['name']}": file for file in brief["evidence"]}
    for name, other in brief["dependencies"].items():
        found[f"dependency {name}"] = other["summary"]
        files |= {f"dependency {name} {file['name']}": file for file in other["evidence"]}
    for name, file in files.items():
        try:
            content = Path(file["path"]).read_bytes()[:MATERIAL_BYTES_MAX]
        except OSError:
            found[name] = "it is on another computer"
            continue
        found[name] = content.decode(errors="replace")
    return found


def _reply_of_output(model: type[WorkerReply], output: str) -> WorkerReply:
    """Return the reply of a worker or reviewer that succeeded and wrote no reply itself."""
    fields: dict[str, Any] = {"action": ReplyAction.COMPLETED}
    fields["summary"] = one_line(output, length_max=1_000)
    if model is ReviewReply:
        fields["verdict"] = "APPROVAL_REQUIRED"
    return model.model_validate(fields)


def _invalid(model: type[WorkerReply], why: str) -> AttemptResult:
    fault = one_line(why, length_max=1_000)
    return AttemptResult(model(action=ReplyAction.STUCK, summary=fault), {}, invalid=fault)


def _deltas_of_reply(reply: WorkerReply) -> dict[str, int]:
    return amounts(reply.cost) if reply.cost else {}


def rate_limit_pause_s(reply: WorkerReply) -> int:
    """Return how long a job is paused after a provider's rate limit."""
    return max(1, reply.retry_after_s or PAUSE_S_DEFAULT)
