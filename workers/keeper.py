"""Keeps one agent's process: leases, orders, reports, its end. It outlives whoever started it.

`python -m workers.keeper BRIEF`. The command returns when both leases are taken over; what keeps
the agent goes on in a process of its own. It decides nothing: tables do, and orders come from them.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from kernel.effect import AGENT, SUPERVISION, Effect
from kernel.errors import CallError, FencedError, KernelError, StoreError
from kernel.machines import MACHINES
from kernel.reason import AbortReason, TransitionReason, abort_reason
from kernel.store.plan import Jot
from workers.agent_process.process import AgentProcess, Exit, Logs, SpawnError
from workers.agent_report import AgentStream, Blocked, Failed, Split
from workers.agent_streams import STREAMS
from workers.app import make_app
from workers.brief import Brief, read_brief
from workers.claimed_work import IDENTITY
from workers.config import PREFIX, Settings, read_settings
from workers.dispatch import Dispatch
from workers.equipment import Equipment
from workers.gateways.git.changes import commit_all
from workers.gateways.git.errors import GitError
from workers.gateways.git.repository import Repository
from workers.gateways.git.worktree import Worktree
from workers.heartbeat import Heartbeat
from workers.turn_monitor import TurnMonitor
from workers.work import Outcome, Work

log = logging.getLogger(__name__)

LOOK_S = 0.1
LIFE_S = 1.0
PROGRESS_NOTE_S = 5.0
GRACE_S = 10.0
END_S = 60.0
SUMMARY_LENGTH_MAX = 8_000
REASON_LENGTH_MAX = 2_000


class Keeper:
    """One agent at work on one claim of a task."""

    def __init__(self, brief: Brief, dispatch: Dispatch) -> None:
        self.brief, self.dispatch = brief, dispatch
        self.own: AgentStream = STREAMS["interlock"]()
        self.stream: AgentStream = STREAMS[brief.stream]()
        equipment = Equipment(dispatch.settings)
        self.task = self._adopted("task", AGENT, brief.task_key, brief.task_token, equipment)
        self.agent = self._adopted(
            "agent", SUPERVISION, brief.agent_key, brief.agent_token, equipment
        )
        self.alive = False
        self.noted_at = 0.0
        self.progressed = 0.0
        self.monitor = TurnMonitor(dispatch, brief.turn, self.agent.record)

    def _adopted(
        self, machine: str, effect: Effect, key: str, token: str, equipment: Equipment
    ) -> Work:
        asked_at = time.monotonic()
        effect = self.dispatch.effect(machine, effect.name)
        lease = self.dispatch.leases.adopt(
            key,
            effect,
            token,
            nonce=uuid4().hex[:8],
            holder=f"{self.dispatch.holder}:{os.getpid()}",
        )
        return Work(
            self.dispatch,
            equipment,
            MACHINES[machine],
            lease,
            lease_ms=effect.lease_ms,
            asked_at=asked_at,
        )

    @property
    def record_id(self) -> str:
        """Return the task's id."""
        return self.task.record.id

    def keep(self) -> None:
        """Run the agent to its end, and tell what became of it."""
        shortest_s = min(self.task.held.lease_ms, self.agent.held.lease_ms) / 1_000
        heartbeat = Heartbeat(lambda: self.dispatch.leases, lease_s=shortest_s, begin=lambda: None)
        for work in (self.task, self.agent):
            heartbeat.hold(work.held)
        try:
            process = self._started()
        except (SpawnError, OSError) as refusal:
            self._never_began(str(refusal), final=isinstance(refusal, SpawnError))
            return
        with process:
            ended = self._followed(process)
        self._conclude(ended)

    def _started(self) -> AgentProcess:
        data, brief = self.task.record.data, self.brief
        papers = Path(brief.papers)
        prompt = f"{data['title']}\n\n{data['text']}".rstrip() + "\n"
        (papers / "task.md").write_text(prompt, "utf-8")
        own = {
            "TASK_ID": self.record_id,
            "TASK_TITLE": data["title"],
            "TASK_TEXT": data["text"],
            "TASK_ROLE": data["role"],
            "TASK_FILE": str(papers / "task.md"),
            "KEY": self.task.key,
            "TOKEN": self.task.lease.token,
            "WORKTREE": brief.worktree,
            "BRANCH": brief.branch,
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        return AgentProcess.start(
            ["bash", "-c", brief.command],
            folder=Path(brief.worktree),
            environment={**kept, **{f"{PREFIX}{name}": value for name, value in own.items()}},
            prompt=prompt,
            more_follows=False,
            hears_output=brief.stream != "plain",
            logs=Logs(
                papers / "output.log",
                papers / "errors.log",
                self.dispatch.settings.agent_log_bytes_max,
            ),
            mark=self.agent.key,
            kill_by=self._kill_by(),
        )

    def _kill_by(self) -> float:
        """Return when all must be dead if nothing is renewed any more, on this machine's clock."""
        graces = [(self.task.held, AGENT.grace_ms), (self.agent.held, SUPERVISION.grace_ms)]
        return min(held.good_until + grace / 2_000 for held, grace in graces)

    def _followed(self, process: AgentProcess) -> Exit:
        began, armed = time.monotonic(), 0.0
        while True:
            ended = process.wait(LOOK_S)
            self._hear(process)
            if ended is not None:
                return ended
            now = time.monotonic()
            if self._kill_by() > armed + 1:
                armed = self._kill_by()
                process.arm(armed)
            if not self.alive and (process.progress > began or now > began + LIFE_S):
                self._confirm()
            self._note_progress(process.progress, now)
            if self._ordered_to_stop():
                process.end(self._why_stopped(), grace_s=GRACE_S)

    def _ordered_to_stop(self) -> bool:
        ordered = any(work.stopped.is_set() for work in (self.task, self.agent))
        return ordered or self.monitor.told is not None

    def _why_stopped(self) -> str:
        if self.monitor.told:
            return AbortReason.SHUTDOWN_SIGNAL
        try:
            task, agent = (
                self.dispatch.views.record(work.record.id) for work in (self.task, self.agent)
            )
        except KernelError:
            return AbortReason.SHUTDOWN_SIGNAL
        told = [record.data.get(name) or {} for record, name in ((task, "failure"), (agent, "end"))]
        aborts = [one["abort"] for one in told if one.get("abort")]
        return str(aborts[0] if aborts else AbortReason.SHUTDOWN_SIGNAL)

    def _confirm(self) -> None:
        """Tell that the process lives; it has not only been forked."""
        self.alive = True
        with suppress(KernelError):
            self.agent.fire(Outcome("confirmed_alive"))
        with suppress(KernelError):
            self.task.fire(Outcome("started"))
        self.monitor.turn("agent_spawned")

    def _note_progress(self, at: float, now: float) -> None:
        if not self.alive or at <= self.progressed or now < self.noted_at + PROGRESS_NOTE_S:
            return
        self.progressed, self.noted_at = at, now
        limit_ms = int(self.agent.record.data["progress_limit_s"]) * 1_000
        jot = Jot("progress", {}, timers=(("progress", limit_ms, 0),))
        with suppress(KernelError):
            self.dispatch.note(self.agent.record, jot, warrant=self.agent.warrant)

    def _hear(self, process: AgentProcess) -> None:
        told = [self.own.feed(line) for line in process.reports()]
        if self.brief.stream != "plain":
            told += [self.stream.feed(line) for line in process.output_lines()]
        if told and not self.alive:
            self._confirm()
        for reports in told:
            self.monitor.feed(reports)

    # --- the end -------------------------------------------------------------------------------

    def _never_began(self, reason: str, *, final: bool) -> None:
        told = {"reason": reason, "code": "spawn_error", "why": TransitionReason.ABORTED}
        self._tell(self.task, Outcome("failed", {**told, "final": final}))
        self._tell(self.agent, Outcome("spawn_failed", told))
        self.monitor.turn("task_failed", **told)

    def _conclude(self, ended: Exit) -> None:
        abort = abort_reason(ended.code, killed_by_us=_ours(ended.reason_by_us))
        outcome = self._outcome(ended, abort)
        if outcome.trigger == "completed":
            self.monitor.finish()
        else:
            failed = {k: v for k, v in outcome.payload.items() if k in ("reason", "why", "abort")}
            self.monitor.turn("task_failed", **failed)
        self._tell(self.task, outcome)
        end = {
            "exit_code": ended.code,
            "abort": abort,
            "why": TransitionReason.ABORTED if abort else TransitionReason.COMPLETED,
            "left_behind": ended.left_behind,
            "detail": ended.errors[-2_000:],
        }
        end = {name: value for name, value in end.items() if value is not None}
        fast = {**end, "reason": "it ended before it gave a sign of life"}
        told = Outcome("ended", end) if self.alive else Outcome("spawn_failed", fast)
        self._tell(self.agent, told)

    def _outcome(self, ended: Exit, abort: AbortReason | None) -> Outcome:
        match self.monitor.told:
            case Blocked(task=str(task)):
                return Outcome("blocked", {"on": task, "kind": "task"})
            case Blocked(text=text):
                return Outcome("blocked", {"on": str(text)[:REASON_LENGTH_MAX], "kind": "text"})
            case Split(subtasks=parts):
                listed = [{"title": one.title, "text": one.text} for one in parts]
                return Outcome("split", {"subtasks": listed})
            case Failed(error=error, reason=why):
                return Outcome("failed", {"reason": error[:REASON_LENGTH_MAX], "why": why})
        if abort is not None:
            last = (ended.errors or ended.output).strip().rpartition("\n")[2][-500:]
            reason = f"its agent ended with {abort}, exit code {ended.code}: {last or 'no word'}"
            why = TransitionReason.ABORTED
            return Outcome("failed", {"reason": reason, "abort": abort, "why": why})
        if not self.alive:
            self._confirm()
        return self._completed(ended)

    def _completed(self, ended: Exit) -> Outcome:
        """Keep the work in a commit before anybody is told that it is done."""
        brief = self.brief
        try:
            repository = Repository.open(Path(brief.repo))
            tree = Worktree(brief.branch, Path(brief.worktree), brief.base, present=True)
            message = f"{self.task.record.data['title']}\n\nTask: {self.record_id}\n"
            commit_all(repository, tree, message=message, identity=IDENTITY)
        except (GitError, OSError) as refusal:
            reason = f"its work cannot be committed: {refusal}"[:REASON_LENGTH_MAX]
            return Outcome("failed", {"reason": reason})
        said = (self.monitor.summary.strip() or ended.output.strip())[-SUMMARY_LENGTH_MAX:]
        summary = said or "the agent ended well and said nothing"
        where = {"branch": brief.branch, "worktree": brief.worktree, "took_s": ended.wall_s}
        return Outcome("completed", {"summary": summary, **where})

    def _tell(self, work: Work, outcome: Outcome) -> None:
        payload = {name: value for name, value in outcome.payload.items() if value is not None}
        reason = str(payload.get("reason", ""))
        try:
            work.fire(Outcome(outcome.trigger, payload, reason=reason))
        except FencedError:
            # It was taken away meanwhile: that it is over is all there is left to say.
            with suppress(KernelError):
                self.dispatch.leases.settle(work.lease, self.dispatch.render)
        except CallError as refusal:
            # What the agent told does not fit: said so, it costs a try and not the keeper.
            told = {"reason": f"its report is refused: {refusal}"[:REASON_LENGTH_MAX]}
            trigger = "failed" if work is self.task else "ended"
            with suppress(KernelError):
                work.fire(Outcome(trigger, told, reason=told["reason"]))
        except StoreError:
            log.exception("%s was not told %s, the store was away", work.key, outcome.trigger)


def _ours(reason: str | None) -> AbortReason | None:
    """Return why we ended it; what its watchdog did alone is a time limit as well."""
    if reason is None:
        return None
    return AbortReason(reason) if reason in set(AbortReason) else AbortReason.TIMEOUT


def assembled(settings: Settings) -> Dispatch:
    """Return the keeper's own door to the store and the broker."""
    names = {name for machine in MACHINES.values() for name in machine.effects}
    return Dispatch(settings, MACHINES, make_app(settings, tuple(sorted(names))))


def main() -> None:
    """Take over what a brief names, say so, and go on alone."""
    brief = read_brief(Path(sys.argv[1]))
    heard, told = os.pipe()
    if os.fork():
        os.close(told)
        said = os.read(heard, 4_096).decode(errors="replace")
        if said != "kept":
            sys.stderr.write(said or "it ended without a word")
            sys.stderr.flush()
        # At once: what was imported has nothing to tidy up, and the keeper is waited for.
        os._exit(0 if said == "kept" else 1)
    os.close(heard)
    os.setsid()
    log = os.open(Path(brief.papers) / "keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        keeper = Keeper(brief, assembled(read_settings()))
    except (KernelError, ValueError) as refusal:
        os.write(told, f"{type(refusal).__name__}: {refusal}".encode()[:4_000])
        os._exit(1)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.write(told, b"kept")
    os.close(told)
    keeper.keep()


if __name__ == "__main__":
    main()
