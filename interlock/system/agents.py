"""An agent's process under a lease: its command, its reports, its end, and its logs.

A handler hands its lease over to a supervisor, a process of its own, which goes on when the worker
ends. The supervisor runs the agent's command, reads the lines that the agent reports, and fires the
outcome:

    def translate(work: EffectWork) -> Outcome | None:
        home = work.records.settings.home.absolute()
        folder = home / "translations" / work.record.id
        hand_over(work, "translating.agent", folder)  # to `main` of that module
        return None

    class Translator(AgentSupervisor):
        machine, effect = "translation", TRANSLATING
        error = ""

        def command(self) -> Command:
            folder = Path(self.work.record.data["folder"])
            return Command(
                arguments=("my-agent",),
                folder=folder,
                variables={},
                sandbox=Sandbox.open(self.records.settings),
            )

        def on_progress(self, message: str, percent: int | None) -> None:
            self.work.note("progress", {"message": message, "percent": percent})

        def on_failed(self, failure: AgentFailed) -> None:
            self.error = failure.error

        def outcome(self, ended: Exit) -> Outcome:
            if self.error or ended.code:
                return self.failure(self.error or f"exit code {ended.code}")
            return Outcome(Trigger.DONE)

        def failure(self, error: str) -> Outcome:
            return Outcome(Trigger.FAILED, {"error": error})

    main = Translator.supervise

`command` prepares the work. What the agent prints is in the logs `output.log` and `errors.log` of
the work folder, which the row `outputs` of the system finds. `outcome` says what came of it, and
`failure` what is fired where `command` or `outcome` raises a GitError, CallError or OSError, or the
agent cannot be started. Any other error, as of a store that does not answer, ends the supervisor. A
`ReportListener` has the methods that hear reports. A `Supervisor` alone is for several leases or
commands. If it ends without an outcome, its processes are killed, and the sweep of orphans does
what the record's state says of a lost effect.

After some ends `outcome` is not called. An effect of `Terminal(cleanup=)` removes at every end what
the agent has left, such as a worktree. It waits for the end of the agent where both effects are
`exclusive`.

A command that needs no supervisor runs itself: with `run_bound` in a handler, under its lease; with
`run_contained` where it checks work; with `run` where it reads an input and answers soon.

`Client.logs` and `Client.tail` read the output, and a `LivePart` shows it on a page. What agents
print may have secrets: `records.redaction` hides them. tests/seventh/translating has all of it.
"""

from __future__ import annotations

from interlock.workers.processes.agent.process import (
    AgentProcess,
    Exit,
)
from interlock.workers.processes.sandbox import Sandbox
from interlock.workers.supervision.agent_supervisor import AgentSupervisor
from interlock.workers.supervision.command import check_command
from interlock.workers.supervision.launch import (
    LaunchSpec,
    hand_over,
)
from interlock.workers.supervision.leftovers import kill_leftovers
from interlock.workers.supervision.listener import ReportListener
from interlock.workers.supervision.report_writer import ReportWriter
from interlock.workers.supervision.reports import AgentFailed, UsageAdded
from interlock.workers.supervision.supervisor import Supervisor
from interlock.workers.supervision.work_command import Command

__all__ = [
    "AgentFailed",
    "AgentProcess",
    "AgentSupervisor",
    "Command",
    "Exit",
    "LaunchSpec",
    "ReportListener",
    "ReportWriter",
    "Sandbox",
    "Supervisor",
    "UsageAdded",
    "check_command",
    "hand_over",
    "kill_leftovers",
]
