"""Data and payloads with which every row of every machine can be followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.systems.jobs.machines.graph.table import GRAPH
from interlock.systems.jobs.machines.job.table import JOB
from interlock.systems.loops.machines.loop.table import LOOP
from interlock.systems.runs.machines.codon.table import CODON
from interlock.systems.runs.machines.run.table import RUN
from interlock.systems.runs.machines.workspace.table import WORKSPACE
from interlock.systems.tasks.machines.agent.table import AGENT
from interlock.systems.tasks.machines.identity.table import IDENTITY
from interlock.systems.tasks.machines.task.changes import initial_data as new_task
from interlock.systems.tasks.machines.turn.table import TURN
from interlock.systems.threads.machines.thread.changes import initial_data
from interlock.systems.webhooks.machines.delivery.table import DELIVERY

Data = Mapping[str, Any]

LOW = {"irreversibility": "low", "regret_potential": "low", "risk_amplifier": False}
DECLARED = {**LOW, "idempotent": True}
CALL = {"capability": "notes.append", "parameters": {"text": "x"}}
INCITING = {"title": "Call the dentist", "text": "Tooth hurts"}


def thread(policy: str = "plan_then_review", **more: Any) -> Data:
    """Return the data of a new thread."""
    return initial_data({"inciting": INCITING, "policy": policy} | more)


def action(kind: str = "standard", **more: Any) -> dict[str, Any]:
    """Return the payload of a proposed action."""
    return {"kind": kind, **CALL, **LOW, **more}


def proposal(payload: Data, confidence: float = 0.9) -> dict[str, Any]:
    return {"payload": payload, "confidence": confidence}


def proposed(payload: Data, confidence: float = 0.9, **more: Any) -> dict[str, Any]:
    """Return the payload of a finished inference."""
    return {"proposal": proposal(payload, confidence), **more}


def threads() -> tuple[Data, ...]:
    ready = {"id": "action-1", "declared": DECLARED, **proposal(action())}
    reviewed = {**ready, "declared": {**DECLARED, "requires_post_review": True}}
    held = {**thread(hold=True), "target": "intent", "proposals": {"action": ready}}
    cleared = {**thread(), "target": "action", "proposals": {"action": {**ready, "cleared": True}}}
    failed = {**thread("end_to_end"), "target": "action", "proposals": {"action": ready}}
    failed["turned_down"] = [{**CALL, "why": "it failed: no ink"}]
    return (
        held,
        cleared,
        failed,
        *(
            {**thread(policy), "target": target, "proposals": proposals, "relationship": together}
            for policy in ("end_to_end", "ask_every_step")
            for target in ("intent", "context", "action")
            for proposals in ({"action": ready}, {"action": reviewed})
            for together in ("decompose", "singular")
        ),
    )


def tasks() -> tuple[Data, ...]:
    """Return tasks that differ in everything that their guards ask."""
    claim = {"owner": "here", "identity": "any/make", "number": 1}
    work = {"title": "mend it", "repo": "/r", "agent": "make"}
    new = new_task({**work, "stage_failures": True, "plan": "p"})
    fresh = {**new, "blocked_on": {"kind": "text", "on": "a key"}}
    worn = {**fresh, "claims": 20, "crashes": 3, "retries": 3, "given_up": True}
    asks = {**fresh, "needs_approval": True}
    waits = {**fresh, "blocked_on": {"kind": "task", "on": "other"}}
    split = {**fresh, "blocked_on": {"kind": "subtasks", "on": "its subtasks"}}
    merges = {**fresh, "merging": True}
    kinds = (fresh, worn, asks, waits, split, merges)
    return tuple({**data, "claim": claim, "claimed": 1} for data in kinds)


def agents() -> tuple[Data, ...]:
    """Return a new agent."""
    return (AGENT.initial_data({"name": "a", "role": "any", "command": "make", "task": "b/t"}),)


def loops() -> tuple[Data, ...]:
    """Return agents: a new one, one at its last try, one whose host is gone, one that parks."""
    new = LOOP.initial_data({"repo": "/r", "command": "work", "host": "here"})
    cooled = {**new, "cooling_ms": 2_000, "claimed": "5-1", "claimed_ahead": [], "letters": []}
    gone = {**cooled, "unbegun": 1}
    worn = {**cooled, "consecutive_errors": 4, "total_errors": 4, "overdue": 2}
    return cooled, worn, gone, {**cooled, "parks": True}


def deliveries() -> tuple[Data, ...]:
    """Return deliveries: one that failed once, and one that failed as often as it may."""
    fields = {"endpoint": "chat", "kind": "record.ended", "record": "one", "machine": "thread"}
    failed = {**DELIVERY.initial_data({**fields, "at_ms": 1}), "failures": 1, "wait_ms": 5_000}
    return failed, {**failed, "failures": 9}


def identities() -> tuple[Data, ...]:
    """Return a new identity, and one with a long record."""
    new = IDENTITY.initial_data({"name": "agent", "role": "any", "command": "make"})
    return new, {**new, "successes": 20}


PHASES = tuple({"name": name, "worker": {"command": "true"}} for name in ("build", "test"))
EVIDENCE = {"path": "out/log.txt", "sha256": "0" * 64, "bytes": 7}


def job(**given: Any) -> Data:
    """Return the data of a new job."""
    return JOB.initial_data({"phases": list(PHASES), **given})


def jobs() -> tuple[Data, ...]:
    """Return jobs that differ in everything that their guards ask."""
    fresh = {**job(), "slots": ["g"], "failure": {"code": "stuck", "detail": "no key"}}
    worn = {"met": True, "recoveries": 3, "retries": 5}
    return (
        fresh,
        {**fresh, "met": True},
        {**fresh, **worn},
        {**fresh, **worn, "unbegun": 8},
        {**fresh, "met": True, "retries": 1, "backoff_ms": 60_000},
        {**fresh, "lost": {"g/a": "canceled"}},
        {**fresh, **job(on_cancel="cancel")},
        {**fresh, "met": True, "time_left_ms": 60_000, "paused_s": 60, "auto_approve": True},
        {**fresh, "met": True, "suspended_s": 60},
        {**fresh, **job(hold=True, stewards=["ann", "bob"]), "phase": 1},
        {**fresh, **job(manual=True), "met": True},
    )


def graphs() -> tuple[Data, ...]:
    """Return a graph with a limit of each kind."""
    limits = {"cost_micro": 5_000_000, "time_s": 60, "iterations": 9}
    return (GRAPH.initial_data({"slots": 2, "limits": limits}),)


TOKENS = {
    "input_tokens": 1_500,
    "output_tokens": 800,
    "cache_creation_tokens": 30,
    "cache_read_tokens": 7,
}
SENTINEL = {"id": "watch", "model": "small", "loaded_at": 5, "llm_call_count": 2, "total_cost": 9}
FAILURE = {"type": "timeout", "retriable": True, "message": "too slow"}
RUN_BIRTH = {"plan": {"codons": [{"id": "clean"}]}, "folder": "/data", "host": "here"}


def codons() -> tuple[Data, ...]:
    """Return a codon at work, and one whose final cost is set."""
    at_work = {
        **CODON.initial_data({"codon_id": "clean"}),
        "pid": 7,
        "log_path": "clean.log",
        "session_id": "s",
        "current_cost": 12,
        "current_tokens": TOKENS,
        "assistant_message_count": 1,
        "sentinels": {"loaded": [SENTINEL], "total_cost": 9},
    }
    return at_work, {**at_work, "final_cost_set": True}


REASON: Sequence[Data] = ({"reason": "so it is"},)
SAMPLES: dict[str, tuple[Sequence[Data], Mapping[str, Sequence[Data]]]] = {
    "thread": (
        threads(),
        {
            "inference_started": ({"model": "embedded"},),
            "inference_done": (
                proposed({"intent": "see a dentist"}),
                proposed({"item_ids": ["a"]}),
                proposed(action(), declared=DECLARED),
                proposed(action("clarification")),
            ),
            "inference_failed": ({"code": "timeout"},),
            "budget_exceeded": ({"estimate_micro": 5},),
            "edited": (
                {"intent": "do nothing"},
                {"item_ids": []},
                {"capability": "notes.append", "parameters": {}},
            ),
            "redirected": ({"feedback": "no"},),
            "provided": (
                {"text": "tomorrow"},
                {"capability": "notes.append"},
                {"capability": "notes.append", "parameters": {"text": "y"}},
            ),
            "rejected": ({"reason": "no"},),
            "execution_done": ({"result": 1, "run": "2.0:x"},),
            "execution_failed": ({"code": "deadline"},),
            "decomposed": ({"children": [{"title": "one"}]},),
            "children_done": ({"tally": {"done": 1}}, {"tally": {"dismissed": 2}}),
            "cancel_requested": ({"reason": "stop"},),
            "cancel_confirmed": ({"reason": "stopped"},),
            "cleanup_succeeded": ({"detail": "gone"},),
            "cleanup_failed": ({"code": "cleanup"},),
            "handed_off": ({"to": "Ann", "kind": "person", "reference": "mail 7"},),
            "dismissed_by_user": ({"reason": "no"},),
            "parent_force_close": ({"reason": "closing"},),
        },
    ),
    "task": (
        tasks(),
        {
            "failed": REASON,
            "released": REASON,
            "requeued": REASON,
            "cancelled": REASON,
            "claimed": ({"owner": "here", "identity": "any/make"},),
            "completed": ({"summary": "mended"},),
            "blocked": ({"on": "b/other", "kind": "task"}, {"on": "a key"}),
            "split": ({"subtasks": [{"title": "one"}]},),
            "subtasks_ended": ({"tally": {"closed": 2}}, {"tally": {"failed": 1}}),
            "subtasks_checked": ({"tally": {"closed": 2}}, {"tally": {"failed": 1}}),
            "verified": ({"commit": "abc"},),
            "merged": ({"commit": "def"},),
            "target_freed": ({}, {"commit": "def"}),
            "recovered": ({"commit": "abc"},),
            "child_cancelled": ({"child": "b/t/2.1"},),
            "starved": REASON,
        },
    ),
    "identity": (
        identities(),
        {name: ({"task": "b/t"},) for name in ("succeeded", "failed", "violated")},
    ),
    "agent": (
        agents(),
        {
            "ended": ({"exit_code": -9, "abort": "oom"},),
            "spawn_failed": ({"reason": "no such command"},),
            "task_assigned": ({"task": "b/u"},),
            "confirmed_alive": ({"pid": 7, "containment": "tree", "host": "here"},),
            "tool_aborted": ({"reason": "it hangs"},),
            "siblings_aborted": ({},),
        },
    ),
    "job": (
        jobs(),
        {
            "dependencies_met": ({"tally": {"success": 2}},),
            "dependency_lost": ({"dependency": "g/b", "state": "canceled"},),
            "dependency_waived": ({"dependency": "g/a"}, {}),
            "slot_awaited": ({"slots": ["g"]},),
            "scheduled": ({"slots": ["g"], "time_left_ms": 60_000},),
            "phase_completed": ({"summary": "built", "evidence": [EVIDENCE]},),
            "agent_completed": ({"summary": "tested"},),
            "stuck": ({"code": "stuck", "detail": "which key?"},),
            "retry": ({"retry_after_s": 60},),
            "recovered": ({"code": "lost_worker"}, {"code": "unbegun"}),
            "pause": ({"for_s": 60},),
            "limit_reached": ({"limit": "cost", "used": 2.5, "allowed": 2},),
            "review_completed": (
                {"verdict": "approval_required"},
                {"verdict": "intervention_required", "reasons": ["it fails"]},
            ),
            "reject": REASON,
            "resubmit": ({"phase": "build", "limits": {"iterations": 9}},),
            "force_success": REASON,
            "restep": ({"phase": "build"},),
        },
    ),
    "loop": (
        loops(),
        {
            "worktree_ready": ({"host": "here", "worktree": "/w", "branch": "b"}, {}),
            "prompt_ready": (
                {"prompt": "p.md", "digest": "0" * 64, "claimed": "5-1", "letters": ["5-1"]},
            ),
            "session_started": ({"session_seq": 1},),
            "session_succeeded": ({"exit_code": 0, "ran_s": 2.5},),
            "session_error": (
                {"exit_code": 3, "detail": "it broke"},
                {"detail": "slow down", "retry_after_s": 90},
            ),
            "session_timeout": ({}, {"unbegun": True}),
            "fatal_error": ({"detail": "no repository"},),
            "overdue": ({}, {"unbegun": True}),
        },
    ),
    "delivery": (
        deliveries(),
        {
            "delivered": ({"status": 204},),
            "failed": (
                {"detail": "it answered 503", "status": 503, "retry_after_s": 60},
                {"detail": "it answered 410", "status": 410, "gone": True},
            ),
            "replay": ({}, REASON[0]),
            "dropped": REASON,
        },
    ),
    "graph": (
        graphs(),
        {
            "limit_reached": (
                {"limit": "cost", "used": 5.25, "allowed": 5},
                {"limit": "time", "used": 61, "allowed": 60},
            ),
            "raise_limits": ({"limits": {"cost_micro": 9_000_000}},),
            "configure": ({"slots": 3},),
        },
    ),
    "turn": (
        (TURN.initial_data({"task": "b/t", "number": 1}),),
        {
            "task_failed": ({"reason": "no"},),
            "tool_started": ({"tool": "bash"},),
            "tool_completed": ({"tool": "bash", "success": True},),
        },
    ),
    "workspace": (
        (WORKSPACE.initial_data({"folder": "/data", "host": "here"}),),
        {"event_read": ({"upto": "7-0"},), "close": REASON},
    ),
    "run": (
        (RUN.initial_data(RUN_BIRTH),),
        {
            "complete": ({}, {"reason": "all is done", "codon": "clean"}),
            "fail": REASON,
            "crash": ({"code": "lost_worker"},),
            "initial_checkpoint_set": ({"sha": "abc", "left_out": ["big.bin"]},),
            "stop_requested": REASON,
        },
    ),
    "codon": (
        codons(),
        {
            "start": ({"checkpoint_sha": "abc"}, {}),
            "initialize": ({"pid": 7, "log_path": "clean.log", "previous_session_id": "r"},),
            "run": ({"session_id": "s"},),
            "complete": ({"checkpoint_sha": "def", "result_message_received": True},),
            "fail": ({"exit_code": -1, "failure_reason": FAILURE, "checkpoint_sha": "abc"},),
            "skip": ({"checkpoint_sha": "abc"}, {}),
            "costs_updated": ({"cost": 23_400, "tokens": TOKENS},),
            "costs_incremented": ({"cost_delta": 1_200, "tokens_delta": TOKENS},),
            "codon_final_cost_set": ({"final_cost": 24_600, "final_tokens": TOKENS},),
            "assistant_message_count_updated": ({"new_count": 3},),
            "sentinel_states_updated": ({"sentinel_states": [SENTINEL]},),
            "checkpoint_created": (
                {"checkpoint_type": "rig-setup", "sha": "abc", "branch": "run-1"},
            ),
            "skip_requested": REASON,
            "lost": ({"code": "lost_worker", "detail": "gone"},),
            "run_ended": REASON,
        },
    ),
}
