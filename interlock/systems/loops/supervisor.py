"""Supervises one session of a long-lived agent: sends its mail, and fires how it ended.

The fork server starts it with the path of its launch spec as sys.argv[1]; it outlives the worker
that asked for it. The agent's command waits behind a gate until the transition session_started is
committed: that commit delivers the mail, and only then does the command read its prompt.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlock import CallError, EffectWork, KernelError, Outcome
from interlock.git.errors import GitError
from interlock.git.private_copy import bring_commits, bring_in, sandbox_of
from interlock.git.repository import Repository
from interlock.git.worktree import Worktree
from interlock.system.agents import (
    AgentFailed,
    AgentProcess,
    AgentSupervisor,
    Command,
    Exit,
    LaunchSpec,
    Sandbox,
    UsageAdded,
)
from interlock.system.records import Records
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
INTERRUPTED = "interrupted"
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


class SessionSupervisor(AgentSupervisor):
    """Supervises one attempt to run a session."""

    machine, effect = "loop", SESSION
    # The others are for agents that work on tasks.
    accepted = ("ready", "failed", "progress", "usage", "mail")
    grace_s = STOP_GRACE_S
    work: EffectWork[LoopData]

    def __init__(self, spec: LaunchSpec, records: Records) -> None:
        super().__init__(spec, records)
        self.data: LoopData = self.work.record.data  # at the start: later ones have no prompt
        self.name = name_of(self.work.record.id)
        paths = AgentPaths(self.work.record.id, records.settings)
        self.tree = Worktree(paths.branch, Path(self.data["worktree"]), "", present=True)
        self.mailbox = Mailbox(records)
        self.prompt = ""
        self.ready = self.started = False
        self.failed: AgentFailed | None = None
        self.mails_sent = 0
        self.began_at = 0.0

    def failure(self, error: str) -> Outcome:
        """Return the outcome of a session that cannot be run."""
        return Outcome(Trigger.SESSION_ERROR, {"code": SPAWN_ERROR, "detail": error})

    def run_agent(self, command: Command) -> Exit:
        """Run the session, and bring what it leaves in its copy to the repository."""
        self.began_at = time.monotonic()
        try:
            return super().run_agent(command)
        finally:
            with suppress(GitError, OSError):  # the next prompt tries it again
                bring_in(self._repository(), self.tree)

    def command(self) -> Command:
        """Return the command of the session. Raises GitError, KernelError, OSError."""
        data, prompt = self.data, self.work_folder / self.data["prompt"]
        self.prompt = read_prompt(self.work_folder, data["prompt"], data["digest"])
        confined = sandbox_of(self._repository(), self.tree)
        variables = {
            "INTERLOCK_AGENT": self.name,
            "INTERLOCK_SESSION": str(data["session_seq"]),
            "INTERLOCK_PROMPT_FILE": str(prompt),
        }
        return Command(
            arguments=("bash", "-c", GATE, "session", data["command"], _program(data["command"])),
            folder=self.tree.folder,
            variables=variables,
            sandbox=confined and confined.with_more(shown=[(prompt, prompt)]),
            more_follows=True,
        )

    def _repository(self) -> Repository:
        sandbox = Sandbox.open(self.records.settings)
        return Repository.open(Path(self.work.record.data["repo"]), sandbox=sandbox)

    def act(self, process: AgentProcess) -> None:
        """Obey an order to stop or to interrupt, and start the session when it is ready."""
        if self.work.stopped.is_set():
            super().act(process)
        elif self.ready and not self.started:
            self._start_session(process)
        elif self.work.interrupted.is_set():
            process.end(INTERRUPTED, grace_s=INTERRUPT_GRACE_S)

    def _start_session(self, process: AgentProcess) -> None:
        """Commit that the session has started, and only then send its command the prompt."""
        fields: dict[str, Any] = {"session_seq": self.data["session_seq"], "pid": process.pid}
        fields |= {"containment": process.containment}
        try:
            self.work.fire(Outcome(Trigger.SESSION_STARTED, fields))
        except KernelError:
            # The lease was lost or the store did not answer in time: the session never started.
            process.end("stopped", grace_s=0)
            return
        self.started = True
        process.send(f"go\n{self.prompt}", last=True)

    def on_ready(self) -> None:
        """Let the session start."""
        self.ready = True

    def on_failed(self, failure: AgentFailed) -> None:
        """Let the session fail with the first reason."""
        self.failed = self.failed or failure

    def on_progress(self, message: str, percent: int | None) -> None:
        """Note the progress."""
        self._note("progress", {"message": message, "percent": percent})

    def on_used(self, usage: UsageAdded) -> None:
        """Count what was used."""
        if usage.deltas:
            with suppress(KernelError):
                self.records.note(self.work.record, "usage", {}, deltas=usage.deltas)

    def on_rejected(self, reason: str, *, ends: bool) -> None:
        """Note a refused report. One that the work ends without success fails the session."""
        self._note("report_refused", {"reason": reason})
        if ends:
            self.on_failed(AgentFailed(f"a report is refused: {reason}"))

    def on_mail(self, to: str, text: str, once: str, fields: Mapping[str, Any]) -> None:
        """Send mail, after what it tells of can be seen."""
        self._show_commits()
        self.mails_sent += 1
        op_id = f"{self.work.key}:{self.mails_sent}"
        if once:  # a later session of this life may send it again
            op_id = f"{self.work.record.id}:mail:{once}"

        def send() -> str:
            return self.mailbox.send(to, text, sender=self.name, op_id=op_id, **fields)

        try:
            sent = self.work.retried(send)
        except CallError as refusal:
            self._note("mail_refused", {"to": to, "reason": str(refusal)})
        except KernelError as refusal:
            self._note("mail_lost", {"to": to, "reason": str(refusal)})
        else:
            self._note("mail_sent", {"to": to, "mail": sent})

    def _show_commits(self) -> None:
        """Bring what was committed so far to the agent's branch, where a recipient looks for it."""
        try:
            bring_commits(self._repository(), self.tree)
        except (GitError, KernelError, OSError) as refusal:
            self._note("commits_not_shown", {"reason": str(refusal)})

    def _note(self, kind: str, detail: dict[str, Any]) -> None:
        with suppress(KernelError):
            self.work.audit(kind, detail)

    def outcome(self, ended: Exit) -> Outcome:
        """Return how the session ended."""
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
        detail = self.records.redaction.text(detail)[-DETAIL_LENGTH_MAX:]
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


main = SessionSupervisor.supervise
