"""Keeps one session of a long-lived agent: lease, orders, mail that it sends, its end.

A forker forks it, with its spec as sys.argv[1]. It outlives whoever started it, and decides
nothing.
The agent's command waits behind a gate until the table says that its session has started: only then
is its mail delivered, and only then does it read its prompt.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from interlock.kernel.errors import CallError, FencedError, KernelError
from interlock.kernel.machines import MACHINES
from interlock.kernel.machines.loops.effects import SESSION
from interlock.kernel.store.commands import Jot
from interlock.workers.config import PREFIX, environment_of_work, read_settings
from interlock.workers.engine.dispatch import Dispatch, assembled
from interlock.workers.engine.heartbeat import Heartbeat
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.loops.launch_spec import SessionLaunchSpec
from interlock.workers.loops.mailbox import Mailbox
from interlock.workers.loops.paths import name_of
from interlock.workers.loops.prompt import read_prompt
from interlock.workers.processes.agent.process import AgentProcess, Exit, Logs, SpawnError
from interlock.workers.supervision.launch import hand_over
from interlock.workers.supervision.reports import Failed, MailSent, Progress, Ready, Rejected, Usage
from interlock.workers.supervision.streams import STREAMS

POLL_S = 0.1
STOP_GRACE_S = 3.0
# An order to stop, or the lease's end, cuts it short: how long it has is the table's word.
INTERRUPT_GRACE_S = 86_400.0
DETAIL_LENGTH_MAX = 4_000
PLAIN = re.compile(r"[\w./+-]+")
INTERRUPTED, STOPPED = "interrupted", "stopped"
# Says that it is there, and begins when it is told to; a command that does not exist is no session.
GATE = """\
if [ -n "$2" ] && ! type -- "$2" >/dev/null 2>&1; then
  printf '%s: there is no such command\\n' "$2" >&2
  exit 127
fi
printf '{"type": "ready"}\\n' >&"$INTERLOCK_REPORT_FD"
IFS= read -r go || exit 75
exec bash -c "$1"
"""


class SessionSupervisor:
    """One attempt to run a session."""

    def __init__(self, spec: SessionLaunchSpec, dispatch: Dispatch) -> None:
        self.spec, self.dispatch = spec, dispatch
        self.work_folder = Path(spec.work_folder)
        self.stream = STREAMS["interlock"]()
        asked_at = time.monotonic()
        effect = dispatch.effect("loop", SESSION.name)
        holder = f"{dispatch.holder}:{os.getpid()}"
        lease = dispatch.leases.adopt(
            spec.key, effect, spec.token, nonce=uuid4().hex[:8], holder=holder
        )
        self.work = Work(
            dispatch,
            Resources(dispatch.settings),
            MACHINES["loop"],
            lease,
            lease_ms=effect.lease_ms,
            asked_at=asked_at,
        )
        self.name = name_of(self.work.record.id)
        self.mailbox = Mailbox(dispatch)
        lease_s = effect.lease_ms / 1_000
        self.heartbeat = Heartbeat(lambda: dispatch.leases, lease_s=lease_s, begin=lambda: None)
        self.prompt = ""
        self.ready = self.started = False
        self.failed: Failed | None = None
        self.mails_sent = 0
        self.began = self.armed = 0.0

    def run(self) -> None:
        """Run the session to its end, and tell what became of it."""
        self.heartbeat.hold(self.work.held)
        try:
            self.prompt = read_prompt(self.work_folder, self.spec.prompt, self.spec.digest)
            process = self._launched()
        except (SpawnError, OSError) as refusal:
            self._tell(Outcome("session_error", {"code": "spawn_error", "detail": str(refusal)}))
            return
        with process:
            ended = self._followed(process)
        self._tell(self._outcome(ended))

    def _launched(self) -> AgentProcess:
        spec, own = self.spec, {"AGENT": self.name, "SESSION": str(self.spec.session_seq)}
        own["PROMPT_FILE"] = str(self.work_folder / spec.prompt)
        told = {f"{PREFIX}{name}": value for name, value in own.items()}
        self.began = time.monotonic()
        return AgentProcess.start(
            ["bash", "-c", GATE, "session", spec.command, _program(spec.command)],
            folder=Path(spec.worktree),
            environment=environment_of_work(told),
            prompt="",
            more_follows=True,
            hears_output=False,
            logs=Logs(
                self.work_folder / "output.log",
                self.work_folder / "errors.log",
                self.dispatch.settings.agent_log_bytes_max,
            ),
            mark=spec.key,
            kill_by=self._kill_by(),
        )

    def _kill_by(self) -> float:
        """Return when all must be dead if nothing is renewed any more, on this machine's clock."""
        return self.work.held.good_until + SESSION.grace_ms / 2_000

    # --- while it runs -------------------------------------------------------------------------

    def _followed(self, process: AgentProcess) -> Exit:
        while True:
            ended = process.wait(POLL_S)
            self._hear(process)
            if ended is not None:
                return ended
            if self._kill_by() > self.armed + 1:
                self.armed = self._kill_by()
                process.arm(self.armed)
            if self.work.stopped.is_set():
                process.end(STOPPED, grace_s=STOP_GRACE_S)
            elif self.ready and not self.started:
                self._begin(process)
            elif self.work.interrupted.is_set():
                process.end(INTERRUPTED, grace_s=INTERRUPT_GRACE_S)

    def _begin(self, process: AgentProcess) -> None:
        """Tell that the session has started, and only then let its command read its mail."""
        told = {"session_seq": self.spec.session_seq, "pid": process.pid}
        try:
            self.work.fire(Outcome("session_started", {**told, "containment": process.containment}))
        except KernelError:
            # It was taken away, or the store is gone for good: it never began.
            process.end(STOPPED, grace_s=0)
            return
        self.started = True
        process.send(f"go\n{self.prompt}", last=True)

    def _hear(self, process: AgentProcess) -> None:
        for line in process.reports():
            for report in self.stream.feed(line):
                match report:
                    case Ready():
                        self.ready = True
                    case MailSent():
                        self._post(report)
                    case Failed():
                        self.failed = self.failed or report
                    case Progress():
                        self._note("said", {"message": report.message, "percent": report.percent})
                    case Usage():
                        self._used(report)
                    case Rejected():
                        self._note("report_refused", {"reason": report.reason})
                    case _:
                        why = f"{type(report).__name__} is for agents that work on tasks"
                        self._note("report_refused", {"reason": why})

    def _post(self, mail: MailSent) -> None:
        self.mails_sent += 1
        op_id = f"{self.spec.key}:{self.mails_sent}"
        about: dict[str, Any] = {
            name: value
            for name in ("kind", "urgent", "thread", "reply_to")
            if (value := getattr(mail, name))
        }

        def send() -> str:
            return self.mailbox.send(mail.to, mail.text, sender=self.name, op_id=op_id, **about)

        try:
            sent = self.work.patiently(send)
        except CallError as refusal:
            self._note("mail_refused", {"to": mail.to, "reason": str(refusal)})
        except KernelError as refusal:
            self._note("mail_lost", {"to": mail.to, "reason": str(refusal)})
        else:
            self._note("mail_sent", {"to": mail.to, "mail": sent})

    def _used(self, usage: Usage) -> None:
        if usage.deltas:
            jot = Jot("usage", {}, deltas=usage.deltas)
            with suppress(KernelError):
                self.dispatch.note(self.work.record, jot, op_id=uuid4().hex)

    def _note(self, kind: str, detail: dict[str, Any]) -> None:
        with suppress(KernelError):
            self.work.audit(kind, detail)

    # --- the end -------------------------------------------------------------------------------

    def _outcome(self, ended: Exit) -> Outcome:
        told: dict[str, Any] = {
            "exit_code": ended.code,
            "ran_s": round(time.monotonic() - self.began, 3),
        }
        if not self.started:
            said = ended.errors.strip() or "it ended before its session began"
            return Outcome("session_error", {**told, "code": "spawn_error", "detail": _last(said)})
        if self.failed is not None:
            told |= {"code": "failed", "detail": _last(self.failed.error)}
            if self.failed.retry_after_s:
                told["retry_after_s"] = self.failed.retry_after_s
            return Outcome("session_error", told)
        if ended.code == 0:
            return Outcome("session_succeeded", told)
        words = ended.errors.strip() or f"it ended with {ended.code}"
        return Outcome(
            "session_error", {**told, "code": ended.reason_by_us or "exit", "detail": _last(words)}
        )

    def _tell(self, outcome: Outcome) -> None:
        """Tell how the session ended; of one that was taken away, that nothing of it is left."""
        try:
            self.work.fire(outcome)
        except FencedError:
            with suppress(KernelError):
                self.work.late(outcome)
                answer = self.dispatch.leases.settle(self.work.lease, self.dispatch.render)
                self.dispatch.publish(answer.owed)
        self.heartbeat.drop(self.work.held)


def _last(said: str) -> str:
    return said[-DETAIL_LENGTH_MAX:]


def _program(command: str) -> str:
    """Return the program that a command begins with, where that is a plain word; else nothing."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    try:
        first = words.get_token() or ""
    except ValueError:
        return ""
    # Expansions, assignments and quotes are the shell's: it says itself what is wrong with them.
    return first if PLAIN.fullmatch(first) else ""


def main() -> None:
    """Take over what a spec names, say so, and go on alone."""
    spec = SessionLaunchSpec.read(Path(sys.argv[1]))
    hand_over(Path(spec.work_folder), lambda: SessionSupervisor(spec, assembled(read_settings())))
