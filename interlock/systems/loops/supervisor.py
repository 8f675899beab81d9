"""Supervises one session of a long-lived agent: sends its mail, and fires how it ended.

The fork server starts it with the path of its launch spec as sys.argv[1]; it outlives the worker
that asked for it. The agent's command waits behind a gate until the transition session_started is
committed: that commit delivers the mail, and only then does the command read its prompt.
"""

from __future__ import annotations

import re
import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlock import CallError, EffectWork, KernelError, Outcome
from interlock.git.errors import GitError
from interlock.git.private_copy import bring_commits, bring_in, sandbox_of
from interlock.git.repository import Repository
from interlock.git.worktree import Worktree
from interlock.system.agents import (
    STREAMS,
    AgentBlocked,
    AgentFailed,
    AgentProcess,
    AgentReady,
    Command,
    Exit,
    MailSent,
    Progress,
    RejectedLine,
    ReportKinds,
    Sandbox,
    SpawnError,
    SplitRequested,
    Supervisor,
    UsageAdded,
    environment_of_work,
    last_words,
    supervise,
)
from interlock.system.records import Records
from interlock.systems.loops.launch_spec import SessionLaunchSpec
from interlock.systems.loops.machines.effects import SESSION
from interlock.systems.loops.machines.loop.data import LoopData
from interlock.systems.loops.machines.loop.names import Trigger
from interlock.systems.loops.mailbox import Mailbox
from interlock.systems.loops.paths import AgentPaths, name_of
from interlock.systems.loops.session_prompt import read_prompt

STOP_GRACE_S = 3.0  # from SIGTERM until SIGKILL, for a session that is stopped
# The table's timer `grace` ends an interrupted session, so the process itself has no limit here.
INTERRUPT_GRACE_S = 86_400.0
DETAIL_LENGTH_MAX = 4_000  # characters of the last output of a session that failed
PLAIN_WORD = re.compile(r"[\w./+-]+")
INTERRUPTED, STOPPED = "interrupted", "stopped"
SPAWN_ERROR = "spawn_error"  # the code of a session that never began
# Reports that it is ready, then waits for a line on stdin before it runs the agent's command ($1).
# A program ($2) that does not exist ends it before that: such a session never starts.
GATE = """\
if [ -n "$2" ] && ! type -- "$2" >/dev/null 2>&1; then
  printf '%s: there is no such command\\n' "$2" >&2
  exit 127
fi
printf '{"type": "ready"}\\n' >&"$INTERLOCK_REPORT_FD"
IFS= read -r go || exit 75
exec bash -c "$1"
"""


class SessionSupervisor(Supervisor):
    """Supervises one attempt to run a session."""

    def __init__(self, spec: SessionLaunchSpec, records: Records) -> None:
        super().__init__(spec, records, "loop", SESSION)
        self.spec = spec
        self.stream = STREAMS["interlock"](ReportKinds.AGENT)
        self.work: EffectWork[LoopData] = self.adopt("loop", SESSION, spec.key, spec.token)
        self.name = name_of(self.work.record.id)
        paths = AgentPaths(self.work.record.id, records.settings)
        self.tree = Worktree(paths.branch, Path(spec.worktree), "", present=True)
        self.mailbox = Mailbox(records)
        self.prompt = ""
        self.ready = self.started = False
        self.failed: AgentFailed | None = None
        self.mails_sent = 0
        self.began_at = 0.0

    def run(self) -> None:
        """Run the session to its end and fire its outcome."""
        with self.heartbeat.holding(self.work.held):
            self.work.fire_or_settle(self._run_session())

    def _run_session(self) -> Outcome:
        """Run the session, and return its outcome."""
        try:
            command = self._command()
            self.prompt = read_prompt(self.work_folder, self.spec.prompt, self.spec.digest)
        except (GitError, KernelError, OSError) as refusal:
            return Outcome(Trigger.SESSION_ERROR, {"code": SPAWN_ERROR, "detail": str(refusal)})
        leases = (self.work,)
        self.began_at = time.monotonic()
        try:
            ended = self.run_command(
                command, lambda: leases, read=self._read_reports, act=self._act
            )
        except SpawnError as refusal:
            return Outcome(Trigger.SESSION_ERROR, {"code": SPAWN_ERROR, "detail": str(refusal)})
        finally:
            with suppress(GitError, OSError):  # the next prompt tries it again
                bring_in(self._repository(), self.tree)
        return self._outcome(ended)

    def _command(self) -> Command:
        """Return the command of the session. Raises GitError, KernelError, OSError."""
        spec, prompt = self.spec, self.work_folder / self.spec.prompt
        confined = sandbox_of(self._repository(), self.tree)
        variables = {
            "INTERLOCK_AGENT": self.name,
            "INTERLOCK_SESSION": str(spec.session_seq),
            "INTERLOCK_PROMPT_FILE": str(prompt),
        }
        return Command(
            arguments=("bash", "-c", GATE, "session", spec.command, _program(spec.command)),
            folder=Path(spec.worktree),
            environment=environment_of_work(variables),
            output=self.work_folder / "output.log",
            errors=self.work_folder / "errors.log",
            process_label=spec.process_label,
            sandbox=confined and confined.with_more(shown=[(prompt, prompt)]),
            more_follows=True,
        )

    def _repository(self) -> Repository:
        sandbox = Sandbox.open(self.records.settings)
        return Repository.open(Path(self.work.record.data["repo"]), sandbox=sandbox)

    def _act(self, process: AgentProcess) -> None:
        """Obey an order to stop or to interrupt, and start the session when it is ready."""
        if self.work.stopped.is_set():
            process.end(STOPPED, grace_s=STOP_GRACE_S)
        elif self.ready and not self.started:
            self._start_session(process)
        elif self.work.interrupted.is_set():
            process.end(INTERRUPTED, grace_s=INTERRUPT_GRACE_S)

    def _start_session(self, process: AgentProcess) -> None:
        """Commit that the session has started, and only then send its command the prompt."""
        fields: dict[str, Any] = {"session_seq": self.spec.session_seq, "pid": process.pid}
        fields |= {"containment": process.containment}
        try:
            self.work.fire(Outcome(Trigger.SESSION_STARTED, fields))
        except KernelError:
            # The lease was lost or the store did not answer in time: the session never started.
            process.end(STOPPED, grace_s=0)
            return
        self.started = True
        process.send(f"go\n{self.prompt}", last=True)

    def _read_reports(self, process: AgentProcess) -> None:
        for line in process.reports():
            for report in self.stream.feed(line):
                match report:
                    case AgentReady():
                        self.ready = True
                    case MailSent():
                        self._send_mail(report)
                    case AgentFailed():
                        self.failed = self.failed or report
                    case Progress():
                        fields = {"message": report.message, "percent": report.percent}
                        self._note("progress", fields)
                    case UsageAdded():
                        self._count_usage(report)
                    case RejectedLine():
                        self._refuse(report.reason, ends=report.ends)
                    case _:
                        why = f"{type(report).__name__} is for agents that work on tasks"
                        self._refuse(why, ends=isinstance(report, AgentBlocked | SplitRequested))

    def _refuse(self, reason: str, *, ends: bool) -> None:
        """Note a refused report. One that the work ends without success fails the session."""
        self._note("report_refused", {"reason": reason})
        if ends:
            self.failed = self.failed or AgentFailed(f"a report is refused: {reason}")

    def _send_mail(self, mail: MailSent) -> None:
        self._show_commits()
        self.mails_sent += 1
        op_id = f"{self.spec.key}:{self.mails_sent}"
        if mail.id:  # a later session of this life may send it again
            op_id = f"{self.work.record.id}:mail:{mail.id}"
        fields: dict[str, Any] = {
            name: value
            for name in ("kind", "urgent", "thread", "reply_to")
            if (value := getattr(mail, name))
        }

        def send() -> str:
            return self.mailbox.send(mail.to, mail.text, sender=self.name, op_id=op_id, **fields)

        try:
            sent = self.work.retried(send)
        except CallError as refusal:
            self._note("mail_refused", {"to": mail.to, "reason": str(refusal)})
        except KernelError as refusal:
            self._note("mail_lost", {"to": mail.to, "reason": str(refusal)})
        else:
            self._note("mail_sent", {"to": mail.to, "mail": sent})

    def _show_commits(self) -> None:
        """Bring what was committed so far to the agent's branch, where a recipient looks for it."""
        try:
            bring_commits(self._repository(), self.tree)
        except (GitError, KernelError, OSError) as refusal:
            self._note("commits_not_shown", {"reason": str(refusal)})

    def _count_usage(self, usage: UsageAdded) -> None:
        if usage.deltas:
            with suppress(KernelError):
                self.records.note(self.work.record, "usage", {}, deltas=usage.deltas)

    def _note(self, kind: str, detail: dict[str, Any]) -> None:
        with suppress(KernelError):
            self.work.audit(kind, detail)

    def _outcome(self, ended: Exit) -> Outcome:
        fields: dict[str, Any] = {
            "exit_code": ended.code,
            "ran_s": round(time.monotonic() - self.began_at, 3),
        }
        if self.started and self.failed is None and ended.code == 0:
            return Outcome(Trigger.SESSION_SUCCEEDED, fields)
        if not self.started:
            code, detail = SPAWN_ERROR, "it ended before its session began"
            detail = ended.errors.strip() or detail
        elif self.failed is not None:
            code, detail = "failed", self.failed.error
            if self.failed.retry_after_s:
                fields["retry_after_s"] = self.failed.retry_after_s
        else:
            code = ended.reason_by_us or "exit"
            detail = ended.lease_error or ended.errors.strip() or f"it ended with {ended.code}"
        detail = last_words(detail, self.records.settings, DETAIL_LENGTH_MAX)
        return Outcome(Trigger.SESSION_ERROR, {**fields, "code": code, "detail": detail})


def _program(command: str) -> str:
    """Return the program that a command begins with if it is a plain word, else ''."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        first = lexer.get_token() or ""
    except ValueError:
        return ""
    # The shell itself reports what is wrong with expansions, assignments and quotes.
    return first if PLAIN_WORD.fullmatch(first) else ""


def main() -> None:
    """Take over the session that the launch spec names, and run it."""
    supervise(SessionLaunchSpec, SessionSupervisor)
